use alloy_primitives::{Bytes, U256};
use alloy_trie::TrieAccount;

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
