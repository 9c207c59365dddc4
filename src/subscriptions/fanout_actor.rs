//! Hands every change of the head to a worker's hub; one per worker.

use std::{rc::Rc, sync::Arc};

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};
use nearhead_actors::{
    head_tracker::HeadTracker,
    messages::{FollowHead, HeadSubscription},
};
use tokio::sync::broadcast::error::RecvError;

use super::hub::Hub;

/// Subscribes to the head tracker and hands every change to the worker's hub, in order.
///
/// If the worker stalled for so long that changes were missed, all listeners catch up with the
/// snapshot that the hub continues with.
pub(crate) struct FanoutActor {
    tracker: Addr<HeadTracker>,
    hub: Rc<Hub>,
}

impl FanoutActor {
    /// Starts the actor on the current arbiter.
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

/// Runs until the tracker ends, which ends the service.
async fn follow(tracker: Addr<HeadTracker>, hub: Rc<Hub>) {
    while let Ok(HeadSubscription {
        snapshot,
        mut changes,
    }) = tracker.send(FollowHead).await
    {
        hub.adopt(snapshot);
        loop {
            match changes.recv().await {
                // A subscription whose block is not in the new window loses its cursor, which
                // closes its session.
                Ok(change) if change.is_reset => hub.adopt(Arc::clone(&change.snapshot)),
                Ok(change) => hub.fan_out(&change),
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
