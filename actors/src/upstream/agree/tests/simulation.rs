//! Thousands of schedules with honest, broken and lying upstreams, and what must hold after every
//! step.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use nearhead_chain::campaign;

use super::{
    follower::{BYTES_MAX, STALE, SimFollower},
    kinds::{Kind, Kinds},
    sim_node::{Mode, SimNode},
    world::{Plot, STEPS, World},
    *,
};
use crate::upstream::agree::{policy::Rule, stated::Stated};

/// Block times of one schedule.
const BLOCKS: u64 = 18;

/// Steps within which an honest quorum is followed: three block times. On a chain with a block a
/// second, that is enough for a call that was lost, a backoff and the questions for what the chain
/// has to contain; timeouts have a lower bound, which faster chains would exceed.
pub(super) const FOLLOWED: u64 = 3 * STEPS;

/// Questions that one upstream may get in a block time.
const ASKS_MAX: u64 = 16;

/// What a schedule came to.
#[derive(Default)]
struct Outcome {
    heads: u64,
    /// Steps at which an honest quorum had to be followed.
    followed: u64,
    kinds: Kinds,
}

impl Outcome {
    fn add(&mut self, other: &Self) {
        self.heads += other.heads;
        self.followed += other.followed;
        self.kinds.add(&other.kinds);
    }
}

struct Check {
    world: World,
    follower: SimFollower,
    head: Option<Point>,
    finalized: Option<Point>,
    honest_since: u64,
    /// Steps by which the last node of an honest quorum has its blocks late.
    late: u64,
    outcome: Outcome,
}

impl Check {
    fn new(seed: u64, rule: Option<Rule>) -> Self {
        let world = World::new(seed);
        Self {
            follower: SimFollower::new(&world, rule),
            head: None,
            finalized: world.persisted.map(|id| world.tree.point(id)),
            world,
            honest_since: 0,
            late: 0,
            outcome: Outcome::default(),
        }
    }

    fn run(mut self) -> Result<Outcome, String> {
        for _ in 0..BLOCKS * STEPS {
            self.world.advance();
            if self.world.step == 6 * STEPS && self.world.plot == Plot::Majority {
                self.world.betray();
            }
            self.follower.step(&mut self.world);
            if let Err(broken) = self.check() {
                let modes: Vec<Mode> = self.world.nodes.iter().map(|node| node.mode).collect();
                let step = self.world.step;
                let (quorum, choice) = (self.world.quorum, self.follower.choice);
                let block_time = self.world.block_time;
                return Err(format!(
                    "{block_time:?}, step {step}, quorum {quorum} of {modes:?}, {choice:?}: {broken}"
                ));
            }
        }
        self.outcome.kinds.add(&self.world.kinds);
        Ok(self.outcome)
    }

    /// The invariants.
    fn check(&mut self) -> Result<(), String> {
        self.check_blocks()?;
        self.check_finalized()?;
        self.check_followed()?;
        self.check_memory()?;
        let stale = self.world.step - self.follower.changed_at >= STALE;
        if stale && self.follower.is_ready(self.world.step) {
            return Err("ready with an old head".to_owned());
        }
        Ok(())
    }

    /// No block outside the honest tree is served while fewer than the quorum lie. No block with a
    /// broken header is served, and none of a chain without the trusted block.
    fn check_blocks(&mut self) -> Result<(), String> {
        let Some(held) = &self.follower.held else {
            return Ok(());
        };
        let head = held.head();
        if self.head == Some(head) {
            return Ok(());
        }
        self.head = Some(head);
        self.outcome.heads += 1;
        let tree = &self.world.tree;
        for id in &held.ids {
            let block = tree.get(*id);
            if !block.is_honest && self.world.plot == Plot::Minority {
                return Err(format!("block {} is invented", block.number));
            }
            if !block.is_valid {
                return Err(format!("block {} breaks a rule of headers", block.number));
            }
        }
        if held
            .ids
            .iter()
            .rev()
            .zip(held.ids.iter().rev().skip(1))
            .any(|(id, below)| tree.get(*id).parent != *below)
        {
            return Err("the blocks are no chain".to_owned());
        }
        let last = held.ids[held.ids.len() - 1];
        let is_other = |id| tree.ancestor(last, tree.get(id).number) != Some(id);
        if self.world.trusted.is_some_and(is_other) {
            return Err("the trusted block is missing".to_owned());
        }
        if tree.ancestor(last, 1) == self.world.other_start() {
            return Err("another chain is served".to_owned());
        }
        Ok(())
    }

