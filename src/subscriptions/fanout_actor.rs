//! Hands every change of the head to a worker's hub, and to the requests that wait there for a
//! block; one per worker.

use std::{rc::Rc, sync::Arc};

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};
use nearhead_actors::{
    head_tracker::HeadTracker,
    messages::{FollowHead, HeadSubscription},
};
use nearhead_chain::window::Snapshot;
use tokio::sync::broadcast::error::RecvError;

use super::hub::Hub;
use crate::rpc::BlockWaits;

/// Subscribes to the head tracker and hands every change to the worker's hub and to what waits for
/// a block, in order.
///
/// If the worker stalled for so long that changes were missed, all listeners catch up with the
/// snapshot that the hub continues with.
pub(crate) struct FanoutActor {
    tracker: Addr<HeadTracker>,
    /// `None` on a thread without sessions.
    hub: Option<Rc<Hub>>,
    waits: Rc<BlockWaits>,
}

impl FanoutActor {
    /// Starts the actor on the current arbiter.
    pub(crate) fn start(tracker: Addr<HeadTracker>, hub: Option<Rc<Hub>>, waits: Rc<BlockWaits>) {
        Actor::start(Self {
            tracker,
            hub,
            waits,
        });
    }
}

impl Actor for FanoutActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let work = follow(
            self.tracker.clone(),
            self.hub.clone(),
            Rc::clone(&self.waits),
        );
        ctx.spawn(work.into_actor(self).map(|(), _, _| ()));
    }
}

/// Runs until the tracker ends, which ends the service.
async fn follow(tracker: Addr<HeadTracker>, hub: Option<Rc<Hub>>, waits: Rc<BlockWaits>) {
    let adopt = async |snapshot: &Arc<Snapshot>| {
        waits.head_changed(snapshot);
        if let Some(hub) = &hub {
            hub.adopt(Arc::clone(snapshot));
            hub.wake_in_turns().await;
        }
    };
    while let Ok(HeadSubscription {
        snapshot,
        mut changes,
    }) = tracker.send(FollowHead).await
    {
        adopt(&snapshot).await;
        loop {
            match changes.recv().await {
                // A subscription whose block is not in the new window loses its cursor, which
                // closes its session.
                Ok(change) if change.is_reset => adopt(&change.snapshot).await,
                Ok(change) => {
                    // They are fewer, and their clients have waited.
                    waits.head_changed(&change.snapshot);
                    if let Some(hub) = &hub {
                        hub.fan_out(&change);
                        hub.wake_in_turns().await;
                    }
                }
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
