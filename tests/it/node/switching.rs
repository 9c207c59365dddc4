//! Several upstreams of which one suffices (`--quorum 1`): the head goes on while one of them
//! fails, and does not go back for another one. `trust` has those that have to agree.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use alloy_primitives::B256;
use serde_json::json;

use super::{
    comparison::{Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    follow_with, head, http, wait_fault, wait_head, ws,
};
use crate::{
    harness::{Server, UnusedPort, check, wait_until},
    upstreams::{
        Branches, Payload,
        proxy::{Fault, Proxy, Refusal},
    },
};

/// One upstream suffices.
const QUORUM: [&str; 2] = ["--quorum", "1"];

/// Two upstreams of one chain, each behind a proxy.
struct TwoUpstreams {
    payloads: Vec<Payload>,
    upstreams: [DrivenGeth; 2],
    proxies: [Proxy; 2],
}

impl TwoUpstreams {
    fn at(name: &str, blocks: u64, first: usize) -> Self {
        let (genesis, payloads) = driven_geth::chain(name, 31, blocks);
        let upstreams =
            [0, 1].map(|at| DrivenGeth::at(&format!("{name}-{at}"), &genesis, &payloads));
        let proxies = [0, 1].map(|at: usize| Proxy::to(&[upstreams[at].address()]));
        let mut pair = Self {
            payloads,
            upstreams,
            proxies,
        };
        pair.go_to(first);
        pair
    }

    /// Makes this block the head of both upstreams.
    fn go_to(&mut self, number: usize) -> (u64, B256) {
        let payload = &self.payloads[number - 1];
        let [first, second] = &mut self.upstreams;
        first.go_to(payload);
        second.go_to(payload)
    }

    fn urls(&self) -> [String; 2] {
        self.proxies.each_ref().map(|proxy| http(proxy.address))
    }

    fn check_same(&self, server: &Server, number: u64) {
        let mut comparison = Comparison::between(server, self.upstreams[1].address());
        comparison.blocks(1..=number);
        comparison.finish(GETH);
    }
}

#[test]
fn another_upstream_is_followed_when_one_stalls() {
    let mut pair = TwoUpstreams::at("node-stalls", 40, 10);
    // Longer than any test waits: switching must not depend on a timeout.
    let (timeout, never) = ("5m", Duration::from_secs(300));
    let more = [&QUORUM[..], &["--node-timeout", timeout]].concat();
    let server = follow_with(&pair.urls(), &more);
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
                println!("{case}, upstream {stalled}: {:?}", began.elapsed());
            }
            pair.proxies[stalled].heal();
            // Wait until it is polled again before the other one stalls.
            let proxy = &pair.proxies[stalled];
            let asked = proxy.calls("eth_getBlockByNumber");
            wait_until("the upstream is polled again", || {
                proxy.calls("eth_getBlockByNumber") > asked + 1
            });
        }
    }
    pair.check_same(&server, at as u64);
}

/// An upstream that limits calls gets fewer of them, and the other one is followed.
#[test]
fn a_limited_upstream_is_asked_less() {
    let mut pair = TwoUpstreams::at("node-limited", 60, 10);
    let server = follow_with(&pair.urls(), &QUORUM);
    let mut at = 10;
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 1,
    };
    for refusal in [Refusal::LimitExceeded, too_many] {
        for limited in [0, 1] {
            let before = super::limited(&server, limited);
            let [refusing, other] = [limited, 1 - limited].map(|upstream| &pair.proxies[upstream]);
            // An upstream that is used again is polled for heads.
            let asked = refusing.calls("eth_getBlockByNumber");
            wait_until("the upstream is polled again", || {
                refusing.calls("eth_getBlockByNumber") > asked + 1
            });
            refusing.fail(vec![Fault::Refuse(None, refusal)]);
            wait_until("limited", || super::limited(&server, limited) > before);
            let refused = refusing.applied();
            let served = other.calls("eth_getBlockByNumber");
            let mut polled = 0;
            while polled < 80 {
                at = (at + 1).min(60);
                let [first, second] = &mut pair.upstreams;
                first.go_to(&pair.payloads[at - 1]);
                wait_head(&server, second.go_to(&pair.payloads[at - 1]));
                polled = pair.proxies[1 - limited].calls("eth_getBlockByNumber") - served;
            }
            let refused = pair.proxies[limited].applied() - refused;
            println!(
                "{refusal:?}, upstream {limited}: {refused} calls refused, {polled} polls of the other"
            );
            assert!(
                4 * refused <= polled,
                "{refused} calls to upstream {limited}, {polled} polls of the other"
            );
            pair.proxies[limited].heal();
        }
    }
    for upstream in [0, 1] {
        // A busy machine makes a node late, whether it limits calls or not.
        let mut faults = super::faults(&server, upstream);
        faults.retain(|reason, _| !["timeout", "silent"].contains(&reason.as_str()));
        check("faults", &faults, &BTreeMap::new());
    }
    pair.check_same(&server, at as u64);
}

