//! The contract between a source and the service that runs it.

use std::{convert::Infallible, sync::Arc};

use actix::ArbiterHandle;
use crossbeam::channel::{Receiver, Sender, TryRecvError};
use nearhead_chain::{block::Block, network::ServedChain};

use super::{error::SourceError, event::SourceEvent, tracker_handle::TrackerHandle};
use crate::{head::Head, head_tracker::HeadTracker};

/// A source of blocks.
pub trait Source {
    /// Verifies blocks and hands them to a head tracker, until the source ends or the link's stop
    /// signal is given. It starts the tracker with `SourceLink::start_tracker`, and reports
    /// [`SourceEvent::Readable`] once. It blocks, so it has a thread of its own.
    ///
    /// # Errors
    /// The reason why the source cannot go on.
    fn run(self, link: SourceLink) -> Result<(), SourceError>;
}

/// Ends a source when its other end is dropped.
pub(crate) type StopSignal = Receiver<Infallible>;

/// Everything that a source needs from the service.
#[derive(Clone, Debug)]
pub struct SourceLink {
    /// Where the head tracker runs.
    pub arbiter: ArbiterHandle,
    /// The pointer that the head tracker writes.
    pub head: Head,
    /// The channel for events. It is bounded: a source waits while the service is behind.
    pub events: Sender<SourceEvent>,
    /// Ends the source.
    pub stop: StopSignal,
}

impl SourceLink {
    /// Starts the head tracker with a window that begins with `first`.
    pub(crate) fn start_tracker(&self, chain: ServedChain, first: Arc<Block>) -> TrackerHandle {
        let (address, end) = HeadTracker::start(&self.arbiter, self.head.clone(), chain, first);
        TrackerHandle { address, end }
    }

    /// Reports an event.
    pub(crate) fn report(&self, event: SourceEvent) {
        // Sending fails if the service no longer listens and is about to stop the source.
        let _ = self.events.send(event);
    }

    /// Whether the source has to end.
    pub(crate) fn is_stopped(&self) -> bool {
        match self.stop.try_recv() {
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => true,
            Ok(never) => match never {},
        }
    }
}
