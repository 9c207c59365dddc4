//! One fetch for all reads that need the same state, or the same access list, at the same time.

use std::{collections::HashMap, fmt, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use nearhead_chain::{block::Block, trie::WantedProof};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

use crate::{
    admission::Callers,
    messages::{QueryError, Reply},
    saved::WantedState,
    share::Share,
};

/// What a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    State,
    AccessList,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "state",
            Self::AccessList => "access list",
        })
    }
}

/// Who needs what is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asks {
    /// A read of this process, which first looks whether another process has it.
    Client,
    /// Another process, which has found that none has it.
    OtherProcess,
}

/// What one fetch gets; fetches of equal values for the same are shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// A part of the state.
    Account(Arc<WantedAccount>),
    /// Many accounts, asked for in few requests.
    Accounts(Arc<WantedAccounts>),
    /// An access list.
    AccessList(ListRef),
}

impl Wanted {
    /// The accounts of it; `None` for an access list.
    pub(super) fn parts(&self) -> Option<Vec<WantedState>> {
        match self {
            Self::Account(wanted) => Some(vec![WantedState {
                address: wanted.address,
                slots: wanted.slots.clone(),
                with_code: wanted.with_code,
            }]),
            Self::Accounts(wanted) => {
                let accounts = wanted.batches.iter().flatten().cloned();
                // As they are fetched: with the code of those without slots.
                let wanted = accounts.map(|(address, slots)| WantedState {
                    address,
                    with_code: slots.is_empty(),
                    slots,
                });
                Some(wanted.collect())
            }
            Self::AccessList(_) => None,
        }
    }

    pub(super) const fn subject(&self) -> Subject {
        match self {
            Self::Account(_) | Self::Accounts(_) => Subject::State,
            Self::AccessList(_) => Subject::AccessList,
        }
    }
}

/// Accounts and slots of each, with the code of those without slots, in batches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WantedAccounts {
    pub(super) state_root: B256,
    pub(super) batches: Vec<Vec<WantedProof>>,
}

/// An account, slots of it, and its code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WantedAccount {
    pub(super) state_root: B256,
    pub(super) address: Address,
    pub(super) slots: Vec<U256>,
    pub(super) with_code: bool,
}

/// A block's access list: what names it, and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListRef {
    /// The block's hash.
    pub(crate) block: B256,
    /// The list's hash, in the block's header.
    pub(crate) hash: B256,
    /// The block's gas limit, which bounds the list.
    pub(super) gas_limit: u64,
}

impl ListRef {
    /// That of a block; `None` if it is older than access lists.
    pub(crate) fn of(block: &Block) -> Option<Self> {
        Some(Self {
            block: block.hash,
            hash: block.header.block_access_list_hash?,
            gas_limit: block.header.gas_limit,
        })
    }
}

/// How a fetch ended; `None` while it is in progress.
pub(super) type End = Option<Reply<()>>;

/// The fetches in progress. Each has a waiter, so there are no more than accounts and lists being
/// read.
#[derive(Clone, Debug, Default)]
pub(super) struct SingleFlight {
    in_progress: Arc<Mutex<InProgress>>,
}

#[derive(Debug, Default)]
struct InProgress {
    /// A fetch for this process may wait for another one, which may wait for this one's nodes: it
    /// must not wait for itself.
    flights: HashMap<(Asks, Wanted), Flight>,
    begun: u64,
}

/// One fetch.
#[derive(Debug)]
struct Flight {
    /// Distinguishes it from a later fetch of what is equal.
    number: u64,
    waiting: usize,
    /// The tenants of those that wait or have waited.
    callers: Callers,
    end: watch::Receiver<End>,
    task: AbortHandle,
}

/// A read that waits for a fetch. The last waiter that is dropped before the end aborts the fetch.
#[derive(Debug)]
pub(super) struct Waiter {
    flights: SingleFlight,
    key: (Asks, Wanted),
    number: u64,
    end: watch::Receiver<End>,
}

impl SingleFlight {
    /// Joins a tenant to the fetch of what is wanted, or begins one. `begin` spawns its task, which
    /// sends the result.
    pub(super) fn join(
        &self,
        asks: Asks,
        share: Share,
        wanted: Wanted,
        begin: impl FnOnce(Callers, Wanted, watch::Sender<End>) -> JoinHandle<()>,
    ) -> Waiter {
        let key = (asks, wanted);
        let mut in_progress = self.in_progress.lock();
        if let Some(flight) = in_progress.flights.get_mut(&key)
            && flight.is_in_progress()
        {
            flight.waiting += 1;
            flight.callers.add(share);
            let (number, end) = (flight.number, flight.end.clone());
            return self.waiter(key, number, end);
        }
        in_progress.begun += 1;
        let number = in_progress.begun;
        let (sender, end) = watch::channel(None);
        let callers = Callers::of(share);
        let flight = Flight {
            number,
            waiting: 1,
            callers: callers.clone(),
            end: end.clone(),
            task: begin(callers, key.1.clone(), sender).abort_handle(),
        };
        in_progress.flights.insert(key.clone(), flight);
        self.waiter(key, number, end)
    }

    /// The number of fetches in progress.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.in_progress.lock().flights.len()
    }

    /// The number of waiters of all fetches.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let in_progress = self.in_progress.lock();
        in_progress
            .flights
            .values()
            .map(|flight| flight.waiting)
            .sum()
    }

    fn waiter(&self, key: (Asks, Wanted), number: u64, end: watch::Receiver<End>) -> Waiter {
        Waiter {
            flights: self.clone(),
            key,
            number,
            end,
        }
    }
}

impl Flight {
    /// Whether its result is still to come. A later read needs a new fetch, because the state may
    /// have been evicted.
    fn is_in_progress(&self) -> bool {
        self.end.borrow().is_none() && self.end.has_changed().is_ok()
    }
}

impl Waiter {
    /// Waits for the result.
    pub(super) async fn end(mut self) -> Reply<()> {
        let end = self.end.wait_for(Option::is_some).await;
        // Fails if the task panicked or the runtime has ended.
        let end = end.ok().and_then(|end| end.clone());
        end.unwrap_or(Err(QueryError::Unavailable))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut in_progress = self.flights.in_progress.lock();
        let Some(flight) = in_progress.flights.get_mut(&self.key) else {
            return;
        };
        if flight.number != self.number {
            return;
        }
        flight.waiting -= 1;
        if flight.waiting == 0 {
            flight.task.abort();
            in_progress.flights.remove(&self.key);
        }
    }
}
