//! Source `files`: genesis.json and chain.rlp, every block verified and executed; whatever a file
//! holds is settled.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nearhead_chain::{
    block::Block, chain_file::ChainReader, encode::EncodeOptions, import::Importer,
};

use super::{
    Progress, Report, SourceError, StopSignal, TrackerLink, is_stopped, read_genesis_file,
};
use crate::messages::AdvanceHead;

/// Blocks that are handed over in one message: few enough to bound what waits, enough to make the
/// hop unnoticeable.
const BATCH_BLOCKS: usize = 32;

/// Imports a chain from its files.
#[derive(Debug)]
pub struct FilesSource {
    importer: Importer,
    first: Arc<Block>,
    chain: PathBuf,
}

impl FilesSource {
    /// Reads the genesis; the chain is read by [`Self::import`].
    ///
    /// # Errors
    /// The genesis cannot be read, is not one, or has rules that are not known.
    pub fn open(
        genesis: &Path,
        chain: PathBuf,
        options: EncodeOptions,
    ) -> Result<Self, SourceError> {
        let path = || genesis.to_owned();
        let parsed = read_genesis_file(genesis)?;
        let importer = Importer::new(&parsed, options).map_err(|error| SourceError::Rules {
            path: path(),
            error,
        })?;
        let first = importer.genesis(&parsed.alloc);
        let first = first.map_err(|error| SourceError::BadBlock {
            path: path(),
            error: Box::new(error),
        })?;
        Ok(Self {
            importer,
            first,
            chain,
        })
    }

    /// The chain id.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.importer.spec().chain_id()
    }

    /// The genesis block.
    #[must_use]
    pub const fn first(&self) -> &Arc<Block> {
        &self.first
    }

    /// Imports all blocks of the file. Every one is settled: safe = finalized = head.
    ///
    /// # Errors
    /// The first block that cannot be read or fails a check: nothing after it is handed over.
    pub fn import(
        self,
        link: &TrackerLink,
        report: &mut Report,
        stop: &StopSignal,
    ) -> Result<(), SourceError> {
        let Self {
            importer,
            first,
            chain,
        } = self;
        let path = || chain.clone();
        let file = CountedFile::open(&chain).map_err(|error| SourceError::Read {
            path: path(),
            error,
        })?;
        let (bytes, bytes_total) = (Arc::clone(&file.bytes), file.length);
        let malformed = |number, error| SourceError::Malformed {
            path: path(),
            number,
            error,
        };
        let mut batch = Vec::with_capacity(BATCH_BLOCKS);
        let (genesis, mut parent, mut blocks) = (first.hash, first, 0);
        let reader = ChainReader::new(file).map_err(|error| malformed(1, error))?;
        for raw in reader.after_genesis(genesis) {
            if is_stopped(stop) {
                return Err(SourceError::Stopped);
            }
            let raw = raw.map_err(|error| malformed(parent.number() + 1, error))?;
            let block = importer.import(raw, &parent);
            let block = block.map_err(|error| SourceError::BadBlock {
                path: path(),
                error: Box::new(error),
            })?;
            parent = Arc::clone(&block);
            blocks += 1;
            batch.push(block);
            if batch.len() == BATCH_BLOCKS {
                hand_over(link, std::mem::take(&mut batch))?;
            }
            let read = bytes.load(Ordering::Relaxed);
            report(Progress::Import {
                blocks,
                // Reading is ahead of importing: the whole is said at the end alone.
                bytes: match bytes_total {
                    0 => read,
                    total => read.min(total - 1),
                },
                bytes_total,
            });
        }
        hand_over(link, batch)?;
        drop(parent);
        // Nothing is written from now on that would free what left the window.
        importer.store().release_retired();
        report(Progress::Import {
            blocks,
            bytes: bytes.load(Ordering::Relaxed).max(bytes_total),
            bytes_total,
        });
        Ok(())
    }
}

/// Hands blocks over as settled ones.
fn hand_over(link: &TrackerLink, applied: Vec<Arc<Block>>) -> Result<(), SourceError> {
    let settled = applied.last().map(|block| block.hash);
    if settled.is_none() {
        return Ok(());
    }
    link.advance(AdvanceHead {
        reverted: 0,
        applied,
        safe: settled,
        finalized: settled,
    })
}

/// A file that counts what was read of it.
struct CountedFile {
    file: File,
    /// Bytes; 0 where nobody knows, as of a pipe.
    length: u64,
    bytes: Arc<AtomicU64>,
}

impl CountedFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            file,
            length,
            bytes: Arc::default(),
        })
    }
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
