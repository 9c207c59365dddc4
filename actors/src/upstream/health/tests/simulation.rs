//! A simulation of upstreams with every kind of fault over thousands of blocks, with invariants on
//! the followed one.

use nearhead_chain::campaign;

use super::*;

/// Steps per block time; everything happens on a step.
const STEPS: u64 = 16;
const BLOCK_TIME: Duration = Duration::from_millis(1_600);
const STEP: Duration = Duration::from_millis(100);
const BLOCKS: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Honest,
    /// This many blocks behind.
    Behind(u64),
    /// Keeps naming the head that it had when this began.
    Frozen(u64),
    /// Does not answer; calls time out.
    Silent,
    /// Answers with an error.
    Failing(Fault),
    Limited,
    /// Names a head far ahead that does not exist.
    FakeHead,
    /// Names honest heads, and serves blocks that fail their checks.
    Lying,
    /// Is two replicas, one of them three blocks behind.
    Stale,
    /// Has a chain of its own after this block.
    Forked(u64),
    /// Invents a chain of its own after this block, with a head this many blocks ahead of all.
    Inventing(u64, u64),
}

/// Pseudorandom numbers (xorshift): equal seeds give equal numbers.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

struct SimulatedUpstream {
    mode: Mode,
    /// The step at which the mode began.
    since: u64,
    polled_at: Option<Moment>,
}

struct World {
    health: Health,
    served: ServedChain,
    upstreams: Vec<SimulatedUpstream>,
    rng: Rng,
    step: u64,
    /// The upstream that advanced the head to where it is; `None` after a switch.
    advanced_by: Option<UpstreamId>,
    /// The step since which another upstream would have been better.
    wrong_since: Option<u64>,
    /// Whether the first upstream is always honest.
    is_first_honest: bool,
}

