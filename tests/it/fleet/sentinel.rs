//! Two servers and a sentinel: the master is killed, and writes are lost with it.

use super::{
    link::Link,
    redis::{Redis, Sentinel},
    stage::{Stage, epoch, leader_of, wait_heads},
    store_access::Access,
    through_proxy::{ThroughProxy, blocks_of},
};
use crate::{
    harness::{check, wait_until},
    node::comparison::{Comparison, GETH},
};

/// The name of the master.
const MASTER: &str = "primary";

/// The newest epoch that a server knows.
fn fence(redis: &Redis, stage: &Stage) -> String {
    let key = stage.key("fence");
    redis.call(&[b"HGET", key.as_bytes(), b"epoch"])
}

/// The client finds the master, and takes no other server for it.
fn check_searches(sentinel: &Sentinel, second: &Redis) {
    let url = sentinel.url();
    let access = Access::to(&url);
    let gone = "redis://127.0.0.1:9";
    for (urls, name, expected) in [
        (&[gone, &url][..], Some(MASTER), None),
        (&[&url, gone], Some(MASTER), None),
        (&[&url], Some("another"), Some("no_master")),
        (&[&second.url()], None, Some("no_master")),
        (&[&second.url()], Some(MASTER), Some("refused")),
        (&[gone], Some(MASTER), Some("unreachable")),
        (&[&url], None, Some("no_master")),
    ] {
        let store = access.open_by(urls, name, "a");
        // One that is gone uses up the time of one call.
        let answers = [(); 2].map(|()| access.run(store.checks()));
        let fault = answers[1].as_ref().err();
        let fault = fault.map(|error| error.fault().label());
        check(
            &format!("{urls:?} {name:?}: {answers:?}"),
            &fault,
            &expected,
        );
    }
}

/// What the master was sent last does not reach the other server: an epoch and entries. That one
/// is the master afterwards, and the fleet goes on, without a gap, in an epoch that exceeds all.
/// Clients of all processes read nothing stale or wrong, and miss nothing.
#[test]
fn a_failover_that_loses_writes_leaves_no_gap() {
    let mut stage = Stage::new("fleet-sentinel", 53, [150, 4]);
    let first = stage.go_to(130);
    let link = Link::to(stage.redis.address());
    let second = Redis::start_with("fleet-sentinel-second", &["--repl-timeout", "600"]);
    second.replicate(&stage.redis, link.address);
    let sentinel = Sentinel::of(stage.redis.address(), MASTER, "fleet-sentinel-watch");
    wait_until("the sentinel knows it", || sentinel.knows_replicas(1));

    check_searches(&sentinel, &second);

    // The first one is gone.
    let url = format!("redis://127.0.0.1:9,{}", sentinel.url());
    let options = ["--fleet", &url, "--fleet-sentinel", MASTER];
    let node = stage.geth.address();
    let leaders = [(); 3].map(|()| stage.join_by(Some(node), &options));
    let replica = stage.join_by(None, &options);
    let (leader, others) = leader_of(leaders.into());
    wait_heads(&[&leader, &others[0], &others[1], &replica], first);
    let head = stage.go_to(131);
    wait_heads(&[&leader, &others[0], &others[1], &replica], head);
    let all = [&leader, &others[0], &others[1], &replica];
    let clients = ThroughProxy::start(&all, node, blocks_of(&stage.chain), head);
    let lease = stage.key("lease");
    wait_until("the other server has the lease", || {
        second.call(&[b"GET", lease.as_bytes()]).len() > 3
    });

    // From now on, nothing reaches it: neither the next epoch nor its entries.
    link.cut();
    let killed = leader.address;
    drop(leader);
    clients.proxy.remove(killed);
    let (leader, others) = leader_of(others);
    let head = stage.go_to(132);
    wait_heads(&[&leader, &others[0], &replica], head);
    let before = epoch(&replica);
    check("first", &fence(&stage.redis, &stage), &before.to_string());
    assert_ne!(fence(&second, &stage), before.to_string());
    clients.go_on(20);
    stage.redis.kill();
    let head = stage.go_to(133);
    // The server itself ends connections when its role changes.
    wait_until("failed over", || sentinel.follows(second.address()));
    assert!(second.replication().contains("role:master"));
    wait_heads(&[&leader, &others[0], &replica], head);
    let (leader, others) = leader_of(others.into_iter().chain([leader]).collect());
    for number in 134..=135 {
        let head = stage.go_to(number);
        wait_heads(&[&leader, &others[0], &replica], head);
        clients.go_on(20);
    }
    let last = stage.block(136);
    let sessions = clients.end_at(last);
    check("the last head", &stage.go_to(136), &last);
    wait_heads(&[&leader, &others[0], &replica], last);
    check("removed", &sessions.wait(), &[0, 0]);
    let now = epoch(&replica);
    assert!(now > before, "{now} after {before}");
    check("in the store", &fence(&second, &stage), &now.to_string());
    let mut comparison = Comparison::between(&replica, stage.geth.address());
    comparison.blocks(122..=136);
    comparison.finish(GETH);
}
