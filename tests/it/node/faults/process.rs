//! nearhead itself is stopped, killed and restarted.

use std::time::Instant;

use nearhead_chain::campaign;

use super::world::{PLAIN, World};
use crate::harness::{check, wait_until};

#[test]
fn it_is_stopped_for_a_while() {
    let mut world = World::of("faults-stopped", PLAIN);
    world.survives(
        "nearhead is stopped for a while",
        |world| {
            world.server().process.freeze();
            for _ in 0..3 {
                world.go_on();
            }
        },
        |world| world.server().process.thaw(),
    );
}

/// Each restart takes over what the process before it has saved.
#[test]
fn it_is_killed_again_and_again() {
    let mut world = World::of("faults-killed", PLAIN);
    let is_written = r#"nearhead_saved_writes_total{outcome="written"}"#;
    let restored = r#"nearhead_saved_blocks_total{outcome="restored"}"#;
    wait_until("saved", || world.server().metric(is_written) > 0.0);
    for round in 0..campaign::rounds(10, 100) {
        world.kill();
        if round % 2 == 0 && round < 60 {
            world.go_on();
        }
        let began = Instant::now();
        world.start(PLAIN);
        world.recovers("nearhead is killed", world.head(), began);
        assert!(world.server().metric(restored) > 0.0);
        let is_unclean = world.server().metric("nearhead_unclean_shutdown");
        check("it did not shut down", &is_unclean, &1.0);
        // A process that is killed sooner has what those before it have saved.
        if round % 2 == 0 {
            wait_until("saved", || world.server().metric(is_written) > 0.0);
        }
    }
}
