//! The head tracker for a source that is not async.

use std::sync::Arc;

use nearhead_chain::{block::Block, network::ServedChain};
use tokio::runtime::{Builder, Runtime};

use super::{
    error::SourceError, event::SourceEvent, link::SourceLink, tracker_handle::TrackerHandle,
};
use crate::messages::AdvanceHead;

/// A head tracker whose answers a thread waits for.
pub(super) struct BlockingTracker {
    handle: TrackerHandle,
    runtime: Runtime,
}

impl BlockingTracker {
    /// Starts a head tracker with a window that begins with `first`.
    ///
    /// # Errors
    /// [`SourceError::Runtime`]: the system has no resources left.
    pub(super) fn start(
        link: &SourceLink,
        chain: ServedChain,
        first: Arc<Block>,
    ) -> Result<Self, SourceError> {
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(SourceError::Runtime)?;
        Ok(Self {
            handle: link.start_tracker(chain, first),
            runtime,
        })
    }

    /// Hands a change over and waits until it is readable, so that a source cannot run ahead of
    /// the tracker.
    pub(super) fn advance(&self, change: AdvanceHead) -> Result<(), SourceError> {
        Ok(self.runtime.block_on(self.handle.ask(change))??)
    }

    /// Reports that the head is readable and that all progress was reported before.
    pub(super) fn report_readable(&self, link: &SourceLink) {
        link.report(SourceEvent::ProgressEnded);
        link.report(SourceEvent::Readable(self.handle.clone()));
    }
}
