use std::cell::{Cell, RefCell};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256, map::B256Map};
use alloy_rlp::{Decodable, EMPTY_STRING_CODE};
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};

use super::{
    AccountProof, NodeStore, State, StorageProof,
    node_store::Use,
    walker::{NodeSource, walk},
};

/// The nodes of a proof that the state's store did not hold.
#[derive(Clone, Debug, Default)]
pub(super) struct UnheldNodes {
    /// Their hashes, each after that of the node that names it.
    pub(super) order: Vec<B256>,
    by_hash: B256Map<Bytes>,
}

/// A proof that was verified against a state.
#[derive(Clone, Debug)]
pub struct VerifiedProof {
    /// The proof.
    pub proof: AccountProof,
    pub(super) unheld: UnheldNodes,
}

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
    check: &'n NodeCheck<'n>,
}

/// Checks nodes by their hashes, each once: the paths of an account's slots, and most proofs of a
/// block, begin with the same nodes. One that is held was checked when it came. If it leaves the
/// store before the others are inserted, it is missing again, and fetched.
#[derive(Default)]
struct NodeCheck<'s> {
    store: Option<&'s NodeStore>,
    unheld: RefCell<UnheldNodes>,
}

impl NodeCheck<'_> {
    fn check(&self, node: &Bytes, expected: B256) -> Result<(), ProofFlaw> {
        let is_known = |store: &NodeStore| store.holds_node(&expected, node);
        let mut unheld = self.unheld.borrow_mut();
        if self.store.is_some_and(is_known) || unheld.by_hash.get(&expected) == Some(node) {
            return Ok(());
        }
        let found = keccak256(node);
        if found != expected {
            return Err(ProofFlaw::Node { expected, found });
        }
        unheld.order.push(found);
        unheld.by_hash.insert(found, node.clone());
        Ok(())
    }
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
        self.check.check(node, *hash)?;
        read(node).map_err(|error| ProofFlaw::Malformed { hash: *hash, error })
    }
}

impl State {
    /// Verifies the nodes of a proof against this state, as [`AccountProof::verify`] does.
    ///
    /// # Errors
    /// A [`ProofError`] with the first node that does not fit.
    pub(crate) fn verify(
        &self,
        address: &Address,
        nodes: Vec<Bytes>,
        storage: Vec<(U256, Vec<Bytes>)>,
    ) -> Result<VerifiedProof, ProofError> {
        let check = NodeCheck {
            store: Some(self.store()),
            ..NodeCheck::default()
        };
        let proof = AccountProof::verify_nodes(&check, self.root(), address, nodes, storage)?;
        let unheld = check.unheld.into_inner();
        Ok(VerifiedProof { proof, unheld })
    }
}

impl NodeStore {
    /// Stores those nodes of a proof that a held root of this store reaches, for a read of them.
    /// The proof was verified against a state of this store.
    pub fn insert_verified(&self, proof: &VerifiedProof) {
        self.insert_unheld(proof, Use::Read);
    }

    /// The same as [`Self::insert_verified`], for a merge: nobody has read the nodes yet.
    pub fn insert_unread(&self, proof: &VerifiedProof) {
        self.insert_unheld(proof, Use::Merge);
    }

    fn insert_unheld(&self, proof: &VerifiedProof, by: Use) {
        let UnheldNodes { order, by_hash } = &proof.unheld;
        let nodes = by_hash.iter();
        let nodes = nodes.map(|(hash, rlp)| (*hash, Box::from(rlp.as_ref())));
        self.insert(order.clone(), nodes.collect(), by);
    }

    /// Whether the node with this hash is held, and has these bytes.
    pub(super) fn holds_node(&self, hash: &B256, rlp: &[u8]) -> bool {
        let entry = self.nodes.get(hash);
        entry.is_some_and(|entry| entry.rlp.as_deref() == Some(rlp))
    }
}

impl AccountProof {
    /// Verifies the nodes of a proof against a state root: each must have the hash that the node
    /// before it names, and the path must need all of them. Account and values are decoded from the
    /// nodes.
    ///
    /// # Errors
    /// A [`ProofError`] with the first node that does not fit.
    #[cfg(test)]
    pub(crate) fn verify(
        state_root: B256,
        address: &Address,
        nodes: Vec<Bytes>,
        storage: Vec<(U256, Vec<Bytes>)>,
    ) -> Result<Self, ProofError> {
        Self::verify_nodes(&NodeCheck::default(), state_root, address, nodes, storage)
    }

    fn verify_nodes(
        check: &NodeCheck<'_>,
        state_root: B256,
        address: &Address,
        nodes: Vec<Bytes>,
        storage: Vec<(U256, Vec<Bytes>)>,
    ) -> Result<Self, ProofError> {
        let account = |mut value: &[u8]| TrieAccount::decode(&mut value);
        let (account, nodes) = verify_path(check, state_root, keccak256(address), nodes, account)
            .map_err(|flaw| ProofError {
            part: ProofPart::Account,
            flaw,
        })?;
        let storage_root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        let verify_slot = |(slot, nodes): (U256, Vec<Bytes>)| {
            let key = keccak256(slot.to_be_bytes::<32>());
            let value = |mut value: &[u8]| U256::decode(&mut value);
            let (value, nodes) =
                verify_path(check, storage_root, key, nodes, value).map_err(|flaw| ProofError {
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
    check: &NodeCheck<'_>,
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
        check,
    };
    let value = walk(&path, root, &key, |_| {}, read)?;
    let (expected, found) = (path.taken.get(), nodes.len());
    if expected == found {
        Ok((value, nodes))
    } else {
        Err(ProofFlaw::Long { expected, found })
    }
}
