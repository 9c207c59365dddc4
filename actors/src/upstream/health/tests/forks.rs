//! Which of two forks is followed.

use super::{
    policy::{SECOND, Scene},
    *,
};

const LAGGING: SwitchReason = SwitchReason::Left(UpstreamState::Lagging);

/// Upstream 1 is on a fork and ahead, and has just been chosen for that. Upstream 0 has named
/// block 100.
fn on_probation(upstreams: usize) -> Scene {
    let mut scene = Scene::new(upstreams);
    scene.name_head(1, 7, 101);
    scene.wait(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    assert!(scene.health.is_on_probation());
    scene
}

/// Lets a second pass in which each of these upstreams gets one block on its fork.
fn pass_second(scene: &mut Scene, upstreams: &[(UpstreamId, u64)]) {
    scene.wait(1_000);
    for (upstream, fork) in upstreams {
        let number = scene
            .health
            .named_head(*upstream)
            .map_or(0, |head| head.number);
        scene.name_head(*upstream, *fork, number + 1);
    }
}

#[test]
fn a_fork_is_refused_while_the_predecessor_advances() {
    let mut scene = on_probation(2);
    assert_eq!(scene.health.settled_source(&scene.served), None);
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    assert_eq!(scene.health.settled_source(&scene.served), Some(0));
    // It does not count as ahead for 16 block times.
    for at in 1..16 {
        pass_second(&mut scene, &[(0, 0), (1, 7)]);
        let head = 100 + at;
        assert_eq!(scene.target(), Some((0, head)));
        scene.advance(0, 0, head, head);
        scene.wait(600);
        assert_eq!(
            (scene.choose(), scene.state(0)),
            (None, UpstreamState::Live)
        );
        scene.now -= Duration::from_millis(600);
    }
    pass_second(&mut scene, &[(0, 0), (1, 7)]);
    scene.wait(1);
    scene.name_head(1, 7, 120);
    scene.wait(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
}

#[test]
fn a_fork_is_followed_if_no_upstream_advances_the_served_chain() {
    // The predecessor has not advanced for three block times.
    let mut scene = on_probation(2);
    scene.wait(2_500);
    scene.name_head(0, 0, 100);
    assert!(!scene.health.refuses_path(scene.now, false));
    assert_eq!(scene.target(), Some((1, 101)));
    assert_eq!(scene.health.settled_source(&scene.served), Some(1));
    // The predecessor failed.
    let mut scene = on_probation(2);
    scene.fail(0, Fault::Timeout);
    assert!(!scene.health.refuses_path(scene.now, false));
    // The predecessor stops after the switch back to it.
    let mut scene = on_probation(2);
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    scene.wait(2_499);
    scene.name_head(0, 0, 100);
    scene.name_head(1, 7, 103);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.wait(1);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.wait(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    assert!(!scene.health.refuses_path(scene.now, false));
}

#[test]
fn an_upstream_that_joins_the_served_chain_ends_its_cooldown() {
    let mut scene = on_probation(2);
    assert!(scene.health.refuses_path(scene.now, false));
    assert!(scene.choose().is_some());
    scene.name_head(1, 0, 101);
    assert_eq!(scene.choose(), None);
    scene.wait(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    scene.advance(1, 0, 101, 101);
    // The probation is over: every path is accepted.
    assert!(!scene.health.refuses_path(scene.now, false));
    assert!(!scene.health.is_on_probation());
}

#[test]
fn any_upstream_on_the_served_chain_is_a_witness() {
    let mut scene = Scene::new(3);
    scene.name_head(1, 7, 101);
    let wait = scene.fail(0, Fault::Timeout);
    assert!(wait < SECOND);
    let left = SwitchReason::Left(UpstreamState::Faulty(Fault::Timeout));
    assert_eq!(scene.choose(), Some((Some(0), Some(1), left)));
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(2), SwitchReason::OtherFork))
    );
    // The witness is on probation itself.
    assert!(scene.health.is_on_probation());
    // An upstream in cooldown is chosen last.
    scene.fail(2, Fault::Timeout);
    scene.now += wait;
    scene.name_head(0, 0, 100);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(0)));
}

/// Checks whether a fork far ahead is refused after the predecessor has named heads for a long
/// time: `blocks` more every `seconds` seconds.
fn check_far(blocks: u64, seconds: u64, is_refused: bool) {
    let mut scene = Scene::new(2);
    for at in 1..20 {
        scene.now += SECOND * seconds as u32;
        let head = 100 + at * blocks;
        scene.name_head(0, 0, head);
        scene.name_head(1, 0, head);
        scene.choose();
        scene.advance(0, 0, head, head);
    }
    scene.name_head(1, 7, 5_000);
    let patience = scene.health.block_time() / 2;
    scene.now += patience;
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    let case = format!("{blocks} blocks in {seconds} s");
    assert_eq!(
        scene.health.refuses_path(scene.now, true),
        is_refused,
        "{case}"
    );
}

