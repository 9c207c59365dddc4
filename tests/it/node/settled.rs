//! The safe and finalized blocks are the upstream's, as long as they are on the served chain.

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    comparison::{Comparison, GETH},
    driven_geth::DrivenGeth,
    follow, http, wait_head, ws,
};
use crate::{
    harness::{Connection, Server, check, wait_until},
    upstreams::Branches,
};

/// The hash of the block that a tag names; null if it names none.
fn hash_of(connection: &mut Connection, tag: &str) -> Value {
    let answer = connection.call("eth_getBlockByNumber", &json!([tag, false]));
    match answer["error"]["code"].as_i64() {
        Some(-39001) => Value::Null,
        _ => answer["result"]["hash"].clone(),
    }
}

#[track_caller]
fn wait_settled(server: &Server, safe: Value, finalized: Value) {
    let mut connection = server.connect();
    let wanted = [safe, finalized];
    let mut found = [Value::Null, Value::Null];
    wait_until(&format!("settled: {wanted:?}"), || {
        found = ["safe", "finalized"].map(|tag| hash_of(&mut connection, tag));
        found == wanted
    });
}

/// Waits until the finalized block, block 5, is below the window of a chain with 135 blocks.
#[track_caller]
fn wait_below(server: &Server) {
    let mut connection = server.connect();
    let mut ask = |method: &str, params: Value| connection.call(method, &params)["error"].take();
    let pruned = json!({"code": 4444, "message": "pruned history unavailable"});
    wait_until("finalized below the window", || {
        ask("eth_getBlockByNumber", json!(["finalized", false])) == pruned
    });
    for (method, params) in [
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["finalized", "0x0"]),
        ),
        ("eth_getLogs", json!([{"fromBlock": "finalized"}])),
    ] {
        check(method, &ask(method, params), &pruned);
    }
    let absent = format!("0x{}", "00".repeat(20));
    let error =
        json!({"code": -32000, "message": "historical state not available: block 5, oldest 8"});
    let params = json!([absent, "0x0", "finalized"]);
    check("state", &ask("eth_getStorageAt", params), &error);
}

#[test]
fn safe_and_finalized_follow_the_upstream_through_a_reorg() {
    let chain = Branches::make("node-settled", 23, 140, 60);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut geth = DrivenGeth::of("node-settled-geth", &chain);
    geth.go_to(&trunk[129]);
    let servers = [http(geth.address()), ws(geth.address())].map(|url| follow(&[url]));
    let settle = |geth: &mut DrivenGeth, head, safe: B256, finalized: B256| {
        let head = geth.settle(head, safe, finalized);
        for server in &servers {
            wait_head(server, head);
        }
    };
    for server in &servers {
        wait_head(server, (130, trunk[129].hash));
        check(
            "safe",
            &hash_of(&mut server.connect(), "safe"),
            &Value::Null,
        );
    }
    // The tags move with the head, twice, and at the second time a block falls below the window.
    settle(&mut geth, &trunk[131], trunk[7].hash, trunk[4].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[7].hash), json!(trunk[4].hash));
    }
    settle(&mut geth, &trunk[134], trunk[71].hash, trunk[4].hash);
    for server in &servers {
        wait_below(server);
    }
    println!("moved with the head");
    // The tags move while the head stays.
    settle(&mut geth, &trunk[134], trunk[75].hash, trunk[45].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[75].hash), json!(trunk[45].hash));
    }
    println!("moved without the head");
    // A node that goes back is not followed: finalized blocks are final.
    settle(&mut geth, &trunk[135], trunk[75].hash, trunk[40].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[75].hash), json!(trunk[45].hash));
    }
    settle(&mut geth, &trunk[139], trunk[75].hash, trunk[45].hash);
    // A reorg above both of them.
    geth.send_blocks(branch);
    let last = branch.last().unwrap();
    settle(&mut geth, last, trunk[75].hash, trunk[45].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[75].hash), json!(trunk[45].hash));
        let mut comparison = Comparison::between(server, geth.address());
        for tag in ["safe", "finalized"] {
            comparison.compare("block", "eth_getBlockByNumber", json!([tag, true]));
        }
        comparison.blocks(14..=last.number);
        comparison.finish(GETH);
    }
}
