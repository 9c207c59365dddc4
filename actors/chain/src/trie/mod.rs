//! State as Merkle Patricia tries, stored by node hash.
//!
//! Nodes are stored as keccak256 -> RLP. References are counted: from parents, from account leaves
//! that name a storage root or a code hash, and from the [`State`] handles that keep a root alive.
//! A block's state costs only what the block changed.
//!
//! | file | what it is responsible for |
//! |---|---|
//! | `node` | one node: its RLP decoded, and what it references |
//! | `node_store` | the nodes and codes of all held states, and their reference counts |
//! | `handles` | the handles that keep roots alive |
//! | `changed`, `copy` | which nodes and codes a store gained or lost, for a copy outside of memory |
//! | `load` | nodes and codes that are loaded from such a copy as they are needed |
//! | `code` | a code, as the EVM runs it |
//! | `walker` | walks from a root to a key: every read goes through it |
//! | `subtree` | many updates to one trie, with each changed node decoded and hashed once |
//! | `update`, `changes` | what a block does to accounts, and the new nodes that result |
//! | `unstored` | many updates that follow one another, and are not stored |
//! | `merge` | what a block changed, merged into a state that is held in part |
//! | `proof` | account and storage proofs (EIP-1186) |
//! | `verify` | checks a proof by a walk over its nodes |
//! | `eviction` | which nodes leave a store that has a bound in bytes |
//! | `invariants` | compares the store with a recount from the held roots |
//!
//! Readers hold no lock during a walk, only during one node's look-up. A [`State`] can be walked
//! while the writer commits, because a node is released only after the last handle that reaches it.

mod changed;
mod changes;
mod code;
mod copy;
mod error;
mod eviction;
mod handles;
#[cfg(any(test, feature = "testing"))]
mod invariants;
mod load;
mod merge;
mod node;
mod node_store;
mod proof;
mod state;
mod subtree;
#[cfg(test)]
mod tests;
mod unstored;
mod update;
mod verify;
mod walker;

pub use changes::Changes;
pub(crate) use code::bytecode;
pub use error::TrieError;
#[cfg(any(test, feature = "testing"))]
pub use invariants::InvariantError;
pub use merge::{AccountChange, Merge, Merged, StateChanges, WantedProof};
pub use node::Reference;
#[cfg(any(test, feature = "testing"))]
pub use node::references;
pub use node_store::{NodeStore, NodeStoreStats};
pub use proof::{AccountProof, StorageProof};
pub use state::State;
pub(crate) use unstored::UnstoredState;
pub use update::{AccountInfo, AccountUpdate, StateUpdate};
#[cfg(test)]
pub(crate) use verify::ProofFlaw;
pub use verify::{ProofError, VerifiedProof};
