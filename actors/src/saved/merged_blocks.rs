use std::collections::VecDeque;

use alloy_primitives::B256;
use parking_lot::Mutex;

/// Blocks that are remembered: those near the heads of many branches.
const REMEMBERED_MAX: usize = 256;

/// The blocks from which merging can go on, by hash, the newest last.
#[derive(Debug, Default)]
pub(crate) struct MergedBlocks {
    blocks: Mutex<Blocks>,
    /// Whether an earlier process has merged any.
    are_restored: bool,
}

#[derive(Debug, Default)]
struct Blocks {
    hashes: VecDeque<B256>,
    /// The newest of them, while it is merged.
    in_progress: Option<B256>,
}

impl MergedBlocks {
    /// The blocks that an earlier process has merged.
    pub(crate) fn restored(hashes: Vec<B256>) -> Self {
        Self {
            are_restored: !hashes.is_empty(),
            blocks: Mutex::new(Blocks {
                hashes: hashes.into(),
                in_progress: None,
            }),
        }
    }

    /// Whether an earlier process has merged any.
    pub(crate) const fn are_restored(&self) -> bool {
        self.are_restored
    }

    pub(crate) fn contains(&self, hash: &B256) -> bool {
        self.blocks.lock().hashes.contains(hash)
    }

    /// Notes a block whose merge begins, so that it is not tried twice.
    pub(crate) fn begin(&self, hash: B256) {
        self.remember(hash);
        self.blocks.lock().in_progress = Some(hash);
    }

    /// Notes that the merge has ended.
    pub(crate) fn end(&self) {
        self.blocks.lock().in_progress = None;
    }

    /// Notes a block that needs no merge.
    pub(crate) fn remember(&self, hash: B256) {
        let hashes = &mut self.blocks.lock().hashes;
        if hashes.contains(&hash) {
            return;
        }
        if hashes.len() >= REMEMBERED_MAX {
            hashes.pop_front();
        }
        hashes.push_back(hash);
    }

    /// The newest ones whose merge has ended, the newest last.
    pub(super) fn newest(&self, count: usize) -> Vec<B256> {
        let blocks = self.blocks.lock();
        let ended = blocks.hashes.iter().rev();
        let ended = ended.filter(|hash| blocks.in_progress != Some(**hash));
        let mut newest: Vec<B256> = ended.take(count).copied().collect();
        newest.reverse();
        newest
    }
}
