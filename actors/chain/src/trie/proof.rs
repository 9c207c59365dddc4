use alloy_primitives::{Bytes, U256};
use alloy_trie::TrieAccount;

/// Nodes that prove an account (or its absence) and its slots, root first.
#[derive(Clone, Debug)]
pub struct AccountProof {
    /// The account; `None` if it is absent.
    pub account: Option<TrieAccount>,
    /// Nodes of the account proof.
    pub nodes: Vec<Bytes>,
    /// One entry per requested slot, in order.
    pub storage: Vec<StorageProof>,
}

impl AccountProof {
    /// All nodes of the proof. Those that several slots share are there several times.
    pub fn into_nodes(self) -> impl Iterator<Item = Bytes> {
        let storage = self.storage.into_iter().flat_map(|slot| slot.nodes);
        self.nodes.into_iter().chain(storage)
    }
}

/// Nodes that prove one slot.
#[derive(Clone, Debug)]
pub struct StorageProof {
    /// The slot's value; zero if it is absent.
    pub(crate) value: U256,
    /// Nodes of the storage proof.
    pub(crate) nodes: Vec<Bytes>,
}
