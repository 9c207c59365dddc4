//! Hands every change of the head to a worker's hub, and to the requests that wait there for a
//! block; one per worker.

use std::{convert::Infallible, future, rc::Rc, sync::Arc};

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, WrapFuture};
use nearhead_actors::{
    head_tracker::HeadTracker,
    messages::{FollowHead, HeadChanged, HeadSubscription},
};
use nearhead_chain::window::Snapshot;
use tokio::sync::broadcast::{Receiver, error::RecvError};

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

/// The next change of the head. Until it comes, the sessions are woken that have something to do.
pub(crate) async fn next_change(
    changes: &mut Receiver<Arc<HeadChanged>>,
    hub: Option<&Hub>,
) -> Result<Arc<HeadChanged>, RecvError> {
    let waking = async {
        if let Some(hub) = hub {
            hub.wake_in_turns().await;
        }
        future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        change = changes.recv() => change,
        never = waking => match never {},
    }
}

/// Runs until the tracker ends, which ends the service.
async fn follow(tracker: Addr<HeadTracker>, hub: Option<Rc<Hub>>, waits: Rc<BlockWaits>) {
    let adopt = |snapshot: &Arc<Snapshot>| {
        waits.head_changed(snapshot);
        if let Some(hub) = &hub {
            hub.adopt(Arc::clone(snapshot));
        }
    };
    while let Ok(HeadSubscription {
        snapshot,
        mut changes,
    }) = tracker.send(FollowHead).await
    {
        adopt(&snapshot);
        loop {
            match next_change(&mut changes, hub.as_deref()).await {
                // A subscription whose block is not in the new window loses its cursor, which
                // closes its session.
                Ok(change) if change.is_reset => adopt(&change.snapshot),
                Ok(change) => {
                    // They are fewer, and their clients have waited.
                    waits.head_changed(&change.snapshot);
                    if let Some(hub) = &hub {
                        hub.fan_out(&change);
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
