use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use alloy_primitives::{
    B256, Bytes, keccak256,
    map::{B256Map, FbBuildHasher},
};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY};
use dashmap::{DashMap, Entry as MapEntry};
use parking_lot::Mutex;

use super::{
    AccountProof, Changes, TrieError,
    node::{Reference, push_references},
    walker::NodeSource,
};

/// Shards of the node map. A shard that grows keeps its readers waiting while its entries move:
/// with 2 million nodes in 1,024 shards that is some 30 µs, with the default of 4 a core it would
/// be milliseconds.
const NODE_SHARDS: usize = 1_024;
/// Shards of the code map: a few ten thousand entries at most.
const CODE_SHARDS: usize = 64;

/// All nodes and codes of the held states, by keccak256, each with the number of times that it is
/// named.
///
/// A state may be held in part: what it names and nobody brought has an entry without bytes, which
/// is counted as any other. Who reads it is told that it is missing; a commit that brings it
/// completes it for all.
///
/// There is one writer at a time, which commits and releases; readers never wait for it longer than
/// one map entry takes.
///
/// A store of nodes that can be fetched again has a bound in bytes ([`Self::bounded`]); see
/// `eviction` for what goes. One of states that were executed here has none: what it needs is what
/// the window's states reach.
pub struct NodeStore {
    pub(super) nodes: DashMap<B256, NodeEntry, FbBuildHasher<32>>,
    pub(super) codes: DashMap<B256, CodeEntry, FbBuildHasher<32>>,
    pub(super) node_bytes: AtomicUsize,
    pub(super) code_bytes: AtomicUsize,
    pub(super) handles: Mutex<Handles>,
    /// Held over every change of reference counts: an acquire must not meet a release half done.
    pub(super) writer: Mutex<()>,
    /// Bytes to be held at most; `None` where nothing can be fetched again.
    pub(super) bytes_max: Option<usize>,
    /// Counts what was inserted, so that what was read long ago can be told from what was not.
    pub(super) age: AtomicU32,
}

/// A stored node.
pub(super) struct NodeEntry {
    /// Stored parents, account leaves and handles that name the node; never zero.
    pub(super) refs: u32,
    /// `None` where the node is missing.
    pub(super) rlp: Option<Box<[u8]>>,
    /// The store's age when it was last read, or brought.
    pub(super) used: AtomicU32,
}

/// A stored code.
pub(super) struct CodeEntry {
    /// Stored account leaves that name the code; never zero.
    pub(super) refs: u32,
    /// `None` where the code is missing.
    pub(super) code: Option<Bytes>,
    /// As that of a node.
    pub(super) used: AtomicU32,
}

impl NodeEntry {
    const fn missing() -> Self {
        Self {
            refs: 0,
            rlp: None,
            used: AtomicU32::new(0),
        }
    }
}

