//! State that is not held: fetched from the upstreams, verified against the block's state root, then
//! kept.

mod counts;
mod fetch;
mod single_flight;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256};
use nearhead_chain::trie::State;
use tokio::{runtime::Handle, sync::mpsc, task::JoinSet};

pub use counts::StateCounts;

use super::{
    client::{UnsupportedMethod, UpstreamClient},
    health::FaultReport,
    standing::Standing,
};
use crate::{
    admission::Permits,
    messages::{QueryError, Reply},
};
use single_flight::{SingleFlight, Wanted};

/// Accounts of one read that are fetched at the same time: a read of a thousand accounts leaves
/// turns to others.
const ACCOUNTS_AT_ONCE: usize = 16;

/// The block whose state is wanted. An upstream is asked by its hash: its number names another block
/// after a reorg.
#[derive(Clone, Debug)]
pub struct BlockRef {
    /// Its hash.
    pub hash: B256,
    /// Its number, for log lines.
    pub number: u64,
    /// Its state, held in part. The handle keeps what is brought.
    pub state: Arc<State>,
}

/// Where missing state comes from; cloning shares it.
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
}

#[derive(Debug)]
struct StateUpstream {
    client: UpstreamClient,
    /// Whether it said that it does not have a method which gives state.
    state_unsupported: UnsupportedMethod,
    /// Whether it did not have the state of a block that is served: said now and then, for it may
    /// be so at every read.
    state_pruned: UnsupportedMethod,
}

impl StateSource {
    /// State from these upstreams, in the operator's order. Calls run on `runtime`; `standing` says who
    /// is asked first, and who is not; what upstreams do wrong is told to `fault_reports`, as far as there
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
            state_unsupported: UnsupportedMethod::default(),
            state_pruned: UnsupportedMethod::default(),
        });
        Self {
            shared: Arc::new(Shared {
                upstreams: upstreams.collect(),
                runtime,
                standing,
                fault_reports,
                single_flight: SingleFlight::default(),
                counts: StateCounts::default(),
            }),
        }
    }

    /// What was read and what was fetched.
    #[must_use]
    pub fn counts(&self) -> &StateCounts {
        &self.shared.counts
    }

    /// Fetches these accounts with these slots of them, and their code; each account with a permit
    /// of `permits`. When it is done they can be read, unless they were evicted since.
    ///
    /// Dropping the future gives up what nobody else waits for.
    ///
    /// # Errors
    /// [`QueryError::StateUnavailable`]: no upstream has it. [`QueryError::Unavailable`]: no permit is
    /// free, or an upstream that may have it is asked too much.
    pub async fn complete(
        &self,
        permits: &Permits,
        block: &BlockRef,
        wanted: &[(Address, Vec<U256>)],
        with_code: bool,
    ) -> Reply<()> {
        let mut left = wanted.iter();
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < ACCOUNTS_AT_ONCE
                && let Some((address, slots)) = left.next()
            {
                let permit = permits.take(1)?;
                let wanted = Wanted {
                    state_root: block.state.root(),
                    address: *address,
                    slots: slots.clone(),
                    with_code,
                };
                let waiter = self.shared.single_flight.join(wanted, |wanted, end| {
                    let (shared, block) = (Arc::clone(&self.shared), block.clone());
                    self.shared.runtime.spawn(async move {
                        // Nobody waits any more where it cannot be sent.
                        let _ = end.send(Some(shared.fetch(&block, &wanted).await));
                    })
                });
                under_way.spawn(async move {
                    let end = waiter.end().await;
                    drop(permit);
                    end
                });
            }
            match under_way.join_next().await {
                None => return Ok(()),
                Some(Ok(end)) => end?,
                // It does not panic, and nobody else aborts it.
                Some(Err(_)) => return Err(QueryError::Unavailable),
            }
        }
    }
}
