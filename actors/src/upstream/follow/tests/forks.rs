//! Upstreams on different forks.

use super::*;

/// An honest upstream on chain 0, which is followed, and a liar on chain 1. The liar's blocks from
/// 291 on are invented; their hashes are valid.
async fn scene_with_liar(blocks: u64) -> Scene {
    let mut scene = Scene::new(2, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.chains().add_fork(0, 290, blocks);
    scene.upstreams[1].set_chain(1);
    scene
}

/// Extends both chains by a block a second for this many seconds.
async fn extend_both(scene: &mut Scene, seconds: u64) {
    for _ in 0..seconds {
        scene.mine(1);
        scene.chains().mine(1, 1);
        scene.run_for(1_000).await;
    }
}

/// The number of switches away from an upstream on another fork.
fn fork_switches(events: &[Event]) -> usize {
    let is_other_fork = |event: &&Event| match event {
        Event::Switched(switch) => switch.reason == SwitchReason::OtherFork,
        _ => false,
    };
    events.iter().filter(is_other_fork).count()
}

#[tokio::test(start_paused = true)]
async fn a_higher_fork_is_not_served_beside_a_live_upstream() {
    for blocks in [11, 12, 30, 100, 137, 138, 1_010] {
        let mut scene = scene_with_liar(blocks).await;
        scene.upstreams[1].take_blocks();
        for _ in 0..50 {
            extend_both(&mut scene, 1).await;
            scene.check_holds(0, 128);
        }
        assert!(
            !scene.has_served(1, 291) && scene.never_went_back(),
            "{blocks}"
        );
        let events = scene.take_events();
        let is_fault =
            |event: &Event| matches!(event, Event::Failed { .. } | Event::WindowStarted(_));
        assert!(!events.iter().any(is_fault), "{events:?}");
        assert!((1..=4).contains(&fork_switches(&events)), "{events:?}");
        // No block up to the served head is fetched, and few above it.
        let asked = scene.upstreams[1].take_blocks();
        let asked_max = 4 * (blocks as usize).min(128);
        assert!(asked.iter().all(|number| *number > 300), "{asked:?}");
        assert!(asked.len() <= asked_max, "{blocks}: {}", asked.len());
    }
}

/// A fork whose blocks arrive slowly does not delay the honest chain.
#[tokio::test(start_paused = true)]
async fn a_higher_fork_that_arrives_slowly_delays_few_heads() {
    let mut scene = scene_with_liar(100).await;
    scene.upstreams[1].set_behavior(Behavior::Slow(Duration::from_millis(900)));
    let mut late = 0;
    for _ in 0..100 {
        extend_both(&mut scene, 1).await;
        late += usize::from(scene.head() < scene.chains().head(0));
    }
    assert!(!scene.has_served(1, 291) && scene.never_went_back());
    assert!(late < 30, "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_moving_fork_is_followed_instead_of_a_stuck_upstream() {
    for blocks in [11, 138] {
        let mut scene = scene_with_liar(blocks).await;
        extend_both(&mut scene, 5).await;
        assert_eq!(scene.head(), 305);
        for _ in 0..5 {
            scene.chains().mine(1, 1);
            scene.run_for(1_000).await;
        }
        scene.check_holds(1, 128);
        assert!(scene.never_went_back());
    }
}

/// An upstream that is far behind and catching up is replaced by one at the head of the chain.
#[tokio::test(start_paused = true)]
async fn an_upstream_far_ahead_is_followed_instead_of_one_catching_up() {
    let mut scene = Scene::new(2, 2_000);
    scene.chains().add_fork(0, 300, 0);
    scene
        .upstreams
        .iter()
        .for_each(|upstream| upstream.set_chain(1));
    scene.run_for(1_000).await;
    assert_eq!(scene.head(), 300);
    for _ in 0..100 {
        scene.chains().follow(1, 0, 4);
        scene.run_for(200).await;
    }
    scene.check_holds(1, 128);
    scene.upstreams[1].set_chain(0);
    for _ in 0..10 {
        scene.chains().follow(1, 0, 4);
        scene.run_for(200).await;
    }
    scene.check_holds(0, 128);
}

/// Blocks that a liar adds to the served head are served until the honest upstream has a block of
/// that height.
#[tokio::test(start_paused = true)]
async fn a_fork_above_the_head_is_given_up_for_the_predecessor() {
    for blocks in [1, 20, 120] {
        let mut scene = Scene::new(2, 290);
        // The block time is known from more than the liar's blocks.
        for _ in 0..10 {
            scene.mine(1);
            scene.run_for(1_000).await;
        }
        scene.take_events();
        scene.chains().add_fork(0, 300, blocks);
        scene.upstreams[1].set_chain(1);
        scene.run_for(999).await;
        assert_eq!(scene.head(), 300 + blocks);
        extend_both(&mut scene, 4).await;
        scene.check_holds(0, 128);
        extend_both(&mut scene, 10).await;
        scene.check_holds(0, 128);
        assert_eq!(fork_switches(&scene.take_events()), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_liars_blocks_are_replaced_by_a_lower_fork() {
    for blocks in [30, 138, 1_010] {
        let mut scene = scene_with_liar(blocks).await;
        let gone = Behavior::Error(CallError::Connection("gone".into()));
        scene.upstreams[0].set_behavior(gone);
        extend_both(&mut scene, 4).await;
        scene.check_holds(1, 128);
        // The honest upstream is back, which changes nothing.
        scene.upstreams[0].set_behavior(Behavior::Honest);
        extend_both(&mut scene, 8).await;
        scene.check_holds(1, 128);
        // Until a check catches the liar.
        scene.upstreams[1].set_behavior(Behavior::BadBlocks);
        extend_both(&mut scene, 3).await;
        scene.check_holds(0, 128);
    }
}

/// Only upstreams on the served chain settle blocks.
#[tokio::test(start_paused = true)]
async fn settled_blocks_of_another_fork_are_ignored() {
    let mut scene = scene_with_liar(15).await;
    scene.upstreams[0].settle(0, 250);
    scene.upstreams[1].settle(0, 290);
    extend_both(&mut scene, 20).await;
    let finalized = scene.chains().block(0, 250).unwrap().hash;
    assert_eq!(scene.finalized(), [finalized].into());
    assert!(fork_switches(&scene.take_events()) > 0);
}
