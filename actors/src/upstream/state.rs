//! State that is not resident: fetched from the upstreams, verified against the block's state root,
//! and kept.
//!
//! Reads that need the same state share one fetch, a single flight. After each block, what it
//! changed is merged into what is held, so that a key that was read once stays held.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | `block_ref` | the block whose state is read |
//! | `fetch`, `single_flight` | the state that a read misses |
//! | `prefetch`, `turns` | what a call of a contract lacks, in few round trips |
//! | `hint` | what a node says that a call reads |
//! | `access_lists` | access lists of blocks |
//! | `following` | which block is merged, and when |
//! | `merging` | the merge of one block: what is proven, and what is computed |
//! | `change_sources` | what a node says that a block changed |
//! | `memory` | splits `--state-bytes` between held state and merges |
//! | `recent_keys` | the keys that were fetched last |
//! | `shared_state` | state and access lists that other processes hold too |
//! | `counts`, `merge_counts` | how often each ended how |

mod access_lists;
mod block_ref;
mod change_sources;
mod counts;
mod fetch;
pub(super) mod following;
mod hint;
mod memory;
mod merge_counts;
mod merging;
mod prefetch;
mod recent_keys;
mod shared_state;
mod single_flight;
mod turns;

#[cfg(test)]
mod tests;

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
    time::Instant,
};

use alloy_primitives::{Address, B256, U256};
use bytes::Bytes;
use nearhead_chain::trie::NodeStore;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::Instrument;

pub use block_ref::BlockRef;
pub use counts::StateCounts;
pub(crate) use hint::PendingHint;
pub use merge_counts::MergeCounts;
pub(crate) use shared_state::{Got, SharedState};
pub(crate) use single_flight::ListRef;

use super::{
    client::{NegativeCache, UpstreamClient},
    health::FaultReport,
    standing::Standing,
};
use crate::{
    admission::{FairPermits, Panics},
    budget::CallBudget,
    messages::{QueryError, Reply},
    saved::{MergedBlocks, Restored, SavedItems, SavedStatus, WantedState},
    share::Share,
    trace,
};
use access_lists::AccessLists;
use recent_keys::RecentKeys;
use single_flight::{Asks, SingleFlight, Waiter, Wanted, WantedAccount};
use turns::Turns;

/// Accounts of one read that are fetched concurrently. The bound lets other reads have their turn
/// during a read of a thousand accounts.
const ACCOUNTS_AT_ONCE: usize = 16;

/// How the state is kept current while blocks arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFollow {
    /// With the changes in a block's access list, or those that a node's tracer reports, else as
    /// [`Self::Proofs`].
    Auto,
    /// With proofs of the accounts that a block names, and of what was read last.
    Proofs,
    /// As [`Self::Auto`], with a node's witness in place of most proofs.
    Witness,
    /// Not at all: after a block, what is read is fetched again.
    Off,
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
    access_lists: AccessLists,
    turns: Turns,
    counts: StateCounts,
    merges: MergeCounts,
    recent: RecentKeys,
    /// The blocks whose changes are merged into what is held.
    merged: Arc<MergedBlocks>,
    /// The state that an earlier process has saved.
    items: Option<Arc<SavedItems>>,
    saved: Arc<SavedStatus>,
    store: Arc<NodeStore>,
    /// State that other processes hold too, if this one is in a fleet.
    others: OnceLock<Arc<dyn SharedState>>,
    /// The share of all other processes whose wants this one fetches.
    others_share: Share,
    panics: Panics,
}

#[derive(Debug)]
struct StateUpstream {
    client: UpstreamClient,
    /// Whether it lacked the state of a served block; remembered so that not every read logs it.
    state_pruned: NegativeCache,
    /// Whether it limited the calls for a merge; it is not asked for merges then.
    limits_merges: NegativeCache,
    /// Whether it failed to give a merge an access list; merges do not ask it for one then.
    gives_no_lists: NegativeCache,
}

/// An access list that another process wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListForOthers {
    /// The list.
    pub(crate) json: Bytes,
    /// Whether the fetch itself puts the list into the store.
    pub(crate) is_shared: bool,
}

impl StateSource {
    /// An empty store that, with what merges work on, takes so many bytes of memory. A recorded one
    /// says what is stored and dropped, for a copy on disk.
    pub(crate) fn store_of(state_bytes_max: usize, is_recorded: bool) -> Arc<NodeStore> {
        let held = memory::held_bytes_max(state_bytes_max);
        match is_recorded {
            true => NodeStore::recorded(held),
            false => NodeStore::bounded(held),
        }
    }

    /// A source with these upstreams, which are in the operator's order. Calls run on `runtime`;
    /// `standing` decides which upstream is asked first. Faults go to `fault_reports` while there
    /// is room. What an earlier process has saved is `restored` first.
    #[must_use]
    pub(crate) fn new(
        upstreams: Vec<UpstreamClient>,
        store: Arc<NodeStore>,
        runtime: Handle,
        standing: Arc<Standing>,
        fault_reports: mpsc::Sender<FaultReport>,
        restored: &Restored,
    ) -> Self {
        let upstreams = upstreams.into_iter().map(|client| StateUpstream {
            client,
            state_pruned: NegativeCache::default(),
            limits_merges: NegativeCache::default(),
            gives_no_lists: NegativeCache::default(),
        });
        Self {
            shared: Arc::new(Shared {
                upstreams: upstreams.collect(),
                runtime,
                standing,
                fault_reports,
                single_flight: SingleFlight::default(),
                access_lists: AccessLists::default(),
                turns: Turns::default(),
                counts: StateCounts::default(),
                merges: MergeCounts::default(),
                recent: RecentKeys::default(),
                merged: Arc::clone(&restored.merged),
                items: restored.items.clone(),
                saved: Arc::clone(&restored.status),
                store,
                others: OnceLock::new(),
                others_share: Share::default(),
                panics: Panics::default(),
            }),
        }
    }

