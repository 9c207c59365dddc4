use super::*;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The health of upstreams on a chain with one block a second.
pub(super) struct Scene {
    pub(super) health: Health,
    pub(super) served: ServedChain,
    pub(super) now: Moment,
}

impl Scene {
    /// Block 100 is the served head, and every upstream has named it.
    pub(super) fn new(upstreams: usize) -> Self {
        let mut scene = Self {
            health: Health::new(upstreams, 1),
            served: ServedChain {
                oldest: 0,
                hashes: (0..=100).map(|number| hash(0, number)).collect(),
            },
            now: 10 * SECOND,
        };
        scene.health.learn_block_time((0, 0), (10, 10));
        for upstream in 0..upstreams {
            scene.name_head(upstream, 0, 100);
        }
        scene.health.advanced(0, scene.now, 100);
        assert_eq!(scene.choose(), Some((None, Some(0), SwitchReason::First)));
        scene
    }

    pub(super) fn name_head(&mut self, upstream: UpstreamId, fork: u64, number: u64) {
        self.health
            .head_named(upstream, self.now, claim(fork, number));
    }

    pub(super) fn fail(&mut self, upstream: UpstreamId, fault: Fault) -> Duration {
        let verdict = Verdict::Fault(fault);
        self.health
            .failed(upstream, class_of(fault), self.now, verdict)
            .unwrap_or_default()
    }

    pub(super) fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    pub(super) fn choose(
        &mut self,
    ) -> Option<(Option<UpstreamId>, Option<UpstreamId>, SwitchReason)> {
        for upstream in self.health.silent(self.now) {
            self.fail(upstream, Fault::Silent);
        }
        let switch = self.health.choose(self.now, &self.served)?;
        Some((switch.from, switch.to, switch.reason))
    }

    pub(super) fn state(&self, upstream: UpstreamId) -> UpstreamState {
        self.health.state(upstream, self.now)
    }

    /// The head to sync to.
    pub(super) fn target(&self) -> Option<(UpstreamId, u64)> {
        let (upstream, head) = self.health.target(self.now, &self.served)?;
        Some((upstream, head.number))
    }

    /// Replaces the served chain from `since` on by a fork up to `number`, from an upstream.
    pub(super) fn advance(&mut self, upstream: UpstreamId, fork: u64, since: u64, number: u64) {
        self.served.hashes.truncate(since as usize);
        self.served
            .hashes
            .extend((since..=number).map(|number| hash(fork, number)));
        self.health.advanced(upstream, self.now, number);
    }
}

#[test]
fn an_upstream_is_syncing_until_it_names_a_head() {
    let mut health = Health::new(2, 1);
    let served = ServedChain {
        oldest: 0,
        hashes: vec![hash(0, 0)],
    };
    assert_eq!(health.state(0, SECOND), UpstreamState::Syncing);
    assert_eq!(health.choose(SECOND, &served), None);
    assert_eq!(health.target(SECOND, &served), None);
    health.syncing_reported(1, SECOND, true);
    health.head_named(1, SECOND, claim(0, 9));
    assert_eq!(health.state(1, SECOND), UpstreamState::Syncing);
    assert_eq!(health.choose(SECOND, &served), None);
    health.head_named(0, SECOND, claim(0, 5));
    assert_eq!(health.state(0, SECOND), UpstreamState::Live);
    assert_eq!(
        health.choose(SECOND, &served).and_then(|switch| switch.to),
        Some(0)
    );
    assert_eq!(health.target(SECOND, &served), Some((0, claim(0, 5))));
    // The head of a syncing upstream does not make others lag.
    assert_eq!(health.state(0, 5 * SECOND), UpstreamState::Live);
    health.syncing_reported(1, SECOND, false);
    assert_eq!(health.state(1, SECOND), UpstreamState::Live);
    assert_eq!(health.named_head(1).map(|head| head.number), Some(9));
}

#[test]
fn the_followed_upstream_is_kept_while_it_is_live() {
    let mut scene = Scene::new(3);
    scene.name_head(1, 0, 101);
    scene.wait(499);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.name_head(0, 0, 101);
    scene.wait(1);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    assert_eq!(scene.target(), Some((0, 101)));
}