    /// The finalized block never goes back, is on the served chain, and no minority moves it.
    fn check_finalized(&mut self) -> Result<(), String> {
        let finalized = self.follower.settled.finalized;
        if let Some(before) = self.finalized {
            let number = finalized.map(|(number, _)| number);
            if number < Some(before.0) {
                return Err(format!("finalized went from {} to {number:?}", before.0));
            }
            if let Some(held) = &self.follower.held {
                let tree = &self.world.tree;
                let last = held.ids[held.ids.len() - 1];
                let kept = tree.ancestor(last, before.0).map(tree::hash);
                if kept != Some(before.1) {
                    return Err(format!("the finalized block {} was reverted", before.0));
                }
            }
        }
        if self.world.plot == Plot::Minority
            && let Some((number, _)) = finalized
            && number > self.world.finalized
        {
            return Err(format!("{number} is not finalized"));
        }
        self.finalized = finalized;
        Ok(())
    }

    /// Steps by which the last node of an honest quorum has its blocks late. Where two branches can
    /// both have a quorum, the served one may stay until the last node has left it.
    fn late(&self, is_majority: bool) -> u64 {
        let good = self.world.nodes.iter().filter(|node| node.is_good());
        let mut late: Vec<u64> = good.map(SimNode::late).collect();
        late.sort_unstable();
        let last = match is_majority {
            true => late.get(self.world.quorum - 1),
            false => late.last(),
        };
        last.copied().unwrap_or(0)
    }

    /// An honest quorum that moves is followed within three block times.
    fn check_followed(&mut self) -> Result<(), String> {
        let world = &self.world;
        let (step, plot) = (world.step, world.plot);
        let good = world.nodes.iter().filter(|node| node.is_good()).count();
        // Those that are late can keep the quorum of a branch, if it is at most half of the nodes.
        let is_late =
            |node: &SimNode| matches!(node.mode, Mode::Slow(_) | Mode::Stale(_) | Mode::Stuck);
        let is_majority = world.quorum > world.nodes.len() / 2;
        let is_clear = is_majority || !world.nodes.iter().any(is_late);
        if good < world.quorum || plot == Plot::Majority || !is_clear {
            self.honest_since = step + 1;
        }
        // The path to a deep fork may take a block time; it is one move, not two.
        self.honest_since = self.honest_since.max(world.deep_reorg_at);
        let late = self.late(is_majority);
        if late < self.late {
            self.honest_since = self.honest_since.max(step);
        }
        self.late = late;
        let followed = FOLLOWED + late;
        if step < self.honest_since + followed {
            return Ok(());
        }
        self.outcome.followed += 1;
        if late > 0 {
            self.outcome.kinds.note(Kind::LaggingQuorum);
        }
        let Some(held) = &self.follower.held else {
            return Err("nothing is served".to_owned());
        };
        let least = world.common(followed);
        let number = world.tree.get(least).number;
        let last = held.ids[held.ids.len() - 1];
        match world.tree.ancestor(last, number) == Some(least) {
            true => Ok(()),
            false => Err(format!(
                "{} is served, without block {number} of three block times ago",
                held.head().0
            )),
        }
    }

