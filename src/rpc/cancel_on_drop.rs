//! Ties work that is done elsewhere to the request that waits for it.

use nearhead_chain::log_search::Cancellation;

/// Cancels a query when the request is dropped because its client went away; after the answer it
/// does nothing.
#[derive(Debug, Default)]
pub(super) struct CancelOnDrop(Cancellation);

impl CancelOnDrop {
    /// What the query looks at.
    pub(super) fn token(&self) -> Cancellation {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
