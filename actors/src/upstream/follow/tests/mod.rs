#![expect(clippy::unwrap_used, reason = "tests")]

mod backfill;
mod classes;
mod forks;
mod lost;
mod recovery;
mod refusals;
mod scene;
mod scripted;
mod slow;

use nearhead_chain::window::{BlockTag, ResolveError, WindowLimits};

use super::*;
use crate::upstream::{agree::Effect, client::CallError};
use scene::Scene;
use scripted::{Behavior, Chains, LATENCY};

/// The resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_window_is_filled_and_the_head_followed() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
    let first = Event::Decided {
        choice: Choice::First,
        agreeing: 1,
    };
    assert_eq!(
        scene.events()[..3],
        [first, Event::Preferred(0), Event::WindowStarted(300)]
    );
    assert!(scene.events().contains(&Event::BackfillRemaining(0)));
    // The newest blocks first, each once, and the parent of the oldest.
    let asked = scene.upstreams[0].take_blocks();
    assert_eq!(asked.len(), 130, "{asked:?}");
    assert_eq!(asked[..2], [300, 0], "the head, the genesis, then the rest");
    let asked: Vec<_> = asked.into_iter().filter(|number| *number > 0).collect();
    let windows = asked.windows(16);
    for (at, batch) in windows.enumerate() {
        let newest = 300 - at as u64;
        assert!(
            batch.iter().all(|number| *number + 16 > newest - 16),
            "{batch:?}"
        );
    }
    for _ in 0..20 {
        scene.mine(1);
        scene.run_for(1_000).await;
        scene.check_holds(0, 128);
    }
    let asked = scene.upstreams[0].take_blocks();
    assert_eq!(asked, (301..=320).collect::<Vec<_>>());
    let delays = scene
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Advanced { number, named_ago } => Some((number, named_ago)),
            _ => None,
        });
    let (numbers, delays): (Vec<_>, Vec<_>) = delays.unzip();
    assert_eq!(numbers, asked);
    // One call each.
    let is_one_call = |delay: &Duration| (LATENCY..10 * LATENCY.max(TICK)).contains(delay);
    assert!(delays.iter().all(is_one_call), "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_chain_is_held_from_its_genesis() {
    let mut scene = Scene::new(1, 2);
    scene.run_for(1_000).await;
    scene.check_holds(0, 3);
    scene.mine(130);
    scene.run_for(20_000).await;
    scene.check_holds(0, 128);
}

/// Checks that the chain is followed through a reorg.
async fn check_reorg(depth: u64, blocks: u64, is_reset: bool) {
    let mut scene = Scene::new(1, 300);
    scene.run_for(1_000).await;
    scene.take_events();
    scene.upstreams[0].take_blocks();
    scene.chains().fork(0, 300 - depth, blocks);
    scene.run_for(30_000).await;
    // Blocks that left the window at its lower end are fetched again for the lower head.
    scene.check_holds(0, 128);
    let started = Event::WindowStarted(300 - depth + blocks);
    assert_eq!(scene.events().contains(&started), is_reset, "{depth}");
    let asked = scene.upstreams[0].take_blocks().len() as u64;
    let lower = depth.saturating_sub(blocks);
    let least = if is_reset { 128 } else { blocks + lower };
    assert!(asked >= least && asked <= 2 * 128 + 32, "{depth}: {asked}");
}

#[tokio::test(start_paused = true)]
async fn reorgs_of_any_depth_are_followed() {
    for depth in [1, 5, 60, 127] {
        check_reorg(depth, depth + 1, false).await;
        check_reorg(depth, depth, false).await;
    }
    // A lower head on another branch, which the only upstream keeps naming.
    check_reorg(9, 3, false).await;
    check_reorg(128, 129, true).await;
    check_reorg(200, 201, true).await;
    check_reorg(120, 1, false).await;
    // Back to a served block.
    check_reorg(9, 0, false).await;
    check_reorg(120, 0, false).await;
    // No block of the window remains.
    check_reorg(0, 128, true).await;
    check_reorg(0, 1_000, true).await;
}

