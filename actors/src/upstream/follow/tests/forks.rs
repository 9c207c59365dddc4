//! Upstreams on different forks.

use super::{scripted::Scripted, *};

/// Honest upstreams on chain 0, and a liar, the last one, on chain 1. The liar's blocks from 291 on
/// are invented; their hashes are valid.
async fn scene_with_liar(upstreams: usize, quorum: usize, blocks: u64) -> Scene {
    let mut scene = Scene::with_quorum(upstreams, quorum, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.chains().add_fork(0, 290, blocks);
    scene.upstreams[upstreams - 1].set_chain(1);
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

fn dissents(events: &[Event]) -> Vec<usize> {
    let dissents = events.iter().filter_map(|event| match event {
        Event::Dissent(upstream) => Some(*upstream),
        _ => None,
    });
    dissents.collect()
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_minority_is_not_served() {
    for blocks in [5, 10, 11, 12, 30, 100, 137, 138, 1_010] {
        let mut scene = scene_with_liar(3, 2, blocks).await;
        scene.upstreams[2].take_blocks();
        for _ in 0..50 {
            extend_both(&mut scene, 1).await;
            scene.check_holds(0, 128);
        }
        assert!(!scene.has_served(1, 291) && scene.never_went_back());
        let events = scene.take_events();
        let is_fault =
            |event: &Event| matches!(event, Event::Failed { .. } | Event::WindowStarted(_));
        assert!(!events.iter().any(is_fault), "{events:?}");
        assert_eq!(dissents(&events), [2], "{blocks}: {events:?}");
        let states = scene.take_states();
        let quarantined = (2, UpstreamState::Quarantined);
        assert!(states.contains(&quarantined), "{blocks}: {states:?}");
        // Blocks of the fork are fetched only until it is quarantined.
        let asked = scene.upstreams[2].take_blocks();
        assert!(asked.len() <= 80, "{blocks}: {asked:?}");
    }
}

/// A fork whose blocks arrive slowly does not delay the honest chain.
#[tokio::test(start_paused = true)]
async fn a_fork_that_arrives_slowly_delays_no_head() {
    let mut scene = scene_with_liar(3, 2, 12).await;
    scene.upstreams[2].set_behavior(Behavior::Slow(Duration::from_millis(900)));
    for _ in 0..100 {
        extend_both(&mut scene, 1).await;
        scene.check_holds(0, 128);
    }
    assert!(!scene.has_served(1, 291) && scene.never_went_back());
}

#[tokio::test(start_paused = true)]
async fn a_reorg_needs_a_quorum() {
    for blocks in [11, 30, 138] {
        let mut scene = scene_with_liar(3, 2, blocks).await;
        extend_both(&mut scene, 5).await;
        scene.check_holds(0, 128);
        scene.upstreams[1].set_chain(1);
        extend_both(&mut scene, 3).await;
        scene.check_holds(1, 128);
        assert!(scene.never_went_back());
    }
}

/// With a quorum of at most half, two forks can both have one: the served one is kept while its
/// nodes move, and nobody is quarantined.
#[tokio::test(start_paused = true)]
async fn of_two_forks_with_a_quorum_the_served_one_is_kept() {
    for blocks in [11, 138] {
        let mut scene = scene_with_liar(2, 1, blocks).await;
        extend_both(&mut scene, 20).await;
        scene.check_holds(0, 128);
        assert!(!scene.has_served(1, 291) && scene.never_went_back());
        let events = scene.take_events();
        assert_eq!(dissents(&events), [1], "{events:?}");
        let states = scene.take_states();
        assert!(!states.contains(&(1, UpstreamState::Quarantined)));
        // Until they stand still.
        for _ in 0..5 {
            scene.chains().mine(1, 1);
            scene.run_for(1_000).await;
        }
        scene.check_holds(1, 128);
        assert!(scene.never_went_back());
    }
}

/// An upstream that is far behind and catching up does not keep us from one at the head.
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

/// Silence is not consent. A quorum that comes back is followed within three block times, however
/// long it was silent.
#[tokio::test(start_paused = true)]
async fn the_head_stands_while_a_quorum_is_silent() {
    let gone = || Behavior::Error(CallError::Connection("gone".into()));
    for (silence, behavior) in [
        (10, Behavior::Silent),
        (10, gone()),
        (600, Behavior::Silent),
        (600, gone()),
    ] {
        let mut scene = scene_with_liar(3, 2, 15).await;
        extend_both(&mut scene, 3).await;
        let head = scene.head();
        for upstream in [0, 1] {
            scene.upstreams[upstream].set_behavior(behavior.clone());
        }
        for _ in 0..silence {
            scene.mine(1);
            scene.chains().mine(1, 1);
            scene.run_for(1_000).await;
        }
        assert_eq!(scene.head(), head);
        assert_eq!(scene.decided(), Some((Choice::TooFewNodes, 1)));
        for upstream in [0, 1] {
            scene.upstreams[upstream].set_behavior(Behavior::Honest);
        }
        // A call that is in progress is never answered.
        extend_both(&mut scene, 3).await;
        scene.check_holds(0, 128);
        assert!(!scene.has_served(1, 291));
    }
}

/// One of three that fails in any way does not hold up the head.
#[tokio::test(start_paused = true)]
async fn the_head_goes_on_while_a_minority_fails() {
    let error = Behavior::Error;
    for behavior in [
        Behavior::Silent,
        Behavior::FrozenHead,
        Behavior::HeadsOnly,
        Behavior::NoBlocks,
        Behavior::BadBlocks,
        Behavior::WrongNumbers,
        Behavior::OtherChain,
        Behavior::OtherGenesis,
        Behavior::Syncing,
        Behavior::SometimesStale,
        Behavior::Slow(Duration::from_millis(5_000)),
        error(CallError::Connection("gone".into())),
        error(CallError::RateLimited {
            retry_after: Some(Duration::from_secs(600)),
        }),
    ] {
        for failing in 0..3 {
            let mut scene = Scene::with_quorum(3, 2, 300);
            scene.run_for(2_000).await;
            scene.upstreams[failing].set_behavior(behavior.clone());
            for _ in 0..20 {
                scene.mine(1);
                scene.run_for(1_000).await;
                let (head, newest) = (scene.head(), scene.chains().head(0));
                assert!(
                    head + 3 > newest,
                    "{behavior:?} of {failing}: {head} of {newest}"
                );
            }
            assert!(scene.never_went_back(), "{behavior:?} of {failing}");
        }
    }
}

/// What one upstream calls finalized settles nothing.
#[tokio::test(start_paused = true)]
async fn only_a_quorum_settles_blocks() {
    let mut scene = scene_with_liar(3, 2, 15).await;
    scene.upstreams[0].settle(0, 250);
    scene.upstreams[2].settle(1, 295);
    extend_both(&mut scene, 5).await;
    assert!(scene.finalized().is_empty());
    scene.upstreams[1].settle(0, 240);
    extend_both(&mut scene, 2).await;
    let finalized = scene.chains().block(0, 240).unwrap().hash;
    assert_eq!(scene.finalized(), [finalized].into());
    let block = Some((240, finalized));
    let settled = SettledBlocks {
        safe: block,
        finalized: block,
    };
    assert!(scene.events().contains(&Event::Settled(settled)));
    scene.upstreams[1].settle(0, 260);
    extend_both(&mut scene, 2).await;
    let higher = scene.chains().block(0, 250).unwrap().hash;
    assert_eq!(scene.finalized(), [finalized, higher].into());
}

/// The head stands rather than revert a finalized block.
#[tokio::test(start_paused = true)]
async fn a_finalized_block_is_not_reverted() {
    for (after, blocks) in [(249, 60), (249, 300), (100, 300)] {
        let mut scene = Scene::with_quorum(3, 2, 300);
        for upstream in &scene.upstreams {
            upstream.settle(0, 250);
        }
        scene.run_for(3_000).await;
        scene.chains().add_fork(0, after, blocks);
        scene
            .upstreams
            .iter()
            .for_each(|upstream| upstream.set_chain(1));
        for _ in 0..20 {
            scene.chains().mine(1, 1);
            scene.run_for(1_000).await;
        }
        scene.check_holds(0, 128);
        assert_eq!(scene.decided(), Some((Choice::Finalized, 0)), "{after}");
        // They are named, and nobody is quarantined: a quorum contradicts us.
        assert_eq!(dissents(&scene.take_events()), [0, 1, 2], "{after}");
        let is_quarantined = |(_, state): &(_, _)| *state == UpstreamState::Quarantined;
        assert!(!scene.take_states().iter().any(is_quarantined), "{after}");
        // Its own branch is still followed.
        scene
            .upstreams
            .iter()
            .for_each(|upstream| upstream.set_chain(0));
        scene.mine(1);
        scene.run_for(2_000).await;
        scene.check_holds(0, 128);
    }
}

/// While nodes publish a block one after the other, nobody is told that the head stands.
#[tokio::test(start_paused = true)]
async fn a_moment_of_disagreement_is_not_reported() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    let mut served = 0;
    for _ in 0..10 {
        // One sees the reorg first.
        let head = scene.chains().head(served);
        scene.chains().add_fork(served, head - 1, 2);
        served += 1;
        scene.upstreams[0].set_chain(served);
        scene.run_for(200).await;
        scene.upstreams[1].set_chain(served);
        scene.run_for(800).await;
        scene.check_holds(served, 128);
    }
    let stands = |event: &Event| match event {
        Event::Decided { choice, .. } => choice.effect() == Effect::Stand,
        _ => false,
    };
    let events = scene.take_events();
    assert!(!events.iter().any(stands), "{events:?}");
}

/// That the head stands is reported after half a block time, and once, although a liar makes the
/// reasons alternate.
#[tokio::test(start_paused = true)]
async fn the_head_stands_whatever_the_reasons() {
    for is_started in [true, false] {
        let mut scene = Scene::with_quorum(3, 2, 300);
        let liar = scene.upstreams[2].clone();
        liar.announce_heads();
        if is_started {
            scene.run_for(3_000).await;
        }
        scene.take_events();
        // Contradicts the served head; is below it, so that this is forgotten; is far above it.
        for (after, blocks) in [(290, 11), (40, 10), (290, 400)] {
            scene.chains().add_fork(0, after, blocks);
        }
        liar.set_behavior(Behavior::NoHashes);
        scene.upstreams[1].set_behavior(Behavior::Error(CallError::Connection("gone".into())));
        let mut reported = Vec::new();
        // Until the silence of one of them is noticed, and for half a block time after it.
        for tenth in 0..100 {
            liar.set_chain([1, 3][tenth % 2]);
            liar.announce();
            if tenth % 2 == 1 {
                liar.set_chain(2);
                liar.announce();
                scene.run_for(2).await;
                liar.set_chain(3);
                liar.announce();
            }
            if tenth % 10 == 0 {
                scene.mine(1);
            }
            scene.run_for(100).await;
            reported.extend(
                scene
                    .take_events()
                    .into_iter()
                    .filter_map(|event| match event {
                        Event::Decided { choice, .. } => Some((tenth, choice)),
                        _ => None,
                    }),
            );
        }
        let last = reported.last();
        let is_stand = |(_, choice): &(usize, Choice)| choice.effect() == Effect::Stand;
        let stands = reported.iter().find(|reported| is_stand(reported));
        assert!(
            stands.is_some_and(|(tenth, _)| *tenth <= 25),
            "{reported:?}"
        );
        assert!(last.is_some_and(is_stand), "{reported:?}");
        assert!(reported.len() <= 4, "{reported:?}");
    }
}

/// A long path is not left to an upstream that gives it block by block.
#[tokio::test(start_paused = true)]
async fn a_slow_upstream_does_not_hold_up_a_long_path() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    scene.run_for(2_000).await;
    for upstream in [1, 2] {
        let gone = Behavior::Error(CallError::Connection("gone".into()));
        scene.upstreams[upstream].set_behavior(gone);
    }
    scene.mine_for(40).await;
    assert_eq!(scene.head(), 300);
    scene.upstreams[0].set_behavior(Behavior::Slow(Duration::from_millis(450)));
    for upstream in [1, 2] {
        scene.upstreams[upstream].set_behavior(Behavior::Honest);
    }
    scene.run_for(4_000).await;
    assert_eq!(scene.head(), 340);
}

/// One of three that is slow to give blocks delays a head by a moment, and that rarely: it is tried
/// again every sixteen blocks. No block is fetched more than twice.
#[tokio::test(start_paused = true)]
async fn a_slow_source_delays_no_head_for_long() {
    for slow in [0, 1] {
        for pause in [45, 300, 900, 20_000] {
            let mut scene = Scene::with_quorum(3, 2, 300);
            scene.run_for(2_000).await;
            scene.take_events();
            for upstream in &scene.upstreams {
                upstream.take_blocks();
            }
            scene.upstreams[slow].set_behavior(Behavior::Slow(Duration::from_millis(pause)));
            scene.mine_for(60).await;
            let events = scene.take_events();
            let delays = events.iter().filter_map(|event| match event {
                Event::Advanced { named_ago, .. } => Some(*named_ago),
                _ => None,
            });
            let mut delays: Vec<_> = delays.collect();
            delays.sort_unstable();
            let case = format!("{slow}, {pause}: {delays:?}");
            assert_eq!(delays.len(), 60, "{case}");
            assert!(delays[59] <= Duration::from_millis(60), "{case}");
            let is_soon = delays[54] <= Duration::from_millis(5);
            assert!(is_soon || pause < 50, "{case}");
            let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
            assert!(pause > 900 || !events.iter().any(is_fault), "{events:?}");
            let asked = scene.upstreams.iter().map(Scripted::take_blocks);
            let asked: Vec<_> = asked.flatten().filter(|number| *number > 300).collect();
            for number in 301..=360 {
                let fetches = asked.iter().filter(|asked| **asked == number).count();
                assert!((1..=2).contains(&fetches), "{case}: {number}, {fetches}");
            }
        }
    }
}

/// Both upstreams that vouch for a head lack a block of the path for a moment. What was fetched of
/// the path is not fetched again.
#[tokio::test(start_paused = true)]
async fn a_path_is_kept_while_nobody_may_be_asked() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    scene.run_for(2_000).await;
    for upstream in &scene.upstreams {
        let gone = Behavior::Error(CallError::Connection("gone".into()));
        upstream.set_behavior(gone);
    }
    scene.mine_for(40).await;
    for upstream in [1, 2] {
        scene.upstreams[upstream].set_behavior(Behavior::NotFound(320));
        scene.upstreams[upstream].take_blocks();
    }
    scene.run_for(3_000).await;
    assert_eq!(scene.head(), 300);
    for upstream in [1, 2] {
        scene.upstreams[upstream].set_behavior(Behavior::Honest);
    }
    scene.run_for(3_000).await;
    assert_eq!(scene.head(), 340);
    let asked = [1, 2].map(|upstream| scene.upstreams[upstream].take_blocks());
    let above = |number: &&u64| (321..=340).contains(*number);
    let above = asked.iter().flatten().filter(above).count();
    assert_eq!(above, 20, "{asked:?}");
}

