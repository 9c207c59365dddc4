#![expect(clippy::unwrap_used, reason = "tests")]

mod backfill;
mod forks;
mod scene;
mod scripted;

use nearhead_chain::window::{BlockTag, ResolveError};

use super::*;
use crate::upstream::{
    client::CallError,
    health::{SwitchReason, UpstreamState},
};
use scene::Scene;
use scripted::{Chains, LATENCY, Says};

/// The resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_window_is_filled_and_the_head_followed() {
    let mut scene = Scene::new(1, 300);
    scene.runs(1_000).await;
    scene.check_holds(0, 128);
    assert_eq!(
        scene.events()[..2],
        [scene::first(0), Event::WindowStarted(300)]
    );
    assert_eq!(scene.events().last(), Some(&Event::Missing(0)));
    // Newest first, each once.
    let asked = scene.upstreams[0].take_blocks();
    assert_eq!(asked.len(), 129, "{asked:?}");
    assert_eq!(asked[..2], [300, 0], "the head, the genesis, the rest");
    let asked: Vec<_> = asked.into_iter().filter(|number| *number > 0).collect();
    let windows = asked.windows(16);
    for (at, near) in windows.enumerate() {
        let newest = 300 - at as u64;
        assert!(
            near.iter().all(|number| *number + 16 > newest - 16),
            "{near:?}"
        );
    }
    for _ in 0..20 {
        scene.mine(1);
        scene.runs(1_000).await;
        scene.check_holds(0, 128);
    }
    let asked = scene.upstreams[0].take_blocks();
    assert_eq!(asked, (301..=320).collect::<Vec<_>>());
    let delays = scene
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Advanced { number, named } => Some((number, named)),
            _ => None,
        });
    let (numbers, delays): (Vec<_>, Vec<_>) = delays.unzip();
    assert_eq!(numbers, asked);
    // One question and its answer.
    let is_one_answer = |delay: &Duration| (LATENCY..10 * LATENCY.max(TICK)).contains(delay);
    assert!(delays.iter().all(is_one_answer), "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn a_short_chain_is_held_from_its_genesis() {
    let mut scene = Scene::new(1, 2);
    scene.runs(1_000).await;
    scene.check_holds(0, 3);
    scene.mine(130);
    scene.runs(20_000).await;
    scene.check_holds(0, 128);
}

/// Checks that the chain is followed through a reorg.
async fn check_reorg(depth: u64, blocks: u64, is_reset: bool) {
    let mut scene = Scene::new(1, 300);
    scene.runs(1_000).await;
    scene.take_events();
    scene.upstreams[0].take_blocks();
    scene.chains().fork(0, 300 - depth, blocks);
    scene.runs(30_000).await;
    // What left the window at its lower end is fetched again for a head that is lower now.
    scene.check_holds(0, 128);
    let began = Event::WindowStarted(300 - depth + blocks);
    assert_eq!(scene.events().contains(&began), is_reset, "{depth}");
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
    // A lower head of another branch, which the only upstream keeps naming.
    check_reorg(9, 3, false).await;
    check_reorg(128, 129, true).await;
    check_reorg(200, 201, true).await;
    check_reorg(120, 1, false).await;
    // Back to a served block.
    check_reorg(9, 0, false).await;
    check_reorg(120, 0, false).await;
    // No block of the window is left.
    check_reorg(0, 128, true).await;
    check_reorg(0, 1_000, true).await;
}

/// Checks that an upstream that becomes like this is left for an honest one within so many block
/// times, and why.
async fn check_is_replaced(says: Says, blocks: u64, state: UpstreamState) {
    let mut scene = Scene::new(2, 300);
    scene.runs(2_000).await;
    scene.take_events();
    scene.upstreams[0].says(says);
    for _ in 0..blocks {
        scene.mine(1);
        scene.runs(1_000).await;
    }
    scene.check_holds(0, 128);
    let switched = Switch {
        from: Some(0),
        to: Some(1),
        reason: SwitchReason::Left(state),
    };
    let events = scene.take_events();
    assert!(events.contains(&Event::Switched(switched)), "{events:?}");
    let reason = match state {
        UpstreamState::Faulty(Fault::BadBlock) => Some("gas_used"),
        UpstreamState::Faulty(fault) => Some(fault.label()),
        _ => None,
    };
    let is_told = |event: &Event| match event {
        Event::Failed {
            upstream: 0,
            reason: told,
            ..
        } => *told == reason,
        _ => false,
    };
    assert_eq!(
        events.iter().any(is_told),
        state != UpstreamState::Lagging,
        "{events:?}"
    );
    let states = scene.take_states();
    assert!(states.contains(&(0, state)), "{states:?}");
    // Back to its senses, it is live again, and nobody is left for it.
    scene.upstreams[0].says(Says::Truth);
    scene.runs(100_000).await;
    let states = [states, scene.take_states()].concat();
    let last = states.iter().rfind(|(upstream, _)| *upstream == 0);
    assert_eq!(last, Some(&(0, UpstreamState::Live)), "{states:?}");
    scene.upstreams[0].take_blocks();
    scene.upstreams[1].says(Says::Error(CallError::Connection("gone".into())));
    scene.mine(1);
    scene.runs(1_000).await;
    scene.check_holds(0, 128);
}

