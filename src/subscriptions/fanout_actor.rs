//! Tells a worker's subscribers of every change of the head; one on every worker.

use std::{rc::Rc, sync::Arc};

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};
use nearhead_actors::{
    head_tracker::HeadTracker,
    messages::{FollowHead, HeadSubscription},
};
use tokio::sync::broadcast::error::RecvError;

use super::Hub;

/// Follows the head tracker and hands every change to the worker's hub, in order.
///
/// When the worker was asleep for so long that changes were missed, everybody who listens catches
/// up with the view that it goes on with.
pub(crate) struct FanoutActor {
    tracker: Addr<HeadTracker>,
    hub: Rc<Hub>,
}

impl FanoutActor {
    /// Starts it on the present arbiter.
    pub(crate) fn start(tracker: Addr<HeadTracker>, hub: Rc<Hub>) {
        Actor::start(Self { tracker, hub });
    }
}

impl Actor for FanoutActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let work = follow(self.tracker.clone(), Rc::clone(&self.hub));
        ctx.spawn(work.into_actor(self).map(|(), _, _| ()));
    }
}

/// Follows until the tracker is gone, which ends the service.
async fn follow(tracker: Addr<HeadTracker>, hub: Rc<Hub>) {
    while let Ok(HeadSubscription {
        snapshot,
        mut changes,
    }) = tracker.send(FollowHead).await
    {
        hub.begin(snapshot);
        loop {
            match changes.recv().await {
                // Who knows a block of before is told that its way is lost.
                Ok(change) if change.is_reset => hub.begin(Arc::clone(&change.snapshot)),
                Ok(change) => hub.announce(&change),
                Err(RecvError::Closed) => return,
                Err(RecvError::Lagged(missed)) => {
                    tracing::warn!(
                        missed,
                        "changes of the head were missed; subscribers catch up"
                    );
                    break;
                }
            }
        }
    }
}