/// Checks that an upstream that starts to behave like this holds up no head for this many block
/// times, and gets this state, with a fault as the reason.
async fn check_is_replaced(behavior: Behavior, blocks: u64, state: UpstreamState) {
    let mut scene = Scene::new(2, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.upstreams[0].set_behavior(behavior);
    // A call takes ten of them to time out.
    for _ in 0..12 {
        scene.mine(1);
        scene.run_for(1_000).await;
        assert!(scene.head() + blocks > scene.chains().head(0), "{state:?}");
    }
    let events = scene.take_events();
    let reason = match state {
        UpstreamState::Faulty(Fault::BadBlock) => Some("gas_used"),
        UpstreamState::Faulty(fault) => Some(fault.label()),
        _ => None,
    };
    let is_report = |event: &Event| match event {
        Event::Failed {
            upstream: 0,
            reason: found,
            ..
        } => *found == reason,
        _ => false,
    };
    let is_reported = events.iter().any(is_report);
    assert_eq!(is_reported, state != UpstreamState::Lagging, "{events:?}");
    let states = scene.take_states();
    assert!(states.contains(&(0, state)), "{states:?}");
    // Once honest again, it is live.
    scene.upstreams[0].set_behavior(Behavior::Honest);
    scene.run_for(100_000).await;
    let states = [states, scene.take_states()].concat();
    let last = states.iter().rfind(|(upstream, _)| *upstream == 0);
    assert_eq!(last, Some(&(0, UpstreamState::Live)), "{states:?}");
    scene.upstreams[0].take_blocks();
    scene.upstreams[1].set_behavior(Behavior::Error(CallError::Connection("gone".into())));
    scene.mine(1);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
}

/// A syncing upstream is reported as such, and does not count until it has finished.
#[tokio::test(start_paused = true)]
async fn a_syncing_upstream_is_waited_for() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].set_behavior(Behavior::Syncing);
    scene.run_for(10_000).await;
    assert_eq!(scene.take_states(), [(0, UpstreamState::Syncing)]);
    let stands = Event::Decided {
        choice: Choice::TooFewNodes,
        agreeing: 0,
    };
    assert_eq!(scene.take_events(), [stands]);
    scene.upstreams[0].set_behavior(Behavior::Honest);
    scene.run_for(5_000).await;
    assert_eq!(scene.take_states(), [(0, UpstreamState::Live)]);
    scene.check_holds(0, 128);
}

/// A fault in between says nothing about whether it has finished.
#[tokio::test(start_paused = true)]
async fn a_syncing_upstream_does_not_count_after_a_fault_either() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    let syncing = &scene.upstreams[1].clone();
    syncing.set_behavior(Behavior::Syncing);
    scene.run_for(5_000).await;
    for millis in (100..2_000).step_by(100) {
        syncing.set_behavior(Behavior::Error(CallError::Connection("gone".into())));
        scene.run_for(millis).await;
        syncing.set_behavior(Behavior::Syncing);
        scene.run_for(5_000).await;
    }
    let events = scene.take_events();
    let is_fault = |event: &Event| matches!(event, Event::Failed { upstream: 1, .. });
    assert!(events.iter().any(is_fault), "{events:?}");
    let counts = |event: &Event| match event {
        Event::Decided { choice, .. } => *choice != Choice::TooFewNodes,
        Event::WindowStarted(_) => true,
        _ => false,
    };
    assert!(!events.iter().any(counts), "{events:?}");
    syncing.set_behavior(Behavior::Honest);
    scene.run_for(5_000).await;
    scene.check_holds(0, 128);
}

