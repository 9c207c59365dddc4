//! The owner of the window.

use std::{collections::VecDeque, sync::Arc};

use alloy_primitives::B256;

use super::{
    error::WindowError,
    limits::{CANONICAL_BLOCKS_MIN, REPLACED_BLOCKS_MAX, WINDOW_BLOCKS, WindowLimits},
    past_hashes::PastHashes,
    snapshot::{SettledBlock, Snapshot},
    transactions::TransactionIndex,
};
use crate::{
    block::Block,
    fees::{suggested_tip, suggested_tips},
    network::ServedChain,
};

/// The owner of the latest blocks; others read its [`Self::snapshot`].
///
/// A block that leaves the window is released, together with its state. Only an older snapshot
/// keeps it alive.
#[derive(Clone, Debug)]
pub struct Window {
    /// Copied by the first change after it was handed out, so that no reader sees a change.
    pub(super) snapshot: Arc<Snapshot>,
    /// Replaced blocks, the one that was replaced first in front.
    pub(super) replaced: VecDeque<Arc<Block>>,
    pub(super) limits: WindowLimits,
    pub(super) bytes: HeldBytes,
    /// The finalized block, once the window has shown that it is canonical. No change reverts it.
    pub(super) irreversible: Option<SettledBlock>,
}

/// Bytes of the blocks that the window holds ([`Block::bytes`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBytes {
    pub(super) canonical: usize,
    pub(super) replaced: usize,
}

impl HeldBytes {
    const fn total(self) -> usize {
        self.canonical.saturating_add(self.replaced)
    }
}

/// What [`Window::advance`] or [`Window::reset`] changed.
#[derive(Clone, Debug, Default)]
pub struct HeadDelta {
    /// Blocks that are no longer canonical, newest first.
    pub reverted: Vec<Arc<Block>>,
    /// New canonical blocks, oldest first.
    pub applied: Vec<Arc<Block>>,
}

impl Window {
    /// A window that begins with `first`: the genesis, or an upstream's head, whose ancestors
    /// follow. It has the default [`WindowLimits`].
    #[must_use]
    pub fn new(chain: impl Into<ServedChain>, first: Arc<Block>) -> Self {
        Self::with_limits(chain, first, WindowLimits::default())
    }

    /// [`Self::new`] with other limits.
    #[must_use]
    pub fn with_limits(
        chain: impl Into<ServedChain>,
        first: Arc<Block>,
        limits: WindowLimits,
    ) -> Self {
        let bytes = HeldBytes {
            canonical: first.bytes(),
            replaced: 0,
        };
        let mut transactions = TransactionIndex::default();
        transactions.add_newest(&first);
        transactions.index_pending();
        Self {
            snapshot: Arc::new(Snapshot {
                chain: chain.into(),
                version: 0,
                held: [(first.hash, Arc::clone(&first))].into_iter().collect(),
                transactions,
                genesis: (first.number() == 0).then(|| Arc::clone(&first)),
                suggested_tips: suggested_tips(std::slice::from_ref(&first)),
                past: Arc::default(),
                canonical: vec![first],
                safe: None,
                finalized: None,
                is_cut_short: false,
            }),
            replaced: VecDeque::new(),
            limits,
            bytes,
            irreversible: None,
        }
    }

    /// The current snapshot. It is made once per change and shared.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Reverts `reverted` blocks, applies `applied` in order, then sets safe and finalized (`None`
    /// leaves them as they are). An error leaves the window unchanged.
    ///
    /// # Errors
    /// [`WindowError::NothingToRevert`], [`WindowError::Finalized`], [`WindowError::NotAChild`],
    /// and [`WindowError::NotCanonical`] for safe or finalized.
    pub fn advance(
        &mut self,
        reverted: usize,
        applied: Vec<Arc<Block>>,
        safe: Option<B256>,
        finalized: Option<B256>,
    ) -> Result<HeadDelta, WindowError> {
        let mut next = self.clone();
        let reverted = (0..reverted)
            .map(|_| next.revert())
            .collect::<Result<_, _>>()?;
        for block in &applied {
            next.apply(Arc::clone(block))?;
        }
        if let Some(hash) = safe {
            next.set_safe(hash)?;
        }
        if let Some(hash) = finalized {
            next.set_finalized(hash)?;
        }
        *self = next;
        Ok(HeadDelta { reverted, applied })
    }

