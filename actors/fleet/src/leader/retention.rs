//! Which entries the stream keeps, and when it needs another snapshot.

use std::collections::VecDeque;

use crate::{
    block_id::BlockId,
    bounds::{
        ENTRY_BLOCKS_MAX, MARGIN_BYTES, MARGIN_ENTRIES, PART_BYTES, SNAPSHOT_EVERY,
        SNAPSHOT_GAP_MIN, STORE_ENTRIES_MAX,
    },
    policy::{Policy, Rule},
};

/// How much a leader appends and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Changes after which it appends another snapshot.
    pub snapshot_every: u64,
    /// Changes between two snapshots, even if a replica wants one.
    pub snapshot_gap: u64,
    /// Entries that stay before the latest complete snapshot.
    pub margin_entries: u64,
    /// Bytes of those entries.
    pub margin_bytes: usize,
    /// Bytes of blocks after which an entry is full; one block may have more.
    pub part_bytes: usize,
    /// Entries that the store keeps in any case.
    pub store_entries: u64,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            snapshot_every: SNAPSHOT_EVERY,
            snapshot_gap: SNAPSHOT_GAP_MIN,
            margin_entries: MARGIN_ENTRIES,
            margin_bytes: MARGIN_BYTES,
            part_bytes: PART_BYTES,
            store_entries: STORE_ENTRIES_MAX,
        }
    }
}

/// The sizes of the entries that the store keeps. Redis does not know them, and a leader has
/// written all of its epoch.
#[derive(Debug)]
pub(super) struct Retention {
    limits: LogLimits,
    policy: Policy,
    /// Number and bytes of each entry that is kept, the oldest first.
    kept: VecDeque<(u64, usize)>,
    /// Number of the first entry of the latest complete snapshot.
    snapshot: u64,
    /// The same of the one that is being appended.
    next_snapshot: u64,
    changes: u64,
    change_bytes: usize,
    snapshot_bytes: usize,
}

impl Retention {
    pub(super) const fn new(limits: LogLimits, policy: Policy) -> Self {
        Self {
            limits,
            policy,
            kept: VecDeque::new(),
            snapshot: 0,
            next_snapshot: 0,
            changes: 0,
            change_bytes: 0,
            snapshot_bytes: 0,
        }
    }

    pub(super) const fn limits(&self) -> &LogLimits {
        &self.limits
    }

    /// Whether the changes since the latest snapshot are as many as they may be, or as large as
    /// half of what stays in the store besides a snapshot.
    pub(super) fn needs_snapshot(&self) -> bool {
        let bytes_max = self.snapshot_bytes.max(self.limits.margin_bytes);
        self.changes >= self.limits.snapshot_every || self.change_bytes > bytes_max
    }

    /// Whether a snapshot may be written because a replica wants one.
    pub(super) const fn may_write_snapshot(&self) -> bool {
        self.changes >= self.limits.snapshot_gap
    }

    /// The first of these blocks, as many as fill an entry; at least one.
    pub(super) fn first_part(
        &self,
        blocks: &[BlockId],
        bytes: impl Fn(BlockId) -> usize,
    ) -> Vec<BlockId> {
        let mut sum = 0_usize;
        let fits = |id: &BlockId| {
            sum = sum.saturating_add(bytes(*id));
            sum <= self.limits.part_bytes
        };
        let count = blocks.iter().copied().take_while(fits).count();
        let count = count.clamp(1, ENTRY_BLOCKS_MAX);
        blocks.iter().take(count).copied().collect()
    }

    /// Adds a part of a snapshot.
    pub(super) fn add_part(&mut self, sequence: u64, bytes: usize, is_first: bool, is_last: bool) {
        if is_first {
            self.next_snapshot = sequence;
            self.snapshot_bytes = 0;
            self.changes = 0;
            self.change_bytes = 0;
        }
        self.snapshot_bytes = self.snapshot_bytes.saturating_add(bytes);
        self.kept.push_back((sequence, bytes));
        if is_last {
            self.snapshot = self.next_snapshot;
            self.trim();
        }
    }

    /// Adds a change.
    pub(super) fn add_change(&mut self, sequence: u64, bytes: usize) {
        self.changes += 1;
        self.change_bytes = self.change_bytes.saturating_add(bytes);
        self.kept.push_back((sequence, bytes));
    }

    /// Forgets entries before the latest complete snapshot, but for the margin.
    fn trim(&mut self) {
        let before = self.kept.iter().rev();
        let before = before.skip_while(|(sequence, _)| *sequence >= self.snapshot);
        let (mut count, mut bytes) = (0_u64, 0_usize);
        let margin = before.take_while(|(_, size)| {
            count += 1;
            bytes = bytes.saturating_add(*size);
            let is_within =
                count <= self.limits.margin_entries && bytes <= self.limits.margin_bytes;
            is_within && self.policy.holds(Rule::Margin)
        });
        let keep_from = margin
            .last()
            .map_or(self.snapshot, |(sequence, _)| *sequence);
        self.kept.retain(|(sequence, _)| *sequence >= keep_from);
    }

    /// Number of the oldest entry to keep.
    pub(super) fn keep_from(&self) -> u64 {
        self.kept.front().map_or(0, |(sequence, _)| *sequence)
    }
}
