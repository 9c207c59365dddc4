//! A window that refuses blocks: a fault of the upstream that gave them, not the end of following.

use super::{scene::Change, *};

/// The waits of the faults of an upstream for blocks that do not fit.
fn unfit(events: &[Event], of: usize) -> Vec<Duration> {
    let waits = events.iter().filter_map(|event| match *event {
        Event::Failed {
            upstream,
            reason: Some("unfit"),
            wait,
            ..
        } if upstream == of => Some(wait),
        _ => None,
    });
    waits.collect()
}

/// Checks that the only upstream is backed off for a while, and then tried again.
async fn check_backed_off(change: Change, before: impl FnOnce(&Scene)) {
    let mut scene = Scene::new(1, 300);
    if change != Change::Reset {
        scene.run_for(2_000).await;
    }
    scene.take_events();
    scene.refuse(Some(change));
    before(&scene);
    scene.run_for(10_000).await;
    let waits = unfit(&scene.take_events(), 0);
    assert!((2..=20).contains(&waits.len()), "{change:?}: {waits:?}");
    assert!(!waits.contains(&Duration::ZERO), "{change:?}: {waits:?}");
    scene.refuse(None);
    scene.run_for(60_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_whose_blocks_do_not_fit_is_backed_off() {
    check_backed_off(Change::Reset, |_| {}).await;
    check_backed_off(Change::Advance, |scene| scene.mine(1)).await;
    check_backed_off(Change::Advance, |scene| scene.chains().fork(0, 290, 12)).await;
    check_backed_off(Change::Reset, |scene| scene.chains().fork(0, 100, 300)).await;
}

/// New heads do not wait for old blocks.
#[tokio::test(start_paused = true)]
async fn a_refused_old_block_does_not_hold_back_the_head() {
    for change in [Change::ExtendBelow, Change::KeepGenesis] {
        let mut scene = Scene::new(1, 300);
        scene.refuse(Some(change));
        scene.run_for(2_000).await;
        for number in 301..=330 {
            scene.mine(1);
            scene.run_for(1_000).await;
            assert_eq!(scene.head(), number, "{change:?}");
        }
        let waits = unfit(&scene.take_events(), 0);
        assert!((3..=20).contains(&waits.len()), "{change:?}: {waits:?}");
        assert!(waits.iter().all(Duration::is_zero), "{change:?}: {waits:?}");
        let oldest = match change {
            Change::ExtendBelow => 300,
            _ => 203,
        };
        let expected = (oldest, change == Change::ExtendBelow);
        assert_eq!((scene.oldest(), scene.genesis().is_some()), expected);
        scene.refuse(None);
        scene.run_for(60_000).await;
        scene.check_holds(0, 128);
        assert_eq!(
            scene.genesis(),
            Some(scene.chains().block(0, 0).unwrap().hash)
        );
    }
}

/// With another upstream, blocks that do not fit are asked for there.
#[tokio::test(start_paused = true)]
async fn another_upstream_is_asked_for_blocks_that_fit() {
    let mut scene = Scene::new(2, 300);
    scene.refuse(Some(Change::ExtendBelow));
    scene.run_for(2_000).await;
    let events = scene.take_events();
    for upstream in 0..2 {
        let waits = unfit(&events, upstream);
        assert!(!waits.is_empty(), "{upstream}: {events:?}");
    }
    scene.refuse(None);
    scene.run_for(120_000).await;
    scene.check_holds(0, 128);
}

/// Blocks of a fork that is not known here are no fault: the head stands, the upstreams are live,
/// and are asked for the block a few times in a block time. Everything goes on once it is known.
#[tokio::test(start_paused = true)]
async fn blocks_of_an_unknown_fork_are_no_fault() {
    for (change, before) in [
        (Change::Reset, false),
        (Change::Advance, true),
        (Change::ExtendBelow, false),
    ] {
        let mut scene = Scene::with_quorum(3, 2, 300);
        if before {
            scene.run_for(5_000).await;
        }
        scene.refuse_fork(change);
        for upstream in &scene.upstreams {
            upstream.take_blocks();
        }
        scene.mine_for(10).await;
        match change {
            Change::Advance => assert_eq!(scene.head(), 300),
            Change::ExtendBelow => assert_eq!((scene.oldest(), scene.head()), (301, 310)),
            Change::Reset | Change::KeepGenesis => {}
        }
        let events = scene.take_events();
        let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
        assert!(!events.iter().any(is_fault), "{change:?}: {events:?}");
        let live = |(_, state): &(usize, UpstreamState)| *state == UpstreamState::Live;
        let states = scene.take_states();
        assert!(states.iter().all(live), "{change:?}: {states:?}");
        for upstream in &scene.upstreams {
            let asked = upstream.take_blocks().len();
            // Each turn fetches a path of up to ten blocks again.
            assert!(asked <= 400, "{change:?}: {asked}");
        }
        scene.refuse(None);
        scene.mine(1);
        scene.run_for(20_000).await;
        scene.check_holds(0, 128);
    }
}
