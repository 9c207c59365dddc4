//! The one pointer that every read starts from.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use nearhead_chain::window::Snapshot;

/// Shared, atomically swapped pointer to the present [`Snapshot`]; written by the head tracker alone.
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

    /// How long ago the view last changed; `None` until the first block is there.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.stored_at.load().as_ref().map(|at| at.elapsed())
    }

    /// Makes `snapshot` the present view.
    pub(crate) fn store(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(Some(snapshot));
        self.stored_at.store(Some(Arc::new(Instant::now())));
    }
}
