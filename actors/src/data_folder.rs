//! The folder of one chain: what outlives the process.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;
use serde::{Deserialize, Serialize};

use crate::disk_wait::{DISK_WAIT_MAX, in_time};

/// Shortest time between two writes, which sync the disk: a chain may finalize several blocks a
/// second. A crash loses what has changed since, as it does of the window.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// How long nothing is written after a write has failed: a full disk is not tried every second.
const FAILED_PAUSE: Duration = Duration::from_secs(10);

/// Largest size of a file in bytes. Ours are some 300 bytes, so a larger one is damaged.
const FILE_BYTES_MAX: u64 = 4 << 10;

/// The version of the file's format. The first one has no safe block, and is read too.
const VERSION: u32 = 2;

const LOCK: &str = "lock";
const SETTLED: &str = "finalized.json";
const UNFINISHED: &str = "finalized.json.tmp";

/// Where the folders of all chains are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataRoot {
    /// Nowhere: all is kept in memory.
    Memory,
    /// The folder that the environment names, if it does. If it cannot be used, all is kept in
    /// memory.
    Auto(Option<PathBuf>),
    /// The folder that the operator names.
    Given(PathBuf),
}

/// The folder of one chain, locked until this is dropped.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
    chain_id: u64,
    genesis: B256,
    /// The newest safe and finalized block. The safe one may have been reverted since.
    settled: SettledBlocks,
    /// Whether `settled` differs from the file.
    is_write_due: bool,
    /// Before this, nothing is written.
    paused_until: Option<Instant>,
}

/// The folder of a chain, locked until this is dropped, for a process that does not follow the
/// chain.
#[derive(Debug)]
pub struct LockedFolder {
    /// Holds the lock.
    _lock: File,
}

/// Why a folder cannot be used. The message names the folder or the file, and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DataFolderError {
    /// Another process holds it.
    #[error(
        "{} is in use by another nearhead: give this one a --data-dir of its own, or none",
        path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It belongs to another chain.
    #[error(
        "{} is of chain {found_id} with genesis {found_genesis}, not of chain {chain_id} with \
         genesis {genesis}: give another --data-dir", path.display()
    )]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// The chain id that the file has.
        found_id: u64,
        /// The genesis hash that the file has.
        found_genesis: B256,
        /// The chain id that was expected.
        chain_id: u64,
        /// The genesis hash that was expected.
        genesis: B256,
    },
    /// It cannot be read or written.
    #[error("{}: {error}: give a --data-dir that can be written, or none", path.display())]
    Unusable {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is not what this program writes.
    #[error(
        "{} is damaged ({reason}): restore it, or remove it to start without it",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file was written by a newer program.
    #[error(
        "{} has format {found}, and this nearhead knows formats up to {}: use a newer one",
        path.display(), VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

impl DataFolderError {
    /// Whether the operator named a folder that this process may not use, although nothing is wrong
    /// with it.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::OtherChain { .. })
    }
}

/// A file's version, which is read before the rest of it.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The content of [`SETTLED`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SettledFile {
    version: u32,
    chain_id: u64,
    genesis: B256,
    #[serde(skip_serializing_if = "Option::is_none")]
    finalized: Option<FileBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safe: Option<FileBlock>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileBlock {
    number: u64,
    hash: B256,
}

impl FileBlock {
    fn of((number, hash): (u64, B256)) -> Self {
        Self { number, hash }
    }

    const fn point(&self) -> (u64, B256) {
        (self.number, self.hash)
    }
}

impl DataRoot {
    /// Whether a chain is to have a folder. `is_known` says that the operator named the chain, or
    /// that it is a known network: another chain may be a node's for development, which starts
    /// again from the same genesis, and so is kept only in a folder that the operator named.
    #[must_use]
    pub const fn has_folder_for(&self, is_known: bool) -> bool {
        match self {
            Self::Memory => false,
            Self::Auto(_) => is_known,
            Self::Given(_) => true,
        }
    }

