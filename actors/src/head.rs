//! The one pointer that every read starts from.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use nearhead_chain::window::Snapshot;

/// The shared pointer to the current [`Snapshot`]. Only the head tracker writes it.
///
/// It is swapped before a new head is announced, so the head of every announcement is readable.
#[derive(Clone, Debug, Default)]
pub struct Head {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    changed_at: Arc<ArcSwapOption<Instant>>,
}

impl Head {
    /// The current snapshot; `None` before the first block.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// How long ago the head last changed; `None` before the first block. Blocks added below it do
    /// not count.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.changed_at.load().as_ref().map(|at| at.elapsed())
    }

    /// Makes `snapshot` the current one and returns the one before.
    pub(crate) fn store(&self, snapshot: Arc<Snapshot>) -> Option<Arc<Snapshot>> {
        let head = snapshot.head().hash;
        let before = self.snapshot.swap(Some(snapshot));
        if before
            .as_ref()
            .is_none_or(|before| before.head().hash != head)
        {
            self.changed_at.store(Some(Arc::new(Instant::now())));
        }
        before
    }
}

/// Replaced snapshots that a request may still read.
///
/// The thread that drops the last handle to a snapshot frees megabytes of JSON and state. The head
/// tracker keeps a handle until it has the last one, so that its own thread does this work and no
/// worker does.
#[derive(Debug, Default)]
pub(crate) struct RetiredSnapshots(VecDeque<Arc<Snapshot>>);

impl RetiredSnapshots {
    /// The largest number of snapshots kept. A reader that holds an older one (a slow query
    /// during a burst of blocks) frees it itself: bounded memory comes first.
    const KEPT_MAX: usize = 32;

    /// Keeps a replaced snapshot, and frees those that nothing else holds.
    pub(crate) fn push(&mut self, replaced: Arc<Snapshot>) {
        self.0.push_back(replaced);
        self.release();
        while self.0.len() > Self::KEPT_MAX {
            self.0.pop_front();
        }
    }

    /// Frees the snapshots that nothing else holds: without another handle, no new one can be
    /// cloned.
    pub(crate) fn release(&mut self) {
        self.0.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// The number of snapshots still in use.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
