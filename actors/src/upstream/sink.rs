//! The head tracker, as following hands blocks to it.

use std::sync::Arc;

use actix::{ArbiterHandle, Context, Handler, MailboxError, Message, dev::ToEnvelope};
use nearhead_chain::{block::Block, window::Snapshot};
use tokio::sync::oneshot;

use super::{follow::HeadSink, source::Started};
use crate::{
    head::Head,
    head_tracker::HeadTracker,
    messages::{AdvanceHead, ExtendBelow, FollowHead, KeepGenesis, ResetHead, SettleHead},
    source::{SourceError, ask_tracker},
};

/// A head tracker that is started with the first block.
pub(super) struct TrackerSink {
    arbiter: ArbiterHandle,
    head: Head,
    chain_id: u64,
    tracker: Option<Started>,
    /// Told when the first block is readable.
    started: Option<oneshot::Sender<Started>>,
}

impl TrackerSink {
    pub(super) const fn new(
        arbiter: ArbiterHandle,
        head: Head,
        chain_id: u64,
        started: oneshot::Sender<Started>,
    ) -> Self {
        Self {
            arbiter,
            head,
            chain_id,
            tracker: None,
            started: Some(started),
        }
    }

    async fn send<M>(&self, message: M) -> Result<M::Result, SourceError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        HeadTracker: Handler<M>,
        Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
    {
        let Some((tracker, end)) = &self.tracker else {
            return Err(MailboxError::Closed.into());
        };
        Ok(ask_tracker(tracker, end, message).await?)
    }
}

impl HeadSink for TrackerSink {
    type Held = Arc<Snapshot>;
    type Error = SourceError;

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.head.load()
    }

    async fn begin(&mut self, first: Arc<Block>) -> Result<(), SourceError> {
        if self.tracker.is_some() {
            return self.send(ResetHead { first }).await;
        }
        let (tracker, end) =
            HeadTracker::start(&self.arbiter, self.head.clone(), self.chain_id, first);
        self.tracker = Some((tracker.clone(), end.clone()));
        // The first answer comes after the first block is readable.
        self.send(FollowHead).await?;
        if let Some(started) = self.started.take() {
            // Whoever started the service may have gone.
            let _ = started.send((tracker, end));
        }
        Ok(())
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), SourceError> {
        Ok(self.send(change).await??)
    }

    async fn extend_below(&mut self, block: Arc<Block>) -> Result<(), SourceError> {
        Ok(self.send(ExtendBelow { block }).await??)
    }

    async fn keep_genesis(&mut self, block: Arc<Block>) -> Result<(), SourceError> {
        Ok(self.send(KeepGenesis { block }).await??)
    }

    async fn settle(&mut self, settled: SettleHead) -> Result<(), SourceError> {
        self.send(settled).await
    }
}
