//! Who leads: after a leader that is killed, paused or ended comes another one, and no entry of
//! an earlier epoch counts.

use std::time::{Duration, Instant};

use super::{
    stage::{Stage, epoch, leader_of, leads, wait_heads},
    subscriber::Subscriber,
    through_proxy::{ThroughProxy, blocks_of},
};
use crate::{
    harness::{check, wait_until},
    node::comparison::{Comparison, GETH},
};

/// For how long a leader is paused.
pub(super) const PAUSED: Duration = Duration::from_secs(30);

/// How often nodes were asked for what only a process that follows them asks for.
fn followed(proxy: &crate::upstreams::proxy::Proxy) -> usize {
    [
        "eth_getBlockByHash",
        "eth_getBlockByNumber",
        "eth_getBlockReceipts",
    ]
    .map(|method| proxy.calls(method))
    .iter()
    .sum()
}

/// Leader killed, paused and woken, ended: each time another process with nodes goes on from what
/// it holds, within the lease and a block, and replicas without nodes follow. Clients of all of
/// them read nothing stale or wrong, and miss nothing.
#[test]
fn another_process_leads_when_the_leader_is_gone() {
    let mut stage = Stage::new("fleet-leading", 37, [150, 4]);
    let first = stage.go_to(130);
    let proxies = [(); 3].map(|()| stage.proxy());
    let leader = stage.join(Some(proxies[0].address));
    assert!(leads(&leader));
    let others = [1, 2].map(|at| stage.join(Some(proxies[at].address)));
    let replica = stage.join(None);
    wait_heads(&[&others[0], &others[1], &replica], first);
    let head = stage.go_to(131);
    wait_heads(&[&leader, &others[0], &others[1], &replica], head);
    // Processes that do not lead leave their nodes alone: the window came from the leader, and a
    // question for one hash every five seconds is all.
    for proxy in &proxies[1..] {
        let blocks = proxy.calls("eth_getBlockByHash") + proxy.calls("eth_getBlockReceipts");
        assert_eq!(blocks, 0, "a node was asked for blocks");
        assert!(followed(proxy) <= 10, "{} calls", followed(proxy));
    }

    // Clients of subscriptions: one stays at a replica, the other one is at the leader.
    let mut node = stage.geth.connect();
    let mut staying = Subscriber::open(replica.address, head);
    let mut moving = Subscriber::open(leader.address, head);
    let head = stage.go_to(132);
    moving.read_to(head, &mut node);
    wait_heads(&[&others[0], &others[1], &replica], head);
    let all = [&leader, &others[0], &others[1], &replica];
    let blocks = blocks_of(&stage.chain);
    let clients = ThroughProxy::start(&all, stage.geth.address(), blocks, head);
    clients.go_on(20);

    // Killed.
    let before = epoch(&replica);
    let (killed, since) = (leader.address, Instant::now());
    drop(leader);
    clients.proxy.remove(killed);
    stage.check_next_leader(before, since);
    let (leader, mut others) = leader_of(others.into());
    let head = stage.go_to(133);
    wait_heads(&[&leader, &others[0], &replica], head);
    assert!(epoch(&replica) > before);
    moving.resume(others[0].address, &mut node);
    moving.read_to(head, &mut node);
    clients.go_on(20);

    // Paused for long while it has a block to append, and woken when there is another one.
    let before = epoch(&replica);
    let head = stage.go_to(134);
    leader.process.freeze();
    let since = Instant::now();
    clients.proxy.remove(leader.address);
    stage.check_next_leader(before, since);
    let (next, none) = leader_of(others);
    assert!(none.is_empty());
    wait_heads(&[&next, &replica], head);
    let now = epoch(&replica);
    assert!(now > before);
    wait_until("paused for long", || since.elapsed() >= PAUSED);
    let head = stage.go_to(135);
    wait_heads(&[&next, &replica], head);
    // When it wakes, it has requests from clients that have seen this head.
    clients.go_on(20);
    clients.proxy.add(leader.address);
    clients.read_on(2);
    leader.process.thaw();
    wait_heads(&[&next, &replica, &leader], head);
    clients.go_on(20);
    wait_until("the old leader follows", || !leads(&leader));
    check("epochs in the store", &stage.epochs(), &now.to_string());
    moving.resume(leader.address, &mut node);
    moving.read_to(head, &mut node);
    assert_eq!([epoch(&replica), epoch(&next), epoch(&leader)], [now; 3]);
    let series = "nearhead_fleet_lease_changes_total{change=\"expired\"}";
    assert_eq!(leader.metric(series), 1.0);
    let refused = "nearhead_fleet_entries_refused_total{reason=\"epoch\"}";
    assert_eq!(replica.metric(refused), 0.0, "an old epoch has written");
    check("epochs in the store", &stage.epochs(), &now.to_string());

    // It ends, and gives the lease back: nobody waits for the lease's end.
    others = vec![leader];
    clients.proxy.remove(next.address);
    next.process.terminate();
    let head = stage.go_to(136);
    wait_heads(&[&others[0], &replica], head);
    next.process.check_end(0);
    wait_until("it leads", || leads(&others[0]));

    for client in [&mut staying, &mut moving] {
        client.read_to(head, &mut node);
        client.check(&mut node);
    }
    clients.go_on(20);
    let last = stage.block(137);
    let sessions = clients.end_at(last);
    check("the last head", &stage.go_to(137), &last);
    check("removed", &sessions.wait(), &[0, 0]);
    wait_heads(&[&others[0], &replica], last);
    let mut comparison = Comparison::between(&replica, stage.geth.address());
    comparison.blocks(head.0 - 20..=head.0);
    comparison.finish(GETH);
}