impl CodeEntry {
    const fn missing() -> Self {
        Self {
            refs: 0,
            code: None,
            used: AtomicU32::new(0),
        }
    }
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
    /// An empty store without a bound.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::of(None)
    }

    /// An empty store of what can be fetched again, which holds about `bytes_max` bytes at most.
    #[must_use]
    pub fn bounded(bytes_max: usize) -> Arc<Self> {
        Self::of(Some(bytes_max))
    }

    fn of(bytes_max: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            nodes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), NODE_SHARDS),
            codes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), CODE_SHARDS),
            node_bytes: AtomicUsize::new(0),
            code_bytes: AtomicUsize::new(0),
            handles: Mutex::default(),
            writer: Mutex::new(()),
            bytes_max,
            age: AtomicU32::new(0),
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
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn held_roots(&self) -> Vec<B256> {
        let handles = self.handles.lock();
        let repeat = |(root, count): (&B256, &u32)| std::iter::repeat_n(*root, *count as usize);
        handles.live.iter().flat_map(repeat).collect()
    }

    /// Releases what only dropped handles reached.
    ///
    /// Takes as long as what goes is large: for the thread that commits, not for one that answers
    /// requests.
    pub fn release_retired(&self) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
    }

    /// The code with this hash; the code of keccak256 of nothing is empty.
    pub(super) fn code(&self, hash: &B256) -> Result<Bytes, TrieError> {
        if *hash == KECCAK_EMPTY {
            return Ok(Bytes::new());
        }
        let entry = self.codes.get(hash);
        let code = entry.and_then(|entry| {
            self.mark(&entry.used);
            entry.code.clone()
        });
        code.ok_or(TrieError::MissingCode { hash: *hash })
    }

    /// Stores what the new root reaches and nobody stored before; the caller owes one handle to the
    /// root.
    pub(super) fn commit(&self, changes: Changes) -> B256 {
        let Changes {
            root, nodes, codes, ..
        } = changes;
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.acquire(vec![Reference::Node(root)], &mut Brought { nodes, codes });
        *self.handles.lock().live.entry(root).or_default() += 1;
        root
    }

    /// Registers a handle to a root of which nothing need be known; what others brought of it is
    /// there.
    pub(super) fn hold(&self, root: B256) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.acquire(vec![Reference::Node(root)], &mut Brought::default());
        *self.handles.lock().live.entry(root).or_default() += 1;
    }

    /// Stores the nodes of a proof wherever a held root reaches them; those that none reaches are
    /// left out.
    ///
    /// A node is stored by its own hash and only where another names it, so nothing false can come
    /// in, whoever made the proof. That it proves what it claims is [`AccountProof::verify`]'s to
    /// say.
    pub fn insert_proof(&self, proof: &AccountProof) {
        let lists =
            std::iter::once(&proof.nodes).chain(proof.storage.iter().map(|slot| &slot.nodes));
        let hashed = |rlp: &Bytes| (keccak256(rlp), Box::from(rlp.as_ref()));
        // The root first, so that each is named by the time that it is looked at.
        let in_order: Vec<(B256, Box<[u8]>)> = lists.flatten().map(hashed).collect();
        let hashes: Vec<B256> = in_order.iter().map(|(hash, _)| *hash).collect();
        let mut brought = Brought {
            nodes: in_order.into_iter().collect(),
            ..Brought::default()
        };
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.age.fetch_add(1, Ordering::Relaxed);
        for hash in hashes {
            let mut named = Vec::new();
            if let Some(mut entry) = self.nodes.get_mut(&hash) {
                self.complete_node(hash, &mut entry, &mut brought, &mut named);
            }
            self.acquire(named, &mut brought);
        }
        self.evict_as_writer();
    }

    /// Stores a code under its keccak256 where a stored account names it; says whether one does.
    pub fn insert_code(&self, code: Bytes) -> bool {
        let hash = keccak256(&code);
        let mut brought = Brought::default();
        brought.codes.insert(hash, code);
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.age.fetch_add(1, Ordering::Relaxed);
        let is_named = match self.codes.get_mut(&hash) {
            Some(mut entry) => {
                self.complete_code(hash, &mut entry, &mut brought);
                true
            }
            None => false,
        };
        self.evict_as_writer();
        is_named
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

    /// Counts one more reference to each of `pending`, and those of every node that comes to be
    /// stored by it.
    ///
    /// What is stored already has acquired what it names, so the walk stops there: the cost is that
    /// of what is new.
    fn acquire(&self, mut pending: Vec<Reference>, brought: &mut Brought) {
        while let Some(reference) = pending.pop() {
            match reference {
                Reference::Node(hash) if hash == EMPTY_ROOT_HASH => {}
                Reference::Node(hash) => {
                    let mut entry = self.nodes.entry(hash).or_insert(NodeEntry::missing());
                    entry.refs += 1;
                    self.complete_node(hash, &mut entry, brought, &mut pending);
                }
                Reference::Code(hash) => {
                    let mut entry = self.codes.entry(hash).or_insert(CodeEntry::missing());
                    entry.refs += 1;
                    self.complete_code(hash, &mut entry, brought);
                }
            }
        }
    }

    /// Gives a missing node its bytes, if they were brought; what it names is to be acquired.
    fn complete_node(
        &self,
        hash: B256,
        entry: &mut NodeEntry,
        brought: &mut Brought,
        named: &mut Vec<Reference>,
    ) {
        if entry.rlp.is_none()
            && let Some(rlp) = brought.nodes.remove(&hash)
        {
            self.node_bytes.fetch_add(rlp.len(), Ordering::Relaxed);
            push_named(&rlp, named);
            entry.rlp = Some(rlp);
            self.mark(&entry.used);
        }
    }

    /// Gives a missing code its bytes, if they were brought.
    fn complete_code(&self, hash: B256, entry: &mut CodeEntry, brought: &mut Brought) {
        if entry.code.is_none()
            && let Some(code) = brought.codes.remove(&hash)
        {
            self.code_bytes.fetch_add(code.len(), Ordering::Relaxed);
            entry.code = Some(code);
            self.mark(&entry.used);
        }
    }

    /// Notes a use. What many read at one age is written by one of them.
    fn mark(&self, used: &AtomicU32) {
        let age = self.age.load(Ordering::Relaxed);
        if used.load(Ordering::Relaxed) != age {
            used.store(age, Ordering::Relaxed);
        }
    }

    fn release_retired_as_writer(&self) {
        let retired = std::mem::take(&mut self.handles.lock().retired);
        self.release(retired.into_iter().map(Reference::Node).collect());
    }

    /// Takes one reference to each of `pending` back, and those of every node that goes with it.
    pub(super) fn release(&self, mut pending: Vec<Reference>) {
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

impl NodeSource for NodeStore {
    type Error = TrieError;

    /// Where it stands; nothing else may be read meanwhile.
    fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, TrieError> {
        let entry = self.nodes.get(hash);
        let entry = entry.as_deref().inspect(|entry| self.mark(&entry.used));
        let rlp = entry.and_then(|entry| entry.rlp.as_deref());
        let rlp = rlp.ok_or(TrieError::MissingNode { hash: *hash })?;
        read(rlp).map_err(|why| TrieError::Malformed { hash: *hash, why })
    }
}

/// Bytes that somebody brings, by keccak256, for what is or comes to be named.
#[derive(Default)]
struct Brought {
    nodes: B256Map<Box<[u8]>>,
    codes: B256Map<Bytes>,
}

/// Appends what a stored node names; a malformed one names nothing, when it is acquired and when it
/// is released.
pub(super) fn push_named(rlp: &[u8], pending: &mut Vec<Reference>) {
    let _ = push_references(rlp, pending);
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeStore").field(&self.stats()).finish()
    }
}
