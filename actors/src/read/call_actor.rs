//! Calls of contracts: run by the EVM on the state after a block, off the workers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use actix::{Actor, Context, Handler, Supervised};
use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    call::{CallError, CallRunner, GasMeter, Place},
    log_search::Cancellation,
    trie::{State, WantedProof},
    window::Snapshot,
};
use tokio::runtime::Handle;

use super::{now_or_later::NowOrLater, pool::PoolQuery, resources::ReadResources};
use crate::{
    admission::{CpuTime, Entry, MAILBOX_CAPACITY},
    messages::{CallTask, Called, QueryError, Reply, RunCall},
    upstream::{BlockRef, PendingHint},
};

/// Time that a call is estimated to take; a tenant is charged for what it has taken.
const CALL_WORK: Duration = Duration::from_micros(200);
/// Time after which a run is given up and begun again on a thread for calls that take long: no
/// short call waits for a whole long one. Most calls take a tenth of it.
const SLICE: Duration = Duration::from_millis(2);
/// The longest slice, on a thread that gets little of its core.
const SLICE_MAX: Duration = Duration::from_secs(1);
/// Time that a call that takes long is estimated to take.
const LONG_CALL_WORK: Duration = Duration::from_millis(20);

/// Times that one call fetches missing state. Each time it goes on as far as it gets, so most need
/// two to four.
const FETCHES_MAX: usize = 64;
/// If a call still lacks whole accounts at this fetch, a node is asked what else it reads. A call
/// of one contract lacks that one first, and then only slots of it.
const HINTED_FETCH: usize = 2;

/// Runs calls; one on every worker's arbiter. Every call runs on a thread of the pool.
///
/// If a block's state is held in part, what a call lacks is fetched and the call is run again.
#[derive(Debug)]
pub struct CallActor {
    resources: ReadResources,
}

impl CallActor {
    pub(crate) const fn new(resources: ReadResources) -> Self {
        Self { resources }
    }

    #[cfg(test)]
    pub(crate) const fn panics(&self) -> &crate::admission::Panics {
        self.resources.admission.panics()
    }
}

impl Actor for CallActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for CallActor {}

impl Handler<RunCall> for CallActor {
    type Result = NowOrLater<Result<Called, CallError>>;

    fn handle(&mut self, call: RunCall, _: &mut Context<Self>) -> Self::Result {
        let resources = self.resources.clone();
        NowOrLater::later(async move {
            let (cancel, deadline) = (call.cancel.clone(), call.deadline);
            let panics = resources.admission.panics();
            let run = panics.catch_async(run(&resources, call));
            match tokio::time::timeout_at(deadline.into(), run).await {
                Ok(reply) => reply.unwrap_or(Err(QueryError::Panicked)),
                Err(_) => {
                    cancel.cancel();
                    Err(QueryError::Timeout)
                }
            }
        })
    }
}

/// Runs a call, and fetches what it lacks, until it lacks nothing.
async fn run(resources: &ReadResources, call: RunCall) -> Reply<Result<Called, CallError>> {
    let block = Arc::clone(call.snapshot.resolve_id(call.at)?);
    let number = block.number();
    let state = block.state.as_ref().ok_or(QueryError::NoState { number })?;
    let state = Arc::clone(state);
    let place = BlockRef {
        hash: block.hash,
        number,
        state: Arc::clone(&state),
    };
    let share = call.budget.share();
    let budget = call.budget.clone();
    let mut query = PlacedCall {
        call: Arc::new(call),
        block,
        state,
        timer: Some(Handle::current()),
    };
    let (mut entry, mut fetches, mut hint) = (Entry::New, 0, None);
    loop {
        let run = query.clone();
        let (pool, work) = match query.timer {
            Some(_) => (&resources.pool.calls, CALL_WORK),
            None => (resources.pool.long_calls()?, LONG_CALL_WORK),
        };
        let Run::Ended(reply) = pool.run(run, share, work, entry).await? else {
            // It is known to take long from now on.
            query.timer = None;
            continue;
        };
        let Err(CallError::Missing(missing)) = &reply else {
            return Ok(reply);
        };
        if fetches == FETCHES_MAX {
            return Err(QueryError::TooManyFetches { most: FETCHES_MAX });
        }
        fetches += 1;
        let Some(source) = &resources.state else {
            tracing::error!(number, "the state of a held block is not whole");
            return Err(QueryError::NoState { number });
        };
        let permits = &resources.admission.remote;
        let hinted = match hint.take() {
            Some(hint) => without(PendingHint::get(hint).await, missing),
            None => Vec::new(),
        };
        let lacks_contracts = missing.iter().any(|(_, slots)| slots.is_empty());
        if fetches == HINTED_FETCH && lacks_contracts {
            let call = query.call.task.call();
            hint = call.and_then(|call| source.hint(&budget, &place, call));
        }
        let (fetched, ()) = tokio::join!(
            source.prefetch(permits, &budget, &place, missing),
            source.prefetch_hinted(permits, &budget, &place, hinted),
        );
        fetched?;
        // The calls to upstreams are paid for: it is not refused any more.
        entry = Entry::Again;
    }
}

