//! The owner of the window.

use std::{collections::VecDeque, sync::Arc};

use alloy_primitives::B256;

use super::{
    limits::{REPLACED_BLOCKS_MAX, WINDOW_BLOCKS},
    snapshot::{SettledBlock, Snapshot},
    transactions::TransactionIndex,
};
use crate::block::Block;

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
}

/// What [`Window::advance`] or [`Window::reset`] changed.
#[derive(Clone, Debug, Default)]
pub struct HeadDelta {
    /// Blocks that are no longer canonical, newest first.
    pub reverted: Vec<Arc<Block>>,
    /// New canonical blocks, oldest first.
    pub applied: Vec<Arc<Block>>,
}

/// Why the window refused a change. A refused change has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The block is not a child of the head.
    #[error("block {number} {hash} does not continue the head {head}")]
    NotAChild {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The head's hash.
        head: B256,
    },
    /// The block is not the parent of the oldest block.
    #[error("block {number} {hash} is not the parent {parent} of the oldest block")]
    NotTheParent {
        /// Its number.
        number: u64,
        /// Its hash.
        hash: B256,
        /// The hash that the oldest block names.
        parent: B256,
    },
    /// The window has no room for an older block.
    #[error("the window is full")]
    Full,
    /// The head is the only block.
    #[error("the oldest block of the window cannot be reverted")]
    NothingToRevert,
    /// The block is not canonical, as far as the window shows.
    #[error("block {hash} is not canonical")]
    NotCanonical {
        /// The hash.
        hash: B256,
    },
}

