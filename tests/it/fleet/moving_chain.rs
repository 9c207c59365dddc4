//! A chain with reorgs that goes on by itself.

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use alloy_primitives::B256;

use crate::{
    harness::wait_until,
    upstreams::{Engine, Payload, paced_steps},
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

    /// Whether the next step replaces blocks.
    fn is_reorg_next(&self) -> bool {
        self.steps[self.taken].len() > 1
    }

    /// Takes so many steps; returns the head.
    pub(super) fn take(&mut self, count: usize, engine: &mut Engine) -> (u64, B256) {
        let begin = self.taken;
        self.taken += count;
        let steps = &self.steps[begin..self.taken];
        steps.iter().for_each(|step| engine.extend(step));
        self.head()
    }

    /// The head after the last step.
    fn head(&self) -> (u64, B256) {
        let block = self.steps[self.taken - 1].last().unwrap();
        (block.number, block.hash)
    }
}

/// What takes one step after another.
pub(super) struct Driver<'a> {
    driven: Mutex<(&'a mut MovingChain, &'a mut Engine)>,
    /// Steps that it may take since the chain was made.
    allowed: AtomicUsize,
    is_stopped: AtomicBool,
}

/// While this is held, the head stays.
pub(super) struct Pause<'p, 'a> {
    /// The head.
    pub(super) head: (u64, B256),
    _driven: MutexGuard<'p, (&'a mut MovingChain, &'a mut Engine)>,
}

/// Stops a driver when this is dropped.
pub(super) struct Ending<'d, 'a>(&'d Driver<'a>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl<'a> Driver<'a> {
    pub(super) fn of(chain: &'a mut MovingChain, engine: &'a mut Engine) -> Self {
        Self {
            driven: Mutex::new((chain, engine)),
            allowed: AtomicUsize::new(usize::MAX),
            is_stopped: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (&'a mut MovingChain, &'a mut Engine)> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a step after each of these times, until it is stopped or one is left.
    pub(super) fn run(&self, step_time: Duration) {
        while !self.is_stopped.load(Ordering::Relaxed) {
            let mut driven = self.lock();
            let (chain, engine) = &mut *driven;
            if chain.taken + 1 == chain.steps.len() {
                return;
            }
            if chain.taken < self.allowed.load(Ordering::Relaxed) {
                chain.take(1, engine);
            }
            drop(driven);
            thread::park_timeout(step_time);
        }
    }

    /// Lets it take so many further steps, and then none until it may again: on a slow machine,
    /// what clients have seen last stays in the window.
    pub(super) fn allow(&self, steps: usize) {
        let taken = self.lock().0.taken;
        self.allowed.store(taken + steps, Ordering::Relaxed);
    }

    /// Takes one step itself; returns the head.
    pub(super) fn step(&self) -> (u64, B256) {
        let mut driven = self.lock();
        let (chain, engine) = &mut *driven;
        chain.take(1, engine)
    }

    /// Takes steps itself until the next one is a reorg, and then none until it may again; returns
    /// the head.
    pub(super) fn go_to_reorg(&self) -> (u64, B256) {
        let mut driven = self.lock();
        let (chain, engine) = &mut *driven;
        self.allowed.store(0, Ordering::Relaxed);
        while !chain.is_reorg_next() {
            chain.take(1, engine);
        }
        chain.head()
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

    /// Stops it when what is returned is dropped, also where a test fails.
    pub(super) const fn ending(&self) -> Ending<'_, 'a> {
        Ending(self)
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Keeps the head until what is returned is dropped.
    pub(super) fn pause(&self) -> Pause<'_, 'a> {
        let driven = self.lock();
        Pause {
            head: driven.0.head(),
            _driven: driven,
        }
    }
}
