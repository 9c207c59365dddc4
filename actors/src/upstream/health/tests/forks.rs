//! Which of two forks is followed.

use super::{
    policy::{SECOND, Scene},
    *,
};

const LAGGING: SwitchReason = SwitchReason::Left(UpstreamState::Lagging);

/// Upstream 1 is on a fork, ahead, and has just been chosen for that; upstream 0 has named block
/// 100 now.
fn on_probation(upstreams: usize) -> Scene {
    let mut scene = Scene::new(upstreams);
    scene.named(1, 7, 101);
    scene.later(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    assert!(scene.health.is_on_probation());
    scene
}

/// A second, in which these upstreams go one further on their forks.
fn second(scene: &mut Scene, upstreams: &[(UpstreamId, u64)]) {
    scene.later(1_000);
    for (upstream, fork) in upstreams {
        let number = scene.health.named(*upstream).map_or(0, |head| head.number);
        scene.named(*upstream, *fork, number + 1);
    }
}

#[test]
fn a_fork_is_refused_while_the_upstream_before_moves() {
    let mut scene = on_probation(2);
    assert_eq!(scene.health.settled_source(&scene.ours), None);
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    assert_eq!(scene.health.settled_source(&scene.ours), Some(0));
    // It does not count as ahead for 16 block times.
    for at in 1..16 {
        second(&mut scene, &[(0, 0), (1, 7)]);
        let head = 100 + at;
        assert_eq!(scene.target(), Some((0, head)));
        scene.goes_to(0, 0, head, head);
        scene.later(600);
        assert_eq!(
            (scene.choose(), scene.state(0)),
            (None, UpstreamState::Live)
        );
        scene.now -= Duration::from_millis(600);
    }
    second(&mut scene, &[(0, 0), (1, 7)]);
    scene.later(1);
    scene.named(1, 7, 120);
    scene.later(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
}

#[test]
fn a_fork_is_followed_where_nobody_moves_on_ours() {
    // The upstream before has not moved for three block times.
    let mut scene = on_probation(2);
    scene.later(2_500);
    scene.named(0, 0, 100);
    assert!(!scene.health.refuses_path(scene.now, false));
    assert_eq!(scene.target(), Some((1, 101)));
    assert_eq!(scene.health.settled_source(&scene.ours), Some(1));
    // Or it failed.
    let mut scene = on_probation(2);
    scene.fails(0, Fault::Timeout);
    assert!(!scene.health.refuses_path(scene.now, false));
    // Or it stops after that.
    let mut scene = on_probation(2);
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    scene.later(2_499);
    scene.named(0, 0, 100);
    scene.named(1, 7, 103);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.later(1);
    assert_eq!(
        (scene.choose(), scene.state(0)),
        (None, UpstreamState::Live)
    );
    scene.later(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    assert!(!scene.health.refuses_path(scene.now, false));
}

#[test]
fn an_upstream_that_joins_the_served_chain_ends_its_cooldown() {
    let mut scene = on_probation(2);
    assert!(scene.health.refuses_path(scene.now, false));
    assert!(scene.choose().is_some());
    scene.named(1, 0, 101);
    assert_eq!(scene.choose(), None);
    scene.later(500);
    assert_eq!(scene.choose(), Some((Some(0), Some(1), LAGGING)));
    scene.goes_to(1, 0, 101, 101);
    // The probation is over: every path is accepted.
    assert!(!scene.health.refuses_path(scene.now, false));
    assert!(!scene.health.is_on_probation());
}

#[test]
fn another_upstream_on_our_chain_is_a_witness_too() {
    let mut scene = Scene::new(3);
    scene.named(1, 7, 101);
    let wait = scene.fails(0, Fault::Timeout);
    assert!(wait < SECOND);
    let left = SwitchReason::Left(UpstreamState::Faulty(Fault::Timeout));
    assert_eq!(scene.choose(), Some((Some(0), Some(1), left)));
    assert!(scene.health.refuses_path(scene.now, false));
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(2), SwitchReason::OtherFork))
    );
    // It is on probation itself.
    assert!(scene.health.is_on_probation());
    // An upstream in cooldown is the last choice.
    scene.fails(2, Fault::Timeout);
    scene.now += wait;
    scene.named(0, 0, 100);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(0)));
}

