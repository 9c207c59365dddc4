use std::{
    collections::BTreeMap, convert::Infallible, io, path::PathBuf, sync::Arc, time::Duration,
};

use alloy_primitives::{
    B256, Bytes,
    map::{B256Map, B256Set},
};
use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};
use nearhead_chain::{
    trie::NodeStore,
    window::{Snapshot, WINDOW_BLOCKS},
};

use super::{
    KeptBytes, MergedBlocks, SavedBlocks, SavedStatus,
    file::{BlockRow, Change, FileError, SavedFile},
};
use crate::{disk_wait::DiskThread, head::Head};

/// How often the file is written. `kill -9` loses what has changed since, and what is being
/// written.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long nothing is written after a write has failed: a full disk is not tried twice a second.
const FAILED_PAUSE: Duration = Duration::from_secs(10);

/// Longest wait for the last write when the process ends.
const WINDOW_WRITE_MAX: Duration = Duration::from_secs(4);

/// Blocks of one transaction: the blocks of a new window, each encoded from 1 MB of JSON, are
/// written one part after another.
const BLOCKS_AT_ONCE: usize = 8;

/// Trie nodes and codes of one transaction, as many as a block of mainnet changes: a new block
/// waits for one of them at most.
const ITEMS_AT_ONCE: usize = 5_000;

/// Removed items that are collected before they leave the file: one page has many of them.
const DROPPED_AT_ONCE: usize = 32_768;

/// Most of them while nothing can be written. Others stay in the file until they are the oldest.
const DROPPED_MAX: usize = 1 << 20;

/// Of the oldest items, how many one transaction removes while the file is too large.
const EVICTED_AT_ONCE: u32 = 4_096;

/// Merged blocks that are written: those from which the next process may go on.
const MERGED_WRITTEN: usize = 16;

/// What a writer writes, and where.
pub(super) struct WriterSetup {
    /// `None` if it could not be opened.
    pub(super) file: Option<SavedFile>,
    pub(super) folder: PathBuf,
    /// The pointer to the window.
    pub(super) head: Head,
    /// The held state, which records its changes.
    pub(super) store: Arc<NodeStore>,
    pub(super) merged: Arc<MergedBlocks>,
    /// Blocks whose bytes were made already.
    pub(super) kept: KeptBytes,
    /// The blocks of an earlier process, until the window is full.
    pub(super) blocks: Option<Arc<SavedBlocks>>,
    pub(super) status: Arc<SavedStatus>,
    /// Most bytes of the file for trie nodes and codes.
    pub(super) items_bytes_max: u64,
    /// The blocks that the file has.
    pub(super) written: Vec<BlockRow>,
}

/// The thread that writes. Dropping it writes what is not written yet.
#[derive(Debug)]
pub(crate) struct SavedWriter {
    stop: Option<Sender<Infallible>>,
    thread: DiskThread,
}

impl SavedWriter {
    /// Starts the thread, which first opens what it writes.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        status: Arc<SavedStatus>,
        open: impl FnOnce() -> WriterSetup + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel::bounded(0);
        let thread = DiskThread::start("saved-window", move || {
            Writer::new(status.on_disk(open)).run(&stopped);
        })?;
        Ok(Self {
            stop: Some(stop),
            thread,
        })
    }
}

impl Drop for SavedWriter {
    fn drop(&mut self) {
        self.stop = None;
        if !self.thread.ends_within(WINDOW_WRITE_MAX) {
            tracing::warn!("the last of the window is not written: the disk does not answer");
        }
    }
}

pub(super) struct Writer {
    pub(super) setup: WriterSetup,
    /// Blocks that the file has, or that are too large for it.
    written: B256Map<BlockRow>,
    /// Those of them that failed a check.
    refused: B256Set,
    written_merged: Vec<B256>,
    /// Items whose changes are not written yet.
    pending: B256Set,
    /// Those that are to be removed.
    dropped: B256Set,
    /// Whether the file had more bytes than it may at the last look.
    is_too_large: bool,
    has_failed: bool,
}

/// What a transaction will have written.
struct Planned {
    change: Change,
    /// Whether more is left to write.
    has_more: bool,
}

