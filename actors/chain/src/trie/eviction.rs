//! Evicts nodes and codes from a store that has a bound in bytes.
//!
//! The bound is on memory: the bytes of nodes and codes as the allocator rounds them up,
//! [`ENTRY_BYTES`] for each entry, and a share for what the allocator cannot use. Nodes that are
//! referenced but missing have entries too: a branch may have sixteen of them, so they take half of
//! the memory.
//!
//! Nodes that no held root reaches are released by their reference counts before anything is
//! evicted. Then items that only merges used are evicted, and last those that were read, the least
//! recently used of each first. Leaves come first: a node stays until the stored items below it are
//! evicted, so that a walk can still reach everything that stays. An evicted item is missing again,
//! and is fetched when it is needed.

use std::{
    cmp::Reverse,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use alloy_primitives::B256;

use super::{
    NodeStore,
    code::bytes_of_code,
    node::Reference,
    node_store::{READ, push_stored_references},
};

/// Memory of an entry without the bytes of its node or code: 57 bytes a slot of the hash table, of
/// which 7 of 16 are in use when it has grown. All shards grow at about the same time.
const ENTRY_BYTES: usize = 130;
/// The allocator rounds sizes up to eighths of a power of two: by this share on average.
const ROUNDED_DIVISOR: usize = 16;
/// Pages that are not full, and tables that a larger one replaces, take this share on top: a state
/// whose items and entries have 126 MB took 154 MB of a process.
const UNUSED_DIVISOR: usize = 8;
/// An eviction frees the bound divided by this, so that many insertions share its cost.
const ROOM_DIVISOR: usize = 8;
/// An eviction considers the oldest eighth of the items first, and all of them last.
const EVICTED_PARTS: [usize; 4] = [8, 4, 2, 1];

impl NodeStore {
    /// Bytes that count towards the bound.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let bytes = count(&self.node_bytes) + count(&self.code_bytes);
        let used = bytes + bytes / ROUNDED_DIVISOR + ENTRY_BYTES * count(&self.entries);
        used + used / UNUSED_DIVISOR
    }

    /// Evicts items if the bound is exceeded. The caller holds the writer lock.
    pub(super) fn evict_as_writer(&self) {
        let Some(max) = self.bytes_max.filter(|max| self.held_bytes() > *max) else {
            return;
        };
        let bytes_target = max - max / ROOM_DIVISOR;
        let items = self.oldest_first();
        // So the parents of old leaves are evicted before younger leaves.
        for part in EVICTED_PARTS {
            let oldest = &items[..items.len() / part];
            // A node with stored children is evicted in a later round; there are at most as many
            // rounds as a trie has levels.
            while self.held_bytes() > bytes_target && self.evict_round(oldest, bytes_target) {}
        }
    }

    /// Evicts what it can of `items`, in order, until at most `bytes_target` bytes are held.
    /// Returns whether anything was evicted.
    fn evict_round(&self, items: &[Reference], bytes_target: usize) -> bool {
        let mut has_evicted = false;
        for item in items {
            if !self.evict(*item) {
                continue;
            }
            has_evicted = true;
            self.evicted.fetch_add(1, Ordering::Relaxed);
            if self.held_bytes() <= bytes_target {
                break;
            }
        }
        has_evicted
    }

    /// The stored items, the least recently used first, and those that were read last.
    fn oldest_first(&self) -> Vec<Reference> {
        let now = self.insertions.load(Ordering::Relaxed);
        let age = |used: &AtomicU32| {
            let used = used.load(Ordering::Relaxed);
            (used & READ == 0, now.wrapping_sub(used) & !READ)
        };
        let codes = self.codes.iter().filter(|entry| entry.code.is_some());
        let codes = codes.map(|entry| (age(&entry.used), Reference::Code(*entry.key())));
        let nodes = self.nodes.iter().filter(|entry| entry.rlp.is_some());
        let nodes = nodes.map(|entry| (age(&entry.used), Reference::Node(*entry.key())));
        let mut items: Vec<_> = codes.chain(nodes).collect();
        items.sort_unstable_by_key(|(age, _)| Reverse(*age));
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Drops the bytes of a code, or of a node without stored children. Returns whether it did.
    fn evict(&self, item: Reference) -> bool {
        match item {
            Reference::Code(hash) => {
                let code = self
                    .codes
                    .get_mut(&hash)
                    .and_then(|mut entry| entry.code.take());
                let bytes = code.as_ref().map_or(0, bytes_of_code);
                self.code_bytes.fetch_sub(bytes, Ordering::Relaxed);
                if code.is_some() {
                    self.record_change(hash);
                }
                code.is_some()
            }
            Reference::Node(hash) => self.evict_node(hash),
        }
    }

    fn evict_node(&self, hash: B256) -> bool {
        let mut references = Vec::new();
        let values = match self
            .nodes
            .get(&hash)
            .as_deref()
            .and_then(|entry| entry.rlp.as_deref())
        {
            Some(rlp) => push_stored_references(rlp, &mut references),
            None => return false,
        };
        if references.iter().any(|item| self.is_stored(item)) {
            return false;
        }
        let Some(rlp) = self
            .nodes
            .get_mut(&hash)
            .and_then(|mut entry| entry.rlp.take())
        else {
            return false;
        };
        self.node_bytes.fetch_sub(rlp.len(), Ordering::Relaxed);
        self.values.fetch_sub(values, Ordering::Relaxed);
        self.record_change(hash);
        self.release(references);
        true
    }

    fn is_stored(&self, item: &Reference) -> bool {
        match item {
            Reference::Node(hash) => self
                .nodes
                .get(hash)
                .is_some_and(|entry| entry.rlp.is_some()),
            Reference::Code(hash) => self
                .codes
                .get(hash)
                .is_some_and(|entry| entry.code.is_some()),
        }
    }
}
