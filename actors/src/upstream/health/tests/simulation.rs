//! A simulation of upstreams with every kind of fault over thousands of blocks, with invariants on
//! the followed one.

use super::*;

/// Steps in a block time; everything happens on a step.
const STEPS: u64 = 16;
const BLOCK_TIME: Duration = Duration::from_millis(1_600);
const STEP: Duration = Duration::from_millis(100);
const BLOCKS: u64 = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Honest,
    /// This many blocks behind.
    Behind(u64),
    /// Names the head that it had when it began to.
    Frozen(u64),
    /// Does not answer; the call fails in time.
    Silent,
    /// Answers with an error.
    Failing(Fault),
    Limited,
    /// Names a head far ahead, which nobody has.
    Boasting,
    /// Names honest heads, and gives blocks that fail their checks.
    Lying,
    /// Is two upstreams, one of them three blocks behind.
    Stale,
    /// Has a chain of its own since a block.
    Forked(u64),
    /// Invents one from a block on, this many blocks ahead of everybody.
    Inventing(u64, u64),
}

/// Equal seeds give equal numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

struct SimulatedUpstream {
    mode: Mode,
    /// Since which step.
    since: u64,
    asked: Option<Moment>,
}

struct World {
    health: Health,
    ours: ServedChain,
    upstreams: Vec<SimulatedUpstream>,
    dice: Dice,
    step: u64,
    /// The upstream that gave the served head, as long as it is followed.
    given_by: Option<UpstreamId>,
    /// Since when another upstream would have been better.
    wrong_since: Option<u64>,
    /// The first upstream is honest all the time.
    has_rock: bool,
}

