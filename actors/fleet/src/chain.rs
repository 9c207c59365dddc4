//! The hashes of the blocks that a process holds.

use std::collections::VecDeque;

use alloy_primitives::B256;

use crate::block_id::{BlockId, EntryBlock};

/// Consecutive blocks up to the head, by number and hash. Bounded: the oldest make way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldChain {
    ids: VecDeque<BlockId>,
    blocks_max: usize,
}

/// How to get from one chain to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The newest block of both; `None` if they share none.
    pub ancestor: Option<BlockId>,
    /// Hashes above it on the first chain, the newest first.
    pub reverted: Vec<B256>,
    /// Blocks above it on the second chain, the oldest first.
    pub applied: Vec<BlockId>,
}

/// Why blocks cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    /// The common ancestor is not held.
    #[error("the common ancestor {0} is not held")]
    Ancestor(u64),
    /// What is reverted is not what is held above the ancestor.
    #[error("other blocks are held than those that are reverted")]
    Reverted,
    /// A block does not follow the one before it.
    #[error("block {0} does not follow the one before it")]
    Link(u64),
    /// A snapshot has another head than it says.
    #[error("block {0} is not the head of the snapshot")]
    Head(u64),
    /// The finalized block is above the safe one, or that above the head.
    #[error("a settled block is above the head")]
    Settled,
}

impl HeldChain {
    /// No blocks; at most `blocks_max` of them later, and at least one.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self {
            ids: VecDeque::new(),
            blocks_max: blocks_max.max(1),
        }
    }

    /// The head; `None` if there are no blocks.
    #[must_use]
    pub fn head(&self) -> Option<BlockId> {
        self.ids.back().copied()
    }

    /// The blocks, the oldest first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = BlockId> + '_ {
        self.ids.iter().copied()
    }

    /// Whether this block is held, and canonical.
    #[must_use]
    pub fn holds(&self, id: BlockId) -> bool {
        self.index(id).is_some()
    }

    fn index(&self, id: BlockId) -> Option<usize> {
        let first = self.ids.front()?.number;
        let index = usize::try_from(id.number.checked_sub(first)?).ok()?;
        (self.ids.get(index) == Some(&id)).then_some(index)
    }

    /// Adds a block above the head. Its number has to be the next one.
    ///
    /// # Errors
    /// Its number is another one.
    pub fn push(&mut self, id: BlockId) -> Result<(), BrokenChain> {
        let follows = |head: BlockId| head.number.checked_add(1) == Some(id.number);
        if !self.head().is_none_or(follows) {
            return Err(BrokenChain::Link(id.number));
        }
        if self.ids.len() == self.blocks_max {
            self.ids.pop_front();
        }
        self.ids.push_back(id);
        Ok(())
    }

    /// Adds blocks above the head, each of which has to name the one before it as its parent.
    ///
    /// # Errors
    /// One of them does not. The chain then has those before it.
    pub(crate) fn extend(&mut self, blocks: &[EntryBlock]) -> Result<(), BrokenChain> {
        for block in blocks {
            if self.head().is_some_and(|head| head.hash != block.parent) {
                return Err(BrokenChain::Link(block.id.number));
            }
            self.push(block.id)?;
        }
        Ok(())
    }

    /// The chain up to this ancestor, if exactly these blocks are above it, the newest first.
    pub(crate) fn reverted(
        &self,
        ancestor: BlockId,
        reverted: &[B256],
    ) -> Result<Self, BrokenChain> {
        let index = self
            .index(ancestor)
            .ok_or(BrokenChain::Ancestor(ancestor.number))?;
        let above = self.ids.iter().skip(index + 1).rev().map(|id| &id.hash);
        if !above.eq(reverted) {
            return Err(BrokenChain::Reverted);
        }
        let mut chain = self.clone();
        chain.ids.truncate(index + 1);
        Ok(chain)
    }

    /// The chain without what is above this block; unchanged if that is not held.
    pub(crate) fn truncate_after(&mut self, id: BlockId) {
        if let Some(index) = self.index(id) {
            self.ids.truncate(index + 1);
        }
    }

    /// Removes this block and what is below it, if it is held.
    pub fn drop_up_to(&mut self, id: BlockId) {
        if let Some(index) = self.index(id) {
            self.ids.drain(..=index);
        }
    }

    /// How to get from this chain to another.
    #[must_use]
    pub fn path_to(&self, other: &Self) -> Path {
        let ancestor = other.ids().rev().find(|id| self.holds(*id));
        let is_above = |id: &BlockId| ancestor.is_none_or(|ancestor| id.number > ancestor.number);
        Path {
            ancestor,
            reverted: self
                .ids()
                .rev()
                .filter(is_above)
                .map(|id| id.hash)
                .collect(),
            applied: other.ids().filter(is_above).collect(),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn id(number: u64, branch: u8) -> BlockId {
        let hash = B256::repeat_byte(u8::try_from(number).unwrap() | branch << 6);
        BlockId { number, hash }
    }

    fn chain(ids: &[BlockId]) -> HeldChain {
        let mut chain = HeldChain::new(4);
        ids.iter().for_each(|id| chain.push(*id).unwrap());
        chain
    }

    #[test]
    fn a_path_reverts_and_applies_what_two_chains_do_not_share() {
        let one = chain(&[id(1, 0), id(2, 0), id(3, 0)]);
        let other = chain(&[id(1, 0), id(2, 1), id(3, 1), id(4, 1)]);
        let path = one.path_to(&other);
        assert_eq!(path.ancestor, Some(id(1, 0)));
        assert_eq!(path.reverted, [id(3, 0).hash, id(2, 0).hash]);
        assert_eq!(path.applied, [id(2, 1), id(3, 1), id(4, 1)]);
        let reverted = one.reverted(id(1, 0), &path.reverted).unwrap();
        assert_eq!(reverted.head(), Some(id(1, 0)));
        assert_eq!(
            one.reverted(id(2, 0), &path.reverted),
            Err(BrokenChain::Reverted)
        );
        assert_eq!(one.reverted(id(2, 1), &[]), Err(BrokenChain::Ancestor(2)));
    }

    #[test]
    fn chains_without_a_common_block_share_no_path() {
        let path = chain(&[id(1, 0)]).path_to(&chain(&[id(9, 0)]));
        assert_eq!(path.ancestor, None);
        assert_eq!(path.reverted, [id(1, 0).hash]);
        assert_eq!(path.applied, [id(9, 0)]);
    }

    #[test]
    fn a_chain_is_consecutive_and_bounded() {
        let mut chain = chain(&[id(1, 0), id(2, 0), id(3, 0), id(4, 0)]);
        assert_eq!(chain.push(id(6, 0)), Err(BrokenChain::Link(6)));
        chain.push(id(5, 0)).unwrap();
        assert!(!chain.holds(id(1, 0)) && chain.holds(id(2, 0)));
        assert_eq!(chain.ids().count(), 4);
        let block = EntryBlock {
            id: id(6, 0),
            parent: id(5, 1).hash,
            bytes: Vec::new().into(),
        };
        assert_eq!(chain.extend(&[block]), Err(BrokenChain::Link(6)));
    }
}
