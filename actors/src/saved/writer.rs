use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
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
    MergedBlocks, SavedBlocks, SavedCounts,
    file::{BlockRow, Change, FileError, SavedFile},
};
use crate::head::Head;

/// How often the file is written. `kill -9` loses what has changed since.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long nothing is written after a write has failed: a full disk is not tried twice a second.
const FAILED_PAUSE: Duration = Duration::from_secs(10);

/// Blocks of one transaction: the blocks of a new window, 1 MB of JSON each, are written one part
/// after another.
const BLOCKS_AT_ONCE: usize = 8;

/// Trie nodes and codes of one transaction. A block of mainnet changes some 5,000.
const ITEMS_AT_ONCE: usize = 20_000;

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
    pub(super) file: SavedFile,
    /// The pointer to the window.
    pub(super) head: Head,
    /// The held state, which records its changes.
    pub(super) store: Arc<NodeStore>,
    pub(super) merged: Arc<MergedBlocks>,
    /// The blocks of an earlier process, until the window is full.
    pub(super) blocks: Arc<SavedBlocks>,
    pub(super) is_damaged: Arc<AtomicBool>,
    pub(super) counts: Arc<SavedCounts>,
    /// Most bytes of the file for trie nodes and codes.
    pub(super) items_bytes_max: u64,
    /// The blocks that the file has.
    pub(super) written: Vec<BlockRow>,
}

