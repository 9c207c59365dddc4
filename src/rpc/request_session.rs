//! The session that a request came over, as `rpc` sees it.

use std::{rc::Rc, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{log_search::LogFilter, window::Snapshot};
use nearhead_tenants::allowlists::{Allowlists, ListKind};
use tokio::sync::Semaphore;

use super::{contracts::ContractCheck, error::RpcError};

/// What a client can subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionKind {
    /// Every new canonical block's header.
    NewHeads,
    /// Matching logs: of new blocks, and of reverted ones as removed.
    Logs(Rc<LogFilter>),
    /// The blocks that each reorg reverted and applied.
    Reorgs,
}

impl SubscriptionKind {
    /// Checks that a key with these lists may have it, as `eth_subscribe` does.
    ///
    /// # Errors
    /// The list that does not allow it.
    pub(crate) fn check(&self, allow: &Allowlists) -> Result<(), ListKind> {
        if !allow.allow_method("eth_subscribe") {
            return Err(ListKind::Methods);
        }
        match self {
            Self::NewHeads | Self::Reorgs => Ok(()),
            Self::Logs(filter) => {
                let checked = ContractCheck::new(allow).filter(filter);
                checked.map_err(|_| ListKind::Contracts)
            }
        }
    }
}

/// The session that a request came over, as its method and the dispatcher see it.
pub trait RequestSession {
    /// Subscribes to what follows the head of `snapshot`, or the block `since`, and returns the
    /// subscription's id. Notifications are sent after the answer with the id. `snapshot` is the
    /// one that the rest of the request is answered from, so that nothing is missed between the
    /// two.
    ///
    /// # Errors
    /// [`RpcError::ResumeLost`], [`RpcError::TooManySubscriptions`],
    /// [`RpcError::TooManyFilterValues`], [`RpcError::Unavailable`].
    fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<String, RpcError>;

    /// Ends a subscription; `false` if there is none of this id.
    fn unsubscribe(&self, id: &str) -> bool;

    /// The semaphore with the session's one permit for a large answer. The permit is kept until the
    /// client has taken the answer, so a client that does not read gets no further one computed.
    fn large_answer(&self) -> Arc<Semaphore>;

    /// Bytes that the answer to a batch may hold until the client has taken it, so that answers
    /// that a client does not read are bounded as well.
    fn batch_held_max(&self) -> usize;

    /// Bytes of the buffers of its connection that the next large answer is charged for; zero while
    /// an answer is charged for them that the client has not taken.
    fn uncharged_buffer(&self) -> usize;
}
