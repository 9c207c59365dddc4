//! State and proofs of it, at any block of the view.

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, Message, Response, Supervised, dev::ToEnvelope};
use alloy_primitives::{Bytes, U256};
use alloy_trie::TrieAccount;
use nearhead_chain::{
    encode::value::{self, ProofKey},
    json::Json,
    trie::State,
    window::{BlockId, Snapshot},
};

use crate::{
    messages::{
        ProveAccount, QueryError, ReadAccount, ReadCode, ReadStorage, ReadStorageValues, Reply,
        Weighed,
    },
    pool_actor::{Heavy, PoolActor},
    wiring::{Panics, Pools, ask},
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

    /// Runs `message` here if it has few keys, or admits it to the pool.
    fn weigh<M, T>(
        &self,
        message: M,
        keys: usize,
        ctx: &mut Context<Self>,
        here: impl FnOnce(&M) -> Reply<T>,
    ) -> Response<Reply<T>>
    where
        M: Message<Result = Reply<T>> + Send + 'static,
        T: Send + 'static,
        PoolActor: Handler<Heavy<M>>,
        <PoolActor as Actor>::Context: ToEnvelope<PoolActor, Heavy<M>>,
    {
        if keys <= WORKER_KEYS_MAX {
            return Response::reply(self.panics().guard(ctx, || here(&message)));
        }
        match self.pools.proof_keys.take(keys) {
            Ok(permit) => {
                let pool: Addr<PoolActor> = self.pools.heavy.clone();
                Response::fut(async move { ask(&pool, Heavy { message, permit }).await })
            }
            Err(refused) => Response::reply(Err(refused)),
        }
    }
}

impl Actor for ProofActor {
    type Context = Context<Self>;
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
    type Result = Response<Reply<Weighed>>;

    fn handle(&mut self, ask: ProveAccount, ctx: &mut Context<Self>) -> Self::Result {
        let keys = ask.keys.len();
        self.weigh(ask, keys, ctx, |ask| prove(ask).map(Weighed::from))
    }
}

/// The proof that is asked for, on the present thread.
pub(crate) fn prove(ask: &ProveAccount) -> Reply<Json> {
    let slots: Vec<U256> = ask
        .keys
        .iter()
        .map(|key| match *key {
            ProofKey::Full(slot) | ProofKey::Short(slot) => slot,
        })
        .collect();
    let proof = state_at(&ask.snapshot, ask.at)?.prove(&ask.address, &slots)?;
    Ok(value::proof(&ask.address, &proof, &ask.keys))
}

/// The slots that are asked for, on the present thread.
pub(crate) fn read_values(read: &ReadStorageValues) -> Reply<Vec<Vec<U256>>> {
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
