//! A count of open sessions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Open sessions; cloning shares the count.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionCount(Arc<AtomicUsize>);

impl SessionCount {
    /// Counts one more session, unless `most` are open already.
    pub(super) fn take(&self, most: usize) -> Option<Counted> {
        let one_more = |open: usize| (open < most).then_some(open + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Counted(self.clone()))
    }

    /// Sessions that are open.
    #[cfg(test)]
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One session in a count, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(SessionCount);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
