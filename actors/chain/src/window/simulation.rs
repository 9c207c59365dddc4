//! Thousands of seeded changes, compared with a simple model of the window.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use alloy_primitives::B256;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::{
    BlockId, BlockNumberOrTag, BlockTag, REPLACED_BLOCKS_MAX, ResolveError, Snapshot,
    WINDOW_BLOCKS, Window,
};
use crate::{
    block::{ANCESTORS_MAX, Block},
    campaign,
    test_block::{TestBlock, transaction_hash},
};

/// Number of distinct transactions: few, so that blocks of one chain, and of two branches, share
/// some.
const TRANSACTIONS: u64 = 300;

/// A window as plain lists that are searched from end to end.
#[derive(Clone)]
struct WindowModel {
    /// Canonical, from block 0.
    chain: Vec<Arc<Block>>,
    /// How many of them have left the window.
    left: usize,
    /// Replaced blocks, the one that was replaced first in front.
    replaced: Vec<Arc<Block>>,
    /// Numbers of the safe and the finalized block.
    settled: [Option<usize>; 2],
}

impl WindowModel {
    fn served(&self) -> &[Arc<Block>] {
        &self.chain[self.left..]
    }

    fn apply(&mut self, block: &Arc<Block>) {
        self.replaced.retain(|replaced| replaced.hash != block.hash);
        self.chain.push(Arc::clone(block));
        self.left = self
            .left
            .max(self.chain.len().saturating_sub(WINDOW_BLOCKS));
        self.replaced
            .retain(|replaced| replaced.number() >= self.left as u64);
    }

    fn revert(&mut self) {
        self.replaced.push(self.chain.pop().unwrap());
        let settled = self
            .settled
            .map(|number| number.filter(|number| *number < self.chain.len()));
        self.settled = settled;
        let surplus = self.replaced.len().saturating_sub(REPLACED_BLOCKS_MAX);
        self.replaced.drain(..surplus);
    }

    /// Replaces the blocks from `length` on with `branch`; the window holds only its last block.
    fn reset(&mut self, length: usize, branch: &[Arc<Block>]) {
        self.chain.truncate(length);
        self.chain.extend(branch.iter().cloned());
        self.left = self.chain.len() - 1;
        self.replaced.clear();
        self.settled = [None; 2];
    }

    /// Makes a hash safe or finalized; returns whether that is allowed.
    fn settle(&mut self, which: usize, hash: B256) -> bool {
        let number = self.chain.iter().position(|block| block.hash == hash);
        let reach = self.left.saturating_sub(ANCESTORS_MAX);
        let known = number.filter(|number| {
            *number == 0 || *number >= reach || self.settled[which] == Some(*number)
        });
        self.settled[which] = known.or(self.settled[which]);
        known.is_some()
    }

    fn by_hash(&self, hash: B256) -> Option<&Arc<Block>> {
        let genesis = &self.chain[..1];
        let mut held = self.served().iter().chain(&self.replaced).chain(genesis);
        held.find(|block| block.hash == hash)
    }

    fn transaction(&self, hash: B256) -> Option<(u64, usize)> {
        self.served().iter().rev().find_map(|block| {
            let index = block
                .transaction_hashes
                .iter()
                .rposition(|found| *found == hash)?;
            Some((block.number(), index))
        })
    }

    fn resolve(&self, number: u64) -> Result<B256, ResolveError> {
        let oldest = self.left as u64;
        if number < oldest {
            return Err(ResolveError::BelowWindow { number, oldest });
        }
        let block = self
            .chain
            .get(number as usize)
            .ok_or(ResolveError::AboveHead { number })?;
        Ok(block.hash)
    }

    fn resolve_id(&self, hash: B256, require_canonical: bool) -> Result<B256, ResolveError> {
        let block = self.by_hash(hash).ok_or(ResolveError::UnknownHash)?;
        let is_replaced = self.replaced.iter().any(|replaced| replaced.hash == hash);
        if is_replaced {
            return if require_canonical {
                Err(ResolveError::NotCanonical)
            } else {
                Ok(hash)
            };
        }
        self.resolve(block.number())
    }

