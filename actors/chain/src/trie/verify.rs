use std::cell::Cell;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{Decodable, EMPTY_STRING_CODE};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::{
    AccountProof, StorageProof,
    walker::{NodeSource, walk},
};

/// An account proof that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {flaw}")]
pub struct ProofError {
    /// The part that is wrong.
    pub(crate) part: ProofPart,
    /// What is wrong with it.
    pub(crate) flaw: ProofFlaw,
}

/// A part of an account proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofPart {
    /// The path from the state root to the account.
    Account,
    /// The path from the account's storage root to a slot.
    Slot(U256),
}

impl std::fmt::Display for ProofPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Account => f.write_str("account proof"),
            Self::Slot(slot) => write!(f, "storage proof of {slot:#x}"),
        }
    }
}

/// What is wrong with a proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProofFlaw {
    /// The proof ends where another node must follow.
    #[error("expected a node {expected} after {found} nodes, found none")]
    Short {
        /// keccak256 of the node.
        expected: B256,
        /// Number of nodes in the proof.
        found: usize,
    },
    /// A node does not have the hash that the root, or the node before it, names.
    #[error("expected a node {expected}, found {found}")]
    Node {
        /// keccak256 of the node.
        expected: B256,
        /// keccak256 of the node found.
        found: B256,
    },
    /// The proof has nodes after the one that shows the value or its absence.
    #[error("expected {expected} nodes, found {found}")]
    Long {
        /// Number of nodes that the path needs.
        expected: usize,
        /// Number of nodes in the proof.
        found: usize,
    },
    /// A node or its content cannot be decoded. Its hash is right, so the chain itself holds these
    /// bytes.
    #[error("node {hash} is malformed: {error}")]
    Malformed {
        /// keccak256 of the node.
        hash: B256,
        /// The decoder's error.
        error: alloy_rlp::Error,
    },
}

/// The nodes of one path, consumed in order.
struct ProofPath<'n> {
    nodes: &'n [Bytes],
    taken: Cell<usize>,
}

impl NodeSource for ProofPath<'_> {
    type Error = ProofFlaw;

    fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, ProofFlaw> {
        let taken = self.taken.get();
        let node = self.nodes.get(taken).ok_or(ProofFlaw::Short {
            expected: *hash,
            found: taken,
        })?;
        self.taken.set(taken + 1);
        let found = keccak256(node);
        if found != *hash {
            return Err(ProofFlaw::Node {
                expected: *hash,
                found,
            });
        }
        read(node).map_err(|error| ProofFlaw::Malformed { hash: *hash, error })
    }
}

impl AccountProof {
    /// Verifies the nodes of a proof against a state root: each must have the hash that the node
    /// before it names, and the path must need all of them. Account and values are decoded from the
    /// nodes.
    ///
    /// # Errors
    /// A [`ProofError`] with the first node that does not fit.
    pub(crate) fn verify(
        state_root: B256,
        address: &Address,
        nodes: Vec<Bytes>,
        storage: Vec<(U256, Vec<Bytes>)>,
    ) -> Result<Self, ProofError> {
        let (account, nodes) = verify_path(state_root, keccak256(address), nodes, |mut value| {
            TrieAccount::decode(&mut value)
        })
        .map_err(|flaw| ProofError {
            part: ProofPart::Account,
            flaw,
        })?;
        let storage_root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        let verify_slot = |(slot, nodes): (U256, Vec<Bytes>)| {
            let key = keccak256(slot.to_be_bytes::<32>());
            let (value, nodes) = verify_path(storage_root, key, nodes, |mut value| {
                U256::decode(&mut value)
            })
            .map_err(|flaw| ProofError {
                part: ProofPart::Slot(slot),
                flaw,
            })?;
            let value = value.unwrap_or_default();
            Ok(StorageProof { value, nodes })
        };
        let storage = storage
            .into_iter()
            .map(verify_slot)
            .collect::<Result<_, ProofError>>()?;
        Ok(Self {
            account,
            nodes,
            storage,
        })
    }
}

/// Walks to a key along `nodes`; returns the value, and the nodes as eth_getProof has them.
fn verify_path<T>(
    root: B256,
    key: B256,
    mut nodes: Vec<Bytes>,
    read: impl Fn(&[u8]) -> alloy_rlp::Result<T>,
) -> Result<(Option<T>, Vec<Bytes>), ProofFlaw> {
    // An empty trie has no nodes; some clients send the RLP of an empty string for it.
    let is_empty_trie =
        |nodes: &[Bytes]| matches!(nodes, [node] if node.as_ref() == [EMPTY_STRING_CODE]);
    if root == EMPTY_ROOT_HASH && is_empty_trie(&nodes) {
        nodes.clear();
    }
    let path = ProofPath {
        nodes: &nodes,
        taken: Cell::new(0),
    };
    let value = walk(&path, root, &key, |_| {}, read)?;
    let (expected, found) = (path.taken.get(), nodes.len());
    if expected == found {
        Ok((value, nodes))
    } else {
        Err(ProofFlaw::Long { expected, found })
    }
}
