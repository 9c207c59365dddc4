use alloy_primitives::{
    B256, keccak256,
    map::{AddressSet, B256Map},
};
use alloy_rlp::Encodable;
use alloy_trie::{
    EMPTY_ROOT_HASH, TrieMask,
    nodes::{BranchNodeRef, ExtensionNodeRef, LeafNodeRef, RlpNode},
};
use nybbles::Nibbles;

use super::{
    NodeStore, TrieError,
    error::if_held,
    node::{KEY_NIBBLES, Node},
    node_store::Peek,
    walker::NodeSource,
};

/// A subtree whose parent does not have its final shape yet.
///
/// A leaf or an extension may still be merged with the path above it, so it is encoded only when
/// the node above it is known to be a branch. Thus each new node of the result is encoded and
/// hashed once, and no other node is.
#[derive(Default)]
pub(super) enum Subtree {
    /// No keys.
    #[default]
    Empty,
    /// Unchanged, and not decoded.
    Untouched(RlpNode),
    /// One key.
    Leaf { path: Nibbles, value: Vec<u8> },
    /// A branch below a path.
    Extension { path: Nibbles, branch: RlpNode },
    /// A branch. Nothing above it can change its shape.
    Branch(RlpNode),
}

impl Subtree {
    /// The trie with this root.
    pub(super) fn of_root(root: B256) -> Self {
        match root {
            EMPTY_ROOT_HASH => Self::Empty,
            root => Self::Untouched(RlpNode::word_rlp(&root)),
        }
    }

    /// The hash of its node; `None` if that is decoded, or embedded in the node above.
    pub(super) fn hash(&self) -> Option<B256> {
        match self {
            Self::Untouched(node) | Self::Branch(node) => node.as_hash(),
            Self::Empty | Self::Leaf { .. } | Self::Extension { .. } => None,
        }
    }
}

/// A decoded node, to which updates can be applied.
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for the moment between a decode and its use"
)]
pub(super) enum DecodedNode {
    /// A leaf or an extension.
    Short(Subtree),
    Branch([Subtree; 16]),
}

/// A change to one key of a trie.
pub(super) trait LeafUpdate {
    /// RLP of the key's new value, or `None` to delete it; `before` is the RLP of its current
    /// value.
    fn value(
        &self,
        before: Option<&[u8]>,
        updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError>;
}

/// Applies updates to tries of a store, and keeps the new nodes apart from the store.
pub(super) struct TrieUpdater<'a> {
    store: &'a NodeStore,
    /// The new nodes, by keccak256.
    nodes: B256Map<Box<[u8]>>,
    /// Whether updates apply to new nodes, too: to what another update has left.
    reads_new: bool,
    /// The accounts whose storage could not be updated.
    pub(super) failed_storage: AddressSet,
    /// Buffer for the RLP of the node that is being encoded.
    rlp: Vec<u8>,
}

impl<'a> TrieUpdater<'a> {
    pub(super) fn new(store: &'a NodeStore) -> Self {
        Self {
            store,
            nodes: B256Map::default(),
            reads_new: false,
            failed_storage: AddressSet::default(),
            rlp: Vec::new(),
        }
    }

    /// An updater whose updates follow one another.
    pub(super) fn over_new_nodes(store: &'a NodeStore) -> Self {
        Self {
            reads_new: true,
            ..Self::new(store)
        }
    }

    /// The new nodes of all updated tries.
    pub(super) fn into_nodes(self) -> B256Map<Box<[u8]>> {
        self.nodes
    }

    /// Applies `updates` to the trie with this root and returns the new root. Keys are sorted and
    /// distinct.
    pub(super) fn update_trie<L: LeafUpdate>(
        &mut self,
        root: B256,
        updates: &[(B256, L)],
    ) -> Result<B256, TrieError> {
        debug_assert!(
            updates.is_sorted_by(|a, b| a.0 < b.0),
            "updates are sorted by key"
        );
        if updates.is_empty() {
            return Ok(root);
        }
        let after = self.apply(Subtree::of_root(root), 0, updates)?;
        Ok(self.encode_root(&after))
    }

