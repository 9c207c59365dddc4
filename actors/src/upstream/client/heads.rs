//! The heads that an upstream announces.

use alloy_primitives::B256;
use alloy_pubsub::{PubSubFrontend, RawSubscription};
use tokio::sync::broadcast::error::RecvError;

use super::{CallError, HeadClaim};

/// A subscription to an upstream's heads. It ends with its connection; dropping it unsubscribes.
#[derive(Debug)]
pub(crate) struct Heads {
    frontend: PubSubFrontend,
    subscription: RawSubscription,
}

impl Heads {
    /// The subscription with this id.
    pub(super) async fn of(frontend: PubSubFrontend, id: B256) -> Result<Self, CallError> {
        let subscription = frontend.get_subscription(id).await;
        Ok(Self {
            subscription: subscription.map_err(CallError::from_transport)?,
            frontend,
        })
    }

    /// Waits for the next announced head. A slow reader misses older heads.
    ///
    /// # Errors
    /// The connection ended, or the announcement is not a head.
    pub(crate) async fn next(&mut self) -> Result<HeadClaim, CallError> {
        loop {
            match self.subscription.recv().await {
                Ok(json) => return HeadClaim::parse(&json),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(CallError::Connection("the connection ended".into()));
                }
            }
        }
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        // Fails only if the connection has ended, and the subscription with it.
        let _ = self.frontend.unsubscribe(*self.subscription.local_id());
    }
}
