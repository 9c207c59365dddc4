//! Methods that an upstream does not have.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What an upstream said that it cannot do, so that it is not asked, or not complained of, for a while.
/// It is tried again: behind one URL there may be several upstreams, and one is replaced now and then.
#[derive(Debug, Default)]
pub(in crate::upstream) struct UnsupportedMethod(Mutex<Option<Instant>>);

impl UnsupportedMethod {
    const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(300);

    /// Whether it said so not long ago.
    pub(in crate::upstream) fn is_known(&self, now: Instant) -> bool {
        self.0
            .lock()
            .is_some_and(|said| now.saturating_duration_since(said) < Self::TRIED_AGAIN_AFTER)
    }

    /// It says so now; whether that is new.
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
    fn what_an_upstream_lacks_is_tried_again() {
        let (lacks, now) = (UnsupportedMethod::default(), Instant::now());
        assert!(!lacks.is_known(now));
        assert!(lacks.note(now));
        let last = now + UnsupportedMethod::TRIED_AGAIN_AFTER - Duration::from_secs(1);
        assert!(lacks.is_known(last) && !lacks.note(last));
        let next = last + UnsupportedMethod::TRIED_AGAIN_AFTER;
        assert!(!lacks.is_known(next) && lacks.note(next));
    }
}
