//! What a replica makes of an entry, and what it reports.

use alloy_primitives::B256;

use super::event::ReplicaEvent;
use crate::{
    block_id::BlockId,
    entry::{Content, Settled},
    position::Position,
};

/// Blocks are not what an entry says, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FalseContent(pub String);

/// Verifies what an entry says, as if an upstream had said it.
pub trait Verifier {
    /// What is made of an entry: blocks that can be applied.
    type Verified;

    /// Checks that the bytes of each block are those of a block with its hash, number and parent,
    /// and makes the blocks. A block whose hash is already held need not be made again.
    ///
    /// # Errors
    /// Something is not what the entry says.
    fn verify(&mut self, content: &Content) -> Result<Self::Verified, FalseContent>;
}

/// What to apply, all at once.
#[derive(Debug, PartialEq, Eq)]
pub struct Update<T> {
    /// The newest block that stays; `None` if none of the blocks that are held does.
    pub ancestor: Option<BlockId>,
    /// Hashes of the blocks above it, which are reverted, the newest first.
    pub reverted: Vec<B256>,
    /// What the verifier made: of one entry, or of each part of a snapshot. Some of the blocks may
    /// be held already.
    pub verified: Vec<T>,
    /// The head after it.
    pub head: BlockId,
    /// The settled blocks after it.
    pub settled: Settled,
    /// The head that the leader had before; `None` for a snapshot, which does not say it.
    pub from: Option<BlockId>,
    /// Whether the leader has gone back to an ancestor, with no other block yet: also a window that
    /// was ahead goes back.
    pub is_rollback: bool,
}

/// What came of one entry.
#[derive(Debug)]
pub struct Reading<T> {
    /// What to apply.
    pub update: Option<Update<T>>,
    /// What happened, in its order.
    pub events: Vec<ReplicaEvent>,
}

/// What a process reports to the store from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest entry that it has seen. A store that has less has lost it, and needs a new epoch.
    pub seen: Position,
    /// Whether the epoch is spoiled: two leaders wrote in it, because the store lost its beginning.
    pub is_forked: bool,
    /// Whether it waits for a snapshot.
    pub wants_snapshot: bool,
}
