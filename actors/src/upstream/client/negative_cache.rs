//! What an upstream cannot do.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Remembers for five minutes that an upstream cannot do something, so that the call or its log
/// line is not repeated. After that it is tried again: a URL may stand for several backends, and
/// upstreams are upgraded.
#[derive(Debug, Default)]
pub(in crate::upstream) struct NegativeCache(Mutex<Option<Instant>>);

impl NegativeCache {
    const REMEMBERED_FOR: Duration = Duration::from_secs(300);

    /// Whether it was recorded within the last five minutes.
    pub(in crate::upstream) fn is_known(&self, now: Instant) -> bool {
        self.0
            .lock()
            .is_some_and(|at| now.saturating_duration_since(at) < Self::REMEMBERED_FOR)
    }

    /// Records it, and returns whether it is new.
    pub(in crate::upstream) fn record(&self, now: Instant) -> bool {
        let is_new = !self.is_known(now);
        *self.0.lock() = Some(now);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upstream_cannot_do_is_forgotten_after_five_minutes() {
        let (cache, now) = (NegativeCache::default(), Instant::now());
        assert!(!cache.is_known(now));
        assert!(cache.record(now));
        let last = now + NegativeCache::REMEMBERED_FOR - Duration::from_secs(1);
        assert!(cache.is_known(last) && !cache.record(last));
        let next = last + NegativeCache::REMEMBERED_FOR;
        assert!(!cache.is_known(next) && cache.record(next));
    }
}
