//! What an entry says.

use alloy_primitives::B256;

use crate::block_id::{BlockId, EntryBlock};

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of all that a replica needs to begin.
    Snapshot(SnapshotPart),
    /// A change of the head.
    Change(HeadChange),
}

impl Content {
    /// The blocks in it, the oldest first.
    #[must_use]
    pub fn blocks(&self) -> &[EntryBlock] {
        match self {
            Self::Snapshot(part) => &part.blocks,
            Self::Change(change) => &change.blocks,
        }
    }

    /// The newest revision of a record that the leader has seen: see [`record`](crate::record).
    #[must_use]
    pub const fn records(&self) -> u64 {
        match self {
            Self::Snapshot(part) => part.records,
            Self::Change(change) => change.records,
        }
    }
}

/// One part of a snapshot: consecutive blocks of the leader's window. The parts are in consecutive
/// entries, the oldest blocks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPart {
    /// Which part it is, from 0.
    pub part: u32,
    /// How many parts there are.
    pub parts: u32,
    /// The head of the whole snapshot. A replica that has it already has no use for the parts.
    pub head: BlockId,
    /// Its blocks, the oldest first.
    pub blocks: Vec<EntryBlock>,
    /// The settled blocks.
    pub settled: Settled,
    /// The newest revision of a record that the leader has seen.
    pub records: u64,
}

/// A change of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadChange {
    /// The newest block that the chains before and after it share.
    pub ancestor: BlockId,
    /// Hashes of the blocks above it that are reverted, the newest first.
    pub reverted: Vec<B256>,
    /// The new blocks, the oldest first.
    pub blocks: Vec<EntryBlock>,
    /// The settled blocks after it.
    pub settled: Settled,
    /// The newest revision of a record that the leader has seen.
    pub records: u64,
}

/// Numbers of the settled blocks; `None` as long as the leader knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The safe block.
    pub safe: Option<u64>,
    /// The finalized block.
    pub finalized: Option<u64>,
}