    /// Applies `updates`, which share their first `depth` nibbles, to the subtree at that depth.
    pub(super) fn apply<L: LeafUpdate>(
        &mut self,
        before: Subtree,
        depth: usize,
        updates: &[(B256, L)],
    ) -> Result<Subtree, TrieError> {
        let ([(first, update), ..], [.., (last, _)]) = (updates, updates) else {
            return Ok(before);
        };
        let first = Nibbles::unpack(first).slice(depth..);
        let last = Nibbles::unpack(last).slice(depth..);
        let mut children = <[Subtree; 16]>::default();
        let shared = match before {
            Subtree::Empty if updates.len() == 1 => {
                return Ok(match update.value(None, self)? {
                    Some(value) => Subtree::Leaf { path: first, value },
                    None => Subtree::Empty,
                });
            }
            Subtree::Empty => first.common_prefix_length(&last),
            Subtree::Untouched(node) | Subtree::Branch(node) => match self.load(&node, depth)? {
                DecodedNode::Short(before) => return self.apply(before, depth, updates),
                DecodedNode::Branch(parts) => {
                    children = parts;
                    0
                }
            },
            Subtree::Leaf { path, value } => {
                let shared = shared_by(&path, &first, &last);
                if shared == path.len() {
                    return Ok(match update.value(Some(&value), self)? {
                        Some(value) => Subtree::Leaf { path, value },
                        None => Subtree::Empty,
                    });
                }
                let rest = path.slice(shared + 1..);
                children[usize::from(path.get_unchecked(shared))] =
                    Subtree::Leaf { path: rest, value };
                shared
            }
            Subtree::Extension { path, branch } => {
                let shared = shared_by(&path, &first, &last);
                if shared == path.len() {
                    let below = self.apply(Subtree::Branch(branch), depth + shared, updates)?;
                    return self.prefix(path, below, depth);
                }
                let rest = path.slice(shared + 1..);
                let below = self.prefix(rest, Subtree::Branch(branch), depth + shared + 1)?;
                children[usize::from(path.get_unchecked(shared))] = below;
                shared
            }
        };
        let below = self.apply_to_branch(&mut children, depth + shared, updates)?;
        self.prefix(first.slice(..shared), below, depth)
    }

    /// Applies `updates` to the children of a branch at `depth`, and makes the node that holds the
    /// result.
    fn apply_to_branch<L: LeafUpdate>(
        &mut self,
        children: &mut [Subtree; 16],
        depth: usize,
        mut updates: &[(B256, L)],
    ) -> Result<Subtree, TrieError> {
        while let Some((key, _)) = updates.first() {
            let nibble = nibble_at(key, depth);
            let count = updates.partition_point(|(key, _)| nibble_at(key, depth) == nibble);
            let (here, rest) = updates.split_at(count);
            let child = &mut children[usize::from(nibble)];
            *child = self.apply(std::mem::take(child), depth + 1, here)?;
            updates = rest;
        }
        let mut occupied = (0..16).filter(|nibble| !matches!(children[*nibble], Subtree::Empty));
        match (occupied.next(), occupied.next()) {
            (None, _) => Ok(Subtree::Empty),
            (Some(only), None) => {
                let path = Nibbles::from_nibbles_unchecked([only as u8]);
                self.prefix(path, std::mem::take(&mut children[only]), depth)
            }
            (Some(_), Some(_)) => Ok(Subtree::Branch(self.encode_branch(children))),
        }
    }

    /// Puts `path`, which starts at `depth`, above a subtree: a leaf or an extension absorbs it, a
    /// branch gets an extension.
    fn prefix(
        &mut self,
        path: Nibbles,
        below: Subtree,
        depth: usize,
    ) -> Result<Subtree, TrieError> {
        if path.is_empty() {
            return Ok(below);
        }
        Ok(match below {
            Subtree::Empty => Subtree::Empty,
            Subtree::Leaf { path: rest, value } => Subtree::Leaf {
                path: path.join(&rest),
                value,
            },
            Subtree::Extension { path: rest, branch } => Subtree::Extension {
                path: path.join(&rest),
                branch,
            },
            Subtree::Branch(branch) => Subtree::Extension { path, branch },
            Subtree::Untouched(node) => match self.load(&node, depth + path.len())? {
                DecodedNode::Short(below) => return self.prefix(path, below, depth),
                DecodedNode::Branch(_) => Subtree::Extension { path, branch: node },
            },
        })
    }

    /// A subtree with its node decoded; `None` if that is missing.
    pub(super) fn open(
        &self,
        subtree: Subtree,
        depth: usize,
    ) -> Result<Option<DecodedNode>, TrieError> {
        match subtree {
            Subtree::Untouched(node) | Subtree::Branch(node) => if_held(self.load(&node, depth)),
            subtree => Ok(Some(DecodedNode::Short(subtree))),
        }
    }

    /// The parts of a subtree by their next nibble; `None` if its node is missing.
    pub(super) fn split(
        &self,
        subtree: Subtree,
        depth: usize,
    ) -> Result<Option<[Subtree; 16]>, TrieError> {
        Ok(self.open(subtree, depth)?.map(DecodedNode::split))
    }

