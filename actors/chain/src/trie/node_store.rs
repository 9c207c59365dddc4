use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use alloy_primitives::{
    B256, Bytes, keccak256,
    map::{B256Map, FbBuildHasher},
};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY};
use dashmap::{DashMap, Entry as MapEntry};
use parking_lot::Mutex;
use revm::bytecode::Bytecode;

use super::{
    Changes, TrieError,
    changed::Changed,
    code::{bytecode, bytes_of_code},
    handles::Handles,
    node::{Reference, push_references},
    walker::NodeSource,
};

/// Shards of the node map. A growing shard blocks its readers while its entries move: about 30 µs
/// with 2 million nodes in 1,024 shards, but milliseconds with the default of 4 shards per core.
const NODE_SHARDS: usize = 1_024;
/// Shards of the code map, which has tens of thousands of entries at most.
const CODE_SHARDS: usize = 64;

/// All nodes and codes of the held states, by keccak256, each with a reference count.
///
/// A state may be held in part. An item that is referenced but not stored has an entry without
/// bytes, with a reference count like any other; a read of it fails as missing. A commit or a proof
/// that contains the item completes the entry for all readers.
///
/// There is one writer at a time, which commits and releases. A reader waits for it only while it
/// changes one map entry.
///
/// A store of nodes that can be fetched again has a bound in bytes ([`Self::bounded`]); `eviction`
/// says what is evicted. A store of states that were executed here has none: it holds what the
/// window's states reach.
pub struct NodeStore {
    pub(super) nodes: DashMap<B256, NodeEntry, FbBuildHasher<32>>,
    pub(super) codes: DashMap<B256, CodeEntry, FbBuildHasher<32>>,
    pub(super) node_bytes: AtomicUsize,
    /// Values of accounts and slots in the stored nodes, each version once.
    pub(super) values: AtomicUsize,
    pub(super) code_bytes: AtomicUsize,
    /// Entries of both maps, whose own count visits each shard.
    pub(super) entries: AtomicUsize,
    pub(super) handles: Mutex<Handles>,
    /// Held during every change of reference counts, so that no acquire runs in the middle of a
    /// release.
    pub(super) writer: Mutex<()>,
    /// Most bytes to hold; `None` if nodes cannot be fetched again.
    pub(super) bytes_max: Option<usize>,
    /// Number of insertions so far. It dates uses, so that the least recently used items can be
    /// found.
    pub(super) insertions: AtomicU32,
    /// Number of nodes and codes evicted so far.
    pub(super) evicted: AtomicU64,
    /// What was stored and dropped, if a copy follows it.
    pub(super) changed: Option<Changed>,
    /// What was stored and not loaded from a copy, if other processes get it.
    pub(super) gained: OnceLock<Changed>,
}

/// A stored node.
pub(super) struct NodeEntry {
    /// Number of references from stored parents, account leaves and handles; never zero.
    pub(super) refs: u32,
    /// `None` if the node is missing.
    pub(super) rlp: Option<Box<[u8]>>,
    /// When the node was last used: see [`Use`].
    pub(super) used: AtomicU32,
}

/// A stored code.
pub(super) struct CodeEntry {
    /// Number of references from stored account leaves; never zero.
    pub(super) refs: u32,
    /// `None` if the code is missing.
    pub(super) code: Option<Bytecode>,
    /// When the code was last used: see [`Use`].
    pub(super) used: AtomicU32,
}

/// The bit of a date that says that the use was a read. The others are the store's insertions.
pub(super) const READ: u32 = 1 << 31;

/// Who uses an item. What only merges used is evicted before what was read.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// A read, or a fetch for one.
    Read,
    /// A merge of what a block changed.
    Merge,
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

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStoreStats {
    /// Number of nodes, including those that are referenced but missing.
    pub nodes: usize,
    /// Bytes of the nodes' RLP.
    pub node_bytes: usize,
    /// Number of values of accounts and slots in the nodes, each version once.
    pub values: usize,
    /// Number of codes, including those that are referenced but missing.
    pub(crate) codes: usize,
    /// Bytes of the codes, with their jump destinations.
    pub(crate) code_bytes: usize,
    /// Dropped handles whose nodes wait for [`NodeStore::release_retired`].
    pub(crate) retired: usize,
}

