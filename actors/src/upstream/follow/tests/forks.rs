//! Upstreams on different forks.

use super::*;

/// An honest upstream that is followed, on chain 0, and a liar on chain 1: made up since block 291,
/// all of its hashes right.
async fn beside_liar(blocks: u64) -> Scene {
    let mut scene = Scene::new(2, 300);
    scene.runs(2_000).await;
    scene.take_events();
    scene.chains().add_fork(0, 290, blocks);
    scene.upstreams[1].is_on(1);
    scene
}

/// Both chains go on for this many seconds.
async fn go_on(scene: &mut Scene, seconds: u64) {
    for _ in 0..seconds {
        scene.mine(1);
        scene.chains().mine(1, 1);
        scene.runs(1_000).await;
    }
}

/// How often another upstream was followed because the one before is on another fork.
fn refusals(events: &[Event]) -> usize {
    let is_in_cooldown = |event: &&Event| match event {
        Event::Switched(switch) => switch.reason == SwitchReason::OtherFork,
        _ => false,
    };
    events.iter().filter(is_in_cooldown).count()
}

#[tokio::test(start_paused = true)]
async fn a_higher_fork_is_not_shown_beside_a_live_upstream() {
    for blocks in [11, 12, 30, 100, 137, 138, 1_010] {
        let mut scene = beside_liar(blocks).await;
        scene.upstreams[1].take_blocks();
        for _ in 0..50 {
            go_on(&mut scene, 1).await;
            scene.check_holds(0, 128);
        }
        assert!(!scene.has_shown(1, 291) && scene.went_up_only(), "{blocks}");
        let events = scene.take_events();
        let is_fault =
            |event: &Event| matches!(event, Event::Failed { .. } | Event::WindowStarted(_));
        assert!(!events.iter().any(is_fault), "{events:?}");
        assert!((1..=4).contains(&refusals(&events)), "{events:?}");
        // Nothing below the served head is asked for, and blocks above it seldom.
        let asked = scene.upstreams[1].take_blocks();
        let most = 4 * (blocks as usize).min(128);
        assert!(asked.iter().all(|number| *number > 300), "{asked:?}");
        assert!(asked.len() <= most, "{blocks}: {}", asked.len());
    }
}

/// One that gives its blocks one by one keeps nobody from the other.
#[tokio::test(start_paused = true)]
async fn a_higher_fork_that_drops_in_keeps_nobody_waiting() {
    let mut scene = beside_liar(100).await;
    scene.upstreams[1].says(Says::Slowly(Duration::from_millis(900)));
    let mut late = 0;
    for _ in 0..100 {
        go_on(&mut scene, 1).await;
        late += usize::from(scene.head() < scene.chains().head(0));
    }
    assert!(!scene.has_shown(1, 291) && scene.went_up_only());
    assert!(late < 30, "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_moving_fork_is_followed_instead_of_a_stuck_upstream() {
    for blocks in [11, 138] {
        let mut scene = beside_liar(blocks).await;
        go_on(&mut scene, 5).await;
        assert_eq!(scene.head(), 305);
        for _ in 0..5 {
            scene.chains().mine(1, 1);
            scene.runs(1_000).await;
        }
        scene.check_holds(1, 128);
        assert!(scene.went_up_only());
    }
}

/// An upstream that is far behind and catching up is replaced by the one at the chain's head.
#[tokio::test(start_paused = true)]
async fn one_far_ahead_is_followed_instead_of_one_catching_up() {
    let mut scene = Scene::new(2, 2_000);
    scene.chains().add_fork(0, 300, 0);
    scene
        .upstreams
        .iter()
        .for_each(|upstream| upstream.is_on(1));
    scene.runs(1_000).await;
    assert_eq!(scene.head(), 300);
    for _ in 0..100 {
        scene.chains().follow(1, 0, 4);
        scene.runs(200).await;
    }
    scene.check_holds(1, 128);
    scene.upstreams[1].is_on(0);
    for _ in 0..10 {
        scene.chains().follow(1, 0, 4);
        scene.runs(200).await;
    }
    scene.check_holds(0, 128);
}

/// Blocks that a liar puts on our own head are shown for as long as the honest upstream has none of
/// that height.
#[tokio::test(start_paused = true)]
async fn a_fork_above_the_head_is_given_up_for_the_predecessor() {
    for blocks in [1, 20, 120] {
        let mut scene = Scene::new(2, 290);
        // The chain's pace is known by more than the liar's blocks.
        for _ in 0..10 {
            scene.mine(1);
            scene.runs(1_000).await;
        }
        scene.take_events();
        scene.chains().add_fork(0, 300, blocks);
        scene.upstreams[1].is_on(1);
        scene.runs(999).await;
        assert_eq!(scene.head(), 300 + blocks);
        go_on(&mut scene, 4).await;
        scene.check_holds(0, 128);
        go_on(&mut scene, 10).await;
        scene.check_holds(0, 128);
        assert_eq!(refusals(&scene.take_events()), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_liars_blocks_are_replaced_by_a_lower_fork() {
    for blocks in [30, 138, 1_010] {
        let mut scene = beside_liar(blocks).await;
        let gone = Says::Error(CallError::Connection("gone".into()));
        scene.upstreams[0].says(gone);
        go_on(&mut scene, 4).await;
        scene.check_holds(1, 128);
        // Another one is there again, and nothing changes for that.
        scene.upstreams[0].says(Says::Truth);
        go_on(&mut scene, 8).await;
        scene.check_holds(1, 128);
        // Until the liar is caught.
        scene.upstreams[1].says(Says::BadBlocks);
        go_on(&mut scene, 3).await;
        scene.check_holds(0, 128);
    }
}

/// Settled blocks are taken from upstreams on the served chain.
#[tokio::test(start_paused = true)]
async fn settled_blocks_of_another_fork_are_ignored() {
    let mut scene = beside_liar(15).await;
    scene.upstreams[0].settles(0, 250);
    scene.upstreams[1].settles(0, 290);
    go_on(&mut scene, 20).await;
    let final_block = scene.chains().block(0, 250).unwrap().hash;
    assert_eq!(scene.finals(), [final_block].into());
    assert!(refusals(&scene.take_events()) > 0);
}
