//! The simulated chain, and the upstreams that tell of it, truly or not.

use super::*;

/// Steps per block time; everything happens on a step.
pub(super) const STEPS: u64 = 8;
pub(super) const STEP: Duration = Duration::from_millis(500);

/// The head at the start, and how far below the head blocks are finalized and safe.
const START: u64 = 40;
const FINALIZED_BELOW: u64 = 8;
const SAFE_BELOW: u64 = 4;

/// Pseudorandom numbers (xorshift): equal seeds give equal numbers.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        // SplitMix, so that neighbouring seeds have nothing in common.
        let seed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((seed ^ (seed >> 27)) | 1)
    }

    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(super) const fn is_one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

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

impl Tree {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Honest,
    /// Does not answer.
    Silent,
    /// Answers this many steps late.
    Slow(u64),
    /// Is two replicas, one of them this many steps behind.
    Stale(u64),
    /// Keeps the head that it had when this began.
    Stuck,
    /// Refuses what it is asked to prove for a client, for long.
    RefusesState,
    /// Has a chain of its own, with a block for each block time.
    Forked,
    /// Has a chain of its own that is longer than all others.
    Inventing,
    /// Names honest heads, and calls any block finalized.
    LyingAboutFinality,
    /// Names numbers and hashes without sense.
    Extreme,
    /// Is something else with each answer.
    ChangingMind,
    /// Names the chain that all of these have agreed on.
    Colluding,
    /// Is on another chain, and says so.
    OtherChain,
}

impl Mode {
    /// Whether what it says is true.
    const fn is_true(self) -> bool {
        matches!(
            self,
            Self::Honest
                | Self::Silent
                | Self::Slow(_)
                | Self::Stale(_)
                | Self::Stuck
                | Self::RefusesState
        )
    }
}

pub(super) struct SimNode {
    pub(super) mode: Mode,
    /// Steps until it has a new block.
    lag: u64,
    /// The head of its own chain, or the one that it is stuck at.
    own: Id,
    /// Whether it is honest only until its quorum begins to lie.
    pub(super) betrays: bool,
}

/// What kind of schedule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plot {
    /// Fewer than a quorum lie.
    Minority,
    /// At least a quorum lie, and the chain has a finalized or a trusted block.
    Majority,
}

pub(super) struct World {
    pub(super) tree: Tree,
    pub(super) nodes: Vec<SimNode>,
    pub(super) rng: Rng,
    pub(super) step: u64,
    pub(super) quorum: usize,
    pub(super) plot: Plot,
    pub(super) trusted: Option<Id>,
    /// The honest head at each step.
    tips: Vec<Id>,
    /// The head of the chain that the colluding have agreed on.
    colluded: Id,
    /// The head of another chain. The tree has one genesis, which stands for both.
    other: Id,
    /// The step from which on no block is made.
    pub(super) frozen_at: u64,
    liars: u64,
    /// How far below the head the liars fork off.
    fork_depth: u64,
    invented: SimBlock,
}

const HONEST: SimBlock = SimBlock {
    number: 0,
    parent: 0,
    is_honest: true,
    is_valid: true,
    bytes: 1,
};