/// The head of a path is left for a higher one, which nothing links to it yet. What was fetched of
/// the path is not fetched again.
#[tokio::test(start_paused = true)]
async fn a_path_is_kept_when_its_head_moves_on() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    scene.run_for(2_000).await;
    for upstream in &scene.upstreams {
        let gone = Behavior::Error(CallError::Connection("gone".into()));
        upstream.set_behavior(gone);
    }
    scene.mine(40);
    scene.run_for(40_000).await;
    for upstream in [1, 2] {
        scene.upstreams[upstream].set_behavior(Behavior::NotFound(320));
        scene.upstreams[upstream].take_blocks();
    }
    for _ in 0..8 {
        scene.run_for(500).await;
        scene.mine(5);
    }
    assert_eq!(scene.head(), 300);
    for upstream in [1, 2] {
        scene.upstreams[upstream].set_behavior(Behavior::Honest);
    }
    scene.run_for(3_000).await;
    assert_eq!(scene.head(), 380);
    let asked = [1, 2].map(|upstream| scene.upstreams[upstream].take_blocks());
    let above = |number: &&u64| (321..=380).contains(*number);
    let above = asked.iter().flatten().filter(above).count();
    assert!(above <= 66, "{above}: {asked:?}");
}

/// Upstreams that give a long path slowly are not at fault where no other one vouches for it.
#[tokio::test(start_paused = true)]
async fn only_another_voter_shows_that_an_upstream_is_slow() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    scene.run_for(2_000).await;
    for upstream in &scene.upstreams {
        let gone = Behavior::Error(CallError::Connection("gone".into()));
        upstream.set_behavior(gone);
    }
    scene.mine_for(40).await;
    scene.take_events();
    // It is far above, and no voter. One of the others has no blocks to give.
    scene.upstreams[0].set_behavior(Behavior::WrongNumbers);
    scene.upstreams[1].set_behavior(Behavior::Slow(Duration::from_millis(600)));
    scene.upstreams[2].set_behavior(Behavior::NoBlocks);
    scene.run_for(60_000).await;
    assert_eq!(scene.head(), 340);
    let is_slow = |event: &Event| match event {
        Event::Failed {
            upstream: 1,
            reason,
            ..
        } => *reason == Some("timeout"),
        _ => false,
    };
    let events = scene.take_events();
    let slow = events.iter().filter(|event| is_slow(event)).count();
    assert!(slow <= 3, "{slow} {events:?}");
}

