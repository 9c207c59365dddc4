//! State by node hash.
//!
//! Nodes are stored as keccak256 -> RLP and reference-counted: by their parents, by the account
//! leaves that name a storage root or a code hash, and by the [`State`] handles that keep a root
//! alive. A block's state costs what it changed.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | `node` | one node: what its RLP says, and what it names |
//! | `node_store` | the nodes and codes of all held states, who holds them, when they go |
//! | `walker` | from a root to a key: the only way that anything is read |
//! | `subtree` | many updates to one trie, each changed node decoded and hashed once |
//! | `update` | what a block does to accounts, and the nodes that come of it |
//! | `proof` | walks that keep their nodes (EIP-1186) |
//! | `verify` | a walk over the nodes that a proof brings |
//! | `eviction` | what goes where a store has a bound in bytes |
//! | `invariants` | the store against a recount of what the held roots reach |
//!
//! Readers take no lock over a walk: a node is found, read and let go. Whoever holds a [`State`]
//! can walk it while one writer commits, because a node goes only after the last handle that
//! reaches it.

mod changes;
mod error;
mod eviction;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod node;
mod node_store;
mod proof;
mod state;
mod subtree;
#[cfg(test)]
mod tests;
mod update;
mod verify;
mod walker;

pub use changes::Changes;
pub use error::TrieError;
#[cfg(any(test, feature = "testing"))]
pub use invariants::InvariantError;
pub use node::Reference;
#[cfg(any(test, feature = "testing"))]
pub use node::references;
pub use node_store::{NodeStore, NodeStoreStats};
pub use proof::{AccountProof, StorageProof};
pub use state::State;
pub use update::{AccountInfo, AccountUpdate, StateUpdate};
pub use verify::{ProofError, ProofFlaw, ProofPart};