/// What a hint names besides what is missing.
fn without(mut hint: Vec<WantedProof>, missing: &[WantedProof]) -> Vec<WantedProof> {
    let missing = missing.iter().map(|(address, slots)| (address, slots));
    let missing: HashMap<_, _> = missing.collect();
    for (address, slots) in &mut hint {
        if let Some(missing) = missing.get(address) {
            let missing: HashSet<_> = missing.iter().collect();
            slots.retain(|slot| !missing.contains(slot));
        }
    }
    hint.retain(|(address, slots)| !slots.is_empty() || !missing.contains_key(address));
    hint
}

/// The hash of an ancestor of a block, by the blocks between them that are held.
fn ancestor(snapshot: &Snapshot, block: &Arc<Block>, number: u64) -> Option<B256> {
    let mut above = block;
    loop {
        let parent = above.header.parent_hash;
        match above.hash_of(number) {
            Some(hash) => return Some(hash),
            None if above.number() == number + 1 => return Some(parent),
            None => above = snapshot.by_hash(&parent)?,
        }
    }
}

/// A call at its block.
#[derive(Clone)]
struct PlacedCall {
    call: Arc<RunCall>,
    block: Arc<Block>,
    state: Arc<State>,
    /// The runtime whose timer ends a slice; `None` once the call is known to take long.
    timer: Option<Handle>,
}

/// A run of a call.
enum Run {
    /// It came to its end.
    Ended(Result<Called, CallError>),
    /// It did not end within its slice.
    TakesLong,
}

impl PoolQuery for PlacedCall {
    type Output = Run;

    fn cancellation(&self) -> &Cancellation {
        &self.call.cancel
    }

    fn run(&self) -> Reply<Run> {
        let RunCall { gas, cancel, .. } = &*self.call;
        let Some(timer) = &self.timer else {
            return self.run_within(gas, cancel).map(Run::Ended);
        };
        let mut slice = SLICE;
        loop {
            let began = CpuTime::now();
            let run = self.run_for(slice, timer);
            // A thread that has to wait for its core gets more time, and not a place behind calls
            // that take long.
            let is_starved = began.elapsed() < SLICE / 2;
            match run? {
                Run::TakesLong if is_starved && slice < SLICE_MAX => {
                    slice = (slice * 4).min(SLICE_MAX);
                }
                run => return Ok(run),
            }
        }
    }
}

impl PlacedCall {
    /// Runs the call for so much time. The gas of a run that is given up is not counted, because it
    /// begins again; its CPU time is.
    fn run_for(&self, slice: Duration, timer: &Handle) -> Reply<Run> {
        let RunCall { gas, cancel, .. } = &*self.call;
        let (given_up, gas_before) = (cancel.child(), gas.used());
        let over = timer.spawn({
            let given_up = given_up.clone();
            async move {
                tokio::time::sleep(slice).await;
                given_up.cancel();
            }
        });
        let ended = self.run_within(gas, &given_up);
        over.abort();
        match ended {
            Err(QueryError::Cancelled) if !cancel.is_cancelled() => {
                gas.set_back(gas_before);
                Ok(Run::TakesLong)
            }
            ended => ended.map(Run::Ended),
        }
    }

    /// Runs the call to its end, unless it is cancelled.
    fn run_within(
        &self,
        gas: &GasMeter,
        cancel: &Cancellation,
    ) -> Reply<Result<Called, CallError>> {
        let Self {
            call, block, state, ..
        } = self;
        let chain = call.snapshot.chain();
        let place = Place {
            block,
            state,
            ancestor: &|number| ancestor(&call.snapshot, block, number),
        };
        let runner = |task| CallRunner::new(chain, place, task, gas, cancel);
        let called = match &call.task {
            CallTask::Output(task) => {
                runner(task).and_then(|runner| runner.call().map(Called::Output))
            }
            CallTask::Gas(task) => {
                runner(task).and_then(|runner| runner.estimate().map(Called::Gas))
            }
            CallTask::AccessList(task) => {
                runner(task).and_then(|runner| runner.access_list().map(Called::AccessList))
            }
            CallTask::Blocks(simulation) => {
                let blocks = simulation.run(chain, place, gas, cancel);
                blocks.map(Called::Blocks)
            }
        };
        match called {
            Err(CallError::Cancelled) => Err(QueryError::Cancelled),
            called => Ok(called),
        }
    }
}
