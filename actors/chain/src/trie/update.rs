use alloy_primitives::{
    B256, Bytes, U256, keccak256,
    map::{AddressMap, B256Map},
};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::{
    Changes, NodeStore, TrieError,
    node::account_of,
    subtree::{LeafUpdate, TrieUpdater},
};

/// What a block (or a genesis) does to the state.
#[derive(Clone, Debug, Default)]
pub struct StateUpdate {
    /// Changed accounts by address.
    pub accounts: AddressMap<AccountUpdate>,
    /// Codes that the accounts may reference, by keccak256.
    pub code: B256Map<Bytes>,
}

/// An account without its storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountInfo {
    /// Number of transactions sent, or of contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// keccak256 of the code.
    pub code_hash: B256,
}

/// A change to one account.
#[derive(Clone, Debug, Default)]
pub struct AccountUpdate {
    /// The account after the block; `None` deletes it and its storage.
    pub info: Option<AccountInfo>,
    /// Whether its previous storage is wiped first (self-destruct, re-creation).
    pub storage_wiped: bool,
    /// Slots after the block. Zero deletes a slot; if a slot occurs twice, the last value counts.
    pub storage: Vec<(U256, U256)>,
}

impl StateUpdate {
    /// Computes the new nodes when this update is applied to the state with root `parent`.
    pub(super) fn apply(&self, store: &NodeStore, parent: B256) -> Result<Changes, TrieError> {
        let mut updater = TrieUpdater::new(store);
        let root = self.apply_with(&mut updater, parent)?;
        Ok(Changes {
            parent,
            root,
            nodes: updater.into_nodes(),
            codes: self.code.clone(),
        })
    }

    /// Computes the new nodes with `updater`, and returns the new root.
    pub(super) fn apply_with(
        &self,
        updater: &mut TrieUpdater<'_>,
        parent: B256,
    ) -> Result<B256, TrieError> {
        let mut accounts = self
            .accounts
            .iter()
            .map(|(address, account)| (keccak256(address), account))
            .collect::<Vec<_>>();
        accounts.sort_unstable_by_key(|(key, _)| *key);
        updater.update_trie(parent, &accounts)
    }
}

impl LeafUpdate for &AccountUpdate {
    /// Also updates the account's storage, because its root is part of the value.
    fn value(
        &self,
        before: Option<&[u8]>,
        updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError> {
        let Some(info) = self.info else {
            return Ok(None);
        };
        let storage_root = match before {
            Some(rlp) if !self.storage_wiped => account_of(rlp)?.storage_root,
            _ => EMPTY_ROOT_HASH,
        };
        let mut slots = self
            .storage
            .iter()
            .map(|(slot, value)| (keccak256(slot.to_be_bytes::<32>()), *value))
            .collect::<Vec<_>>();
        // A stable sort, so that the last of two values of a slot stays last.
        slots.sort_by_key(|(key, _)| *key);
        slots.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 = later.1;
            }
            same
        });
        let storage_root = updater.update_trie(storage_root, &slots)?;
        let account = TrieAccount::new(info.nonce, info.balance, storage_root, info.code_hash);
        Ok(Some(alloy_rlp::encode(account)))
    }
}

impl LeafUpdate for U256 {
    fn value(
        &self,
        _before: Option<&[u8]>,
        _updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError> {
        Ok((!self.is_zero()).then(|| alloy_rlp::encode(self)))
    }
}
