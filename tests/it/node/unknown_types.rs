//! A chain with transactions of an unknown type: refused at the start, and a fault of the upstream
//! later.

use std::thread;

use alloy_primitives::B256;
use serde_json::json;

use super::{
    arguments,
    comparison::{Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    faults, follow, follow_with, head, http, wait_fault, wait_head, ws,
};
use crate::{
    harness::{PATIENCE, Process, check, serving, wait_until},
    upstreams::proxy::{Change, Fault, Lie, Proxy},
};

/// A transaction of an unknown type. Chains of the OP stack have one in each block.
const DEPOSIT: &str = r#"{
    "type": "0x7e",
    "hash": "0x3a1d4b1e2f0c5a6978877665544332211000ffeeddccbbaa9988776655443322",
    "sourceHash": "0x2f0c5a69788776655443322110003a1d4b1effeeddccbbaa9988776655443322",
    "from": "0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001",
    "to": "0x4200000000000000000000000000000000000015",
    "mint": "0x0",
    "value": "0x0",
    "gas": "0xf4240",
    "gasPrice": "0x0",
    "isSystemTx": false,
    "input": "0x440a5e20",
    "nonce": "0x0",
    "transactionIndex": "0x0",
    "v": "0x0",
    "r": "0x0",
    "s": "0x0"
}"#;

/// Puts the transaction into the block with this hash, or into every block.
fn deposits(block: Option<B256>) -> Fault {
    Fault::Lie(Lie {
        methods: &["eth_getBlockByNumber", "eth_getBlockByHash"],
        only: block.map(|hash| ("/hash".into(), json!(hash))),
        path: "/transactions/0".into(),
        change: Change::Becomes(DEPOSIT),
    })
}

#[test]
fn a_chain_with_unknown_transactions_is_refused() {
    let (genesis, payloads) = driven_geth::chain("node-unknown", 67, 12);
    let mut geth = DrivenGeth::at("node-unknown-geth", &genesis, &payloads);
    geth.go_to(&payloads[11]);
    let proxy = Proxy::to(&[geth.address()]);
    proxy.fail(vec![deposits(None)]);
    let urls = [http(proxy.address), ws(proxy.address)];
    for urls in [&urls[..1], &urls[1..], &urls] {
        let (status, text) = Process::start(&mut serving(&arguments(urls))).wait();
        check("exit code", &status.code(), &Some(1));
        let last = text.lines().last().unwrap_or_default();
        println!("{last}");
        for part in ["block 12", "0x7e", "not supported"] {
            assert!(last.contains(part), "{part} is not in: {text}");
        }
        assert!(!text.contains("url "), "the server has listened: {text}");
    }
}

/// A lying upstream cannot keep the service from starting, even if it answers long before the
/// honest one. The chain is pinned and one upstream may decide alone; otherwise the start would
/// wait for the honest one before it asks for any block.
#[test]
fn an_upstream_that_invents_transactions_does_not_prevent_the_start() {
    let (genesis, payloads) = driven_geth::chain("node-unknown-alone", 69, 12);
    let mut geth = DrivenGeth::at("node-unknown-alone-geth", &genesis, &payloads);
    let wanted = geth.go_to(&payloads[11]);
    let [liar, honest] = [(); 2].map(|()| Proxy::to(&[geth.address()]));
    liar.fail(vec![deposits(None)]);
    honest.fail(vec![Fault::Slow(PATIENCE)]);
    let upstreams = [http(liar.address), http(honest.address)];
    let genesis = genesis.to_str().unwrap();
    let alone = [
        "--quorum",
        "1",
        "--genesis",
        genesis,
        "--node-timeout",
        "5m",
    ];
    let server = thread::scope(|scope| {
        let starting = scope.spawn(|| follow_with(&upstreams, &alone));
        // A second request shows that the liar's first answer was found to be false, and that the
        // chain was not refused for it.
        wait_until("the liar is asked again", || {
            liar.calls("eth_getBlockByHash") > 1
        });
        honest.heal();
        starting.join().unwrap()
    });
    wait_head(&server, wanted);
    wait_fault(&server, 0, &["transaction_type"]);
    let mut comparison = Comparison::between(&server, geth.address());
    comparison.blocks(1..=12);
    comparison.finish(GETH);
}

/// After the start an unknown type is a fault of the upstream: another upstream may be honest.
#[test]
fn an_unknown_transaction_is_not_served() {
    let (genesis, payloads) = driven_geth::chain("node-unknown-later", 68, 16);
    let mut geth = DrivenGeth::at("node-unknown-later-geth", &genesis, &payloads);
    let mut wanted = geth.go_to(&payloads[11]);
    let [liar, honest] = [(); 2].map(|()| Proxy::to(&[geth.address()]));
    let alone = [http(liar.address), ws(liar.address)].map(|url| follow(&[url]));
    let beside = follow(&[http(liar.address), http(honest.address)]);
    for next in &payloads[12..14] {
        liar.fail(vec![deposits(Some(next.hash))]);
        let before = wanted;
        let count = |server| faults(server, 0).get("transaction_type").copied();
        let counted = alone.each_ref().map(|server| count(server).unwrap_or(0));
        wanted = geth.go_to(next);
        wait_head(&beside, wanted);
        for (server, counted) in alone.iter().zip(counted) {
            let mut ours = server.connect();
            wait_until("the fault transaction_type", || {
                check("the head", &head(&mut ours), &before);
                count(server).unwrap_or(0) > counted
            });
        }
        liar.heal();
        for server in &alone {
            wait_head(server, wanted);
        }
    }
    for server in alone.iter().chain([&beside]) {
        let mut comparison = Comparison::between(server, geth.address());
        comparison.blocks(1..=14);
        comparison.finish(GETH);
    }
}
