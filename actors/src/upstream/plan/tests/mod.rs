#![expect(clippy::expect_used, reason = "tests")]

mod backfill;
mod sync_path;
mod tree;

use std::collections::VecDeque;

use super::*;
use crate::upstream::chain::Chain;
use tree::{Dice, Tree, View};

/// Open calls, answered in any order.
struct Node<'a> {
    tree: &'a Tree,
    /// What it has at a number: the chain under this block, and now and then under another.
    head: usize,
    others: Vec<usize>,
    /// One call in this many fails; 0 for none.
    loses_one_in: u64,
    open: VecDeque<Ask>,
    /// How many calls were made, and in progress at the same time.
    asked: usize,
    most_open: usize,
}

impl<'a> Node<'a> {
    fn new(tree: &'a Tree, head: usize) -> Self {
        Self {
            tree,
            head,
            others: Vec::new(),
            loses_one_in: 0,
            open: VecDeque::new(),
            asked: 0,
            most_open: 0,
        }
    }

    fn is_asked(&mut self, asks: Vec<Ask>) {
        self.asked += asks.len();
        self.open.extend(asks);
        self.most_open = self.most_open.max(self.open.len());
    }

    /// Answers one of the open calls.
    fn answers(&mut self, dice: &mut Dice) -> Option<(Ask, Option<FetchedBlock<usize>>)> {
        let at = dice.roll(self.open.len().max(1) as u64) as usize;
        let ask = self.open.swap_remove_back(at)?;
        if self.loses_one_in > 0 && dice.roll(self.loses_one_in) == 0 {
            return Some((ask, None));
        }
        let block = match ask {
            Ask::Hash { hash, .. } => self.tree.by_hash(hash),
            Ask::Number(number) => {
                let chance = dice.roll(1 + self.others.len() as u64) as usize;
                let head = self.others.get(chance).copied().unwrap_or(self.head);
                self.tree.ancestor(head, number)
            }
        };
        Some((ask, block.map(|block| self.tree.found(block))))
    }
}
