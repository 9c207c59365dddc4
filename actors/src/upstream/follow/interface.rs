//! What the follower needs: an upstream to ask, and the window that it fills.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::{Check, StatedHeader},
    verify::HeaderRefusal,
    window::{Snapshot, WindowError},
};

use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        chain::Chain,
        client::{CallError, HeadClaim, Heads, Tag},
        health::Fault,
        plan::{Ask, BlockBelow},
    },
};

/// Why a block could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer failed a check.
    #[error("{error}")]
    BadBlock {
        /// The check's label in metrics.
        reason: &'static str,
        /// What the check found.
        error: Box<str>,
    },
}

/// One upstream, with every block verified. Clones share it.
pub(crate) trait Upstream: Clone + Send + Sync + 'static {
    /// The stream of announced heads.
    type Heads: HeadStream;

    /// The same upstream. Its calls about heads wait no longer than this for an answer; those for
    /// blocks are as patient as before.
    fn within(&self, longest: Duration) -> Self;

    /// Makes later calls for blocks on new connections.
    fn reconnect(&self);

    /// The upstream's name for log lines, without secrets.
    fn name(&self) -> String;

    /// The id of its chain.
    fn chain_id(&self) -> impl Future<Output = Result<u64, CallError>> + Send;

    /// The hash of its canonical block at this number; `None` if it has none, or has pruned it.
    fn hash_at(&self, number: u64) -> impl Future<Output = Result<Option<B256>, CallError>> + Send;

    /// Whether it reports that it is syncing.
    fn is_syncing(&self) -> impl Future<Output = Result<bool, CallError>> + Send;

    /// The block that it names by this tag.
    fn head(&self, tag: Tag) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;

    /// Subscribes to its heads; [`CallError::UnsupportedMethod`] if it announces none.
    fn heads(&self) -> impl Future<Output = Result<Self::Heads, CallError>> + Send;

    /// Fetches a block and verifies it. Its number is the one that was asked for, and so is its
    /// hash if `ask` has one.
    fn block(&self, ask: Ask) -> impl Future<Output = Result<Arc<Block>, FetchError>> + Send;

    /// Fetches the header with this number and this hash, and verifies both.
    fn header(
        &self,
        number: u64,
        hash: B256,
    ) -> impl Future<Output = Result<StatedHeader, FetchError>> + Send;
}

/// Heads that an upstream announces.
pub(crate) trait HeadStream: Send + 'static {
    /// Waits for the next announcement.
    fn next(&mut self) -> impl Future<Output = Result<HeadClaim, CallError>> + Send;
}

impl HeadStream for Heads {
    async fn next(&mut self) -> Result<HeadClaim, CallError> {
        Self::next(self).await
    }
}

/// The blocks that are held at one moment.
pub(crate) trait HeldChain: Chain {
    /// Hash of the block below the oldest.
    fn below(&self) -> B256;

    /// Whether the window has room for no block below the oldest.
    fn is_filled(&self) -> bool;

    /// Hash of the genesis, if it is held. It may be below the oldest block.
    fn genesis(&self) -> Option<B256>;

    /// Number and timestamp of the oldest block and of the head.
    fn span(&self) -> [(u64, u64); 2];
}

impl HeldChain for Arc<Snapshot> {
    fn below(&self) -> B256 {
        self.canonical()[0].header.parent_hash
    }

    fn is_filled(&self) -> bool {
        Snapshot::is_filled(self)
    }

    fn genesis(&self) -> Option<B256> {
        Snapshot::genesis(self).map(|genesis| genesis.hash)
    }

    fn span(&self) -> [(u64, u64); 2] {
        [&self.canonical()[0], Snapshot::head(self)]
            .map(|block| (block.number(), block.header.timestamp))
    }
}

/// Why the window was not changed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError<E> {
    /// The blocks do not fit, and whoever gave them is at fault.
    #[error(transparent)]
    Refused(WindowError),
    /// A header breaks a rule of the chain, or cannot be checked.
    #[error("block {number}: {refusal}")]
    Header {
        /// The block's number.
        number: u64,
        /// What the check found.
        refusal: HeaderRefusal,
    },
    /// A header is ahead of the clock. The blocks may fit later.
    #[error("block {number} is ahead of the clock")]
    Early {
        /// The block's number.
        number: u64,
        /// Its timestamp.
        timestamp: u64,
        /// The clock's time, in seconds since the Unix epoch.
        clock: u64,
    },
    /// There is no window any more.
    #[error("there is no window")]
    Gone(E),
}

impl<E> ChangeError<E> {
    /// The label of the fault in metrics.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Header { .. } => Check::Header.label(),
            Self::Refused(_) | Self::Early { .. } | Self::Gone(_) => Fault::Unfit.label(),
        }
    }
}

/// The block that a window starts with.
#[derive(Clone, Debug)]
pub(crate) struct FirstBlock {
    pub(crate) block: Arc<Block>,
    /// Its parent's header, if the window needs that; block 0 has none.
    pub(crate) parent: Option<Box<StatedHeader>>,
}

/// The window that the follower fills.
pub(crate) trait HeldWindow {
    /// The blocks that are held at one moment.
    type Held: HeldChain;
    /// Why there is no window any more.
    type Error;

    /// The blocks that are held; `None` before the first.
    fn held(&self) -> Option<Self::Held>;

    /// Whether a block needs its parent's header, to be checked before it is served.
    fn needs_parent(&self) -> bool;

    /// Starts the window, or resets it, with this block alone.
    fn reset(
        &mut self,
        first: FirstBlock,
    ) -> impl Future<Output = Result<(), ChangeError<Self::Error>>>;

    /// Changes the head.
    fn advance(
        &mut self,
        change: AdvanceHead,
    ) -> impl Future<Output = Result<(), ChangeError<Self::Error>>>;

    /// Adds the parent of the oldest block. It comes with its own parent, if it needs that.
    fn extend_below(
        &mut self,
        below: BlockBelow<Arc<Block>>,
    ) -> impl Future<Output = Result<(), ChangeError<Self::Error>>>;

    /// Keeps the genesis, which is below the oldest block.
    fn keep_genesis(
        &mut self,
        block: Arc<Block>,
    ) -> impl Future<Output = Result<(), ChangeError<Self::Error>>>;

    /// Sets the safe and the finalized block.
    fn settle(&mut self, settled: SettleHead) -> impl Future<Output = Result<(), Self::Error>>;
}
