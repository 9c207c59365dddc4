use std::collections::VecDeque;

use alloy_primitives::B256;
use parking_lot::Mutex;

/// Blocks that are remembered: those near the heads of many branches.
const REMEMBERED_MAX: usize = 256;

/// The blocks whose changes are merged into the state that is held, by hash, the newest last:
/// merging can go on from each of them.
#[derive(Debug, Default)]
pub(crate) struct MergedBlocks {
    hashes: Mutex<VecDeque<B256>>,
    /// How many of them an earlier process has merged.
    restored: usize,
}

impl MergedBlocks {
    /// The blocks that an earlier process has merged.
    pub(crate) fn restored(hashes: Vec<B256>) -> Self {
        Self {
            restored: hashes.len(),
            hashes: Mutex::new(hashes.into()),
        }
    }

    /// Whether an earlier process has merged any.
    pub(crate) const fn are_restored(&self) -> bool {
        self.restored > 0
    }

    pub(crate) fn contains(&self, hash: &B256) -> bool {
        self.hashes.lock().contains(hash)
    }

    pub(crate) fn remember(&self, hash: B256) {
        let mut hashes = self.hashes.lock();
        if hashes.contains(&hash) {
            return;
        }
        if hashes.len() >= REMEMBERED_MAX {
            hashes.pop_front();
        }
        hashes.push_back(hash);
    }

    /// The newest ones, the newest last.
    pub(crate) fn newest(&self, count: usize) -> Vec<B256> {
        let hashes = self.hashes.lock();
        let skipped = hashes.len().saturating_sub(count);
        hashes.iter().skip(skipped).copied().collect()
    }
}
