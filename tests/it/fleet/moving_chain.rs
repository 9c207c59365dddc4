//! A chain with reorgs that goes on by itself.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use alloy_primitives::B256;

use crate::{
    harness::wait_until,
    node::driven_geth::DrivenGeth,
    upstreams::{Payload, paced_steps},
};

/// The blocks of a chain, of which each step makes some the head.
pub(super) struct MovingChain {
    pub(super) genesis: PathBuf,
    steps: Vec<Vec<Payload>>,
    /// Steps that were taken.
    taken: usize,
}

impl MovingChain {
    /// So many steps, with a reorg after each `every` blocks that replaces `depth` of them.
    pub(super) fn make(name: &str, seed: u64, count: u64, [every, depth]: [u64; 2]) -> Self {
        // A process that follows a node waits about one block time.
        let (genesis, steps) = paced_steps(name, seed, count, (every, depth), 1);
        Self {
            genesis,
            steps,
            taken: 0,
        }
    }

    /// All blocks, also those that are replaced.
    pub(super) fn blocks(&self) -> HashSet<(u64, B256)> {
        let all = self.steps.iter().flatten();
        all.map(|block| (block.number, block.hash)).collect()
    }

    /// The head after the next step.
    pub(super) fn next(&self) -> (u64, B256) {
        let block = self.steps[self.taken].last().unwrap();
        (block.number, block.hash)
    }

    /// Takes so many steps; returns the head.
    pub(super) fn take(&mut self, count: usize, geth: &mut DrivenGeth) -> (u64, B256) {
        let begin = self.taken;
        self.taken += count;
        let steps = &self.steps[begin..self.taken];
        let heads = steps.iter().map(|step| geth.step(step));
        heads.last().unwrap()
    }
}

/// What takes one step after another.
pub(super) struct Driver<'a> {
    driven: Mutex<(&'a mut MovingChain, &'a mut DrivenGeth)>,
    is_stopped: AtomicBool,
}

/// While this is held, the head stays.
pub(super) struct Pause<'p, 'a> {
    /// The head.
    pub(super) head: (u64, B256),
    _driven: MutexGuard<'p, (&'a mut MovingChain, &'a mut DrivenGeth)>,
}

impl<'a> Driver<'a> {
    pub(super) fn of(chain: &'a mut MovingChain, geth: &'a mut DrivenGeth) -> Self {
        Self {
            driven: Mutex::new((chain, geth)),
            is_stopped: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (&'a mut MovingChain, &'a mut DrivenGeth)> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a step after each of these times, until it is stopped or one is left.
    pub(super) fn run(&self, step_time: Duration) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let mut driven = self.lock();
            let (chain, geth) = &mut *driven;
            if chain.taken + 1 == chain.steps.len() {
                return;
            }
            chain.take(1, geth);
            drop(driven);
            thread::park_timeout(step_time);
        }
    }

    /// Waits until so many further steps are taken, however slow the machine is.
    #[track_caller]
    pub(super) fn wait_steps(&self, count: usize) {
        let taken = || self.lock().0.taken;
        let (now, all) = (taken(), self.lock().0.steps.len());
        for step in now..(now + count).min(all - 1) {
            wait_until("a step of the chain", || taken() > step);
        }
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Keeps the head until what is returned is dropped.
    pub(super) fn pause(&self) -> Pause<'_, 'a> {
        let driven = self.lock();
        let (chain, _) = &*driven;
        let block = chain.steps[chain.taken - 1].last().unwrap();
        Pause {
            head: (block.number, block.hash),
            _driven: driven,
        }
    }
}
