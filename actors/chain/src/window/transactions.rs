//! Canonical transactions by hash.

use alloy_primitives::{B256, map::FbBuildHasher};
use imbl::{GenericHashMap, shared_ptr::DefaultSharedPtr};

use crate::block::Block;

/// Where each canonical transaction of the window stands.
///
/// The map is persistent: a clone costs nothing, and a block costs its own transactions whoever still holds a clone.
#[derive(Clone, Debug, Default)]
pub(super) struct TransactionIndex {
    places: GenericHashMap<B256, Place, FbBuildHasher<32>, DefaultSharedPtr>,
    /// Older places of transactions that stand in the chain more than once, oldest first. Ethereum's nonces rule that
    /// out; other chains have had it, and a revert must find the older place again.
    shadowed: Vec<(B256, Place)>,
}

/// A block and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) index: u32,
}

impl TransactionIndex {
    pub(super) fn get(&self, hash: &B256) -> Option<Place> {
        self.places.get(hash).copied()
    }

    /// Number of different transactions.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Number of places that a newer one of the same transaction hides.
    pub(super) const fn shadowed_len(&self) -> usize {
        self.shadowed.len()
    }

    /// Adds the transactions of a block that is newer than all before.
    pub(super) fn add_newest(&mut self, block: &Block) {
        for (hash, place) in places(block) {
            if let Some(older) = self.places.insert(hash, place) {
                self.shadowed.push((hash, older));
            }
        }
    }

    /// Adds the transactions of a block that is older than all before.
    pub(super) fn add_oldest(&mut self, block: &Block) {
        for (hash, place) in places(block).rev() {
            if self.places.contains_key(&hash) {
                self.shadowed.insert(0, (hash, place));
            } else {
                self.places.insert(hash, place);
            }
        }
    }

    /// Removes the transactions of the newest block.
    pub(super) fn remove_newest(&mut self, block: &Block) {
        for (hash, _) in places(block).rev() {
            let older = self.shadowed.iter().rposition(|(of, _)| *of == hash);
            match older.map(|at| self.shadowed.remove(at)) {
                Some((_, older)) => self.places.insert(hash, older),
                None => self.places.remove(&hash),
            };
        }
    }

    /// Removes the transactions of the oldest block.
    pub(super) fn remove_oldest(&mut self, block: &Block) {
        for (hash, place) in places(block) {
            let hidden = self.shadowed.iter().position(|at| *at == (hash, place));
            if let Some(at) = hidden {
                self.shadowed.remove(at);
            } else {
                self.places.remove(&hash);
            }
        }
    }
}

fn places(block: &Block) -> impl DoubleEndedIterator<Item = (B256, Place)> {
    let number = block.number();
    let hashes = block.transaction_hashes.iter().enumerate();
    hashes.map(move |(index, hash)| {
        let index = index as u32;
        (*hash, Place { number, index })
    })
}
