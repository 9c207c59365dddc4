//! Calls of contracts: run by the EVM on the state after a block, off the workers.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
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
use tracing::Instrument;

use super::{
    now_or_later::NowOrLater, pool::PoolQuery, resources::ReadResources, traced::handle_traced,
};
use crate::{
    admission::{CpuTime, Entry, MAILBOX_CAPACITY},
    messages::{CallTask, Called, QueryError, Reply, RunCall},
    step,
    upstream::{BlockRef, PendingHint},
};

/// Time that a call is estimated to take; a tenant is charged for what it has taken.
const CALL_WORK: Duration = Duration::from_micros(200);
/// CPU time after which a run is given up and begun again on a thread for calls that take long: no
/// short call waits for a whole long one. Most calls take a tenth of it.
const SLICE: Duration = Duration::from_millis(2);
/// Time that a call that takes long is estimated to take.
const LONG_CALL_WORK: Duration = Duration::from_millis(20);

/// Fetches of one call: each gets all that a run of it lacked, in one round trip to a node that
/// takes batches if that is not much. A run goes on as far as it gets, so most need two to four.
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

handle_traced!(CallActor: RunCall);

impl Handler<RunCall> for CallActor {
    type Result = NowOrLater<Result<Called, CallError>>;

    fn handle(&mut self, call: RunCall, _: &mut Context<Self>) -> Self::Result {
        let resources = self.resources.clone();
        NowOrLater::later(async move {
            let (cancel, deadline) = (call.cancel.clone(), call.deadline);
            let panics = resources.admission.panics();
            let run = pin!(run(&resources, call));
            let run = panics.catch_async(run);
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
    let place = BlockRef::of(&block).ok_or(QueryError::NoState { number })?;
    let state = Arc::clone(&place.state);
    let share = call.budget.share();
    let budget = call.budget.clone();
    let mut query = PlacedCall {
        call: Arc::new(call),
        block,
        state,
        takes_long: false,
    };
    let (mut entry, mut fetches, mut hint) = (Entry::New, 0, None::<PendingHint>);
    loop {
        let run = query.clone();
        let ran = match query.takes_long {
            false => {
                let pool = &resources.pool.calls;
                pool.run(run, share, CALL_WORK, entry).await
            }
            true => {
                let pool = resources.pool.long_calls()?;
                pool.run(run, share, LONG_CALL_WORK, entry).await
            }
        };
        let Run::Ended(reply) = ran? else {
            query.takes_long = true;
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
            Some(hint) => hinted_beyond(missing, hint.get().await),
            None => Vec::new(),
        };
        let lacks_contracts = missing.iter().any(|(_, slots)| slots.is_empty());
        if fetches == HINTED_FETCH && lacks_contracts {
            let call = query.call.task.call();
            hint = call.and_then(|call| source.hint(&budget, &place, call));
        }
        let span = step!("fetch", accounts = missing.len(), block = number);
        let fetch = async {
            tokio::join!(
                source.prefetch(permits, &budget, &place, missing),
                source.prefetch_hinted(permits, &budget, &place, hinted),
            )
        };
        let (fetched, ()) = fetch.instrument(span).await;
        fetched?;
        // The calls to upstreams are paid for: it is not refused any more.
        entry = Entry::Again;
    }
}

/// What a hint names besides what is missing.
fn hinted_beyond(missing: &[WantedProof], mut hint: Vec<WantedProof>) -> Vec<WantedProof> {
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
    /// Whether it is known to take long.
    takes_long: bool,
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
        if self.takes_long {
            return self.run_within(gas, cancel).map(Run::Ended);
        }
        let until = CpuTime::now().used() + SLICE;
        let slice = cancel.child_until(move || CpuTime::now().used() >= until);
        let gas_before = gas.used();
        match self.run_within(gas, &slice) {
            Err(QueryError::Cancelled) if !cancel.is_cancelled() => {
                // It begins again, and its gas is counted then.
                gas.set_back(gas_before);
                Ok(Run::TakesLong)
            }
            ended => ended.map(Run::Ended),
        }
    }
}

impl PlacedCall {
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

#[cfg(all(test, feature = "all-tests"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Instant;

    use actix::Actor as _;
    use nearhead_chain::{
        call::Call,
        window::{BlockId, BlockNumberOrTag, BlockTag},
    };

    use tokio::time::timeout;

    use super::*;
    use crate::{budget::CallBudget, read::ask, test_chain::Chain};

    /// Who lets connections in is told how long calls wait for a thread. The rules of this window's
    /// chain are not known, which a thread finds out.
    #[actix::test]
    async fn calls_that_wait_for_a_thread_are_told() {
        let chain = Chain::start();
        let actor = CallActor::new(chain.resources.clone()).start();
        let later = Instant::now() + Duration::from_secs(60);
        let wait = || chain.resources.pool_wait(later);
        let occupied = chain.occupy();
        let call = RunCall {
            snapshot: Arc::clone(&chain.snapshot),
            budget: CallBudget::default(),
            at: BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest)),
            task: CallTask::Output(Call::default()),
            gas: GasMeter::default(),
            deadline: later,
            cancel: Cancellation::default(),
        };
        let called = actix::spawn(async move { ask(&actor, call).await });
        let waits = async {
            while wait().is_zero() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), waits).await.unwrap();
        assert!(wait() > Duration::from_secs(30));
        occupied.release().await;
        let called = called.await.unwrap().unwrap();
        assert!(matches!(called, Err(CallError::OtherRules)), "{called:?}");
        assert!(wait().is_zero());
    }
}