#[test]
fn a_lagging_upstream_is_replaced_within_one_block_time() {
    let mut scene = Scene::new(3);
    scene.name_head(2, 0, 101);
    scene.wait(500);
    assert_eq!(scene.state(0), UpstreamState::Lagging);
    let left = SwitchReason::Left(UpstreamState::Lagging);
    assert_eq!(scene.choose(), Some((Some(0), Some(2), left)));
    assert_eq!(scene.target(), Some((2, 101)));
    // At the head again it is live, but not followed again.
    scene.advance(2, 0, 101, 101);
    scene.name_head(0, 0, 101);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
}

#[test]
fn a_silent_upstream_is_replaced_after_three_block_times() {
    let mut scene = Scene::new(2);
    scene.wait(2_000);
    scene.name_head(1, 0, 100);
    scene.wait(999);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.wait(1);
    let silent = UpstreamState::Faulty(Fault::Silent);
    assert_eq!(
        scene.choose(),
        Some((Some(0), Some(1), SwitchReason::Left(silent)))
    );
    assert!(scene.health.silent(scene.now).is_empty(), "reported once");
    // Following none is better than following a silent one.
    scene.wait(2_000);
    assert_eq!(
        scene.choose(),
        Some((Some(1), None, SwitchReason::Left(silent)))
    );
    assert_eq!((scene.choose(), scene.target()), (None, None));
    // The first that names a head is followed.
    scene.name_head(0, 0, 100);
    assert_eq!(scene.choose(), Some((None, Some(0), SwitchReason::First)));
}

#[test]
fn a_faulty_upstream_is_replaced_at_once_and_can_recover() {
    let mut scene = Scene::new(2);
    let wait = scene.fail(0, Fault::Timeout);
    assert!(wait <= SECOND / 2, "within one block time: {wait:?}");
    let faulty = UpstreamState::Faulty(Fault::Timeout);
    assert_eq!(
        scene.choose(),
        Some((Some(0), Some(1), SwitchReason::Left(faulty)))
    );
    assert!(!scene.health.may_ask(0, CallClass::Heads, scene.now));
    assert_eq!(scene.health.poll_at(0, scene.now, true), scene.now + wait);
    // Other calls that fail at the same time are no further faults, and heads are ignored.
    assert_eq!(scene.fail(0, Fault::Connection), Duration::ZERO);
    scene.name_head(0, 0, 101);
    assert_eq!(scene.state(0), faulty);
    scene.now += wait;
    assert!(scene.health.may_ask(0, CallClass::Heads, scene.now));
    assert_eq!(scene.state(0), faulty);
    let longer = scene.fail(0, Fault::Refused);
    assert!(longer > wait, "{wait:?} {longer:?}");
    scene.now += longer;
    scene.name_head(0, 0, 100);
    assert_eq!(
        (scene.state(0), scene.choose()),
        (UpstreamState::Live, None)
    );
    // Old strikes no longer count.
    scene.wait(16_000);
    assert_eq!(scene.fail(0, Fault::Timeout), wait);
}

