use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::FileError;

/// What became of the file: what was restored from it and written to it since the start, and
/// whether it has to be replaced.
#[derive(Debug, Default)]
pub struct SavedStatus {
    blocks: [AtomicU64; 2],
    items: [AtomicU64; 2],
    writes: [AtomicU64; 2],
    bytes: AtomicU64,
    is_unusable: AtomicBool,
}

impl SavedStatus {
    /// Blocks that were restored, and those that failed a check.
    #[must_use]
    pub fn blocks(&self) -> [(&'static str, u64); 2] {
        labelled(["restored", "refused"], &self.blocks)
    }

    /// Trie nodes and codes that were loaded, and those that did not have their hash.
    #[must_use]
    pub fn items(&self) -> [(&'static str, u64); 2] {
        labelled(["restored", "refused"], &self.items)
    }

    /// Transactions that were written, and those that failed.
    #[must_use]
    pub fn writes(&self) -> [(&'static str, u64); 2] {
        labelled(["written", "failed"], &self.writes)
    }

    /// The size of the file in bytes, as of the last write.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn count_block(&self, is_restored: bool) {
        count(&self.blocks, is_restored);
    }

    pub(super) fn count_item(&self, is_restored: bool) {
        count(&self.items, is_restored);
    }

    pub(super) fn count_write(&self, is_written: bool) {
        count(&self.writes, is_written);
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes an error. A file that cannot be used is replaced by the thread that writes it; any
    /// other error may pass.
    pub(super) fn failed(&self, error: &FileError) {
        if let FileError::Unusable(_) = error {
            self.is_unusable.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the file was replaced.
    pub(super) fn replaced(&self) {
        self.is_unusable.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_unusable(&self) -> bool {
        self.is_unusable.load(Ordering::Relaxed)
    }
}

fn count([succeeded, failed]: &[AtomicU64; 2], is_success: bool) {
    let counter = if is_success { succeeded } else { failed };
    counter.fetch_add(1, Ordering::Relaxed);
}

fn labelled(
    [first, second]: [&'static str; 2],
    [succeeded, failed]: &[AtomicU64; 2],
) -> [(&'static str, u64); 2] {
    [
        (first, succeeded.load(Ordering::Relaxed)),
        (second, failed.load(Ordering::Relaxed)),
    ]
}
