//! The one pointer that every read starts from.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use nearhead_chain::window::Snapshot;

/// Shared, atomically swapped pointer to the present [`Snapshot`]; written by the head tracker
/// alone.
///
/// It is swapped before anybody is told of a new head, so whoever hears of a block can read it.
#[derive(Clone, Debug, Default)]
pub struct Head {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    stored_at: Arc<ArcSwapOption<Instant>>,
}

impl Head {
    /// The present view; `None` until the first block is there.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// How long ago the head last changed; `None` until the first block is there. What is put below
    /// it does not count.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.stored_at.load().as_ref().map(|at| at.elapsed())
    }

    /// Makes `snapshot` the present view and gives back the one before.
    pub(crate) fn store(&self, snapshot: Arc<Snapshot>) -> Option<Arc<Snapshot>> {
        let head = snapshot.head().hash;
        let before = self.snapshot.swap(Some(snapshot));
        if before
            .as_ref()
            .is_none_or(|before| before.head().hash != head)
        {
            self.stored_at.store(Some(Arc::new(Instant::now())));
        }
        before
    }
}

/// Views that were replaced and that a request may still read.
///
/// Whoever drops the last handle to a view pays for freeing what only that view held: megabytes of
/// JSON and of state. So the head tracker keeps a handle of its own until it is the only one left,
/// and pays on its own thread.
#[derive(Debug, Default)]
pub(crate) struct RetiredSnapshots(VecDeque<Arc<Snapshot>>);

impl RetiredSnapshots {
    /// Views that are kept at most. A reader that still holds one when this many were replaced
    /// after it (a slow bulk query during a burst of blocks) frees it itself: memory is bounded
    /// first.
    const KEPT_MAX: usize = 32;

    /// Keeps a replaced view and frees those that nobody else holds any more.
    pub(crate) fn push(&mut self, replaced: Arc<Snapshot>) {
        self.0.push_back(replaced);
        self.release();
        while self.0.len() > Self::KEPT_MAX {
            self.0.pop_front();
        }
    }

    /// Frees the views that nobody else holds: with one handle left there is nobody who could make
    /// another.
    pub(crate) fn release(&mut self) {
        self.0.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// Number of views that are still read.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
