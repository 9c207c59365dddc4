//! ActiveBackfill the window downwards.

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

use super::{Ask, FetchedBlock, descent::Descent};

/// The blocks below the oldest one that we hold, newest first, until the window is full.
#[derive(Clone, Debug)]
pub struct Backfill<T> {
    descent: Descent<T>,
    /// The last block that is needed.
    lowest: u64,
    is_genesis_held: bool,
}

impl<T> Backfill<T> {
    /// What is missing below the oldest block that is held.
    #[must_use]
    pub const fn below(oldest: u64, parent_hash: B256, head: u64) -> Self {
        let mut backfill = Self {
            descent: Descent::from(oldest.saturating_sub(1), parent_hash),
            lowest: 0,
            is_genesis_held: oldest == 0,
        };
        backfill.head_is(head);
        backfill
    }

    /// The head is this now: what leaves the window is not needed any more.
    pub const fn head_is(&mut self, head: u64) {
        self.lowest = (head + 1).saturating_sub(WINDOW_BLOCKS as u64);
    }

    /// Blocks that are still missing.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        match self.descent.next() {
            Some((next, _)) if !self.is_genesis_held => (next + 1).saturating_sub(self.lowest),
            _ => 0,
        }
    }

    /// What to ask for so that up to `width` questions are open.
    pub fn ask(&mut self, width: usize) -> Vec<Ask> {
        match self.missing() {
            0 => Vec::new(),
            _ => self.descent.ask(width, self.lowest),
        }
    }

    /// A question was answered by a verified block.
    pub fn got(&mut self, ask: Ask, found: FetchedBlock<T>) {
        self.descent.got(ask, found);
    }

    /// A question was not answered: it is asked again.
    pub fn lost(&mut self, ask: Ask) {
        self.descent.lost(ask);
    }

    /// The next block to put below the oldest, once it is there.
    pub fn take(&mut self) -> Option<T> {
        match self.missing() {
            0 => None,
            _ => self.descent.take().map(|found| found.block),
        }
    }
}
