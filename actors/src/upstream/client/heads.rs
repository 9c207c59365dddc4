//! The heads that an upstream tells of.

use alloy_primitives::B256;
use alloy_pubsub::{PubSubFrontend, RawSubscription};
use tokio::sync::broadcast::error::RecvError;

use super::{CallError, HeadClaim};

/// A subscription to an upstream's heads; ends with its connection, and is taken back when it is
/// dropped.
#[derive(Debug)]
pub struct Heads {
    frontend: PubSubFrontend,
    subscription: RawSubscription,
}

impl Heads {
    /// The subscription that the upstream answered with `id`.
    pub(super) async fn of(frontend: PubSubFrontend, id: B256) -> Result<Self, CallError> {
        let subscription = frontend.get_subscription(id).await;
        Ok(Self {
            subscription: subscription.map_err(CallError::of_transport)?,
            frontend,
        })
    }

    /// Waits for the next head that the upstream tells of. Whoever is slower than the upstream gets the
    /// newer ones alone.
    ///
    /// # Errors
    /// The connection ended, or the upstream told of something that is no head.
    pub async fn next(&mut self) -> Result<HeadClaim, CallError> {
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
        // An error: the connection is gone, and the subscription with it.
        let _ = self.frontend.unsubscribe(*self.subscription.local_id());
    }
}
