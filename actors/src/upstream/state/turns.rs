//! Turns for what calls of contracts ask of nodes, so that they leave some to other reads.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Batches of all calls together that are asked for at a time, each in two requests at most.
const BATCHES_AT_ONCE: usize = 8;
/// Hints of all calls together that are asked for at a time: a node runs the call for each.
const HINTS_AT_ONCE: usize = 2;

/// The turns of all calls.
#[derive(Debug)]
pub(super) struct Turns {
    batches: Arc<Semaphore>,
    hints: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            batches: Arc::new(Semaphore::new(BATCHES_AT_ONCE)),
            hints: Arc::new(Semaphore::new(HINTS_AT_ONCE)),
        }
    }
}

impl Turns {
    /// Waits for a turn of a batch of accounts.
    pub(super) async fn batch(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.batches).acquire_owned().await.ok()
    }

    /// Takes a turn of a hint, if one is free.
    pub(super) fn hint(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.hints).try_acquire_owned().ok()
    }
}