impl World {
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
        let liars = match plot {
            Plot::Majority => quorum,
            Plot::Minority => rng.below(quorum),
        };
        let mut tree = Tree {
            blocks: vec![HONEST],
        };
        let mut tip = 0;
        for _ in 0..START {
            tip = tree.add(tip, HONEST);
        }
        let invented = SimBlock {
            is_honest: false,
            is_valid: !rng.is_one_in(4),
            bytes: if rng.is_one_in(4) { 8 } else { 1 },
            ..HONEST
        };
        let fork_depth = 1 + rng.below(2 * FINALIZED_BELOW);
        let colluded = tree.ancestor(tip, START - fork_depth).unwrap();
        let mut other = 0;
        for _ in 0..=START {
            other = tree.add(other, invented);
        }
        let trusted = (plot == Plot::Majority && rng.is_one_in(2)).then_some(tip);
        let nodes = (0..count).map(|_| SimNode {
            mode: Mode::Honest,
            lag: rng.below(STEPS / 2),
            own: tip,
            betrays: false,
        });
        let nodes = nodes.collect();
        let frozen_at = match rng.is_one_in(8) {
            true => 2 * STEPS + rng.below(STEPS),
            false => u64::MAX,
        };
        let mut world = Self {
            tree,
            nodes,
            rng,
            step: 0,
            quorum: quorum as usize,
            plot,
            trusted,
            tips: vec![tip],
            colluded,
            other,
            frozen_at,
            liars,
            fork_depth,
            invented,
        };
        world.choose_liars();
        world
    }

    pub(super) fn now(&self) -> Moment {
        // A start at zero would look as if everything had just been heard.
        Duration::from_secs(100) + STEP * self.step as u32
    }

    /// The honest head some steps ago.
    pub(super) fn tip(&self, ago: u64) -> Id {
        self.tips[self.step.saturating_sub(ago) as usize]
    }

    /// Whether a block is on the honest chain, or was some steps ago.
    pub(super) fn is_on_chain(&self, id: Id, ago: u64) -> bool {
        self.tree.ancestor(self.tip(ago), self.tree.get(id).number) == Some(id)
    }

    /// The highest block that honest nodes call finalized.
    pub(super) fn finalized(&self) -> Option<Id> {
        self.below(self.tip(0), FINALIZED_BELOW)
    }

    /// Begins the next step: blocks are made, and nodes change.
    pub(super) fn advance(&mut self) {
        self.step += 1;
        let mut tip = self.tip(1);
        if self.step.is_multiple_of(STEPS) && self.step < self.frozen_at {
            if self.rng.is_one_in(6) {
                // A reorg; the new branch is as high as the old one, or higher.
                let depth = 1 + self.rng.below(3);
                tip = self.below(tip, depth).unwrap();
                for _ in 0..depth {
                    tip = self.tree.add(tip, HONEST);
                }
            }
            tip = self.tree.add(tip, HONEST);
            self.colluded = self.tree.add(self.colluded, self.invented);
            for node in 0..self.nodes.len() {
                if matches!(self.nodes[node].mode, Mode::Forked | Mode::ChangingMind) {
                    self.nodes[node].own = self.tree.add(self.nodes[node].own, self.invented);
                }
            }
        }
        self.tips.push(tip);
        for node in 0..self.nodes.len() {
            if node as u64 >= self.liars && self.rng.is_one_in(STEPS * 6) {
                self.change_honest(node);
            } else if (node as u64) < self.liars && self.rng.is_one_in(STEPS * 10) {
                self.change_liar(node);
            }
        }
    }

    fn change_honest(&mut self, node: usize) {
        let mode = match self.rng.below(10) {
            0 => Mode::Silent,
            1 => Mode::Slow(1 + self.rng.below(3 * STEPS)),
            2 => Mode::Stale(1 + self.rng.below(3 * STEPS)),
            3 => Mode::Stuck,
            4 => Mode::RefusesState,
            _ => Mode::Honest,
        };
        let own = self.tip(0);
        self.set_mode(node, mode, own);
    }

    /// Liars are the first nodes, so that the operator's order favours them.
    fn choose_liars(&mut self) {
        for node in 0..self.liars as usize {
            self.change_liar(node);
        }
    }

    fn change_liar(&mut self, node: usize) {
        let is_captured = self.plot == Plot::Majority;
        let mode = match self.rng.below(8) {
            _ if is_captured && self.step > 0 => return,
            _ if is_captured && self.rng.is_one_in(4) => Mode::OtherChain,
            _ if is_captured => Mode::Colluding,
            0 => Mode::Forked,
            1 => Mode::Inventing,
            2 => Mode::LyingAboutFinality,
            3 => Mode::Extreme,
            4 => Mode::ChangingMind,
            5 => Mode::OtherChain,
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
        if mode == Mode::Colluding && self.step == 0 && is_captured {
            // Honest at first, so that there is something to betray.
            self.set_mode(node, Mode::Honest, own);
            self.nodes[node].betrays = true;
            return;
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

    fn set_mode(&mut self, node: usize, mode: Mode, own: Id) {
        let node = &mut self.nodes[node];
        (node.mode, node.own) = (mode, own);
    }

    fn below(&self, id: Id, depth: u64) -> Option<Id> {
        let number = self.tree.get(id).number.checked_sub(depth)?;
        self.tree.ancestor(id, number)
    }

    /// Whether a node may name its head now, and how many steps later the answer arrives.
    pub(super) fn delay(&self, node: usize) -> Option<u64> {
        match self.nodes[node].mode {
            Mode::Silent => None,
            Mode::Slow(steps) => Some(steps),
            _ => Some(0),
        }
    }

    /// The head of a node's chain, or one of no chain.
    pub(super) fn head(&mut self, node: usize) -> Result<Id, HeadClaim> {
        let mode = match self.nodes[node].mode {
            Mode::ChangingMind => match self.rng.below(4) {
                0 => Mode::Honest,
                1 => Mode::Forked,
                2 => Mode::Extreme,
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
            0 => hash(real),
            1 => hash(self.rng.below(START) as usize),
            _ => B256::repeat_byte(self.rng.below(250) as u8 + 1),
        };
        let parent_hash = match self.rng.is_one_in(2) {
            true => self::hash(self.tree.get(real).parent),
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
        match self.head(node) {
            Ok(head) => self.tree.ancestor(head, number).map(hash),
            Err(claim) => self.rng.is_one_in(2).then_some(claim.hash),
        }
    }

    /// What a node calls safe and finalized.
    pub(super) fn settled(&mut self, node: usize) -> Settled {
        let Ok(head) = self.head(node) else {
            let [safe, finalized] = [self.nonsense(), self.nonsense()];
            return Settled {
                safe: Some((safe.number, safe.hash)),
                finalized: Some((finalized.number, finalized.hash)),
            };
        };
        let is_lie = self.nodes[node].mode == Mode::LyingAboutFinality;
        let [safe, finalized] = match is_lie {
            true => [self.rng.below(3), self.rng.below(3)],
            false => [SAFE_BELOW, FINALIZED_BELOW],
        };
        let at = |depth| self.below(head, depth).map(|id| self.tree.point(id));
        Settled {
            safe: at(safe),
            finalized: at(finalized),
        }
    }

    /// Whether a node gives a block. Liars give what they like.
    pub(super) fn gives(&mut self, node: usize, id: Id) -> bool {
        match self.nodes[node].mode {
            Mode::Silent => false,
            mode if mode.is_true() => self.tree.get(id).is_honest,
            _ => !self.rng.is_one_in(4),
        }
    }
}
