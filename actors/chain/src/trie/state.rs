//! (contract stub; split into node_store.rs, walker.rs, update.rs, state.rs)
#![allow(clippy::todo, unused)]
use std::sync::Arc;
use alloy_primitives::{Address, B256, Bytes, U256, map::{AddressMap, B256Map}};
use alloy_trie::TrieAccount;

/// All nodes and codes of the held states.
#[derive(Debug)]
pub struct NodeStore {}

/// Handle that keeps one state root readable; dropping the last one releases what only it reached.
#[derive(Debug)]
pub struct State {}

/// What a block (or a genesis) does to the state.
#[derive(Clone, Debug, Default)]
pub struct StateUpdate {
    /// Changed accounts by address.
    pub accounts: AddressMap<AccountUpdate>,
    /// Codes that the accounts may name, by keccak256.
    pub code: B256Map<Bytes>,
}

/// What happens to one account.
#[derive(Clone, Debug, Default)]
pub struct AccountUpdate {
    /// (nonce, balance, code hash) afterwards; `None` deletes the account and its storage.
    pub info: Option<(u64, U256, B256)>,
    /// Whether the storage it had before is wiped first (self-destruct, re-creation).
    pub storage_wiped: bool,
    /// Slots afterwards; zero deletes.
    pub storage: Vec<(U256, U256)>,
}

/// New nodes of an update, not stored yet; dropping them forgets the update.
#[derive(Debug)]
pub struct Changes {}

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
    /// The slot.
    pub slot: U256,
    /// Its value, zero where absent.
    pub value: U256,
    /// Nodes of the storage proof.
    pub nodes: Vec<Bytes>,
}

/// Why a state could not be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TrieError {
    /// A node that the path needs is not in the store.
    #[error("trie node {hash} is missing")]
    MissingNode {
        /// keccak256 of the node.
        hash: B256,
    },
    /// A code is not in the store.
    #[error("code {hash} is missing")]
    MissingCode {
        /// keccak256 of the code.
        hash: B256,
    },
    /// A stored node is not valid RLP of a trie node.
    #[error("trie node {hash} is malformed: {why}")]
    Malformed {
        /// keccak256 of the node.
        hash: B256,
        /// What the decoder said.
        why: String,
    },
}

impl NodeStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Arc<Self> { todo!() }
}

impl State {
    /// The empty state over `store`.
    #[must_use]
    pub fn empty(store: &Arc<NodeStore>) -> Arc<Self> { todo!() }
    /// The state root.
    #[must_use]
    pub fn root(&self) -> B256 { todo!() }
    /// The account at `address`.
    pub fn account(&self, address: &Address) -> Result<Option<TrieAccount>, TrieError> { todo!() }
    /// The value of a slot; zero for an absent account or slot.
    pub fn storage(&self, address: &Address, slot: U256) -> Result<U256, TrieError> { todo!() }
    /// The code with this hash (empty for keccak256 of nothing).
    pub fn code(&self, hash: &B256) -> Result<Bytes, TrieError> { todo!() }
    /// Proof of an account and of slots of it (EIP-1186).
    pub fn prove(&self, address: &Address, slots: &[U256]) -> Result<AccountProof, TrieError> { todo!() }
    /// Computes the state after `update`; nothing is stored yet.
    pub fn update(&self, update: &StateUpdate) -> Result<Changes, TrieError> { todo!() }
    /// Stores the changes and returns a handle to the new state.
    pub fn commit(&self, changes: Changes) -> Arc<Self> { todo!() }
}

impl Changes {
    /// The state root after the update.
    #[must_use]
    pub fn root(&self) -> B256 { todo!() }
}
