//! Filling the window downwards.

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

use super::descent::{Ask, Descent, FetchedBlock};

/// The blocks below the oldest one that is held, newest first, until the window is full.
#[derive(Clone, Debug)]
pub(crate) struct Backfill<T> {
    descent: Descent<T>,
    /// The next block to take, if it waits for its parent.
    waiting: Option<FetchedBlock<T>>,
    with_parents: bool,
    /// Number of the lowest block that the window needs.
    lowest: u64,
    is_genesis_held: bool,
}

/// A block to add below the oldest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBelow<T> {
    /// The block.
    pub(crate) block: T,
    /// Its parent, if blocks are taken with their parents. Block 0 has none.
    pub(crate) parent: Option<T>,
}

impl<T: Clone> Backfill<T> {
    /// The backfill below the block `oldest`, whose parent has the hash `parent_hash`.
    ///
    /// With `with_parents`, a block is taken once its parent was fetched too, so that its header
    /// can be checked before it is served. That needs one block more than the window holds.
    pub(crate) const fn below(
        oldest: u64,
        parent_hash: B256,
        head: u64,
        with_parents: bool,
    ) -> Self {
        let mut backfill = Self {
            descent: Descent::from(oldest.saturating_sub(1), parent_hash),
            waiting: None,
            with_parents,
            lowest: 0,
            is_genesis_held: oldest == 0,
        };
        backfill.set_head(head);
        backfill
    }

    /// Sets the number of the head. Blocks that leave the window are no longer needed.
    pub(crate) const fn set_head(&mut self, head: u64) {
        // Not `head + 1`: an upstream may name any number.
        self.lowest = head.saturating_sub(WINDOW_BLOCKS as u64 - 1);
    }

    /// How many blocks are still to be taken.
    pub(crate) const fn remaining(&self) -> u64 {
        let next = match (&self.waiting, self.descent.next()) {
            (Some(waiting), _) => waiting.number,
            (None, Some((next, _))) => next,
            (None, None) => return 0,
        };
        match !self.is_genesis_held && next >= self.lowest {
            true => (next - self.lowest).saturating_add(1),
            false => 0,
        }
    }

    /// What to ask for so that up to `width` calls are in progress.
    pub(crate) fn ask(&mut self, width: usize) -> Vec<Ask> {
        let lowest = self.lowest.saturating_sub(u64::from(self.with_parents));
        match self.remaining() {
            0 => Vec::new(),
            _ => self.descent.ask(width, lowest),
        }
    }

    /// Records a verified block.
    pub(crate) fn got(&mut self, ask: Ask, fetched: FetchedBlock<T>) {
        self.descent.got(ask, fetched);
    }

    /// Records that a call failed; the block is asked for again.
    pub(crate) fn failed(&mut self, ask: Ask) {
        self.descent.failed(ask);
    }

    /// Has a block asked for again whose call is in progress: another upstream is asked now.
    pub(crate) fn forget(&mut self, ask: Ask) {
        self.descent.forget(ask);
    }

    /// Takes the parent of the oldest block, if it was fetched, and its own parent where needed.
    pub(crate) fn take(&mut self) -> Option<BlockBelow<T>> {
        if self.remaining() == 0 {
            return None;
        }
        let child = match self.waiting.take() {
            Some(waiting) => waiting,
            None => self.descent.take()?,
        };
        if !self.with_parents || child.number == 0 {
            let FetchedBlock { block, .. } = child;
            return Some(BlockBelow {
                block,
                parent: None,
            });
        }
        let Some(parent) = self.descent.take() else {
            self.waiting = Some(child);
            return None;
        };
        let parent = self.waiting.insert(parent);
        Some(BlockBelow {
            block: child.block,
            parent: Some(parent.block.clone()),
        })
    }
}
