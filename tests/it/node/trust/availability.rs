//! A node that is killed, stopped, slow, cut or lost: with `--quorum 1`, or with two other nodes,
//! the head goes on; with one other node it stands, because a majority of two is both. Once the
//! node is back, a quorum is followed within three block times.

use std::time::{Duration, Instant};

use alloy_primitives::B256;

use super::{FOLLOWED_WITHIN, SECONDS_TIMED, check, http, parse, wait_until};
use crate::{
    harness::Server,
    node::{
        comparison::{Comparison, GETH},
        counted,
        driven_geth::DrivenGeth,
        follow_with, head, ws,
    },
    upstreams::{
        Branches, Payload,
        proxy::{Fault, Proxy},
    },
};

/// What happens to the first node.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    /// It answers nothing, and never what it was asked in that time: a firewall drops what belongs
    /// to its connections.
    Lost,
    /// Its answers come five seconds late.
    Slow,
    /// Its connections end in the middle of an answer.
    Cut,
    /// Its process accepts connections and answers nothing.
    Stopped,
    /// Its process has ended.
    Killed,
}

/// Two geths of one chain, each behind a proxy of its own, and a second proxy for the second geth.
struct Nodes<'a> {
    payloads: &'a [Payload],
    /// The one that breaks; `None` while it is killed.
    first: Option<DrivenGeth>,
    second: DrivenGeth,
    proxies: [Proxy; 3],
}

impl Nodes<'_> {
    fn break_first(&mut self, how: Broken) -> Option<std::path::PathBuf> {
        match how {
            Broken::Lost => self.proxies[0].fail(vec![Fault::BlackHole]),
            Broken::Slow => self.proxies[0].fail(vec![Fault::Slow(Duration::from_secs(5))]),
            Broken::Cut => self.proxies[0].fail(vec![Fault::Cut]),
            Broken::Stopped => self.first.as_ref().unwrap().geth.process.freeze(),
            Broken::Killed => return Some(self.first.take().unwrap().end(true)),
        }
        None
    }

    /// The first node works again, and has the same head as the second.
    fn mend_first(&mut self, killed: Option<std::path::PathBuf>, number: usize) {
        self.proxies[0].heal();
        if let Some(folder) = killed {
            let mut restarted = DrivenGeth::restart(&folder);
            // A geth that was killed has lost some blocks.
            restarted.send_blocks(self.payloads);
            self.proxies[0].forward_to(&[restarted.address()]);
            self.first = Some(restarted);
        }
        let first = self.first.as_mut().unwrap();
        first.geth.process.thaw();
        first.go_to(&self.payloads[number - 1]);
    }

    /// Makes a block the head of all nodes that work.
    fn go_to(&mut self, number: usize, broken: Option<Broken>) -> (u64, B256) {
        let payload = &self.payloads[number - 1];
        let is_away = matches!(broken, Some(Broken::Stopped | Broken::Killed));
        if let Some(first) = self.first.as_mut().filter(|_| !is_away) {
            first.go_to(payload);
        }
        self.second.go_to(payload)
    }

    /// Checks that the head is a block of the chain, and returns it.
    #[track_caller]
    fn check_head(&self, server: &Server) -> (u64, B256) {
        let served = head(&mut server.connect());
        let payload = &self.payloads[served.0 as usize - 1];
        check("the head", &served.1, &payload.hash);
        served
    }
}

/// Whether `/ready` says that one of two nodes agrees.
fn is_below_quorum(server: &Server) -> bool {
    let ready = server.get_admin("/ready");
    let missing = parse(&ready.body)["missing"].to_string();
    ready.status == 503 && missing.contains("1 node agrees, 2 have to")
}

#[test]
fn one_broken_node_stops_the_head_only_where_it_is_needed() {
    let chain = Branches::paced("node-trust-broken", 83, [30, 1], SECONDS_TIMED);
    let [first, second] =
        [0, 1].map(|at| DrivenGeth::of(&format!("node-trust-broken-{at}"), &chain));
    let [one, two] = [&first, &second].map(DrivenGeth::address);
    let mut nodes = Nodes {
        payloads: &chain.trunk,
        first: Some(first),
        second,
        proxies: [one, two, two].map(|node| Proxy::to(&[node])),
    };
    let mut at = 10;
    nodes.go_to(at, None);
    let urls = nodes.proxies.each_ref().map(|proxy| http(proxy.address));
    let sessions = nodes.proxies.each_ref().map(|proxy| ws(proxy.address));
    let [any, both, majority, both_ws] = [
        follow_with(&urls[..2], &["--quorum", "1"]),
        follow_with(&urls[..2], &[]),
        follow_with(&urls, &[]),
        follow_with(&sessions[..2], &[]),
    ];
    let all = [&any, &both, &majority, &both_ws];
    for how in [
        Broken::Lost,
        Broken::Slow,
        Broken::Cut,
        Broken::Stopped,
        Broken::Killed,
    ] {
        let stands_at = at as u64;
        let killed = nodes.break_first(how);
        for _ in 0..2 {
            at += 1;
            let wanted = nodes.go_to(at, Some(how));
            let made = Instant::now();
            for (server, quorum) in [(&any, 1), (&majority, 2)] {
                wait_until(&format!("{how:?}: block {at}"), || {
                    nodes.check_head(&both);
                    nodes.check_head(server) == wanted
                });
                let waited = made.elapsed();
                println!("{how:?}, quorum {quorum}: block {at} after {waited:?}");
                assert!(
                    waited < FOLLOWED_WITHIN,
                    "{how:?}, quorum {quorum}: {waited:?}"
                );
            }
        }
        for server in [&both, &both_ws] {
            wait_until(&format!("{how:?}: not ready"), || {
                let (number, _) = nodes.check_head(server);
                // A slow node agrees, late.
                assert!(
                    number == stands_at || how == Broken::Slow,
                    "{how:?}: {number}"
                );
                is_below_quorum(server)
            });
        }
        for server in [&any, &majority] {
            check("ready", &server.get_admin("/ready").status, &200);
        }
        nodes.mend_first(killed, at);
        let wanted = nodes.go_to(at, None);
        let mended = Instant::now();
        let mut behind: Vec<_> = all.into_iter().enumerate().collect();
        wait_until(&format!("{how:?}: mended"), || {
            behind.retain(|(at, server)| {
                let is_behind = nodes.check_head(server) != wanted;
                let waited = mended.elapsed();
                if !is_behind {
                    println!("{how:?}, service {at}: mended after {waited:?}");
                    assert!(waited < FOLLOWED_WITHIN, "{how:?}, {at}: {waited:?}");
                }
                is_behind
            });
            behind.is_empty()
        });
        for server in all {
            wait_until(&format!("{how:?}: live"), || {
                let is_live = counted(server, "nearhead_node_state{node=\"0\",state=\"live\"} ");
                is_live == 1 && server.get_admin("/ready").status == 200
            });
        }
    }
    for server in all {
        let mut comparison = Comparison::between(server, nodes.second.address());
        comparison.blocks(1..=at as u64);
        comparison.finish(GETH);
    }
}
