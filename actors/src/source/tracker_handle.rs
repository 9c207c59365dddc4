//! A handle to a head tracker.

use actix::{Addr, Context, Handler, MailboxError, Message, dev::ToEnvelope};

use crate::head_tracker::{HeadTracker, TrackerEnd};

/// The address of a head tracker, and its end.
#[derive(Clone, Debug)]
pub struct TrackerHandle {
    /// The head tracker.
    pub address: Addr<HeadTracker>,
    /// Ends when the head tracker does.
    pub end: TrackerEnd,
}

impl TrackerHandle {
    /// Sends a message, and waits for the answer or for the tracker's end.
    pub async fn ask<M>(&self, message: M) -> Result<M::Result, MailboxError>
    where
        M: Message + Send + 'static,
        M::Result: Send,
        HeadTracker: Handler<M>,
        Context<HeadTracker>: ToEnvelope<HeadTracker, M>,
    {
        let mut end = self.end.clone();
        tokio::select! {
            answer = self.address.send(message) => answer,
            () = end.wait() => Err(MailboxError::Closed),
        }
    }
}
