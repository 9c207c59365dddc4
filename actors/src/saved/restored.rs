use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
};

use alloy_primitives::B256;
use nearhead_chain::{remote::Verifier, trie::NodeStore};

use super::{
    FileError, MergedBlocks, SavedBlocks, SavedCounts, SavedItems, SavedWriter, WriterSetup,
    file::SavedFile,
};
use crate::head::Head;

/// What a process takes over from an earlier one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restored {
    /// Its blocks; `None` if nothing is saved.
    pub(crate) blocks: Option<Arc<SavedBlocks>>,
    /// Its trie nodes and codes, if there are any.
    pub(crate) items: Option<Arc<SavedItems>>,
    /// The blocks whose changes are merged into the held state.
    pub(crate) merged: Arc<MergedBlocks>,
    /// What became of it.
    pub(crate) counts: Arc<SavedCounts>,
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
    /// Opens the file, begins to verify its blocks, and begins to write it.
    ///
    /// # Errors
    /// The file cannot be read or written; it may be possible at the next start.
    pub(crate) fn open(setup: &SavedSetup<'_>) -> Result<(Self, SavedWriter), FileError> {
        let (restored, writer) = Self::prepare(setup)?;
        let writer = SavedWriter::start(writer)?;
        if let Some(blocks) = &restored.blocks {
            verify_all(blocks);
        }
        Ok((restored, writer))
    }

    pub(super) fn prepare(setup: &SavedSetup<'_>) -> Result<(Self, WriterSetup), FileError> {
        let file = SavedFile::open(setup.folder)?;
        match Self::read(setup, file) {
            // A part of the file that is read only now is damaged.
            Err(FileError::Damaged(reason)) => {
                let folder = setup.folder.display();
                tracing::warn!(%folder, reason, "the saved window is damaged: it is replaced");
                Self::read(setup, SavedFile::replace(setup.folder)?)
            }
            read => read,
        }
    }

    fn read(setup: &SavedSetup<'_>, file: SavedFile) -> Result<(Self, WriterSetup), FileError> {
        let is_damaged = Arc::new(AtomicBool::new(false));
        let counts = Arc::<SavedCounts>::default();
        let of_items = file.reader()?;
        let has_items = of_items.has_items()?;
        let merged = Arc::new(MergedBlocks::restored(of_items.merged()?));
        let written = of_items.blocks()?;
        let found = written.iter().map(|row| (row.hash, row.number));
        let found: Vec<_> = found
            .filter(|(hash, number)| *number > 0 || *hash == setup.genesis)
            .collect();
        let blocks = Arc::new(SavedBlocks::new(
            &found,
            file.reader()?,
            Arc::clone(&is_damaged),
            Arc::clone(setup.verifier),
            Arc::clone(&counts),
        ));
        let items = SavedItems::new(of_items, Arc::clone(&is_damaged), Arc::clone(&counts));
        let writer = WriterSetup {
            file,
            head: setup.head.clone(),
            store: Arc::clone(setup.store),
            merged: Arc::clone(&merged),
            blocks: Arc::clone(&blocks),
            is_damaged,
            counts: Arc::clone(&counts),
            items_bytes_max: setup.items_bytes_max,
            written,
        };
        tracing::info!(
            blocks = found.len(),
            has_state = has_items,
            "a saved window is read"
        );
        let restored = Self {
            blocks: Some(blocks),
            items: has_items.then(|| Arc::new(items)),
            merged,
            counts,
        };
        Ok((restored, writer))
    }
}

/// Verifies all blocks on threads of their own, one for each core, before they are asked for.
fn verify_all(blocks: &Arc<SavedBlocks>) {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..cores {
        let blocks = Arc::clone(blocks);
        let verify = move || blocks.verify_all();
        let started = thread::Builder::new()
            .name("restore".to_owned())
            .spawn(verify);
        if let Err(error) = started {
            // They are verified as they are asked for.
            tracing::warn!(%error, "no thread verifies the saved blocks");
        }
    }
}
