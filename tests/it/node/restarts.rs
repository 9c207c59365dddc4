//! A node whose process ends and is started again: following goes on from where it was, and the
//! head does not go back.

use std::path::Path;

use alloy_primitives::B256;
use nearhead_actors::upstream::UpstreamState;

use super::{
    GONE, faults, follow, head, http, led,
    led::Led,
    same::{GETH, Same},
    wait_head, ws,
};
use crate::{
    harness::{Server, check, wait_until},
    peers::{Branches, Payload, proxy::Proxy},
};

/// A geth that is led, whose process comes and goes, and who follows it over HTTP and over
/// WebSocket, each through a proxy.
struct Restarts<'a> {
    payloads: &'a [Payload],
    geth: Option<Led>,
    proxies: [Proxy; 2],
    servers: [Server; 2],
}

impl<'a> Restarts<'a> {
    /// A geth that has been told of these blocks, at the one of this number.
    fn at(name: &str, genesis: &Path, payloads: &'a [Payload], number: usize) -> Self {
        let mut geth = Led::at(name, genesis, payloads);
        let head = geth.go_to(&payloads[number - 1]);
        let proxies = [(); 2].map(|()| Proxy::to(&[geth.address()]));
        let urls = [http(proxies[0].address), ws(proxies[1].address)];
        let servers = urls.map(|url| follow(&[url]));
        for server in &servers {
            wait_head(server, head);
        }
        Self {
            payloads,
            geth: Some(geth),
            proxies,
            servers,
        }
    }

    /// The process ends, and another one begins where it was, or at an older block; what is served
    /// stays.
    fn restart(&mut self, is_killed: bool, older: Option<u64>) {
        let served = self.heads();
        let before: Vec<u64> = self.servers.iter().map(connections_lost).collect();
        let folder = self.geth.take().unwrap().end(is_killed);
        for (server, before) in self.servers.iter().zip(before) {
            wait_until("the node is gone", || connections_lost(server) > before);
            wait_until("not ready", || {
                let ready = server.get("/ready");
                ready.status == 503 && ready.text().contains("\"no node can be followed\"")
            });
            wait_until("faulty", || is_in(server, "faulty"));
        }
        check("while it is away", &self.heads(), &served);
        let mut geth = Led::again(&folder);
        if let Some(older) = older {
            geth.set_back(older);
        }
        for proxy in &self.proxies {
            proxy.ask(&[geth.address()]);
        }
        self.geth = Some(geth);
    }

    fn heads(&self) -> [(u64, B256); 2] {
        let servers = self.servers.each_ref();
        servers.map(|server| head(&mut server.connect()))
    }

    /// A block becomes the head, and is served as the node has it, and what is before it.
    fn go_to(&mut self, payload: &Payload) {
        let geth = self.geth.as_mut().unwrap();
        // Who was killed or set back has forgotten some.
        geth.tell(self.payloads);
        let wanted = geth.go_to(payload);
        for server in &self.servers {
            wait_head(server, wanted);
            wait_until("ready", || server.get("/ready").status == 200);
            wait_until("live", || is_in(server, "live"));
            let mut same = Same::between(server, geth.address());
            same.chain();
            same.blocks(1..=payload.number);
            same.finish(GETH);
        }
    }
}

/// Whether the node is in this state, and in no other.
fn is_in(server: &Server, state: &str) -> bool {
    let is_in = |state: &str| {
        server.metric(&format!(
            "nearhead_node_state{{node=\"0\",state=\"{state}\"}}"
        ))
    };
    let all: f64 = UpstreamState::ALL
        .iter()
        .map(|(state, _)| is_in(state.label()))
        .sum();
    is_in(state) == 1.0 && all == 1.0
}

fn connections_lost(server: &Server) -> u64 {
    let faults = faults(server, 0);
    GONE.iter().filter_map(|reason| faults.get(*reason)).sum()
}

#[test]
fn a_process_that_ends_and_is_started_again() {
    let (genesis, payloads) = led::chain("node-restarted", 61, 23);
    let mut node = Restarts::at("node-restarted-geth", &genesis, &payloads, 20);
    for (next, is_killed) in [(21, false), (23, true)] {
        node.restart(is_killed, None);
        node.go_to(&payloads[next - 1]);
    }
}

/// It is behind, which is no reorg. When it has gone on it is followed: on the same branch, and on
/// another one.
#[test]
fn back_with_an_older_head() {
    let chain = Branches::make("node-older", 63, 60, 20);
    let mut node = Restarts::at("node-older-geth", &chain.genesis, &chain.trunk, 50);
    for (older, next) in [(45, &chain.trunk[50]), (44, chain.branch.last().unwrap())] {
        let before = node.heads();
        node.restart(false, Some(older));
        // Both have asked for its head more than once.
        for proxy in &node.proxies {
            let asked = proxy.calls("eth_getBlockByNumber");
            wait_until("it is asked", || {
                check("no reorg", &node.heads(), &before);
                proxy.calls("eth_getBlockByNumber") > asked + 8
            });
        }
        let geth = node.geth.as_mut().unwrap();
        geth.tell(&chain.trunk);
        geth.tell(&chain.branch);
        node.go_to(next);
    }
}
