use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use alloy_primitives::{B256, map::B256Map};
use nearhead_chain::{block::Block, remote::Verifier};
use parking_lot::Mutex;

use super::{SavedCounts, file::ReadFile};

/// The blocks that an earlier process has saved. Each is verified once, by whoever needs it first.
#[derive(Debug)]
pub(crate) struct SavedBlocks {
    /// Empty once the window is full, or the blocks are of no use.
    blocks: Mutex<Found>,
    /// All of them, and how many [`Self::verify_all`] has begun with.
    newest_first: Vec<B256>,
    begun: AtomicUsize,
    file: Mutex<ReadFile>,
    is_damaged: Arc<AtomicBool>,
    verifier: Arc<Verifier>,
    counts: Arc<SavedCounts>,
}

/// `None` inside: it failed a check.
type SavedBlock = Arc<OnceLock<Option<Arc<Block>>>>;

#[derive(Debug, Default)]
struct Found {
    by_hash: B256Map<SavedBlock>,
    /// Of a number that several blocks have, one is found by number.
    by_number: BTreeMap<u64, B256>,
}

impl SavedBlocks {
    pub(super) fn new(
        found: &[(B256, u64)],
        file: ReadFile,
        is_damaged: Arc<AtomicBool>,
        verifier: Arc<Verifier>,
        counts: Arc<SavedCounts>,
    ) -> Self {
        let blocks = Found {
            by_hash: found
                .iter()
                .map(|(hash, _)| (*hash, SavedBlock::default()))
                .collect(),
            by_number: found
                .iter()
                .map(|(hash, number)| (*number, *hash))
                .collect(),
        };
        Self {
            newest_first: blocks.by_number.values().rev().copied().collect(),
            begun: AtomicUsize::new(0),
            blocks: Mutex::new(blocks),
            file: Mutex::new(file),
            is_damaged,
            verifier,
            counts,
        }
    }

    /// The hash of the block that was canonical at this number.
    pub(crate) fn hash_at(&self, number: u64) -> Option<B256> {
        self.blocks.lock().by_number.get(&number).copied()
    }

    /// Whether a block with this hash was saved.
    pub(crate) fn has(&self, hash: &B256) -> bool {
        self.blocks.lock().by_hash.contains_key(hash)
    }

    /// The block with this hash, verified; `None` if it was not saved or fails a check. It takes
    /// milliseconds of a core, unless another thread has verified the block.
    pub(crate) fn verified(&self, hash: &B256) -> Option<Arc<Block>> {
        let block = Arc::clone(self.blocks.lock().by_hash.get(hash)?);
        block.get_or_init(|| self.verify(hash)).clone()
    }

    fn verify(&self, hash: &B256) -> Option<Arc<Block>> {
        let saved = self.file.lock().block(hash);
        let block = match saved {
            Ok(saved) => {
                let block = self.verifier.restore(*hash, &saved?);
                block.inspect_err(|error| {
                    tracing::warn!(%hash, %error, "a saved block is not used");
                })
            }
            Err(error) => {
                tracing::warn!(%hash, %error, "a saved block cannot be read");
                self.is_damaged.store(true, Ordering::Relaxed);
                return None;
            }
        };
        self.counts.count_block(block.is_ok());
        block.ok()
    }

    /// Verifies all blocks, the newest first, unless they are forgotten. Threads that call it share
    /// the work.
    pub(super) fn verify_all(&self) {
        loop {
            let next = self.begun.fetch_add(1, Ordering::Relaxed);
            match self.newest_first.get(next) {
                Some(hash) if self.has(hash) => drop(self.verified(hash)),
                _ => return,
            }
        }
    }

    /// Drops all blocks: they are in the window.
    pub(super) fn forget(&self) {
        *self.blocks.lock() = Found::default();
    }
}
