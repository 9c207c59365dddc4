//! Changes the window to the chain of an entry.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    remote::StatedHeader,
    window::{SettledBlocks, Snapshot, WINDOW_BLOCKS},
};
use nearhead_fleet::{block_id::BlockId, chain::HeldChain, entry::Settled, replica::Update};

use crate::{
    messages::{AdvanceHead, SettleHead},
    source::SourceError,
    upstream::{BlockBelow, ChangeError, FirstBlock, HeldWindow, TrackerWindow},
};

/// Number and hash of a block.
#[must_use]
pub fn id_of(block: &Block) -> BlockId {
    BlockId {
        number: block.number(),
        hash: block.hash,
    }
}

/// The canonical blocks of a window, by number and hash.
pub(super) fn chain_of(held: Option<&Snapshot>) -> HeldChain {
    let mut chain = HeldChain::new(WINDOW_BLOCKS);
    let blocks = held.map_or(&[][..], |held| held.canonical());
    for block in blocks {
        // The numbers of a window's blocks have no gap.
        let pushed = chain.push(id_of(block));
        debug_assert_eq!(pushed, Ok(()));
    }
    chain
}

/// The settled blocks of a window, in the order that replicas accept: what is finalized is safe.
pub(super) fn settled_of(held: &Snapshot) -> Settled {
    let head = held.head().number();
    let number = |at: Option<(u64, B256)>| at.map(|(number, _)| number.min(head));
    let (safe, finalized) = (number(held.safe()), number(held.finalized()));
    Settled {
        safe: safe.max(finalized),
        finalized,
    }
}

/// The chain of an entry, with the blocks that were made of it.
pub(super) struct WindowUpdate {
    target: HeldChain,
    blocks: HashMap<B256, Arc<Block>>,
    settled: Settled,
    from: Option<BlockId>,
    is_rollback: bool,
}

impl WindowUpdate {
    /// The update that a replica says to apply, to this chain.
    pub(super) fn new(target: HeldChain, update: Update<Vec<Arc<Block>>>) -> Self {
        let blocks = update.verified.into_iter().flatten();
        Self {
            target,
            blocks: blocks.map(|block| (block.hash, block)).collect(),
            settled: update.settled,
            from: update.from,
            is_rollback: update.is_rollback,
        }
    }

    /// The settled blocks of the entry.
    pub(super) const fn settled(&self) -> Settled {
        self.settled
    }

    /// This update in the place of itself and of an earlier one that was not applied.
    pub(super) fn after(mut self, earlier: Self) -> Self {
        let ids: HashSet<B256> = self.target.ids().map(|id| id.hash).collect();
        let blocks = earlier.blocks.into_iter();
        let blocks = blocks.filter(|(hash, _)| ids.contains(hash));
        self.blocks.extend(blocks);
        self
    }

    /// Whether it leads from the head of this window to a lower one of another branch, and the
    /// leader does not say that it went this way: it may merely be behind what the process has from
    /// its own nodes, or from another leader.
    pub(super) fn leads_back(&self, held: Option<&Snapshot>) -> bool {
        let (Some(held), Some(target)) = (held, self.target.head()) else {
            return false;
        };
        let head = id_of(held.head());
        let is_lower = target.number < head.number && !chain_of(Some(held)).holds(target);
        is_lower && self.from != Some(head)
    }

    /// Changes the window, from what it has now: it may have moved since the entry was read. A
    /// window that is ahead on the same chain stays as it is, unless the leader has gone back.
    /// Returns whether the head has changed.
    ///
    /// # Errors
    /// The window is as it was, or begins at the new head, and lacks what is below.
    pub(super) async fn apply(
        &self,
        window: &mut TrackerWindow,
    ) -> Result<bool, ChangeError<SourceError>> {
        let held = window.held();
        let path = chain_of(held.as_deref()).path_to(&self.target);
        let is_changed = match path.applied.is_empty() {
            true => self.is_rollback && !path.reverted.is_empty(),
            false => true,
        };
        match path.ancestor {
            Some(_) if is_changed => {
                let change = AdvanceHead {
                    reverted: path.reverted.len(),
                    applied: self.find(&path.applied, held.as_deref()),
                    safe: None,
                    finalized: None,
                };
                window.advance(change).await?;
            }
            None if is_changed => self.begin(window, held.as_deref()).await?,
            _ => {}
        }
        self.settle(window).await.map_err(ChangeError::Gone)?;
        Ok(is_changed)
    }

    /// Those of these blocks that there are; the window refuses a gap.
    fn find(&self, ids: &[BlockId], held: Option<&Snapshot>) -> Vec<Arc<Block>> {
        let find = |id: &BlockId| {
            let held = || held?.by_hash(&id.hash);
            self.blocks.get(&id.hash).or_else(held).cloned()
        };
        ids.iter().filter_map(find).collect()
    }

    /// Begins the window at the new head, and adds the blocks below it, the newest first: the head
    /// never goes back.
    async fn begin(
        &self,
        window: &mut TrackerWindow,
        held: Option<&Snapshot>,
    ) -> Result<(), ChangeError<SourceError>> {
        let ids: Vec<BlockId> = self.target.ids().collect();
        let mut blocks = self.find(&ids, held);
        let Some(head) = blocks.pop() else {
            return Ok(());
        };
        let parent = blocks.last().map(|parent| StatedHeader::from(&**parent));
        let first = FirstBlock {
            block: head,
            parent: parent.map(Box::new),
        };
        window.reset(first).await?;
        while let Some(block) = blocks.pop() {
            match blocks.last().cloned() {
                Some(parent) => {
                    let parent = Some(parent);
                    window.extend_below(BlockBelow { block, parent }).await?;
                }
                None => window.extend_to_oldest(block).await?,
            }
        }
        Ok(())
    }

    async fn settle(&self, window: &mut TrackerWindow) -> Result<(), SourceError> {
        let Some(held) = window.held() else {
            return Ok(());
        };
        let canonical = |number: u64| {
            let block = held.range(number, number).first()?;
            Some((block.number(), block.hash))
        };
        let now = SettledBlocks {
            safe: self.settled.safe.and_then(canonical),
            finalized: self.settled.finalized.and_then(canonical),
        };
        let is_new = |named: Option<_>, before| named.is_some() && named != before;
        if is_new(now.safe, held.safe()) || is_new(now.finalized, held.finalized()) {
            window.settle(SettleHead(now)).await?;
        }
        Ok(())
    }
}
