//! The state as a call's EVM reads it.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use alloy_primitives::{Address, B256, U256, map::B256Map};
use revm::{DatabaseRef, bytecode::Bytecode, state::AccountInfo};

use super::{
    error::{CallError, MissingState},
    reads::Reads,
    request::{StateOverrides, StorageOverride},
};
use crate::{
    block::Block,
    execute::StateError,
    trie::{State, TrieError},
};

/// Accounts and slots that one run notes; the next one notes what is left. A proof has as many
/// slots at most.
const MISSING_MAX: usize = 1_024;

/// Where a call runs.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The block after which it runs.
    pub block: &'a Block,
    /// The state after that block.
    pub state: &'a State,
    /// The hash of an ancestor of the block, by number, if it is held.
    pub ancestor: &'a dyn Fn(u64) -> Option<B256>,
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.block.hash;
        f.debug_struct("Place")
            .field("block", &block)
            .finish_non_exhaustive()
    }
}

/// The state after a block, with what a call overrides. What is not held is read as empty, and
/// noted.
#[derive(Debug)]
pub(super) struct CallState<'a> {
    state: &'a State,
    place: Place<'a>,
    overrides: &'a StateOverrides,
    reads: &'a Reads,
    /// Whose code each hash is: code is read by hash, and fetched by account.
    owners: RefCell<B256Map<Address>>,
    missing: RefCell<BTreeMap<Address, BTreeSet<U256>>>,
    /// The first error, which the EVM hides behind its own.
    error: OnceCell<StateError>,
}

impl<'a> CallState<'a> {
    pub(super) fn new(place: Place<'a>, overrides: &'a StateOverrides, reads: &'a Reads) -> Self {
        Self {
            state: place.state,
            place,
            overrides,
            reads,
            owners: RefCell::default(),
            missing: RefCell::default(),
            error: OnceCell::new(),
        }
    }

    /// Nothing, if all that was read is held.
    ///
    /// # Errors
    /// [`CallError::State`], [`CallError::Missing`].
    pub(super) fn check(&self) -> Result<(), CallError> {
        let missing = self.missing.borrow();
        if missing.is_empty() {
            // After something was missing, even an error may not be one of the true state.
            return match self.error.get() {
                Some(error) => Err(error.clone().into()),
                None => Ok(()),
            };
        }
        let missing = missing.iter();
        let missing: MissingState = missing
            .map(|(address, slots)| (*address, slots.iter().copied().collect()))
            .collect();
        Err(CallError::Missing(missing))
    }

    /// Whether something that was read is not held, or cannot be read.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.missing.borrow().is_empty() || self.error.get().is_some()
    }

    /// What was read; the default for what is not held, which `note` notes.
    fn read<T: Default>(
        &self,
        read: Result<T, TrieError>,
        note: impl FnOnce(),
    ) -> Result<T, StateError> {
        match read {
            Ok(value) => Ok(value),
            Err(TrieError::MissingNode { .. } | TrieError::MissingCode { .. }) => {
                note();
                Ok(T::default())
            }
            Err(error) => Err(self.failed(error.into())),
        }
    }

    fn failed(&self, error: StateError) -> StateError {
        self.error.get_or_init(|| error).clone()
    }

    fn note(&self, address: Address, slot: Option<U256>) {
        let mut missing = self.missing.borrow_mut();
        let count: usize = missing.values().map(|slots| 1 + slots.len()).sum();
        if count < MISSING_MAX {
            missing.entry(address).or_default().extend(slot);
        }
    }
}

impl DatabaseRef for CallState<'_> {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let account = self.reads.account(self.state, address);
        let account = self.read(account, || self.note(address, None))?;
        let account = account.map(|account| AccountInfo {
            balance: account.balance,
            nonce: account.nonce,
            code_hash: account.code_hash,
            account_id: None,
            code: None,
        });
        if let Some(account) = &account {
            self.owners.borrow_mut().insert(account.code_hash, address);
        }
        let Some(overrides) = self.overrides.get(&address) else {
            return Ok(account);
        };
        let mut account = account.unwrap_or_default();
        overrides.apply(&mut account);
        Ok(Some(account))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        let owner = self.owners.borrow().get(&hash).copied();
        match (self.state.bytecode(&hash), owner) {
            // Nobody could be asked for it.
            (Err(error), None) => Err(self.failed(error.into())),
            (code, owner) => self.read(code, || self.note(owner.unwrap_or_default(), None)),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        let overrides = self.overrides.get(&address);
        match overrides.map(|account| &account.storage) {
            Some(StorageOverride::Whole(slots)) => {
                return Ok(slots.get(&slot).copied().unwrap_or_default());
            }
            Some(StorageOverride::Slots(slots)) if slots.contains_key(&slot) => {
                return Ok(slots[&slot]);
            }
            _ => {}
        }
        let value = self.reads.slot(self.state, address, slot);
        self.read(value, || self.note(address, Some(slot)))
    }

    /// As in geth, the block itself and those above it have the hash zero. A call asks for them if
    /// its own number is above that of the block.
    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        if number >= self.place.block.number() {
            return Ok(B256::ZERO);
        }
        let hash = (self.place.ancestor)(number);
        hash.ok_or_else(|| self.failed(StateError::UnknownAncestor { number }))
    }
}
