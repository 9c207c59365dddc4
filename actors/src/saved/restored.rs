use std::{path::Path, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{remote::Verifier, trie::NodeStore};

use super::{
    FileError, MergedBlocks, SavedBlocks, SavedItems, SavedStatus, file::SavedFile,
    writer::WriterSetup,
};
use crate::head::Head;

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
pub(crate) struct SavedSetup<'a> {
    /// The folder of the chain.
    pub(crate) folder: &'a Path,
    /// The chain's genesis: no other block 0 is restored.
    pub(crate) genesis: B256,
    pub(crate) verifier: &'a Arc<Verifier>,
    /// The held state, which records its changes.
    pub(crate) store: &'a Arc<NodeStore>,
    pub(crate) head: &'a Head,
    /// Most bytes of the file for trie nodes and codes.
    pub(crate) items_bytes_max: u64,
}

impl Restored {
    /// Opens the file and begins to verify its blocks. Without a file that can be used, nothing is
    /// restored; the writer tries again.
    pub(crate) fn open(setup: &SavedSetup<'_>) -> (Self, WriterSetup) {
        match Self::read(setup) {
            Ok(restored) => restored,
            Err(error) => {
                let folder = setup.folder.display();
                tracing::warn!(%folder, %error, "no saved window is restored: nodes are asked");
                let restored = Self::default();
                let writer = restored.writer(setup, None);
                (restored, writer)
            }
        }
    }

    fn read(setup: &SavedSetup<'_>) -> Result<(Self, WriterSetup), FileError> {
        let opened = SavedFile::open(setup.folder).and_then(|file| {
            let (rows, merged) = (file.blocks()?, file.merged()?);
            let has_items = file.has_items()?;
            Ok((file, rows, merged, has_items))
        });
        let (file, rows, merged, has_items) = match opened {
            Err(FileError::Unusable(reason)) => {
                let folder = setup.folder.display();
                tracing::warn!(%folder, reason, "the saved window cannot be used: it is replaced");
                let file = SavedFile::replace(setup.folder)?;
                (file, Vec::new(), Vec::new(), false)
            }
            opened => opened?,
        };
        let status = Arc::<SavedStatus>::default();
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
                Arc::clone(&status),
            )?)),
            false => None,
        };
        let blocks = SavedBlocks::start(
            found,
            file.reader()?,
            Arc::clone(setup.verifier),
            Arc::clone(&status),
        )?;
        let restored = Self {
            blocks: Some(blocks),
            items,
            merged: Arc::new(MergedBlocks::restored(merged)),
            status,
        };
        let mut writer = restored.writer(setup, Some(file));
        writer.written = rows;
        Ok((restored, writer))
    }

    fn writer(&self, setup: &SavedSetup<'_>, file: Option<SavedFile>) -> WriterSetup {
        WriterSetup {
            file,
            folder: setup.folder.to_owned(),
            head: setup.head.clone(),
            store: Arc::clone(setup.store),
            merged: Arc::clone(&self.merged),
            blocks: self.blocks.clone(),
            status: Arc::clone(&self.status),
            items_bytes_max: setup.items_bytes_max,
            written: Vec::new(),
        }
    }
}