/// An upstream may answer with an error for a block that it has pruned, or that it does not have
/// yet. It still names heads.
#[tokio::test(start_paused = true)]
async fn an_error_to_a_question_for_a_hash_is_no_fault() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    let [first, other] = &scene.upstreams.clone()[..] else {
        panic!("two upstreams");
    };
    other.set_behavior(Behavior::HashErrors);
    // It is the last to hear of a head, so that it is asked.
    first.announce_heads();
    scene.run_for(2_000).await;
    for _ in 0..20 {
        scene.mine(1);
        first.announce();
        scene.run_for(1_000).await;
        scene.check_holds(0, 128);
    }
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    let events = scene.take_events();
    assert!(!events.iter().any(is_fault), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failing_upstream_is_replaced_by_another() {
    let faulty = UpstreamState::Faulty;
    let error = Behavior::Error;
    check_is_replaced(Behavior::FrozenHead, 2, UpstreamState::Lagging).await;
    check_is_replaced(Behavior::Silent, 2, faulty(Fault::Timeout)).await;
    check_is_replaced(Behavior::HeadsOnly, 2, faulty(Fault::Timeout)).await;
    check_is_replaced(Behavior::BadBlocks, 1, faulty(Fault::BadBlock)).await;
    check_is_replaced(Behavior::NoBlocks, 1, faulty(Fault::Missing)).await;
    check_is_replaced(
        error(CallError::Connection("".into())),
        1,
        faulty(Fault::Connection),
    )
    .await;
    check_is_replaced(
        error(CallError::Timeout(Duration::ZERO)),
        1,
        faulty(Fault::Timeout),
    )
    .await;
    check_is_replaced(
        error(CallError::Malformed("".into())),
        1,
        faulty(Fault::Malformed),
    )
    .await;
    check_is_replaced(
        error(CallError::Refused { status: 403 }),
        1,
        faulty(Fault::Refused),
    )
    .await;
    let limited = CallError::RateLimited {
        retry_after: Some(Duration::from_secs(30)),
    };
    check_is_replaced(error(limited), 1, UpstreamState::Limited).await;
}

/// A call for heads that is not answered is a fault, reported once for each poll. A poll takes a
/// second and follows after a quarter of a block time.
#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_reported_once_a_poll() {
    let mut scene = Scene::new(2, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.upstreams[0].set_behavior(Behavior::Silent);
    scene.run_for(6_000).await;
    let events = scene.take_events();
    let timeout = Some(Fault::Timeout.label());
    let is_report = |event: &&Event| match event {
        Event::Failed {
            upstream: 0,
            reason,
            ..
        } => *reason == timeout,
        _ => false,
    };
    assert_eq!(events.iter().filter(is_report).count(), 4, "{events:?}");
    scene.mine(1);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn a_missing_block_number_is_no_fault() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].set_behavior(Behavior::HashesOnly);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
    scene.upstreams[0].take_blocks();
    scene.mine(20);
    scene.run_for(1_000).await;
    scene.check_holds(0, 128);
    assert!(scene.upstreams[0].take_blocks().len() <= 40);
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!scene.events().iter().any(is_fault));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_of_another_chain_is_never_asked_for_blocks() {
    let mut scene = Scene::new(2, 300);
    scene.upstreams[0].set_behavior(Behavior::OtherChain);
    scene.run_for(5_000).await;
    scene.check_holds(0, 128);
    assert!(scene.upstreams[0].take_blocks().is_empty());
    let events = scene.events();
    let is_report = |event: &Event| {
        matches!(
            event,
            Event::Failed {
                upstream: 0,
                reason: Some("wrong_chain"),
                ..
            }
        )
    };
    assert!(events.iter().any(is_report), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_limited_upstream_is_asked_again_when_its_wait_is_over() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.upstreams[0].set_behavior(Behavior::Error(CallError::RateLimited {
        retry_after: Some(Duration::from_secs(30)),
    }));
    scene.mine(1);
    scene.run_for(1_000).await;
    scene.upstreams[0].set_behavior(Behavior::Honest);
    let before = scene.upstreams[0].calls();
    scene.run_for(28_000).await;
    assert_eq!(scene.upstreams[0].calls(), before);
    scene.run_for(4_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn a_stale_backend_behind_one_url_does_not_take_the_head_back() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.upstreams[0].set_behavior(Behavior::SometimesStale);
    for _ in 0..50 {
        scene.mine(1);
        scene.run_for(1_000).await;
        assert!(scene.head() + 1 >= scene.chains().head(0));
    }
    assert!(scene.never_went_back());
    let faults = scene.take_events();
    let is_fault = |event: &&Event| matches!(event, Event::Failed { .. });
    assert_eq!(faults.iter().filter(is_fault).count(), 0, "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn the_head_does_not_go_back_for_another_upstream() {
    let mut scene = Scene::new(2, 300);
    // The second upstream is on a fork of its own, and behind.
    scene.chains().add_fork(0, 290, 5);
    scene.upstreams[1].set_chain(1);
    scene.run_for(2_000).await;
    scene.upstreams[0].set_behavior(Behavior::Silent);
    for _ in 0..14 {
        scene.run_for(4_000).await;
        scene.chains().mine(1, 1);
    }
    scene.run_for(4_000).await;
    scene.check_holds(1, 128);
}

#[tokio::test(start_paused = true)]
async fn announced_heads_are_followed_without_polling() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].announce_heads();
    scene.run_for(5_000).await;
    let before = scene.upstreams[0].calls();
    for _ in 0..10 {
        scene.mine(1);
        scene.upstreams[0].announce();
        scene.run_for(2).await;
        scene.check_holds(0, 128);
        scene.run_for(998).await;
    }
    // The block, and once per block time the chain id, the head, two settled blocks and whether
    // it is syncing.
    let asked = scene.upstreams[0].calls() - before;
    assert!(asked <= 10 * 6 + 6, "{asked}");
    // It is polled if announcements stop.
    scene.mine(1);
    scene.run_for(1_100).await;
    scene.check_holds(0, 128);
    // A new subscription follows the end of its connection.
    scene.upstreams[0].end_subscriptions();
    scene.run_for(2_000).await;
    scene.mine(1);
    scene.upstreams[0].announce();
    scene.run_for(2).await;
    scene.check_holds(0, 128);
}

/// Settled blocks are set within a block time, with or without a new head.
#[tokio::test(start_paused = true)]
async fn settled_blocks_of_the_served_chain_are_set() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.chains().add_fork(0, 280, 30);
    // Blocks of a fork, blocks that do not exist, lower blocks and blocks below the window change
    // nothing.
    for (chain, number, settled) in [
        (1, 290, None),
        (0, 290, Some(290)),
        (1, 295, Some(290)),
        (0, 299, Some(299)),
        (0, 295, Some(299)),
        (0, 100, Some(299)),
    ] {
        scene.upstreams[0].settle(chain, number);
        scene.run_for(1_500).await;
        let settled = settled.and_then(|number| scene.chains().block(0, number));
        let expected = settled
            .map(|block| block.hash)
            .ok_or(ResolveError::UnknownTag);
        let found = [BlockTag::Safe, BlockTag::Finalized].map(|tag| scene.resolve(tag));
        assert_eq!(found, [expected; 2], "{chain} {number}");
    }
    // The head itself is finalized.
    scene.mine(1);
    scene.upstreams[0].settle(0, 301);
    scene.run_for(1_500).await;
    let head = scene.chains().block(0, 301).unwrap().hash;
    assert_eq!(scene.resolve(BlockTag::Finalized), Ok(head));
}

