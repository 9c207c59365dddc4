//! One fetch for all who want the same at the same time.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinHandle},
};

use crate::messages::{QueryError, Reply};

/// What is fetched together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) state_root: B256,
    pub(super) address: Address,
    pub(super) slots: Vec<U256>,
    pub(super) with_code: bool,
}

/// How a fetch ended; `None` before.
pub(super) type End = Option<Reply<()>>;

/// The fetches under way: no more than there are accounts under way, for each has somebody who
/// waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct SingleFlight {
    under_way: Arc<Mutex<UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    flights: HashMap<Arc<Wanted>, Flight>,
    begun: u64,
}

/// One fetch.
#[derive(Debug)]
struct Flight {
    /// Tells it from a later one for the same.
    number: u64,
    waiting: usize,
    end: watch::Receiver<End>,
    task: AbortHandle,
}

/// A place on a flight. The last who leaves before its end aborts it.
#[derive(Debug)]
pub(super) struct Waiter {
    flights: SingleFlight,
    wanted: Arc<Wanted>,
    number: u64,
    end: watch::Receiver<End>,
}

impl SingleFlight {
    /// Joins the fetch of what is wanted, or begins one: `begin` starts the task that tells how it
    /// ended.
    pub(super) fn join(
        &self,
        wanted: Wanted,
        begin: impl FnOnce(Arc<Wanted>, watch::Sender<End>) -> JoinHandle<()>,
    ) -> Waiter {
        let wanted = Arc::new(wanted);
        let mut under_way = self.under_way.lock();
        if let Some(flight) = under_way.flights.get_mut(&wanted)
            && flight.is_under_way()
        {
            flight.waiting += 1;
            let (number, end) = (flight.number, flight.end.clone());
            return self.waiter(wanted, number, end);
        }
        under_way.begun += 1;
        let number = under_way.begun;
        let (sender, end) = watch::channel(None);
        let flight = Flight {
            number,
            waiting: 1,
            end: end.clone(),
            task: begin(Arc::clone(&wanted), sender).abort_handle(),
        };
        under_way.flights.insert(Arc::clone(&wanted), flight);
        self.waiter(wanted, number, end)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.under_way.lock().flights.len()
    }

    /// How many wait, for all of them.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        let under_way = self.under_way.lock();
        under_way
            .flights
            .values()
            .map(|flight| flight.waiting)
            .sum()
    }

    fn waiter(&self, wanted: Arc<Wanted>, number: u64, end: watch::Receiver<End>) -> Waiter {
        Waiter {
            flights: self.clone(),
            wanted,
            number,
            end,
        }
    }
}

impl Flight {
    /// Whether its end is still to be told: who comes after it needs another, for what it brought
    /// may be evicted.
    fn is_under_way(&self) -> bool {
        self.end.borrow().is_none() && self.end.has_changed().is_ok()
    }
}

impl Waiter {
    /// Waits for the end.
    pub(super) async fn end(mut self) -> Reply<()> {
        let end = self.end.wait_for(Option::is_some).await;
        // An error: the task is gone, with the runtime or by a panic.
        let end = end.ok().and_then(|end| end.clone());
        end.unwrap_or(Err(QueryError::Unavailable))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut under_way = self.flights.under_way.lock();
        let Some(flight) = under_way.flights.get_mut(&self.wanted) else {
            return;
        };
        if flight.number != self.number {
            return;
        }
        flight.waiting -= 1;
        if flight.waiting == 0 {
            flight.task.abort();
            under_way.flights.remove(&self.wanted);
        }
    }
}
