//! Thousands of seeded changes, compared with a simple model of the window.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod model;

use std::sync::Arc;

use alloy_primitives::B256;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use self::model::{TRANSACTIONS, WindowModel, sum};
use super::{
    Snapshot, WINDOW_BLOCKS, Window, WindowError, WindowLimits, limits::CANONICAL_BLOCKS_MIN,
};
use crate::{
    block::{ANCESTORS_MAX, Block},
    campaign,
    test_block::TestBlock,
};

/// A window, its model, and the random numbers.
struct Simulation {
    rng: ChaCha8Rng,
    window: Window,
    model: WindowModel,
    made: Vec<Arc<Block>>,
    /// Snapshots that readers still hold, each with the model of its time.
    readers: Vec<(Arc<Snapshot>, WindowModel)>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let genesis = TestBlock::default().genesis();
        // A typical block: most of it is the hashes of its ancestors.
        let block = genesis.bytes() + ANCESTORS_MAX * size_of::<B256>();
        let [bytes, replaced_bytes] = match seed % 4 {
            1 => [80, 8],
            2 => [40, 60],
            3 => [7, 3],
            _ => [1 << 20, 1 << 20],
        }
        .map(|blocks| blocks * block);
        let limits = WindowLimits {
            bytes,
            replaced_bytes,
        };
        let model = WindowModel {
            chain: vec![Arc::clone(&genesis)],
            left: 0,
            replaced: Vec::new(),
            settled: [None; 2],
            irreversible: None,
            limits,
            is_cut_short: false,
        };
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            window: Window::with_limits(1, Arc::clone(&genesis), limits),
            model,
            made: vec![genesis],
            readers: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.next_u32() as usize % bound
    }

    /// A child of `parent`: a new one, or sometimes one that was made before.
    fn child_of(&mut self, parent: &Arc<Block>) -> Arc<Block> {
        let known = self.made.iter().rev().take(50);
        let known = known.filter(|block| block.header.parent_hash == parent.hash);
        let known: Vec<_> = known.cloned().collect();
        if !known.is_empty() && self.below(2) == 0 {
            let pick = self.below(known.len());
            return Arc::clone(&known[pick]);
        }
        let count = self.below(4);
        let transactions =
            (0..count).map(|_| (u64::from(self.rng.next_u32()) % TRANSACTIONS, Vec::new()));
        let block = TestBlock {
            transactions: transactions.collect(),
            salt: self.made.len() as u64,
        };
        let block = block.child_of(parent);
        self.made.push(Arc::clone(&block));
        block
    }

    fn any_hash(&mut self) -> B256 {
        if self.below(10) == 0 {
            return B256::ZERO;
        }
        let recent = self.made.len().min(500);
        let pick = self.made.len() - 1 - self.below(recent);
        self.made[pick].hash
    }

    /// A block to finalize: rarely a recent one, because no reorg goes below it afterwards.
    fn any_final_hash(&mut self) -> B256 {
        if self.below(30) == 0 {
            return self.any_hash();
        }
        let depth = 60 + self.below(300);
        let chain = &self.model.chain;
        chain[(chain.len() - 1).saturating_sub(depth)].hash
    }

    fn advance(&mut self) {
        let mut next = self.model.clone();
        let depth = match self.below(20) {
            0 => self.below(140),
            1..4 => self.below(6),
            _ => 0,
        };
        let possible = next.chain.len() > depth && next.may_revert(depth);
        let reverted = depth.min(next.served().len() - 1);
        (0..reverted).for_each(|_| next.revert());
        let surplus = self.below(4);
        let mut applied = Vec::new();
        for _ in 0..(reverted + surplus) {
            let block = self.child_of(&next.chain[next.chain.len() - 1].clone());
            next.apply(&block);
            applied.push(block);
        }
        let is_broken = applied.len() > 1 && self.below(10) == 0;
        if is_broken {
            let last = applied.len() - 1;
            applied.swap(0, last);
        }
        let safe = (self.below(4) == 0).then(|| self.any_hash());
        let finalized = (self.below(4) == 0).then(|| self.any_final_hash());
        let settled = [safe, finalized];
        let settles = (0..).zip(settled).fold(true, |all, (which, hash)| {
            hash.is_none_or(|hash| next.settle(which, hash)) && all
        });
        let result = self.window.advance(depth, applied, settled[0], settled[1]);
        assert_eq!(result.is_ok(), possible && !is_broken && settles);
        if result.is_ok() {
            self.model = next;
        }
    }

    fn reset(&mut self) {
        let depth = self.below(self.model.chain.len().min(160));
        let length = self.model.chain.len() - depth;
        let mut branch = Vec::new();
        for _ in 0..1 + self.below(4) {
            let parent = branch.last().unwrap_or(&self.model.chain[length - 1]);
            let block = self.child_of(&Arc::clone(parent));
            branch.push(block);
        }
        let first = Arc::clone(&branch[branch.len() - 1]);
        let version = self.window.snapshot().version();
        let hash_at = |number: usize| {
            let new = number.checked_sub(length).map(|at| branch.get(at));
            let block = new.unwrap_or(Some(&self.model.chain[number.min(length - 1)]));
            block.map(|block| block.hash)
        };
        if let Some(number) = self.model.irreversible
            && hash_at(number) != Some(self.model.chain[number].hash)
        {
            let (number, hash) = (number as u64, self.model.chain[number].hash);
            let refused = self.window.reset(first).unwrap_err();
            assert_eq!(refused, WindowError::Finalized { number, hash });
            assert_eq!(self.window.snapshot().version(), version);
            return;
        }
        let served = self.model.served().iter().rev().map(|block| block.hash);
        let reverted: Vec<_> = served.collect();
        self.model.reset(length, &branch);
        let delta = self.window.reset(first).unwrap();
        assert_eq!(self.window.snapshot().version(), version + 1);
        assert!(delta.reverted.iter().map(|block| block.hash).eq(reverted));
        assert_eq!(delta.applied[0].hash, self.window.snapshot().head().hash);
    }

    /// Extends the window with older blocks, and sometimes tries a wrong one.
    fn extend(&mut self) {
        for _ in 0..1 + self.below(40) {
            let is_full = self.model.served().len() == WINDOW_BLOCKS;
            let number = self.model.left.saturating_sub(1);
            let pick = self.below(self.made.len());
            let is_random = self.below(10) == 0;
            let block = if is_random {
                &self.made[pick]
            } else {
                &self.model.chain[number]
            };
            let is_parent = self.model.left > 0 && block.hash == self.model.chain[number].hash;
            let served = self.model.served();
            let is_too_large = served.len() >= CANONICAL_BLOCKS_MIN
                && sum(served) + block.bytes() > self.model.limits.bytes;
            let extended = self.window.extend_below(Arc::clone(block));
            let fits = is_parent && !is_full;
            assert_eq!(extended.is_ok(), fits && !is_too_large);
            self.model.is_cut_short |= fits && is_too_large;
            if extended.is_ok() {
                self.model.left -= 1;
                let finalized = self.model.settled[1];
                let reached = finalized.filter(|number| *number == self.model.left);
                self.model.irreversible = reached.or(self.model.irreversible);
                self.model.trim();
            }
        }
    }

    /// Settles a canonical block, however far below the window it is.
    fn settle_at(&mut self) {
        let number = self.below(self.model.chain.len());
        let hash = self.model.chain[number].hash;
        let which = self.below(2);
        self.model.settle_at(which, number);
        let set = [Window::set_safe_at, Window::set_finalized_at][which];
        set(&mut self.window, number as u64, hash).unwrap();
        let wrong = set(&mut self.window, self.model.chain.len() as u64, hash);
        assert!(wrong.is_err(), "above the head");
    }

    fn step(&mut self) {
        if self.below(300) == 0 {
            self.reset();
        }
        match self.below(12) {
            10 => self.extend(),
            11 => self.settle_at(),
            0 if self.model.served().len() > 1 => {
                let may_revert = self.model.may_revert(1);
                assert_eq!(self.window.revert().is_ok(), may_revert);
                if may_revert {
                    self.model.revert();
                }
            }
            1 => {
                let hash = self.any_hash();
                assert_eq!(
                    self.window.set_safe(hash).is_ok(),
                    self.model.settle(0, hash)
                );
            }
            2 => {
                let hash = self.any_final_hash();
                assert_eq!(
                    self.window.set_finalized(hash).is_ok(),
                    self.model.settle(1, hash)
                );
            }
            3..6 => {
                let block = self.child_of(&self.model.chain[self.model.chain.len() - 1].clone());
                self.model.apply(&block);
                self.window.apply(block).unwrap();
            }
            _ => self.advance(),
        }
        if self.below(2) == 0 {
            let version = self.window.snapshot().version();
            self.window.index_pending();
            assert_eq!(self.window.snapshot().version(), version);
        }
        self.window.check_invariants().unwrap();
    }
}

#[test]
fn every_snapshot_equals_the_model() {
    for seed in 0..campaign::rounds(8, 80) {
        let mut simulation = Simulation::new(seed);
        let (mut left_max, mut replaced_max, mut was_cut_short) = (0, 0, false);
        for step in 0..900 {
            simulation.step();
            let Simulation {
                window,
                model,
                made,
                ..
            } = &simulation;
            let snapshot = window.snapshot();
            left_max = left_max.max(model.left);
            replaced_max = replaced_max.max(model.replaced.len());
            was_cut_short |= model.is_cut_short;
            if step % 10 == 0 {
                // Older blocks are looked up at the end.
                model.check(&snapshot, &made[made.len().saturating_sub(400)..]);
            }
            if step % 60 == 0 {
                simulation.readers.push((snapshot, model.clone()));
            }
        }
        assert!(left_max > 100, "seed {seed} did not move the window");
        let is_bounded = seed % 4 != 0;
        assert!(
            replaced_max > 20 || is_bounded,
            "seed {seed} replaced at most {replaced_max} blocks"
        );
        assert_eq!(was_cut_short, is_bounded, "seed {seed}");
        for (snapshot, model) in &simulation.readers {
            model.check(snapshot, &simulation.made);
        }
    }
}
