//! How merges of blocks into the state went.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where the changes of a block came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangesFrom {
    /// The block's access list.
    AccessList,
    /// The prestate tracer of a node.
    Tracer,
    /// One of these, and a witness of the state before the block.
    Witness,
    /// The block itself, which names keys without values.
    Keys,
}

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeEnd {
    /// The new state is held as far as the old one was, with all that changed.
    Whole,
    /// A part of it is not held, and is fetched when it is read.
    Part,
    /// Its time was over.
    Late,
    /// No node gave what it needed.
    Failed,
}

/// Counts of merges since the start.
#[derive(Debug, Default)]
pub struct MergeCounts {
    merges: [[AtomicU64; MergeEnd::ALL.len()]; ChangesFrom::ALL.len()],
    computed_keys: AtomicU64,
    proven_keys: AtomicU64,
    requests: AtomicU64,
    keys_asked: AtomicU64,
    bytes: AtomicU64,
}

impl ChangesFrom {
    const ALL: [Self; 4] = [Self::AccessList, Self::Tracer, Self::Witness, Self::Keys];

    const fn label(self) -> &'static str {
        match self {
            Self::AccessList => "access_list",
            Self::Tracer => "tracer",
            Self::Witness => "witness",
            Self::Keys => "keys",
        }
    }
}

impl MergeEnd {
    const ALL: [Self; 4] = [Self::Whole, Self::Part, Self::Late, Self::Failed];

    const fn label(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Part => "part",
            Self::Late => "late",
            Self::Failed => "failed",
        }
    }
}

impl MergeCounts {
    /// Merges by the source of the changes and by outcome.
    pub fn merges(&self) -> impl Iterator<Item = ([&'static str; 2], u64)> {
        ChangesFrom::ALL.into_iter().flat_map(|from| {
            MergeEnd::ALL.map(|end| {
                let count = &self.merges[from as usize][end as usize];
                ([from.label(), end.label()], load(count))
            })
        })
    }

    /// Changed keys by how their new values were found: computed, or proven by a node.
    #[must_use]
    pub fn keys(&self) -> [(&'static str, u64); 2] {
        [
            ("computed", load(&self.computed_keys)),
            ("proven", load(&self.proven_keys)),
        ]
    }

    /// Requests to nodes for merges; a batch counts once.
    #[must_use]
    pub fn requests(&self) -> u64 {
        load(&self.requests)
    }

    /// Accounts and slots that these requests asked nodes to prove.
    #[must_use]
    pub fn keys_asked(&self) -> u64 {
        load(&self.keys_asked)
    }

    /// Bytes of JSON in the answers to these requests.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        load(&self.bytes)
    }

    pub(super) fn count(&self, from: ChangesFrom, end: MergeEnd) {
        add(&self.merges[from as usize][end as usize], 1);
    }

    pub(super) fn count_keys(&self, computed: usize, proven: usize) {
        add(&self.computed_keys, computed);
        add(&self.proven_keys, proven);
    }

    pub(super) fn count_request(&self) {
        add(&self.requests, 1);
    }

    pub(super) fn count_keys_asked(&self, keys: usize) {
        add(&self.keys_asked, keys);
    }

    pub(super) fn count_bytes(&self, bytes: usize) {
        add(&self.bytes, bytes);
    }
}

fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