/// The chain's head at a step.
const fn head_at(step: u64) -> u64 {
    100 + step / STEPS
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed | 1 << 40);
        let count = 1 + dice.roll(4);
        let mut health = Health::new(count as usize, seed);
        health.learn_block_time((0, 0), (10, 16));
        let upstreams = (0..count).map(|_| SimulatedUpstream {
            mode: Mode::Honest,
            since: 0,
            asked: None,
        });
        Self {
            health,
            ours: ServedChain {
                oldest: 0,
                hashes: (0..=100).map(|number| hash(0, number)).collect(),
            },
            upstreams: upstreams.collect(),
            dice,
            step: 0,
            given_by: None,
            wrong_since: None,
            has_rock: false,
        }
    }

    fn now(&self) -> Moment {
        STEP * self.step as u32
    }

    fn change_modes(&mut self) {
        for at in usize::from(self.has_rock)..self.upstreams.len() {
            if self.dice.roll(STEPS * 20) > 0 {
                continue;
            }
            let head = head_at(self.step);
            let mode = match self.dice.roll(20) {
                0 => Mode::Behind(1 + self.dice.roll(5)),
                1 => Mode::Frozen(head),
                2 => Mode::Silent,
                3 => Mode::Failing(Fault::Connection),
                4 => Mode::Failing(Fault::Malformed),
                5 => Mode::Limited,
                6 => Mode::Boasting,
                7 => Mode::Lying,
                8 => Mode::Stale,
                9 => Mode::Forked(head - self.dice.roll(4)),
                10 => {
                    let ahead = [1, 2, 100, 1_000][self.dice.roll(4) as usize];
                    Mode::Inventing(head - 1 - self.dice.roll(4), ahead)
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
        let asked = self.upstreams[id].asked;
        let is_due = asked.is_none_or(|asked| self.health.poll_at(id, asked, false) <= now);
        if !is_due || !self.health.may_ask(id, now) {
            return;
        }
        let answer = match self.upstreams[id].mode {
            Mode::Honest | Mode::Lying => Ok(claim(0, head)),
            Mode::Behind(blocks) => Ok(claim(0, head - blocks)),
            Mode::Frozen(head) => Ok(claim(0, head)),
            Mode::Silent => Err(Verdict::Fault(Fault::Timeout)),
            Mode::Failing(fault) => Err(Verdict::Fault(fault)),
            Mode::Limited => Err(Verdict::Limited(None)),
            Mode::Boasting => Ok(claim(9, head + 1_000 + self.dice.roll(9))),
            Mode::Stale => Ok(claim(0, head - 3 * self.dice.roll(2))),
            Mode::Inventing(_, ahead) => Ok(claim(1 + id as u64, head + ahead)),
            Mode::Forked(since) if head > since => Ok(claim(1 + id as u64, head)),
            Mode::Forked(_) => Ok(claim(0, head)),
        };
        match answer {
            Ok(head) => self.health.head_named(id, now, head),
            Err(verdict) => {
                let wait = self.health.failed(id, now, verdict);
                assert!(wait.is_some_and(|wait| wait <= BACKOFF_MAX * 5 / 4));
            }
        }
        self.upstreams[id].asked = Some(now);
    }

    /// Goes where the followed upstream is, as far as what it gives holds.
    fn go(&mut self) {
        let now = self.now();
        let Some((id, head)) = self.health.target(now, &self.ours) else {
            return;
        };
        let before = self.ours.head().0;
        let is_disowned = self.health.lag == Lag::Served;
        let is_far = head.number >= before + 128;
        if is_far && self.health.refuses_path(now, true) {
            return;
        }
        let fork = match self.upstreams[id].mode {
            Mode::Lying => return self.fails(id, Fault::BadBlock),
            Mode::Boasting => return self.fails(id, Fault::Missing),
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
            // It has changed its mind since.
            return self.fails(id, Fault::Missing);
        }
        let is_fork = hashes.get(before as usize) != self.ours.hashes.last();
        if is_fork && self.health.refuses_path(now, is_far) {
            return;
        }
        self.ours.hashes = hashes;
        self.health.advanced(id, now, head.number);
        // An upstream may change its mind; who comes after it may not take us back, but from where
        // a liar took us.
        let may_go_back = self.given_by == Some(id) || is_disowned;
        assert!(
            may_go_back || head.number > before,
            "{before} {head:?} by {id}"
        );
        self.given_by = Some(id);
    }

    fn fails(&mut self, id: UpstreamId, fault: Fault) {
        let now = self.now();
        self.health.failed(id, now, Verdict::Fault(fault));
    }

    fn choose(&mut self) {
        for id in self.health.silent(self.now()) {
            self.fails(id, Fault::Silent);
        }
        if self.health.choose(self.now(), &self.ours).is_some() {
            self.given_by = None;
        }
    }

    /// One step: everything that a driver does, then the invariants.
    fn step(&mut self) {
        self.change_modes();
        for id in 0..self.upstreams.len() {
            self.poll(id);
        }
        // As often as somebody is left, somebody else is asked at once.
        for _ in 0..=2 * self.upstreams.len() {
            self.choose();
            self.go();
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
            "nobody is followed: {states:?}"
        );
        // An upstream that lags is left within one block time where another is ahead.
        let followed_head = self.health.followed().and_then(|id| self.health.named(id));
        let is_wrong = followed_head.is_some_and(|head| {
            (0..states.len()).any(|id| {
                let named = self.health.named(id);
                let is_in_cooldown = self.health.upstreams[id].is_in_cooldown(now);
                !is_in_cooldown
                    && states[id] == UpstreamState::Live
                    && named.is_some_and(|other| other.number > head.number)
            })
        });
        self.wrong_since = is_wrong.then(|| self.wrong_since.unwrap_or(self.step));
        let wrong_for = self.wrong_since.map_or(0, |since| self.step - since);
        assert!(wrong_for < STEPS, "step {}: {states:?}", self.step);
        if self.has_rock {
            let (head, hash_of) = self.ours.head();
            assert_eq!(hash_of, hash(0, head), "step {}: {states:?}", self.step);
        }
        // Where one has been honest for as long as the longest wait, we are where it is, whatever
        // the others do.
        let longest = (BACKOFF_MAX * 5 / 4).as_millis() / STEP.as_millis();
        let settled = longest as u64 + 4 * STEPS;
        let is_honest = |upstream: &SimulatedUpstream| {
            upstream.mode == Mode::Honest && self.step - upstream.since > settled
        };
        if self.upstreams.iter().any(is_honest) {
            let (ours, _) = self.ours.head();
            let behind = head_at(self.step).saturating_sub(ours);
            assert!(
                behind <= 1,
                "step {}: {behind} behind {states:?}",
                self.step
            );
        }
    }
}

#[test]
fn the_head_never_goes_back_and_somebody_good_is_followed() {
    let mut honest_steps = 0;
    for seed in 0..60 {
        let mut world = World::new(seed);
        for _ in 0..BLOCKS * STEPS {
            world.step();
        }
        assert!(world.health.block_time() <= BLOCK_TIME * 2, "{seed}");
        honest_steps += world.ours.head().0;
    }
    // The worlds are not such that nothing can be done in them.
    assert!(honest_steps > 60 * 350, "{honest_steps}");
}

/// Whatever the others make up, beside an honest upstream that is followed none of it is ever
/// shown.
#[test]
fn no_fork_is_shown_beside_an_honest_upstream() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.has_rock = true;
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
