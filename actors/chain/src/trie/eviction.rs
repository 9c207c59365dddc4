//! What goes where a store has a bound in bytes.
//!
//! Bounded is what the process holds for the store: the bytes of nodes and codes, and
//! [`ENTRY_BYTES`] for each entry, that of a node included which is named and missing. A branch
//! names up to sixteen of those, so they are most of the memory.
//!
//! First goes what no held root reaches any more: reference counts see to that, before anything is
//! evicted. Then what was read longest ago, the leaves first: a node that leads to stored ones
//! stays until they are gone, so that what is left can still be walked to. What is evicted is named
//! and missing again, and fetched when it is asked for.

use std::{
    cmp::Reverse,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use alloy_primitives::B256;

use super::{NodeStore, node::Reference, node_store::push_named};

/// What an entry costs beside its bytes: key, counts and pointers at the load of a hash table, and
/// the allocator's share.
const ENTRY_BYTES: usize = 100;
/// An eviction makes room for this part of the bound, so that it is paid for by many insertions.
const ROOM_DIVISOR: usize = 8;
/// Items that go between two looks at how much is left.
const EVICTED_BETWEEN_COUNTS: usize = 64;
/// An eviction looks at the oldest eighth of what is stored first, at all of it last.
const EVICTED_PARTS: [usize; 4] = [8, 4, 2, 1];

impl NodeStore {
    /// Bytes that count towards the bound.
    pub(super) fn held_bytes(&self) -> usize {
        let entries = self.nodes.len() + self.codes.len();
        let bytes = |bytes: &AtomicUsize| bytes.load(Ordering::Relaxed);
        bytes(&self.node_bytes) + bytes(&self.code_bytes) + ENTRY_BYTES * entries
    }

    /// Makes room where the bound is exceeded; the caller is the writer.
    pub(super) fn evict_as_writer(&self) {
        let Some(max) = self.bytes_max.filter(|max| self.held_bytes() > *max) else {
            return;
        };
        let enough = max - max / ROOM_DIVISOR;
        let items = self.oldest_first();
        // What leads to old leaves goes before younger leaves do.
        for part in EVICTED_PARTS {
            let oldest = &items[..items.len() / part];
            // A node that leads to stored ones goes in a later round: there are as many as a trie
            // is deep, at most.
            while self.held_bytes() > enough && self.evict_round(oldest, enough) {}
        }
    }

    /// Evicts what can go of these, in their order, until no more than `enough` is held; says
    /// whether anything went.
    fn evict_round(&self, items: &[Reference], enough: usize) -> bool {
        let mut evicted = 0_usize;
        for item in items {
            if !self.evict(*item) {
                continue;
            }
            evicted += 1;
            // Counting entries takes a look at every shard.
            if evicted.is_multiple_of(EVICTED_BETWEEN_COUNTS) && self.held_bytes() <= enough {
                break;
            }
        }
        evicted > 0
    }

    /// What is stored, by the time since it was read.
    fn oldest_first(&self) -> Vec<Reference> {
        let now = self.age.load(Ordering::Relaxed);
        let age = |used: &AtomicU32| now.wrapping_sub(used.load(Ordering::Relaxed));
        let codes = self.codes.iter().filter(|entry| entry.code.is_some());
        let codes = codes.map(|entry| (age(&entry.used), Reference::Code(*entry.key())));
        let nodes = self.nodes.iter().filter(|entry| entry.rlp.is_some());
        let nodes = nodes.map(|entry| (age(&entry.used), Reference::Node(*entry.key())));
        let mut items: Vec<_> = codes.chain(nodes).collect();
        items.sort_unstable_by_key(|(age, _)| Reverse(*age));
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Takes its bytes from a code, or from a node that leads to nothing stored; says whether it
    /// did.
    fn evict(&self, item: Reference) -> bool {
        match item {
            Reference::Code(hash) => {
                let code = self
                    .codes
                    .get_mut(&hash)
                    .and_then(|mut entry| entry.code.take());
                let bytes = code.as_ref().map_or(0, |code| code.len());
                self.code_bytes.fetch_sub(bytes, Ordering::Relaxed);
                code.is_some()
            }
            Reference::Node(hash) => self.evict_node(hash),
        }
    }

    fn evict_node(&self, hash: B256) -> bool {
        let mut named = Vec::new();
        match self
            .nodes
            .get(&hash)
            .as_deref()
            .and_then(|entry| entry.rlp.as_deref())
        {
            Some(rlp) => push_named(rlp, &mut named),
            None => return false,
        }
        if named.iter().any(|item| self.is_stored(item)) {
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
        self.release(named);
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
