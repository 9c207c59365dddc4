//! How an honest quorum that moves is followed, whatever the others do.

use super::{
    follower::SimFollower,
    sim_node::Mode,
    simulation::FOLLOWED,
    world::{BLOCK_TIMES, DEPTH_MAX, STEPS, World},
    *,
};
use crate::upstream::agree::Choice;

/// A service and its upstreams, in a world where only the test makes things happen.
struct Scenario {
    world: World,
    follower: SimFollower,
}

impl Scenario {
    /// A service that has followed honest nodes for some blocks.
    fn new(block_time: Duration, quorum: usize, modes: &[Mode]) -> Self {
        let world = World::calm(block_time, quorum, modes);
        let mut scenario = Self {
            follower: SimFollower::new(&world, None),
            world,
        };
        scenario.run(3 * STEPS);
        scenario
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.world.advance();
            self.follower.step(&mut self.world);
        }
    }

    /// Number and hash of the served head.
    fn head(&self) -> Point {
        self.follower.held.as_ref().unwrap().head()
    }

    /// Whether this honest head is on the served chain.
    fn is_followed(&self, tip: usize) -> bool {
        let (number, hash) = self.head();
        let head = self.world.tree.find(hash).unwrap();
        let wanted = self.world.tree.get(tip).number;
        wanted <= number && self.world.tree.ancestor(head, wanted) == Some(tip)
    }

    /// Runs until the present honest head is on the served chain.
    #[track_caller]
    fn wait_followed(&mut self, case: &str) {
        let tip = self.world.tip(0);
        for _ in 0..FOLLOWED {
            if self.is_followed(tip) {
                return;
            }
            self.run(1);
        }
        assert!(self.is_followed(tip), "{case}: {:?}", self.follower.choice);
    }

    fn set_modes(&mut self, nodes: std::ops::Range<usize>, mode: Mode) {
        let tip = self.world.tip(0);
        for node in nodes {
            self.world.set_mode(node, mode, tip);
        }
    }
}

/// What a minority does while the others are honest.
const LIARS: [Mode; 15] = [
    Mode::Honest,
    Mode::Silent,
    Mode::Gone,
    Mode::Stuck,
    Mode::Stale(2 * STEPS),
    Mode::Forked,
    Mode::Inventing,
    Mode::LyingAboutFinality,
    Mode::Extreme,
    Mode::ChangingMind,
    Mode::Obstructing,
    Mode::Racing,
    Mode::Withholding,
    Mode::Denying,
    Mode::Delaying,
];

/// A quorum of three that is honest, and two that keep each block back for as long as they can.
const TWO_DELAY: [Mode; 5] = [
    Mode::Delaying,
    Mode::Delaying,
    Mode::Honest,
    Mode::Honest,
    Mode::Honest,
];

fn block_times_and_liars() -> impl Iterator<Item = (Duration, Mode)> {
    BLOCK_TIMES
        .into_iter()
        .flat_map(|time| LIARS.map(|liar| (time, liar)))
}

#[test]
fn reorgs_of_every_depth_are_followed() {
    for depth in 1..=DEPTH_MAX {
        let block_time = BLOCK_TIMES[depth as usize % BLOCK_TIMES.len()];
        for lower in 0..=2 {
            let liar = LIARS[(depth * 3 + lower) as usize % LIARS.len()];
            let modes = [Mode::Honest, liar, Mode::Honest];
            for (quorum, modes) in [(1, &modes[..1]), (2, &modes[..]), (3, &TWO_DELAY[..])] {
                let case =
                    format!("{block_time:?}: {depth}, {lower} lower, quorum {quorum} of {modes:?}");
                let mut scenario = Scenario::new(block_time, quorum, modes);
                // At any time of a slot.
                scenario.run(depth % STEPS);
                scenario.world.reorg(depth, depth.saturating_sub(lower));
                scenario.wait_followed(&case);
                // While a lower branch has to wait, the sync may turn to its next block.
                let dropped = scenario.follower.dropped;
                assert!(dropped <= u64::from(lower > 0), "{case}: {dropped}");
            }
        }
    }
}

