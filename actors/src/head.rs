//! The one pointer that every read starts from.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use nearhead_chain::window::Snapshot;

/// Shared, atomically swapped pointer to the present [`Snapshot`]; written by the head tracker alone.
///
/// It is swapped before anybody is told of a new head, so whoever hears of a block can read it.
#[derive(Clone, Debug, Default)]
pub struct Head(Arc<ArcSwapOption<Snapshot>>);

impl Head {
    /// The present view; `None` until the first block is there.
    #[must_use]
    pub fn load(&self) -> Option<Arc<Snapshot>> {
        self.0.load_full()
    }

    /// Makes `snapshot` the present view.
    pub(crate) fn store(&self, snapshot: Arc<Snapshot>) {
        self.0.store(Some(snapshot));
    }
}
