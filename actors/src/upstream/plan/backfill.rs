//! Filling the window downwards.

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

use super::descent::{Ask, Descent, FetchedBlock};

/// The blocks below the oldest one that is held, newest first, until the window is full.
#[derive(Clone, Debug)]
pub(crate) struct Backfill<T> {
    descent: Descent<T>,
    /// Number of the lowest block that the window needs.
    lowest: u64,
    is_genesis_held: bool,
}

impl<T> Backfill<T> {
    /// The backfill below the block `oldest`, whose parent has the hash `parent_hash`.
    pub(crate) const fn below(oldest: u64, parent_hash: B256, head: u64) -> Self {
        let mut backfill = Self {
            descent: Descent::from(oldest.saturating_sub(1), parent_hash),
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

    /// How many blocks are still to be fetched.
    pub(crate) const fn remaining(&self) -> u64 {
        match self.descent.next() {
            Some((next, _)) if !self.is_genesis_held && next >= self.lowest => {
                (next - self.lowest).saturating_add(1)
            }
            _ => 0,
        }
    }

    /// What to ask for so that up to `width` calls are in progress.
    pub(crate) fn ask(&mut self, width: usize) -> Vec<Ask> {
        match self.remaining() {
            0 => Vec::new(),
            _ => self.descent.ask(width, self.lowest),
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

    /// Takes the parent of the oldest block, if it was fetched.
    pub(crate) fn take(&mut self) -> Option<T> {
        match self.remaining() {
            0 => None,
            _ => self.descent.take().map(|fetched| fetched.block),
        }
    }
}