/// The chain's head at a step.
const fn head_at(step: u64) -> u64 {
    100 + step / STEPS
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed | 1 << 40);
        let count = 1 + rng.below(4);
        let mut health = Health::new(count as usize, seed);
        health.learn_block_time((0, 0), (10, 16));
        let upstreams = (0..count).map(|_| SimulatedUpstream {
            mode: Mode::Honest,
            since: 0,
            polled_at: None,
        });
        Self {
            health,
            served: ServedChain {
                oldest: 0,
                hashes: (0..=100).map(|number| hash(0, number)).collect(),
            },
            upstreams: upstreams.collect(),
            rng,
            step: 0,
            advanced_by: None,
            wrong_since: None,
            is_first_honest: false,
        }
    }

    fn now(&self) -> Moment {
        STEP * self.step as u32
    }

    fn change_modes(&mut self) {
        for at in usize::from(self.is_first_honest)..self.upstreams.len() {
            if self.rng.below(STEPS * 20) > 0 {
                continue;
            }
            let head = head_at(self.step);
            let mode = match self.rng.below(20) {
                0 => Mode::Behind(1 + self.rng.below(5)),
                1 => Mode::Frozen(head),
                2 => Mode::Silent,
                3 => Mode::Failing(Fault::Connection),
                4 => Mode::Failing(Fault::Malformed),
                5 => Mode::Limited,
                6 => Mode::FakeHead,
                7 => Mode::Lying,
                8 => Mode::Stale,
                9 => Mode::Forked(head - self.rng.below(4)),
                10 => {
                    let ahead = [1, 2, 100, 1_000][self.rng.below(4) as usize];
                    Mode::Inventing(head - 1 - self.rng.below(4), ahead)
                }
                _ => Mode::Honest,
            };
            self.upstreams[at].mode = mode;
            self.upstreams[at].since = self.step;
        }
    }

    /// Asks an upstream for its head.
    fn poll(&mut self, id: UpstreamId) {
        let (now, head) = (self.now(), head_at(self.step));
        let polled_at = self.upstreams[id].polled_at;
        let is_due = polled_at.is_none_or(|at| self.health.poll_at(id, at, false) <= now);
        if !is_due || !self.health.may_ask(id, CallClass::Heads, now) {
            return;
        }
        let answer = match self.upstreams[id].mode {
            Mode::Honest | Mode::Lying => Ok(claim(0, head)),
            Mode::Behind(blocks) => Ok(claim(0, head - blocks)),
            Mode::Frozen(head) => Ok(claim(0, head)),
            Mode::Silent => Err(Verdict::Fault(Fault::Timeout)),
            Mode::Failing(fault) => Err(Verdict::Fault(fault)),
            Mode::Limited => Err(Verdict::Limited(None)),
            Mode::FakeHead => Ok(claim(9, head + 1_000 + self.rng.below(9))),
            Mode::Stale => Ok(claim(0, head - 3 * self.rng.below(2))),
            Mode::Inventing(_, ahead) => Ok(claim(1 + id as u64, head + ahead)),
            Mode::Forked(since) if head > since => Ok(claim(1 + id as u64, head)),
            Mode::Forked(_) => Ok(claim(0, head)),
        };
        match answer {
            Ok(head) => self.health.head_named(id, now, head),
            Err(verdict) => {
                let wait = self.health.failed(id, CallClass::Heads, now, verdict);
                assert!(wait.is_some_and(|wait| wait <= BACKOFF_MAX * 5 / 4));
            }
        }
        self.upstreams[id].polled_at = Some(now);
    }

    /// Advances the served head to that of the followed upstream, unless its blocks fail.
    fn advance(&mut self) {
        let now = self.now();
        let Some((id, head)) = self.health.target(now, &self.served) else {
            return;
        };
        let before = self.served.head().0;
        let may_replace_served = self.health.lag == Lag::Served;
        let is_far = head.number >= before + 128;
        if is_far && self.health.refuses_path(now, true) {
            return;
        }
        let fork = match self.upstreams[id].mode {
            Mode::Lying => return self.fail(id, Fault::BadBlock),
            Mode::FakeHead => return self.fail(id, Fault::Missing),
            Mode::Forked(since) | Mode::Inventing(since, _)
                if head.hash == hash(1 + id as u64, head.number) =>
            {
                Some((1 + id as u64, since))
            }
            _ => None,
        };
        let hashes = (0..=head.number).map(|number| match fork {
            Some((fork, since)) if number > since => hash(fork, number),
            _ => hash(0, number),
        });
        let hashes: Vec<_> = hashes.collect();
        if hashes.last() != Some(&head.hash) {
            // It has moved to another chain since it named this head.
            return self.fail(id, Fault::Missing);
        }
        let is_fork = hashes.get(before as usize) != self.served.hashes.last();
        if is_fork && self.health.refuses_path(now, is_far) {
            return;
        }
        self.served.hashes = hashes;
        self.health.advanced(id, now, head.number);
        // An upstream may revert its own blocks. One that is followed after it may not lower the
        // head, unless it replaces blocks of a liar.
        let may_go_back = self.advanced_by == Some(id) || may_replace_served;
        assert!(
            may_go_back || head.number > before,
            "{before} {head:?} by {id}"
        );
        self.advanced_by = Some(id);
    }

    fn fail(&mut self, id: UpstreamId, fault: Fault) {
        let now = self.now();
        let verdict = Verdict::Fault(fault);
        self.health.failed(id, class_of(fault), now, verdict);
    }

    fn choose(&mut self) {
        for id in self.health.silent(self.now()) {
            self.fail(id, Fault::Silent);
        }
        if self.health.choose(self.now(), &self.served).is_some() {
            self.advanced_by = None;
        }
    }

    /// One step: all that the follower does, then the invariants.
    fn step(&mut self) {
        self.change_modes();
        for id in 0..self.upstreams.len() {
            self.poll(id);
        }
        // Every failure leads to another choice at once.
        for _ in 0..=2 * self.upstreams.len() {
            self.choose();
            self.advance();
        }
        self.choose();
        self.check();
        self.step += 1;
    }

    fn check(&mut self) {
        let now = self.now();
        let states: Vec<_> = (0..self.upstreams.len())
            .map(|id| self.health.state(id, now))
            .collect();
        let is_live = states.contains(&UpstreamState::Live);
        let followed = self.health.followed().map(|id| states[id]);
        assert!(
            !matches!(
                followed,
                Some(UpstreamState::Faulty(_) | UpstreamState::Limited | UpstreamState::Syncing)
            ),
            "followed: {followed:?}"
        );
        assert!(
            followed.is_some() || !is_live,
            "no live upstream is followed: {states:?}"
        );
        // A lagging upstream is replaced within one block time if another one is ahead.
        let followed_head = self
            .health
            .followed()
            .and_then(|id| self.health.named_head(id));
        let is_wrong = followed_head.is_some_and(|head| {
            (0..states.len()).any(|id| {
                let named = self.health.named_head(id);
                let is_in_cooldown = self.health.upstreams[id].is_in_cooldown(now);
                !is_in_cooldown
                    && states[id] == UpstreamState::Live
                    && named.is_some_and(|other| other.number > head.number)
            })
        });
        self.wrong_since = is_wrong.then(|| self.wrong_since.unwrap_or(self.step));
        let wrong_for = self.wrong_since.map_or(0, |since| self.step - since);
        assert!(wrong_for < STEPS, "step {}: {states:?}", self.step);
        if self.is_first_honest {
            let (head, head_hash) = self.served.head();
            assert_eq!(head_hash, hash(0, head), "step {}: {states:?}", self.step);
        }
        // If an upstream has been honest for longer than the longest wait, the served head is at
        // most one block behind it.
        let longest = (BACKOFF_MAX * 5 / 4).as_millis() / STEP.as_millis();
        let recovered = longest as u64 + 4 * STEPS;
        let is_honest = |upstream: &SimulatedUpstream| {
            upstream.mode == Mode::Honest && self.step - upstream.since > recovered
        };
        if self.upstreams.iter().any(is_honest) {
            let (head, _) = self.served.head();
            let behind = head_at(self.step).saturating_sub(head);
            assert!(
                behind <= 1,
                "step {}: {behind} behind {states:?}",
                self.step
            );
        }
    }
}

#[test]
fn a_switch_does_not_take_the_head_back_and_a_live_upstream_is_followed() {
    let (mut blocks, seeds) = (0, campaign::rounds(30, 600));
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..BLOCKS * STEPS {
            world.step();
        }
        assert!(world.health.block_time() <= BLOCK_TIME * 2, "{seed}");
        blocks += world.served.head().0;
    }
    // The simulated upstreams allow progress most of the time.
    assert!(blocks > seeds * 350, "{blocks}");
}

/// While an honest upstream is followed, no block that others invent is ever served.
#[test]
fn no_fork_is_served_beside_an_honest_upstream() {
    for seed in 0..campaign::rounds(30, 600) {
        let mut world = World::new(seed);
        world.is_first_honest = true;
        for _ in 0..BLOCKS * STEPS {
            world.step();
        }
        assert_eq!(world.health.followed(), Some(0), "{seed}");
    }
}

#[test]
fn equal_seeds_give_equal_decisions() {
    let run = |seed| {
        let mut world = World::new(seed);
        let mut followed = Vec::new();
        for _ in 0..100 * STEPS {
            world.step();
            followed.push(world.health.followed());
        }
        followed
    };
    for seed in 0..5 {
        assert_eq!(run(seed), run(seed));
    }
}
