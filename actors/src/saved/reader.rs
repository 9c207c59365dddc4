use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use nearhead_chain::trie::State;
use parking_lot::Mutex;

use super::{SavedCounts, file::ReadFile};

/// The trie nodes and codes of an earlier process, read from the file as reads need them.
#[derive(Debug)]
pub(crate) struct SavedItems {
    /// `None` once it could not be read.
    file: Mutex<Option<ReadFile>>,
    /// Whether the file has to be replaced.
    is_damaged: Arc<AtomicBool>,
    counts: Arc<SavedCounts>,
}

impl SavedItems {
    pub(super) const fn new(
        file: ReadFile,
        is_damaged: Arc<AtomicBool>,
        counts: Arc<SavedCounts>,
    ) -> Self {
        Self {
            file: Mutex::new(Some(file)),
            is_damaged,
            counts,
        }
    }

    /// Stores what an account, these slots and, if `with_code`, its code lack in the state, as far
    /// as the file has it. Returns whether all is held now. It waits for the disk.
    pub(crate) fn load(
        &self,
        state: &State,
        address: &Address,
        slots: &[U256],
        with_code: bool,
    ) -> bool {
        state.load(address, slots, with_code, |hash| self.item(hash))
    }

    fn item(&self, hash: &B256) -> Option<Bytes> {
        let mut file = self.file.lock();
        match file.as_ref()?.item(hash) {
            Ok(content) => {
                let content = Bytes::from(content?);
                let is_whole = keccak256(&content) == *hash;
                self.counts.count_item(is_whole);
                is_whole.then_some(content)
            }
            Err(error) => {
                tracing::warn!(%error, "the saved state cannot be read: nodes are asked for it");
                self.is_damaged.store(true, Ordering::Relaxed);
                *file = None;
                None
            }
        }
    }
}
