//! The simulated chain, and the upstreams that state it, truly or not.

use super::{
    kinds::{Kind, Kinds},
    sim_node::{Mode, SimNode},
    tree::{self, HONEST, Id, SimBlock, Tree},
    *,
};
use crate::upstream::test_rng::Rng;

/// Steps per block time; everything happens on a step.
pub(super) const STEPS: u64 = 8;

/// The block times of the schedules.
pub(super) const BLOCK_TIMES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(12),
];

/// Steps for which a node that delays keeps a block back, or its answer about a hash. It counts as
/// stuck if it gives no block for half a block time.
const BLOCK_DELAY: u64 = STEPS / 2 - 1;
const HASH_DELAY: u64 = STEPS;

/// The head at the start.
pub(super) const START: u64 = 80;

/// How deep reorgs are: in most schedules, and in some.
const DEPTH: u64 = 3;
pub(super) const DEPTH_MAX: u64 = 64;

/// Blocks that are finalized are this much deeper than a reorg.
const FINALIZED_BELOW: u64 = 5;

/// How far below the head blocks are safe.
const SAFE_BELOW: u64 = 4;

/// How far below the head liars fork off.
const FORK_MAX: u64 = 16;

/// What kind of schedule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plot {
    /// Fewer than a quorum lie.
    Minority,
    /// At least a quorum lie, and the chain has a finalized or a trusted block.
    Majority,
}

pub(super) struct World {
    pub(super) block_time: Duration,
    pub(super) tree: Tree,
    pub(super) nodes: Vec<SimNode>,
    pub(super) rng: Rng,
    pub(super) step: u64,
    pub(super) quorum: usize,
    pub(super) plot: Plot,
    pub(super) trusted: Option<Id>,
    /// The block that was finalized in an earlier run.
    pub(super) persisted: Option<Id>,
    pub(super) kinds: Kinds,
    /// The step from which on no block is made.
    pub(super) frozen_at: u64,
    /// The highest block that an honest node ever calls finalized; no reorg is deeper.
    pub(super) finalized: u64,
    /// The honest head at each step.
    tips: Vec<Id>,
    /// The head of the chain that the colluding have agreed on.
    colluded: Id,
    /// The head of another chain. The tree has one genesis, which stands for both.
    other: Id,
    /// How many of the first nodes lie.
    liars: u64,
    /// How far below the head the liars fork off.
    fork_depth: u64,
    /// What their blocks are like.
    invented: SimBlock,
    /// Steps until an honest node changes, on average.
    changes_in: u64,
    /// How deep reorgs are.
    depth_max: u64,
    /// The step of the next reorg, at the earliest.
    reorg_at: u64,
    /// The step of the last deep reorg.
    pub(super) deep_reorg_at: u64,
    /// Whether reorgs and changes of nodes happen only when a test asks for them.
    is_calm: bool,
}

