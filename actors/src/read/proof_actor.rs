//! State and its proofs, at any block of the snapshot.

use std::{pin::pin, sync::Arc, time::Duration};

use actix::{Actor, Context, Handler, Supervised};
use alloy_primitives::{Address, Bytes, U256};
use alloy_trie::TrieAccount;
use nearhead_chain::{
    json::Json,
    trie::{State, TrieError},
};
use tracing::Instrument;

use super::{
    now_or_later::NowOrLater, pool::PoolQuery, resources::ReadResources, state_read::StateRead,
    traced::handle_traced,
};
use crate::{
    admission::{Admission, Entry, FairPermits, MAILBOX_CAPACITY, PROOF_KEY_NANOS, Panics},
    messages::{
        ProveAccount, QueryError, ReadAccount, ReadCode, ReadStorage, ReadStorageValues, Reply,
        is_missing,
    },
    step,
    upstream::{BlockRef, StateSource},
};

/// Keys and slots read on the worker's thread: at 5 to 10 µs each, 0.15 ms at most.
const WORKER_KEYS_MAX: usize = 16;

/// Times that one read fetches missing state. Once is enough unless the state is evicted before it
/// is read; a store in which that repeats is too small for its load.
const COMPLETIONS_MAX: usize = 3;

/// Answers from the state trie; one on every worker's arbiter. A read of many keys moves to the
/// pool.
///
/// If a block's state is held in part, the missing part is fetched and the read is run again.
#[derive(Debug)]
pub struct ProofActor {
    resources: ReadResources,
}

impl ProofActor {
    pub(crate) const fn new(resources: ReadResources) -> Self {
        Self { resources }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        self.resources.admission.panics()
    }

    /// Runs `read` on this thread.
    fn answer<R: StateRead>(&self, read: R, ctx: &mut Context<Self>) -> NowOrLater<R::Answer> {
        let reply = self.panics().guard(ctx, || read.answer());
        let Some(source) = &self.resources.state else {
            return NowOrLater::Now(reply);
        };
        source.counts().count_read(&reply);
        if !is_missing(&reply) {
            return NowOrLater::Now(reply);
        }
        let (admission, source) = (self.resources.admission.clone(), source.clone());
        NowOrLater::later(async move {
            let again = async || read.answer();
            complete(&admission, &source, &read, again).await
        })
    }

    /// Runs `read` on this thread if it has few keys, else on the pool.
    fn answer_or_move<R>(
        &self,
        read: R,
        keys: usize,
        ctx: &mut Context<Self>,
    ) -> NowOrLater<R::Output>
    where
        R: StateRead<Answer = <R as PoolQuery>::Output> + PoolQuery,
    {
        if keys <= WORKER_KEYS_MAX {
            return self.answer(read, ctx);
        }
        let work = Duration::from_nanos(keys.saturating_mul(PROOF_KEY_NANOS) as u64);
        let share = read.budget().share();
        let ReadResources {
            admission,
            pool,
            state,
            ..
        } = self.resources.clone();
        NowOrLater::later(async move {
            let Some(source) = state else {
                return pool.run(read, share, work, Entry::New).await;
            };
            let reply = pool.run(read.clone(), share, work, Entry::New).await;
            source.counts().count_read(&reply);
            if !is_missing(&reply) {
                return reply;
            }
            // While it waits for upstreams, the read has no place in the pool. Then their calls are
            // paid for: it is not refused any more because others have come first.
            let again = async || pool.run(read.clone(), share, work, Entry::Again).await;
            complete(&admission, &source, &read, again).await
        })
    }
}

/// Fetches the state that `read` lacks, and runs it again.
async fn complete<R: StateRead>(
    admission: &Admission,
    source: &StateSource,
    read: &R,
    again: impl AsyncFn() -> Reply<R::Answer>,
) -> Reply<R::Answer> {
    let work = pin!(fetch_and_read(&admission.remote, source, read, again));
    let read = admission.panics().catch_async(work).await;
    read.unwrap_or(Err(QueryError::Panicked))
}

