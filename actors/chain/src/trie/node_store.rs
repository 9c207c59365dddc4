use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use alloy_primitives::{
    B256, Bytes,
    map::{B256Map, FbBuildHasher},
};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY};
use dashmap::{DashMap, Entry as MapEntry};
use parking_lot::Mutex;

use super::{
    TrieError,
    node::{Reference, push_references},
    update::Changes,
};

/// Shards of the node map. A shard that grows keeps its readers waiting while its entries move: with 2 million nodes
/// in 1,024 shards that is some 30 µs, with the default of 4 a core it would be milliseconds.
const NODE_SHARDS: usize = 1_024;
/// Shards of the code map: a few ten thousand entries at most.
const CODE_SHARDS: usize = 64;

/// All nodes and codes of the held states, by keccak256, each with the number of times that it is named.
///
/// A state may be held in part: what it names and nobody brought has an entry without bytes, which is counted as any
/// other. Who reads it is told that it is missing; a commit that brings it completes it for all.
///
/// There is one writer at a time, which commits and releases; readers never wait for it longer than one map entry takes.
pub struct NodeStore {
    pub(super) nodes: DashMap<B256, NodeEntry, FbBuildHasher<32>>,
    pub(super) codes: DashMap<B256, CodeEntry, FbBuildHasher<32>>,
    pub(super) node_bytes: AtomicUsize,
    code_bytes: AtomicUsize,
    pub(super) handles: Mutex<Handles>,
    /// Held over every change of reference counts: an acquire must not meet a release half done.
    pub(super) writer: Mutex<()>,
}

/// A stored node.
pub(super) struct NodeEntry {
    /// Stored parents, account leaves and handles that name the node; never zero.
    pub(super) refs: u32,
    /// `None` where the node is missing.
    pub(super) rlp: Option<Box<[u8]>>,
}

/// A stored code.
pub(super) struct CodeEntry {
    /// Stored account leaves that name the code; never zero.
    pub(super) refs: u32,
    /// `None` where the code is missing.
    pub(super) code: Option<Bytes>,
}

