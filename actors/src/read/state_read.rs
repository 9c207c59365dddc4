//! Reads of the state: what each one needs, and its answer.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes, U256};
use alloy_trie::TrieAccount;
use nearhead_chain::{
    block::Block,
    encode::{self, ProofKey},
    json::Json,
    log_search::Cancellation,
    trie::State,
    window::{BlockId, Snapshot},
};

use super::pool::PoolQuery;
use crate::{
    budget::CallBudget,
    messages::{
        ProveAccount, QueryError, ReadAccount, ReadCode, ReadStorage, ReadStorageValues, Reply,
    },
};

/// A read of one block's state.
pub(crate) trait StateRead: Clone + 'static {
    /// Its answer.
    type Answer: 'static;

    /// The snapshot, and the block in it.
    fn place(&self) -> (&Snapshot, BlockId);

    /// What it may cause at upstreams.
    fn budget(&self) -> &CallBudget;

    /// The accounts and slots that it reads.
    fn wanted(&self) -> Vec<(Address, Vec<U256>)>;

    /// Whether it reads the accounts' code.
    fn wants_code(&self) -> bool {
        false
    }

    /// The answer from the state.
    fn read(&self, state: &Arc<State>) -> Reply<Self::Answer>;

    /// The block, and its state.
    fn block(&self) -> Reply<(&Arc<Block>, &Arc<State>)> {
        let (snapshot, at) = self.place();
        let block = snapshot.resolve_id(at)?;
        let number = block.number();
        let state = block.state.as_ref().ok_or(QueryError::NoState { number })?;
        Ok((block, state))
    }

    /// The answer, computed on the current thread.
    fn answer(&self) -> Reply<Self::Answer> {
        let (_, state) = self.block()?;
        self.read(state)
    }
}

impl StateRead for ReadStorage {
    type Answer = U256;

    fn place(&self) -> (&Snapshot, BlockId) {
        (&self.snapshot, self.at)
    }

    fn budget(&self) -> &CallBudget {
        &self.budget
    }

    fn wanted(&self) -> Vec<(Address, Vec<U256>)> {
        vec![(self.address, vec![self.slot])]
    }

    fn read(&self, state: &Arc<State>) -> Reply<U256> {
        Ok(state.storage(&self.address, self.slot)?)
    }
}

impl StateRead for ReadAccount {
    type Answer = Option<TrieAccount>;

    fn place(&self) -> (&Snapshot, BlockId) {
        (&self.snapshot, self.at)
    }

    fn budget(&self) -> &CallBudget {
        &self.budget
    }

    fn wanted(&self) -> Vec<(Address, Vec<U256>)> {
        vec![(self.address, Vec::new())]
    }

    fn read(&self, state: &Arc<State>) -> Reply<Option<TrieAccount>> {
        Ok(state.account(&self.address)?)
    }
}

impl StateRead for ReadCode {
    type Answer = Bytes;

    fn place(&self) -> (&Snapshot, BlockId) {
        (&self.snapshot, self.at)
    }

    fn budget(&self) -> &CallBudget {
        &self.budget
    }

    fn wanted(&self) -> Vec<(Address, Vec<U256>)> {
        vec![(self.address, Vec::new())]
    }

    fn wants_code(&self) -> bool {
        true
    }

    fn read(&self, state: &Arc<State>) -> Reply<Bytes> {
        match state.account(&self.address)? {
            Some(account) => Ok(state.code(&account.code_hash)?),
            None => Ok(Bytes::new()),
        }
    }
}

impl StateRead for ReadStorageValues {
    type Answer = Vec<Vec<U256>>;

    fn place(&self) -> (&Snapshot, BlockId) {
        (&self.snapshot, self.at)
    }

    fn budget(&self) -> &CallBudget {
        &self.budget
    }

    fn wanted(&self) -> Vec<(Address, Vec<U256>)> {
        // Without slots, nothing of an account is read.
        let read = self.slots.iter().filter(|(_, slots)| !slots.is_empty());
        read.cloned().collect()
    }

    fn read(&self, state: &Arc<State>) -> Reply<Vec<Vec<U256>>> {
        let of_account = |(address, slots): &(_, Vec<U256>)| {
            slots
                .iter()
                .map(|slot| Ok(state.storage(address, *slot)?))
                .collect()
        };
        self.slots.iter().map(of_account).collect()
    }
}

impl StateRead for ProveAccount {
    type Answer = Json;

    fn place(&self) -> (&Snapshot, BlockId) {
        (&self.snapshot, self.at)
    }

    fn budget(&self) -> &CallBudget {
        &self.budget
    }

    fn wanted(&self) -> Vec<(Address, Vec<U256>)> {
        let slots = self.keys.iter().copied().map(ProofKey::slot);
        vec![(self.address, slots.collect())]
    }

    fn read(&self, state: &Arc<State>) -> Reply<Json> {
        Ok(encode::proof(
            state,
            self.address,
            self.keys.clone(),
            self.built_max,
        )?)
    }
}

impl PoolQuery for ReadStorageValues {
    type Output = Vec<Vec<U256>>;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Self::Output> {
        self.answer()
    }
}

impl PoolQuery for ProveAccount {
    type Output = Json;

    fn cancellation(&self) -> &Cancellation {
        &self.cancel
    }

    fn run(&self) -> Reply<Json> {
        self.answer()
    }
}
