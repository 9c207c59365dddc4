//! revm's view of the state before a block, and what a block did to it as a [`StateUpdate`].

use std::cell::OnceCell;

use alloy_primitives::{Address, B256, U256};
use revm::{
    DatabaseRef,
    bytecode::Bytecode,
    context::DBErrorMarker,
    database::{CacheState, TransitionState},
    primitives::KECCAK_EMPTY,
    state::AccountInfo,
};

use crate::{
    block::Block,
    trie::{self, AccountUpdate, State, StateUpdate, TrieError},
};

/// The state after a block, as the EVM reads it while the next one is executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParentState<'a> {
    /// Accounts, storage, code.
    pub(super) state: &'a State,
    /// The block itself, for BLOCKHASH.
    pub(super) parent: &'a Block,
    /// The first fault of the state. The executor hides it behind errors about the block: a system
    /// call that cannot read its contract is reported as one that failed.
    pub(super) fault: &'a OnceCell<StateError>,
}

impl ParentState<'_> {
    /// Notes a fault on its way to the executor.
    fn noted<T, E: Into<StateError>>(&self, read: Result<T, E>) -> Result<T, StateError> {
        read.map_err(|error| self.fault.get_or_init(|| error.into()).clone())
    }

    fn block_hash(&self, number: u64) -> Option<B256> {
        match self.parent.number().checked_sub(number)? {
            0 => Some(self.parent.hash),
            distance => {
                let index = usize::try_from(distance - 1).ok()?;
                self.parent.ancestors.get(index).copied()
            }
        }
    }
}

/// Why the EVM could not read the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The trie.
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

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let account = self.noted(self.state.account(&address))?;
        Ok(account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        }))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        let code = self.noted(self.state.code(&hash))?;
        // Code that begins like a delegation (EIP-7702) and is none can have been deployed before
        // London (EIP-3541).
        Ok(Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code)))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        self.noted(self.state.storage(&address, slot))
    }

    /// revm asks for the 256 blocks before the one that it executes only.
    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        let hash = self.block_hash(number);
        self.noted(hash.ok_or(StateError::UnknownAncestor { number }))
    }
}

/// What `transitions` do to the state that they began at; `cache` holds the codes of created
/// accounts.
///
/// Transitions and not revm's bundle: a bundle also makes reverts, and the trie keeps each block's
/// state anyway.
pub(super) fn state_update(transitions: TransitionState, cache: &CacheState) -> StateUpdate {
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
                info: account.info.map(|info| trie::AccountInfo {
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
