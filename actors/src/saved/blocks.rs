use std::{collections::BTreeMap, io, sync::Arc, thread};

use alloy_primitives::{B256, map::B256Map};
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_chain::{block::Block, remote::Verifier};
use parking_lot::Mutex;
use tokio::{sync::watch, time};

use super::{PATIENCE, SavedStatus, file::ReadFile};
use crate::follow_threads::FollowThreads;

/// The blocks that an earlier process has saved. Threads of their own read and verify them, the
/// newest first, before they are asked for.
#[derive(Debug)]
pub(crate) struct SavedBlocks {
    found: Mutex<Found>,
    /// How many were verified or refused so far.
    progress: watch::Sender<usize>,
    /// How many will be.
    count: usize,
    verifier: Arc<Verifier>,
    status: Arc<SavedStatus>,
}

#[derive(Debug, Default)]
struct Found {
    /// `None` until it is verified.
    by_hash: B256Map<Option<Arc<Block>>>,
    /// Of a number that several blocks have, one is found by number.
    by_number: BTreeMap<u64, B256>,
    /// Those that failed a check, until the thread that writes takes them.
    refused: Vec<B256>,
}

impl SavedBlocks {
    /// The blocks with these hashes and numbers. Their verification begins.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        hashes: impl IntoIterator<Item = (B256, u64)>,
        file: ReadFile,
        verifier: Arc<Verifier>,
        status: Arc<SavedStatus>,
        threads: &FollowThreads,
    ) -> io::Result<Arc<Self>> {
        let mut found = Found::default();
        for (hash, number) in hashes {
            found.by_hash.insert(hash, None);
            found.by_number.insert(number, hash);
        }
        let newest_first: Vec<B256> = found.by_number.values().rev().copied().collect();
        let count = newest_first.len();
        let this = Arc::new(Self {
            found: Mutex::new(found),
            progress: watch::Sender::new(0),
            count,
            verifier,
            status,
        });
        if newest_first.is_empty() {
            return Ok(this);
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (sender, read) = channel::bounded(cores);
        let (verified, to_make) = channel::bounded(count);
        let reader = Arc::clone(&this);
        threads.spawn("saved-blocks", move || {
            for hash in newest_first {
                let Some(content) = reader.read(&file, &hash) else {
                    continue;
                };
                // Sending fails if no thread verifies any more.
                if !reader.has(&hash) || sender.send((hash, content)).is_err() {
                    break;
                }
            }
        })?;
        for _ in 0..cores {
            let (blocks, read) = (Arc::clone(&this), read.clone());
            let (verified, to_make) = (verified.clone(), to_make.clone());
            threads.spawn("restore", move || {
                blocks.verify(&read, verified);
                blocks.make_json(&to_make);
            })?;
        }
        Ok(this)
    }

    /// The hash of the block that was canonical at this number.
    pub(crate) fn hash_at(&self, number: u64) -> Option<B256> {
        self.found.lock().by_number.get(&number).copied()
    }

    /// Whether a block with this hash was saved, and is not known to be of no use.
    pub(crate) fn has(&self, hash: &B256) -> bool {
        self.found.lock().by_hash.contains_key(hash)
    }

    /// Whether each was verified or refused.
    pub(super) fn are_verified(&self) -> bool {
        *self.progress.borrow() >= self.count
    }

    /// The number of the newest block that is left.
    pub(super) fn newest(&self) -> Option<u64> {
        let found = self.found.lock();
        found.by_number.last_key_value().map(|(number, _)| *number)
    }

    /// The block with this hash, verified; `None` if it was not saved or fails a check. It waits
    /// until the block is verified, for as long as any block is.
    pub(crate) async fn block(&self, hash: &B256) -> Option<Arc<Block>> {
        let mut progress = self.progress.subscribe();
        loop {
            if let Some(block) = self.found.lock().by_hash.get(hash)? {
                return Some(Arc::clone(block));
            }
            if time::timeout(PATIENCE, progress.changed()).await.is_err() {
                tracing::warn!("the disk does not give the saved blocks in time: nodes do");
                self.forget();
            }
        }
    }

    /// Drops all blocks: they are in the window, or of no use.
    pub(super) fn forget(&self) {
        let mut found = self.found.lock();
        found.by_hash.clear();
        found.by_number.clear();
        drop(found);
        self.progress.send_modify(|_| {});
    }

    /// Takes the hashes of those that failed a check.
    pub(super) fn take_refused(&self) -> Vec<B256> {
        std::mem::take(&mut self.found.lock().refused)
    }

    fn read(&self, file: &ReadFile, hash: &B256) -> Option<Vec<u8>> {
        match file.block(hash) {
            Ok(Some(content)) => return Some(content),
            Ok(None) => self.refuse(hash),
            Err(error) => {
                tracing::warn!(%hash, %error, "a saved block cannot be read");
                self.status.failed(&error);
                self.refuse(hash);
            }
        }
        None
    }

    /// Verifies the blocks that are read, and passes them on.
    fn verify(&self, read: &Receiver<(B256, Vec<u8>)>, verified: Sender<Arc<Block>>) {
        for (hash, content) in read {
            match self.verifier.restore(hash, &content) {
                Ok(block) => {
                    self.status.count_block(true);
                    if let Some(found) = self.found.lock().by_hash.get_mut(&hash) {
                        *found = Some(Arc::clone(&block));
                    }
                    // It has room for all of them.
                    let _ = verified.try_send(block);
                    self.progress.send_modify(|count| *count += 1);
                }
                Err(error) => {
                    tracing::warn!(%hash, %error, "a saved block is not used");
                    self.refuse(&hash);
                }
            }
        }
    }

    /// Makes the JSON of verified blocks, once all are verified: a window is ready without it.
    fn make_json(&self, verified: &Receiver<Arc<Block>>) {
        for block in verified {
            // Nobody else holds one that was not wanted.
            if Arc::strong_count(&block) > 1
                && let Err(error) = block.make_json()
            {
                let hash = block.hash;
                tracing::error!(%hash, %error, "a saved block has no JSON");
                self.refuse(&hash);
            }
        }
    }

    /// Drops a block that is of no use, and has it removed from the file.
    fn refuse(&self, hash: &B256) {
        self.status.count_block(false);
        let mut found = self.found.lock();
        found.by_hash.remove(hash);
        found.by_number.retain(|_, at| at != hash);
        found.refused.push(*hash);
        drop(found);
        self.progress.send_modify(|count| *count += 1);
    }
}