#[test]
fn an_upstream_that_is_behind_lags_and_causes_no_reorg() {
    let mut pair = TwoUpstreams::at("node-lag", 30, 15);
    let wanted = pair.upstreams[0].go_to(&pair.payloads[19]);
    let server = follow_with(&pair.urls(), &QUORUM);
    wait_head(&server, wanted);
    // One upstream stalls; the other one is five blocks behind.
    pair.proxies[0].fail(vec![Fault::Freeze]);
    wait_fault(&server, 0, &["silent", "timeout"]);
    let calls = pair.proxies[1].calls("eth_getBlockByNumber");
    let mut connection = server.connect();
    wait_until("the other upstream is polled", || {
        check("the head", &head(&mut connection), &wanted);
        pair.proxies[1].calls("eth_getBlockByNumber") > calls + 10
    });
    for number in [18, 20, 21] {
        let payload = &pair.payloads[number - 1];
        pair.upstreams[1].go_to(payload);
        let wanted = match number {
            21 => (21, payload.hash),
            _ => wanted,
        };
        wait_head(&server, wanted);
    }
    pair.check_same(&server, 21);
}

/// Two forks: what the node on the other one calls finalized changes nothing. Once, a later
/// finalized block was a reason to switch, and a false claim led to an invented chain.
#[test]
fn a_finality_claim_on_another_fork_changes_nothing() {
    let chain = Branches::make("node-forks", 37, 60, 20);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut upstreams = [0, 1].map(|at| DrivenGeth::of(&format!("node-forks-{at}"), &chain));
    upstreams
        .iter_mut()
        .for_each(|upstream| upstream.send_blocks(branch));
    // The forks diverge after block 40.
    upstreams[0].go_to(&trunk[49]);
    upstreams[1].go_to(&trunk[39]);
    let proxy = Proxy::to(&[upstreams[1].address()]);
    let urls = [http(upstreams[0].address()), http(proxy.address)];
    let server = follow_with(&urls, &QUORUM);
    wait_head(&server, (50, trunk[49].hash));
    let mut connection = server.connect();
    let mut stay_on_trunk = |number: usize| {
        let calls = proxy.calls("eth_getBlockByNumber");
        wait_until("the other upstream is polled", || {
            let wanted = (number as u64, trunk[number - 1].hash);
            check("the head", &head(&mut connection), &wanted);
            proxy.calls("eth_getBlockByNumber") > calls + 8
        });
    };
    upstreams[1].go_to(&branch[9]);
    upstreams[0].go_to(&trunk[50]);
    wait_head(&server, (51, trunk[50].hash));
    for number in 51..54 {
        let payload = &branch[number - 41];
        upstreams[1].settle(payload, branch[4].hash, branch[4].hash);
        stay_on_trunk(number);
        let wanted = upstreams[0].go_to(&trunk[number]);
        wait_head(&server, wanted);
    }
    let mut comparison = Comparison::between(&server, upstreams[0].address());
    comparison.blocks(1..=54);
    comparison.finish(GETH);
}

/// Two forks: the higher one is followed only after the node on the served one stops.
#[test]
fn a_higher_fork_is_followed_when_the_other_one_stops() {
    let chain = Branches::paced("node-rivals", 43, [60, 20], 8);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut upstreams = [0, 1].map(|at| DrivenGeth::of(&format!("node-rivals-{at}"), &chain));
    upstreams
        .iter_mut()
        .for_each(|upstream| upstream.send_blocks(branch));
    let proxies = [0, 1].map(|at: usize| Proxy::to(&[upstreams[at].address()]));
    // The forks diverge after block 40.
    upstreams[0].go_to(&trunk[42]);
    upstreams[1].go_to(&trunk[39]);
    let urls = proxies.each_ref().map(|proxy| http(proxy.address));
    let server = follow_with(&urls, &QUORUM);
    let mut connection = server.connect();
    let mut wait_on_trunk = |what: &str, is_met: &dyn Fn((u64, B256)) -> bool| {
        wait_until(what, || {
            let (number, hash) = head(&mut connection);
            check("the head's fork", &hash, &trunk[number as usize - 1].hash);
            is_met((number, hash))
        });
    };
    for number in 44..=47 {
        let wanted = upstreams[0].go_to(&trunk[number - 1]);
        wait_on_trunk("the head of the trunk", &|head| head == wanted);
        // The rival is ahead by one or two blocks.
        let heard = proxies[1].calls("eth_getBlockByNumber");
        upstreams[1].go_to(&branch[number - 40 + number % 2]);
        wait_on_trunk("the rival is polled", &|_| {
            proxies[1].calls("eth_getBlockByNumber") > heard
        });
    }
    proxies[0].fail(vec![Fault::Freeze]);
    wait_head(&server, upstreams[1].go_to(&branch[10]));
    let mut comparison = Comparison::between(&server, upstreams[1].address());
    comparison.blocks(1..=51);
    comparison.finish(GETH);
}

/// The service starts with the upstreams that can be reached.
#[test]
fn an_upstream_that_is_absent_at_the_start_is_skipped() {
    let (genesis, payloads) = driven_geth::chain("node-absent", 41, 5);
    let mut upstream = DrivenGeth::at("node-absent-geth", &genesis, &payloads);
    let wanted = upstream.go_to(&payloads[4]);
    let unused = UnusedPort::take();
    let absent = unused.address();
    let urls = [http(absent), ws(absent), http(upstream.address())];
    let server = follow_with(&urls, &QUORUM);
    wait_head(&server, wanted);
    wait_fault(&server, 0, &["connection"]);
    wait_until("ready", || server.get_admin("/ready").status == 200);
    let genesis = server
        .connect()
        .result("eth_getBlockByNumber", &json!(["0x0", false]));
    check("genesis", &genesis["number"], &json!("0x0"));
}
