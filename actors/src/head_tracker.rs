//! The head tracker: owns the window, swaps the pointer, then announces the change.

use std::{sync::Arc, time::Duration};

use actix::{Actor, ActorContext, Addr, ArbiterHandle, AsyncContext, Context, Handler};
use nearhead_chain::{
    block::Block,
    network::ServedChain,
    window::{HeadDelta, SettledBlocks, Window, WindowError},
};
use tokio::sync::{broadcast, watch};

use crate::{
    head::{Head, RetiredSnapshots},
    messages::{
        AdvanceHead, ExtendBelow, FollowHead, HeadChanged, HeadSubscription, KeepGenesis,
        ResetHead, SettleHead, StopHead,
    },
};

/// Owns the 128-block window: reverts, applies, makes the new snapshot readable and announces it,
/// in this order. Work that no reader has to wait for comes last ([`Window::index_pending`]).
///
/// It runs on an arbiter of its own, so that neither building nor freeing a snapshot delays a read.
/// It is not restarted after a panic, because the window may be half changed: [`TrackerEnd`]
/// reports its end, and the process ends with a clear message.
#[derive(Debug)]
pub struct HeadTracker {
    window: Window,
    head: Head,
    retired: RetiredSnapshots,
    subscribers: broadcast::Sender<Arc<HeadChanged>>,
    /// Dropped with the tracker, which ends every [`TrackerEnd::wait`].
    _alive: watch::Sender<()>,
}

/// The number of changes of the head that a subscriber may be behind. One that is further behind
/// gets the number that it missed, and must stop or resume: no change is dropped silently. At one
/// change a second, this is a minute.
pub(crate) const SUBSCRIBER_LAG_MAX: usize = 64;

/// The end of a head tracker, for any reason; every clone sees it.
///
/// A caller that waits for a tracker's answer must wait for its end too: a message that arrives
/// while the tracker ends is neither handled nor dropped while an address of the tracker exists.
#[derive(Clone, Debug)]
pub struct TrackerEnd(watch::Receiver<()>);

impl TrackerEnd {
    /// Waits until the tracker has stopped.
    pub async fn wait(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// Interval between checks of replaced snapshots, and so the longest time from a snapshot's last
/// reader to its release.
const RELEASE_INTERVAL: Duration = Duration::from_millis(250);

impl HeadTracker {
    /// Starts the tracker on `arbiter` with a window that begins with `first`, which is readable
    /// before any message is handled.
    pub fn start(
        arbiter: &ArbiterHandle,
        head: Head,
        chain: ServedChain,
        first: Arc<Block>,
    ) -> (Addr<Self>, TrackerEnd) {
        let (alive, end) = watch::channel(());
        let (subscribers, _) = broadcast::channel(SUBSCRIBER_LAG_MAX);
        let address = Self::start_in_arbiter(arbiter, move |_| Self {
            window: Window::new(chain, first),
            head,
            retired: RetiredSnapshots::default(),
            subscribers,
            _alive: alive,
        });
        (address, TrackerEnd(end))
    }

    /// Announces a change to all subscribers.
    fn announce(&self, change: HeadChanged) {
        // Sending fails if there is no subscriber.
        let _ = self.subscribers.send(Arc::new(change));
    }

    /// Makes the window's snapshot the current one.
    fn publish(&mut self) {
        let snapshot = self.window.snapshot();
        if let Some(replaced) = self.head.store(Arc::clone(&snapshot))
            && !Arc::ptr_eq(&replaced, &snapshot)
        {
            self.retired.push(replaced);
        }
    }
}

impl Actor for HeadTracker {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        self.publish();
        context.run_interval(RELEASE_INTERVAL, |this, _| this.retired.release());
    }
}

impl Handler<AdvanceHead> for HeadTracker {
    type Result = Result<(), WindowError>;

    fn handle(&mut self, change: AdvanceHead, context: &mut Self::Context) -> Self::Result {
        let AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        } = change;
        let HeadDelta { reverted, applied } =
            self.window.advance(reverted, applied, safe, finalized)?;
        self.publish();
        let snapshot = self.window.snapshot();
        let head = snapshot.head().number();
        if reverted.is_empty() {
            let still_read = self.retired.len();
            tracing::debug!(head, applied = applied.len(), still_read, "head changed");
        } else {
            let (reverted, applied) = (reverted.len(), applied.len());
            tracing::info!(head, reverted, applied, "reorg");
        }
        self.announce(HeadChanged {
            reverted,
            applied,
            is_reset: false,
            snapshot,
        });
        // After the answer, so that the source does not wait for it.
        context.run_later(Duration::ZERO, |this, _| {
            this.window.index_pending();
            this.publish();
        });
        Ok(())
    }
}

impl Handler<ResetHead> for HeadTracker {
    type Result = Result<(), WindowError>;

    fn handle(&mut self, ResetHead { first }: ResetHead, _: &mut Self::Context) -> Self::Result {
        let HeadDelta { reverted, applied } = self.window.reset(first)?;
        self.publish();
        let snapshot = self.window.snapshot();
        let head = snapshot.head().number();
        tracing::warn!(head, "the window starts again");
        self.announce(HeadChanged {
            reverted,
            applied,
            is_reset: true,
            snapshot,
        });
        Ok(())
    }
}

impl Handler<ExtendBelow> for HeadTracker {
    type Result = Result<(), WindowError>;

    fn handle(
        &mut self,
        ExtendBelow { block }: ExtendBelow,
        _: &mut Self::Context,
    ) -> Self::Result {
        let extended = self.window.extend_below(block);
        // A refusal may have made the window count as filled.
        self.publish();
        extended
    }
}

impl Handler<KeepGenesis> for HeadTracker {
    type Result = Result<(), WindowError>;

    fn handle(
        &mut self,
        KeepGenesis { block }: KeepGenesis,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.window.keep_genesis(&block)?;
        self.publish();
        Ok(())
    }
}

impl Handler<SettleHead> for HeadTracker {
    type Result = ();

    fn handle(&mut self, SettleHead(settled): SettleHead, _: &mut Self::Context) {
        let SettledBlocks { safe, finalized } = settled;
        let tags = [
            ("safe", safe, Window::set_safe_at as fn(&mut _, _, _) -> _),
            ("finalized", finalized, Window::set_finalized_at),
        ];
        for (tag, named, set) in tags {
            if let Some((number, hash)) = named
                && let Err(error) = set(&mut self.window, number, hash)
            {
                tracing::debug!(tag, number, %error, "the source's settled block is ignored");
            }
        }
        self.publish();
    }
}

impl Handler<FollowHead> for HeadTracker {
    type Result = HeadSubscription;

    fn handle(&mut self, _: FollowHead, _: &mut Self::Context) -> Self::Result {
        HeadSubscription {
            snapshot: self.window.snapshot(),
            changes: self.subscribers.subscribe(),
        }
    }
}

impl Handler<StopHead> for HeadTracker {
    type Result = ();

    fn handle(&mut self, _: StopHead, context: &mut Self::Context) {
        context.stop();
    }
}

#[cfg(all(test, feature = "all-tests"))]
mod tests;
