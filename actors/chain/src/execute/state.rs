//! The state before a block, as revm reads it, and the changes of a block as a [`StateUpdate`].

use std::{cell::OnceCell, mem};

use alloy_primitives::{Address, B256, U256};
use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    context::DBErrorMarker,
    database::{CacheState, State as EvmState, TransitionState},
    primitives::KECCAK_EMPTY,
    state::AccountInfo as EvmAccountInfo,
};

use crate::{
    block::Block,
    trie::{AccountInfo, AccountUpdate, State, StateUpdate, TrieError},
};

/// The state after a block, as the EVM reads it while the next one is executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParentState<'a> {
    /// Accounts, storage, code.
    pub(super) state: &'a State,
    /// The block itself, for BLOCKHASH.
    pub(super) parent: &'a Block,
    /// The first error of the state. The executor hides it behind errors about the block: a system
    /// call that cannot read its contract is reported as one that failed.
    pub(super) state_error: &'a OnceCell<StateError>,
}

impl ParentState<'_> {
    /// Records an error on its way to the executor.
    fn recorded<T, E: Into<StateError>>(&self, read: Result<T, E>) -> Result<T, StateError> {
        read.map_err(|error| self.state_error.get_or_init(|| error.into()).clone())
    }
}

/// Why the EVM could not read the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The trie cannot be read.
    #[error(transparent)]
    Trie(#[from] TrieError),
    /// BLOCKHASH of a block whose hash is not held.
    #[error("hash of block {number} is not held")]
    UnknownAncestor {
        /// The block's number.
        number: u64,
    },
}

impl DBErrorMarker for StateError {}

impl DatabaseRef for ParentState<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<EvmAccountInfo>, StateError> {
        let account = self.recorded(self.state.account(&address))?;
        Ok(account.map(|account| EvmAccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.recorded(self.state.bytecode(&hash))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        self.recorded(self.state.storage(&address, slot))
    }

    /// revm asks only for the 256 blocks before the one that it executes.
    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        let hash = self.parent.hash_of(number);
        self.recorded(hash.ok_or(StateError::UnknownAncestor { number }))
    }
}

/// Takes the changes since the last call.
pub(crate) fn take_update<DB>(database: &mut EvmState<DB>) -> StateUpdate {
    let transitions = database
        .transition_state
        .as_mut()
        .map(mem::take)
        .unwrap_or_default();
    state_update(transitions, &database.cache)
}

/// The update that `transitions` make; `cache` holds the code of created accounts.
///
/// Transitions are used instead of revm's bundle: a bundle also records reverts, and the trie keeps
/// the state of each block anyway.
fn state_update(transitions: TransitionState, cache: &CacheState) -> StateUpdate {
    let mut update = StateUpdate::default();
    for (address, account) in transitions.transitions {
        if let Some(info) = &account.info {
            let hash = info.code_hash;
            let known = account
                .previous_info
                .as_ref()
                .is_some_and(|before| before.code_hash == hash);
            if !known
                && hash != KECCAK_EMPTY
                && let Some(code) = info.code.as_ref().or_else(|| cache.contracts.get(&hash))
            {
                update.code.insert(hash, code.original_bytes());
            }
        }
        let storage = account
            .storage
            .into_iter()
            .map(|(slot, value)| (slot, value.present_value))
            .collect();
        update.accounts.insert(
            address,
            AccountUpdate {
                info: account.info.map(|info| AccountInfo {
                    nonce: info.nonce,
                    balance: info.balance,
                    code_hash: info.code_hash,
                }),
                storage_wiped: account.storage_was_destroyed,
                storage,
            },
        );
    }
    update
}
