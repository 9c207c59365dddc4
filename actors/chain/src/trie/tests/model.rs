//! A state as plain maps, with the root from alloy's helpers.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::{
    EMPTY_ROOT_HASH, TrieAccount,
    proof::verify_proof,
    root::{state_root_unhashed, storage_root_unhashed},
};
use nybbles::Nibbles;

use crate::trie::{AccountInfo, AccountUpdate, State, StateUpdate};

/// One account of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelAccount {
    info: AccountInfo,
    storage: BTreeMap<U256, U256>,
}

impl ModelAccount {
    fn to_trie_account(&self) -> TrieAccount {
        let storage = self
            .storage
            .iter()
            .map(|(slot, value)| (B256::from(*slot), *value));
        let root = match self.storage.is_empty() {
            true => EMPTY_ROOT_HASH,
            false => storage_root_unhashed(storage),
        };
        let AccountInfo {
            nonce,
            balance,
            code_hash,
        } = self.info;
        TrieAccount::new(nonce, balance, root, code_hash)
    }
}

/// A whole state of the model.
#[derive(Clone, Debug, Default)]
pub(super) struct StateModel {
    accounts: BTreeMap<Address, ModelAccount>,
    codes: BTreeMap<B256, Bytes>,
}

impl StateModel {
    pub(super) fn apply(&mut self, update: &StateUpdate) {
        self.codes
            .extend(update.code.iter().map(|(hash, code)| (*hash, code.clone())));
        for (address, update) in &update.accounts {
            let AccountUpdate {
                info,
                storage_wiped,
                storage,
            } = update;
            let Some(info) = *info else {
                self.accounts.remove(address);
                continue;
            };
            let account = self.accounts.entry(*address).or_default();
            account.info = info;
            if *storage_wiped {
                account.storage.clear();
            }
            for (slot, value) in storage {
                match value.is_zero() {
                    true => account.storage.remove(slot),
                    false => account.storage.insert(*slot, *value),
                };
            }
        }
    }

    pub(super) fn root(&self) -> B256 {
        let accounts = self.accounts.iter();
        state_root_unhashed(
            accounts.map(|(address, account)| (*address, account.to_trie_account())),
        )
    }

    /// Compares a state's accounts, slots and codes with the model's, and verifies a proof of each.
    pub(super) fn check(&self, state: &State, addresses: &[Address], slots: &[U256]) {
        for address in addresses {
            let expected = self.accounts.get(address);
            let trie_account = expected.map(ModelAccount::to_trie_account);
            assert_eq!(state.account(address).unwrap(), trie_account, "{address}");
            if let Some(account) = expected {
                let code = self
                    .codes
                    .get(&account.info.code_hash)
                    .cloned()
                    .unwrap_or_default();
                assert_eq!(state.code(&account.info.code_hash).unwrap(), code);
            }
            let value_of = |slot: &U256| {
                expected
                    .and_then(|account| account.storage.get(slot))
                    .copied()
            };
            for slot in slots {
                let value = value_of(slot).unwrap_or_default();
                assert_eq!(
                    state.storage(address, *slot).unwrap(),
                    value,
                    "{address} {slot}"
                );
            }
            check_proof(state, address, slots, value_of);
        }
    }
}

/// Verifies the proof of an account and its slots with alloy's verifier, from the state root alone.
fn check_proof(
    state: &State,
    address: &Address,
    slots: &[U256],
    value_of: impl Fn(&U256) -> Option<U256>,
) {
    let proof = state.prove(address, slots).unwrap();
    let key = |bytes: &[u8]| Nibbles::unpack(keccak256(bytes));
    let account_rlp = proof.account.map(alloy_rlp::encode);
    verify_proof(
        state.root(),
        key(address.as_slice()),
        account_rlp,
        &proof.nodes,
    )
    .unwrap();
    let storage_root = proof
        .account
        .map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
    assert_eq!(proof.storage.len(), slots.len());
    for (entry, slot) in proof.storage.iter().zip(slots) {
        let expected = value_of(slot);
        assert_eq!(entry.value, expected.unwrap_or_default());
        assert_eq!(entry.nodes.is_empty(), storage_root == EMPTY_ROOT_HASH);
        let slot_key = key(&slot.to_be_bytes::<32>());
        verify_proof(
            storage_root,
            slot_key,
            expected.map(alloy_rlp::encode),
            &entry.nodes,
        )
        .unwrap();
    }
    let distinct = proof.nodes.iter().collect::<BTreeSet<_>>();
    assert_eq!(
        distinct.len(),
        proof.nodes.len(),
        "no node occurs twice on one path"
    );
}