/// The thread that writes. Dropping it writes what is not written yet.
#[derive(Debug)]
pub(crate) struct SavedWriter {
    stop: Option<Sender<Infallible>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl SavedWriter {
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(setup: WriterSetup) -> io::Result<Self> {
        let (stop, stopped) = channel::bounded(0);
        let thread = thread::Builder::new()
            .name("saved-window".to_owned())
            .spawn(move || Writer::new(setup).run(&stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for SavedWriter {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is on stderr.
            let _ = thread.join();
        }
    }
}

pub(super) struct Writer {
    /// `None` between the end of a damaged file and the next one.
    pub(super) file: Option<SavedFile>,
    folder: PathBuf,
    head: Head,
    store: Arc<NodeStore>,
    merged: Arc<MergedBlocks>,
    blocks: Arc<SavedBlocks>,
    is_damaged: Arc<AtomicBool>,
    counts: Arc<SavedCounts>,
    items_bytes_max: u64,
    /// Blocks that the file has, or that are too large for it.
    written: B256Map<BlockRow>,
    written_merged: Vec<B256>,
    /// Items whose changes are not written yet.
    pending: B256Set,
    /// Those that are to be removed.
    dropped: B256Set,
    has_failed: bool,
}

/// What a transaction will have written.
struct Planned {
    change: Change,
    /// Whether more is left to write.
    is_part: bool,
}

impl Writer {
    pub(super) fn new(setup: WriterSetup) -> Self {
        let WriterSetup {
            file,
            head,
            store,
            merged,
            blocks,
            is_damaged,
            counts,
            items_bytes_max,
            written,
        } = setup;
        Self {
            folder: file.folder(),
            file: Some(file),
            head,
            store,
            written_merged: Vec::new(),
            merged,
            blocks,
            is_damaged,
            counts,
            items_bytes_max,
            written: written.into_iter().map(|row| (row.hash, row)).collect(),
            pending: B256Set::default(),
            dropped: B256Set::default(),
            has_failed: false,
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
            let written = self.write_part(dropped_max);
            if let Err(error) = &written {
                self.counts.count_write(false);
                if !std::mem::replace(&mut self.has_failed, true) {
                    let folder = self.folder.display();
                    tracing::warn!(%folder, %error, "the window cannot be saved: a restart will fetch it");
                }
                if let FileError::Damaged(_) = error {
                    self.is_damaged.store(true, Ordering::Relaxed);
                }
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
        self.replace_damaged()?;
        let Some(snapshot) = self.head.load() else {
            return Ok(false);
        };
        if snapshot.is_filled() {
            self.blocks.forget();
        }
        // Before the changes are taken: what is merged by now is among them.
        let merged = self.merged.newest(MERGED_WRITTEN);
        let Planned {
            mut change,
            is_part,
        } = self.plan(&snapshot, dropped_max);
        if !is_part && merged != self.written_merged {
            change.merged = Some(merged);
        }
        if change.is_empty() {
            return Ok(is_part);
        }
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        file.write(&change)?;
        self.counts.count_write(true);
        if std::mem::take(&mut self.has_failed) {
            tracing::info!("the window is saved again");
        }
        self.note(change);
        Ok(is_part | self.evict()?)
    }

    /// Makes a new file if the present one is damaged.
    fn replace_damaged(&mut self) -> Result<(), FileError> {
        if self.is_damaged.swap(false, Ordering::Relaxed) {
            self.file = None;
            let replaced = SavedFile::replace(&self.folder);
            let replaced = replaced.inspect_err(|_| {
                self.is_damaged.store(true, Ordering::Relaxed);
            });
            self.file = Some(replaced?);
            self.written.clear();
            self.written_merged.clear();
        }
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
        let mut missing = missing.filter(|block| !self.written.contains_key(&block.hash));
        for block in missing.by_ref().take(BLOCKS_AT_ONCE) {
            blocks.push((block.hash, block.number(), block.save()));
        }
        let is_part_of_blocks = missing.next().is_some();
        // Blocks of an earlier process are kept until the window has had the chance to take them.
        let lowest = snapshot
            .head()
            .number()
            .saturating_sub(WINDOW_BLOCKS as u64 - 1);
        let is_filled = snapshot.is_filled();
        let removed = self.written.values().filter(|row| {
            let BlockRow { hash, number, .. } = row;
            let is_wanted = wanted.get(number) == Some(hash);
            let is_outside = *number > 0 && (*number < lowest || wanted.contains_key(number));
            !is_wanted && (is_filled || is_outside)
        });
        let removed = removed.map(|row| row.hash).collect();
        let (mut items, is_part_of_items) = self.plan_items();
        // In the order of the index, whose pages are then changed one after another.
        items.sort_unstable_by_key(|(hash, _)| *hash);
        let mut dropped: Vec<B256> = match self.dropped.len() > dropped_max {
            true => self.dropped.iter().copied().collect(),
            false => Vec::new(),
        };
        dropped.sort_unstable();
        Planned {
            is_part: is_part_of_blocks || is_part_of_items,
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
        for hash in self.store.take_changed() {
            self.dropped.remove(&hash);
            self.pending.insert(hash);
        }
        let (mut items, mut gone) = (Vec::new(), Vec::new());
        for hash in self.pending.iter().take(ITEMS_AT_ONCE) {
            match self.store.content(hash) {
                Some(content) => items.push((*hash, content)),
                None => gone.push(*hash),
            }
        }
        let is_part = self.pending.len() > ITEMS_AT_ONCE;
        for hash in gone {
            self.pending.remove(&hash);
            if self.dropped.len() < DROPPED_MAX {
                self.dropped.insert(hash);
            }
        }
        (items, is_part)
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

    /// Removes the oldest items if the file has too many bytes, but for those that are held, which
    /// become the newest. Returns whether it still has too many.
    fn evict(&mut self) -> Result<bool, FileError> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        let of_blocks: u64 = self.written.values().map(|row| row.bytes).sum();
        let used = file.used_bytes()?;
        self.counts.set_bytes(used);
        let max = self.items_bytes_max + of_blocks;
        if used <= max {
            return Ok(false);
        }
        let mut change = Change::default();
        for hash in file.oldest_items(EVICTED_AT_ONCE)? {
            match self.store.content(&hash) {
                Some(content) => change.items.push((hash, content)),
                None => change.dropped.push(hash),
            }
        }
        // All that is old is held, so the file is as small as it can be.
        let has_room = !change.dropped.is_empty();
        file.write(&change)?;
        Ok(has_room && file.used_bytes()? > max)
    }
}
