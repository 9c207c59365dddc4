//! Turns for what calls of contracts ask of nodes, so that they leave some to other reads.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::{Callers, FairTurn, FairTurns, QUEUE_ITEMS_PER_TENANT_MAX};

/// Batches of all calls together that are asked for at a time, each in two requests at most.
const BATCHES_AT_ONCE: usize = 8;
/// Hints of all calls together that are asked for at a time: a node runs the call for each.
const HINTS_AT_ONCE: usize = 2;

/// The turns of all calls.
#[derive(Debug)]
pub(super) struct Turns {
    batches: FairTurns,
    hints: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            batches: FairTurns::new(BATCHES_AT_ONCE, QUEUE_ITEMS_PER_TENANT_MAX),
            hints: Arc::new(Semaphore::new(HINTS_AT_ONCE)),
        }
    }
}

impl Turns {
    /// Waits for a turn of a batch of accounts, which tenants share.
    pub(super) async fn batch(&self, callers: &Callers) -> Option<FairTurn> {
        self.batches.take(callers).await
    }

    /// Takes a turn of a hint, if one is free.
    pub(super) fn hint(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.hints).try_acquire_owned().ok()
    }
}
