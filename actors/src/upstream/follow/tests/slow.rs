//! Upstreams of which each needs long for a block, like those on a busy machine.

use super::*;

const SECOND: u64 = 1_000;

/// The faults since the last call.
fn take_faults(scene: &Scene) -> usize {
    let events = scene.take_events();
    let is_fault = |event: &&Event| matches!(event, Event::Failed { .. });
    events.iter().filter(is_fault).count()
}

fn take_asked(scene: &Scene) -> usize {
    let asked = scene
        .upstreams
        .iter()
        .map(|upstream| upstream.take_blocks());
    asked.map(|asked| asked.len()).sum()
}

/// Blocks arrive as late as the upstreams are, on a chain with a block a second. Each is asked for
/// once, or twice where that takes more than two block times, and nobody is at fault once it is
/// known that nobody is faster.
#[tokio::test(start_paused = true)]
async fn blocks_are_waited_for_where_no_upstream_is_faster() {
    for pause in [500, 1_500, 3_000, 6_000] {
        for is_late_at_start in [false, true] {
            let mut scene = Scene::with_quorum(3, 2, 300);
            if !is_late_at_start {
                scene.run_for(2 * SECOND).await;
            }
            for upstream in &scene.upstreams {
                upstream.set_behavior(Behavior::Late(Duration::from_millis(pause)));
            }
            let case = format!("{pause} ms, at the start: {is_late_at_start}");
            for second in 1_u64..=120 {
                scene.mine(1);
                scene.run_for(SECOND).await;
                if second == 60 {
                    let faults = take_faults(&scene);
                    assert!(faults <= 12, "{case}: {faults} faults");
                    take_asked(&scene);
                }
                // The path has its turn when the one before has ended.
                let wanted = (300 + second).saturating_sub(2 * pause / SECOND + 1);
                assert!(
                    second < 30 || scene.head() >= wanted,
                    "{case}: {}, not {wanted}",
                    scene.head()
                );
            }
            let (faults, asked) = (take_faults(&scene), take_asked(&scene));
            check_at_most(&case, "faults", faults, 0);
            let asked_max = if pause > 2 * SECOND { 140 } else { 80 };
            check_at_most(&case, "blocks asked for", asked, asked_max);
        }
    }
}

/// A first block that takes long everywhere is not asked of everybody.
#[tokio::test(start_paused = true)]
async fn few_of_many_are_asked_for_a_block_that_takes_long() {
    let mut scene = Scene::with_quorum(16, 9, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::Late(Duration::from_secs(8)));
    }
    scene.run_for(9 * SECOND).await;
    assert_eq!(scene.head(), 300);
    let asked = scene
        .upstreams
        .iter()
        .map(|upstream| upstream.take_blocks());
    let asked = asked.filter(|blocks| blocks.contains(&300)).count();
    check_at_most("eight seconds", "upstreams asked", asked, 8);
}

/// Several that name heads and give no block delay a path of several blocks by some seconds.
#[tokio::test(start_paused = true)]
async fn several_that_give_no_block_delay_a_long_path_by_seconds() {
    let mut scene = Scene::with_quorum(9, 5, 300);
    scene.run_for(2 * SECOND).await;
    for upstream in &scene.upstreams[..4] {
        upstream.set_behavior(Behavior::HeadsOnly);
    }
    scene.mine(8);
    scene.run_for(5 * SECOND).await;
    assert_eq!(scene.head(), 308);
}

/// Upstreams that give one block after the other, while the window is filled as well.
#[tokio::test(start_paused = true)]
async fn a_window_is_filled_and_followed_by_busy_upstreams() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::Slow(Duration::from_millis(800)));
    }
    scene.mine_for(180).await;
    assert_eq!(scene.head(), 480);
    scene.check_holds(0, 128);
    check_at_most("busy", "faults", take_faults(&scene), 10);
}

/// One that names heads and gives no block, among two that need long: they are not driven away by
/// the hope that it is faster. Once it is asked, a second one is after three seconds.
#[tokio::test(start_paused = true)]
async fn one_that_gives_no_block_drives_no_slow_upstream_away() {
    for liar in 0..3 {
        let mut scene = Scene::with_quorum(3, 2, 300);
        for (id, upstream) in scene.upstreams.iter().enumerate() {
            upstream.set_behavior(match id == liar {
                true => Behavior::HeadsOnly,
                false => Behavior::Late(Duration::from_millis(1_500)),
            });
        }
        let mut lags = Vec::new();
        for second in 1_u64..=240 {
            scene.mine(1);
            scene.run_for(SECOND).await;
            if second >= 30 {
                lags.push((300 + second).saturating_sub(scene.head()));
            }
        }
        let lag = lags.iter().copied().max().unwrap_or(u64::MAX);
        assert!(lag <= 12, "upstream {liar}: {lags:?}");
    }
}

/// An upstream that names heads only now and then, because a block keeps it busy, gives that block
/// in the end: it is not asked for it again and again.
#[tokio::test(start_paused = true)]
async fn a_block_that_takes_long_is_given_by_one_that_seems_to_be_away() {
    let mut scene = Scene::with_quorum(1, 1, 300);
    scene.run_for(5 * SECOND).await;
    scene.upstreams[0].take_blocks();
    let busy = Duration::from_secs(9);
    scene.upstreams[0].set_behavior(Behavior::Late(busy));
    scene.mine(1);
    // It is asked for the block.
    scene.run_for(SECOND / 2).await;
    for _ in 0..4 {
        scene.upstreams[0].set_behavior(Behavior::Silent);
        scene.run_for(3 * SECOND / 2).await;
        scene.upstreams[0].set_behavior(Behavior::Late(busy));
        scene.run_for(SECOND / 2).await;
    }
    scene.run_for(2 * SECOND).await;
    assert_eq!(scene.head(), 301);
    let asked = scene.upstreams[0].take_blocks().len();
    check_at_most("one block", "calls", asked, 4);
}

