//! One upstream that fails: the served blocks stay, and following resumes when the failure ends.

use std::time::Duration;

use alloy_primitives::B256;
use nearhead_chain::dev::STORE_CONTRACT;
use serde_json::{Value, json};

use super::{
    GONE,
    comparison::{ANVIL, ANVIL_EMPTY, Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    faults, follow, follow_while_filling, follow_with, head, http, wait_fault, wait_head,
    wait_logged, wait_new_fault, ws,
};
use crate::{
    harness::{self, Connection, KEY, Server, check, scratch, wait_until},
    proofs,
    upstreams::{
        Anvil, Geth, anvil_with_traffic,
        proxy::{Fault, Proxy, Refusal},
        quantity,
    },
    websocket::client::Client,
};

/// An anvil with this many blocks behind a proxy, followed over HTTP and over WebSocket.
fn behind_a_proxy(blocks: u64) -> (Anvil, Proxy, [Server; 2]) {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(blocks);
    let proxy = Proxy::to(&[anvil.address]);
    let servers = [http(proxy.address), ws(proxy.address)].map(|url| follow(&[url]));
    for server in &servers {
        wait_head(server, anvil.head());
    }
    (anvil, proxy, servers)
}

#[test]
fn following_survives_a_frozen_cut_or_slow_upstream() {
    let (mut anvil, proxy, servers) = behind_a_proxy(20);
    for (fault, reasons) in [
        (Fault::Freeze, GONE),
        (Fault::Cut, &["connection", "malformed"][..]),
        (Fault::Refuse(None, Refusal::NoMethod), &["method_missing"]),
        (
            Fault::Refuse(Some("eth_getBlockByHash"), Refusal::NoMethod),
            &["method_missing"],
        ),
    ] {
        let before = anvil.head();
        let known = servers.each_ref().map(|server| faults(server, 0));
        proxy.fail(vec![fault.clone()]);
        anvil.mine(1);
        for (server, known) in servers.iter().zip(&known) {
            wait_new_fault(server, 0, reasons, known);
            let served = head(&mut server.connect());
            check(&format!("{fault:?}"), &served, &before);
        }
        proxy.heal();
        for server in &servers {
            wait_head(server, anvil.head());
        }
    }
    // Slowness is not a fault.
    proxy.fail(vec![Fault::Slow(Duration::from_millis(200))]);
    anvil.mine(3);
    for server in &servers {
        wait_head(server, anvil.head());
        let mut comparison = Comparison::between(server, anvil.address);
        comparison.blocks(0..=anvil.head().0);
        comparison.finish(ANVIL_EMPTY);
    }
}

/// A stopped process accepts connections and answers nothing.
#[test]
fn following_resumes_when_a_stopped_process_does() {
    let geth = Geth::dev(&scratch("node-stopped"), 1);
    let servers = [http(geth.address), ws(geth.address)].map(|url| follow(&[url]));
    for server in &servers {
        let mut ours = server.connect();
        let (first, _) = head(&mut ours);
        wait_until("the head moves", || head(&mut ours).0 > first + 1);
    }
    geth.process.freeze();
    for server in &servers {
        wait_fault(server, 0, GONE);
        head(&mut server.connect());
    }
    geth.process.thaw();
    let (now, _) = head(&mut geth.connect());
    for server in &servers {
        let mut ours = server.connect();
        wait_until("the head moves again", || head(&mut ours).0 > now);
        let mut comparison = Comparison::between(server, geth.address);
        comparison.blocks(0..=now);
        comparison.finish(GETH);
    }
}

/// The URL now leads to an upstream of another, longer chain: none of it is served.
#[test]
fn no_block_of_another_chain_behind_the_url_is_served() {
    let (mut anvil, proxy, servers) = behind_a_proxy(20);
    let before = anvil.head();
    let mut other = Anvil::start(&["--no-mining", "--chain-id", "77"]);
    other.mine(50);
    proxy.forward_to(&[other.address]);
    proxy.disconnect();
    for server in &servers {
        let mut ours = server.connect();
        wait_until("the fault wrong_chain", || {
            check("the head", &head(&mut ours), &before);
            super::faults(server, 0).contains_key("wrong_chain")
        });
    }
    proxy.forward_to(&[anvil.address]);
    proxy.disconnect();
    anvil.mine(1);
    for server in &servers {
        wait_head(server, anvil.head());
    }
}

/// Of two upstreams on two chains, the one on the pinned chain is used. Before quorums, the first
/// upstream decided the chain id; now two that contradict each other do not agree, so the test
/// pins the chain. One of them is to decide about the head, because the other one does not count.
#[test]
fn an_upstream_of_another_chain_is_not_used() {
    let mut anvils = ["31337", "77"].map(|id| Anvil::start(&["--no-mining", "--chain-id", id]));
    anvils[0].mine(3);
    anvils[1].mine(40);
    let urls = [0, 1].map(|at: usize| http(anvils[at].address));
    let server = follow_with(&urls, &["--chain-id", "31337", "--quorum", "1"]);
    wait_fault(&server, 1, &["wrong_chain"]);
    wait_logged(&server, "chain id is 77, not 31337");
    for _ in 0..3 {
        anvils[0].mine(1);
        wait_head(&server, anvils[0].head());
    }
    let mut comparison = Comparison::between(&server, anvils[0].address);
    comparison.chain();
    comparison.blocks(0..=6);
    comparison.finish(ANVIL_EMPTY);
}

#[test]
fn receipts_are_fetched_one_by_one_without_eth_get_block_receipts() {
    let anvil = anvil_with_traffic("node-no-block-receipts", 43, 12);
    let proxy = Proxy::to(&[anvil.address]);
    let refused = Some("eth_getBlockReceipts");
    proxy.fail(vec![Fault::Refuse(refused, Refusal::NoMethod)]);
    for url in [http(proxy.address), ws(proxy.address)] {
        let server = follow(&[url]);
        wait_logged(
            &server,
            "the node has no eth_getBlockReceipts: receipts are fetched one by one",
        );
        let mut comparison = Comparison::between(&server, anvil.address);
        comparison.blocks(0..=12);
        comparison.finish(ANVIL);
        check("faults", &super::faults(&server, 0).len(), &0);
    }
    assert!(proxy.calls("eth_getTransactionReceipt") > 100);
}

/// The only upstream limits calls: the served blocks stay, fewer calls are made, and following
/// resumes when the limit ends.
#[test]
fn an_upstream_that_limits_calls_is_asked_less() {
    let (genesis, payloads) = driven_geth::chain("node-limited-alone", 73, 22);
    let mut geth = DrivenGeth::at("node-limited-alone-geth", &genesis, &payloads);
    let mut before = geth.go_to(&payloads[19]);
    let proxy = Proxy::to(&[geth.address()]);
    let servers = [http(proxy.address), ws(proxy.address)].map(|url| follow(&[url]));
    let too_many = Refusal::TooManyRequests {
        retry_after_seconds: 1,
    };
    // A WebSocket session has no HTTP status.
    for (refusal, servers, next) in [
        (Refusal::LimitExceeded, &servers[..], &payloads[20]),
        (too_many, &servers[..1], &payloads[21]),
    ] {
        proxy.fail(vec![Fault::Refuse(None, refusal)]);
        let wanted = geth.go_to(next);
        let times = 2;
        for server in servers {
            let counted = super::limited(server, 0);
            let mut ours = server.connect();
            wait_until("limited", || {
                check("the head", &head(&mut ours), &before);
                super::limited(server, 0) >= counted + times
            });
        }
        for server in servers {
            wait_logged(server, "the node asks for fewer calls");
        }
        let calls = proxy.applied();
        println!("{refusal:?}: {calls} calls while limited {times} times");
        assert!(calls < 30, "{refusal:?}: {calls} calls");
        proxy.heal();
        for server in servers {
            wait_head(server, wanted);
            check("faults", &super::faults(server, 0).len(), &0);
        }
        before = wanted;
    }
}

/// Two backends behind one URL, one of them three blocks behind: the head advances block by block,
/// and each batch is answered from one block.
#[test]
fn the_head_never_goes_back_for_a_stale_backend() {
    let (genesis, payloads) = driven_geth::chain("node-stale", 47, 30);
    let mut backends = ["node-stale-fresh", "node-stale-old"]
        .map(|name| DrivenGeth::at(name, &genesis, &payloads));
    let proxy = Proxy::to(&[backends[0].address(), backends[1].address()]);
    let mut go_to = |number: usize| {
        backends[1].go_to(&payloads[number - 4]);
        backends[0].go_to(&payloads[number - 1])
    };
    let first = go_to(8);
    let server = follow_while_filling(&[http(proxy.address)]);
    wait_head(&server, first);
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    for kind in ["newHeads", "reorgs"] {
        session.call("eth_subscribe", &json!([kind]));
    }
    let mut ours = server.connect();
    let (mut highest, mut proven) = (first.0, 0);
    for number in 9..=24 {
        let wanted = go_to(number);
        let asked = proxy.calls("eth_getBlockByNumber");
        wait_until("the head", || {
            let (number, hash, is_proven) = latest(&mut ours);
            assert!(number >= highest, "{number} after {highest}");
            highest = number;
            proven += usize::from(is_proven);
            check(
                "the latest block",
                &hash,
                &payloads[number as usize - 1].hash,
            );
            // After six more polls both backends were asked. The test must not make blocks faster
            // than nearhead polls.
            number == wanted.0 && proxy.calls("eth_getBlockByNumber") >= asked + 6
        });
    }
    println!("{proven} batches with a proof");
    assert!(proven > 0, "nothing was proven");
    for number in 9..=24 {
        let head = session.notification()["result"].clone();
        check("notified", &quantity(&head["number"]), &number);
    }
    let mut comparison = Comparison::between(&server, backends[0].address());
    comparison.blocks(1..=24);
    comparison.finish(GETH);
}

/// Asks for everything about the latest block in one batch; returns its number, its hash, and
/// whether the answer has a proof.
fn latest(ours: &mut Connection) -> (u64, B256, bool) {
    let calls = [
        ("eth_getBlockByNumber", json!(["latest", false])),
        ("eth_getBlockReceipts", json!(["latest"])),
        ("eth_getLogs", json!([{}])),
        ("eth_getProof", json!([STORE_CONTRACT, ["0x0"], "latest"])),
        ("eth_blockNumber", json!([])),
    ];
    let batch = calls.iter().map(
        |(method, params)| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
    );
    let answers = ours.post(json!(batch.collect::<Vec<_>>()).to_string());
    let answers = harness::json(&answers.body);
    let [block, receipts, logs, proof, number] = [0, 1, 2, 3, 4].map(|at| &answers[at]["result"]);
    check("number", number, &block["number"]);
    let hashes = block["transactions"].as_array().unwrap().iter();
    let listed = receipts.as_array().unwrap();
    let transactions = listed.iter().map(|receipt| &receipt["transactionHash"]);
    check(
        "receipts",
        &transactions.collect::<Vec<_>>(),
        &hashes.collect(),
    );
    let of_receipts = listed
        .iter()
        .flat_map(|receipt| receipt["logs"].as_array().unwrap());
    check(
        "logs",
        &logs.as_array().unwrap().iter().collect::<Vec<_>>(),
        &of_receipts.collect(),
    );
    // The backend that was asked for the proof may not have the block.
    match proof {
        Value::Null => check("code", &answers[3]["error"]["code"], &json!(-32000)),
        proof => _ = proofs::verify(&calls[3].1, proof, proofs::state_root(block)),
    }
    let hash = block["hash"].as_str().unwrap().parse().unwrap();
    (quantity(number), hash, proof.is_object())
}
