//! A count that is bounded and shared: of open sessions, of their subscriptions, or of filters.

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
        self.take_many(1, most)
    }

    /// Counts this many more, unless there would be more than `most`.
    pub(super) fn take_many(&self, taken: usize, most: usize) -> Option<Counted> {
        let more = |count: usize| count.checked_add(taken).filter(|count| *count <= most);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Counted {
            count: self.clone(),
            taken,
        })
    }

    /// How many there are.
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One or more in a count, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    count: SharedCount,
    taken: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.taken, Ordering::Relaxed);
    }
}
