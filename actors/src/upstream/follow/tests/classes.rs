//! A refusal of calls for heads does not take an upstream away from calls for blocks.

use super::*;

/// It is not asked for heads for ten minutes.
fn limited() -> Behavior {
    Behavior::HeadErrors(CallError::RateLimited {
        retry_after: Some(Duration::from_secs(600)),
    })
}

#[tokio::test(start_paused = true)]
async fn old_blocks_are_fetched_from_an_upstream_that_limits_calls_for_heads() {
    let mut scene = Scene::new(2, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::Pruned(290));
    }
    scene.run_for(5_000).await;
    // The oldest block is checked against its parent.
    assert_eq!(scene.oldest(), 291);
    scene.upstreams[0].set_behavior(limited());
    scene.run_for(10_000).await;
    scene.check_holds(0, 128);
    let states = scene.take_states();
    assert!(states.contains(&(0, UpstreamState::Limited)), "{states:?}");
}

/// No upstream that vouches for the head gives its block.
#[tokio::test(start_paused = true)]
async fn new_blocks_are_fetched_from_an_upstream_that_limits_calls_for_heads() {
    let mut scene = Scene::new(2, 300);
    scene.run_for(5_000).await;
    scene.upstreams[0].set_behavior(limited());
    scene.upstreams[1].set_behavior(Behavior::NoBlocks);
    for _ in 0..20 {
        scene.mine(1);
        scene.run_for(1_000).await;
        let (head, newest) = (scene.head(), scene.chains().head(0));
        assert!(head + 2 > newest, "{head} of {newest}");
    }
    // It does not have each block at once, which is no fault: it named none.
    scene.upstreams[0].set_behavior(Behavior::NoBlocks);
    scene.take_events();
    scene.mine(1);
    scene.run_for(5_000).await;
    let is_fault = |event: &Event| matches!(event, Event::Failed { upstream: 0, .. });
    let events = scene.take_events();
    assert!(!events.iter().any(is_fault), "{events:?}");
}

/// An upstream that is on another chain, or may be, is asked for nothing.
#[tokio::test(start_paused = true)]
async fn no_block_is_fetched_from_an_upstream_of_another_chain() {
    let mut scene = Scene::new(2, 300);
    scene.run_for(5_000).await;
    scene.upstreams[0].set_behavior(Behavior::OtherChain);
    scene.upstreams[1].set_behavior(Behavior::NoBlocks);
    scene.run_for(2_000).await;
    scene.upstreams[0].take_blocks();
    scene.mine(1);
    scene.run_for(10_000).await;
    assert!(scene.upstreams[0].take_blocks().is_empty());
    assert_eq!(scene.head(), 300);
}
