//! The held chain, as far as following needs it.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::window::Snapshot;

/// The canonical blocks that are held: hashes by number.
pub(crate) trait Chain {
    /// Number and hash of the head.
    fn head(&self) -> (u64, B256);

    /// Number of the oldest block.
    fn oldest(&self) -> u64;

    /// The hash of the block at this number; `None` outside the window.
    fn hash_at(&self, number: u64) -> Option<B256>;

    /// Whether this block is held and canonical.
    fn has(&self, number: u64, hash: B256) -> bool {
        self.hash_at(number) == Some(hash)
    }
}

impl<C: Chain> Chain for Arc<C> {
    fn head(&self) -> (u64, B256) {
        C::head(self)
    }

    fn oldest(&self) -> u64 {
        C::oldest(self)
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        C::hash_at(self, number)
    }
}

impl Chain for Snapshot {
    fn head(&self) -> (u64, B256) {
        let head = self.head();
        (head.number(), head.hash)
    }

    fn oldest(&self) -> u64 {
        self.canonical()[0].number()
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let index = number.checked_sub(Chain::oldest(self))?;
        let block = self.canonical().get(usize::try_from(index).ok()?)?;
        Some(block.hash)
    }
}
