//! Hands the follower's blocks to the head tracker, once their headers are checked.

use std::{
    sync::{Arc, OnceLock},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use actix::{Context, Handler, MailboxError, Message, dev::ToEnvelope};
use alloy_consensus::Header;
use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    network::ServedChain,
    verify::{HeaderRefusal, HeaderRules, VerifyError},
    window::{Snapshot, WindowError},
};
use tokio::sync::watch;

use super::{
    follow::{ChangeError, FirstBlock, HeldWindow},
    plan::BlockBelow,
};
use crate::{
    follow_threads::FollowThreads,
    head_tracker::HeadTracker,
    messages::{AdvanceHead, ExtendBelow, FollowHead, KeepGenesis, ResetHead, SettleHead},
    source::{SourceError, SourceEvent, SourceLink, TrackerHandle},
};

/// The window of a head tracker; the first block starts the tracker.
pub(crate) struct TrackerWindow {
    link: SourceLink,
    chain: ServedChain,
    rules: HeaderRules,
    /// Clones share it.
    tracker: Arc<OnceLock<TrackerHandle>>,
    threads: FollowThreads,
    /// Sends when a head has become readable.
    readable: watch::Sender<Instant>,
}

impl TrackerWindow {
    /// Once a block is readable, these threads have a lower priority.
    pub(crate) fn new(
        link: SourceLink,
        chain: ServedChain,
        rules: HeaderRules,
        threads: FollowThreads,
    ) -> Self {
        let (readable, _) = watch::channel(Instant::now());
        Self {
            readable,
            link,
            chain,
            rules,
            tracker: Arc::default(),
            threads,
        }
    }

    /// The same window, for another one who changes it at other times. Each notifies receivers of
    /// its own.
    pub(crate) fn share(&self) -> Self {
        let (readable, _) = watch::channel(Instant::now());
        Self {
            readable,
            link: self.link.clone(),
            chain: self.chain.clone(),
            rules: self.rules.clone(),
            tracker: Arc::clone(&self.tracker),
            threads: self.threads.clone(),
        }
    }

    /// The times at which heads become readable, from now on.
    pub(crate) fn readable(&self) -> watch::Receiver<Instant> {
        self.readable.subscribe()
    }

    /// Checks the header of a block against that of its parent, with the parent's hash.
    fn check(
        &self,
        block: &Block,
        parent: Option<(&Header, B256)>,
    ) -> Result<(), ChangeError<SourceError>> {
        let checked = match parent {
            Some((header, hash)) => self.rules.check_child(header, hash, &block.header),
            // Whoever fetched the block has to bring it: nothing is served unchecked.
            None if self.needs_parent() && block.number() > 0 => {
                let (expected, found) = (B256::ZERO, block.header.parent_hash);
                Err(VerifyError::ParentHash { expected, found }.into())
            }
            None => Ok(()),
        };
        checked.map_err(|refusal| refused(block, refusal))
    }

    /// Checks that a block is not ahead of the clock.
    fn check_time(&self, block: &Block) -> Result<(), ChangeError<SourceError>> {
        // With a clock before 1970, no block is early enough to be refused.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let clock = now.map_or(u64::MAX, |now| now.as_secs());
        match self.rules.is_early(&block.header, clock) {
            true => Err(ChangeError::Early {
                number: block.number(),
                timestamp: block.header.timestamp,
                clock,
            }),
            false => Ok(()),
        }
    }

    /// Adds the parent of the oldest block, without its own parent: it is checked by its hash,
    /// which its child names, and by its child's header alone. It is for blocks of a fleet below
    /// which there is none.
    pub(crate) async fn extend_to_oldest(
        &self,
        block: Arc<Block>,
    ) -> Result<(), ChangeError<SourceError>> {
        match self.change(ExtendBelow { block }).await {
            Err(ChangeError::Refused(WindowError::Full)) => Ok(()),
            extended => extended,
        }
    }

    async fn send<M>(&self, message: M) -> Result<M::Result, SourceError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        HeadTracker: Handler<M>,
        Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
    {
        let Some(tracker) = self.tracker.get() else {
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

fn refused(block: &Block, refusal: HeaderRefusal) -> ChangeError<SourceError> {
    ChangeError::Header {
        number: block.number(),
        refusal,
    }
}

impl HeldWindow for TrackerWindow {
    type Held = Arc<Snapshot>;
    type Error = SourceError;

    fn held(&self) -> Option<Arc<Snapshot>> {
        self.link.head.load()
    }

    fn needs_parent(&self) -> bool {
        self.rules.is_on()
    }

    async fn reset(&mut self, first: FirstBlock) -> Result<(), ChangeError<SourceError>> {
        let FirstBlock {
            block: first,
            parent,
        } = first;
        let parent = parent.as_ref();
        let parent = parent.map(|parent| (parent.header(), parent.hash()));
        self.check(&first, parent)?;
        self.check_time(&first)?;
        if self.tracker.get().is_some() {
            self.change(ResetHead { first }).await?;
            self.readable.send_replace(Instant::now());
            return Ok(());
        }
        let tracker = self
            .tracker
            .get_or_init(|| self.link.start_tracker(self.chain.clone(), first))
            .clone();
        // The tracker answers only once the first block is readable.
        self.send(FollowHead).await.map_err(ChangeError::Gone)?;
        self.threads.lower();
        self.readable.send_replace(Instant::now());
        self.link.report(SourceEvent::Readable(tracker));
        Ok(())
    }

    async fn advance(&mut self, change: AdvanceHead) -> Result<(), ChangeError<SourceError>> {
        let held = self.link.head.load();
        let canonical = held.as_ref().map_or(&[][..], |held| held.canonical());
        let kept = canonical.len().checked_sub(change.reverted);
        // The window refuses to revert more than it has.
        let mut parent = kept.and_then(|kept| canonical[..kept].last());
        for block in &change.applied {
            if let Some(parent) = parent {
                self.check(block, Some((&parent.header, parent.hash)))?;
                self.check_time(block)?;
            }
            parent = Some(block);
        }
        self.change(change).await?;
        self.readable.send_replace(Instant::now());
        Ok(())
    }

    async fn extend_below(
        &mut self,
        below: BlockBelow<Arc<Block>>,
    ) -> Result<(), ChangeError<SourceError>> {
        let BlockBelow { block, parent } = below;
        let parent = parent.as_ref();
        let parent = parent.map(|parent| (&parent.header, parent.hash));
        self.check(&block, parent)?;
        match self.change(ExtendBelow { block }).await {
            // The blocks are too large for the rest of them. The window's snapshot says so.
            Err(ChangeError::Refused(WindowError::Full)) => Ok(()),
            extended => extended,
        }?;
        // State that an earlier process held is merged from a block below the first one.
        // The head is readable since as long as before.
        self.readable.send_modify(|_| {});
        Ok(())
    }

    async fn keep_genesis(&mut self, block: Arc<Block>) -> Result<(), ChangeError<SourceError>> {
        self.change(KeepGenesis { block }).await
    }

    async fn settle(&mut self, settled: SettleHead) -> Result<(), SourceError> {
        self.send(settled).await
    }
}
