//! Why a source ended.

use std::{io, path::PathBuf};

use actix::MailboxError;
use nearhead_chain::{
    chain_file::ChainFileError, dev::DevError, import::ImportError, network::SpecError,
    window::WindowError,
};

use crate::data_folder::DataFolderError;

/// Why a source ended. The message names the file, the block and the check that failed, where there
/// is one.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file does not have the expected format.
    #[error("{}: block {number} cannot be read: {error}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The number that the block should have; 0 for the genesis.
        number: u64,
        /// The format error.
        error: ChainFileError,
    },
    /// The genesis has rules that are not supported.
    #[error("{}: {error}", path.display())]
    Rules {
        /// The genesis file.
        path: PathBuf,
        /// The rule.
        error: SpecError,
    },
    /// A block failed a check.
    #[error("{}: {error}", path.display())]
    BadBlock {
        /// The file.
        path: PathBuf,
        /// The block, the check, the expected value and the actual one.
        error: Box<ImportError>,
    },
    /// The producer of the dev chain failed.
    #[error("{0}")]
    Dev(Box<DevError>),
    /// The window refused the blocks.
    #[error("the window refused a change: {0}")]
    Window(#[from] WindowError),
    /// The head tracker has stopped.
    #[error("the head tracker is gone: {0}")]
    TrackerGone(#[from] MailboxError),
    /// The runtime to wait with could not be built.
    #[error("cannot wait for the head tracker: {0}")]
    Runtime(io::Error),
    /// The chain has transactions of a type that is not supported.
    #[error("{reason}: chains with such transactions are not supported")]
    UnknownTransaction {
        /// The block and the type.
        reason: String,
    },
    /// Upstreams cannot be called, or a call to one panicked.
    #[error("{0}")]
    Upstream(String),
    /// The folder for data cannot be used.
    #[error(transparent)]
    DataFolder(#[from] DataFolderError),
    /// The service is stopping.
    #[error("stopped")]
    Stopped,
}

impl From<DevError> for SourceError {
    fn from(error: DevError) -> Self {
        match error {
            DevError::Stopped => Self::Stopped,
            error => Self::Dev(Box::new(error)),
        }
    }
}