impl Window {
    /// A window that begins with `first`: the genesis, or an upstream's head, whose ancestors
    /// follow.
    #[must_use]
    pub fn new(chain_id: u64, first: Arc<Block>) -> Self {
        let mut transactions = TransactionIndex::default();
        transactions.add_newest(&first);
        transactions.index_pending();
        Self {
            snapshot: Arc::new(Snapshot {
                chain_id,
                version: 0,
                held: [(first.hash, Arc::clone(&first))].into_iter().collect(),
                transactions,
                genesis: (first.number() == 0).then(|| Arc::clone(&first)),
                canonical: vec![first],
                safe: None,
                finalized: None,
            }),
            replaced: VecDeque::new(),
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
    /// [`WindowError::NothingToRevert`], [`WindowError::NotAChild`], and
    /// [`WindowError::NotCanonical`] for safe or finalized.
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
        // A reorg may return to a block that an earlier one replaced.
        self.replaced.retain(|replaced| replaced.hash != block.hash);
        let snapshot = changed(&mut self.snapshot);
        snapshot.transactions.add_newest(&block);
        snapshot.held.insert(block.hash, Arc::clone(&block));
        snapshot.canonical.push(block);
        if snapshot.canonical.len() > WINDOW_BLOCKS {
            self.release_oldest();
        }
        Ok(())
    }

    /// Adds the parent of the oldest block. A window that began with an upstream's head is filled
    /// this way.
    ///
    /// A safe or finalized block of this number is forgotten if its hash differs: it is not on this
    /// chain.
    ///
    /// # Errors
    /// [`WindowError::Full`], [`WindowError::NotTheParent`].
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
        let snapshot = changed(&mut self.snapshot);
        snapshot.transactions.add_oldest(&block);
        snapshot.held.insert(hash, Arc::clone(&block));
        if number == 0 {
            snapshot.genesis = Some(Arc::clone(&block));
        }
        snapshot.forget_settled_unless(number, hash);
        snapshot.canonical.insert(0, block);
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
            snapshot.forget_settled_unless(0, block.hash);
        }
        Ok(())
    }

    /// Starts the window again with `first`, after a reorg that is deeper than the window. It keeps
    /// only the genesis; safe and finalized are unknown until the source names them again.
    pub fn reset(&mut self, first: Arc<Block>) -> HeadDelta {
        let before = Arc::clone(&self.snapshot);
        let applied = vec![Arc::clone(&first)];
        let Self { snapshot, replaced } = Self::new(before.chain_id, first);
        (self.snapshot, self.replaced) = (snapshot, replaced);
        let snapshot = Arc::make_mut(&mut self.snapshot);
        snapshot.version = before.version + 1;
        let genesis = before.genesis.as_ref();
        let genesis = genesis.map(|genesis| Arc::new(genesis.without_state()));
        snapshot.genesis = snapshot.genesis.take().or(genesis);
        let reverted = before.canonical.iter().rev().cloned().collect();
        HeadDelta { reverted, applied }
    }

    /// Reverts the head; it stays readable by hash until its number falls below the window.
    ///
    /// If it was safe or finalized, that tag is unknown until the source names another block: the
    /// source never gave the tag to its parent. A chain that reverts a finalized block broke its
    /// promise; the window follows the source nevertheless.
    ///
    /// # Errors
    /// [`WindowError::NothingToRevert`].
    pub(super) fn revert(&mut self) -> Result<Arc<Block>, WindowError> {
        if self.snapshot.canonical.len() == 1 {
            return Err(WindowError::NothingToRevert);
        }
        let snapshot = changed(&mut self.snapshot);
        let block = snapshot
            .canonical
            .pop()
            .ok_or(WindowError::NothingToRevert)?;
        snapshot.transactions.remove_newest(&block);
        for settled in [&mut snapshot.safe, &mut snapshot.finalized] {
            settled.take_if(|settled| settled.hash == block.hash);
        }
        self.replaced.push_back(Arc::clone(&block));
        if self.replaced.len() > REPLACED_BLOCKS_MAX
            && let Some(first) = self.replaced.pop_front()
        {
            snapshot.held.remove(&first.hash);
        }
        Ok(block)
    }

    /// Sets the safe block: a canonical block in the window or below it.
    ///
    /// Below the window, the hash must be one of the oldest block's known ancestors or the one set
    /// before. [`Self::set_safe_at`] sets a block further below.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub(super) fn set_safe(&mut self, hash: B256) -> Result<(), WindowError> {
        let settled = self.settled(hash, self.snapshot.safe)?;
        changed(&mut self.snapshot).safe = Some(settled);
        Ok(())
    }

    /// Sets the finalized block, like [`Self::set_safe`].
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub(super) fn set_finalized(&mut self, hash: B256) -> Result<(), WindowError> {
        let settled = self.settled(hash, self.snapshot.finalized)?;
        changed(&mut self.snapshot).finalized = Some(settled);
        Ok(())
    }

    /// Sets the safe block by the number and hash that the source names.
    ///
    /// A block that is so far below the window that no held block names its hash is accepted: the
    /// source is trusted until the window reaches it. Any other block must be canonical.
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub fn set_safe_at(&mut self, number: u64, hash: B256) -> Result<(), WindowError> {
        let settled = Some(self.settled_at(number, hash)?);
        if self.snapshot.safe != settled {
            changed(&mut self.snapshot).safe = settled;
        }
        Ok(())
    }

    /// Sets the finalized block, like [`Self::set_safe_at`].
    ///
    /// # Errors
    /// [`WindowError::NotCanonical`].
    pub fn set_finalized_at(&mut self, number: u64, hash: B256) -> Result<(), WindowError> {
        let settled = Some(self.settled_at(number, hash)?);
        if self.snapshot.finalized != settled {
            changed(&mut self.snapshot).finalized = settled;
        }
        Ok(())
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

    /// Releases the oldest canonical block, and the replaced blocks that are then below the window.
    fn release_oldest(&mut self) {
        let snapshot = changed(&mut self.snapshot);
        let oldest = snapshot.canonical.remove(0);
        snapshot.transactions.remove_oldest(&oldest);
        snapshot.held.remove(&oldest.hash);
        if oldest.number() == 0 {
            snapshot.genesis = Some(Arc::new(oldest.without_state()));
        }
        self.replaced.retain(|replaced| {
            let stays = replaced.number() > oldest.number();
            if !stays {
                snapshot.held.remove(&replaced.hash);
            }
            stays
        });
    }

    fn settled(
        &self,
        hash: B256,
        before: Option<SettledBlock>,
    ) -> Result<SettledBlock, WindowError> {
        let snapshot = &self.snapshot;
        if let Some(before) = before.filter(|before| before.hash == hash) {
            return Ok(before);
        }
        let held = snapshot
            .by_hash(&hash)
            .filter(|block| snapshot.is_canonical(block));
        let number = held.map(|block| block.number()).or_else(|| {
            let ancestors = (0..snapshot.oldest())
                .rev()
                .zip(snapshot.canonical[0].ancestors.iter());
            let mut named = ancestors.filter(|(_, ancestor)| **ancestor == hash);
            named.next().map(|(number, _)| number)
        });
        self.settled_at(number.ok_or(WindowError::NotCanonical { hash })?, hash)
    }

    fn settled_at(&self, number: u64, hash: B256) -> Result<SettledBlock, WindowError> {
        let snapshot = &self.snapshot;
        let named = || {
            let generation =
                usize::try_from(snapshot.oldest().checked_sub(number)?.checked_sub(1)?);
            let ancestors = &snapshot.canonical[0].ancestors;
            ancestors.get(generation.ok()?).copied()
        };
        let genesis = || Some(snapshot.genesis()?.hash).filter(|_| number == 0);
        let held = snapshot.by_number(number).map(|block| block.hash);
        let canonical = held.or_else(genesis).or_else(named);
        if number > snapshot.head().number() || canonical.is_some_and(|canonical| canonical != hash)
        {
            return Err(WindowError::NotCanonical { hash });
        }
        Ok(SettledBlock { number, hash })
    }
}

impl Snapshot {
    /// Forgets a safe or finalized block of this number if it has another hash.
    fn forget_settled_unless(&mut self, number: u64, hash: B256) {
        for settled in [&mut self.safe, &mut self.finalized] {
            settled.take_if(|settled| settled.number == number && settled.hash != hash);
        }
    }
}

/// The snapshot to change, with the next version; other handles keep the previous one.
fn changed(snapshot: &mut Arc<Snapshot>) -> &mut Snapshot {
    let snapshot = Arc::make_mut(snapshot);
    snapshot.version += 1;
    snapshot
}
