//! Backfill: the blocks below the first head of the window.

use super::*;

/// Checks that upstreams that have pruned old blocks are followed for new ones, and that the old
/// blocks are fetched after `later` makes an upstream serve them.
async fn check_pruned(later: impl FnOnce(&Scene)) {
    let mut scene = Scene::new(2, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::Pruned(280));
    }
    scene.run_for(2_000).await;
    // Block 280 waits for its parent.
    for held in 21..39 {
        scene.mine(1);
        scene.run_for(1_000).await;
        scene.check_holds(0, held);
    }
    // Pruned blocks are asked for again now and then; guesses at numbers are not.
    let asked = scene.upstreams[0].take_blocks();
    let refused = asked.iter().filter(|number| **number < 280).count();
    assert!((10..30).contains(&refused), "{asked:?}");
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!scene.events().iter().any(is_fault));
    later(&scene);
    scene.run_for(10_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_has_pruned_old_blocks_is_followed_for_new_ones() {
    check_pruned(|scene| scene.upstreams[0].set_behavior(Behavior::Honest)).await;
    check_pruned(|scene| scene.upstreams[1].set_behavior(Behavior::Honest)).await;
    check_pruned(|scene| {
        scene.upstreams[0].set_behavior(Behavior::Error(CallError::Connection("gone".into())));
        scene.upstreams[1].set_behavior(Behavior::Honest);
    })
    .await;
    // Another upstream has them: the first one is asked for heads all the same.
    let mut scene = Scene::new(2, 300);
    scene.upstreams[0].set_behavior(Behavior::Pruned(280));
    scene.run_for(2_000).await;
    scene.check_holds(0, 128);
    let preferred = |event: &&Event| matches!(event, Event::Preferred(_));
    assert_eq!(scene.events().iter().filter(preferred).count(), 1);
}

/// What another process or an earlier one left is filled before there is a new head.
#[tokio::test(start_paused = true)]
async fn a_window_that_was_there_is_filled_below_its_head() {
    let mut scene = Scene::new(2, 300);
    scene.hold(300);
    scene.run_for(2_000).await;
    scene.check_holds(0, 128);
}

/// The blocks are too large for 128 of them.
#[tokio::test(start_paused = true)]
async fn a_window_of_large_blocks_is_filled_as_far_as_they_fit() {
    let mut scene = Scene::new(1, 300);
    let block = scene.chains().block(0, 280).unwrap().bytes();
    scene.limit(WindowLimits {
        bytes: 40 * block,
        ..WindowLimits::default()
    });
    scene.run_for(2_000).await;
    let oldest = scene.oldest();
    assert!((255..270).contains(&oldest), "{oldest}");
    scene.upstreams[0].take_blocks();
    for number in 301..306 {
        scene.mine(1);
        scene.run_for(1_000).await;
        assert_eq!(scene.head(), number);
    }
    let asked = scene.upstreams[0].take_blocks();
    assert!(asked.iter().all(|number| *number > 300), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn the_genesis_is_kept_below_the_window() {
    let mut scene = Scene::new(2, 300);
    let genesis = scene.chains().block(0, 0).unwrap().hash;
    // A bad genesis is counted. Its upstream is still asked, and the other one is asked for it.
    scene.upstreams[0].set_behavior(Behavior::BadBlock(0));
    scene.run_for(500).await;
    scene.check_holds(0, 128);
    assert_eq!(scene.genesis(), None);
    let counted = Event::Failed {
        upstream: 0,
        class: CallClass::Blocks,
        reason: Some("gas_used"),
        wait: Duration::ZERO,
    };
    assert!(scene.events().contains(&counted), "{:?}", scene.events());
    scene.run_for(2_000).await;
    assert_eq!(scene.genesis(), Some(genesis));
    assert_eq!(scene.upstreams[1].take_blocks(), [0]);
    // It outlives a reset of the window, and is not fetched again.
    scene.chains().fork(0, 100, 300);
    scene.run_for(5_000).await;
    scene.check_holds(0, 128);
    assert_eq!(scene.genesis(), Some(genesis));
    assert!(!scene.upstreams[0].take_blocks()[128..].contains(&0));
}

/// Without a known genesis, nothing shows that a block 0 far below the window is the chain's.
#[tokio::test(start_paused = true)]
async fn an_unknown_genesis_is_not_fetched() {
    let mut scene = Scene::of(Chains::new(300), 2, 1, None);
    scene.run_for(10_000).await;
    scene.check_holds(0, 128);
    assert_eq!(scene.genesis(), None);
    for upstream in &scene.upstreams {
        assert!(!upstream.take_blocks().contains(&0));
    }
}

/// An upstream with another genesis is on another chain, whether or not the genesis is held.
#[tokio::test(start_paused = true)]
async fn an_upstream_with_another_genesis_is_not_asked() {
    let mut scene = Scene::new(2, 300);
    scene.upstreams[0].set_behavior(Behavior::OtherGenesis);
    scene.run_for(5_000).await;
    scene.check_holds(0, 128);
    assert!(scene.upstreams[0].take_blocks().is_empty());
    let states = scene.take_states();
    let other = UpstreamState::Faulty(Fault::WrongChain);
    assert!(states.contains(&(0, other)), "{states:?}");
}

/// An upstream that stalls, or gives one block after the other as slowly as it can, does not keep
/// the window from being filled.
#[tokio::test(start_paused = true)]
async fn a_slow_upstream_is_not_asked_for_old_blocks() {
    let slow = Duration::from_millis(900);
    // The other one gives the first block already if that is slow, too.
    for (behavior, first, faults) in [
        (Behavior::StallsBelow(300), 0, 1),
        (Behavior::Slow(slow), 1, 0),
    ] {
        let mut scene = Scene::new(2, 300);
        scene.upstreams[0].set_behavior(behavior.clone());
        scene.run_for(5_000).await;
        assert!(scene.events().contains(&Event::Preferred(first)));
        scene.check_holds(0, 128);
        let counted = Event::Failed {
            upstream: 0,
            class: CallClass::Blocks,
            reason: Some("timeout"),
            wait: Duration::ZERO,
        };
        let events = scene.take_events();
        let count = events.iter().filter(|event| **event == counted).count();
        assert_eq!(count, faults, "{behavior:?}");
        // Nor for those of the next window, a few block times later.
        let taken = |scene: &Scene| {
            let upstreams = scene.upstreams.iter();
            upstreams
                .map(|upstream| upstream.take_blocks().len())
                .collect::<Vec<_>>()
        };
        taken(&scene);
        scene.chains().fork(0, 300, 1_000);
        scene.run_for(3_000).await;
        scene.check_holds(0, 128);
        let asked = taken(&scene);
        assert!(asked[0] < 20 && asked[1] >= 127, "{behavior:?}: {asked:?}");
    }
}

/// Slow upstreams are used if there is no other, or if the other has pruned the blocks.
#[tokio::test(start_paused = true)]
async fn a_window_is_filled_by_slow_upstreams() {
    let slow = || Behavior::Slow(Duration::from_millis(400));
    for behaviors in [
        vec![slow()],
        vec![slow(), slow()],
        vec![slow(), Behavior::Pruned(300)],
        vec![Behavior::Pruned(300), slow()],
    ] {
        let mut scene = Scene::new(behaviors.len(), 300);
        for (upstream, behavior) in scene.upstreams.iter().zip(&behaviors) {
            upstream.set_behavior(behavior.clone());
        }
        scene.run_for(240_000).await;
        scene.check_holds(0, 128);
    }
}

/// Nothing links a block 0 to an earlier block, so its hash has to be the known one.
#[tokio::test(start_paused = true)]
async fn another_block_0_is_not_served() {
    let is_reported = |scene: &Scene| {
        let is_report = |event: &Event| match event {
            Event::Failed { reason, .. } => *reason == Some(Fault::WrongChain.label()),
            _ => false,
        };
        scene.events().iter().any(is_report)
    };
    let of = |head| {
        // It states this genesis.
        let scene = Scene::of(Chains::new(head), 1, 1, Some(B256::repeat_byte(7)));
        scene.upstreams[0].set_behavior(Behavior::OtherGenesis);
        scene
    };
    let mut scene = of(20);
    scene.run_for(5_000).await;
    // Block 1 waits for its parent.
    assert_eq!((scene.head(), scene.oldest()), (20, 2));
    assert!(is_reported(&scene));
    let mut scene = of(0);
    scene.run_for(5_000).await;
    let is_start = |event: &Event| matches!(event, Event::WindowStarted(_));
    assert!(!scene.events().iter().any(is_start));
    assert!(is_reported(&scene));
}

/// The block time is unknown before two blocks are held: a fault before then costs no more than a
/// later one.
#[tokio::test(start_paused = true)]
async fn the_first_waits_are_short() {
    for (behavior, number) in [
        (Behavior::BadBlock(299), 299),
        (Behavior::NotFound(299), 299),
    ] {
        let mut scene = Scene::new(1, 300);
        scene.upstreams[0].set_behavior(behavior);
        scene.run_for(1_000).await;
        assert_eq!((scene.head(), scene.oldest()), (300, number + 1));
        scene.upstreams[0].set_behavior(Behavior::Honest);
        scene.run_for(2_000).await;
        scene.check_holds(0, 128);
    }
    // A block further below, when the block time is known.
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].set_behavior(Behavior::NotFound(250));
    scene.run_for(5_000).await;
    assert_eq!(scene.oldest(), 252);
    scene.upstreams[0].set_behavior(Behavior::Honest);
    scene.run_for(4_000).await;
    scene.check_holds(0, 128);
}

/// With a single upstream, new heads do not wait for an old block that fails.
#[tokio::test(start_paused = true)]
async fn a_bad_old_block_does_not_hold_back_the_head() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].set_behavior(Behavior::BadBlock(250));
    scene.run_for(2_000).await;
    for number in 301..=360 {
        scene.mine(1);
        scene.run_for(1_000).await;
        assert_eq!((scene.head(), scene.oldest()), (number, 252));
    }
    let is_report = |event: &&Event| matches!(event, Event::Failed { upstream: 0, .. });
    let reports = scene.take_events().iter().filter(is_report).count();
    assert!((3..=20).contains(&reports), "{reports}");
    scene.upstreams[0].set_behavior(Behavior::Honest);
    scene.run_for(9_000).await;
    scene.check_holds(0, 128);
}
