//! A count that is bounded and shared: of open sessions, or of their subscriptions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A count; cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedCount(Arc<AtomicUsize>);

impl SharedCount {
    /// Counts one more, unless there are `most` already.
    pub(crate) fn take(&self, most: usize) -> Option<Counted> {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Counted(self.clone()))
    }

    /// How many there are.
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One in a count, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(SharedCount);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
