//! A node that stops, dies or is far away, and a connection that breaks.

use std::time::Duration;

use super::world::{PLAIN, World};
use crate::{
    harness::wait_until,
    node::wait_head,
    upstreams::proxy::{Fault, Refusal},
};

/// Sets a fault of the connection, and returns when nearhead is not ready for it.
fn cut_off(world: &mut World, faults: &[Fault]) {
    world.proxy.fail(faults.to_vec());
    world.go_on();
    wait_until("it is noticed", || {
        world.proxy.applied() > 0 && !world.is_ready()
    });
}

#[test]
fn a_node_fails_in_every_way() {
    let mut world = World::of("faults-node", PLAIN);
    world.survives(
        "the node is stopped for a while",
        |world| {
            world.geth().geth.process.freeze();
            wait_until("it is noticed", || !world.is_ready());
        },
        |world| world.geth().geth.process.thaw(),
    );
    world.survives(
        "the node is killed",
        |world| {
            world.kill_node();
            wait_until("it is noticed", || !world.is_ready());
        },
        World::restart_node,
    );
}

#[test]
fn a_connection_fails_in_every_way() {
    let mut world = World::of("faults-connection", PLAIN);
    let mend = |world: &mut World| world.proxy.heal();
    for (what, fault) in [
        ("a partition", Fault::Freeze),
        ("a partition that closes nothing", Fault::BlackHole),
        ("each connection breaks", Fault::Cut),
        (
            "the node refuses",
            Fault::Refuse(None, Refusal::LimitExceeded),
        ),
    ] {
        world.survives(what, |world| cut_off(world, &[fault]), mend);
    }
    world.survives(
        "the proxy closes all connections",
        |world| world.proxy.disconnect(),
        mend,
    );
}

/// Bytes arrive late and in pieces, and some connections are of no use for longer than nearhead
/// waits. What happens to the packets is in `upstreams::proxy::loss`.
#[test]
fn packets_are_lost() {
    let mut world = World::of("faults-loss", PLAIN);
    let mend = |world: &mut World| world.proxy.heal();
    let loss = |percent| Fault::Loss { percent, seed: 97 };
    world.survives(
        "a fifth of all packets is lost",
        |world| {
            world.proxy.fail(vec![loss(20)]);
            for _ in 0..5 {
                let wanted = world.go_on();
                wait_head(world.server(), wanted);
            }
            assert!(world.proxy.applied() > 0);
        },
        mend,
    );
    world.survives(
        "nine of ten packets are lost",
        |world| cut_off(world, &[loss(90)]),
        mend,
    );
}

/// On a chain whose blocks come every 12 seconds, such a node still counts as one that answers.
#[test]
fn a_node_is_far_away() {
    let mut world = World::with_blocks_every("faults-far", "12s");
    world.start(PLAIN);
    world.survives(
        "each answer takes two seconds more",
        |world| {
            world.proxy.fail(vec![Fault::Slow(Duration::from_secs(2))]);
            let wanted = world.go_on();
            wait_head(world.server(), wanted);
        },
        |world| world.proxy.heal(),
    );
}