#[test]
fn an_upstream_far_ahead_is_followed_if_the_predecessor_is_catching_up() {
    check_far(1, 1, true);
    check_far(2, 2, true);
    // A chain that misses slots: its pace is measured in seconds, of which few are missing.
    check_far(3, 4, true);
    // The predecessor catches up, or falls further behind.
    check_far(10, 1, false);
    check_far(100, 2, false);
    check_far(1, 3, false);
}

/// Upstream 1 has advanced the served chain to blocks of its own, above those of upstream 0.
fn advanced_by_fork(number: u64) -> Scene {
    let mut scene = on_probation(2);
    scene.name_head(1, 7, number);
    scene.advance(1, 7, 101, number);
    scene
}

#[test]
fn the_predecessor_is_followed_again_if_it_names_another_chain() {
    let mut scene = advanced_by_fork(110);
    pass_second(&mut scene, &[(0, 0)]);
    assert_eq!(scene.choose(), None);
    // Within a block time it may just be late.
    pass_second(&mut scene, &[(0, 0), (1, 7)]);
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    // The blocks of the other upstream are replaced, although they are higher.
    scene.wait(500);
    assert_eq!(scene.target(), Some((0, 102)));
    scene.advance(0, 0, 101, 102);
    pass_second(&mut scene, &[(0, 0), (1, 7)]);
    scene.wait(700);
    assert_eq!((scene.choose(), scene.target()), (None, Some((0, 103))));
}

#[test]
fn a_late_predecessor_is_not_followed_again() {
    // It follows the served chain later.
    let mut scene = advanced_by_fork(101);
    scene.name_head(0, 0, 101);
    assert_eq!(scene.choose(), None);
    scene.wait(900);
    scene.name_head(0, 7, 101);
    assert_eq!(scene.choose(), None);
    scene.wait(900);
    assert_eq!(scene.choose(), None);
    // Long after the switch the followed upstream stays.
    let mut scene = advanced_by_fork(101);
    scene.wait(16_000);
    scene.name_head(1, 7, 101);
    scene.name_head(0, 0, 101);
    assert_eq!(scene.choose(), None);
    pass_second(&mut scene, &[(0, 0), (1, 7)]);
    assert_eq!(scene.choose(), None);
}

#[test]
fn a_liars_blocks_are_replaced() {
    let mut scene = Scene::new(2);
    scene.name_head(0, 7, 150);
    scene.advance(0, 7, 90, 150);
    scene.name_head(1, 0, 120);
    scene.fail(0, Fault::BadBlock);
    let left = SwitchReason::Left(UpstreamState::Faulty(Fault::BadBlock));
    assert_eq!(scene.choose(), Some((Some(0), Some(1), left)));
    assert!(!scene.health.is_on_probation());
    scene.wait(499);
    assert_eq!(scene.target(), None);
    scene.wait(1);
    assert_eq!(scene.target(), Some((1, 120)));
    // A served block counts as lag for as long as it is named.
    scene.name_head(1, 7, 120);
    for _ in 0..9 {
        scene.wait(1_000);
        scene.name_head(1, 7, 120);
        assert_eq!((scene.choose(), scene.target()), (None, None));
    }
    // A head as high as the served one, on another fork.
    scene.name_head(1, 0, 150);
    assert_eq!(scene.target(), Some((1, 150)));
    // From now on the served chain comes from upstream 1.
    scene.advance(1, 0, 91, 150);
    scene.name_head(1, 0, 149);
    scene.wait(2_999);
    assert_eq!(scene.target(), None);
    scene.wait(1);
    assert_eq!(scene.target(), Some((1, 149)));
}

/// Upstreams that are followed in between without serving blocks change nothing.
#[test]
fn a_liars_blocks_stay_replaceable_until_another_upstream_advances_the_head() {
    let mut scene = Scene::new(3);
    scene.name_head(0, 7, 150);
    scene.advance(0, 7, 90, 150);
    for upstream in [1, 2] {
        scene.fail(upstream, Fault::Connection);
    }
    scene.fail(0, Fault::BadBlock);
    assert!(scene.choose().is_some_and(|(_, to, _)| to.is_none()));
    scene.wait(1_000);
    scene.name_head(1, 0, 120);
    assert_eq!(scene.choose(), Some((None, Some(1), SwitchReason::First)));
    scene.fail(1, Fault::Connection);
    scene.name_head(2, 0, 121);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(2)));
    scene.wait(500);
    assert_eq!(scene.target(), Some((2, 121)));
}
