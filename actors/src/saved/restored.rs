use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use alloy_primitives::B256;
use crossbeam::channel::{self, Sender};
use nearhead_chain::{remote::Verifier, trie::NodeStore};

use super::{
    FileError, KeptBytes, MergedBlocks, SavedBlocks, SavedItems, SavedStatus, SavedWriter,
    file::{BlockRow, SavedFile},
    writer::WriterSetup,
};
use crate::{follow_threads::FollowThreads, head::Head};

/// Longest wait for the file to be opened: a disk that is slow reads a log of 128 MB. To fetch the
/// window takes longer, and a start over a disk that hangs is to be ready within 20 s.
const SAVED_OPEN_MAX: Duration = Duration::from_secs(5);

/// What a process takes over from an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restored {
    /// Its blocks; `None` if there is no file.
    pub(crate) blocks: Option<Arc<SavedBlocks>>,
    /// Its trie nodes and codes, if there are any.
    pub(crate) items: Option<Arc<SavedItems>>,
    /// The blocks whose changes are merged into the held state.
    pub(crate) merged: Arc<MergedBlocks>,
    /// What became of it.
    pub(crate) status: Arc<SavedStatus>,
}

/// What the file is opened for.
#[derive(Clone)]
pub(crate) struct SavedSetup {
    /// The folder of the chain.
    pub(crate) folder: PathBuf,
    /// The chain's genesis: no other block 0 is restored.
    pub(crate) genesis: B256,
    pub(crate) verifier: Arc<Verifier>,
    /// The held state, which records its changes.
    pub(crate) store: Arc<NodeStore>,
    pub(crate) head: Head,
    /// Blocks whose bytes were made already.
    pub(crate) kept: KeptBytes,
    /// Most bytes of the file for trie nodes and codes.
    pub(crate) items_bytes_max: u64,
    /// The threads that follow; those that read, verify and write join them.
    pub(crate) threads: FollowThreads,
}

impl Restored {
    /// Opens the file, on the thread that will write it, and begins to verify its blocks. Without a
    /// file that can be used, or if the disk hangs, nothing is restored; the writer goes on.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(setup: SavedSetup) -> io::Result<(Self, SavedWriter)> {
        let empty = Self::default();
        // Clones share counts and merged blocks, so the writer and the source agree after a
        // timeout.
        let empty_for_writer = empty.clone();
        // Unbuffered: a restored window that comes too late is dropped.
        let (hand_over, opened) = channel::bounded(0);
        let status = Arc::clone(&empty.status);
        let writer = SavedWriter::start(status, move || {
            setup.threads.join();
            Self::open_for(&setup, &empty_for_writer, &hand_over)
        })?;
        let restored = opened.recv_timeout(SAVED_OPEN_MAX).unwrap_or_else(|_| {
            tracing::warn!("the disk does not give the saved window in time: nodes are asked");
            empty
        });
        Ok((restored, writer))
    }

    /// Opens the file, and hands over what is restored. If it comes too late, the process goes on
    /// with `empty`, and so does what is returned.
    fn open_for(setup: &SavedSetup, empty: &Self, hand_over: &Sender<Self>) -> WriterSetup {
        let (restored, writer) = Self::open(setup, empty);
        if hand_over.send(restored).is_ok() {
            return writer;
        }
        // They are kept for those that are refused, which have to leave the file.
        if let Some(blocks) = &writer.blocks {
            blocks.forget();
        }
        WriterSetup {
            merged: Arc::clone(&empty.merged),
            ..writer
        }
    }

    /// Opens the file, and begins to verify its blocks. What can be used of it is counted as
    /// `empty` counts.
    pub(super) fn open(setup: &SavedSetup, empty: &Self) -> (Self, WriterSetup) {
        let status = &empty.status;
        match Self::read(setup, status) {
            Ok(restored) => restored,
            Err(error) => {
                let folder = setup.folder.display();
                tracing::warn!(%folder, %error, "no saved window is restored: nodes are asked");
                let restored = empty.clone();
                let writer = restored.writer(setup, None);
                (restored, writer)
            }
        }
    }

    fn read(
        setup: &SavedSetup,
        status: &Arc<SavedStatus>,
    ) -> Result<(Self, WriterSetup), FileError> {
        let Found {
            file,
            rows,
            merged,
            has_items,
        } = Found::in_folder(&setup.folder)?;
        let found = rows.iter().map(|row| (row.hash, row.number));
        let found: Vec<_> = found
            .filter(|(hash, number)| *number > 0 || *hash == setup.genesis)
            .collect();
        tracing::info!(
            blocks = found.len(),
            has_state = has_items,
            "a saved window is read"
        );
        let items = match has_items {
            true => Some(Arc::new(SavedItems::start(
                file.reader()?,
                Arc::clone(status),
                &setup.threads,
            )?)),
            false => None,
        };
        let blocks = SavedBlocks::start(
            found,
            file.reader()?,
            Arc::clone(&setup.verifier),
            Arc::clone(status),
            &setup.threads,
        )?;
        let restored = Self {
            blocks: Some(blocks),
            items,
            merged: Arc::new(MergedBlocks::restored(merged)),
            status: Arc::clone(status),
        };
        let mut writer = restored.writer(setup, Some(file));
        writer.written = rows;
        Ok((restored, writer))
    }

    fn writer(&self, setup: &SavedSetup, file: Option<SavedFile>) -> WriterSetup {
        WriterSetup {
            file,
            folder: setup.folder.clone(),
            head: setup.head.clone(),
            store: Arc::clone(&setup.store),
            merged: Arc::clone(&self.merged),
            kept: setup.kept.clone(),
            blocks: self.blocks.clone(),
            status: Arc::clone(&self.status),
            items_bytes_max: setup.items_bytes_max,
            written: Vec::new(),
        }
    }
}

/// The file, and what is read of it at the start.
pub(super) struct Found {
    pub(super) file: SavedFile,
    pub(super) rows: Vec<BlockRow>,
    pub(super) merged: Vec<B256>,
    pub(super) has_items: bool,
}

impl Found {
    /// Opens the file of this folder. One that cannot be used is replaced.
    ///
    /// # Errors
    /// [`FileError::Failed`]: the system says no.
    pub(super) fn in_folder(folder: &Path) -> Result<Self, FileError> {
        let opened = SavedFile::open(folder).and_then(Self::read);
        let Err(FileError::Unusable(reason)) = opened else {
            return opened;
        };
        let shown = folder.display();
        tracing::warn!(folder = %shown, reason, "the saved window cannot be used: it is replaced");
        SavedFile::replace(folder).and_then(Self::read)
    }

    fn read(file: SavedFile) -> Result<Self, FileError> {
        Ok(Self {
            rows: file.blocks()?,
            merged: file.merged()?,
            has_items: file.has_items()?,
            file,
        })
    }
}

#[cfg(test)]
mod tests;
