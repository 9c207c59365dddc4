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

/// Nodes that prove one slot.
#[derive(Clone, Debug)]
pub struct StorageProof {
    /// The slot's value; zero if it is absent.
    pub(crate) value: U256,
    /// Nodes of the storage proof.
    pub(crate) nodes: Vec<Bytes>,
}
