//! The head tracker: owns the window, swaps the pointer, then tells.

use std::{sync::Arc, time::Duration};

use actix::{Actor, ActorContext, Addr, ArbiterHandle, AsyncContext, Context, Handler};
use nearhead_chain::{
    block::Block,
    window::{HeadDelta, Window, WindowError},
};
use tokio::sync::{broadcast, watch};

use crate::{
    head::{Head, RetiredSnapshots},
    messages::{
        AdvanceHead, ExtendBelow, FollowHead, HeadChanged, HeadSubscription, KeepGenesis,
        ResetHead, SettleHead, StopHead,
    },
};

/// Owns the 128-block window: applies, reverts, makes the new view readable and announces it, in
/// this order. What a reader need not wait for comes after that ([`Window::catch_up`]).
///
/// It runs on an arbiter of its own, so that neither building a view nor freeing an old one delays
/// a read. It is not restarted after a panic: the window might be half changed. Its death is told
/// through [`TrackerEnd`], and the process ends with a clear message.
#[derive(Debug)]
pub struct HeadTracker {
    window: Window,
    head: Head,
    retired: RetiredSnapshots,
    followers: broadcast::Sender<Arc<HeadChanged>>,
    /// Dropped with the tracker: whoever waits for its end learns of it.
    _alive: watch::Sender<()>,
}

/// Changes of the head that a follower may be behind; beyond, it is told how many it missed, and
/// must close or resume: no change is left out silently. One a second: a follower that slept for a
/// minute.
pub const FOLLOWER_LAG_MAX: usize = 64;

/// The end of a head tracker, for whatever reason; every clone learns of it.
///
/// Whoever waits for a tracker's answer must wait for its end beside it: a message that arrives
/// while the tracker ends is neither handled nor dropped for as long as somebody holds the
/// tracker's address.
#[derive(Clone, Debug)]
pub struct TrackerEnd(watch::Receiver<()>);

impl TrackerEnd {
    /// Waits until the tracker is gone.
    pub async fn wait(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// How often views that were replaced are looked at: they are freed this long after their last
/// reader at most.
const RELEASE_INTERVAL: Duration = Duration::from_millis(250);

impl HeadTracker {
    /// Starts the tracker on `arbiter` with a window that begins with `first`, which is readable
    /// before any message is handled; and its end.
    pub fn start(
        arbiter: &ArbiterHandle,
        head: Head,
        chain_id: u64,
        first: Arc<Block>,
    ) -> (Addr<Self>, TrackerEnd) {
        let (alive, end) = watch::channel(());
        let (followers, _) = broadcast::channel(FOLLOWER_LAG_MAX);
        let address = Self::start_in_arbiter(arbiter, move |_| Self {
            window: Window::new(chain_id, first),
            head,
            retired: RetiredSnapshots::default(),
            followers,
            _alive: alive,
        });
        (address, TrackerEnd(end))
    }

    /// Tells all followers.
    fn tell(&self, change: HeadChanged) {
        // An error: nobody follows.
        let _ = self.followers.send(Arc::new(change));
    }

    /// Makes the window's present view the one that everybody reads.
    fn publish(&mut self) {
        let view = self.window.snapshot();
        if let Some(replaced) = self.head.store(Arc::clone(&view))
            && !Arc::ptr_eq(&replaced, &view)
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
        self.tell(HeadChanged {
            reverted,
            applied,
            is_reset: false,
            snapshot,
        });
        // Nobody is to wait for it.
        context.run_later(Duration::ZERO, |this, _| {
            this.window.catch_up();
            this.publish();
        });
        Ok(())
    }
}

impl Handler<ResetHead> for HeadTracker {
    type Result = ();

    fn handle(&mut self, ResetHead { first }: ResetHead, _: &mut Self::Context) {
        let HeadDelta { reverted, applied } = self.window.reset(first);
        self.publish();
        let snapshot = self.window.snapshot();
        let head = snapshot.head().number();
        tracing::warn!(head, "the window begins anew");
        self.tell(HeadChanged {
            reverted,
            applied,
            is_reset: true,
            snapshot,
        });
    }
}

impl Handler<ExtendBelow> for HeadTracker {
    type Result = Result<(), WindowError>;

    fn handle(
        &mut self,
        ExtendBelow { block }: ExtendBelow,
        _: &mut Self::Context,
    ) -> Self::Result {
        self.window.extend_below(block)?;
        self.publish();
        Ok(())
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

    fn handle(&mut self, SettleHead { safe, finalized }: SettleHead, _: &mut Self::Context) {
        let set = [
            ("safe", safe, Window::set_safe_at as fn(&mut _, _, _) -> _),
            ("finalized", finalized, Window::set_finalized_at),
        ];
        for (tag, named, set) in set {
            if let Some((number, hash)) = named
                && let Err(why) = set(&mut self.window, number, hash)
            {
                tracing::debug!(tag, number, %why, "the source's block is not taken");
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
            changes: self.followers.subscribe(),
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
