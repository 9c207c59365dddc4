use alloy_primitives::{B256, map::B256Set};
use parking_lot::Mutex;

/// Hashes that are recorded at most, in some 50 MB. What has no room is missing in the copy, or
/// stays there until it is evicted.
const RECORDED_MAX: usize = 1 << 20;

/// The hashes of nodes and codes that were stored or dropped since they were last taken.
#[derive(Default)]
pub(super) struct Changed(Mutex<B256Set>);

impl Changed {
    pub(super) fn record(&self, hash: B256) {
        let mut hashes = self.0.lock();
        if hashes.len() < RECORDED_MAX {
            hashes.insert(hash);
        }
    }

    pub(super) fn forget(&self, hash: &B256) {
        self.0.lock().remove(hash);
    }

    pub(super) fn take(&self) -> B256Set {
        std::mem::take(&mut *self.0.lock())
    }
}
