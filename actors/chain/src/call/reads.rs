//! What the runs of one call have read.

use std::{
    cell::RefCell,
    hash::{BuildHasher, Hash},
};

use alloy_primitives::{
    Address, U256,
    map::{AddressMap, HashMap},
};
use alloy_trie::TrieAccount;

use crate::trie::{State, TrieError};

/// Accounts, and slots, that are kept at most. A call may read others in each of its runs.
const KEPT_MAX: usize = 10_000;

/// The accounts and slots that runs of one call have read, so that none is looked up twice: each
/// slot needs its account first, and an estimate runs a call several times.
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
        keep(&mut self.accounts.borrow_mut(), address, account);
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
        keep(&mut self.slots.borrow_mut(), key, value);
        Ok(value)
    }
}

fn keep<K: Eq + Hash, V, S: BuildHasher>(kept: &mut HashMap<K, V, S>, key: K, value: V) {
    if kept.len() < KEPT_MAX {
        kept.insert(key, value);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::trie::{AccountInfo, AccountUpdate, NodeStore, StateUpdate};

    #[test]
    fn what_was_read_is_not_looked_up_again() {
        let store = NodeStore::new();
        let empty = State::empty(&store);
        let mut update = StateUpdate::default();
        let account = AccountUpdate {
            info: Some(AccountInfo {
                nonce: 7,
                balance: U256::ZERO,
                code_hash: alloy_trie::KECCAK_EMPTY,
            }),
            storage: [(U256::from(1), U256::from(5))].into_iter().collect(),
            ..AccountUpdate::default()
        };
        update.accounts.insert(Address::ZERO, account);
        let state = empty.commit(empty.update(&update).unwrap());
        let reads = Reads::default();
        for state in [&state, &empty] {
            let slot = reads.slot(state, Address::ZERO, U256::from(1));
            assert_eq!(slot.unwrap(), U256::from(5));
            let account = reads.account(state, Address::ZERO).unwrap();
            assert_eq!(account.unwrap().nonce, 7);
        }
        for number in 0..KEPT_MAX + 10 {
            let slot = reads.slot(&state, Address::ZERO, U256::from(number));
            assert_eq!(slot.unwrap().is_zero(), number != 1);
        }
        assert_eq!(reads.slots.borrow().len(), KEPT_MAX);
    }
}