    /// Checks every look-up of a snapshot, for these blocks.
    fn check(&self, snapshot: &Snapshot, made: &[Arc<Block>]) {
        let hash_of = |resolved: Result<&Arc<Block>, _>| resolved.map(|block| block.hash);
        let head = self.chain.len() as u64 - 1;
        assert_eq!(
            (snapshot.head().number(), snapshot.oldest()),
            (head, self.left as u64)
        );
        assert!(
            snapshot
                .canonical()
                .iter()
                .map(|block| block.hash)
                .eq(self.served().iter().map(|block| block.hash))
        );
        for number in 0..head + 3 {
            let at = BlockNumberOrTag::Number(number);
            assert_eq!(hash_of(snapshot.resolve(at)), self.resolve(number));
            let genesis = Some(self.chain[0].hash).filter(|_| number == 0);
            let block = genesis.map_or_else(|| self.resolve(number), Ok);
            assert_eq!(hash_of(snapshot.resolve_block(at)), block);
        }
        for (tag, settled) in [BlockTag::Safe, BlockTag::Finalized]
            .into_iter()
            .zip(self.settled)
        {
            let want = settled.map_or(Err(ResolveError::UnknownTag), |number| {
                self.resolve(number as u64)
            });
            assert_eq!(hash_of(snapshot.resolve(BlockNumberOrTag::Tag(tag))), want);
        }
        for block in made {
            let hash = block.hash;
            let found = snapshot.by_hash(&hash).map(|block| block.number());
            assert_eq!(found, self.by_hash(hash).map(|block| block.number()));
            let is_canonical = self
                .served()
                .iter()
                .chain(&self.chain[..1])
                .any(|canonical| canonical.hash == hash);
            assert_eq!(snapshot.is_canonical(block), is_canonical);
            for require_canonical in [true, false] {
                let id = BlockId::Hash {
                    hash,
                    require_canonical,
                };
                assert_eq!(
                    hash_of(snapshot.resolve_id(id)),
                    self.resolve_id(hash, require_canonical)
                );
            }
        }
        for number in 0..TRANSACTIONS {
            let hash = transaction_hash(number);
            let found = snapshot.transaction(&hash);
            assert_eq!(
                found.map(|(block, index)| (block.number(), index)),
                self.transaction(hash)
            );
            assert!(found.is_none_or(|(block, _)| snapshot.is_canonical(block)));
        }
    }
}

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
        let model = WindowModel {
            chain: vec![Arc::clone(&genesis)],
            left: 0,
            replaced: Vec::new(),
            settled: [None; 2],
        };
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            window: Window::new(1, Arc::clone(&genesis)),
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

    fn advance(&mut self) {
        let mut next = self.model.clone();
        let depth = match self.below(20) {
            0 => self.below(140),
            1..4 => self.below(6),
            _ => 0,
        };
        let possible = depth < next.served().len();
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
        let settled = [0, 1].map(|_| (self.below(4) == 0).then(|| self.any_hash()));
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
        let served = self.model.served().iter().rev().map(|block| block.hash);
        let reverted: Vec<_> = served.collect();
        self.model.reset(length, &branch);
        let first = Arc::clone(&branch[branch.len() - 1]);
        let version = self.window.snapshot().version();
        let delta = self.window.reset(first);
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
            let extended = self.window.extend_below(Arc::clone(block));
            assert_eq!(extended.is_ok(), is_parent && !is_full);
            self.model.left -= usize::from(extended.is_ok());
        }
    }

    /// Settles a canonical block, however far below the window it is.
    fn settle_at(&mut self) {
        let number = self.below(self.model.chain.len());
        let hash = self.model.chain[number].hash;
        let which = self.below(2);
        self.model.settled[which] = Some(number);
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
                self.model.revert();
                self.window.revert().unwrap();
            }
            1 => {
                let hash = self.any_hash();
                assert_eq!(
                    self.window.set_safe(hash).is_ok(),
                    self.model.settle(0, hash)
                );
            }
            2 => {
                let hash = self.any_hash();
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
        let (mut left_max, mut replaced_max) = (0, 0);
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
            if step % 10 == 0 {
                // Older blocks are looked up at the end.
                model.check(&snapshot, &made[made.len().saturating_sub(400)..]);
            }
            if step % 60 == 0 {
                simulation.readers.push((snapshot, model.clone()));
            }
        }
        assert!(left_max > 100, "seed {seed} did not move the window");
        assert!(
            replaced_max > 20,
            "seed {seed} replaced at most {replaced_max} blocks"
        );
        for (snapshot, model) in &simulation.readers {
            model.check(snapshot, &simulation.made);
        }
    }
}
