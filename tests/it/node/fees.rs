//! Fees: at every block of a led geth, what geth says.

use serde_json::{Value, json};

use super::{driven_geth, driven_geth::DrivenGeth, follow, follow_with, http, wait_head};
use crate::harness::{Connection, Pair, Server, check};

/// Calls whose answers are equal at every block.
fn calls(head: u64) -> Vec<(&'static str, Value)> {
    let percentiles = json!([0, 5.5, 25, 50, 75, 95, 100]);
    let mut calls = vec![
        ("eth_maxPriorityFeePerGas", json!([])),
        ("eth_gasPrice", json!([])),
        ("eth_baseFee", json!([])),
        ("eth_blobBaseFee", json!([])),
        ("eth_feeHistory", json!(["0x1", "latest", []])),
        ("eth_feeHistory", json!(["0x5", "latest", percentiles])),
        ("eth_feeHistory", json!(["0x400", "latest", [50]])),
        ("debug_getRawHeader", json!(["latest"])),
    ];
    if head > 2 {
        let below = format!("{:#x}", head - 2);
        calls.push(("eth_feeHistory", json!(["0x3", below, percentiles])));
        calls.push(("debug_getRawHeader", json!([below])));
    }
    calls
}

/// Where the parameters of blobs are not known, nothing is said of their price.
fn without_a_genesis(server: &Server) {
    let mut ours = server.connect();
    let answer = ours.call("eth_blobBaseFee", &json!([]));
    check("eth_blobBaseFee", &answer["error"]["code"], &json!(-32_000));
    let history = ours.result("eth_feeHistory", &json!(["0x2", "latest", [50]]));
    let members: Vec<&str> = history
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = vec!["baseFeePerGas", "gasUsedRatio", "oldestBlock", "reward"];
    check("members", &members, &expected);
}

#[test]
fn the_fees_of_a_driven_geth_are_geths() {
    let (genesis, payloads) = driven_geth::chain("node-fees", 7, 60);
    let mut geth = DrivenGeth::at("node-fees", &genesis, &payloads);
    geth.go_to(&payloads[0]);
    let urls = [http(geth.address())];
    let path = genesis.to_str().unwrap();
    let server = follow_with(&urls, &["--genesis", path]);
    let mut pair = Pair {
        ours: server.connect(),
        theirs: Connection::open(geth.address(), "/"),
    };
    let mut tips = Vec::new();
    for payload in &payloads {
        let head = geth.go_to(payload);
        wait_head(&server, head);
        let calls = calls(head.0);
        let answers = pair.batch(calls.iter().map(|(method, params)| (*method, params)));
        for ((method, params), [ours, theirs]) in calls.iter().zip(&answers) {
            check(&format!("{method} {params} at {}", head.0), ours, theirs);
            assert!(ours.get("error").is_none(), "{method} {params}: {ours}");
        }
        tips.push(answers[0][0]["result"].clone());
    }
    without_a_genesis(&follow(&urls));
    tips.dedup();
    assert!(tips.len() > 5, "the suggestion hardly changes: {tips:?}");
}