impl NodeStore {
    /// An empty store without a bound.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Self::of(None, None)
    }

    /// An empty store for nodes that can be fetched again. It holds at most about `bytes_max`
    /// bytes.
    #[must_use]
    pub fn bounded(bytes_max: usize) -> Arc<Self> {
        Self::of(Some(bytes_max), None)
    }

    /// The same as [`Self::bounded`], with a record of what is stored and dropped:
    /// [`Self::take_changed`].
    #[must_use]
    pub fn recorded(bytes_max: usize) -> Arc<Self> {
        Self::of(Some(bytes_max), Some(Changed::default()))
    }

    fn of(bytes_max: Option<usize>, changed: Option<Changed>) -> Arc<Self> {
        Arc::new(Self {
            nodes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), NODE_SHARDS),
            codes: DashMap::with_hasher_and_shard_amount(FbBuildHasher::default(), CODE_SHARDS),
            node_bytes: AtomicUsize::new(0),
            values: AtomicUsize::new(0),
            code_bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            handles: Mutex::default(),
            writer: Mutex::new(()),
            bytes_max,
            insertions: AtomicU32::new(0),
            evicted: AtomicU64::new(0),
            changed,
            gained: OnceLock::new(),
        })
    }

    /// How much the store holds now.
    #[must_use]
    pub fn stats(&self) -> NodeStoreStats {
        NodeStoreStats {
            nodes: self.nodes.len(),
            node_bytes: self.node_bytes.load(Ordering::Relaxed),
            values: self.values.load(Ordering::Relaxed),
            codes: self.codes.len(),
            code_bytes: self.code_bytes.load(Ordering::Relaxed),
            retired: self.handles.lock().retired().len(),
        }
    }

    /// Number of nodes and codes evicted so far.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Roots of the live handles, one entry per handle.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn held_roots(&self) -> Vec<B256> {
        self.handles.lock().live().collect()
    }

    /// Releases what only dropped handles reached.
    ///
    /// The time grows with what is released: call it on the thread that commits, not on one that
    /// answers requests.
    pub fn release_retired(&self) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
    }

    /// The code with this hash, as the EVM runs it; empty for the hash of empty code.
    pub(super) fn bytecode(&self, hash: &B256) -> Result<Bytecode, TrieError> {
        if *hash == KECCAK_EMPTY {
            return Ok(Bytecode::new());
        }
        let entry = self.codes.get(hash);
        let code = entry.and_then(|entry| {
            self.mark(&entry.used);
            entry.code.clone()
        });
        code.ok_or(TrieError::MissingCode { hash: *hash })
    }

    /// Stores what the new root reaches and the store lacks, and registers one handle to the root.
    /// The caller must make that handle.
    pub(super) fn commit(&self, changes: Changes) -> B256 {
        let Changes {
            root, nodes, codes, ..
        } = changes;
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        let used = self.date(Use::Read);
        let codes = codes.into_iter();
        let codes = codes.map(|(hash, code)| (hash, bytecode(code))).collect();
        let mut inserted = Inserted { nodes, codes, used };
        self.acquire(vec![Reference::Node(root)], &mut inserted);
        self.handles.lock().add(root);
        root
    }

    /// Registers a handle to a root whose nodes need not be stored yet.
    pub(super) fn hold(&self, root: B256) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.acquire(vec![Reference::Node(root)], &mut Inserted::default());
        self.handles.lock().add(root);
    }

    /// Stores those nodes of a proof that a held root reaches, for a read of them.
    ///
    /// A node is stored under its own hash and only if a stored node references it, so a false
    /// proof cannot add anything false.
    #[cfg(any(test, feature = "testing"))]
    pub fn insert_proof(&self, proof: &super::AccountProof) {
        let lists =
            std::iter::once(&proof.nodes).chain(proof.storage.iter().map(|slot| &slot.nodes));
        let hashed = |rlp: &Bytes| (keccak256(rlp), Box::from(rlp.as_ref()));
        // The root first, so that each node is referenced by the time it is inserted.
        let in_order: Vec<(B256, Box<[u8]>)> = lists.flatten().map(hashed).collect();
        let hashes = in_order.iter().map(|(hash, _)| *hash).collect();
        self.insert(hashes, in_order.into_iter().collect(), Use::Read);
    }

    /// Stores those of `nodes` that a held root reaches, in any order. A node is stored under its
    /// own hash and only if a stored node references it, so nothing false can be added.
    pub fn insert_nodes(&self, nodes: impl IntoIterator<Item = Bytes>) {
        let nodes = nodes.into_iter();
        self.complete(
            nodes
                .map(|rlp| (keccak256(&rlp), Box::from(rlp.as_ref())))
                .collect(),
        );
    }

    /// Stores those of `nodes`, which are by their hash, that a held root reaches through stored
    /// nodes or through each other.
    pub(super) fn complete(&self, nodes: B256Map<Box<[u8]>>) {
        // A node whose parent comes later is stored with it.
        let hashes = nodes.keys().copied().collect();
        self.insert(hashes, nodes, Use::Merge);
    }

    pub(super) fn insert(&self, hashes: Vec<B256>, nodes: B256Map<Box<[u8]>>, by: Use) {
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.insertions.fetch_add(1, Ordering::Relaxed);
        let mut inserted = Inserted {
            nodes,
            used: self.date(by),
            ..Inserted::default()
        };
        for hash in hashes {
            let mut references = Vec::new();
            if let Some(mut entry) = self.nodes.get_mut(&hash) {
                self.complete_node(hash, &mut entry, &mut inserted, &mut references);
            }
            self.acquire(references, &mut inserted);
        }
        self.evict_as_writer();
    }

    /// Stores a code if a stored account references it; returns whether one does.
    pub fn insert_code(&self, code: Bytes) -> bool {
        let (hash, code) = (keccak256(&code), bytecode(code));
        let _writer = self.writer.lock();
        self.release_retired_as_writer();
        self.insertions.fetch_add(1, Ordering::Relaxed);
        let mut inserted = Inserted {
            used: self.date(Use::Read),
            ..Inserted::default()
        };
        inserted.codes.insert(hash, code);
        let is_referenced = match self.codes.get_mut(&hash) {
            Some(mut entry) => {
                self.complete_code(hash, &mut entry, &mut inserted);
                true
            }
            None => false,
        };
        self.evict_as_writer();
        is_referenced
    }

    /// Registers a handle to the empty state, which needs no nodes.
    pub(super) fn hold_empty(&self) -> B256 {
        self.handles.lock().add(EMPTY_ROOT_HASH);
        EMPTY_ROOT_HASH
    }

    /// Removes a handle. What only it reached stays until the writer releases it.
    pub(super) fn retire(&self, root: B256) {
        self.handles.lock().retire(root);
    }

    /// Adds one reference to each of `pending`, and to what every newly stored node references.
    ///
    /// A node that is already stored has acquired what it references, so the walk stops there and
    /// costs only what is new.
    fn acquire(&self, mut pending: Vec<Reference>, inserted: &mut Inserted) {
        while let Some(reference) = pending.pop() {
            match reference {
                Reference::Node(hash) if hash == EMPTY_ROOT_HASH => {}
                Reference::Node(hash) => {
                    let mut entry = self.nodes.entry(hash).or_insert_with(|| {
                        self.entries.fetch_add(1, Ordering::Relaxed);
                        NodeEntry::missing()
                    });
                    entry.refs += 1;
                    self.complete_node(hash, &mut entry, inserted, &mut pending);
                }
                Reference::Code(hash) => {
                    let mut entry = self.codes.entry(hash).or_insert_with(|| {
                        self.entries.fetch_add(1, Ordering::Relaxed);
                        CodeEntry::missing()
                    });
                    entry.refs += 1;
                    self.complete_code(hash, &mut entry, inserted);
                }
            }
        }
    }

    /// Gives a missing node its bytes if `inserted` has them; the caller must acquire what is
    /// pushed to `references`.
    fn complete_node(
        &self,
        hash: B256,
        entry: &mut NodeEntry,
        inserted: &mut Inserted,
        references: &mut Vec<Reference>,
    ) {
        if entry.rlp.is_none()
            && let Some(rlp) = inserted.nodes.remove(&hash)
        {
            self.node_bytes.fetch_add(rlp.len(), Ordering::Relaxed);
            let values = push_stored_references(&rlp, references);
            self.values.fetch_add(values, Ordering::Relaxed);
            entry.rlp = Some(rlp);
            entry.used.store(inserted.used, Ordering::Relaxed);
            self.record_stored(hash);
        }
    }

    /// Gives a missing code its bytes if `inserted` has them.
    fn complete_code(&self, hash: B256, entry: &mut CodeEntry, inserted: &mut Inserted) {
        if entry.code.is_none()
            && let Some(code) = inserted.codes.remove(&hash)
        {
            self.code_bytes
                .fetch_add(bytes_of_code(&code), Ordering::Relaxed);
            entry.code = Some(code);
            entry.used.store(inserted.used, Ordering::Relaxed);
            self.record_stored(hash);
        }
    }

    /// Records a read. Many reads between two insertions write once.
    fn mark(&self, used: &AtomicU32) {
        let now = self.date(Use::Read);
        if used.load(Ordering::Relaxed) != now {
            used.store(now, Ordering::Relaxed);
        }
    }

    /// The date of a use now.
    fn date(&self, by: Use) -> u32 {
        let now = self.insertions.load(Ordering::Relaxed) & !READ;
        match by {
            Use::Read => now | READ,
            Use::Merge => now,
        }
    }

    /// The date of a stored node's last read; `None` if nobody has read it.
    pub(super) fn read_date(&self, hash: &B256) -> Option<u32> {
        let entry = self.nodes.get(hash)?;
        let used = entry.used.load(Ordering::Relaxed);
        (entry.rlp.is_some() && used & READ != 0).then_some(used)
    }

    /// Gives a node that nobody has read the date of the node in whose place it is.
    pub(super) fn carry_read_date(&self, hash: &B256, date: u32) {
        if let Some(entry) = self.nodes.get(hash)
            && entry.used.load(Ordering::Relaxed) & READ == 0
        {
            entry.used.store(date, Ordering::Relaxed);
        }
    }

    fn release_retired_as_writer(&self) {
        let retired = self.handles.lock().take_retired();
        self.release(retired.into_iter().map(Reference::Node).collect());
    }

    /// Removes one reference to each of `pending`, and the references of every node that is dropped
    /// as a result.
    pub(super) fn release(&self, mut pending: Vec<Reference>) {
        while let Some(reference) = pending.pop() {
            match reference {
                Reference::Node(hash) => {
                    let MapEntry::Occupied(mut entry) = self.nodes.entry(hash) else {
                        continue;
                    };
                    entry.get_mut().refs -= 1;
                    if entry.get().refs > 0 {
                        continue;
                    }
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                    if let Some(rlp) = entry.remove().rlp {
                        self.record_change(hash);
                        self.node_bytes.fetch_sub(rlp.len(), Ordering::Relaxed);
                        let values = push_stored_references(&rlp, &mut pending);
                        self.values.fetch_sub(values, Ordering::Relaxed);
                    }
                }
                Reference::Code(hash) => {
                    let MapEntry::Occupied(mut entry) = self.codes.entry(hash) else {
                        continue;
                    };
                    entry.get_mut().refs -= 1;
                    if entry.get().refs > 0 {
                        continue;
                    }
                    self.entries.fetch_sub(1, Ordering::Relaxed);
                    if let Some(code) = entry.remove().code {
                        self.record_change(hash);
                        self.code_bytes
                            .fetch_sub(bytes_of_code(&code), Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

impl NodeSource for NodeStore {
    type Error = TrieError;

    /// Reads the node in place, under its shard's lock, and dates the read: `read` must not read
    /// another node.
    fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, TrieError> {
        let entry = self.nodes.get(hash);
        let entry = entry.as_deref().inspect(|entry| self.mark(&entry.used));
        read_entry(hash, entry, read)
    }
}

/// A store whose reads are not dated: what is read for a merge is not a client's read, so eviction
/// does not hear of it.
pub(super) struct Peek<'s>(pub(super) &'s NodeStore);

impl NodeSource for Peek<'_> {
    type Error = TrieError;

    fn read_node<T>(
        &self,
        hash: &B256,
        read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
    ) -> Result<T, TrieError> {
        read_entry(hash, self.0.nodes.get(hash).as_deref(), read)
    }
}

fn read_entry<T>(
    hash: &B256,
    entry: Option<&NodeEntry>,
    read: impl FnOnce(&[u8]) -> alloy_rlp::Result<T>,
) -> Result<T, TrieError> {
    let rlp = entry.and_then(|entry| entry.rlp.as_deref());
    let rlp = rlp.ok_or(TrieError::MissingNode { hash: *hash })?;
    read(rlp).map_err(|error| TrieError::Malformed { hash: *hash, error })
}

/// Nodes and codes to be stored if they are referenced, by keccak256.
#[derive(Default)]
struct Inserted {
    nodes: B256Map<Box<[u8]>>,
    codes: B256Map<Bytecode>,
    /// The date of their use.
    used: u32,
}

/// Appends what a stored node references, and returns the number of values in it. A
/// malformed node has neither, both when it is acquired and when it is released.
pub(super) fn push_stored_references(rlp: &[u8], pending: &mut Vec<Reference>) -> usize {
    push_references(rlp, pending).unwrap_or_default()
}

impl std::fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeStore").field(&self.stats()).finish()
    }
}
