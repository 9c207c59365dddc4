use super::*;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The health of upstreams on a chain with one block a second.
pub(super) struct Scene {
    pub(super) health: Health,
    pub(super) now: Moment,
}

impl Scene {
    /// Block 100 is the served head, and every upstream has named it.
    pub(super) fn new(upstreams: usize) -> Self {
        let mut scene = Self {
            health: Health::new(upstreams, 1),
            now: 10 * SECOND,
        };
        scene.health.learn_block_time((0, 0), (10, 10));
        for upstream in 0..upstreams {
            scene.name_head(upstream, 100);
        }
        scene.health.advanced(scene.now, 100);
        scene
    }

    pub(super) fn name_head(&mut self, upstream: UpstreamId, number: u64) -> bool {
        self.health.head_named(upstream, self.now, claim(number))
    }

    pub(super) fn fail(&mut self, upstream: UpstreamId, fault: Fault) -> Duration {
        let verdict = Verdict::Fault(fault);
        self.health
            .failed(upstream, class_of(fault), self.now, verdict)
            .unwrap_or_default()
    }

    /// A call for a block ends.
    fn fetch_ended(&mut self, upstream: UpstreamId, took: Duration, is_given: bool) {
        self.health.fetch_ended(upstream, self.now, took, is_given);
    }

    pub(super) fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    /// Reports the upstreams that have become silent, and returns them.
    fn fail_silent(&mut self) -> Vec<UpstreamId> {
        let silent = self.health.silent(self.now);
        for upstream in &silent {
            self.fail(*upstream, Fault::Silent);
        }
        silent
    }

    pub(super) fn state(&self, upstream: UpstreamId) -> UpstreamState {
        self.health.state(upstream, self.now)
    }
}

#[test]
fn an_upstream_is_syncing_until_it_names_a_head() {
    let mut health = Health::new(2, 1);
    assert_eq!(health.state(0, SECOND), UpstreamState::Syncing);
    health.syncing_reported(1, SECOND, true);
    health.head_named(1, SECOND, claim(9));
    assert_eq!(health.state(1, SECOND), UpstreamState::Syncing);
    assert!(!health.has_other(0));
    health.head_named(0, SECOND, claim(5));
    assert_eq!(health.state(0, SECOND), UpstreamState::Live);
    // The head of a syncing upstream does not make others lag.
    assert_eq!(health.state(0, 5 * SECOND), UpstreamState::Live);
    health.syncing_reported(1, SECOND, false);
    assert_eq!(health.state(1, SECOND), UpstreamState::Live);
    assert!(health.has_other(0));
    assert_eq!(health.head(1).map(|head| head.number), Some(9));
}

/// What other upstreams name makes nobody lag: it may be invented.
#[test]
fn an_upstream_lags_behind_the_served_head() {
    let mut scene = Scene::new(2);
    scene.name_head(1, 900);
    scene.wait(5_000);
    assert_eq!(scene.state(0), UpstreamState::Live);
    scene.health.advanced(scene.now, 101);
    scene.wait(499);
    assert_eq!(scene.state(0), UpstreamState::Live);
    scene.wait(1);
    assert_eq!(scene.state(0), UpstreamState::Lagging);
    assert_eq!(scene.state(1), UpstreamState::Live);
    scene.name_head(0, 101);
    assert_eq!(scene.state(0), UpstreamState::Live);
}

#[test]
fn an_upstream_is_silent_after_three_block_times() {
    let mut scene = Scene::new(2);
    scene.wait(2_000);
    scene.name_head(1, 100);
    scene.wait(999);
    assert!(scene.fail_silent().is_empty());
    scene.wait(1);
    assert_eq!(scene.fail_silent(), [0]);
    assert_eq!(scene.state(0), UpstreamState::Faulty(Fault::Silent));
    assert!(scene.fail_silent().is_empty(), "reported once");
    scene.wait(2_000);
    assert_eq!(scene.fail_silent(), [1]);
    assert!(scene.name_head(0, 100));
    assert_eq!(scene.state(0), UpstreamState::Live);
}

#[test]
fn a_faulty_upstream_is_backed_off_and_can_recover() {
    let mut scene = Scene::new(2);
    let wait = scene.fail(0, Fault::Timeout);
    assert!(wait <= SECOND / 2, "within one block time: {wait:?}");
    let faulty = UpstreamState::Faulty(Fault::Timeout);
    assert!(!scene.health.may_ask(0, CallClass::Heads, scene.now));
    assert_eq!(scene.health.poll_at(0, scene.now, true), scene.now + wait);
    // Other calls that fail at the same time are no further faults, and heads are ignored.
    assert_eq!(scene.fail(0, Fault::Connection), Duration::ZERO);
    assert!(!scene.name_head(0, 101));
    assert_eq!(scene.state(0), faulty);
    scene.now += wait;
    assert!(scene.health.may_ask(0, CallClass::Heads, scene.now));
    assert_eq!(scene.state(0), faulty);
    let longer = scene.fail(0, Fault::Refused);
    assert!(longer > wait, "{wait:?} {longer:?}");
    scene.now += longer;
    assert!(scene.name_head(0, 100));
    assert_eq!(scene.state(0), UpstreamState::Live);
    // Old strikes no longer count.
    scene.wait(16_000);
    assert_eq!(scene.fail(0, Fault::Timeout), wait);
}

