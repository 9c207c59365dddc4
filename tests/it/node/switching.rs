//! Several nodes: the best is followed, and the head does not go back for it.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use serde_json::json;

use super::{
    begin, follow, follow_with, head, http, led,
    led::Led,
    same::{GETH, Same},
    wait_fault, wait_head, wait_logged, ws,
};
use crate::{
    harness::{Server, check, wait_until},
    peers::{
        Branches, Payload,
        proxy::{Fault, Proxy, Refusal},
    },
};

/// Two nodes of one chain, each behind a proxy.
struct Pair {
    payloads: Vec<Payload>,
    nodes: [Led; 2],
    proxies: [Proxy; 2],
}

impl Pair {
    fn at(name: &str, blocks: u64, first: usize) -> Self {
        let (genesis, payloads) = led::chain(name, 31, blocks);
        let nodes = [0, 1].map(|at| Led::at(&format!("{name}-{at}"), &genesis, &payloads));
        let proxies = [0, 1].map(|at: usize| Proxy::to(&[nodes[at].address()]));
        let mut pair = Self {
            payloads,
            nodes,
            proxies,
        };
        pair.go_to(first);
        pair
    }

    /// Both nodes are at this block.
    fn go_to(&mut self, number: usize) -> (u64, B256) {
        let payload = &self.payloads[number - 1];
        let [one, other] = &mut self.nodes;
        one.go_to(payload);
        other.go_to(payload)
    }

    fn urls(&self) -> [String; 2] {
        self.proxies.each_ref().map(|proxy| http(proxy.address))
    }

    fn check_same(&self, server: &Server, number: u64) {
        let mut same = Same::between(server, self.nodes[1].address());
        same.blocks(1..=number);
        same.finish(GETH);
    }
}

#[test]
fn a_node_that_stalls_is_left() {
    let mut pair = Pair::at("node-stalls", 40, 10);
    // Whoever waited for a call to end would wait for longer than a test does.
    let (timeout, never) = ("5m", Duration::from_secs(300));
    let server = follow_with(&pair.urls(), &["--node-timeout", timeout]);
    let mut at = 10;
    for (case, fault) in [
        ("frozen", Fault::Freeze),
        ("cut", Fault::Cut),
        ("slow", Fault::Slow(never)),
        ("refusing", Fault::Refuse(None, Refusal::LimitExceeded)),
        (
            "refusing",
            Fault::Refuse(
                None,
                Refusal::TooManyRequests {
                    retry_after_seconds: 1,
                },
            ),
        ),
        (
            "without blocks",
            Fault::Refuse(Some("eth_getBlockByHash"), Refusal::NoMethod),
        ),
    ] {
        for stalled in [0, 1] {
            pair.proxies[stalled].fail(vec![fault.clone()]);
            for _ in 0..2 {
                at += 1;
                let began = Instant::now();
                let wanted = pair.go_to(at);
                wait_head(&server, wanted);
                println!("{case}, node {stalled}: {:?}", began.elapsed());
            }
            pair.proxies[stalled].heal();
            // It comes back before the other one goes.
            let proxy = &pair.proxies[stalled];
            let asked = proxy.calls("eth_getBlockByNumber");
            wait_until("back", || proxy.calls("eth_getBlockByNumber") > asked + 1);
        }
    }
    pair.check_same(&server, at as u64);
}

/// Whoever says that it is asked too much is asked less, the other one is followed meanwhile, and
/// the metrics say so.
#[test]
fn a_limited_node_is_asked_less() {
    let mut pair = Pair::at("node-limited", 60, 10);
    let server = follow(&pair.urls());
    let mut at = 10;
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 1,
    };
    for refusal in [Refusal::LimitExceeded, too_many] {
        for limited in [0, 1] {
            let before = super::limited(&server, limited);
            let [refusing, other] = [limited, 1 - limited].map(|node| &pair.proxies[node]);
            // Whoever came back is asked for heads again.
            let asked = refusing.calls("eth_getBlockByNumber");
            wait_until("back", || {
                refusing.calls("eth_getBlockByNumber") > asked + 1
            });
            refusing.fail(vec![Fault::Refuse(None, refusal)]);
            wait_until("limited", || super::limited(&server, limited) > before);
            let refused = refusing.applied();
            let served = other.calls("eth_getBlockByNumber");
            let mut polled = 0;
            while polled < 80 {
                at = (at + 1).min(60);
                let [one, two] = &mut pair.nodes;
                one.go_to(&pair.payloads[at - 1]);
                wait_head(&server, two.go_to(&pair.payloads[at - 1]));
                polled = pair.proxies[1 - limited].calls("eth_getBlockByNumber") - served;
            }
            let refused = pair.proxies[limited].applied() - refused;
            println!("{refusal:?}, node {limited}: {refused} calls refused beside {polled} polls");
            assert!(
                4 * refused <= polled,
                "{refused} calls to node {limited} beside {polled}"
            );
            pair.proxies[limited].heal();
        }
    }
    for node in [0, 1] {
        check("faults", &super::faults(&server, node).len(), &0);
    }
    pair.check_same(&server, at as u64);
}

