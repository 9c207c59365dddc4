//! Methods that an upstream does not have.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Remembers for five minutes that an upstream cannot do something, so that the call or its log
/// line is not repeated. After that it is tried again: a URL may stand for several nodes, and nodes
/// are upgraded.
#[derive(Debug, Default)]
pub(in crate::upstream) struct UnsupportedMethod(Mutex<Option<Instant>>);

impl UnsupportedMethod {
    const REMEMBERED_FOR: Duration = Duration::from_secs(300);

    /// Whether it was recorded within the last five minutes.
    pub(in crate::upstream) fn is_known(&self, now: Instant) -> bool {
        self.0
            .lock()
            .is_some_and(|noted| now.saturating_duration_since(noted) < Self::REMEMBERED_FOR)
    }

    /// Records it, and returns whether it is new.
    pub(in crate::upstream) fn note(&self, now: Instant) -> bool {
        let is_new = !self.is_known(now);
        *self.0.lock() = Some(now);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_method_is_tried_again() {
        let (unsupported, now) = (UnsupportedMethod::default(), Instant::now());
        assert!(!unsupported.is_known(now));
        assert!(unsupported.note(now));
        let last = now + UnsupportedMethod::REMEMBERED_FOR - Duration::from_secs(1);
        assert!(unsupported.is_known(last) && !unsupported.note(last));
        let next = last + UnsupportedMethod::REMEMBERED_FOR;
        assert!(!unsupported.is_known(next) && unsupported.note(next));
    }
}