    fn check_memory(&self) -> Result<(), String> {
        if self.follower.bytes(&self.world) > BYTES_MAX {
            return Err("the window is over its budget".to_owned());
        }
        if !self.world.step.is_multiple_of(STEPS) {
            return Ok(());
        }
        let nodes = 0..self.world.nodes.len();
        let statements = nodes.map(|node| self.follower.quorum.stated(node).len());
        if statements.max() > Some(Stated::MAX) || self.follower.links.len() > Links::MAX {
            return Err("statements are over their budget".to_owned());
        }
        let blocks = 1 + self.world.step / STEPS;
        match self.follower.most_asks() > blocks * ASKS_MAX {
            true => Err("an upstream is asked too often".to_owned()),
            false => Ok(()),
        }
    }
}

/// Runs one schedule; the error says which invariant broke.
fn run(seed: u64, rule: Option<Rule>) -> Result<Outcome, String> {
    let schedule = AssertUnwindSafe(|| Check::new(seed, rule).run());
    catch_unwind(schedule).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("the process died: {}", text.unwrap_or_default()))
    })
}

/// Runs these schedules on all cores, and returns the first that breaks an invariant, and the sums
/// of all outcomes.
fn run_all(seeds: u64, rule: Option<Rule>) -> (Option<(u64, String)>, Outcome) {
    let (next, broken_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = || {
        let (mut broken, mut sum) = (None, Outcome::default());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.min(broken_at.load(Ordering::Relaxed)) {
                return (broken, sum);
            }
            match run(seed, rule) {
                Ok(outcome) => sum.add(&outcome),
                Err(error) => {
                    broken_at.fetch_min(seed, Ordering::Relaxed);
                    broken = Some((seed, error));
                }
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join().unwrap());
        results.fold(
            (None, Outcome::default()),
            |(first, mut sum), (broken, more)| {
                sum.add(&more);
                let first = match (first, broken) {
                    (Some(one), Some(other)) => Some(std::cmp::min(one, other)),
                    (one, other) => one.or(other),
                };
                (first, sum)
            },
        )
    })
}

#[test]
fn invariants_hold_whatever_a_minority_states() {
    let seeds = campaign::rounds(10_000, 1_000_000);
    let (broken, sum) = run_all(seeds, None);
    assert!(broken.is_none(), "{broken:?}");
    // The schedules allow progress: there are heads, and an honest quorum to follow.
    assert!(sum.heads > seeds * 10, "{}", sum.heads);
    assert!(sum.followed > seeds * BLOCKS, "{}", sum.followed);
    for (kind, count) in sum.kinds.counts() {
        assert!(
            count > seeds / 100,
            "{kind:?} in {count} of {seeds}: {:?}",
            sum.kinds
        );
    }
}

/// Schedules that once broke an invariant.
#[test]
fn schedules_that_failed_once_hold() {
    for seed in [149_042, 177_328, 188_502, 263_913] {
        if let Err(broken) = run(seed, None) {
            panic!("{seed}: {broken}");
        }
    }
}

/// Each rule is needed: without it, some schedule breaks an invariant.
#[test]
fn every_rule_is_needed() {
    for (rule, want) in [
        (Rule::Claims, "is not finalized"),
        (Rule::Quorum, "is invented|is not finalized"),
        (Rule::Finalized, "was reverted"),
        (Rule::Trusted, "is served|is missing"),
        (Rule::Headers, "breaks a rule of headers"),
        (Rule::Classes, "three block times ago|nothing is served"),
        (Rule::Bytes, "over its budget"),
        (Rule::Crash, "the process died"),
        (Rule::Freshness, "ready with an old head"),
    ] {
        let (broken, _) = run_all(2_000, Some(rule));
        let (seed, error) = broken.unwrap_or_else(|| panic!("nothing needs {rule:?}"));
        let is_expected = want.split('|').any(|want| error.contains(want));
        assert!(is_expected, "{rule:?}, seed {seed}: {error}");
    }
}

#[test]
fn equal_seeds_give_equal_decisions() {
    for seed in 0..20 {
        let heads = |_| run(seed, None).map(|outcome| outcome.heads);
        assert_eq!(heads(1), heads(2));
    }
}
