//! Hands the follower's blocks to the head tracker.

use std::sync::Arc;

use actix::{Context, Handler, MailboxError, Message, dev::ToEnvelope};
use nearhead_chain::{
    block::Block,
    window::{Snapshot, WindowError},
};

use super::follow::{ChangeError, HeldWindow};
use crate::{
    head_tracker::HeadTracker,
    messages::{AdvanceHead, ExtendBelow, FollowHead, KeepGenesis, ResetHead, SettleHead},
    source::{SourceError, SourceEvent, SourceLink, TrackerHandle},
};

/// The window of a head tracker; the first block starts the tracker.
pub(super) struct TrackerWindow {
    link: SourceLink,
    chain_id: u64,
    tracker: Option<TrackerHandle>,
}

impl TrackerWindow {
    pub(super) const fn new(link: SourceLink, chain_id: u64) -> Self {
        Self {
            link,
            chain_id,
            tracker: None,
        }
    }

    async fn send<M>(&self, message: M) -> Result<M::Result, SourceError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        HeadTracker: Handler<M>,
        Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
    {
        let Some(tracker) = &self.tracker else {
            return Err(MailboxError::Closed.into());
        };
        Ok(tracker.ask(message).await?)
    }

    /// Sends a change that the window may refuse.
    async fn change<M>(&self, message: M) -> Result<(), ChangeError<SourceError>>
    where
        M: Message<Result = Result<(), WindowError>> + Send + 'static,
        HeadTracker: Handler<M>,
        Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
    {
        let changed = self.send(message).await.map_err(ChangeError::Gone)?;
        changed.map_err(ChangeError::Refused)
    }
}

impl HeldWindow for TrackerWindow {
    type Held = Arc<Snapshot>;
    type Error = SourceError;

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.link.head.load()
    }

    async fn reset(&mut self, first: Arc<Block>) -> Result<(), ChangeError<SourceError>> {
        if self.tracker.is_some() {
            return self.change(ResetHead { first }).await;
        }
        let tracker = self.link.start_tracker(self.chain_id, first);
        self.tracker = Some(tracker.clone());
        // The tracker answers only once the first block is readable.
        self.send(FollowHead).await.map_err(ChangeError::Gone)?;
        self.link.report(SourceEvent::Readable(tracker));
        Ok(())
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), ChangeError<SourceError>> {
        self.change(change).await
    }

    async fn extend_below(&mut self, block: Arc<Block>) -> Result<(), ChangeError<SourceError>> {
        match self.change(ExtendBelow { block }).await {
            // The blocks are too large for the rest of them. The window's snapshot says so.
            Err(ChangeError::Refused(WindowError::Full)) => Ok(()),
            extended => extended,
        }
    }

    async fn keep_genesis(&mut self, block: Arc<Block>) -> Result<(), ChangeError<SourceError>> {
        self.change(KeepGenesis { block }).await
    }

    async fn settle(&mut self, settled: SettleHead) -> Result<(), SourceError> {
        self.send(settled).await
    }
}
