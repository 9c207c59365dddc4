//! Why a source ended.

use std::{io, path::PathBuf};

use actix::MailboxError;
use nearhead_chain::{
    chain_file::ChainFileError, dev::DevError, import::ImportError, network::SpecError,
    trie::TrieError, verify::RulesUnknown, window::WindowError,
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
    /// The state of the genesis cannot be built.
    #[error("{}: {error}", path.display())]
    GenesisState {
        /// The genesis file.
        path: PathBuf,
        /// The error.
        error: TrieError,
    },
    /// The genesis is not the one that other options name.
    #[error("{}: {reason}", path.display())]
    GenesisContradicts {
        /// The genesis file.
        path: PathBuf,
        /// What is in the file, and what the options name.
        reason: String,
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
    /// No quorum of the upstreams is on one chain, or on the pinned one. The message has a line for
    /// each upstream.
    #[error(
        "{quorum} of {nodes} nodes have to be on {which}, and they are not: correct --node, or name \
         the chain with --network, --chain-id or --genesis{answers}"
    )]
    NoAgreement {
        /// How many have to agree.
        quorum: usize,
        /// How many there are.
        nodes: usize,
        /// The chain that they have to be on, in words.
        which: String,
        /// A line for each upstream: its name and its answer, after a line feed.
        answers: String,
    },
    /// Processes of a fleet have to be on one chain, and it is not named.
    #[error(
        "--fleet needs the chain's genesis, so that no process of another chain joins: name the \
         chain with --network, --genesis, or --chain-id and --trusted-block 0:HASH"
    )]
    ChainNotPinned,
    /// The fleet's key cannot be used.
    #[error("--fleet-key: {0}")]
    FleetKey(String),
    /// The fleet's store cannot be used.
    #[error("--fleet: {0}")]
    FleetStore(String),
    /// Headers are to be checked, and the chain's rules are not known.
    #[error("--header-rules on: {0}")]
    RulesUnknown(#[from] RulesUnknown),
    /// The operator named a folder for data, which needs the genesis, and that is not known.
    #[error(
        "--data-dir needs the chain's genesis, and no quorum of the nodes states the hash of block \
         0: name the chain with --network, --genesis or --trusted-block 0:HASH, or give --data-dir \
         none"
    )]
    GenesisUnknown,
    /// The folder for data cannot be used.
    #[error(transparent)]
    DataFolder(#[from] DataFolderError),
    /// The service is stopping.
    #[error("stopped")]
    Stopped,
}

impl SourceError {
    /// Whether the options have to be corrected before another start can succeed.
    #[must_use]
    pub const fn is_misuse(&self) -> bool {
        match self {
            Self::GenesisContradicts { .. }
            | Self::NoAgreement { .. }
            | Self::ChainNotPinned
            | Self::FleetKey(_)
            | Self::FleetStore(_)
            | Self::RulesUnknown(_)
            | Self::GenesisUnknown => true,
            Self::DataFolder(error) => error.is_misuse(),
            _ => false,
        }
    }
}

impl From<DevError> for SourceError {
    fn from(error: DevError) -> Self {
        match error {
            DevError::Stopped => Self::Stopped,
            error => Self::Dev(Box::new(error)),
        }
    }
}
