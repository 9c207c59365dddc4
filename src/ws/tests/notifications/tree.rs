//! The blocks of all sequences: one long chain, and branches that leave it and each other anywhere.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use alloy_primitives::{Address, B256, Bytes, Log};
use nearhead_chain::{
    block::Block,
    log_search::LogFilter,
    test_block::TestBlock,
    window::{WINDOW_BLOCKS, Window},
};
use serde_json::Value;

use super::Rng;

pub(super) struct Tree {
    blocks: Vec<Arc<Block>>,
    /// The logs of each block as JSON.
    pub(super) logs: HashMap<B256, Vec<Value>>,
    by_hash: HashMap<B256, usize>,
    /// Windows to start with, whose heads are on the long chain.
    pub(super) windows: Vec<Window>,
    pub(super) filters: Vec<LogFilter>,
}

/// A change of the head: how many blocks are reverted, and which are applied.
pub(super) struct HeadMove {
    pub(super) reverted: usize,
    pub(super) applied: Vec<Arc<Block>>,
}

const LENGTH: usize = 420;
const BRANCHES: usize = 60;

pub(super) static TREE: LazyLock<Tree> = LazyLock::new(Tree::grow);

fn word(value: usize) -> B256 {
    B256::with_last_byte(value as u8)
}

fn address(value: usize) -> Address {
    Address::with_last_byte(value as u8)
}

impl Tree {
    fn grow() -> Self {
        let mut rng = Rng(11);
        let mut blocks = vec![block(&mut rng, 0).genesis()];
        for salt in 1..LENGTH {
            let next = block(&mut rng, salt as u64).child_of(&blocks[salt - 1]);
            blocks.push(next);
        }
        let mut windows = Vec::new();
        let mut window = Window::new(1, Arc::clone(&blocks[0]));
        for block in &blocks[1..LENGTH - 100] {
            window.apply(Arc::clone(block)).unwrap();
            if block.number() % 50 == 49 {
                windows.push(window.clone());
            }
        }
        for _ in 0..BRANCHES {
            // Each branch leaves the chain or an earlier branch anywhere.
            let mut parent = Arc::clone(&blocks[1 + rng.below(blocks.len() - 1)]);
            for _ in 0..=rng.below(140) {
                parent = block(&mut rng, blocks.len() as u64).child_of(&parent);
                blocks.push(Arc::clone(&parent));
            }
        }
        let logs = blocks.iter().map(|block| (block.hash, logs_of(block)));
        Self {
            logs: logs.collect(),
            by_hash: blocks.iter().map(|block| block.hash).zip(0..).collect(),
            windows,
            filters: (0..40).map(|_| filter(&mut rng)).collect(),
            blocks,
        }
    }

    pub(super) fn block(&self, hash: &B256) -> Option<&Arc<Block>> {
        self.by_hash.get(hash).map(|at| &self.blocks[*at])
    }

    fn parent(&self, block: &Block) -> Option<&Arc<Block>> {
        self.block(&block.header.parent_hash)
    }

    /// The change from `head` to a random block: mostly a few blocks further, sometimes
    /// anywhere.
    pub(super) fn head_move(&self, head: &Arc<Block>, rng: &mut Rng) -> Option<HeadMove> {
        let most = match rng.below(4) {
            0 => WINDOW_BLOCKS,
            1 => 60,
            _ => 5,
        };
        let target = &self.blocks[rng.below(self.blocks.len())];
        let (mut from, mut to) = (head, target);
        let (mut reverted, mut applied) = (0, Vec::new());
        while from.hash != to.hash {
            if from.number() >= to.number() {
                reverted += 1;
                from = self.parent(from)?;
            } else {
                applied.push(Arc::clone(to));
                to = self.parent(to)?;
            }
        }
        applied.reverse();
        applied.truncate(most);
        let is_change = !applied.is_empty() && reverted < 128;
        is_change.then_some(HeadMove { reverted, applied })
    }
}

/// Up to six logs, each of few addresses and topics, in up to two transactions.
fn block(rng: &mut Rng, salt: u64) -> TestBlock {
    let mut log = || {
        let topics = (0..rng.below(5)).map(|_| word(rng.below(3))).collect();
        Log::new_unchecked(address(rng.below(4)), topics, Bytes::new())
    };
    let transactions = (0..2).map(|_| (0..salt as usize % 4).map(|_| log()).collect());
    TestBlock {
        salt,
        transactions: (2 * salt..).zip(transactions).collect(),
    }
}

fn filter(rng: &mut Rng) -> LogFilter {
    let topics = (0..rng.below(4)).map(|_| (0..rng.below(3)).map(|_| word(rng.below(3))).collect());
    LogFilter {
        topics: topics.collect(),
        addresses: (0..rng.below(3)).map(|_| address(rng.below(5))).collect(),
    }
}

fn logs_of(block: &Block) -> Vec<Value> {
    let receipts = block.json().receipts();
    let log = |at| {
        serde_json::from_slice(&receipts[block.json_without_senders().log_range(at).unwrap()])
            .unwrap()
    };
    (0..block.json().log_count()).map(log).collect()
}
