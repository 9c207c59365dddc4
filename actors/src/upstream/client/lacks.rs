//! Methods that a node does not have.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What a node said that it cannot do, so that it is not asked, or not complained of, for a while.
/// It is tried again: behind one URL there may be several nodes, and one is replaced now and then.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Lacks(Mutex<Option<Instant>>);

impl Lacks {
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
    fn what_a_node_lacks_is_tried_again() {
        let (lacks, now) = (Lacks::default(), Instant::now());
        assert!(!lacks.is_known(now));
        assert!(lacks.note(now));
        let last = now + Lacks::TRIED_AGAIN_AFTER - Duration::from_secs(1);
        assert!(lacks.is_known(last) && !lacks.note(last));
        let next = last + Lacks::TRIED_AGAIN_AFTER;
        assert!(!lacks.is_known(next) && lacks.note(next));
    }
}
