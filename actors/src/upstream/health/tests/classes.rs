//! A refusal or a stall in one class of calls does not take an upstream away from the others.
#![expect(clippy::unwrap_used, reason = "tests")]

use CallClass::{Blocks, Heads, State};

use super::{policy::*, *};

/// What is still asked of an upstream, by class.
fn may_ask_of(scene: &Scene, upstream: UpstreamId) -> [bool; 3] {
    CallClass::ALL.map(|class| scene.health.may_ask(upstream, class, scene.now))
}

#[test]
fn a_failure_in_one_class_leaves_the_others() {
    let limited = Verdict::Limited(Some(600 * SECOND));
    let fault = Verdict::Fault;
    for (class, verdict, may_ask, state) in [
        (Heads, limited, [false, true, true], UpstreamState::Limited),
        (Blocks, limited, [true, false, true], UpstreamState::Limited),
        (State, limited, [true, true, false], UpstreamState::Live),
        (
            Heads,
            fault(Fault::Timeout),
            [false, true, true],
            UpstreamState::Faulty(Fault::Timeout),
        ),
        (
            Blocks,
            fault(Fault::Timeout),
            [true, false, true],
            UpstreamState::Faulty(Fault::Timeout),
        ),
        (
            State,
            fault(Fault::Timeout),
            [true, true, false],
            UpstreamState::Live,
        ),
        (
            State,
            fault(Fault::BadProof),
            [true, true, false],
            UpstreamState::Live,
        ),
    ] {
        let mut scene = Scene::new(2);
        let wait = scene.health.failed(0, class, scene.now, verdict).unwrap();
        assert_eq!(may_ask_of(&scene, 0), may_ask, "{class:?} {verdict:?}");
        assert_eq!(scene.state(0), state, "{class:?} {verdict:?}");
        assert_eq!(may_ask_of(&scene, 1), [true; 3]);
        // The same failure again changes nothing until the wait is over.
        scene.now += wait - Duration::from_millis(1);
        assert_eq!(scene.health.failed(0, class, scene.now, verdict), None);
        assert_eq!(may_ask_of(&scene, 0), may_ask, "{class:?} {verdict:?}");
        scene.wait(1);
        assert_eq!(may_ask_of(&scene, 0), [true; 3], "{class:?} {verdict:?}");
    }
}

#[test]
fn every_class_has_strikes_and_waits_of_its_own() {
    let mut scene = Scene::new(1);
    let fail = |scene: &mut Scene, class| {
        let verdict = Verdict::Fault(Fault::Timeout);
        let wait = scene.health.failed(0, class, scene.now, verdict);
        wait.unwrap_or_default()
    };
    let first = fail(&mut scene, State);
    scene.now += first;
    let second = fail(&mut scene, State);
    assert!(second > first, "{first:?} {second:?}");
    for class in [Heads, Blocks] {
        assert_eq!(fail(&mut scene, class), first, "{class:?}");
    }
    // They are forgotten one by one, too: the second wait for state ended later.
    scene.now += first + 16 * SECOND;
    assert_eq!(fail(&mut scene, Heads), first);
    assert!(fail(&mut scene, State) > second);
}

/// An upstream that gives no blocks for a while is polled all the same, and usable at once when
/// that is over.
#[test]
fn heads_count_while_an_upstream_gives_no_blocks() {
    let mut scene = Scene::new(2);
    let limited = Verdict::Limited(Some(10 * SECOND));
    let end = scene.now + 10 * SECOND;
    scene.health.failed(0, Blocks, scene.now, limited);
    for number in 101..110 {
        let polled_at = scene.health.poll_at(0, scene.now, false);
        assert_eq!(polled_at, scene.now + SECOND / 4);
        scene.wait(1_000);
        scene.name_head(0, number);
        scene.name_head(1, number);
        scene.health.advanced(scene.now, number);
        assert_eq!(scene.health.head(0).map(|head| head.number), Some(number));
        assert_eq!(scene.state(0), UpstreamState::Limited);
    }
    // The next poll is at the end of the backoff, however often it is polled.
    scene.wait(900);
    for announces in [false, true] {
        assert_eq!(scene.health.poll_at(0, scene.now, announces), end);
    }
    scene.now = end;
    scene.name_head(0, 109);
    assert_eq!(scene.state(0), UpstreamState::Live);
    // Being backed off for heads outweighs that: no poll is made.
    scene.health.failed(0, Blocks, scene.now, limited);
    let wait = Some(20 * SECOND);
    scene
        .health
        .failed(0, Heads, scene.now, Verdict::Limited(wait));
    assert_eq!(scene.health.poll_at(0, scene.now, false), end + 20 * SECOND);
}

/// An upstream that stops naming heads is silent, whatever its blocks do.
#[test]
fn silence_is_noticed_while_an_upstream_gives_no_blocks() {
    let mut scene = Scene::new(1);
    let limited = Verdict::Limited(Some(600 * SECOND));
    scene.health.failed(0, Blocks, scene.now, limited);
    scene.wait(2_999);
    assert!(scene.health.silent(scene.now).is_empty());
    scene.wait(1);
    assert_eq!(scene.health.silent(scene.now), [0]);
}

/// A lie about state leads to a long wait only if another upstream can be asked.
#[test]
fn a_lie_about_state_is_grave_if_another_upstream_gives_state() {
    let lie = Verdict::Fault(Fault::BadProof);
    let alone = |scene: &mut Scene| scene.health.failed(0, State, scene.now, lie).unwrap();
    let mut scene = Scene::new(1);
    let short = alone(&mut scene);
    let mut scene = Scene::new(2);
    let limited = Verdict::Limited(Some(600 * SECOND));
    scene.health.failed(1, State, scene.now, limited);
    assert_eq!(alone(&mut scene), short);
    let mut scene = Scene::new(2);
    // Being backed off for heads does not matter.
    scene.health.failed(1, Heads, scene.now, limited);
    assert!(alone(&mut scene) >= short * 16);
}
