//! Whatever upstreams did: once all of them are well, the head is reached.

use nearhead_chain::campaign;

use super::*;
use crate::upstream::test_rng::Rng;

fn behavior(rng: &mut Rng) -> Behavior {
    let late = Duration::from_millis(100 + rng.below(80) * 100);
    match rng.below(12) {
        0 => Behavior::Silent,
        1 => Behavior::HeadsOnly,
        2 => Behavior::LosesOne,
        3 => Behavior::NoBlocks,
        4 => Behavior::HashesOnly,
        5 => Behavior::Slow(late / 4),
        6 => Behavior::HeadErrors(CallError::Timeout(Duration::from_secs(1))),
        7..10 => Behavior::Late(late),
        _ => Behavior::Honest,
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_is_reached_once_upstreams_are_well() {
    for seed in 1..=campaign::rounds(24, 2_400) {
        let mut rng = Rng::new(seed);
        let upstreams = 1 + rng.below(5) as usize;
        let quorum = [1, upstreams / 2 + 1][rng.below(2) as usize];
        // The chain is shorter or longer than a window.
        let first = [2, 300][rng.below(2) as usize];
        let mut scene = Scene::with_quorum(upstreams, quorum, first);
        // The first block may be fetched before anything fails.
        scene.run_for(rng.below(2) * 2_000).await;
        for _ in 0..rng.below(60) {
            for upstream in &scene.upstreams {
                if rng.below(3) == 0 {
                    upstream.set_behavior(behavior(&mut rng));
                }
            }
            scene.mine(rng.below(3));
            scene.run_for(1 + rng.below(1_000)).await;
        }
        for upstream in &scene.upstreams {
            upstream.set_behavior(Behavior::Honest);
        }
        scene.mine_for(30).await;
        let head = scene.chains().head(0);
        let case = format!("seed {seed}: {upstreams} upstreams, quorum {quorum}");
        assert_eq!(scene.head(), head, "{case}: {:?}", scene.events());
    }
}