    /// Shares state with other processes from now on.
    pub(crate) fn share_with(&self, others: Arc<dyn SharedState>) {
        if !self.shared.upstreams.is_empty() {
            self.shared.store.record_gained();
        }
        let is_first = self.shared.others.set(others).is_ok();
        debug_assert!(is_first, "state is shared once");
    }

    /// Counts of reads and of calls.
    #[must_use]
    pub fn counts(&self) -> &StateCounts {
        &self.shared.counts
    }

    /// Counts of merges.
    #[must_use]
    pub fn merges(&self) -> &MergeCounts {
        &self.shared.merges
    }

    /// What became of what an earlier process has saved, and of what this one saves.
    #[must_use]
    pub fn saved(&self) -> &SavedStatus {
        &self.shared.saved
    }

    /// The store that fetched state is kept in.
    #[must_use]
    pub fn store(&self) -> &NodeStore {
        &self.shared.store
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
    /// [`QueryError::StateUnavailable`]: no upstream has it. [`QueryError::Overloaded`]: no permit
    /// is free, the budget is used up, or upstreams that may have it limit our rate.
    /// [`QueryError::Unavailable`]: one that may have it is busy.
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
                self.shared.recent.add(*address, slots);
                let wanted = WantedAccount {
                    state_root: block.state.root(),
                    address: *address,
                    slots: slots.clone(),
                    with_code,
                };
                let waiter = self.join(budget, block, Wanted::Account(Arc::new(wanted)));
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

    /// The access list with this hash, as JSON, if it is held.
    pub(crate) fn held_access_list(&self, hash: &B256) -> Option<Bytes> {
        self.shared.access_lists.get(hash)
    }

    /// Holds an access list, as JSON.
    #[cfg(test)]
    pub(crate) fn hold_access_list(&self, hash: B256, json: Bytes) {
        self.shared.access_lists.insert(hash, json);
    }

    /// The access list of a block, as JSON. Its fetch takes one permit, which tenants share, and
    /// one call of the tenant's budget.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(crate) async fn access_list(
        &self,
        permits: &FairPermits,
        budget: &CallBudget,
        block: &BlockRef,
        list: ListRef,
    ) -> Reply<Bytes> {
        budget.take_calls(1, Instant::now())?;
        let _permit = permits.take(budget.share())?;
        let waiter = self.join(budget, block, Wanted::AccessList(list));
        waiter.end().await?;
        // It is not there any more if lists that were fetched at once fill all room.
        self.held_access_list(&list.hash)
            .ok_or(QueryError::Unavailable)
    }

    /// Fetches an account for another process, which has found that no other one has it. It takes
    /// no permit: the caller bounds how many are fetched at once.
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(crate) async fn fetch_for_others(
        &self,
        block: &BlockRef,
        wanted: WantedState,
    ) -> Reply<()> {
        self.shared.recent.add(wanted.address, &wanted.slots);
        let wanted = WantedAccount {
            state_root: block.state.root(),
            address: wanted.address,
            slots: wanted.slots,
            with_code: wanted.with_code,
        };
        let wanted = Wanted::Account(Arc::new(wanted));
        self.join_for_others(block, wanted).end().await
    }

    /// Fetches an access list for another process, as [`Self::fetch_for_others`].
    ///
    /// # Errors
    /// As [`Self::complete`].
    pub(crate) async fn fetch_list_for_others(
        &self,
        block: &BlockRef,
        list: ListRef,
    ) -> Reply<ListForOthers> {
        if let Some(json) = self.held_access_list(&list.hash) {
            return Ok(ListForOthers {
                json,
                is_shared: false,
            });
        }
        let wanted = Wanted::AccessList(list);
        let waiter = self.join_for_others(block, wanted);
        waiter.end().await?;
        let json = self.held_access_list(&list.hash);
        Ok(ListForOthers {
            json: json.ok_or(QueryError::Unavailable)?,
            is_shared: true,
        })
    }

    /// Joins a tenant to the fetch of what is wanted, or begins one.
    fn join(&self, budget: &CallBudget, block: &BlockRef, wanted: Wanted) -> Waiter {
        self.join_for(Asks::Client, budget.share(), block, wanted)
    }

    fn join_for_others(&self, block: &BlockRef, wanted: Wanted) -> Waiter {
        let share = self.shared.others_share;
        self.join_for(Asks::OtherProcess, share, block, wanted)
    }

    fn join_for(&self, asks: Asks, share: Share, block: &BlockRef, wanted: Wanted) -> Waiter {
        let begin = |callers, wanted, end: watch::Sender<_>| {
            let (shared, block) = (Arc::clone(&self.shared), block.clone());
            let fetch = async move {
                let fetch = pin!(shared.fetch(asks, &callers, &block, &wanted));
                let fetched = shared.panics.catch_async(fetch).await;
                let fetched = fetched.unwrap_or(Err(QueryError::Panicked));
                // Sending fails only if no read waits any more.
                let _ = end.send(Some(fetched));
            };
            // The calls are in the trace of the read that began the fetch.
            self.shared
                .runtime
                .spawn(fetch.instrument(trace::current()))
        };
        self.shared.single_flight.join(asks, share, wanted, begin)
    }
}