/// An upstream that is syncing is not followed, and is said to be so, until it is done.
#[tokio::test(start_paused = true)]
async fn a_syncing_upstream_is_waited_for() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].says(Says::Syncing);
    scene.runs(10_000).await;
    assert_eq!(scene.take_states(), [(0, UpstreamState::Syncing)]);
    assert_eq!(scene.take_events(), []);
    scene.upstreams[0].says(Says::Truth);
    scene.runs(5_000).await;
    assert_eq!(scene.take_states(), [(0, UpstreamState::Live)]);
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn a_failing_upstream_is_replaced_by_another() {
    let faulty = |fault| UpstreamState::Faulty(fault);
    let error = |error| Says::Error(error);
    check_is_replaced(Says::SameHead, 2, UpstreamState::Lagging).await;
    check_is_replaced(Says::Nothing, 2, UpstreamState::Lagging).await;
    check_is_replaced(Says::HeadsAlone, 2, faulty(Fault::Timeout)).await;
    check_is_replaced(Says::BadBlocks, 1, faulty(Fault::BadBlock)).await;
    check_is_replaced(Says::NoBlocks, 1, faulty(Fault::Missing)).await;
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

/// Silence is a fault like any other, reported once while it lasts.
#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_reported_once() {
    let mut scene = Scene::new(2, 300);
    scene.runs(2_000).await;
    scene.take_events();
    scene.upstreams[0].says(Says::Nothing);
    scene.runs(5_000).await;
    let events = scene.take_events();
    let silent = Some(Fault::Silent.label());
    let is_told = |event: &&Event| match event {
        Event::Failed {
            upstream: 0,
            reason,
            ..
        } => *reason == silent,
        _ => false,
    };
    assert_eq!(events.iter().filter(is_told).count(), 1, "{events:?}");
    let left = SwitchReason::Left(UpstreamState::Faulty(Fault::Silent));
    let is_left = |event: &Event| matches!(event, Event::Switched(switch) if switch.reason == left);
    assert!(events.iter().any(is_left), "{events:?}");
    scene.mine(1);
    scene.runs(1_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn unanswered_guesses_cost_only_time() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].says(Says::NoNumbers);
    scene.runs(1_000).await;
    scene.check_holds(0, 128);
    scene.upstreams[0].take_blocks();
    scene.mine(20);
    scene.runs(1_000).await;
    scene.check_holds(0, 128);
    assert!(scene.upstreams[0].take_blocks().len() <= 40);
    let is_fault = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(!scene.events().iter().any(is_fault));
}

