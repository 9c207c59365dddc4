//! What a connection that can be told things offers to the methods that ask for it.

use std::{rc::Rc, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{log_search::LogFilter, window::Snapshot};
use tokio::sync::Semaphore;

use super::error::RpcError;

/// What can be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Every new canonical block's header.
    NewHeads,
    /// Logs that match, of new blocks, and of replaced ones as removed.
    Logs(Rc<LogFilter>),
    /// What each reorg replaced, and by what.
    Reorgs,
}

/// A connection with subscriptions.
pub trait Subscriber {
    /// Subscribes, from the head of `view` on or from after the block `since`; the subscription's
    /// id. What it is told comes after the answer that has the id. `view` is what the rest of the
    /// request is answered from, so that between the two nothing is missed.
    ///
    /// # Errors
    /// [`RpcError::ResumeLost`], [`RpcError::TooManySubscriptions`],
    /// [`RpcError::TooManyFilterValues`], [`RpcError::Unavailable`].
    fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        view: &Arc<Snapshot>,
    ) -> Result<String, RpcError>;

    /// Ends a subscription; `false` where there is none of this id.
    fn unsubscribe(&self, id: &str) -> bool;

    /// One permit: the right to an answer that may be large, kept until the client has taken it. So
    /// a client that does not read has one such answer worked out for it, and no more.
    fn turn(&self) -> Arc<Semaphore>;

    /// Bytes that the answer to a batch may hold until the client has taken it: what a client asks
    /// for and does not read is bounded too.
    fn room(&self) -> usize;
}
