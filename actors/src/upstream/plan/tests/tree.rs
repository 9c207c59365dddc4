//! A tree of blocks that have only a number, a hash and a parent.

use alloy_primitives::B256;

use super::{Chain, FetchedBlock, Rng};

/// The number and the parent of each block; block 0 is the genesis.
pub(super) struct Tree {
    blocks: Vec<(u64, Option<usize>)>,
}

impl Tree {
    /// One chain of this many blocks on the genesis.
    pub(super) fn chain(length: usize) -> Self {
        let mut tree = Self {
            blocks: vec![(0, None)],
        };
        tree.grow(0, length);
        tree
    }

    /// A chain with branches at random blocks of it and of each other.
    pub(super) fn random(rng: &mut Rng) -> Self {
        let mut tree = Self::chain(1 + rng.below(400) as usize);
        for _ in 0..rng.below(12) {
            let parent = rng.below(tree.blocks.len() as u64) as usize;
            let length = if rng.below(2) == 0 { 8 } else { 200 };
            tree.grow(parent, 1 + rng.below(length) as usize);
        }
        tree
    }

    /// Adds a branch on top of a block, and returns the last block of the branch.
    pub(super) fn grow(&mut self, parent: usize, length: usize) -> usize {
        (0..length).fold(parent, |parent, _| {
            self.blocks.push((self.blocks[parent].0 + 1, Some(parent)));
            self.blocks.len() - 1
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(super) fn number(&self, block: usize) -> u64 {
        self.blocks[block].0
    }

    pub(super) fn hash(&self, block: usize) -> B256 {
        B256::left_padding_from(&(1 + block as u64).to_be_bytes())
    }

    pub(super) fn by_hash(&self, hash: B256) -> Option<usize> {
        (0..self.blocks.len()).find(|block| self.hash(*block) == hash)
    }

    pub(super) fn parent(&self, block: usize) -> Option<usize> {
        self.blocks[block].1
    }

    /// The ancestor of a block at this number; the block itself at its own number.
    pub(super) fn ancestor(&self, block: usize, number: u64) -> Option<usize> {
        let mut ancestors = std::iter::successors(Some(block), |block| self.parent(*block));
        ancestors.find(|block| self.number(*block) == number)
    }

    pub(super) fn found(&self, block: usize) -> FetchedBlock<usize> {
        FetchedBlock {
            number: self.number(block),
            hash: self.hash(block),
            parent_hash: self
                .parent(block)
                .map_or(B256::ZERO, |parent| self.hash(parent)),
            block,
        }
    }

    /// The window of up to `length` blocks whose head is this block.
    pub(super) fn window(&self, head: usize, length: u64) -> TreeWindow<'_> {
        TreeWindow {
            tree: self,
            head,
            oldest: (self.number(head) + 1).saturating_sub(length),
        }
    }
}

/// A window on one chain of the tree.
pub(super) struct TreeWindow<'a> {
    pub(super) tree: &'a Tree,
    pub(super) head: usize,
    pub(super) oldest: u64,
}

impl Chain for TreeWindow<'_> {
    fn head(&self) -> (u64, B256) {
        (self.tree.number(self.head), self.tree.hash(self.head))
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let block = self.tree.ancestor(self.head, number)?;
        (number >= self.oldest).then(|| self.tree.hash(block))
    }
}