/// Who holds roots.
#[derive(Default)]
pub(super) struct Handles {
    /// Live [`State`](super::State) handles by root.
    live: B256Map<u32>,
    /// Roots whose handle is gone and whose reference is not released yet: one a handle.
    pub(super) retired: Vec<B256>,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStoreStats {
    /// Nodes, those included that are named and missing.
    pub nodes: usize,
    /// Bytes of their RLP.
    pub node_bytes: usize,
    /// Codes, those included that are named and missing.
    pub codes: usize,
    /// Bytes of them.
    pub code_bytes: usize,
    /// Handles that are gone and whose nodes wait for [`NodeStore::release_retired`].
    pub retired: usize,
}

impl NodeStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            nodes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), NODE_SHARDS),
            codes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), CODE_SHARDS),
            node_bytes: AtomicUsize::new(0),
            code_bytes: AtomicUsize::new(0),
            handles: Mutex::default(),
            writer: Mutex::new(()),
        })
    }

    /// How much is held now.
    #[must_use]
    pub fn stats(&self) -> NodeStoreStats {
        NodeStoreStats {
            nodes: self.nodes.len(),
            node_bytes: self.node_bytes.load(Ordering::Relaxed),
            codes: self.codes.len(),
            code_bytes: self.code_bytes.load(Ordering::Relaxed),
            retired: self.handles.lock().retired.len(),
        }
    }

    /// Roots of the live handles, one entry a handle.
    #[must_use]
    pub fn held_roots(&self) -> Vec<B256> {
        let handles = self.handles.lock();
        let repeat = |(root, count): (&B256, &u32)| std::iter::repeat_n(*root, *count as usize);
        handles.live.iter().flat_map(repeat).collect()
    }

    /// Releases what only dropped handles reached.
    ///
    /// Takes as long as what goes is large: for the thread that commits, not for one that answers requests.
    pub fn release_retired(&self) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
    }

    /// Reads the node with this hash where it stands; nothing else may be read meanwhile.
    pub(super) fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, TrieError> {
        let entry = self.nodes.get(hash);
        let rlp = entry.as_ref().and_then(|entry| entry.rlp.as_deref());
        let rlp = rlp.ok_or(TrieError::MissingNode { hash: *hash })?;
        read(rlp).map_err(|why| TrieError::Malformed { hash: *hash, why })
    }

    /// The code with this hash; the code of keccak256 of nothing is empty.
    pub(super) fn code(&self, hash: &B256) -> Result<Bytes, TrieError> {
        if *hash == KECCAK_EMPTY {
            return Ok(Bytes::new());
        }
        let entry = self.codes.get(hash);
        let code = entry.and_then(|entry| entry.code.clone());
        code.ok_or(TrieError::MissingCode { hash: *hash })
    }

    /// Stores what the new root reaches and nobody stored before; the caller owes one handle to the root.
    pub(super) fn commit(&self, mut changes: Changes) -> B256 {
        let root = changes.root;
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.acquire(Reference::Node(root), &mut changes);
        *self.handles.lock().live.entry(root).or_default() += 1;
        root
    }

    /// Registers a handle to the empty state, which needs no nodes.
    pub(super) fn hold_empty(&self) -> B256 {
        *self.handles.lock().live.entry(EMPTY_ROOT_HASH).or_default() += 1;
        EMPTY_ROOT_HASH
    }

    /// Takes a handle back; what only it reached stays until the writer releases it.
    pub(super) fn retire(&self, root: B256) {
        let mut handles = self.handles.lock();
        if let Some(count) = handles.live.get_mut(&root) {
            *count -= 1;
            if *count == 0 {
                handles.live.remove(&root);
            }
        }
        if root != EMPTY_ROOT_HASH {
            handles.retired.push(root);
        }
    }

    /// Counts one more reference from outside, and those of every node that comes to be stored by it.
    ///
    /// What is stored already has acquired what it names, so the walk stops there: the cost is that of what is new.
    fn acquire(&self, reference: Reference, changes: &mut Changes) {
        let mut pending = vec![reference];
        while let Some(reference) = pending.pop() {
            match reference {
                Reference::Node(hash) if hash == EMPTY_ROOT_HASH => {}
                Reference::Node(hash) => {
                    let missing = NodeEntry { refs: 0, rlp: None };
                    let mut entry = self.nodes.entry(hash).or_insert(missing);
                    entry.refs += 1;
                    if entry.rlp.is_none()
                        && let Some(rlp) = changes.nodes.remove(&hash)
                    {
                        self.node_bytes.fetch_add(rlp.len(), Ordering::Relaxed);
                        push_named(&rlp, &mut pending);
                        entry.rlp = Some(rlp);
                    }
                }
                Reference::Code(hash) => {
                    let missing = CodeEntry {
                        refs: 0,
                        code: None,
                    };
                    let mut entry = self.codes.entry(hash).or_insert(missing);
                    entry.refs += 1;
                    if entry.code.is_none()
                        && let Some(code) = changes.codes.remove(&hash)
                    {
                        self.code_bytes.fetch_add(code.len(), Ordering::Relaxed);
                        entry.code = Some(code);
                    }
                }
            }
        }
    }

    fn release_retired_as_writer(&self) {
        let retired = std::mem::take(&mut self.handles.lock().retired);
        let mut pending = retired.into_iter().map(Reference::Node).collect::<Vec<_>>();
        while let Some(reference) = pending.pop() {
            match reference {
                Reference::Node(hash) => {
                    let MapEntry::Occupied(mut entry) = self.nodes.entry(hash) else {
                        continue;
                    };
                    entry.get_mut().refs -= 1;
                    if entry.get().refs == 0
                        && let Some(rlp) = entry.remove().rlp
                    {
                        self.node_bytes.fetch_sub(rlp.len(), Ordering::Relaxed);
                        push_named(&rlp, &mut pending);
                    }
                }
                Reference::Code(hash) => {
                    let MapEntry::Occupied(mut entry) = self.codes.entry(hash) else {
                        continue;
                    };
                    entry.get_mut().refs -= 1;
                    if entry.get().refs == 0
                        && let Some(code) = entry.remove().code
                    {
                        self.code_bytes.fetch_sub(code.len(), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

/// Appends what a stored node names; a malformed one names nothing, when it is acquired and when it is released.
fn push_named(rlp: &[u8], pending: &mut Vec<Reference>) {
    let _ = push_references(rlp, pending);
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeStore").field(&self.stats()).finish()
    }
}
