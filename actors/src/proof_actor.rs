//! State and proofs of it, at any block of the view.

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Response, Supervised};
use alloy_primitives::{Bytes, U256};
use alloy_trie::TrieAccount;
use nearhead_chain::{
    encode,
    json::Json,
    log_search::Cancellation,
    trie::State,
    window::{BlockId, Snapshot},
};

use crate::{
    messages::{
        ProveAccount, QueryError, ReadAccount, ReadCode, ReadStorage, ReadStorageValues, Reply,
    },
    pool_actor::{Heavy, HeavyQuery, PoolActor},
    wiring::{MAILBOX_CAPACITY, Panics, Pools, ask},
};

/// Keys and slots that are read on the worker's thread: at 5 to 10 µs each, 0.15 ms at most.
const WORKER_KEYS_MAX: usize = 16;

/// Answers what the state trie answers; one on every worker's own arbiter. Many keys cross to the pool with a permit.
#[derive(Debug)]
pub struct ProofActor {
    pools: Pools,
}

impl ProofActor {
    pub(crate) const fn new(pools: Pools) -> Self {
        Self { pools }
    }

    pub(crate) const fn panics(&self) -> &Panics {
        self.pools.panics()
    }

    /// Runs `query` here if it has few keys, or admits it to the pool.
    fn weigh<Q: HeavyQuery>(
        &self,
        query: Q,
        keys: usize,
        ctx: &mut Context<Self>,
        here: impl FnOnce(&Q) -> Reply<Q::Output>,
    ) -> Response<Reply<Q::Output>> {
        if keys <= WORKER_KEYS_MAX {
            return Response::reply(self.panics().guard(ctx, || here(&query)));
        }
        match self.pools.proof_keys.take(keys) {
            Ok(permit) => {
                let pool: Addr<PoolActor> = self.pools.heavy.clone();
                Response::fut(async move { ask(&pool, Heavy { query, permit }).await })
            }
            Err(refused) => Response::reply(Err(refused)),
        }
    }
}

impl Actor for ProofActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(MAILBOX_CAPACITY);
    }
}

impl Supervised for ProofActor {}

impl Handler<ReadStorage> for ProofActor {
    type Result = Reply<U256>;

    fn handle(&mut self, read: ReadStorage, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            Ok(state_at(&read.snapshot, read.at)?.storage(&read.address, read.slot)?)
        })
    }
}

impl Handler<ReadAccount> for ProofActor {
    type Result = Reply<Option<TrieAccount>>;

    fn handle(&mut self, read: ReadAccount, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            Ok(state_at(&read.snapshot, read.at)?.account(&read.address)?)
        })
    }
}

impl Handler<ReadCode> for ProofActor {
    type Result = Reply<Bytes>;

    fn handle(&mut self, read: ReadCode, ctx: &mut Context<Self>) -> Self::Result {
        self.panics().guard(ctx, || {
            let state = state_at(&read.snapshot, read.at)?;
            match state.account(&read.address)? {
                Some(account) => Ok(state.code(&account.code_hash)?),
                None => Ok(Bytes::new()),
            }
        })
    }
}

impl Handler<ReadStorageValues> for ProofActor {
    type Result = Response<Reply<Vec<Vec<U256>>>>;

    fn handle(&mut self, read: ReadStorageValues, ctx: &mut Context<Self>) -> Self::Result {
        let slots = read.slots.iter().map(|(_, slots)| slots.len()).sum();
        self.weigh(read, slots, ctx, read_values)
    }
}

impl Handler<ProveAccount> for ProofActor {
    type Result = Response<Reply<Json>>;

    fn handle(&mut self, ask: ProveAccount, ctx: &mut Context<Self>) -> Self::Result {
        let keys = ask.keys.len();
        self.weigh(ask, keys, ctx, prove)
    }
}

impl HeavyQuery for ReadStorageValues {
    type Output = Vec<Vec<U256>>;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Self::Output> {
        read_values(self)
    }
}

impl HeavyQuery for ProveAccount {
    type Output = Json;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Json> {
        prove(self)
    }
}

/// The proof that is asked for, on the present thread.
fn prove(ask: &ProveAccount) -> Reply<Json> {
    let state = state_at(&ask.snapshot, ask.at)?;
    Ok(encode::proof(
        state,
        ask.address,
        ask.keys.clone(),
        ask.kept_max,
    )?)
}

/// The slots that are asked for, on the present thread.
fn read_values(read: &ReadStorageValues) -> Reply<Vec<Vec<U256>>> {
    let state = state_at(&read.snapshot, read.at)?;
    let of_account = |(address, slots): &(_, Vec<U256>)| {
        slots
            .iter()
            .map(|slot| Ok(state.storage(address, *slot)?))
            .collect()
    };
    read.slots.iter().map(of_account).collect()
}

fn state_at(snapshot: &Snapshot, at: BlockId) -> Reply<&Arc<State>> {
    let block = snapshot.resolve_id(at)?;
    block.state.as_ref().ok_or(QueryError::NoState {
        number: block.number(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use alloy_primitives::Address;
    use nearhead_chain::{
        encode::ProofKey,
        window::{BlockNumberOrTag, BlockTag},
    };

    use super::*;
    use crate::test_chain::{Chain, wait_until};

    /// A proof of so many slots of an account that does not exist.
    fn prove(chain: &Chain, keys: usize) -> ProveAccount {
        ProveAccount {
            snapshot: Arc::clone(&chain.snapshot),
            at: BlockId::Number(BlockNumberOrTag::Tag(BlockTag::Latest)),
            address: Address::ZERO,
            keys: (0..keys)
                .map(|key| ProofKey::Full(U256::from(key)))
                .collect(),
            kept_max: 1 << 16,
            cancel: Cancellation::default(),
        }
    }

    fn keys_in_use(chain: &Chain) -> usize {
        chain.pools.proof_keys.in_use()
    }

    #[actix::test]
    async fn many_keys_cross_to_the_pool_with_a_permit() {
        let chain = Chain::start();
        let here = ask(&chain.worker.proofs, prove(&chain, WORKER_KEYS_MAX)).await;
        assert!(matches!(here, Ok(json) if json.held() == json.len()));
        let there = ask(&chain.worker.proofs, prove(&chain, 1_024))
            .await
            .unwrap();
        let (len, held) = (there.len(), there.held());
        assert!(held < len / 2, "{held} bytes are held of {len}");
        assert_eq!(keys_in_use(&chain), 0, "the work is done");
        let (release, occupied) = chain.occupy();
        let waiting = actix::spawn(chain.worker.proofs.send(prove(&chain, 20)));
        while keys_in_use(&chain) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(keys_in_use(&chain), 20);
        drop(release);
        occupied.await.unwrap();
        assert!(matches!(waiting.await, Ok(Ok(Ok(_)))));
    }

    #[actix::test]
    async fn what_is_cancelled_while_it_queues_is_not_done() {
        let chain = Chain::start();
        let (release, occupied) = chain.occupy();
        let prove = prove(&chain, WORKER_KEYS_MAX + 1);
        let cancel = prove.cancel.clone();
        let reply = actix::spawn(chain.worker.proofs.send(prove));
        // It holds its permit: it was admitted.
        while keys_in_use(&chain) == 0 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        drop(release);
        assert!(occupied.await.is_ok());
        let reply = reply.await;
        assert!(
            matches!(reply, Ok(Ok(Err(QueryError::Cancelled)))),
            "{reply:?}"
        );
        wait_until("permits are given back", || keys_in_use(&chain) == 0);
    }
}
