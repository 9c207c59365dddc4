//! What is below the head that the window began with.

use super::*;

/// Checks that the head is followed by upstreams that have forgotten old blocks, which come from
/// whoever has them later.
async fn check_forgetful(later: impl FnOnce(&Scene)) {
    let mut scene = Scene::new(2, 300);
    for upstream in &scene.upstreams {
        upstream.says(Says::Pruned(280));
    }
    scene.runs(2_000).await;
    for held in 22..40 {
        scene.mine(1);
        scene.runs(1_000).await;
        scene.check_holds(0, held);
    }
    // Asked again now and then, in vain; guesses are not.
    let asked = scene.upstreams[0].take_blocks();
    let in_vain = asked.iter().filter(|number| **number < 280).count();
    assert!((10..30).contains(&in_vain), "{asked:?}");
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!scene.events().iter().any(is_fault));
    later(&scene);
    scene.runs(10_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_has_forgotten_old_blocks_is_followed_for_new_ones() {
    check_forgetful(|scene| scene.upstreams[0].says(Says::Truth)).await;
    check_forgetful(|scene| scene.upstreams[1].says(Says::Truth)).await;
    check_forgetful(|scene| {
        scene.upstreams[0].says(Says::Error(CallError::Connection("gone".into())));
        scene.upstreams[1].says(Says::Truth);
    })
    .await;
    // Another one has them already: the upstream that is followed stays the same.
    let mut scene = Scene::new(2, 300);
    scene.upstreams[0].says(Says::Pruned(280));
    scene.runs(2_000).await;
    scene.check_holds(0, 128);
    let switches = |event: &&Event| matches!(event, Event::Switched(_));
    assert_eq!(scene.events().iter().filter(switches).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_genesis_is_kept_below_the_window() {
    let mut scene = Scene::new(2, 300);
    let genesis = scene.chains().block(0, 0).unwrap().hash;
    // A false one is counted; the upstream is followed nevertheless, and another is asked.
    scene.upstreams[0].says(Says::BadBlock(0));
    scene.runs(500).await;
    scene.check_holds(0, 128);
    assert_eq!(scene.genesis(), None);
    let counted = Event::Failed {
        upstream: 0,
        reason: Some("gas_used"),
        wait: Duration::ZERO,
    };
    assert!(scene.events().contains(&counted), "{:?}", scene.events());
    scene.runs(2_000).await;
    assert_eq!(scene.genesis(), Some(genesis));
    assert_eq!(scene.upstreams[1].take_blocks(), [0]);
    // It stays when the window is reset, and is not asked for again.
    scene.chains().fork(0, 100, 300);
    scene.runs(5_000).await;
    scene.check_holds(0, 128);
    assert_eq!(scene.genesis(), Some(genesis));
    assert!(!scene.upstreams[0].take_blocks()[128..].contains(&0));
}

/// Which genesis is the true one nobody can say before the window reaches it.
#[tokio::test(start_paused = true)]
async fn a_genesis_binds_only_the_upstream_that_gave_it() {
    let mut scene = Scene::new(2, 300);
    scene.upstreams[1].says(Says::OtherGenesis);
    scene.runs(2_000).await;
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!scene.events().iter().any(is_fault));
    scene.upstreams[0].says(Says::Error(CallError::Connection("gone".into())));
    scene.mine(1);
    scene.runs(3_000).await;
    scene.check_holds(0, 128);
}

/// Nothing is known of the chain's pace before there are two blocks: what goes wrong before that
/// costs no more than later.
#[tokio::test(start_paused = true)]
async fn the_first_waits_are_short() {
    for (says, number) in [(Says::BadBlock(299), 299), (Says::NotFound(299), 299)] {
        let mut scene = Scene::new(1, 300);
        scene.upstreams[0].says(says);
        scene.runs(1_000).await;
        assert_eq!((scene.head(), scene.oldest()), (300, number + 1));
        scene.upstreams[0].says(Says::Truth);
        scene.runs(2_000).await;
        scene.check_holds(0, 128);
    }
    // One further below, when the pace is known.
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].says(Says::NotFound(250));
    scene.runs(5_000).await;
    assert_eq!(scene.oldest(), 251);
    scene.upstreams[0].says(Says::Truth);
    scene.runs(4_000).await;
    scene.check_holds(0, 128);
}

/// Where there is nobody else to ask, new heads do not wait for an old block that fails.
#[tokio::test(start_paused = true)]
async fn a_bad_old_block_does_not_keep_the_head() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].says(Says::BadBlock(250));
    scene.runs(2_000).await;
    for number in 301..=360 {
        scene.mine(1);
        scene.runs(1_000).await;
        assert_eq!((scene.head(), scene.oldest()), (number, 251));
    }
    let is_told = |event: &&Event| matches!(event, Event::Failed { upstream: 0, .. });
    let told = scene.take_events().iter().filter(is_told).count();
    assert!((3..=20).contains(&told), "{told}");
    scene.upstreams[0].says(Says::Truth);
    scene.runs(9_000).await;
    scene.check_holds(0, 128);
}