#[test]
fn a_lie_outweighs_a_fault_at_the_same_time() {
    let mut scene = Scene::new(2);
    let wait = scene.fail(0, Fault::Timeout);
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
    let limited = SwitchReason::Left(UpstreamState::Limited);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), limited)));
    scene.wait(19_999);
    assert!(!scene.health.may_ask(0, CallClass::Heads, scene.now));
    scene.wait(1);
    scene.name_head(0, 0, 100);
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
fn a_lower_head_of_another_upstream_is_lag() {
    let mut scene = Scene::new(2);
    // Upstream 1 is behind, on a fork of its own.
    scene.name_head(1, 7, 98);
    scene.fail(0, Fault::Connection);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(1)));
    for number in [98, 99, 100] {
        scene.name_head(1, 7, number);
        scene.wait(900);
        assert_eq!((scene.choose(), scene.target()), (None, None), "{number}");
    }
    scene.name_head(1, 7, 101);
    assert_eq!(scene.target(), Some((1, 101)));
    scene.advance(1, 7, 96, 101);
    // From now on the served chain comes from it: a lower head on another branch is a reorg if it
    // lasts.
    scene.name_head(1, 8, 101);
    assert_eq!(scene.target(), Some((1, 101)));
    scene.name_head(1, 8, 99);
    assert_eq!(scene.target(), None);
    let patience = scene.health.block_time() / 2;
    scene.now += patience;
    assert_eq!(scene.target(), Some((1, 99)));
    // So is a lower head on the same branch, if it lasts longer.
    scene.name_head(1, 7, 99);
    scene.now += patience * 6 - Duration::from_millis(1);
    assert_eq!(scene.target(), None);
    scene.wait(1);
    assert_eq!(scene.target(), Some((1, 99)));
    // Not after a fault: then the upstream is only behind.
    let wait = scene.fail(1, Fault::Connection);
    scene.choose();
    scene.now += wait;
    scene.name_head(1, 7, 99);
    assert!(scene.choose().is_some());
    scene.now += patience * 6;
    assert_eq!(scene.target(), None);
}

#[test]
fn two_replicas_behind_one_url_do_not_take_the_head_back() {
    let mut scene = Scene::new(1);
    for number in 101..120 {
        scene.wait(500);
        scene.name_head(0, 0, number - 3);
        assert_eq!((scene.choose(), scene.target()), (None, None));
        scene.wait(500);
        scene.name_head(0, 0, number);
        assert_eq!((scene.choose(), scene.target()), (None, Some((0, number))));
        scene.advance(0, 0, number, number);
    }
}

#[test]
fn of_two_forks_the_later_finalized_one_is_followed() {
    let mut scene = Scene::new(3);
    let settle = |scene: &mut Scene, upstream, fork, number| {
        scene
            .health
            .finalized_named(upstream, Some((number, hash(fork, number))));
    };
    // Both have finalized the same block: no switch.
    settle(&mut scene, 0, 0, 60);
    settle(&mut scene, 1, 0, 60);
    scene.name_head(1, 5, 101);
    assert_eq!(scene.choose(), None);
    // A later block of the same chain.
    settle(&mut scene, 1, 0, 90);
    assert_eq!(scene.choose(), None);
    // A later block of another chain, from an upstream whose head is served: ignored.
    settle(&mut scene, 2, 5, 95);
    assert_eq!(scene.choose(), None);
    // A later block of another chain.
    settle(&mut scene, 1, 5, 90);
    assert_eq!(
        scene.choose(),
        Some((Some(0), Some(1), SwitchReason::LaterFinalized))
    );
    assert_eq!(scene.target(), Some((1, 101)));
    scene.advance(1, 5, 85, 101);
    scene.name_head(0, 0, 101);
    assert_eq!(scene.choose(), None);
    // Back again, if the first chain finalizes a later block.
    settle(&mut scene, 0, 0, 91);
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::LaterFinalized))
    );
    // Its head is not above the served one, which does not go back.
    assert_eq!(scene.target(), None);
    scene.name_head(0, 0, 102);
    assert_eq!(scene.target(), Some((0, 102)));
}

#[test]
fn polling_intervals_depend_on_the_role() {
    let mut scene = Scene::new(2);
    let millis = |scene: &Scene, upstream, announces| {
        (scene.health.poll_at(upstream, scene.now, announces) - scene.now).as_millis()
    };
    assert_eq!(millis(&scene, 0, false), 250);
    assert_eq!(millis(&scene, 0, true), 1_000);
    assert_eq!(millis(&scene, 1, false), 500);
    let wait = scene.fail(1, Fault::Silent);
    assert_eq!(millis(&scene, 1, true), wait.as_millis());
}

#[test]
fn fewest_strikes_and_then_the_operators_order_decide_between_equals() {
    let mut scene = Scene::new(4);
    let wait = scene.fail(1, Fault::Timeout);
    scene.now += wait;
    scene.name_head(1, 0, 100);
    scene.fail(0, Fault::Timeout);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(2)));
}