impl World {
    /// A random schedule.
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(5);
        let majority = Policy::majority(count as usize) as u64;
        let quorum = match rng.is_one_in(4) {
            true => 1 + rng.below(count),
            false => majority,
        };
        let plot = match rng.is_one_in(4) {
            true => Plot::Majority,
            false => Plot::Minority,
        };
        let block_time = BLOCK_TIMES[rng.below(BLOCK_TIMES.len() as u64) as usize];
        let mut lags: Vec<u64> = (0..count).map(|_| rng.below(STEPS)).collect();
        if rng.is_one_in(4) {
            for lag in &mut lags {
                *lag += if rng.is_one_in(3) { STEPS } else { 0 };
            }
        }
        let mut world = Self::empty(rng, block_time, quorum as usize, &lags);
        world.plot = plot;
        world.liars = match plot {
            Plot::Majority => quorum,
            Plot::Minority => world.rng.below(quorum),
        };
        world.invented.is_valid = !world.rng.is_one_in(4);
        world.invented.bytes = if world.rng.is_one_in(4) { 8 } else { 1 };
        world.fork_depth = 1 + world.rng.below(FORK_MAX);
        world.depth_max = if world.rng.is_one_in(8) {
            DEPTH_MAX
        } else {
            DEPTH
        };
        if world.rng.is_one_in(2) {
            world.changes_in = 30 * STEPS;
        }
        world.require_blocks();
        if world.rng.is_one_in(8) {
            world.frozen_at = 2 * STEPS + world.rng.below(STEPS);
        }
        world.prepare();
        world.note_kinds();
        // Liars are the first nodes, so that the operator's order favours them.
        for node in 0..world.liars as usize {
            world.change_liar(node);
        }
        world
    }

    fn note_kinds(&mut self) {
        let block_time = BLOCK_TIMES.iter().position(|time| *time == self.block_time);
        let block_times = [
            Kind::OneSecond,
            Kind::TwoSeconds,
            Kind::FourSeconds,
            Kind::TwelveSeconds,
        ];
        self.kinds.note(block_times[block_time.unwrap()]);
        let mut honest = self.nodes.iter().skip(self.liars as usize);
        let is_lagging = honest.any(|node| node.late() > 0);
        let is_minority = self.plot == Plot::Minority;
        for (is_it, kind) in [
            (is_lagging, Kind::Lagging),
            (self.persisted.is_some(), Kind::Persisted),
            (self.trusted.is_some() && is_minority, Kind::Trusted),
            (
                self.trusted.is_some() && !is_minority,
                Kind::TrustedCaptured,
            ),
        ] {
            if is_it {
                self.kinds.note(kind);
            }
        }
    }

    /// Notes what a liar of a minority does.
    fn note_lie(&mut self, mode: Mode) {
        let (persisted, trusted) = match mode {
            Mode::Withholding => (Kind::PersistedWithheld, Kind::TrustedWithheld),
            Mode::Denying => (Kind::PersistedDenied, Kind::TrustedDenied),
            Mode::Delaying => return self.kinds.note(Kind::Delaying),
            _ => return,
        };
        if self.persisted.is_some() {
            self.kinds.note(persisted);
        }
        if self.trusted.is_some() {
            self.kinds.note(trusted);
        }
    }

    /// A schedule in which nothing happens but new blocks, and what the test does. Nodes that
    /// collude are honest until they betray.
    pub(super) fn calm(block_time: Duration, quorum: usize, modes: &[Mode]) -> Self {
        let lags: Vec<u64> = (0..modes.len() as u64)
            .map(|node| node * 3 % STEPS)
            .collect();
        let mut world = Self::empty(Rng::new(modes.len() as u64), block_time, quorum, &lags);
        world.is_calm = true;
        world.liars = modes.len() as u64;
        world.prepare();
        for (node, mode) in modes.iter().enumerate() {
            world.nodes[node].betrays = *mode == Mode::Colluding;
            if *mode != Mode::Colluding {
                world.set_mode(node, *mode, world.tip(0));
            }
        }
        world
    }

    /// Sets the blocks that the chain has to contain. No honest reorg replaces them.
    fn require_blocks(&mut self) {
        let finalized = START - self.finalized_below();
        let tip = self.tip(0);
        if self.rng.is_one_in(2) && self.plot == Plot::Majority {
            self.trusted = Some(tip);
        } else if self.rng.is_one_in(4) {
            let below = self.rng.below(finalized);
            self.trusted = self.tree.ancestor(tip, finalized - below);
        }
        if self.rng.is_one_in(3) {
            let below = self.rng.below(finalized.min(FORK_MAX));
            // A trusted block above it would take its place.
            let trusted = self.trusted.map_or(0, |id| self.tree.get(id).number);
            let persisted = self.tree.ancestor(tip, finalized - below);
            self.persisted = persisted.filter(|id| self.tree.get(*id).number > trusted);
        }
    }

    fn empty(rng: Rng, block_time: Duration, quorum: usize, lags: &[u64]) -> Self {
        let nodes = lags.iter().map(|lag| SimNode {
            mode: Mode::Honest,
            lag: *lag,
            own: 0,
            betrays: false,
            asked: (0, 0),
        });
        let (tree, tip) = Tree::new(START);
        Self {
            block_time,
            tree,
            nodes: nodes.collect(),
            rng,
            step: 0,
            quorum,
            plot: Plot::Minority,
            trusted: None,
            persisted: None,
            kinds: Kinds::default(),
            frozen_at: u64::MAX,
            finalized: 0,
            tips: vec![tip],
            colluded: 0,
            other: 0,
            liars: 0,
            fork_depth: FORK_MAX,
            invented: SimBlock {
                is_honest: false,
                ..HONEST
            },
            changes_in: 6 * STEPS,
            depth_max: DEPTH_MAX,
            reorg_at: 0,
            deep_reorg_at: 0,
            is_calm: false,
        }
    }

    /// Makes what depends on the kind of schedule.
    fn prepare(&mut self) {
        self.colluded = self
            .tree
            .ancestor(self.tip(0), START - self.fork_depth)
            .unwrap();
        self.other = (0..=START).fold(0, |tip, _| self.tree.add(tip, self.invented));
        self.finalized = START - self.finalized_below();
    }

    pub(super) fn now(&self) -> Moment {
        self.time_of(self.step)
    }

    /// The time of a step.
    pub(super) fn time_of(&self, step: u64) -> Moment {
        // A start at zero would look as if everything had just been heard.
        Duration::from_secs(100) + self.block_time * step as u32 / STEPS as u32
    }

    /// The steps that this time takes, at least one.
    pub(super) fn steps_in(&self, time: Duration) -> u64 {
        let step = self.block_time / STEPS as u32;
        time.as_micros().div_ceil(step.as_micros()) as u64
    }

    /// The honest head some steps ago.
    pub(super) fn tip(&self, ago: u64) -> Id {
        self.tips[self.step.saturating_sub(ago) as usize]
    }

    /// Whether a block is on the honest chain, or was some steps ago.
    pub(super) fn is_on_chain(&self, id: Id, ago: u64) -> bool {
        self.tree.ancestor(self.tip(ago), self.tree.get(id).number) == Some(id)
    }

    /// Whether a quorum of honest nodes has this block.
    pub(super) fn is_agreed(&self, (number, hash): Point) -> bool {
        let has = |node: &&SimNode| {
            let head = self.tip(node.lag);
            node.is_good() && self.tree.ancestor(head, number).map(tree::hash) == Some(hash)
        };
        self.nodes.iter().filter(has).count() >= self.quorum
    }

    /// The first block of the other chain.
    pub(super) fn other_start(&self) -> Option<Id> {
        self.tree.ancestor(self.other, 1)
    }

    /// The newest block that the honest chain has had for this many steps.
    pub(super) fn common(&self, steps: u64) -> Id {
        let mut common = self.tip(0);
        for ago in 1..=steps {
            while !self.is_on_chain(common, ago) {
                common = self.tree.get(common).parent;
            }
        }
        common
    }

    /// Replaces this many blocks of the honest chain by as many or fewer others. No finalized or
    /// trusted block is replaced.
    pub(super) fn reorg(&mut self, depth: u64, added: u64) {
        let tip = self.tips.pop().unwrap();
        let trusted = self.trusted.map_or(0, |id| self.tree.get(id).number);
        let kept = self.finalized.max(trusted);
        let depth = depth.min(self.tree.get(tip).number.saturating_sub(kept));
        let fork = self.below(tip, depth).unwrap();
        let tip = (0..added.min(depth)).fold(fork, |tip, _| self.tree.add(tip, HONEST));
        self.tips.push(tip);
    }

    /// Begins the next step: blocks are made, and nodes change.
    pub(super) fn advance(&mut self) {
        self.tips.push(self.tip(0));
        self.step += 1;
        if self.step.is_multiple_of(STEPS) && self.step < self.frozen_at {
            if !self.is_calm && self.rng.is_one_in(6) && self.step >= self.reorg_at {
                // With the next block, the new branch is at most a block higher, or one lower.
                let depth = 1 + self.rng.below(self.depth_max);
                let lower = self.rng.below(3);
                self.reorg(depth, depth.saturating_sub(lower));
                self.reorg_at = self.step + 2 * STEPS;
                if depth > DEPTH {
                    self.reorg_at = self.step + 5 * STEPS;
                    self.deep_reorg_at = self.step;
                }
            }
            let tip = self.tree.add(self.tip(0), HONEST);
            self.tips.pop();
            self.tips.push(tip);
            let finalized = self
                .tree
                .get(tip)
                .number
                .saturating_sub(self.finalized_below());
            self.finalized = self.finalized.max(finalized);
            self.colluded = self.tree.add(self.colluded, self.invented);
            for node in 0..self.nodes.len() {
                if matches!(self.nodes[node].mode, Mode::Forked | Mode::ChangingMind) {
                    self.nodes[node].own = self.tree.add(self.nodes[node].own, self.invented);
                }
            }
        }
        if self.is_calm {
            return;
        }
        for node in 0..self.nodes.len() {
            if node as u64 >= self.liars && self.rng.is_one_in(self.changes_in) {
                self.change_honest(node);
            } else if (node as u64) < self.liars && self.rng.is_one_in(STEPS * 10) {
                self.change_liar(node);
            }
        }
    }

    const fn finalized_below(&self) -> u64 {
        self.depth_max + FINALIZED_BELOW
    }

    fn change_honest(&mut self, node: usize) {
        let mode = match self.rng.below(11) {
            0 => Mode::Silent,
            10 => Mode::Gone,
            1 => Mode::Slow(1 + self.rng.below(3 * STEPS)),
            2 => Mode::Stale(1 + self.rng.below(3 * STEPS)),
            3 => Mode::Stuck,
            4 => Mode::RefusesState,
            _ => Mode::Honest,
        };
        let own = self.tip(0);
        self.set_mode(node, mode, own);
    }

    fn change_liar(&mut self, node: usize) {
        let is_captured = self.plot == Plot::Majority;
        let mode = match self.rng.below(13) {
            _ if is_captured && self.step > 0 => return,
            _ if is_captured && self.rng.is_one_in(4) => Mode::OtherChain,
            _ if is_captured => Mode::Colluding,
            0 => Mode::Forked,
            1 => Mode::Inventing,
            2 => Mode::LyingAboutFinality,
            3 => Mode::Extreme,
            4 => Mode::ChangingMind,
            5 => Mode::OtherChain,
            6 => Mode::Obstructing,
            7 => Mode::Racing,
            8 => Mode::Withholding,
            9 => Mode::Denying,
            10 => Mode::Delaying,
            _ => Mode::Colluding,
        };
        if mode == Mode::OtherChain {
            return self.set_mode(node, mode, self.other);
        }
        let depth = self.fork_depth;
        let mut own = self.below(self.tip(0), depth).unwrap_or(0);
        let ahead = match mode {
            Mode::Inventing => depth + [1, 2, 40][self.rng.below(3) as usize],
            _ => depth,
        };
        for _ in 0..ahead {
            own = self.tree.add(own, self.invented);
        }
        self.note_lie(mode);
        if mode == Mode::Colluding && self.step == 0 && is_captured {
            let is_early = self.persisted.is_some() && self.rng.is_one_in(2);
            if !is_early {
                // Honest at first, so that there is something to betray.
                self.set_mode(node, Mode::Honest, own);
                self.nodes[node].betrays = true;
                return;
            }
            self.kinds.note(Kind::PersistedCaptured);
        }
        self.set_mode(node, mode, own);
    }

    /// Lets a captured quorum begin to lie.
    pub(super) fn betray(&mut self) {
        let head = self.below(self.tip(0), self.fork_depth).unwrap_or(0);
        self.colluded = head;
        for _ in 0..=self.fork_depth {
            self.colluded = self.tree.add(self.colluded, self.invented);
        }
        for node in 0..self.liars as usize {
            if std::mem::take(&mut self.nodes[node].betrays) {
                self.set_mode(node, Mode::Colluding, head);
            }
        }
    }

    pub(super) fn set_mode(&mut self, node: usize, mode: Mode, own: Id) {
        let node = &mut self.nodes[node];
        (node.mode, node.own) = (mode, own);
    }

    fn below(&self, id: Id, depth: u64) -> Option<Id> {
        let number = self.tree.get(id).number.checked_sub(depth)?;
        self.tree.ancestor(id, number)
    }

    /// Whether a node may name its head now, and how many steps too late the answer arrives.
    pub(super) fn delay(&self, node: usize) -> Option<u64> {
        match self.nodes[node].mode {
            Mode::Silent => None,
            Mode::Slow(steps) => Some(steps),
            _ => Some(0),
        }
    }

    /// The same for an answer about a hash.
    pub(super) fn hash_delay(&self, node: usize) -> Option<u64> {
        match self.nodes[node].mode {
            Mode::Delaying => Some(HASH_DELAY),
            _ => self.delay(node),
        }
    }

    /// The head of a node's chain, or one of no chain.
    pub(super) fn head(&mut self, node: usize) -> Result<Id, HeadClaim> {
        let mode = match self.nodes[node].mode {
            Mode::ChangingMind => match self.rng.below(5) {
                0 => Mode::Honest,
                1 => Mode::Forked,
                2 => Mode::Extreme,
                3 => Mode::Racing,
                _ => Mode::Colluding,
            },
            mode => mode,
        };
        let lag = self.nodes[node].lag;
        match mode {
            Mode::Stale(steps) if self.rng.is_one_in(2) => Ok(self.tip(lag + steps)),
            Mode::Forked | Mode::Inventing | Mode::OtherChain | Mode::Stuck => {
                Ok(self.nodes[node].own)
            }
            Mode::Colluding => Ok(self.colluded),
            Mode::Racing => {
                let ahead = 1 + self.rng.below(2);
                let tip = self.tip(0);
                Ok((0..ahead).fold(tip, |tip, _| self.tree.add(tip, self.invented)))
            }
            Mode::Extreme => Err(self.nonsense()),
            _ => Ok(self.tip(lag)),
        }
    }

    fn nonsense(&mut self) -> HeadClaim {
        let real = self.tip(0);
        let number = match self.rng.below(5) {
            0 => u64::MAX,
            1 => u64::MAX - 1,
            2 => 0,
            3 => self.rng.below(u64::MAX),
            _ => self.tree.get(real).number + self.rng.below(3),
        };
        let hash = match self.rng.below(3) {
            0 => tree::hash(real),
            1 => tree::hash(self.rng.below(START) as usize),
            _ => B256::repeat_byte(self.rng.below(250) as u8 + 1),
        };
        let parent_hash = match self.rng.is_one_in(2) {
            true => tree::hash(self.tree.get(real).parent),
            false => B256::repeat_byte(9),
        };
        HeadClaim {
            number,
            hash,
            parent_hash,
        }
    }

    /// What a node answers for the hash at a number.
    pub(super) fn hash_at(&mut self, node: usize, number: u64) -> Option<B256> {
        let mode = self.nodes[node].mode;
        let is_required = || {
            let required = self.trusted.into_iter().chain(self.persisted);
            let mut numbers = required.map(|id| self.tree.get(id).number);
            numbers.any(|required| required == number)
        };
        if mode == Mode::Obstructing || mode == Mode::Denying && is_required() {
            return Some(tree::hash(self.other));
        }
        match self.head(node) {
            Ok(head) if mode == Mode::Withholding && number < self.tree.get(head).number => None,
            Ok(head) => self.tree.ancestor(head, number).map(tree::hash),
            Err(claim) => self.rng.is_one_in(2).then_some(claim.hash),
        }
    }

    /// What a node calls safe and finalized.
    pub(super) fn settled(&mut self, node: usize) -> SettledBlocks {
        let Ok(head) = self.head(node) else {
            let [safe, finalized] = [self.nonsense(), self.nonsense()];
            return SettledBlocks {
                safe: Some((safe.number, safe.hash)),
                finalized: Some((finalized.number, finalized.hash)),
            };
        };
        let is_lie = self.nodes[node].mode == Mode::LyingAboutFinality;
        let [safe, finalized] = match is_lie {
            true => [self.rng.below(3), self.rng.below(3)],
            false => [SAFE_BELOW, self.finalized_below()],
        };
        let at = |depth| self.below(head, depth).map(|id| self.tree.point(id));
        SettledBlocks {
            safe: at(safe),
            finalized: at(finalized),
        }
    }

    /// Whether a node gives a block. Liars give what they like.
    pub(super) fn gives(&mut self, node: usize, id: Id) -> bool {
        let mode = self.nodes[node].mode;
        match mode {
            Mode::Silent | Mode::Gone | Mode::Obstructing => false,
            Mode::Delaying if self.delays_block(node, id) => false,
            _ if mode.gives_honest_blocks() => self.tree.get(id).is_honest,
            _ => !self.rng.is_one_in(4),
        }
    }

    fn delays_block(&mut self, node: usize, id: Id) -> bool {
        let asked = &mut self.nodes[node].asked;
        if asked.0 != id {
            *asked = (id, self.step);
        }
        self.step < asked.1 + BLOCK_DELAY
    }
}
