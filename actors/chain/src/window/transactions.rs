//! Canonical transactions by hash.

use std::sync::Arc;

use alloy_primitives::{B256, map::FbBuildHasher};
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

use crate::block::Block;

/// The place of each canonical transaction of the window.
///
/// The map is persistent: a clone is free, and adding a block costs its own transactions even while
/// clones are held. Indexing is most of the cost of a new head, so it is deferred. Two blocks may
/// be pending: the newest, which is not in the map yet, and the one that left the window, which
/// still is. Look-ups consider both; [`Self::index_pending`] brings the map up to date.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionIndex {
    places: GenericHashMap<B256, TransactionPlace, FbBuildHasher<32>, DefaultSharedPtr>,
    /// Older places of transactions that the chain has more than once, oldest first. Ethereum's
    /// nonces rule such duplicates out, but other chains have had them, and a revert must find the
    /// older place again.
    shadowed: Vec<(B256, TransactionPlace)>,
    /// The newest block, if it is not in `places` yet.
    newest: Option<BlockTransactions>,
    /// The block that left the window last, if it is still in `places`.
    released: Option<BlockTransactions>,
}

/// A transaction's block and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionPlace {
    pub(super) number: u64,
    pub(super) index: u32,
}

/// A block's transactions. The block itself need not be held.
#[derive(Clone, Debug)]
struct BlockTransactions {
    number: u64,
    hashes: Arc<[B256]>,
}

impl TransactionIndex {
    pub(super) fn get(&self, hash: &B256) -> Option<TransactionPlace> {
        let newest = self.newest.as_ref().and_then(|newest| newest.last(hash));
        newest.or_else(|| {
            let is_released = |place: &TransactionPlace| {
                let released = self.released.as_ref();
                released.is_some_and(|released| released.number == place.number)
            };
            self.places.get(hash).copied().filter(|at| !is_released(at))
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
        self.newest.is_none() && self.released.is_none()
    }

    /// Brings the map up to date with the pending blocks. Look-ups give the same answers before and
    /// after.
    pub(super) fn index_pending(&mut self) {
        if let Some(released) = self.released.take() {
            self.remove_places(&released);
        }
        if let Some(newest) = self.newest.take() {
            for (hash, place) in newest.places() {
                if let Some(older) = self.places.insert(hash, place) {
                    self.shadowed.push((hash, older));
                }
            }
        }
    }

    /// Adds a block that is newer than all others. It is pending until [`Self::index_pending`].
    pub(super) fn add_newest(&mut self, block: &Block) {
        self.index_pending();
        self.newest = Some(BlockTransactions::of(block));
    }

    /// Adds the transactions of a block that is older than all others.
    pub(super) fn add_oldest(&mut self, block: &Block) {
        self.index_pending();
        for (hash, place) in BlockTransactions::of(block).places().rev() {
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
        for (hash, _) in BlockTransactions::of(block).places().rev() {
            let older = self.shadowed.iter().rposition(|(of, _)| *of == hash);
            match older.map(|at| self.shadowed.remove(at)) {
                Some((_, older)) => self.places.insert(hash, older),
                None => self.places.remove(&hash),
            };
        }
    }

    /// Removes the oldest block. It is pending until [`Self::index_pending`].
    pub(super) fn remove_oldest(&mut self, block: &Block) {
        if let Some(before) = self.released.replace(BlockTransactions::of(block)) {
            self.remove_places(&before);
        }
    }

    /// Removes the places of a block that is older than all others.
    fn remove_places(&mut self, oldest: &BlockTransactions) {
        for (hash, place) in oldest.places() {
            let hidden = self.shadowed.iter().position(|at| *at == (hash, place));
            if let Some(at) = hidden {
                self.shadowed.remove(at);
            } else {
                self.places.remove(&hash);
            }
        }
    }
}

impl BlockTransactions {
    fn of(block: &Block) -> Self {
        Self {
            number: block.number(),
            hashes: Arc::clone(&block.transaction_hashes),
        }
    }

    /// The transaction's last place in the block.
    fn last(&self, hash: &B256) -> Option<TransactionPlace> {
        let index = self.hashes.iter().rposition(|found| found == hash)?;
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
