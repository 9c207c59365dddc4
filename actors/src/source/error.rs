//! Why a source ended.

use std::{io, path::PathBuf};

use actix::MailboxError;
use nearhead_chain::{
    chain_file::ChainFileError, dev::DevError, import::ImportError, network::SpecError,
    window::WindowError,
};

/// Why a source ended. Each says which block and which check.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: block {number} cannot be read: {error}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Number that the block should have; 0 for the genesis.
        number: u64,
        /// What was found.
        error: ChainFileError,
    },
    /// The genesis has rules that are not known.
    #[error("{}: {error}", path.display())]
    Rules {
        /// The genesis file.
        path: PathBuf,
        /// Which.
        error: SpecError,
    },
    /// A block failed a check.
    #[error("{}: {error}", path.display())]
    BadBlock {
        /// The file.
        path: PathBuf,
        /// Which block, which check, what was expected, what was found.
        error: Box<ImportError>,
    },
    /// The dev chain could not be made.
    #[error("{0}")]
    Dev(Box<DevError>),
    /// The window refused the blocks.
    #[error("the window refused a change: {0}")]
    Window(#[from] WindowError),
    /// The head tracker is gone.
    #[error("the head tracker is gone: {0}")]
    TrackerGone(#[from] MailboxError),
    /// The thread could not get what it waits with.
    #[error("cannot wait for the head tracker: {0}")]
    Runtime(io::Error),
    /// The chain has transactions of a type that is not known here.
    #[error("{why}: chains with such transactions are not supported")]
    UnknownTransaction {
        /// The block and the type.
        why: String,
    },
    /// Nodes cannot be asked.
    #[error("{0}")]
    Node(String),
    /// The service is going away.
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
