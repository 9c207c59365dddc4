//! A reader's position in the chain.

use std::sync::Arc;

use alloy_primitives::B256;

use super::Snapshot;
use crate::block::Block;

/// The last block that a reader was notified of. Number and hash are all that it has to remember.
///
/// Step by step, a cursor reaches the head of a snapshot without gaps or duplicates, whatever
/// happened since: first the replaced blocks are reverted, newest first, then their successors are
/// applied, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    number: u64,
    hash: B256,
}

/// One step of a cursor.
#[derive(Clone, Debug)]
pub enum CursorStep {
    /// The block at the cursor is no longer canonical.
    Revert(Arc<Block>),
    /// The next canonical block.
    Apply(Arc<Block>),
}

impl CursorStep {
    /// The block that is reverted or applied.
    #[must_use]
    pub const fn block(&self) -> &Arc<Block> {
        let (Self::Revert(block) | Self::Apply(block)) = self;
        block
    }

    /// The cursor after this step.
    #[must_use]
    pub fn end(&self) -> Cursor {
        match self {
            Self::Revert(block) => Cursor::before(block),
            Self::Apply(block) => Cursor::after(block),
        }
    }
}

/// A block between the cursor and the head is no longer held: the reader has to start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the blocks from block {number} to the head are no longer held")]
pub struct CursorLost {
    /// The cursor's block.
    pub(crate) number: u64,
}

impl Cursor {
    /// A cursor at the block with this number and hash, of which nothing else need be known.
    #[must_use]
    pub const fn at(number: u64, hash: B256) -> Self {
        Self { number, hash }
    }

    /// A cursor at this block.
    #[must_use]
    pub fn after(block: &Block) -> Self {
        Self {
            number: block.number(),
            hash: block.hash,
        }
    }

    /// A cursor at this block's parent; the block is not the genesis.
    #[must_use]
    pub fn before(block: &Block) -> Self {
        Self {
            number: block.number().saturating_sub(1),
            hash: block.header.parent_hash,
        }
    }

    /// Number of the block at the cursor.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Hash of the block at the cursor.
    #[must_use]
    pub const fn hash(&self) -> &B256 {
        &self.hash
    }

    /// Whether the cursor is at the head of the snapshot.
    #[must_use]
    pub fn is_at_head(&self, snapshot: &Snapshot) -> bool {
        snapshot.head().hash == self.hash
    }

    /// Takes the next step towards the head of the snapshot; `None` at the head.
    ///
    /// # Errors
    /// [`CursorLost`] if the next block, or the block to revert, is not held. The cursor does not
    /// move.
    pub fn step(&mut self, snapshot: &Snapshot) -> Result<Option<CursorStep>, CursorLost> {
        if self.is_at_head(snapshot) {
            return Ok(None);
        }
        let next = self.number.checked_add(1);
        let next = next.and_then(|number| snapshot.by_number(number));
        if let Some(next) = next.filter(|next| next.header.parent_hash == self.hash) {
            *self = Self::after(next);
            return Ok(Some(CursorStep::Apply(Arc::clone(next))));
        }
        let lost = CursorLost {
            number: self.number,
        };
        let block = snapshot.by_hash(&self.hash).ok_or(lost)?;
        if snapshot.is_canonical(block) {
            // It is canonical, but its successor is not held: it is the genesis below the window.
            return Err(lost);
        }
        if block.number() == 0 {
            return Err(lost);
        }
        *self = Self::before(block);
        Ok(Some(CursorStep::Revert(Arc::clone(block))))
    }

    /// All steps to the head of the snapshot, at most one per held block.
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
