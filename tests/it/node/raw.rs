//! Blocks, receipts and transactions in RLP: at every block of a led geth, what geth says.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{driven_geth, driven_geth::DrivenGeth, follow, http, wait_head};
use crate::{
    harness::{Connection, Pair, check},
    upstreams::quantity,
};

/// Calls about a block, whose answers are equal.
fn calls(block: &Value) -> Vec<(&'static str, Value)> {
    let number = &block["number"];
    let mut calls = vec![
        ("debug_getRawBlock", json!([number])),
        ("debug_getRawBlock", json!(["latest"])),
        ("debug_getRawHeader", json!([number])),
        ("debug_getRawReceipts", json!([number])),
    ];
    let transactions = block["transactions"].as_array().unwrap().iter();
    calls.extend(transactions.map(|one| ("debug_getRawTransaction", json!([one["hash"]]))));
    calls
}

#[test]
fn the_rlp_of_a_driven_geth_is_geths() {
    let (genesis, payloads) = driven_geth::chain("node-raw", 11, 40);
    let mut geth = DrivenGeth::at("node-raw", &genesis, &payloads);
    geth.go_to(&payloads[0]);
    let server = follow(&[http(geth.address())]);
    let mut pair = Pair {
        ours: server.connect(),
        theirs: Connection::open(geth.address(), "/"),
    };
    let (mut types, mut withdrawals) = (BTreeSet::new(), 0);
    for payload in &payloads {
        let (number, hash) = geth.go_to(payload);
        wait_head(&server, (number, hash));
        let block = pair
            .theirs
            .result("eth_getBlockByHash", &json!([hash, true]));
        let calls = calls(&block);
        let answers = pair.batch(calls.iter().map(|(method, params)| (*method, params)));
        for ((method, params), [ours, theirs]) in calls.iter().zip(&answers) {
            check(&format!("{method} {params} at {number}"), ours, theirs);
            assert!(ours["result"] != json!("0x"), "{method} {params}: {ours}");
        }
        let transactions = block["transactions"].as_array().unwrap().iter();
        types.extend(transactions.map(|one| quantity(&one["type"])));
        withdrawals += block["withdrawals"].as_array().unwrap().len();
    }
    check("types", &types, &(0..=4).collect());
    assert!(withdrawals > 0);
}
