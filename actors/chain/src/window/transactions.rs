//! Canonical transactions by hash.

use std::sync::Arc;

use alloy_primitives::{B256, map::FbBuildHasher};
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

use crate::block::Block;

/// The place of each canonical transaction of the window.
///
/// The map is persistent: a clone is free, and adding a block costs its own transactions even while
/// clones are held. Indexing is most of the cost of a new head, so it is deferred: the newest block
/// and a block that left are pending, look-ups consider them, and [`Self::index_pending`] moves
/// them into the map.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionIndex {
    places: GenericHashMap<B256, TransactionPlace, FbBuildHasher<32>, DefaultSharedPtr>,
    /// Older places of transactions that the chain has more than once, oldest first. Ethereum's
    /// nonces rule that out, but other chains have had it, and a revert must find the older place
    /// again.
    shadowed: Vec<(B256, TransactionPlace)>,
    /// The newest block, if it is not in `places` yet.
    newest: Option<Listed>,
    /// The block below the oldest, if it is still in `places`.
    left: Option<Listed>,
}

/// A transaction's block and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionPlace {
    pub(super) number: u64,
    pub(super) index: u32,
}

/// The transactions of a pending block. The block itself need not be held.
#[derive(Clone, Debug)]
struct Listed {
    number: u64,
    hashes: Arc<[B256]>,
}

impl TransactionIndex {
    pub(super) fn get(&self, hash: &B256) -> Option<TransactionPlace> {
        let newest = self.newest.as_ref().and_then(|newest| newest.last(hash));
        newest.or_else(|| {
            let is_left = |place: &TransactionPlace| {
                let left = self.left.as_ref();
                left.is_some_and(|left| left.number == place.number)
            };
            self.places.get(hash).copied().filter(|at| !is_left(at))
        })
    }

    /// Number of distinct transactions. No block may be pending.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Number of places that a newer place of the same transaction hides. No block may be pending.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn shadowed_len(&self) -> usize {
        self.shadowed.len()
    }

    /// Whether no block is pending.
    pub(super) const fn is_complete(&self) -> bool {
        self.newest.is_none() && self.left.is_none()
    }

    /// Moves the pending blocks into the map. Look-ups give the same answers before and after.
    pub(super) fn index_pending(&mut self) {
        if let Some(left) = self.left.take() {
            self.remove_lowest(&left);
        }
        if let Some(newest) = self.newest.take() {
            for (hash, place) in newest.places() {
                if let Some(older) = self.places.insert(hash, place) {
                    self.shadowed.push((hash, older));
                }
            }
        }
    }

    /// Adds a block that is newer than all others, as pending.
    pub(super) fn add_newest(&mut self, block: &Block) {
        self.index_pending();
        self.newest = Some(Listed::of(block));
    }

    /// Adds the transactions of a block that is older than all others.
    pub(super) fn add_oldest(&mut self, block: &Block) {
        self.index_pending();
        for (hash, place) in Listed::of(block).places().rev() {
            if self.places.contains_key(&hash) {
                self.shadowed.insert(0, (hash, place));
            } else {
                self.places.insert(hash, place);
            }
        }
    }

    /// Removes the transactions of the newest block.
    pub(super) fn remove_newest(&mut self, block: &Block) {
        if self.newest.take().is_some() {
            return;
        }
        for (hash, _) in Listed::of(block).places().rev() {
            let older = self.shadowed.iter().rposition(|(of, _)| *of == hash);
            match older.map(|at| self.shadowed.remove(at)) {
                Some((_, older)) => self.places.insert(hash, older),
                None => self.places.remove(&hash),
            };
        }
    }

    /// Removes the oldest block, as pending.
    pub(super) fn remove_oldest(&mut self, block: &Block) {
        if let Some(before) = self.left.replace(Listed::of(block)) {
            self.remove_lowest(&before);
        }
    }

    fn remove_lowest(&mut self, left: &Listed) {
        for (hash, place) in left.places() {
            let hidden = self.shadowed.iter().position(|at| *at == (hash, place));
            if let Some(at) = hidden {
                self.shadowed.remove(at);
            } else {
                self.places.remove(&hash);
            }
        }
    }
}

impl Listed {
    fn of(block: &Block) -> Self {
        Self {
            number: block.number(),
            hashes: Arc::clone(&block.transaction_hashes),
        }
    }

    /// The transaction's last place in the block.
    fn last(&self, hash: &B256) -> Option<TransactionPlace> {
        let index = self.hashes.iter().rposition(|listed| listed == hash)?;
        Some(self.place(index))
    }

    fn places(&self) -> impl DoubleEndedIterator<Item = (B256, TransactionPlace)> {
        let hashes = self.hashes.iter().enumerate();
        hashes.map(|(index, hash)| (*hash, self.place(index)))
    }

    const fn place(&self, index: usize) -> TransactionPlace {
        TransactionPlace {
            number: self.number,
            index: index as u32,
        }
    }
}