    /// Applies a child of the head.
    ///
    /// # Errors
    /// [`WindowError::NotAChild`].
    pub fn apply(&mut self, block: Arc<Block>) -> Result<(), WindowError> {
        let head = self.snapshot.head();
        if block.header.parent_hash != head.hash
            || Some(block.number()) != head.number().checked_add(1)
        {
            let (number, hash, head) = (block.number(), block.hash, head.hash);
            return Err(WindowError::NotAChild { number, hash, head });
        }
        let bytes = block.bytes();
        // A reorg may return to a block that an earlier one replaced.
        self.release_replaced_if(|replaced| replaced.hash == block.hash);
        let snapshot = changed(&mut self.snapshot);
        snapshot.transactions.add_newest(&block);
        snapshot.held.insert(block.hash, Arc::clone(&block));
        snapshot.canonical.push(block);
        let before = snapshot.suggested_tips.last().copied();
        let tip = suggested_tip(&snapshot.canonical, before);
        snapshot.suggested_tips.push(tip);
        self.bytes.canonical = self.bytes.canonical.saturating_add(bytes);
        if snapshot.canonical.len() > WINDOW_BLOCKS {
            self.release_oldest();
        }
        self.keep_budget();
        Ok(())
    }

    /// Adds the parent of the oldest block. A window that began with an upstream's head is filled
    /// this way.
    ///
    /// A safe or finalized block of this number is forgotten if its hash differs: it is not on this
    /// chain, and the window never showed that it was.
    ///
    /// # Errors
    /// [`WindowError::Full`], after which the window counts as filled ([`Snapshot::is_filled`]);
    /// [`WindowError::NotTheParent`]; [`WindowError::Finalized`] if the window began again on a
    /// chain that lacks the finalized block.
    pub fn extend_below(&mut self, block: Arc<Block>) -> Result<(), WindowError> {
        let oldest = &self.snapshot.canonical[0];
        let (number, hash) = (block.number(), block.hash);
        if self.snapshot.canonical.len() == WINDOW_BLOCKS {
            return Err(WindowError::Full);
        }
        let parent = oldest.header.parent_hash;
        if hash != parent || number.checked_add(1) != Some(oldest.number()) {
            return Err(WindowError::NotTheParent {
                number,
                hash,
                parent,
            });
        }
        self.check_irreversible(number, hash)?;
        let bytes = block.bytes();
        let canonical = self.bytes.canonical.saturating_add(bytes);
        let is_optional = self.snapshot.canonical.len() >= CANONICAL_BLOCKS_MIN;
        if canonical > self.limits.bytes && is_optional {
            if !self.snapshot.is_cut_short {
                changed(&mut self.snapshot).is_cut_short = true;
            }
            return Err(WindowError::Full);
        }
        let snapshot = changed(&mut self.snapshot);
        snapshot.transactions.add_oldest(&block);
        snapshot.held.insert(hash, Arc::clone(&block));
        if number == 0 {
            snapshot.genesis = Some(Arc::clone(&block));
        }
        snapshot.canonical.insert(0, block);
        // Some samples at the blocks above it were missing.
        snapshot.suggested_tips = suggested_tips(&snapshot.canonical);
        self.reach_settled(number, hash);
        self.bytes.canonical = canonical;
        self.keep_budget();
        Ok(())
    }

    /// Keeps the genesis, without its state, for a window that began above it. A genesis that is
    /// already held stays.
    ///
    /// Until the window reaches block 0, the source is trusted to supply the chain's genesis. A
    /// safe or finalized block 0 with another hash is forgotten.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`] if the block's number is not 0.
    pub fn keep_genesis(&mut self, block: &Block) -> Result<(), WindowError> {
        if block.number() != 0 {
            return Err(WindowError::NotCanonical { hash: block.hash });
        }
        if self.snapshot.genesis.is_none() {
            let snapshot = changed(&mut self.snapshot);
            snapshot.genesis = Some(Arc::new(block.without_state()));
            self.reach_settled(0, block.hash);
        }
        Ok(())
    }

    /// Starts the window again with `first`, after a reorg that is deeper than the window. It keeps
    /// the genesis, and the finalized block if the window had shown that it was canonical; safe is
    /// unknown until the source names it again.
    ///
    /// # Errors
    /// [`WindowError::Finalized`] if `first` shows by its number or its known ancestors that the
    /// finalized block is not on its chain. Further below, [`Self::extend_below`] finds out; the
    /// source has to know before.
    pub fn reset(&mut self, first: Arc<Block>) -> Result<HeadDelta, WindowError> {
        self.check_chain(&first)?;
        let kept = self.irreversible;
        let before = Arc::clone(&self.snapshot);
        let applied = vec![Arc::clone(&first)];
        *self = Self::with_limits(before.chain.clone(), first, self.limits);
        self.irreversible = kept;
        let snapshot = Arc::make_mut(&mut self.snapshot);
        snapshot.version = before.version + 1;
        snapshot.finalized = kept;
        snapshot.past = all_past(&before);
        let genesis = before.genesis.as_ref();
        let genesis = genesis.map(|genesis| Arc::new(genesis.without_state()));
        snapshot.genesis = snapshot.genesis.take().or(genesis);
        let reverted = before.canonical.iter().rev().cloned().collect();
        Ok(HeadDelta { reverted, applied })
    }

