//! What following needs of an upstream and of whoever holds the blocks.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::{block::Block, window::Snapshot};

use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
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

/// One upstream, asked; cloning shares it.
pub trait Upstream: Clone + Send + Sync + 'static {
    /// Heads that the upstream tells of.
    type Heads: HeadStream;

    /// The upstream's name for log lines, without secrets.
    fn name(&self) -> String;

    /// The id of its chain.
    fn chain_id(&self) -> impl Future<Output = Result<u64, CallError>> + Send;

    /// The hash of its chain's genesis.
    fn genesis(&self) -> impl Future<Output = Result<B256, CallError>> + Send;

    /// Whether it says that it is syncing.
    fn is_syncing(&self) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// What it names so.
    fn head(&self, tag: Tag) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;

    /// Asks to be told of heads; [`CallError::MethodMissing`] where it does not.
    fn heads(&self) -> impl Future<Output = Result<Self::Heads, CallError>> + Send;

    /// Fetches a block and checks all of it against its hash. Its number, and its hash where that
    /// was named, are those that were asked for.
    fn block(&self, ask: Ask) -> impl Future<Output = Result<Arc<Block>, FetchError>> + Send;
}

/// Heads that an upstream tells of by itself.
pub trait HeadStream: Send + 'static {
    /// Waits for the next one.
    fn next(&mut self) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;
}

impl HeadStream for Heads {
    async fn next(&mut self) -> Result<HeadClaim, CallError> {
        Self::next(self).await
    }
}

/// The blocks that are held at one moment.
pub trait HeldChain: Chain {
    /// Hash of the block below the oldest.
    fn below(&self) -> B256;

    /// Hash of the genesis, if it is held: it may be below the oldest block.
    fn genesis(&self) -> Option<B256>;

    /// Number and seconds of the oldest block and of the head.
    fn span(&self) -> [(u64, u64); 2];
}

impl HeldChain for Arc<Snapshot> {
    fn below(&self) -> B256 {
        self.canonical()[0].header.parent_hash
    }

    fn genesis(&self) -> Option<B256> {
        Snapshot::genesis(self).map(|genesis| genesis.hash)
    }

    fn span(&self) -> [(u64, u64); 2] {
        [&self.canonical()[0], Snapshot::head(self)]
            .map(|block| (block.number(), block.header.timestamp))
    }
}

/// Whoever holds the blocks.
pub trait HeadSink {
    /// What is held at one moment.
    type Held: HeldChain;
    /// Why it cannot go on.
    type Error;

    /// What is held; `None` before the first block.
    fn held(&self) -> Option<Self::Held>;

    /// Begins with this block, without any that was held before.
    fn begin(&mut self, head: Arc<Block>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Changes the head.
    fn advance(&mut self, change: AdvanceHead) -> impl Future<Output = Result<(), Self::Error>>;

    /// Puts a block below the oldest, whose parent it is.
    fn extend_below(&mut self, block: Arc<Block>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Keeps the genesis, which is below the oldest.
    fn keep_genesis(&mut self, block: Arc<Block>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets what is safe and finalized, as far as it is of the chain that is held.
    fn settle(&mut self, settled: SettleHead) -> impl Future<Output = Result<(), Self::Error>>;
}