/// Upstream 0 has named heads for long, by this many blocks of this many seconds at a time; the
/// other one is far ahead.
fn check_far(blocks: u64, seconds: u64, is_refused: bool) {
    let mut scene = Scene::new(2);
    for at in 1..20 {
        scene.now += SECOND * seconds as u32;
        let head = 100 + at * blocks;
        scene.named(0, 0, head);
        scene.named(1, 0, head);
        scene.choose();
        scene.goes_to(0, 0, head, head);
    }
    scene.named(1, 7, 5_000);
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
fn one_far_ahead_is_followed_if_the_predecessor_is_catching_up() {
    check_far(1, 1, true);
    check_far(2, 2, true);
    // A chain that has missed blocks: what counts are seconds, and hardly one is missing.
    check_far(3, 4, true);
    // It catches up, or falls further behind.
    check_far(10, 1, false);
    check_far(100, 2, false);
    check_far(1, 3, false);
}

/// Upstream 1 has taken us to blocks of its own above what upstream 0 had.
fn advanced_by_fork(number: u64) -> Scene {
    let mut scene = on_probation(2);
    scene.named(1, 7, number);
    scene.goes_to(1, 7, 101, number);
    scene
}

#[test]
fn the_predecessor_is_followed_again_if_it_contradicts() {
    let mut scene = advanced_by_fork(110);
    second(&mut scene, &[(0, 0)]);
    assert_eq!(scene.choose(), None);
    // For a block time it may be late.
    second(&mut scene, &[(0, 0), (1, 7)]);
    assert_eq!(
        scene.choose(),
        Some((Some(1), Some(0), SwitchReason::OtherFork))
    );
    // What the other gave is not kept, although it is higher.
    scene.later(500);
    assert_eq!(scene.target(), Some((0, 102)));
    scene.goes_to(0, 0, 101, 102);
    second(&mut scene, &[(0, 0), (1, 7)]);
    scene.later(700);
    assert_eq!((scene.choose(), scene.target()), (None, Some((0, 103))));
}

#[test]
fn an_upstream_that_was_late_contradicts_nobody() {
    // It comes after us.
    let mut scene = advanced_by_fork(101);
    scene.named(0, 0, 101);
    assert_eq!(scene.choose(), None);
    scene.later(900);
    scene.named(0, 7, 101);
    assert_eq!(scene.choose(), None);
    scene.later(900);
    assert_eq!(scene.choose(), None);
    // Long after the switch the one that is followed is followed.
    let mut scene = advanced_by_fork(101);
    scene.later(16_000);
    scene.named(1, 7, 101);
    scene.named(0, 0, 101);
    assert_eq!(scene.choose(), None);
    second(&mut scene, &[(0, 0), (1, 7)]);
    assert_eq!(scene.choose(), None);
}

#[test]
fn a_liars_blocks_are_not_kept() {
    let mut scene = Scene::new(2);
    scene.named(0, 7, 150);
    scene.goes_to(0, 7, 90, 150);
    scene.named(1, 0, 120);
    scene.fails(0, Fault::BadBlock);
    let left = SwitchReason::Left(UpstreamState::Faulty(Fault::BadBlock));
    assert_eq!(scene.choose(), Some((Some(0), Some(1), left)));
    assert!(!scene.health.is_on_probation());
    scene.later(499);
    assert_eq!(scene.target(), None);
    scene.later(1);
    assert_eq!(scene.target(), Some((1, 120)));
    // A served block is lag for as long as it is named.
    scene.named(1, 7, 120);
    for _ in 0..9 {
        scene.later(1_000);
        scene.named(1, 7, 120);
        assert_eq!((scene.choose(), scene.target()), (None, None));
    }
    // As high as the served head, on another fork.
    scene.named(1, 0, 150);
    assert_eq!(scene.target(), Some((1, 150)));
    // From then on it is its chain.
    scene.goes_to(1, 0, 91, 150);
    scene.named(1, 0, 149);
    scene.later(2_999);
    assert_eq!(scene.target(), None);
    scene.later(1);
    assert_eq!(scene.target(), Some((1, 149)));
}

/// Upstreams followed in between that give no blocks do not change that.
#[test]
fn a_liars_blocks_are_not_kept_until_another_advances_the_head() {
    let mut scene = Scene::new(3);
    scene.named(0, 7, 150);
    scene.goes_to(0, 7, 90, 150);
    for upstream in [1, 2] {
        scene.fails(upstream, Fault::Connection);
    }
    scene.fails(0, Fault::BadBlock);
    assert!(scene.choose().is_some_and(|(_, to, _)| to.is_none()));
    scene.later(1_000);
    scene.named(1, 0, 120);
    assert_eq!(scene.choose(), Some((None, Some(1), SwitchReason::First)));
    scene.fails(1, Fault::Connection);
    scene.named(2, 0, 121);
    assert!(scene.choose().is_some_and(|(_, to, _)| to == Some(2)));
    scene.later(500);
    assert_eq!(scene.target(), Some((2, 121)));
}
