//! What a source reports while it runs.

use std::time::Duration;

use nearhead_chain::window::SettledBlocks;

use super::tracker_handle::TrackerHandle;
use crate::data_folder::DataFolder;

/// One report of a source. Events are handled in their order, and a source waits while too many of
/// them are unhandled.
#[derive(Debug)]
pub enum SourceEvent {
    /// The work that makes the head readable, or backfill, has progressed.
    Progress(Progress),
    /// No more progress follows.
    ProgressEnded,
    /// The head is readable: files are imported, the dev chain's window is full, or an upstream's
    /// head is verified.
    Readable(TrackerHandle),
    /// The head advanced to a block that was first named, by the upstream that gave it, this long
    /// ago.
    HeadDelay(Duration),
    /// What the head's block changed is merged into the state that is held, this long after it was
    /// readable.
    StateMerged(Duration),
    /// The folder of the chain is open. Its writes take a disk's time, so no source makes them.
    DataOpened(DataFolder),
    /// The safe or finalized block to save has changed. It is saved if a folder is open.
    Settled(SettledBlocks),
    /// What becomes of the head, or how many upstreams agree, has changed.
    HeadChoice {
        /// The choice's label in the metrics.
        choice: &'static str,
        /// How many upstreams agree.
        agreeing: usize,
        /// How many have to agree.
        needed: usize,
    },
    /// An upstream contradicts a quorum.
    Dissent {
        /// Its position in the configuration.
        upstream: usize,
    },
    /// An upstream is at fault.
    UpstreamFault {
        /// Its position in the configuration.
        upstream: usize,
        /// The fault's label in the metrics.
        reason: &'static str,
    },
    /// An upstream limited the rate of calls.
    UpstreamLimited {
        /// Its position in the configuration.
        upstream: usize,
    },
    /// The state of an upstream changed.
    UpstreamState {
        /// Its position in the configuration.
        upstream: usize,
        /// The state's label in the metrics.
        state: &'static str,
    },
}

/// Progress of a source towards a full window, or of an export.
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
        /// Bytes of the file read.
        bytes: u64,
        /// Bytes of the file; 0 if unknown, as of a pipe.
        bytes_total: u64,
    },
    /// Blocks below an upstream's head.
    Backfill {
        /// Held.
        done: u64,
        /// To hold.
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

/// Shows progress. It is called often, and decides itself what to show.
pub type ProgressReport = Box<dyn FnMut(Progress) + Send>;
