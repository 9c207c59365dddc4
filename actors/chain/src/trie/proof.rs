use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::{State, TrieError};

/// Nodes that prove an account (or its absence) and slots of it, root first.
#[derive(Clone, Debug)]
pub struct AccountProof {
    /// The account, `None` where it is absent.
    pub account: Option<TrieAccount>,
    /// Nodes of the account proof.
    pub nodes: Vec<Bytes>,
    /// One entry a key, in request order.
    pub storage: Vec<StorageProof>,
}

/// Nodes that prove one slot.
#[derive(Clone, Debug)]
pub struct StorageProof {
    /// The slot's value, zero where absent.
    pub value: U256,
    /// Nodes of the storage proof.
    pub nodes: Vec<Bytes>,
}

impl State {
    /// Proof of an account and of slots of it (EIP-1186).
    ///
    /// An absence is proved by the nodes down to and including the one that shows it; an empty trie
    /// has no nodes.
    ///
    /// # Errors
    /// As [`Self::storage`].
    pub fn prove(&self, address: &Address, slots: &[U256]) -> Result<AccountProof, TrieError> {
        let mut nodes = Vec::new();
        let account = self.walk_account(address, |rlp| nodes.push(Bytes::copy_from_slice(rlp)))?;
        let storage_root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        let storage = slots
            .iter()
            .map(|slot| self.prove_slot(storage_root, *slot))
            .collect::<Result<_, TrieError>>()?;
        Ok(AccountProof {
            account,
            nodes,
            storage,
        })
    }

    /// Proof of a slot of the account with this storage root.
    ///
    /// # Errors
    /// As [`Self::storage`].
    pub fn prove_slot(&self, storage_root: B256, slot: U256) -> Result<StorageProof, TrieError> {
        let mut nodes = Vec::new();
        let push = |rlp: &[u8]| nodes.push(Bytes::copy_from_slice(rlp));
        let value = self.walk_storage(storage_root, slot, push)?;
        Ok(StorageProof { value, nodes })
    }
}
