//! Canonical transactions by hash.

use std::sync::Arc;

use alloy_primitives::{B256, map::FbBuildHasher};
use imbl::{GenericHashMap, Vector, shared_ptr::DefaultSharedPtr};

use crate::block::Block;

/// A persistent map by hash.
type ByHash<V> = GenericHashMap<B256, V, FbBuildHasher<32>, DefaultSharedPtr>;

/// The place of each canonical transaction of the window.
///
/// The maps are persistent: a clone is free, and a block costs its own transactions, even while
/// clones are held and however often transactions repeat. Indexing is most of the cost of a new
/// head, so it is deferred. Two blocks may be pending: the newest, which is not in the maps yet,
/// and the one that left the window, which still is. Look-ups consider both;
/// [`Self::index_pending`] brings the maps up to date.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionIndex {
    /// The newest place of each transaction: its last one in the newest block that has it.
    places: ByHash<TransactionPlace>,
    /// The places in older blocks, oldest first, of transactions that several blocks have.
    /// Ethereum's nonces rule such repeats out, but other chains have had them, and a revert must
    /// find the older place again.
    shadowed: ByHash<Vector<TransactionPlace>>,
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

    /// Number of places that a newer block with the same transaction hides. No block may be
    /// pending.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn shadowed_len(&self) -> usize {
        self.shadowed.values().map(Vector::len).sum()
    }

    /// Whether no block is pending.
    pub(super) const fn is_complete(&self) -> bool {
        self.newest.is_none() && self.released.is_none()
    }

    /// Brings the maps up to date with the pending blocks. Look-ups give the same answers before
    /// and after.
    pub(super) fn index_pending(&mut self) {
        if let Some(released) = self.released.take() {
            self.remove_places(&released);
        }
        if let Some(newest) = self.newest.take() {
            for (hash, place) in newest.places() {
                // A later place in the same block replaces the earlier one for good.
                if let Some(older) = self.places.insert(hash, place)
                    && older.number != place.number
                {
                    self.shadowed.entry(hash).or_default().push_back(older);
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
        // The last place of a repeated transaction comes first, and is the one to keep.
        for (hash, place) in BlockTransactions::of(block).places().rev() {
            match self.places.get(&hash) {
                None => {
                    self.places.insert(hash, place);
                }
                Some(newer) if newer.number == place.number => {}
                Some(_) => {
                    let hidden = self.shadowed.entry(hash).or_default();
                    let oldest = hidden.front();
                    if oldest.is_none_or(|oldest| oldest.number != place.number) {
                        hidden.push_front(place);
                    }
                }
            }
        }
    }

    /// Removes the transactions of the newest block.
    pub(super) fn remove_newest(&mut self, block: &Block) {
        if self.newest.take().is_some() {
            return;
        }
        for (hash, place) in BlockTransactions::of(block).places() {
            match self.places.remove(&hash) {
                Some(newest) if newest.number == place.number => {
                    if let Some(older) = self.take_shadowed(&hash, Vector::pop_back) {
                        self.places.insert(hash, older);
                    }
                }
                // A repeat in the block, whose older place is found again already.
                Some(older) => {
                    self.places.insert(hash, older);
                }
                None => {}
            }
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
            let Some(newest) = self.places.remove(&hash) else {
                // A repeat in the block.
                continue;
            };
            if newest.number == place.number {
                continue;
            }
            self.places.insert(hash, newest);
            let hidden = self.shadowed.get(&hash).and_then(Vector::front);
            if hidden.is_some_and(|hidden| hidden.number == place.number) {
                self.take_shadowed(&hash, Vector::pop_front);
            }
        }
    }

    /// Takes the newest or the oldest of the transaction's hidden places.
    fn take_shadowed(
        &mut self,
        hash: &B256,
        take: fn(&mut Vector<TransactionPlace>) -> Option<TransactionPlace>,
    ) -> Option<TransactionPlace> {
        let places = self.shadowed.get_mut(hash)?;
        let taken = take(places);
        if places.is_empty() {
            self.shadowed.remove(hash);
        }
        taken
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

#[cfg(test)]
mod tests;