#[tokio::test(start_paused = true)]
async fn an_upstream_of_another_chain_is_never_followed() {
    let mut scene = Scene::new(2, 300);
    scene.upstreams[0].says(Says::OtherChain);
    scene.runs(5_000).await;
    scene.check_holds(0, 128);
    assert!(scene.upstreams[0].take_blocks().is_empty());
    let events = scene.events();
    let is_told = |event: &Event| {
        matches!(
            event,
            Event::Failed {
                upstream: 0,
                reason: Some("wrong_chain"),
                ..
            }
        )
    };
    assert!(events.iter().any(is_told), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_limited_upstream_is_asked_again_after_its_wait() {
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.upstreams[0].says(Says::Error(CallError::RateLimited {
        retry_after: Some(Duration::from_secs(30)),
    }));
    scene.mine(1);
    scene.runs(1_000).await;
    scene.upstreams[0].says(Says::Truth);
    let before = scene.upstreams[0].calls();
    scene.runs(28_000).await;
    assert_eq!(scene.upstreams[0].calls(), before);
    scene.runs(4_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn a_stale_replica_behind_one_url_does_not_take_the_head_back() {
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.take_events();
    scene.upstreams[0].says(Says::StaleNowAndThen);
    for _ in 0..50 {
        scene.mine(1);
        scene.runs(1_000).await;
        assert!(scene.head() + 1 >= scene.chains().head(0));
    }
    assert!(scene.went_up_only());
    let faults = scene.take_events();
    let is_fault = |event: &&Event| matches!(event, Event::Failed { .. });
    assert_eq!(faults.iter().filter(is_fault).count(), 0, "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn the_head_does_not_go_back_for_another_upstream() {
    let mut scene = Scene::new(2, 300);
    // The second has a fork of its own, and is behind.
    scene.chains().add_fork(0, 290, 5);
    scene.upstreams[1].is_on(1);
    scene.runs(2_000).await;
    scene.upstreams[0].says(Says::Nothing);
    for head in 296..310 {
        scene.runs(4_000).await;
        assert_eq!(scene.head(), head.max(301) - 1, "{head}");
        scene.chains().mine(1, 1);
    }
    scene.runs(4_000).await;
    scene.check_holds(1, 128);
    assert!(scene.went_up_only());
}

#[tokio::test(start_paused = true)]
async fn announced_heads_are_followed_without_polling() {
    let mut scene = Scene::new(1, 300);
    scene.upstreams[0].announces_heads();
    scene.runs(5_000).await;
    let before = scene.upstreams[0].calls();
    for _ in 0..10 {
        scene.mine(1);
        scene.upstreams[0].tell();
        scene.runs(2).await;
        scene.check_holds(0, 128);
        scene.runs(998).await;
    }
    // The block, and once in a block time its chain, the head, twice what is settled, and whether
    // it is syncing.
    let asked = scene.upstreams[0].calls() - before;
    assert!(asked <= 10 * 6 + 6, "{asked}");
    // If announcements stop, it is polled.
    scene.mine(1);
    scene.runs(1_100).await;
    scene.check_holds(0, 128);
    // After its connection ends, its heads are subscribed to again.
    scene.upstreams[0].hangs_up();
    scene.runs(2_000).await;
    scene.mine(1);
    scene.upstreams[0].tell();
    scene.runs(2).await;
    scene.check_holds(0, 128);
}

/// With a head or without: within a block time.
#[tokio::test(start_paused = true)]
async fn settled_blocks_of_the_served_chain_are_set() {
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.chains().add_fork(0, 280, 30);
    let unknown = (Err(ResolveError::UnknownTag), Err(ResolveError::UnknownTag));
    let mut expected = unknown;
    // Blocks of a fork, and blocks that do not exist yet, change nothing.
    for (chain, number) in [(0, 290), (0, 300), (1, 290), (0, 295), (0, 100), (1, 310)] {
        scene.upstreams[0].settles(chain, number);
        scene.runs(1_500).await;
        let (head, hash) = (scene.head(), scene.chains().block(chain, number));
        if chain == 0 {
            let oldest = head - 127;
            let named = match number >= oldest {
                true => Ok(hash.unwrap().hash),
                false => Err(ResolveError::BelowWindow { number, oldest }),
            };
            expected = (named, named);
        }
        let named = [BlockTag::Safe, BlockTag::Finalized].map(|tag| scene.named(tag));
        assert_eq!((named[0], named[1]), expected, "{chain} {number}");
    }
    // One that is settled with the head itself.
    scene.mine(1);
    scene.upstreams[0].settles(0, 301);
    scene.runs(1_500).await;
    let head = scene.chains().block(0, 301).unwrap().hash;
    assert_eq!(scene.named(BlockTag::Finalized), Ok(head));
}

/// Another node answers behind an upstream's URL, and no call has failed.
#[tokio::test(start_paused = true)]
async fn another_chain_behind_a_url_is_not_served() {
    for says in [Says::OtherChain, Says::OtherGenesis] {
        let mut scene = Scene::new(1, 300);
        scene.runs(2_000).await;
        scene.take_events();
        scene.chains().add_fork(0, 0, 400);
        scene.upstreams[0].is_on(1);
        scene.upstreams[0].says(says);
        scene.runs(2_000).await;
        scene.check_holds(0, 128);
        let is_told = |event: &Event| {
            matches!(
                event,
                Event::Failed {
                    reason: Some("wrong_chain"),
                    ..
                }
            )
        };
        assert!(scene.events().iter().any(is_told), "{:?}", scene.events());
        scene.upstreams[0].is_on(0);
        scene.upstreams[0].says(Says::Truth);
        scene.mine(1);
        scene.runs(5_000).await;
        scene.check_holds(0, 128);
    }
}

/// The hash that an upstream names is a block's, the number is not.
#[tokio::test(start_paused = true)]
async fn a_head_by_a_wrong_number_leads_nowhere() {
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.take_events();
    scene.upstreams[0].take_blocks();
    scene.upstreams[0].says(Says::WrongNumbers);
    scene.mine(1);
    scene.runs(2_000).await;
    assert_eq!(scene.head(), 300);
    assert!(scene.upstreams[0].take_blocks().len() < 10);
    let events = scene.take_events();
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::WindowStarted(_)))
    );
    let is_told = |event: &Event| {
        matches!(
            event,
            Event::Failed {
                reason: Some("another_block"),
                ..
            }
        )
    };
    assert!(events.iter().any(is_told), "{events:?}");
    scene.upstreams[0].says(Says::Truth);
    scene.runs(3_000).await;
    scene.check_holds(0, 128);
}

#[tokio::test(start_paused = true)]
async fn the_sink_and_the_stop_signal_end_following() {
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.refuses();
    scene.mine(1);
    assert_eq!(scene.ends().await.unwrap_err().to_string(), "refused");
    let mut scene = Scene::new(1, 300);
    scene.runs(2_000).await;
    scene.stop();
    assert!(scene.ends().await.is_ok());
}