/// An upstream that comes back is heard within a block time, however often it has failed.
#[test]
fn a_backoff_of_calls_for_heads_lasts_a_block_time_at_most() {
    for block_time in [1, 12] {
        let mut scene = Scene::new(2);
        scene.health.learn_block_time((0, 0), (10, 10 * block_time));
        for fault in [Fault::Timeout, Fault::WrongChain] {
            for _ in 0..20 {
                let wait = scene.fail(0, fault);
                assert!(wait > Duration::ZERO, "{fault:?}");
                assert!(wait <= block_time as u32 * SECOND, "{fault:?}: {wait:?}");
                scene.now += wait;
            }
        }
    }
}

#[test]
fn a_lie_outweighs_a_fault_at_the_same_time() {
    let mut scene = Scene::new(2);
    let timeout = Verdict::Fault(Fault::Timeout);
    let wait = scene
        .health
        .failed(0, CallClass::Blocks, scene.now, timeout)
        .unwrap_or_default();
    let longer = scene.fail(0, Fault::BadBlock);
    assert!(longer > wait * 8, "{wait:?} {longer:?}");
    assert_eq!(scene.state(0), UpstreamState::Faulty(Fault::BadBlock));
    assert_eq!(scene.fail(0, Fault::BadBlock), Duration::ZERO);
}

#[test]
fn a_limited_upstream_is_backed_off_but_not_faulty() {
    let mut scene = Scene::new(2);
    let asked_for = Some(20 * SECOND);
    let wait = scene
        .health
        .failed(0, CallClass::Heads, scene.now, Verdict::Limited(asked_for));
    assert_eq!(wait, asked_for);
    assert_eq!(scene.state(0), UpstreamState::Limited);
    scene.wait(19_999);
    assert!(!scene.health.may_ask(0, CallClass::Heads, scene.now));
    scene.wait(1);
    scene.name_head(0, 100);
    assert_eq!(scene.state(0), UpstreamState::Live);
    // It may give no time to wait.
    let wait = scene
        .health
        .failed(0, CallClass::Heads, scene.now, Verdict::Limited(None));
    assert!(wait.is_some_and(|wait| wait > Duration::ZERO));
    assert_eq!(
        scene
            .health
            .failed(1, CallClass::Heads, scene.now, Verdict::NotAtFault),
        None
    );
}

#[test]
fn a_quarantine_outweighs_every_other_state() {
    let mut scene = Scene::new(2);
    scene.fail(0, Fault::Timeout);
    scene.health.set_quarantined(0, true);
    assert_eq!(scene.state(0), UpstreamState::Quarantined);
    scene.health.set_quarantined(0, false);
    assert_eq!(scene.state(0), UpstreamState::Faulty(Fault::Timeout));
}

#[test]
fn the_pause_between_polls_depends_on_announcements_and_backoff() {
    let mut scene = Scene::new(2);
    let millis = |scene: &Scene, upstream, announces| {
        (scene.health.poll_at(upstream, scene.now, announces) - scene.now).as_millis()
    };
    assert_eq!(millis(&scene, 0, false), 250);
    assert_eq!(millis(&scene, 0, true), 1_000);
    let wait = scene.fail(1, Fault::Silent);
    assert_eq!(millis(&scene, 1, true), wait.as_millis());
}

#[test]
fn when_a_head_was_named_is_known_while_it_is_the_head() {
    let mut scene = Scene::new(1);
    assert_eq!(scene.health.named_at(0, hash(100)), Some(scene.now));
    let named = scene.now;
    scene.wait(300);
    scene.name_head(0, 100);
    assert_eq!(scene.health.named_at(0, hash(100)), Some(named));
    scene.name_head(0, 101);
    assert_eq!(scene.health.named_at(0, hash(100)), None);
    assert_eq!(scene.health.named_at(0, hash(101)), Some(scene.now));
}

/// Strikes count for sixteen block times without a backoff, also where upstreams are compared.
#[test]
fn strikes_and_delays_are_forgotten() {
    let mut scene = Scene::new(2);
    let wait = scene.fail(0, Fault::Timeout);
    scene.health.was_slow(0, scene.now);
    let counted = |scene: &Scene| {
        let (health, now) = (&scene.health, scene.now);
        (health.strikes(0, now), health.delays(0, now))
    };
    assert_eq!(counted(&scene), (1, 1));
    scene.wait(15_999);
    assert_eq!(counted(&scene), (1, 1));
    scene.wait(1);
    assert_eq!(counted(&scene), (1, 0));
    scene.now += wait;
    assert_eq!(counted(&scene), (0, 0));
    // The next fault is the first one again.
    assert_eq!(scene.fail(0, Fault::Timeout), wait);
}

