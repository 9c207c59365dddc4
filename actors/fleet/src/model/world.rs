//! The true chain, and how blocks are verified.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::{B256, Bytes};

use super::{WINDOW, rng::Rng};
use crate::{
    block_id::{BlockId, EntryBlock},
    chain::HeldChain,
    entry::{Content, Settled},
    fleet_key::digest,
    policy::{Policy, Rule},
    replica::{FalseContent, Verifier},
};

/// Bytes of a block: its number, its parent's hash and a salt.
pub(super) const BLOCK_BYTES: usize = 48;

/// Heads that nodes may still be at.
const HEADS: usize = 4;

/// A block that is consistent in itself: its hash is that of its bytes.
pub(super) fn block(number: u64, parent: B256, salt: u64) -> EntryBlock {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend_from_slice(parent.as_slice());
    bytes.extend_from_slice(&salt.to_be_bytes());
    EntryBlock {
        id: BlockId {
            number,
            hash: digest(&bytes),
        },
        parent,
        bytes: bytes.into(),
    }
}

/// All blocks that have ever been on the true chain.
pub(super) struct World {
    blocks: HashMap<B256, EntryBlock>,
    /// The latest chains, the newest first: a node that is late is at an older one.
    chains: VecDeque<(HeldChain, Settled)>,
}

impl World {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut world = Self {
            blocks: HashMap::new(),
            chains: VecDeque::new(),
        };
        let first = block(1, B256::ZERO, rng.next());
        let mut chain = HeldChain::new(WINDOW);
        chain.push(first.id).unwrap();
        world.blocks.insert(first.id.hash, first);
        world.chains.push_front((chain, Settled::default()));
        for _ in 0..WINDOW {
            world.advance(0, rng);
        }
        world
    }

    /// Replaces this many blocks, and adds one.
    pub(super) fn advance(&mut self, reverted: usize, rng: &mut Rng) {
        let (mut chain, _) = self.chains[0].clone();
        let stays = chain.ids().rev().nth(reverted).unwrap();
        chain.truncate_after(stays);
        for _ in 0..=reverted {
            let head = chain.head().unwrap();
            let block = block(head.number + 1, head.hash, rng.next());
            chain.push(block.id).unwrap();
            self.blocks.insert(block.id.hash, block);
        }
        let number = chain.head().unwrap().number;
        let settled = Settled {
            safe: Some(number.saturating_sub(4)),
            finalized: Some(number.saturating_sub(8)),
        };
        self.chains.push_front((chain, settled));
        self.chains.truncate(HEADS);
    }

    pub(super) fn head(&self) -> BlockId {
        self.chains[0].0.head().unwrap()
    }

    /// What a node has that is late by this many blocks.
    pub(super) fn view(&self, late: usize) -> &(HeldChain, Settled) {
        &self.chains[late.min(self.chains.len() - 1)]
    }

    /// A true block.
    pub(super) fn get(&self, hash: &B256) -> Option<&EntryBlock> {
        self.blocks.get(hash)
    }

    /// The true blocks with these ids.
    pub(super) fn blocks(&self, ids: &[BlockId]) -> Vec<EntryBlock> {
        ids.iter().map(|id| self.blocks[&id.hash].clone()).collect()
    }
}

/// Compares blocks with what their bytes hash to.
pub(super) struct Hashes(pub(super) Policy);

impl Verifier for Hashes {
    type Verified = Vec<(BlockId, Bytes)>;

    fn verify(&mut self, content: &Content) -> Result<Self::Verified, FalseContent> {
        for block in content.blocks() {
            let is_its_hash = digest(&block.bytes) == block.id.hash;
            let is_same = block.bytes.starts_with(&block.id.number.to_be_bytes())
                && block.bytes.get(8..40) == Some(block.parent.as_slice());
            if !(is_its_hash && is_same) && self.0.holds(Rule::Verify) {
                return Err(FalseContent(format!("block {} is false", block.id.number)));
            }
        }
        let blocks = content.blocks().iter();
        Ok(blocks
            .map(|block| (block.id, block.bytes.clone()))
            .collect())
    }
}
