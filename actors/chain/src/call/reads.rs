//! What the runs of one call have read.

use std::cell::RefCell;

use alloy_primitives::{
    Address, U256,
    map::{AddressMap, HashMap},
};
use alloy_trie::TrieAccount;

use crate::trie::{State, TrieError};

/// The accounts and slots that runs of one call have read, so that none is looked up twice: a slot
/// is below its account, and an estimate runs a call several times.
#[derive(Debug, Default)]
pub(super) struct Reads {
    accounts: RefCell<AddressMap<Option<TrieAccount>>>,
    slots: RefCell<HashMap<(Address, U256), U256>>,
}

impl Reads {
    /// The account at this address.
    ///
    /// # Errors
    /// As [`State::account`]; it is looked up again then.
    pub(super) fn account(
        &self,
        state: &State,
        address: Address,
    ) -> Result<Option<TrieAccount>, TrieError> {
        if let Some(account) = self.accounts.borrow().get(&address) {
            return Ok(*account);
        }
        let account = state.account(&address)?;
        self.accounts.borrow_mut().insert(address, account);
        Ok(account)
    }

    /// The value of a slot; zero for an absent account or slot.
    ///
    /// # Errors
    /// As [`State::storage`]; it is looked up again then.
    pub(super) fn slot(
        &self,
        state: &State,
        address: Address,
        slot: U256,
    ) -> Result<U256, TrieError> {
        let key = (address, slot);
        if let Some(value) = self.slots.borrow().get(&key) {
            return Ok(*value);
        }
        let value = match self.account(state, address)? {
            Some(account) => state.slot(account.storage_root, slot)?,
            None => U256::ZERO,
        };
        self.slots.borrow_mut().insert(key, value);
        Ok(value)
    }
}
