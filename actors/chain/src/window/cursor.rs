//! How far along the chain a follower is.

use std::sync::Arc;

use alloy_primitives::B256;

use super::Snapshot;
use crate::block::Block;

/// The last block that a follower was told of: number and hash are the whole state of following.
///
/// Whatever happened in the meantime, going from step to step leads to the head of a snapshot with no
/// gap and nothing twice: blocks that were replaced are taken back, newest first, then their
/// successors come, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    number: u64,
    hash: B256,
}

/// What a follower is told next.
#[derive(Clone, Debug)]
pub enum CursorStep {
    /// The newest block that it was told of is not canonical any more.
    Remove(Arc<Block>),
    /// The next canonical block.
    Add(Arc<Block>),
}

/// A block between the cursor and the head is not held any more: the follower has to begin anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the way from block {number} to the head is not held any more")]
pub struct CursorLost {
    /// Where the follower was.
    pub number: u64,
}

impl Cursor {
    /// A follower that knows everything up to this block.
    #[must_use]
    pub fn after(block: &Block) -> Self {
        Self {
            number: block.number(),
            hash: block.hash,
        }
    }

    /// A follower that knows everything up to this block's parent. The block is not the genesis.
    #[must_use]
    pub fn before(block: &Block) -> Self {
        Self {
            number: block.number().saturating_sub(1),
            hash: block.header.parent_hash,
        }
    }

    /// Whether there is nothing left to tell of this snapshot.
    #[must_use]
    pub fn is_at_head(&self, snapshot: &Snapshot) -> bool {
        snapshot.head().hash == self.hash
    }

    /// The next step towards the head of a snapshot, which is taken; `None` at the head.
    ///
    /// # Errors
    /// [`CursorLost`]: the next block, or the one to be taken back, is not held; the cursor stays where
    /// it is.
    pub fn step(&mut self, snapshot: &Snapshot) -> Result<Option<CursorStep>, CursorLost> {
        if self.is_at_head(snapshot) {
            return Ok(None);
        }
        let next = snapshot.by_number(self.number + 1);
        if let Some(next) = next.filter(|next| next.header.parent_hash == self.hash) {
            *self = Self::after(next);
            return Ok(Some(CursorStep::Add(Arc::clone(next))));
        }
        let lost = CursorLost {
            number: self.number,
        };
        let block = snapshot.by_hash(&self.hash).ok_or(lost)?;
        if snapshot.is_canonical(block) {
            // Only the genesis is held so far below the window.
            return Err(lost);
        }
        if block.number() == 0 {
            return Err(lost);
        }
        *self = Self::before(block);
        Ok(Some(CursorStep::Remove(Arc::clone(block))))
    }

    /// All steps to the head of a snapshot; at most one a held block.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn path(mut self, snapshot: &Snapshot) -> Result<Vec<CursorStep>, CursorLost> {
        let mut steps = Vec::new();
        while let Some(step) = self.step(snapshot)? {
            steps.push(step);
        }
        Ok(steps)
    }
}
