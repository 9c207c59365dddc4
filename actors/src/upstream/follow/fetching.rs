//! What is being fetched: the sync to a head, the backfill, the genesis.

use std::sync::Arc;

use nearhead_chain::block::Block;
use tokio::task::AbortHandle;

use super::{interface::FirstBlock, work::Purpose};
use crate::upstream::{
    agree::{NodeSet, Point},
    health::{Moment, UpstreamId},
    plan::{Ask, Backfill, FetchedBlock, SyncPath},
};

/// A sync to a head.
pub(super) struct HeadSync {
    /// The upstream that is asked now. Calls to another one may still be in progress.
    pub(super) upstream: UpstreamId,
    /// The upstreams that vouch for the head.
    pub(super) voters: NodeSet,
    pub(super) head: Point,
    /// Whether a quorum vouches for the head.
    pub(super) is_agreed: bool,
    /// When the upstream first named that head.
    pub(super) named_at: Moment,
    /// Since when this upstream has been asked. `None`: it has had no call yet.
    pub(super) asked_since: Option<Moment>,
    /// When the last block arrived, or when the sync began.
    pub(super) progressed_at: Moment,
    /// Whether the upstream has counted as slow since.
    pub(super) is_slow: bool,
    /// The blocks that are asked for and have not arrived.
    pub(super) open: Vec<Ask>,
    pub(super) goal: Goal,
}

/// A call for a block of a sync that is in progress. The sync may have ended.
pub(super) struct SyncCall {
    pub(super) upstream: UpstreamId,
    pub(super) ask: Ask,
    pub(super) purpose: Purpose,
    pub(super) since: Moment,
    /// Whether the upstream was at fault for it: it is no longer waited for.
    pub(super) is_stuck: bool,
    /// Whether the upstream has been away since: it may not answer any more.
    pub(super) is_lost: bool,
    /// The task that makes the call; its id says which call has ended.
    pub(super) task: AbortHandle,
}

impl SyncCall {
    /// Whether an answer is still expected.
    pub(super) const fn is_awaited(&self) -> bool {
        !self.is_stuck && !self.is_lost
    }
}

/// How a sync ends.
pub(super) enum Goal {
    /// The head advances along this path.
    Path(SyncPath<Arc<Block>>),
    /// The path is complete: this many blocks are reverted, and these applied.
    Advance {
        reverted: usize,
        applied: Vec<Arc<Block>>,
    },
    /// The window starts again at the new head. `first` is the head, once it has arrived.
    Reset { first: Option<FirstBlock> },
}

impl Goal {
    pub(super) const RESET: Self = Self::Reset { first: None };

    /// The blocks of a path that were fetched: those that are applied first, then others.
    pub(super) fn into_blocks(self) -> Vec<FetchedBlock<Arc<Block>>> {
        match self {
            Self::Path(path) => path.into_blocks().collect(),
            Self::Advance { applied, .. } => applied
                .into_iter()
                .map(|block| linked(block, |block| block))
                .collect(),
            Self::Reset { .. } => Vec::new(),
        }
    }

    /// Whether nothing is left to fetch.
    pub(super) const fn is_complete(&self) -> bool {
        match self {
            Self::Path(_) => false,
            Self::Advance { .. } => true,
            Self::Reset { first } => first.is_some(),
        }
    }
}

/// The backfill of the blocks below the oldest one that is held.
pub(super) struct ActiveBackfill {
    /// Each with the upstream that gave it.
    pub(super) blocks: Backfill<(UpstreamId, Arc<Block>)>,
    /// The calls in progress, without those that were given up.
    pub(super) calls: Vec<BackfillCall>,
    /// Number of the oldest block that is held.
    pub(super) oldest: u64,
    /// Nothing is asked for before this time, because no upstream gave the next block.
    pub(super) hold_until: Moment,
    /// How often an upstream did not give a block; it selects the upstream to ask next.
    pub(super) turn: usize,
    /// How often in a row an upstream did not give the next block.
    pub(super) failures: u32,
}

/// A call for an old block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackfillCall {
    pub(super) upstream: UpstreamId,
    pub(super) ask: Ask,
    pub(super) asked_at: Moment,
}

impl ActiveBackfill {
    /// Records that a call was answered, and returns whether it had not been given up.
    pub(super) fn answered(&mut self, upstream: UpstreamId, ask: Ask) -> bool {
        let before = self.calls.len();
        let is_it = |call: &BackfillCall| (call.upstream, call.ask) == (upstream, ask);
        self.calls.retain(|call| !is_it(call));
        self.calls.len() < before
    }

    /// Gives up the calls to an upstream. Their blocks are asked for again.
    pub(super) fn give_up(&mut self, upstream: UpstreamId) {
        let blocks = &mut self.blocks;
        self.calls.retain(|call| {
            let is_kept = call.upstream != upstream;
            if !is_kept {
                blocks.forget(call.ask);
            }
            is_kept
        });
    }
}

/// The fetch of the genesis, which stays readable below the window.
#[derive(Default)]
pub(super) struct GenesisFetch {
    pub(super) is_asked: bool,
    pub(super) block: Option<Arc<Block>>,
    /// The upstream that gave it. `None` if no upstream has, or if backfill reached the genesis by
    /// parent hashes.
    pub(super) given_by: Option<UpstreamId>,
    /// It is not asked for before this time.
    pub(super) hold_until: Moment,
    /// Failures in a row; they select the upstream to ask next.
    pub(super) failures: u32,
}

/// A block as the plan knows it; the plan returns what `returned` makes of it.
pub(super) fn linked<T>(
    block: Arc<Block>,
    returned: impl FnOnce(Arc<Block>) -> T,
) -> FetchedBlock<T> {
    FetchedBlock {
        number: block.number(),
        hash: block.hash,
        parent_hash: block.header.parent_hash,
        block: returned(block),
    }
}
