//! What feeds the head tracker: each source runs on a thread of its own, verifies blocks there, and
//! hands them over.

mod dev;
mod files;

#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use actix::{Addr, ArbiterHandle, Context, Handler, MailboxError, Message, dev::ToEnvelope};
use alloy_genesis::Genesis;
use crossbeam::channel::{Receiver, TryRecvError};
use nearhead_chain::{
    block::Block,
    chain_file::{ChainFileError, read_genesis},
    dev::DevError,
    execute::SpecError,
    import::ImportError,
    window::WindowError,
};
use tokio::runtime::{Builder, Runtime};

pub use dev::{DevSource, StepRequest};
pub use files::FilesSource;

use crate::{
    head::Head,
    head_tracker::{HeadTracker, TrackerEnd},
    messages::AdvanceHead,
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

/// How far a source is until it can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Accounts of the dev chain's genesis.
    Accounts {
        /// Made.
        done: u64,
        /// To make.
        total: u64,
    },
    /// Blocks of the dev chain's first window.
    Blocks {
        /// Made.
        done: u64,
        /// To make.
        total: u64,
    },
    /// Blocks of a file.
    Import {
        /// Blocks imported.
        blocks: u64,
        /// Bytes of the file that were read.
        bytes: u64,
        /// Bytes of the file; 0 where nobody knows, as of a pipe.
        bytes_total: u64,
    },
    /// Blocks below a node's head.
    Backfill {
        /// Held.
        done: u64,
        /// To be held.
        total: u64,
    },
    /// Blocks of the dev chain that are written to a file.
    Export {
        /// Written.
        done: u64,
        /// To write.
        total: u64,
    },
}

/// Where a source reports how far it is; called often, so that it decides itself what to show.
pub type Report = Box<dyn FnMut(Progress) + Send>;

/// Tells a source to end: it does when the other end is dropped.
pub type StopSignal = Receiver<Infallible>;

/// Whether the source was told to end.
pub(crate) fn is_stopped(stop: &StopSignal) -> bool {
    match stop.try_recv() {
        Err(TryRecvError::Empty) => false,
        Err(TryRecvError::Disconnected) => true,
        Ok(never) => match never {},
    }
}

/// A source's way to the head tracker.
#[derive(Debug)]
pub struct TrackerLink {
    tracker: Addr<HeadTracker>,
    end: TrackerEnd,
    runtime: Runtime,
}

impl TrackerLink {
    /// Starts a head tracker on `arbiter` whose window begins with `first`; with its end.
    ///
    /// # Errors
    /// [`SourceError::Runtime`] where the system has no resources left.
    pub fn start(
        arbiter: &ArbiterHandle,
        head: Head,
        chain_id: u64,
        first: Arc<Block>,
    ) -> Result<(Self, TrackerEnd), SourceError> {
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(SourceError::Runtime)?;
        let (tracker, end) = HeadTracker::start(arbiter, head, chain_id, first);
        let link = Self {
            tracker,
            end: end.clone(),
            runtime,
        };
        Ok((link, end))
    }

    /// The head tracker.
    #[must_use]
    pub const fn tracker(&self) -> &Addr<HeadTracker> {
        &self.tracker
    }

    /// Hands a change over and waits until it is readable: no source can run ahead of the tracker.
    fn advance(&self, change: AdvanceHead) -> Result<(), SourceError> {
        let advanced = ask_tracker(&self.tracker, &self.end, change);
        Ok(self.runtime.block_on(advanced)??)
    }
}

/// Waits for the head tracker's answer, or for its end.
pub(crate) async fn ask_tracker<M>(
    tracker: &Addr<HeadTracker>,
    end: &TrackerEnd,
    message: M,
) -> Result<M::Result, MailboxError>
where
    M: Message + Send + 'static,
    M::Result: Send,
    HeadTracker: Handler<M>,
    Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
{
    let mut end = end.clone();
    tokio::select! {
        answer = tracker.send(message) => answer,
        () = end.wait() => Err(MailboxError::Closed),
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
