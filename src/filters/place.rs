//! Where in the chain a filter continues.

use alloy_primitives::Bytes;
use nearhead_chain::window::{Cursor, Snapshot};
use nearhead_fleet::block_id::BlockId;

/// Where in the chain a filter continues.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The last block whose changes its client has got.
    pub(crate) cursor: Cursor,
    mark: Mark,
}

/// What one place differs by from others at the same block.
#[derive(Clone, Debug)]
enum Mark {
    Here {
        /// The version of the snapshot by which the filter came there.
        version: u64,
        /// Differs for each move.
        moved: u64,
    },
    Stored(StoredPlace),
}

/// A place as the store of a fleet has it.
#[derive(Clone, Debug)]
pub(super) struct StoredPlace {
    /// The sealed record.
    pub(super) bytes: Bytes,
    /// Whether the filter came there so recently that a process that does not know the block may
    /// be behind.
    pub(super) is_recent: bool,
}

impl Place {
    /// A place that this process has, to which a filter came by this snapshot; `moved` differs for
    /// each move of the filter.
    pub(super) fn here(cursor: Cursor, snapshot: &Snapshot, moved: u64) -> Self {
        let version = snapshot.version();
        let mark = Mark::Here { version, moved };
        Self { cursor, mark }
    }

    /// A place that the store of a fleet has.
    pub(super) const fn stored(cursor: Cursor, stored: StoredPlace) -> Self {
        let mark = Mark::Stored(stored);
        Self { cursor, mark }
    }

    /// Whether it is the same, and no other one at the same block. Both are of one filter.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.mark, &other.mark) {
            (Mark::Here { moved, .. }, Mark::Here { moved: other, .. }) => moved == other,
            (Mark::Stored(stored), Mark::Stored(other)) => stored.bytes == other.bytes,
            _ => false,
        }
    }

    /// The record of it; `None` if this process has the place.
    pub(super) const fn as_stored(&self) -> Option<&StoredPlace> {
        match &self.mark {
            Mark::Here { .. } => None,
            Mark::Stored(stored) => Some(stored),
        }
    }

    /// Whether the client has got more than this snapshot has: it was asked with a newer one
    /// meanwhile, or another process that has a newer one was.
    pub(crate) fn is_beyond(&self, snapshot: &Snapshot) -> bool {
        let is_recent = match &self.mark {
            Mark::Here { version, .. } => return snapshot.version() < *version,
            Mark::Stored(stored) => stored.is_recent,
        };
        let block = block_at(self.cursor);
        // The head may have gone to a lower number, of which this process does not know yet.
        let may_be_lower = is_recent && block.number >= snapshot.oldest();
        let may_be_beyond = snapshot.head().number() <= block.number || may_be_lower;
        // At a lower head that has replaced the block, a client gets the logs that were removed.
        may_be_beyond && !snapshot.has_seen(&block.hash)
    }
}

/// Number and hash of the block at a cursor.
pub(super) const fn block_at(cursor: Cursor) -> BlockId {
    BlockId {
        number: cursor.number(),
        hash: *cursor.hash(),
    }
}
