//! Verified blocks that are not served yet, as far as agreement needs them.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::B256;
use nearhead_chain::window::WINDOW_BLOCKS;

/// Number and hash of a block.
pub(crate) type Point = (u64, B256);

/// Links that are kept. A sync path has at most one window of blocks above the served head and one
/// below it. Twice that leaves room for the path before.
const LINKS_MAX: usize = 4 * WINDOW_BLOCKS;

/// The parents of verified blocks. The oldest links are dropped first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    /// Number and parent's hash, by hash.
    parents: HashMap<B256, (u64, B256)>,
    /// Hashes in the order of their arrival.
    order: VecDeque<B256>,
}

impl Links {
    /// Adds a verified block.
    pub(crate) fn insert(&mut self, (number, hash): Point, parent_hash: B256) {
        if self.parents.insert(hash, (number, parent_hash)).is_some() {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > LINKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.parents.remove(&oldest);
        }
    }

    /// The parent of a block; `None` if the block is unknown, or has another number.
    pub(super) fn parent(&self, (number, hash): Point) -> Option<Point> {
        let (linked, parent_hash) = self.parents.get(&hash)?;
        (*linked == number).then_some(())?;
        Some((number.checked_sub(1)?, *parent_hash))
    }

    /// How many blocks it knows.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parents.len().max(self.order.len())
    }

    /// The most blocks that it knows.
    #[cfg(test)]
    pub(super) const MAX: usize = LINKS_MAX;
}