/// All upstreams lack the block of the first head, as those do whose answer would be too large.
#[tokio::test(start_paused = true)]
async fn a_first_block_that_nobody_gives_is_left_for_the_next_one() {
    let mut scene = Scene::with_quorum(3, 2, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::NotFound(300));
    }
    scene.run_for(SECOND).await;
    scene.mine(1);
    scene.run_for(3 * SECOND).await;
    assert_eq!(scene.head(), 301);
}

/// A liar that was asked first does not keep the others from being asked, whatever the others
/// usually take.
#[tokio::test(start_paused = true)]
async fn stuck_calls_leave_room_for_others() {
    let mut scene = Scene::with_quorum(7, 4, 300);
    for upstream in &scene.upstreams {
        upstream.set_behavior(Behavior::Late(Duration::from_millis(300)));
    }
    // Each has been asked for some.
    scene.mine_for(60).await;
    for liar in 0..3 {
        scene.upstreams[liar].set_behavior(Behavior::HeadsOnly);
    }
    for _ in 0..120 {
        scene.mine(1);
        scene.run_for(SECOND).await;
        let lag = scene.chains().head(0) - scene.head();
        assert!(lag <= 4, "{lag} blocks behind");
    }
}

/// While one does not answer, another one that lacks what is guessed is not asked for it again and
/// again.
#[tokio::test(start_paused = true)]
async fn a_wrong_guess_is_not_repeated_while_another_call_hangs() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    scene.run_for(2 * SECOND).await;
    take_asked(&scene);
    scene.upstreams[0].set_behavior(Behavior::HeadsOnly);
    scene.upstreams[1].set_behavior(Behavior::HashesOnly);
    scene.mine(5);
    scene.run_for(5 * SECOND).await;
    assert_eq!(scene.head(), 305);
    check_at_most("five blocks", "calls", take_asked(&scene), 25);
}

/// A call that was stuck, and is given up in the end, is one fault.
#[tokio::test(start_paused = true)]
async fn a_stuck_call_is_one_fault() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    scene.run_for(2 * SECOND).await;
    scene.take_events();
    scene.upstreams[0].take_blocks();
    scene.upstreams[0].set_behavior(Behavior::HeadsOnly);
    scene.upstreams[1].set_behavior(Behavior::Late(Duration::from_millis(1_500)));
    scene.mine(1);
    scene.run_for(30 * SECOND).await;
    assert_eq!(scene.head(), 301);
    let is_its_fault = |event: &Event| matches!(event, Event::Failed { upstream: 0, .. });
    let events = scene.take_events();
    let faults = events.iter().filter(|event| is_its_fault(event)).count();
    let calls = scene.upstreams[0].take_blocks().len();
    assert_eq!(faults, calls, "{events:?}");
}

/// The only one that does not hang lacks the block for a while: it is asked again soon.
#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_not_chosen_again() {
    let mut scene = Scene::with_quorum(2, 2, 300);
    scene.run_for(2 * SECOND).await;
    scene.upstreams[0].set_behavior(Behavior::HeadsOnly);
    scene.upstreams[1].set_behavior(Behavior::NotFound(301));
    scene.mine(1);
    scene.run_for(4 * SECOND).await;
    scene.upstreams[1].set_behavior(Behavior::Honest);
    scene.run_for(SECOND).await;
    assert_eq!(scene.head(), 301);
}

/// An honest one loses one call, and the other one hangs: the honest one is asked once more.
#[tokio::test(start_paused = true)]
async fn one_that_has_lost_a_call_is_asked_once_more() {
    for honest in [0, 1] {
        let mut scene = Scene::with_quorum(2, 2, 300);
        scene.run_for(2 * SECOND).await;
        scene.upstreams[honest].set_behavior(Behavior::LosesOne);
        scene.upstreams[1 - honest].set_behavior(Behavior::HeadsOnly);
        scene.mine(1);
        scene.run_for(4 * SECOND).await;
        assert_eq!(scene.head(), 301, "{honest}");
    }
}

/// An honest one has lost a call, for which it counts as slow, when the other one begins to hang.
#[tokio::test(start_paused = true)]
async fn one_that_was_slow_is_asked_when_the_other_one_hangs() {
    for honest in [0, 1] {
        let mut scene = Scene::with_quorum(2, 2, 300);
        scene.run_for(2 * SECOND).await;
        scene.upstreams[honest].set_behavior(Behavior::LosesOne);
        scene.mine_for(12).await;
        assert_eq!(scene.head(), 312, "{honest}");
        scene.upstreams[1 - honest].set_behavior(Behavior::HeadsOnly);
        for _ in 0..12 {
            scene.mine(1);
            scene.run_for(SECOND).await;
            let lag = scene.chains().head(0) - scene.head();
            assert!(lag <= 3, "{honest}: {lag} blocks behind");
        }
    }
}

#[track_caller]
fn check_at_most(case: &str, what: &str, found: usize, most: usize) {
    assert!(found <= most, "{case}: {found} {what}, more than {most}");
}
