//! Source `files`: genesis.json and chain.rlp. Every block is verified and executed, and settled.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use alloy_genesis::Genesis;
use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    chain_file::{ChainReader, read_genesis},
    encode::EncodeOptions,
    import::Importer,
};

use super::{
    blocking_tracker::BlockingTracker,
    error::SourceError,
    event::{Progress, SourceEvent},
    link::{Source, SourceLink},
};
use crate::messages::AdvanceHead;

/// Blocks handed over in one message: few enough to bound the memory of those that wait, enough to
/// make the cost of a message negligible.
const BATCH_BLOCKS: usize = 32;

/// Imports a chain from its files; every block of them is settled.
#[derive(Clone, Debug)]
pub struct FilesSource {
    /// genesis.json.
    pub genesis: PathBuf,
    /// chain.rlp, which may be compressed with gzip.
    pub chain: PathBuf,
    /// How blocks are encoded as JSON.
    pub options: EncodeOptions,
}

impl Source for FilesSource {
    /// Imports all blocks, then ends. An error names the first block that cannot be read or fails
    /// a check; no later block is handed over.
    fn run(self, link: SourceLink) -> Result<(), SourceError> {
        let (importer, first) = self.read_genesis()?;
        let chain = importer.spec().clone().into();
        let tracker = BlockingTracker::start(&link, chain, Arc::clone(&first))?;
        import(&importer, first, &self.chain, &tracker, &link)?;
        tracker.report_readable(&link);
        Ok(())
    }
}

impl FilesSource {
    /// Reads the genesis, and imports block 1 as [`Source::run`] does. Nothing is handed over.
    /// Returns chain id and hash of the genesis.
    ///
    /// # Errors
    /// Those of [`Source::run`] that these two blocks cause. What cannot be read of the chain's
    /// file counts as block 1, whatever is malformed.
    pub fn examine(&self) -> Result<(u64, B256), SourceError> {
        let (importer, first) = self.read_genesis()?;
        let path = || self.chain.clone();
        let file = File::open(&self.chain).map_err(|error| SourceError::Read {
            path: path(),
            error,
        })?;
        let malformed = |error| SourceError::Malformed {
            path: path(),
            number: 1,
            error,
        };
        let reader = ChainReader::new(file).map_err(malformed)?;
        if let Some(raw) = reader.after_genesis(first.hash).next() {
            let raw = raw.map_err(malformed)?;
            let imported = importer.import(raw, &first);
            imported.map_err(|error| SourceError::BadBlock {
                path: path(),
                error: Box::new(error),
            })?;
        }
        Ok((importer.spec().chain_id(), first.hash))
    }

    /// The importer for the genesis file's chain, and the genesis block.
    fn read_genesis(&self) -> Result<(Importer, Arc<Block>), SourceError> {
        let path = || self.genesis.clone();
        let parsed = read_genesis_file(&self.genesis)?;
        let importer =
            Importer::new(&parsed, self.options).map_err(|error| SourceError::Rules {
                path: path(),
                error,
            })?;
        let first = importer.genesis(&parsed.alloc);
        let first = first.map_err(|error| SourceError::BadBlock {
            path: path(),
            error: Box::new(error),
        })?;
        Ok((importer, first))
    }
}

/// Reads a genesis file.
pub(crate) fn read_genesis_file(path: &Path) -> Result<Genesis, SourceError> {
    let bytes = fs::read(path).map_err(|error| SourceError::Read {
        path: path.to_owned(),
        error,
    })?;
    read_genesis(&bytes).map_err(|error| SourceError::Malformed {
        path: path.to_owned(),
        number: 0,
        error,
    })
}

/// Imports all blocks of the file at `chain`: safe = finalized = head.
fn import(
    importer: &Importer,
    first: Arc<Block>,
    chain: &Path,
    tracker: &BlockingTracker,
    link: &SourceLink,
) -> Result<(), SourceError> {
    let path = || chain.to_owned();
    let file = CountedFile::open(chain).map_err(|error| SourceError::Read {
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
        if link.is_stopped() {
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
            hand_over(tracker, std::mem::take(&mut batch))?;
        }
        let read = bytes.load(Ordering::Relaxed);
        link.report(SourceEvent::Progress(Progress::Import {
            blocks,
            // Reading is ahead of importing: only the last report says that all was read.
            bytes: match bytes_total {
                0 => read,
                total => read.min(total - 1),
            },
            bytes_total,
        }));
    }
    hand_over(tracker, batch)?;
    drop(parent);
    // No later block frees the state that has left the window.
    importer.store().release_retired();
    link.report(SourceEvent::Progress(Progress::Import {
        blocks,
        bytes: bytes.load(Ordering::Relaxed).max(bytes_total),
        bytes_total,
    }));
    Ok(())
}

/// Hands blocks over and settles them.
fn hand_over(tracker: &BlockingTracker, applied: Vec<Arc<Block>>) -> Result<(), SourceError> {
    let settled = applied.last().map(|block| block.hash);
    if settled.is_none() {
        return Ok(());
    }
    tracker.advance(AdvanceHead {
        reverted: 0,
        applied,
        safe: settled,
        finalized: settled,
    })
}

/// A file that counts the bytes read from it.
struct CountedFile {
    file: File,
    /// Bytes; 0 if unknown, as of a pipe.
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