/// The URL leads to an upstream of another chain, although no call has failed.
#[tokio::test(start_paused = true)]
async fn another_chain_behind_a_url_is_not_served() {
    for behavior in [Behavior::OtherChain, Behavior::OtherGenesis] {
        let mut scene = Scene::new(1, 300);
        scene.run_for(2_000).await;
        scene.take_events();
        scene.chains().add_fork(0, 0, 400);
        scene.upstreams[0].set_chain(1);
        scene.upstreams[0].set_behavior(behavior);
        scene.run_for(2_000).await;
        scene.check_holds(0, 128);
        let is_report = |event: &Event| {
            matches!(
                event,
                Event::Failed {
                    reason: Some("wrong_chain"),
                    ..
                }
            )
        };
        assert!(scene.events().iter().any(is_report), "{:?}", scene.events());
        scene.upstreams[0].set_chain(0);
        scene.upstreams[0].set_behavior(Behavior::Honest);
        scene.mine(1);
        scene.run_for(5_000).await;
        scene.check_holds(0, 128);
    }
}

/// The hash that the upstream names belongs to a block, but the number does not.
#[tokio::test(start_paused = true)]
async fn a_head_with_a_wrong_number_is_not_followed() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.take_events();
    scene.upstreams[0].take_blocks();
    scene.upstreams[0].set_behavior(Behavior::WrongNumbers);
    scene.mine(1);
    scene.run_for(2_000).await;
    assert_eq!(scene.head(), 300);
    assert!(scene.upstreams[0].take_blocks().len() < 10);
    let events = scene.take_events();
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::WindowStarted(_)))
    );
    let is_report = |event: &Event| {
        matches!(
            event,
            Event::Failed {
                reason: Some("another_block"),
                ..
            }
        )
    };
    assert!(events.iter().any(is_report), "{events:?}");
    scene.upstreams[0].set_behavior(Behavior::Honest);
    scene.run_for(3_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_window_and_the_stop_signal_end_the_follower() {
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.lose_window();
    scene.mine(1);
    let error = scene.finish().await.unwrap_err();
    assert_eq!(error.to_string(), "the window is gone");
    let mut scene = Scene::new(1, 300);
    scene.run_for(2_000).await;
    scene.stop();
    assert!(scene.finish().await.is_ok());
}
