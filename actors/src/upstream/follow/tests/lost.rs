//! Calls that are never answered.

use super::*;

/// Nodes that come back answer nothing that they were asked before, neither calls for heads nor for
/// blocks, whenever they went away.
#[tokio::test(start_paused = true)]
async fn calls_that_are_never_answered_delay_no_head() {
    for gone_after in [0, 1, 130, 260, 510, 760, 990] {
        for silence in [100, 700, 1_500, 2_600, 5_000] {
            for (upstreams, quorum) in [(1, 1), (2, 2), (3, 2)] {
                let mut scene = Scene::with_quorum(upstreams, quorum, 300);
                for upstream in &scene.upstreams {
                    upstream.announce_heads();
                }
                scene.run_for(5_000).await;
                scene.mine(1);
                scene.upstreams[0].announce();
                scene.run_for(gone_after).await;
                for upstream in &scene.upstreams[..quorum] {
                    upstream.set_behavior(Behavior::Silent);
                }
                scene.run_for(silence).await;
                for upstream in &scene.upstreams {
                    upstream.set_behavior(Behavior::Honest);
                }
                let wanted = scene.chains().head(0);
                for _ in 0..3 {
                    scene.run_for(1_000).await;
                    scene.mine(1);
                }
                let case = format!("{quorum} of {upstreams}: {gone_after}, {silence}");
                assert!(scene.head() >= wanted, "{case}: {}", scene.head());
            }
        }
    }
}
