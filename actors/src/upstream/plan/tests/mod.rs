#![expect(clippy::expect_used, reason = "tests")]

mod backfill;
mod sync_path;
mod tree;

use std::collections::VecDeque;

use nearhead_chain::campaign;

use super::*;
use crate::upstream::{chain::Chain, test_rng::Rng};
use tree::{Tree, TreeWindow};

/// An upstream that answers open calls in any order.
struct ScriptedUpstream<'a> {
    tree: &'a Tree,
    /// The head of its chain; calls by number are now and then answered from `others`.
    head: usize,
    others: Vec<usize>,
    /// One call in this many fails; 0: none.
    fails_one_in: u64,
    open: VecDeque<Ask>,
    /// The number of calls so far, and the largest number open at the same time.
    asked: usize,
    open_max: usize,
}

impl<'a> ScriptedUpstream<'a> {
    fn new(tree: &'a Tree, head: usize) -> Self {
        Self {
            tree,
            head,
            others: Vec::new(),
            fails_one_in: 0,
            open: VecDeque::new(),
            asked: 0,
            open_max: 0,
        }
    }

    fn receive(&mut self, asks: Vec<Ask>) {
        self.asked += asks.len();
        self.open.extend(asks);
        self.open_max = self.open_max.max(self.open.len());
    }

    /// Answers one of the open calls, if there is any.
    fn answer(&mut self, rng: &mut Rng) -> Option<(Ask, Option<FetchedBlock<usize>>)> {
        let at = rng.below(self.open.len().max(1) as u64) as usize;
        let ask = self.open.swap_remove_back(at)?;
        if self.fails_one_in > 0 && rng.below(self.fails_one_in) == 0 {
            return Some((ask, None));
        }
        let block = match ask {
            Ask::Hash { hash, .. } => self.tree.by_hash(hash),
            Ask::Number(number) => {
                let choice = rng.below(1 + self.others.len() as u64) as usize;
                let head = self.others.get(choice).copied().unwrap_or(self.head);
                self.tree.ancestor(head, number)
            }
        };
        Some((ask, block.map(|block| self.tree.found(block))))
    }
}

/// Blocks and heads with any numbers.
#[test]
fn a_window_stands_any_upstream() {
    for seed in 1..=campaign::rounds(300, 30_000) {
        let mut rng = Rng::new(seed);
        let length = rng.below(200);
        let script: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
        run_script(&script);
    }
}
