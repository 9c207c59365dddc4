//! Cancels a query when the request that waits for it is dropped.

use nearhead_chain::log_search::Cancellation;

/// Dropping it cancels the query, which has no effect once the query is answered. It is dropped
/// earlier if the client goes away.
#[derive(Debug, Default)]
pub(super) struct CancelOnDrop(Cancellation);

impl CancelOnDrop {
    /// The token that the query checks.
    pub(super) fn token(&self) -> Cancellation {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