    /// Decodes a node at `depth`.
    pub(super) fn load(&self, node: &RlpNode, depth: usize) -> Result<DecodedNode, TrieError> {
        let malformed = |rlp, error| TrieError::Malformed {
            hash: keccak256(rlp),
            error,
        };
        let decode = |rlp| DecodedNode::decode(rlp, depth).map_err(|error| malformed(rlp, error));
        let Some(hash) = node.as_hash() else {
            return decode(node);
        };
        match self.nodes.get(&hash).filter(|_| self.reads_new) {
            Some(rlp) => decode(rlp),
            None => Peek(self.store).read_node(&hash, |rlp| DecodedNode::decode(rlp, depth)),
        }
    }

    /// Encodes a subtree, and keeps its node if it is new.
    pub(super) fn encode_subtree(&mut self, subtree: &Subtree) -> RlpNode {
        match subtree {
            Subtree::Empty => RlpNode::default(),
            Subtree::Untouched(node) | Subtree::Branch(node) => node.clone(),
            Subtree::Leaf { path, value } => self.keep(&LeafNodeRef::new(path, value)),
            Subtree::Extension { path, branch } => self.keep(&ExtensionNodeRef::new(path, branch)),
        }
    }

    fn encode_branch(&mut self, children: &[Subtree; 16]) -> RlpNode {
        let mut stack = <[RlpNode; 16]>::default();
        let mut mask = TrieMask::default();
        let mut count = 0;
        for (nibble, child) in (0..).zip(children) {
            if !matches!(child, Subtree::Empty) {
                stack[count] = self.encode_subtree(child);
                mask.set_bit(nibble);
                count += 1;
            }
        }
        self.keep(&BranchNodeRef::new(&stack[..count], mask))
    }

    /// Encodes a root, which is named by its hash however short its node is.
    pub(super) fn encode_root(&mut self, subtree: &Subtree) -> B256 {
        if matches!(subtree, Subtree::Empty) {
            return EMPTY_ROOT_HASH;
        }
        let node = self.encode_subtree(subtree);
        node.as_hash().unwrap_or_else(|| {
            let hash = keccak256(&node);
            self.nodes.insert(hash, node.as_slice().into());
            hash
        })
    }

    fn keep(&mut self, node: &dyn Encodable) -> RlpNode {
        self.rlp.clear();
        node.encode(&mut self.rlp);
        let node = RlpNode::from_rlp(&self.rlp);
        if let Some(hash) = node.as_hash() {
            self.nodes.insert(hash, self.rlp.as_slice().into());
        }
        node
    }
}

impl DecodedNode {
    /// The value of a leaf.
    pub(super) fn into_value(self) -> Option<Vec<u8>> {
        match self {
            Self::Short(Subtree::Leaf { value, .. }) => Some(value),
            _ => None,
        }
    }

    /// Its parts by their next nibble.
    pub(super) fn split(self) -> [Subtree; 16] {
        let mut parts = <[Subtree; 16]>::default();
        let subtree = match self {
            Self::Branch(children) => return children,
            Self::Short(subtree) => subtree,
        };
        let (first, rest) = match subtree {
            Subtree::Leaf { path, value } => {
                let rest = Subtree::Leaf {
                    path: path.slice(1.min(path.len())..),
                    value,
                };
                (path.first(), rest)
            }
            Subtree::Extension { path, branch } if path.len() == 1 => {
                (path.first(), Subtree::Branch(branch))
            }
            Subtree::Extension { path, branch } => {
                let rest = Subtree::Extension {
                    path: path.slice(1.min(path.len())..),
                    branch,
                };
                (path.first(), rest)
            }
            Subtree::Empty | Subtree::Untouched(_) | Subtree::Branch(_) => return parts,
        };
        if let Some(nibble) = first {
            parts[usize::from(nibble)] = rest;
        }
        parts
    }

    fn decode(rlp: &[u8], depth: usize) -> alloy_rlp::Result<Self> {
        Ok(match Node::decode_at(rlp, depth)? {
            Node::Leaf { path, value } => Self::Short(Subtree::Leaf {
                path,
                value: value.to_vec(),
            }),
            Node::Extension { path, child } => Self::Short(Subtree::Extension {
                path,
                branch: child.to_rlp_node(),
            }),
            Node::Branch(branch) => Self::Branch(branch.children()?.map(|child| match child {
                Some(child) => Subtree::Untouched(child.to_rlp_node()),
                None => Subtree::Empty,
            })),
        })
    }
}

/// Number of nibbles that `path` shares with all keys from `first` to `last`.
fn shared_by(path: &Nibbles, first: &Nibbles, last: &Nibbles) -> usize {
    path.common_prefix_length(first)
        .min(path.common_prefix_length(last))
}

/// The nibble of a key at `depth`, which is less than [`KEY_NIBBLES`].
pub(super) fn nibble_at(key: &B256, depth: usize) -> u8 {
    debug_assert!(depth < KEY_NIBBLES, "keys are distinct and of one length");
    let byte = key[depth / 2];
    if depth.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0x0f
    }
}
