//! What following needs of a node and of whoever holds the blocks.

use std::sync::Arc;

use nearhead_chain::block::Block;

use crate::{
    messages::AdvanceHead,
    source::node::{
        Chain,
        client::{CallError, HeadClaim, Heads, Tag},
        plan::Ask,
    },
};

/// Why there is no block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What came is not the block: which check it failed.
    #[error("{why}")]
    BadBlock {
        /// The check in one word, for metrics.
        reason: &'static str,
        /// The check in words.
        why: Box<str>,
    },
}

/// One node, asked; cloning shares it.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Heads that the node tells of.
    type Heads: HeadFeed;

    /// The node's name for log lines, without secrets.
    fn name(&self) -> String;

    /// The id of its chain.
    fn chain_id(&self) -> impl Future<Output = Result<u64, CallError>> + Send;

    /// Whether it says that it is syncing.
    fn is_syncing(&self) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// What it names so.
    fn head(&self, tag: Tag) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;

    /// Asks to be told of heads; [`CallError::MethodMissing`] where it does not.
    fn heads(&self) -> impl Future<Output = Result<Self::Heads, CallError>> + Send;

    /// Fetches a block and checks all of it against its hash, which is the one that was asked for.
    fn block(&self, ask: Ask) -> impl Future<Output = Result<Arc<Block>, FetchError>> + Send;
}

/// Heads that a node tells of by itself.
pub trait HeadFeed: Send + 'static {
    /// Waits for the next one.
    fn next(&mut self) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;
}

impl HeadFeed for Heads {
    async fn next(&mut self) -> Result<HeadClaim, CallError> {
        Self::next(self).await
    }
}

/// Whoever holds the blocks.
pub trait HeadSink {
    /// The blocks that are held at one moment.
    type View: Chain;
    /// Why it cannot go on.
    type Error;

    /// What is held; `None` before the first block.
    fn view(&self) -> Option<Self::View>;

    /// Begins with this block, without any that was held before.
    fn begin(&mut self, head: Arc<Block>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Changes the head.
    fn advance(&mut self, change: AdvanceHead) -> impl Future<Output = Result<(), Self::Error>>;

    /// Puts a block below the oldest, whose parent it is.
    fn extend_below(&mut self, block: Arc<Block>) -> impl Future<Output = Result<(), Self::Error>>;
}