    /// The folder in which each chain has one; `None` if all is kept in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory | Self::Auto(None) => None,
            Self::Auto(Some(root)) | Self::Given(root) => Some(root),
        }
    }

    /// The chains that have a folder: their ids and the folders, sorted.
    ///
    /// # Errors
    /// The folder in which they are cannot be read.
    pub fn chains(&self) -> Result<Vec<(u64, PathBuf)>, DataFolderError> {
        let Some(root) = self.path() else {
            return Ok(Vec::new());
        };
        let failed = |error| unusable(root, error);
        let entries = match fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut chains = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(id) = name.and_then(chain_of).filter(|_| path.is_dir()) {
                chains.push((id, path));
            }
        }
        chains.sort();
        Ok(chains)
    }

    /// Whether there is a folder of this chain.
    #[must_use]
    pub fn has_chain(&self, chain_id: u64, genesis: B256) -> bool {
        let (Self::Auto(Some(root)) | Self::Given(root)) = self else {
            return false;
        };
        let path = root.join(folder_name(chain_id, genesis));
        let looked = in_time(DISK_WAIT_MAX, move || {
            let content = read(&path.join(SETTLED), chain_id, genesis);
            path.is_dir() && !matches!(content, Err(DataFolderError::OtherChain { .. }))
        });
        // If the disk hangs, the chain counts as new.
        looked.unwrap_or(false)
    }

    /// Opens the folder of a chain; `None` if all is kept in memory.
    ///
    /// # Errors
    /// As [`DataFolder::open`], except that the environment's folder need not be usable.
    pub fn open(
        &self,
        chain_id: u64,
        genesis: B256,
        is_known: bool,
    ) -> Result<Option<DataFolder>, DataFolderError> {
        let root = match self {
            _ if !self.has_folder_for(is_known) => return Ok(None),
            Self::Memory => return Ok(None),
            Self::Auto(None) => {
                tracing::warn!(
                    "neither STATE_DIRECTORY nor XDG_DATA_HOME nor HOME names a folder for data: \
                     all is kept in memory (give --data-dir FOLDER, or none)"
                );
                return Ok(None);
            }
            Self::Auto(Some(root)) | Self::Given(root) => root,
        };
        let folder = root.clone();
        let opened = in_time(DISK_WAIT_MAX, move || {
            DataFolder::open(&folder, chain_id, genesis)
        });
        match opened.unwrap_or_else(|error| Err(unusable(root, error))) {
            Err(error @ DataFolderError::Unusable { .. }) if matches!(self, Self::Auto(_)) => {
                tracing::warn!(%error, "all is kept in memory");
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }
}

impl LockedFolder {
    /// Locks the folder of a chain, which exists.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be written.
    pub fn open(path: &Path) -> Result<Self, DataFolderError> {
        lock(path).map(|lock| Self { _lock: lock })
    }
}

impl DataFolder {
    /// Makes the chain's folder in `root` unless it exists, locks it and reads it.
    ///
    /// # Errors
    /// The folder cannot be written, is held by another process, belongs to another chain, or has a
    /// file that cannot be understood.
    pub fn open(root: &Path, chain_id: u64, genesis: B256) -> Result<Self, DataFolderError> {
        let path = root.join(folder_name(chain_id, genesis));
        fs::create_dir_all(&path).map_err(|error| unusable(&path, error))?;
        let lock = lock(&path)?;
        let settled = read(&path.join(SETTLED), chain_id, genesis)?;
        Ok(Self {
            path,
            _lock: lock,
            chain_id,
            genesis,
            settled,
            is_write_due: false,
            paused_until: None,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest safe and finalized block.
    #[must_use]
    pub const fn settled(&self) -> SettledBlocks {
        self.settled
    }

    /// Saves the newest safe and finalized block: writes them if that is due, and leaves it to
    /// [`Self::write_due`] otherwise. A `None` leaves the saved block; the next process checks it
    /// against its chain.
    ///
    /// # Errors
    /// The file cannot be written. Later calls try again.
    pub fn save(&mut self, newest: SettledBlocks, now: Instant) -> io::Result<()> {
        let newest = SettledBlocks {
            safe: newest.safe.or(self.settled.safe),
            finalized: newest.finalized.or(self.settled.finalized),
        };
        self.is_write_due |= std::mem::replace(&mut self.settled, newest) != newest;
        self.write_due(now)
    }

    /// Time from `now` until the pending write is due; `None` if nothing is pending.
    #[must_use]
    pub fn due_in(&self, now: Instant) -> Option<Duration> {
        let wait = |until: Instant| until.saturating_duration_since(now);
        self.is_write_due
            .then(|| self.paused_until.map_or(Duration::ZERO, wait))
    }

    /// Writes what is not written yet, if it is due.
    ///
    /// # Errors
    /// The file cannot be written. Later calls try again.
    pub fn write_due(&mut self, now: Instant) -> io::Result<()> {
        match self.due_in(now) {
            Some(Duration::ZERO) => self.write(now),
            _ => Ok(()),
        }
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        match self.is_write_due {
            true => self.write(Instant::now()),
            false => Ok(()),
        }
    }

    fn write(&mut self, now: Instant) -> io::Result<()> {
        self.paused_until = Some(now + FAILED_PAUSE);
        let SettledBlocks { safe, finalized } = self.settled;
        let content = SettledFile {
            version: VERSION,
            chain_id: self.chain_id,
            genesis: self.genesis,
            finalized: finalized.map(FileBlock::of),
            safe: safe.map(FileBlock::of),
        };
        replace(&self.path, &serde_json::to_vec(&content)?)?;
        self.paused_until = Some(now + WRITE_INTERVAL);
        self.is_write_due = false;
        Ok(())
    }
}

/// The name of a chain's folder: people know the chain id, and the genesis tells its forks apart.
fn folder_name(chain_id: u64, genesis: B256) -> String {
    let [a, b, c, d, ..] = genesis.0;
    format!("{chain_id}-{a:02x}{b:02x}{c:02x}{d:02x}")
}

/// The chain id of a folder's name, if a chain's folder has it.
fn chain_of(name: &str) -> Option<u64> {
    let (id, genesis) = name.split_once('-')?;
    let id: u64 = id.parse().ok()?;
    let mut start = B256::ZERO;
    let digits = u32::from_str_radix(genesis, 16).ok()?;
    start.0[..4].copy_from_slice(&digits.to_be_bytes());
    (folder_name(id, start) == name).then_some(id)
}

/// Locks a folder for as long as the file is open. The lock ends with the process, however that
/// ends.
fn lock(folder: &Path) -> Result<File, DataFolderError> {
    let path = folder.join(LOCK);
    // The lock needs no content, but to open the file shows that the folder can be written.
    let options = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let file = options.map_err(|error| unusable(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DataFolderError::InUse {
            path: folder.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(unusable(&path, error)),
    }
}

/// Reads the safe and the finalized block; none if there is no file.
fn read(path: &Path, chain_id: u64, genesis: B256) -> Result<SettledBlocks, DataFolderError> {
    let damaged = |reason: String| DataFolderError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let mut bytes = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(SettledBlocks::default());
        }
        Err(error) => return Err(unusable(path, error)),
    };
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unusable(path, error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(damaged(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let Version { version } =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    match version {
        1 | VERSION => {}
        0 => return Err(damaged("format 0 does not exist".to_owned())),
        found => {
            return Err(DataFolderError::Newer {
                path: path.to_owned(),
                found,
            });
        }
    }
    let file: SettledFile =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if version == 1 && (file.finalized.is_none() || file.safe.is_some()) {
        return Err(damaged(
            "format 1 has a finalized block and no safe one".to_owned(),
        ));
    }
    if (file.chain_id, file.genesis) != (chain_id, genesis) {
        return Err(DataFolderError::OtherChain {
            path: path.to_owned(),
            found_id: file.chain_id,
            found_genesis: file.genesis,
            chain_id,
            genesis,
        });
    }
    Ok(SettledBlocks {
        safe: file.safe.as_ref().map(FileBlock::point),
        finalized: file.finalized.as_ref().map(FileBlock::point),
    })
}

/// Replaces the file in one step: after a crash it has the old content or the new one.
fn replace(folder: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = folder.join(UNFINISHED);
    let mut file = File::create(&unfinished)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(unfinished, folder.join(SETTLED))?;
    // The folder has the file's name.
    File::open(folder)?.sync_all()
}

fn unusable(path: &Path, error: io::Error) -> DataFolderError {
    DataFolderError::Unusable {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests;