/// How long an upstream may take depends on how fast the others are, not on itself.
#[test]
fn an_upstream_is_slow_by_the_standard_of_another_one() {
    let mut scene = Scene::new(3);
    let millis = Duration::from_millis;
    let patience = |scene: &Scene, others: &[UpstreamId]| {
        scene.health.patience(others.iter().copied(), scene.now)
    };
    assert_eq!(patience(&scene, &[]), None);
    assert_eq!(patience(&scene, &[1, 2]), Some(millis(50)));
    for _ in 0..9 {
        scene.fetch_ended(0, millis(900), true);
        scene.fetch_ended(1, millis(20), true);
        scene.fetch_ended(2, millis(40), true);
    }
    assert_eq!(patience(&scene, &[1, 2]), Some(millis(80)));
    assert_eq!(patience(&scene, &[2]), Some(millis(160)));
    // At most a quarter of a block time, unless the other one needs longer than that itself.
    assert_eq!(patience(&scene, &[0]), Some(millis(1_800)));
    for _ in 0..9 {
        scene.fetch_ended(0, millis(1_500), true);
        scene.fetch_ended(2, millis(100), true);
    }
    assert_eq!(patience(&scene, &[0]), Some(2 * SECOND));
    assert_eq!(patience(&scene, &[2]), Some(millis(250)));
    // Who was not asked for long may be fast again, and one block shows it.
    scene.wait(16_000);
    assert_eq!(patience(&scene, &[0]), Some(millis(50)));
    scene.fetch_ended(0, millis(20), true);
    assert_eq!(patience(&scene, &[0]), Some(millis(80)));
    // Who is fast again makes up for it, block by block.
    scene.fetch_ended(1, millis(20), true);
    scene.fetch_ended(2, millis(40), true);
    for _ in 0..20 {
        scene.health.was_slow(0, scene.now);
    }
    assert_eq!(scene.health.delays(0, scene.now), 8);
    scene.fetch_ended(0, millis(80), true);
    assert_eq!(scene.health.delays(0, scene.now), 8);
    for left in (0..8).rev() {
        scene.fetch_ended(0, millis(79), true);
        assert_eq!(scene.health.delays(0, scene.now), left);
    }
}

/// An upstream is stuck where another one would have been done, and a call is lost once it takes
/// longer than the upstream's own calls.
#[test]
fn an_upstream_is_stuck_by_the_standard_of_another_one() {
    let mut scene = Scene::new(3);
    let millis = Duration::from_millis;
    let longest = |scene: &Scene, others: &[UpstreamId]| {
        let silence = scene
            .health
            .longest_silence(others.iter().copied(), scene.now);
        let path = |rounds| {
            scene
                .health
                .longest_for_path(others.iter().copied(), rounds, scene.now)
        };
        [silence, path(1), path(5)]
    };
    assert_eq!(longest(&scene, &[]), [None; 3]);
    // Nothing is known of them yet.
    let least = [1_000, 2_000, 2_000].map(|least| Some(millis(least)));
    assert_eq!(longest(&scene, &[1, 2]), least);
    assert_eq!(scene.health.lost_after(1), SECOND);
    scene.fetch_ended(1, millis(1_500), true);
    // The other one may be faster.
    assert_eq!(longest(&scene, &[1, 2]), least);
    let slow = [6_000, 6_000, 30_000].map(|longest| Some(millis(longest)));
    assert_eq!(longest(&scene, &[1]), slow);
    assert_eq!(scene.health.lost_after(1), 6 * SECOND);
    // It was not: it needed longer, and did not give the block either.
    scene.fetch_ended(2, 10 * SECOND, false);
    assert_eq!(longest(&scene, &[1, 2]), slow);
    // That is forgotten.
    scene.wait(15_999);
    assert_eq!(longest(&scene, &[1, 2]), slow);
    scene.wait(1);
    assert_eq!(longest(&scene, &[1, 2]), least);
    // Who says at once that it has no block says nothing about its blocks.
    scene.fetch_ended(1, 10 * SECOND, false);
    scene.fetch_ended(1, millis(1), false);
    assert_eq!(longest(&scene, &[1])[0], Some(40 * SECOND));
    assert_eq!(scene.health.lost_after(1), 6 * SECOND);
    scene.fetch_ended(1, millis(1_500), true);
    assert_eq!(longest(&scene, &[1]), slow);
    // Neither does a call from before that.
    scene.wait(1);
    scene.fetch_ended(1, 10 * SECOND, false);
    assert_eq!(longest(&scene, &[1]), slow);
}

/// A call that is given up has lasted as long as a longer wait would, but not one for state, which
/// readers make.
#[test]
fn the_backoff_after_a_timeout_is_short() {
    for (class, grows) in [
        (CallClass::Heads, false),
        (CallClass::Blocks, false),
        (CallClass::State, true),
    ] {
        let mut scene = Scene::new(2);
        let waits = [(); 4].map(|()| {
            let verdict = Verdict::Fault(Fault::Timeout);
            let wait = scene.health.failed(0, class, scene.now, verdict);
            let wait = wait.unwrap_or_default();
            scene.now += wait;
            wait
        });
        assert_eq!(waits[3] > 2 * waits[0], grows, "{class:?}: {waits:?}");
    }
}
