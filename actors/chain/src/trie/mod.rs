//! State by node hash.
//!
//! Nodes are stored as keccak256 -> RLP and reference-counted: by their parents, by the account leaves that name a
//! storage root or a code hash, and by the [`State`] handles that keep a root alive. A block's state costs what it changed.

mod state;

pub use state::{
    AccountProof, AccountUpdate, Changes, NodeStore, State, StateUpdate, StorageProof, TrieError,
};
