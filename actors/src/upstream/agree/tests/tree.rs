//! The blocks of a simulated chain and of its forks.

use super::*;

/// A block by its place in the tree.
pub(super) type Id = usize;

#[derive(Clone, Copy, Debug)]
pub(super) struct SimBlock {
    pub(super) number: u64,
    pub(super) parent: Id,
    /// Whether it was ever on the honest chain.
    pub(super) is_honest: bool,
    /// Whether it keeps the rules of headers.
    pub(super) is_valid: bool,
    pub(super) bytes: u64,
}

/// All blocks that exist. The hash of a block is its place.
pub(super) struct Tree {
    blocks: Vec<SimBlock>,
}

pub(super) const HONEST: SimBlock = SimBlock {
    number: 0,
    parent: 0,
    is_honest: true,
    is_valid: true,
    bytes: 1,
};

impl Tree {
    /// A chain of honest blocks, and its head.
    pub(super) fn new(head: u64) -> (Self, Id) {
        let mut tree = Self {
            blocks: vec![HONEST],
        };
        let tip = (0..head).fold(0, |tip, _| tree.add(tip, HONEST));
        (tree, tip)
    }

    pub(super) fn get(&self, id: Id) -> SimBlock {
        self.blocks[id]
    }

    pub(super) fn point(&self, id: Id) -> Point {
        (self.blocks[id].number, hash(id))
    }

    pub(super) fn add(&mut self, parent: Id, like: SimBlock) -> Id {
        let number = self.blocks[parent].number + 1;
        self.blocks.push(SimBlock {
            number,
            parent,
            ..like
        });
        self.blocks.len() - 1
    }

    /// The block with this hash, if it exists.
    pub(super) fn find(&self, hash: B256) -> Option<Id> {
        let (zeros, id) = hash.split_at(24);
        let id = u64::from_be_bytes(id.try_into().unwrap()) as usize;
        (zeros.iter().all(|byte| *byte == 0) && id < self.blocks.len()).then_some(id)
    }

    /// The ancestor of a block at a number that is not higher.
    pub(super) fn ancestor(&self, mut id: Id, number: u64) -> Option<Id> {
        while self.blocks[id].number > number {
            id = self.blocks[id].parent;
        }
        (self.blocks[id].number == number).then_some(id)
    }

    pub(super) fn claim(&self, id: Id) -> HeadClaim {
        let (number, hash) = self.point(id);
        HeadClaim {
            number,
            hash,
            parent_hash: self::hash(self.blocks[id].parent),
        }
    }
}

pub(super) fn hash(id: Id) -> B256 {
    B256::left_padding_from(&(id as u64).to_be_bytes())
}
