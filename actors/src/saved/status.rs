use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use super::FileError;
use crate::disk_wait::StallWatch;

/// What became of the file: what was restored from it and written to it since the start, and
/// whether it has to be replaced.
#[derive(Debug, Default)]
pub struct SavedStatus {
    blocks: [AtomicU64; 2],
    items: [AtomicU64; 2],
    writes: [AtomicU64; 2],
    bytes: AtomicU64,
    is_unusable: AtomicBool,
    /// Sees whether the disk hangs while the file is opened or written.
    disk: StallWatch,
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

    /// Looks whether the disk hangs, and counts and reports it: the thread that works on the file
    /// cannot. It is to be called every few seconds.
    pub fn watch(&self, now: Instant) {
        self.disk.watch(now, |is_new| {
            self.count_write(false);
            if is_new {
                tracing::warn!("the window cannot be saved: the disk does not answer");
            }
        });
    }

    /// Opens the file, or writes a part of it.
    pub(super) fn on_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        let (outcome, has_stalled) = self.disk.during(work);
        if has_stalled {
            tracing::info!("the disk of the saved window answers again");
        }
        outcome
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_write_that_hangs_counts_as_failed() {
        let status = SavedStatus::default();
        let late = || Instant::now() + Duration::from_secs(60);
        status.watch(late());
        status.on_disk(|| {
            status.watch(Instant::now());
            assert_eq!(status.writes()[1], ("failed", 0));
            status.watch(late());
            status.watch(late());
        });
        assert_eq!(status.writes()[1], ("failed", 2));
        status.watch(late());
        assert_eq!(status.writes()[1], ("failed", 2));
    }
}