impl Writer {
    pub(super) fn new(mut setup: WriterSetup) -> Self {
        let written = std::mem::take(&mut setup.written);
        Self {
            written: written.into_iter().map(|row| (row.hash, row)).collect(),
            refused: B256Set::default(),
            written_merged: Vec::new(),
            pending: B256Set::default(),
            dropped: B256Set::default(),
            is_too_large: false,
            has_failed: false,
            setup,
        }
    }

    fn run(mut self, stopped: &Receiver<Infallible>) {
        let mut wait = INTERVAL;
        while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            wait = match self.write_all(DROPPED_AT_ONCE) {
                true => INTERVAL,
                false => FAILED_PAUSE,
            };
        }
        self.write_all(0);
    }

    /// Writes what has changed, in transactions of a bounded size; items are removed once more than
    /// `dropped_max` are to be. Returns whether that succeeded.
    pub(super) fn write_all(&mut self, dropped_max: usize) -> bool {
        loop {
            let status = Arc::clone(&self.setup.status);
            let written = status.on_disk(|| self.write_part(dropped_max));
            if let Err(error) = &written {
                status.count_write(false);
                if !std::mem::replace(&mut self.has_failed, true) {
                    let folder = self.setup.folder.display();
                    tracing::warn!(
                        %folder,
                        %error,
                        "the window cannot be saved: a restart will fetch it"
                    );
                }
                status.failed(error);
            }
            match written {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Writes a part of what has changed. Returns whether more is left.
    fn write_part(&mut self, dropped_max: usize) -> Result<bool, FileError> {
        let Some(snapshot) = self.setup.head.load() else {
            return Ok(false);
        };
        if let Some(blocks) = &self.setup.blocks {
            self.refused.extend(blocks.take_refused());
            // A node that is behind may reach those above the head.
            let newest = blocks.newest();
            let are_below = newest.is_some_and(|at| at <= snapshot.head().number());
            if snapshot.is_filled() && are_below && blocks.are_verified() {
                blocks.forget();
            }
        }
        self.open_again()?;
        // Before the changes are taken: what is merged by now is among them.
        let merged = self.setup.merged.newest(MERGED_WRITTEN);
        let Planned {
            mut change,
            has_more,
        } = self.plan(&snapshot, dropped_max);
        if !has_more && merged != self.written_merged {
            change.merged = Some(merged);
        }
        let Some(file) = &mut self.setup.file else {
            return Ok(false);
        };
        if !change.is_empty() {
            file.write(&change)?;
            self.setup.status.count_write(true);
            if std::mem::take(&mut self.has_failed) {
                tracing::info!("the window is saved again");
            }
            self.note(change);
        } else if !self.is_too_large {
            return Ok(false);
        }
        self.evict()?;
        Ok(has_more)
    }

    /// Opens the file if that was not possible before, or makes a new one if the present one cannot
    /// be used.
    fn open_again(&mut self) -> Result<(), FileError> {
        let WriterSetup {
            file,
            folder,
            status,
            store,
            ..
        } = &mut self.setup;
        if file.is_some() && !status.is_unusable() {
            return Ok(());
        }
        // What is in it is not known, so it begins empty.
        *file = None;
        *file = Some(SavedFile::replace(folder)?);
        status.replaced();
        store.record_all();
        self.written.clear();
        self.refused.clear();
        self.written_merged.clear();
        Ok(())
    }

    /// What to write next.
    fn plan(&mut self, snapshot: &Snapshot, dropped_max: usize) -> Planned {
        let canonical = snapshot.canonical();
        let wanted: BTreeMap<u64, B256> = canonical
            .iter()
            .chain(snapshot.genesis())
            .map(|block| (block.number(), block.hash))
            .collect();
        let mut blocks = Vec::new();
        // The head first: without it, the others are of little use.
        let missing = canonical.iter().rev().chain(snapshot.genesis());
        let is_missing = |hash| !self.written.contains_key(hash) || self.refused.contains(hash);
        let mut missing = missing.filter(|block| is_missing(&block.hash));
        for block in missing.by_ref().take(BLOCKS_AT_ONCE) {
            let (hash, number) = (block.hash, block.number());
            let kept = self.setup.kept.get(number, hash);
            let bytes = kept.or_else(|| block.save().map(Bytes::from));
            blocks.push((hash, number, bytes));
        }
        let has_more_blocks = missing.next().is_some();
        // Blocks of an earlier process are kept until the window has had the chance to take them.
        let head = snapshot.head().number();
        let lowest = head.saturating_sub(WINDOW_BLOCKS as u64 - 1);
        let is_filled = snapshot.is_filled();
        let removed = self.written.values().filter(|row| {
            let BlockRow { hash, number, .. } = row;
            let is_wanted = wanted.get(number) == Some(hash);
            let is_outside = *number > 0 && (*number < lowest || wanted.contains_key(number));
            let is_above = *number > head;
            !is_wanted && !is_above && (is_filled || is_outside)
        });
        let removed = removed.map(|row| row.hash);
        let removed = removed.chain(self.refused.iter().copied()).collect();
        // Blocks go first: to make the bytes of one again takes longest.
        let (mut items, has_more_items) = match blocks.is_empty() {
            true => self.plan_items(),
            false => (Vec::new(), true),
        };
        // In the order of the index, whose pages are then changed one after another.
        items.sort_unstable_by_key(|(hash, _)| *hash);
        let mut dropped: Vec<B256> = match self.dropped.len() > dropped_max {
            true => self.dropped.iter().copied().collect(),
            false => Vec::new(),
        };
        dropped.sort_unstable();
        Planned {
            has_more: has_more_blocks || has_more_items,
            change: Change {
                blocks,
                removed,
                items,
                dropped,
                merged: None,
            },
        }
    }

    /// Trie nodes and codes to write next, and whether others are left.
    fn plan_items(&mut self) -> (Vec<(B256, Bytes)>, bool) {
        // While nothing can be written, the store keeps what has changed, within its bound.
        if self.pending.len() < DROPPED_MAX {
            for hash in self.setup.store.take_changed() {
                self.dropped.remove(&hash);
                self.pending.insert(hash);
            }
        }
        let (mut items, mut gone) = (Vec::new(), Vec::new());
        for hash in self.pending.iter().take(ITEMS_AT_ONCE) {
            match self.setup.store.content(hash) {
                Some(content) => items.push((*hash, content)),
                None => gone.push(*hash),
            }
        }
        let has_more = self.pending.len() > ITEMS_AT_ONCE;
        for hash in gone {
            self.pending.remove(&hash);
            if self.dropped.len() < DROPPED_MAX {
                self.dropped.insert(hash);
            }
        }
        (items, has_more)
    }

    /// Notes what was written.
    fn note(&mut self, change: Change) {
        let Change {
            blocks,
            removed,
            items,
            dropped,
            merged,
        } = change;
        for hash in removed {
            self.written.remove(&hash);
            self.refused.remove(&hash);
        }
        for (hash, number, saved) in blocks {
            let bytes = saved.map_or(0, |saved| saved.len() as u64);
            let row = BlockRow {
                hash,
                number,
                bytes,
            };
            self.written.insert(hash, row);
        }
        for (hash, _) in items {
            self.pending.remove(&hash);
        }
        for hash in dropped {
            self.dropped.remove(&hash);
        }
        if let Some(merged) = merged {
            self.written_merged = merged;
        }
    }

    /// Removes some of the oldest items if the file has too many bytes, but for those that are
    /// held, which become the newest.
    fn evict(&mut self) -> Result<(), FileError> {
        let Some(file) = &mut self.setup.file else {
            return Ok(());
        };
        let of_blocks: u64 = self.written.values().map(|row| row.bytes).sum();
        let used = file.used_bytes()?;
        self.setup.status.set_bytes(used);
        self.is_too_large = used > self.setup.items_bytes_max + of_blocks;
        if !self.is_too_large {
            return Ok(());
        }
        let mut change = Change::default();
        for hash in file.oldest_items(EVICTED_AT_ONCE)? {
            match self.setup.store.content(&hash) {
                Some(content) => change.items.push((hash, content)),
                None => change.dropped.push(hash),
            }
        }
        file.write(&change)
    }
}
