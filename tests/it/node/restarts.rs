//! An upstream that is restarted: following resumes where it stopped, and the head does not go
//! back.

use std::path::Path;

use alloy_primitives::B256;
use nearhead_actors::upstream::UpstreamState;

use super::{
    GONE,
    comparison::{Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    faults, follow, head, http, wait_head, ws,
};
use crate::{
    harness::{Server, check, wait_until},
    upstreams::{Branches, Payload, proxy::Proxy},
};

/// A driven geth whose process is restarted, and servers that follow it over HTTP and over
/// WebSocket, each through a proxy.
struct Restarts<'a> {
    payloads: &'a [Payload],
    geth: Option<DrivenGeth>,
    proxies: [Proxy; 2],
    servers: [Server; 2],
}

impl<'a> Restarts<'a> {
    /// A geth that has received these blocks, with the block of this number as its head.
    fn at(name: &str, genesis: &Path, payloads: &'a [Payload], number: usize) -> Self {
        let mut geth = DrivenGeth::at(name, genesis, payloads);
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

    /// Ends the process and starts another at the same block or at an older one; the served head
    /// stays.
    fn restart(&mut self, kill: bool, older: Option<u64>) {
        let served = self.heads();
        let before: Vec<u64> = self.servers.iter().map(connections_lost).collect();
        let folder = self.geth.take().unwrap().end(kill);
        for (server, before) in self.servers.iter().zip(before) {
            wait_until("the upstream is gone", || connections_lost(server) > before);
            wait_until("not ready", || {
                let ready = server.get_admin("/ready");
                ready.status == 503 && ready.text().contains("\"0 nodes agree, 1 has to\"")
            });
            wait_until("faulty", || is_in(server, "faulty"));
        }
        check("while it is away", &self.heads(), &served);
        let mut geth = DrivenGeth::restart(&folder);
        if let Some(older) = older {
            geth.set_back(older);
        }
        for proxy in &self.proxies {
            proxy.forward_to(&[geth.address()]);
        }
        self.geth = Some(geth);
    }

    fn heads(&self) -> [(u64, B256); 2] {
        let servers = self.servers.each_ref();
        servers.map(|server| head(&mut server.connect()))
    }

    /// Makes a block the head, and checks that it and all blocks before it are served as the
    /// upstream has them.
    fn go_to(&mut self, payload: &Payload) {
        let geth = self.geth.as_mut().unwrap();
        // A geth that was killed or set back has lost some blocks.
        geth.send_blocks(self.payloads);
        let wanted = geth.go_to(payload);
        for server in &self.servers {
            wait_head(server, wanted);
            wait_until("ready", || server.get_admin("/ready").status == 200);
            wait_until("live", || is_in(server, "live"));
            let mut comparison = Comparison::between(server, geth.address());
            comparison.chain();
            comparison.blocks(1..=payload.number);
            comparison.finish(GETH);
        }
    }
}

/// Whether the upstream is in this state, and in no other.
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
fn following_resumes_when_a_process_is_restarted() {
    let (genesis, payloads) = driven_geth::chain("node-restarted", 61, 23);
    let mut upstream = Restarts::at("node-restarted-geth", &genesis, &payloads, 20);
    for (next, kill) in [(21, false), (23, true)] {
        upstream.restart(kill, None);
        upstream.go_to(&payloads[next - 1]);
    }
}

/// An upstream that restarts with an older head lags, which is no reorg. Once it has advanced it is
/// followed again, on the same branch and on another one.
#[test]
fn a_restart_with_an_older_head_is_no_reorg() {
    let chain = Branches::make("node-older", 63, 60, 20);
    let mut upstream = Restarts::at("node-older-geth", &chain.genesis, &chain.trunk, 50);
    for (older, next) in [(45, &chain.trunk[50]), (44, chain.branch.last().unwrap())] {
        let before = upstream.heads();
        upstream.restart(false, Some(older));
        // Wait until both servers have asked for its head several times.
        for proxy in &upstream.proxies {
            let asked = proxy.calls("eth_getBlockByNumber");
            wait_until("the head is asked for", || {
                check("no reorg", &upstream.heads(), &before);
                proxy.calls("eth_getBlockByNumber") > asked + 8
            });
        }
        let geth = upstream.geth.as_mut().unwrap();
        geth.send_blocks(&chain.trunk);
        geth.send_blocks(&chain.branch);
        upstream.go_to(next);
    }
}
