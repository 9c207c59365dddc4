//! Canonical transactions by hash.

use std::sync::Arc;

use alloy_primitives::{B256, map::FbBuildHasher};
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

use crate::block::Block;

/// Where each canonical transaction of the window stands.
///
/// The map is persistent: a clone costs nothing, and a block costs its own transactions whoever
/// still holds a clone. That is most of what a new head costs, and nobody need wait for it: the
/// newest block and one that leaves are noted, look-ups regard the notes, and [`Self::catch_up`]
/// carries them over.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionIndex {
    places: GenericHashMap<B256, TransactionPlace, FbBuildHasher<32>, DefaultSharedPtr>,
    /// Older places of transactions that stand in the chain more than once, oldest first.
    /// Ethereum's nonces rule that out; other chains have had it, and a revert must find the older
    /// place again.
    shadowed: Vec<(B256, TransactionPlace)>,
    /// The newest block, where it is not in `places` yet.
    newest: Option<Listed>,
    /// The block below the oldest, where it is in `places` yet.
    left: Option<Listed>,
}

/// A block and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TransactionPlace {
    pub(super) number: u64,
    pub(super) index: u32,
}

/// A block's transactions: all that is kept of a block that is noted, for the rest of it may be let
/// go of.
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

    /// Number of different transactions; of an index that has caught up.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Number of places that a newer one of the same transaction hides; of an index that has caught
    /// up.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn shadowed_len(&self) -> usize {
        self.shadowed.len()
    }

    /// Whether nothing is noted that is not carried over.
    pub(super) const fn is_caught_up(&self) -> bool {
        self.newest.is_none() && self.left.is_none()
    }

    /// Carries over what is noted; every look-up finds the same before and after.
    pub(super) fn catch_up(&mut self) {
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

    /// Notes a block that is newer than all before.
    pub(super) fn add_newest(&mut self, block: &Block) {
        self.catch_up();
        self.newest = Some(Listed::of(block));
    }

    /// Adds the transactions of a block that is older than all before.
    pub(super) fn add_oldest(&mut self, block: &Block) {
        self.catch_up();
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

    /// Notes that the oldest block has left.
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

    /// Where the transaction stands last.
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
