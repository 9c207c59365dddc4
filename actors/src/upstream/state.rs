//! State that is not resident: fetched from the upstreams, verified against the block's state root,
//! and kept.
//!
//! Reads that need the same state share one fetch, a single flight.

mod counts;
mod fetch;
mod single_flight;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use alloy_primitives::{Address, B256, U256};
use nearhead_chain::trie::State;
use tokio::{runtime::Handle, sync::mpsc, task::JoinSet};

pub use counts::StateCounts;

use super::{
    client::{NegativeCache, UpstreamClient},
    health::FaultReport,
    standing::Standing,
};
use crate::{
    admission::{FairPermits, Panics},
    budget::CallBudget,
    messages::{QueryError, Reply},
};
use single_flight::{SingleFlight, Wanted};

/// Accounts of one read that are fetched concurrently. The bound lets other reads have their turn
/// during a read of a thousand accounts.
const ACCOUNTS_AT_ONCE: usize = 16;

/// The block whose state is read. Upstreams are asked by its hash: after a reorg, its number names
/// another block.
#[derive(Clone, Debug)]
pub struct BlockRef {
    /// Its hash.
    pub hash: B256,
    /// Its number, for log lines.
    pub number: u64,
    /// Its state, of which a part is resident; fetched parts are added to it.
    pub state: Arc<State>,
}

/// The source of missing state. Clones share it.
#[derive(Clone, Debug)]
pub struct StateSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    upstreams: Vec<StateUpstream>,
    runtime: Handle,
    standing: Arc<Standing>,
    fault_reports: mpsc::Sender<FaultReport>,
    single_flight: SingleFlight,
    counts: StateCounts,
    panics: Panics,
}

#[derive(Debug)]
struct StateUpstream {
    client: UpstreamClient,
    /// Whether it lacked the state of a served block; remembered so that not every read logs it.
    state_pruned: NegativeCache,
}

impl StateSource {
    /// A source with these upstreams, which are in the operator's order. Calls run on `runtime`;
    /// `standing` decides which upstream is asked first. Faults go to `fault_reports` while there
    /// is room.
    #[must_use]
    pub(crate) fn new(
        upstreams: Vec<UpstreamClient>,
        runtime: Handle,
        standing: Arc<Standing>,
        fault_reports: mpsc::Sender<FaultReport>,
    ) -> Self {
        let upstreams = upstreams.into_iter().map(|client| StateUpstream {
            client,
            state_pruned: NegativeCache::default(),
        });
        Self {
            shared: Arc::new(Shared {
                upstreams: upstreams.collect(),
                runtime,
                standing,
                fault_reports,
                single_flight: SingleFlight::default(),
                counts: StateCounts::default(),
                panics: Panics::default(),
            }),
        }
    }

    /// Counts of reads and of calls.
    #[must_use]
    pub fn counts(&self) -> &StateCounts {
        &self.shared.counts
    }

    /// The count of panics in fetches; reads count theirs in it too.
    pub(crate) fn panics(&self) -> &Panics {
        &self.shared.panics
    }

    /// Fetches these accounts with these slots, and their code if `with_code`; each account takes a
    /// permit of all reads and one of the tenant's budget, and all take their calls from the budget
    /// first. Afterwards they can be read, unless they were evicted meanwhile.
    ///
    /// Dropping the future aborts the fetches that no other read waits for.
    ///
    /// # Errors
    /// [`QueryError::StateUnavailable`]: no upstream has it. [`QueryError::Unavailable`]: no permit
    /// is free, the budget is used up, or an upstream that may have it limits our rate.
    pub async fn complete(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        wanted: &[(Address, Vec<U256>)],
        with_code: bool,
    ) -> Reply<()> {
        // One call proves an account with its slots; another one gets its code.
        let calls_each = 1 + usize::from(with_code);
        budget.take_calls(wanted.len() * calls_each, Instant::now())?;
        let mut left = wanted.iter();
        let mut in_progress = JoinSet::new();
        loop {
            while in_progress.len() < ACCOUNTS_AT_ONCE
                && let Some((address, slots)) = left.next()
            {
                let permit = permits.take(budget.share())?;
                let wanted = Wanted {
                    state_root: block.state.root(),
                    address: *address,
                    slots: slots.clone(),
                    with_code,
                };
                let waiter = self.shared.single_flight.join(wanted, |wanted, end| {
                    let (shared, block) = (Arc::clone(&self.shared), block.clone());
                    self.shared.runtime.spawn(async move {
                        let fetch = shared.fetch(&block, &wanted);
                        let fetched = shared.panics.catch_async(fetch).await;
                        let fetched = fetched.unwrap_or(Err(QueryError::Panicked));
                        // Sending fails only if no read waits any more.
                        let _ = end.send(Some(fetched));
                    })
                });
                in_progress.spawn(async move {
                    let end = waiter.end().await;
                    drop(permit);
                    end
                });
            }
            match in_progress.join_next().await {
                None => return Ok(()),
                Some(Ok(end)) => end?,
                // Unreachable in practice: the task neither panics nor is aborted.
                Some(Err(_)) => return Err(QueryError::Unavailable),
            }
        }
    }
}
