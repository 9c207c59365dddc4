use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// Whether the store of tenants works; cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct StoreState(Arc<ArcSwapOption<String>>);

impl StoreState {
    /// Why the store fails; `None` if it works.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<String>> {
        self.0.load_full()
    }

    pub(super) fn set(&self, failure: Option<String>) {
        self.0.store(failure.map(Arc::new));
    }
}