/// An upstream that announces head after head costs few calls, however many it announces.
#[tokio::test(start_paused = true)]
async fn announced_heads_that_nobody_has_cost_few_calls() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    scene.upstreams[2].announce_heads();
    scene.run_for(3_000).await;
    scene.upstreams[2].take_blocks();
    scene.upstreams[2].set_behavior(Behavior::HeadsOnly);
    for fork in 1..=200 {
        scene.chains().add_fork(0, 300, 1);
        scene.upstreams[2].set_chain(fork);
        scene.upstreams[2].announce();
        scene.run_for(2).await;
    }
    let asked = scene.upstreams[2].take_blocks();
    assert!((1..=4).contains(&asked.len()), "{asked:?}");
    scene.mine(1);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
}

/// An upstream that contradicts a quorum again and again is reported once.
#[tokio::test(start_paused = true)]
async fn dissent_that_comes_and_goes_is_reported_once() {
    let mut scene = scene_with_liar(3, 2, 20).await;
    extend_both(&mut scene, 5).await;
    for _ in 0..30 {
        scene.upstreams[2].set_chain(0);
        scene.run_for(400).await;
        scene.upstreams[2].set_chain(1);
        scene.run_for(600).await;
        scene.mine(1);
        scene.chains().mine(1, 1);
    }
    let events = scene.take_events();
    assert_eq!(dissents(&events), [2], "{events:?}");
}