async fn fetch_and_read<R: StateRead>(
    permits: &FairPermits,
    source: &StateSource,
    read: &R,
    again: impl AsyncFn() -> Reply<R::Answer>,
) -> Reply<R::Answer> {
    let (block, state) = read.block()?;
    let block = BlockRef {
        hash: block.hash,
        number: block.number(),
        state: Arc::clone(state),
    };
    let with_code = read.wants_code();
    for _ in 0..COMPLETIONS_MAX {
        let missing = missing(state, read.wanted(), with_code).await?;
        source
            .complete(permits, read.budget(), &block, &missing, with_code)
            .instrument(step!(
                "fetch",
                accounts = missing.len(),
                block = block.number
            ))
            .await?;
        let reply = again().await;
        if !is_missing(&reply) {
            return reply;
        }
    }
    tracing::warn!(
        block = block.number,
        "state was evicted before it was read: the store is too small"
    );
    Err(QueryError::Unavailable)
}

/// The part of `wanted` that is not held.
async fn missing(
    state: &State,
    mut wanted: Vec<(Address, Vec<U256>)>,
    with_code: bool,
) -> Reply<Vec<(Address, Vec<U256>)>> {
    let mut walks = 0_usize;
    let mut missing = Vec::new();
    for (address, slots) in wanted.drain(..) {
        let mut missing_slots = Vec::new();
        let is_whole = match if_held(state.account(&address))? {
            None => false,
            Some(None) => true,
            Some(Some(account)) => {
                for slot in &slots {
                    walks += 1;
                    if walks.is_multiple_of(WORKER_KEYS_MAX) {
                        tokio::task::yield_now().await;
                    }
                    if if_held(state.storage(&address, *slot))?.is_none() {
                        missing_slots.push(*slot);
                    }
                }
                missing_slots.is_empty()
                    && (!with_code || if_held(state.code(&account.code_hash))?.is_some())
            }
        };
        walks += 1;
        if walks.is_multiple_of(WORKER_KEYS_MAX) {
            tokio::task::yield_now().await;
        }
        if !is_whole {
            let is_account_held = !missing_slots.is_empty();
            let slots = if is_account_held {
                missing_slots
            } else {
                slots
            };
            missing.push((address, slots));
        }
    }
    Ok(missing)
}

/// What was read; `None` if it is not held. Any other error is a defect, which a fetch cannot
/// repair.
fn if_held<T>(read: Result<T, TrieError>) -> Reply<Option<T>> {
    let reply = read.map_err(QueryError::from);
    if is_missing(&reply) {
        return Ok(None);
    }
    reply.map(Some)
}

impl Actor for ProofActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for ProofActor {}

handle_traced! {
    ProofActor:
    ReadStorage,
    ReadAccount,
    ReadCode,
    ReadStorageValues,
    ProveAccount,
}

impl Handler<ReadStorage> for ProofActor {
    type Result = NowOrLater<U256>;

    fn handle(&mut self, read: ReadStorage, ctx: &mut Context<Self>) -> Self::Result {
        self.answer(read, ctx)
    }
}

impl Handler<ReadAccount> for ProofActor {
    type Result = NowOrLater<Option<TrieAccount>>;

    fn handle(&mut self, read: ReadAccount, ctx: &mut Context<Self>) -> Self::Result {
        self.answer(read, ctx)
    }
}

impl Handler<ReadCode> for ProofActor {
    type Result = NowOrLater<Bytes>;

    fn handle(&mut self, read: ReadCode, ctx: &mut Context<Self>) -> Self::Result {
        self.answer(read, ctx)
    }
}

impl Handler<ReadStorageValues> for ProofActor {
    type Result = NowOrLater<Vec<Vec<U256>>>;

    fn handle(&mut self, read: ReadStorageValues, ctx: &mut Context<Self>) -> Self::Result {
        let slots = read.slots.iter().map(|(_, slots)| slots.len()).sum();
        self.answer_or_move(read, slots, ctx)
    }
}

impl Handler<ProveAccount> for ProofActor {
    type Result = NowOrLater<Json>;

    fn handle(&mut self, prove: ProveAccount, ctx: &mut Context<Self>) -> Self::Result {
        let keys = prove.keys.len();
        self.answer_or_move(prove, keys, ctx)
    }
}

#[cfg(all(test, feature = "all-tests"))]
#[allow(clippy::unwrap_used)]
mod tests {
    use alloy_primitives::keccak256;
    use nearhead_chain::{
        encode::ProofKey,
        log_search::Cancellation,
        trie::{AccountProof, NodeStore},
        window::{BlockId, BlockNumberOrTag, BlockTag},
    };

    use super::*;
    use std::time::Instant;

    use crate::{admission::MemoryLevel, budget::CallBudget, read::ask, test_chain::Chain};