/// A path that takes long is fetched once, although a liar names other heads all the time.
#[test]
fn the_sync_to_an_agreed_head_is_not_dropped() {
    for (block_time, liar) in block_times_and_liars() {
        let case = format!("{block_time:?}, {liar:?}");
        let mut scenario = Scenario::new(block_time, 2, &[liar, Mode::Honest, Mode::Honest]);
        for _ in 0..4 {
            scenario.set_modes(1..3, Mode::Silent);
            scenario.run(20 * STEPS);
            let before = scenario.head();
            scenario.set_modes(1..3, Mode::Honest);
            scenario.wait_followed(&case);
            assert!(scenario.head().0 >= before.0 + 20, "{case}");
        }
        assert_eq!(scenario.follower.dropped, 0, "{case}");
    }
}

/// The head stands while too few nodes are left, whatever they state. Then those that return are
/// heard at once.
#[test]
fn an_old_majority_that_returns_is_followed() {
    for (block_time, liar) in block_times_and_liars() {
        for mode in [Mode::Silent, Mode::Stuck] {
            let case = format!("{block_time:?}, {liar:?}, the others {mode:?}");
            let mut scenario = Scenario::new(block_time, 2, &[liar, Mode::Honest, Mode::Honest]);
            scenario.set_modes(1..3, mode);
            scenario.run(2 * STEPS);
            let before = scenario.head();
            scenario.run(30 * STEPS);
            assert_eq!(scenario.head(), before, "{case}");
            scenario.set_modes(1..3, Mode::Honest);
            scenario.wait_followed(&case);
        }
    }
}

/// A chain that was set back goes on at a lower head, also if it makes no block.
#[test]
fn a_quorum_that_goes_back_is_followed() {
    for depth in 1..=8 {
        for (block_time, liar) in block_times_and_liars() {
            let case = format!("{block_time:?}: {depth}, {liar:?}");
            let mut scenario = Scenario::new(block_time, 2, &[liar, Mode::Honest, Mode::Honest]);
            scenario.world.frozen_at = scenario.world.step;
            scenario.run(STEPS);
            scenario.wait_followed(&case);
            let before = scenario.head();
            scenario.world.reorg(depth, 0);
            // It may be another backend behind the same URL, so it waits three block times.
            scenario.run(FOLLOWED);
            assert_eq!(scenario.head(), before, "{case}");
            scenario.run(2 * STEPS);
            let tip = scenario.world.tree.point(scenario.world.tip(0));
            assert_eq!(scenario.head(), tip, "{case}");
            scenario.world.frozen_at = u64::MAX;
            scenario.run(STEPS);
            scenario.wait_followed(&case);
        }
    }
}

/// Where two branches can both have a quorum, the served one stays until its nodes leave it.
#[test]
fn of_two_forks_with_a_quorum_the_served_one_stays() {
    let modes = [Mode::Colluding, Mode::Colluding, Mode::Honest, Mode::Honest];
    let mut scenario = Scenario::new(BLOCK_TIMES[2], 2, &modes);
    scenario.world.betray();
    for _ in 0..20 {
        scenario.run(STEPS);
        scenario.wait_followed("the other branch is higher");
        assert_eq!(scenario.follower.choice, Choice::Contested);
    }
    scenario.set_modes(2..4, Mode::Silent);
    scenario.run(FOLLOWED + STEPS);
    let (_, hash) = scenario.head();
    let is_honest = |hash| {
        scenario
            .world
            .tree
            .get(scenario.world.tree.find(hash).unwrap())
            .is_honest
    };
    assert!(!is_honest(hash), "its nodes have left it");
    // Nothing shows which branch is right, so that the other one stays now.
    scenario.set_modes(2..4, Mode::Honest);
    scenario.run(FOLLOWED + STEPS);
    let (_, hash) = scenario.head();
    let head = scenario.world.tree.find(hash).unwrap();
    assert!(!scenario.world.tree.get(head).is_honest);
    assert_eq!(scenario.follower.choice, Choice::Contested);
}