#[test]
fn a_node_that_is_behind_is_lag_and_no_reorg() {
    let mut pair = Pair::at("node-lag", 30, 20);
    let server = follow(&pair.urls());
    let wanted = (20, pair.payloads[19].hash);
    wait_head(&server, wanted);
    // The followed one goes; the other one is five blocks behind.
    pair.nodes[1].go_to(&pair.payloads[14]);
    pair.proxies[0].fail(vec![Fault::Freeze]);
    wait_fault(&server, 0, &["silent", "timeout"]);
    let calls = pair.proxies[1].calls("eth_getBlockByNumber");
    let mut connection = server.connect();
    wait_until("the other one is asked", || {
        check("the head", &head(&mut connection), &wanted);
        pair.proxies[1].calls("eth_getBlockByNumber") > calls + 10
    });
    for number in [18, 20, 21] {
        let payload = &pair.payloads[number - 1];
        pair.nodes[1].go_to(payload);
        let wanted = match number {
            21 => (21, payload.hash),
            _ => wanted,
        };
        wait_head(&server, wanted);
    }
    pair.check_same(&server, 21);
}

/// Two forks: the one that is followed is kept until the other one is justified.
#[test]
fn the_fork_that_is_finalized_is_followed() {
    let chain = Branches::make("node-forks", 37, 60, 20);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut nodes = [0, 1].map(|at| Led::of(&format!("node-forks-{at}"), &chain));
    nodes.iter_mut().for_each(|node| node.tell(branch));
    // Blocks 41 on are two.
    nodes[0].go_to(&trunk[49]);
    nodes[1].go_to(&trunk[39]);
    let proxy = Proxy::to(&[nodes[1].address()]);
    let server = follow(&[http(nodes[0].address()), http(proxy.address)]);
    wait_head(&server, (50, trunk[49].hash));
    let heard = || {
        let calls = proxy.calls("eth_getBlockByNumber");
        wait_until("the other one is heard", || {
            proxy.calls("eth_getBlockByNumber") > calls + 8
        });
    };
    // As high as ours is no reason.
    nodes[1].go_to(&branch[9]);
    heard();
    nodes[0].go_to(&trunk[50]);
    wait_head(&server, (51, trunk[50].hash));
    // A block that is final is one, and the head does not go back for it.
    nodes[1].settle(&branch[10], branch[4].hash, branch[4].hash);
    wait_logged(&server, "it has finalized a later block");
    heard();
    check("kept", &head(&mut server.connect()), &(51, trunk[50].hash));
    // The one that is not followed any more comes after it, or it would be the one that is ahead.
    nodes[1].settle(&branch[11], branch[4].hash, branch[4].hash);
    nodes[0].go_to(&trunk[51]);
    wait_head(&server, (52, branch[11].hash));
    nodes[1].settle(&branch[12], branch[4].hash, branch[4].hash);
    nodes[0].go_to(&trunk[52]);
    wait_head(&server, (53, branch[12].hash));
    let mut same = Same::between(&server, nodes[1].address());
    same.blocks(1..=53);
    same.finish(GETH);
}

/// Two forks: one that is higher is not followed while the other one goes on, and is when it stops.
#[test]
fn a_higher_fork_is_followed_when_the_other_one_stops() {
    let chain = Branches::paced("node-rivals", 43, [60, 20], 8);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut nodes = [0, 1].map(|at| Led::of(&format!("node-rivals-{at}"), &chain));
    nodes.iter_mut().for_each(|node| node.tell(branch));
    let proxies = [0, 1].map(|at: usize| Proxy::to(&[nodes[at].address()]));
    // Blocks 41 on are two.
    nodes[0].go_to(&trunk[42]);
    nodes[1].go_to(&trunk[39]);
    let server = follow(&proxies.each_ref().map(|proxy| http(proxy.address)));
    let mut connection = server.connect();
    let mut wait_on_trunk = |what: &str, is_met: &dyn Fn((u64, B256)) -> bool| {
        wait_until(what, || {
            let (number, hash) = head(&mut connection);
            check("the head's fork", &hash, &trunk[number as usize - 1].hash);
            is_met((number, hash))
        });
    };
    for number in 44..=47 {
        // Just now the followed node has moved.
        let wanted = nodes[0].go_to(&trunk[number - 1]);
        wait_on_trunk("the followed node's head", &|head| head == wanted);
        // The rival is ahead by one block or two until it has been tried, and after that until it
        // was heard.
        let tried = proxies[1].calls("eth_getBlockByHash");
        let heard = proxies[1].calls("eth_getBlockByNumber");
        nodes[1].go_to(&branch[number - 40 + number % 2]);
        wait_on_trunk("the rival is heard", &|_| match number {
            44 => proxies[1].calls("eth_getBlockByHash") > tried,
            _ => proxies[1].calls("eth_getBlockByNumber") > heard,
        });
    }
    proxies[0].fail(vec![Fault::Freeze]);
    wait_head(&server, nodes[1].go_to(&branch[10]));
    let mut same = Same::between(&server, nodes[1].address());
    same.blocks(1..=51);
    same.finish(GETH);
}

/// Whichever of them can be reached.
#[test]
fn a_node_that_is_not_there_at_the_start() {
    let (genesis, payloads) = led::chain("node-absent", 41, 5);
    let mut node = Led::at("node-absent-geth", &genesis, &payloads);
    let wanted = node.go_to(&payloads[4]);
    // Nobody listens where a listener has been.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let nobody = nobody.unwrap();
    let server = begin(&[http(nobody), ws(nobody), http(node.address())]);
    wait_head(&server, wanted);
    wait_fault(&server, 0, &["connection"]);
    wait_until("ready", || server.get("/ready").status == 200);
    let genesis = server
        .connect()
        .result("eth_getBlockByNumber", &json!(["0x0", false]));
    check("genesis", &genesis["number"], &json!("0x0"));
}