    /// A proof of `keys` slots of an account that does not exist.
    fn prove(chain: &Chain, keys: usize) -> ProveAccount {
        ProveAccount {
            snapshot: Arc::clone(&chain.snapshot),
            budget: CallBudget::default(),
            at: BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest)),
            address: Address::ZERO,
            keys: (0..keys)
                .map(|key| ProofKey::Full(U256::from(key)))
                .collect(),
            built_max: 1 << 16,
            cancel: Cancellation::default(),
        }
    }

    fn waiting(chain: &Chain) -> [usize; 2] {
        let [light, heavy, ..] = chain.resources.pool.usage();
        [light.waiting, heavy.waiting]
    }

    #[actix::test]
    async fn a_read_of_many_keys_moves_to_the_pool() {
        let chain = Chain::start();
        let on_worker = ask(&chain.worker.proofs, prove(&chain, WORKER_KEYS_MAX)).await;
        assert!(matches!(on_worker, Ok(json) if json.held() == json.len()));
        let on_pool = ask(&chain.worker.proofs, prove(&chain, 1_024))
            .await
            .unwrap();
        let (len, held) = (on_pool.len(), on_pool.held());
        assert!(held < len / 2, "{held} bytes are held of {len}");
        let occupied = chain.occupy();
        let light = actix::spawn(chain.worker.proofs.send(prove(&chain, 20)));
        let heavy = actix::spawn(chain.worker.proofs.send(prove(&chain, 1_000)));
        while waiting(&chain) != [1, 1] {
            tokio::task::yield_now().await;
        }
        occupied.release().await;
        assert!(matches!(light.await, Ok(Ok(Ok(_)))));
        assert!(matches!(heavy.await, Ok(Ok(Ok(_)))));
        let taken = chain.resources.pool.usage().map(|queue| queue.taken);
        assert_eq!(taken, [1, 2, 0, 0]);
    }

    #[actix::test]
    async fn a_malformed_node_is_not_missing_state() {
        let malformed = Bytes::from_static(&[0xc1, 0x80]);
        let state = State::hold(&NodeStore::new(), keccak256(&malformed));
        let wanted = vec![(Address::ZERO, vec![U256::ZERO])];
        let lacks = missing(&state, wanted.clone(), true).await.unwrap();
        assert_eq!(lacks, wanted);
        state.store().insert_proof(&AccountProof {
            account: None,
            nodes: vec![malformed],
            storage: Vec::new(),
        });
        let error = missing(&state, wanted, true).await.unwrap_err();
        let is_malformed = matches!(error, QueryError::Trie(TrieError::Malformed { .. }));
        assert!(is_malformed, "{error}");
    }

    #[actix::test]
    async fn a_read_cancelled_while_queued_is_not_run() {
        let chain = Chain::start();
        let occupied = chain.occupy();
        let prove = prove(&chain, WORKER_KEYS_MAX + 1);
        let cancel = prove.cancel.clone();
        let reply = actix::spawn(chain.worker.proofs.send(prove));
        while waiting(&chain) != [1, 0] {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        occupied.release().await;
        let reply = reply.await;
        assert!(
            matches!(reply, Ok(Ok(Err(QueryError::Cancelled)))),
            "{reply:?}"
        );
        assert_eq!(waiting(&chain), [0, 0]);
    }

    #[actix::test]
    async fn heavy_reads_are_refused_while_memory_is_short() {
        let chain = Chain::start();
        let refused = async |keys| {
            let reply = ask(&chain.worker.proofs, prove(&chain, keys)).await;
            matches!(reply, Err(QueryError::Overloaded { .. }))
        };
        for (level, expected) in [
            (MemoryLevel::Short, true),
            (MemoryLevel::Critical, true),
            (MemoryLevel::Enough, false),
        ] {
            chain.resources.set_memory_level(level, Instant::now());
            assert_eq!(refused(1_000).await, expected, "{level:?}");
            assert!(!refused(20).await && !refused(1).await, "{level:?}");
        }
    }

    #[actix::test]
    async fn a_read_that_nobody_waits_for_leaves_the_queue() {
        let chain = Chain::start();
        let occupied = chain.occupy();
        let reply = chain.worker.proofs.send(prove(&chain, 20));
        let mut reply = Box::pin(reply);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        while waiting(&chain) != [1, 0] {
            assert!(reply.as_mut().poll(&mut cx).is_pending());
            tokio::task::yield_now().await;
        }
        drop(reply);
        while waiting(&chain) != [0, 0] {
            tokio::task::yield_now().await;
        }
        occupied.release().await;
    }
}