    /// Reverts the head; it stays readable by hash until its number falls below the window.
    ///
    /// If it was safe, that tag is unknown until the source names another block: the source never
    /// gave the tag to its parent.
    ///
    /// # Errors
    /// [`WindowError::NothingToRevert`], and [`WindowError::Finalized`] if the head is finalized.
    pub(super) fn revert(&mut self) -> Result<Arc<Block>, WindowError> {
        if self.snapshot.canonical.len() == 1 {
            return Err(WindowError::NothingToRevert);
        }
        self.check_revert()?;
        let snapshot = changed(&mut self.snapshot);
        let block = snapshot
            .canonical
            .pop()
            .ok_or(WindowError::NothingToRevert)?;
        snapshot.suggested_tips.pop();
        snapshot.transactions.remove_newest(&block);
        let bytes = block.bytes();
        self.bytes.canonical = self.bytes.canonical.saturating_sub(bytes);
        self.bytes.replaced = self.bytes.replaced.saturating_add(bytes);
        self.replaced.push_back(Arc::clone(&block));
        self.forget_reverted(block.hash);
        if self.replaced.len() > REPLACED_BLOCKS_MAX {
            self.release_replaced();
        }
        self.keep_budget();
        Ok(block)
    }

    /// Indexes the transactions of the latest change, which [`Self::advance`] defers so that a new
    /// head is readable sooner. Look-ups give the same answers before and after, and the version
    /// stays.
    pub fn index_pending(&mut self) {
        if !self.snapshot.transactions.is_complete() {
            Arc::make_mut(&mut self.snapshot)
                .transactions
                .index_pending();
        }
    }

    /// Releases blocks until the rest is within the budgets.
    fn keep_budget(&mut self) {
        while self.bytes.replaced > self.limits.replaced_bytes && self.release_replaced() {}
        while self.bytes.total() > self.limits.bytes {
            if self.release_replaced() {
                continue;
            }
            if self.snapshot.canonical.len() <= CANONICAL_BLOCKS_MIN {
                break;
            }
            changed(&mut self.snapshot).is_cut_short = true;
            self.release_oldest();
        }
    }

    /// Releases the block that was replaced first; returns whether there was one.
    fn release_replaced(&mut self) -> bool {
        let Some(first) = self.replaced.pop_front() else {
            return false;
        };
        self.bytes.replaced = self.bytes.replaced.saturating_sub(first.bytes());
        release(changed(&mut self.snapshot), &first.hash);
        true
    }

    /// Releases the oldest canonical block, and the replaced blocks that are then below the window.
    fn release_oldest(&mut self) {
        let snapshot = changed(&mut self.snapshot);
        let oldest = snapshot.canonical.remove(0);
        snapshot.suggested_tips.remove(0);
        snapshot.transactions.remove_oldest(&oldest);
        release(snapshot, &oldest.hash);
        if oldest.number() == 0 {
            snapshot.genesis = Some(Arc::new(oldest.without_state()));
        }
        self.bytes.canonical = self.bytes.canonical.saturating_sub(oldest.bytes());
        self.release_replaced_if(|replaced| replaced.number() <= oldest.number());
    }

    /// Releases the replaced blocks for which `goes` holds.
    fn release_replaced_if(&mut self, goes: impl Fn(&Block) -> bool) {
        let snapshot = changed(&mut self.snapshot);
        let bytes = &mut self.bytes.replaced;
        self.replaced.retain(|block| {
            let goes = goes(block);
            if goes {
                *bytes = bytes.saturating_sub(block.bytes());
                release(snapshot, &block.hash);
            }
            !goes
        });
    }
}

/// Removes a block, whose hash stays known.
fn release(snapshot: &mut Snapshot, hash: &B256) {
    snapshot.held.remove(hash);
    Arc::make_mut(&mut snapshot.past).add(*hash);
}

/// The hashes that stay known when the window starts again: its blocks are all replaced.
fn all_past(before: &Snapshot) -> Arc<PastHashes> {
    let mut past = Arc::clone(&before.past);
    let changed = Arc::make_mut(&mut past);
    before.held.keys().for_each(|hash| changed.add(*hash));
    past
}

/// The snapshot to change, with the next version; other handles keep the previous one.
pub(super) fn changed(snapshot: &mut Arc<Snapshot>) -> &mut Snapshot {
    let snapshot = Arc::make_mut(snapshot);
    snapshot.version += 1;
    snapshot
}
