//! A leader that is cut from the store, and from its node.

use std::time::Instant;

use alloy_primitives::B256;
use serde_json::json;

use super::{
    link::Link,
    stage::{Stage, epoch, leads, role, wait_heads},
    through_proxy::{ThroughProxy, blocks_of},
};
use crate::{
    harness::{Server, check, quantity, scratch, wait_until},
    node::{
        comparison::{Comparison, GETH},
        head as head_of,
    },
    upstreams::{TlsFront, proxy::Fault},
};

/// A process answers about its head as geth does about the block with this hash, which may have
/// been replaced since.
fn check_stale(server: &Server, stage: &Stage, (number, hash): (u64, B256)) {
    let mut connections = [server.connect(), stage.geth.connect()];
    check("stale", &head_of(&mut connections[0]), &(number, hash));
    for (method, params) in [
        ("eth_getBlockByHash", json!([hash, true])),
        ("eth_getBlockReceipts", json!([hash])),
        ("eth_getLogs", json!([{"blockHash": hash}])),
    ] {
        let answers = connections
            .each_mut()
            .map(|one| one.result(method, &params));
        let [mut ours, mut theirs] = answers;
        // Geth says the size of blocks with withdrawals otherwise: see `comparison`.
        for block in [&mut ours, &mut theirs] {
            if let Some(block) = block.as_object_mut() {
                block.retain(|name, _| ["hash", "number", "stateRoot"].contains(&name.as_str()));
            }
        }
        check(method, &ours, &theirs);
    }
}

/// Another process leads, and the one that was cut off writes nothing afterwards, though what it
/// sent arrives late. It serves what it has, and follows when the cut is healed. A leader whose
/// node is away gives the lease back. Clients of all of them read nothing stale or wrong, and miss
/// nothing.
#[test]
fn a_leader_that_is_cut_off_serves_what_it_has_and_follows_again() {
    let mut stage = Stage::new("fleet-cut", 47, [140, 3]);
    let first = stage.go_to(134);
    let link = Link::to(stage.redis.address());
    let proxy = stage.proxy();
    let url = format!("redis://{}", link.address);
    let old = stage.join_by(Some(proxy.address), &["--fleet", &url]);
    assert!(leads(&old));
    // The other one reaches the store by TLS.
    let front = TlsFront::to(stage.redis.address(), &scratch("fleet-cut-tls"));
    let url = format!("rediss://localhost:{}", front.address.port());
    let other_proxy = stage.proxy();
    let mut command = stage.command(Some(other_proxy.address), &["--fleet", &url]);
    let next = Server::of(command.env("SSL_CERT_FILE", &front.certificate));
    let replica = stage.join(None);
    let all = [&old, &next, &replica];
    wait_heads(&all, first);
    let check_one_epoch = |stage: &Stage, now: u64| {
        assert!(leads(&next) && !leads(&old), "an old leader leads again");
        check("epochs", &stage.epochs(), &now.to_string());
        check("met", &all.map(epoch), &[now; 3]);
        let refused = "nearhead_fleet_entries_refused_total{reason=\"epoch\"}";
        check("refused", &replica.metric(refused), &0.0);
    };

    let node = stage.geth.address();
    let clients = ThroughProxy::start(&all, node, blocks_of(&stage.chain), first);
    clients.go_on(20);

    // It still has its node, which it follows by itself when its lease is over.
    let before = epoch(&replica);
    link.cut();
    let since = Instant::now();
    let head = stage.go_to(135);
    stage.check_next_leader(before, since);
    wait_until("another one leads", || leads(&next));
    wait_heads(&all, head);
    wait_until("it does not lead", || !leads(&old));
    let now = epoch(&replica);
    assert!(now > before);
    clients.go_on(20);
    link.heal();
    let head = stage.go_to(136);
    wait_heads(&all, head);
    clients.go_on(20);
    wait_until("it follows the leader", || role(&old, "replica"));
    let head = stage.go_to(137);
    wait_heads(&all, head);
    check_one_epoch(&stage, now);

    // The node of the leader is away, and nothing else: it gives the lease back.
    let changes = |change: &str| {
        next.metric(&format!(
            "nearhead_fleet_lease_changes_total{{change=\"{change}\"}}"
        ))
    };
    let before = ["released", "expired", "fenced"].map(changes);
    other_proxy.fail(vec![Fault::Freeze]);
    wait_until("the other one leads", || leads(&old));
    wait_until("it follows", || role(&next, "replica"));
    let after = ["released", "expired", "fenced"].map(changes);
    let expected = [before[0] + 1.0, before[1], before[2]];
    check("lease changes", &after, &expected);
    other_proxy.heal();
    clients.go_on(20);

    // That one is cut from its node too: it has nothing new.
    let stale = stage.go_to(138);
    wait_heads(&all, stale);
    // A node of the other one says another block, which changes nothing.
    let sibling = json!([stage.chain.branch[0].hash, false]);
    let sibling = stage.geth.connect().result("eth_getBlockByHash", &sibling);
    let number = sibling["number"].as_str().unwrap().to_owned();
    check("a sibling", &quantity(&sibling["number"]), &stale.0);
    other_proxy.answer("eth_getBlockByNumber", &number, sibling);
    let others = "nearhead_fleet_head_checks_total{answer=\"other\"}";
    wait_until("it is counted", || next.metric(others) >= 1.0);
    next.process.output.wait_for("a line", |log| {
        log.contains("a node has another block in place of the head")
            .then_some(())
    });
    check(
        "heads",
        &all.map(|one| head_of(&mut one.connect())),
        &[stale; 3],
    );

    let before = epoch(&replica);
    clients.go_on(20);
    link.cut();
    let since = Instant::now();
    proxy.fail(vec![Fault::Freeze]);
    let last = stage.chain.branch.last().unwrap();
    let last = (last.number, last.hash);
    clients.sessions.end_at(last);
    let head = stage.go_to_branch();
    check("the last head", &head, &last);
    stage.check_next_leader(before, since);
    wait_until("another one leads", || leads(&next));
    wait_heads(&[&next, &replica], head);
    wait_until("it does not lead", || !leads(&old));
    // Clients have seen a later block than it has.
    clients.read_on(50);
    check_stale(&old, &stage, stale);
    let now = epoch(&replica);
    assert!(now > before);
    link.heal();
    wait_heads(&all, head);
    proxy.heal();
    check_one_epoch(&stage, now);
    clients.read_on(20);
    let ThroughProxy {
        readers, sessions, ..
    } = clients;
    readers.end();
    let [blocks, logs] = sessions.wait();
    assert!(blocks > 0 && logs > 0, "nothing was removed");

    let mut comparison = Comparison::between(&old, stage.geth.address());
    comparison.blocks(head.0 - 8..=head.0);
    comparison.finish(GETH);
}
