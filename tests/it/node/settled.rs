//! Safe and finalized are the node's, as long as they are of the chain that is served.

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    follow, http,
    led::Led,
    same::{GETH, Same},
    wait_head, ws,
};
use crate::{
    harness::{Connection, Server, check, wait_until},
    peers::Branches,
};

/// The hash that a tag names; null where it names none.
fn named(connection: &mut Connection, tag: &str) -> Value {
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
        found = ["safe", "finalized"].map(|tag| named(&mut connection, tag));
        found == wanted
    });
}

/// Waits until the finalized block is block 3, which a window up to block 132 does not have.
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
    let nobody = format!("0x{}", "00".repeat(20));
    let error =
        json!({"code": -32000, "message": "historical state not available: block 3, oldest 5"});
    let params = json!([nobody, "0x0", "finalized"]);
    check("state", &ask("eth_getStorageAt", params), &error);
}

#[test]
fn safe_and_finalized_through_a_reorg() {
    let chain = Branches::make("node-settled", 23, 140, 60);
    let (trunk, branch) = (&chain.trunk, &chain.branch);
    let mut geth = Led::of("node-settled-geth", &chain);
    geth.go_to(&trunk[129]);
    let servers = [http(geth.address()), ws(geth.address())].map(|url| follow(&[url]));
    let settle = |geth: &mut Led, head, safe: B256, finalized: B256| {
        let head = geth.settle(head, safe, finalized);
        for server in &servers {
            wait_head(server, head);
        }
    };
    for server in &servers {
        wait_head(server, (130, trunk[129].hash));
        check("safe", &named(&mut server.connect(), "safe"), &Value::Null);
    }
    // Named with the head, and with the next one.
    settle(&mut geth, &trunk[130], trunk[70].hash, trunk[40].hash);
    settle(&mut geth, &trunk[131], trunk[71].hash, trunk[41].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[71].hash), json!(trunk[41].hash));
    }
    println!("named with the head");
    // They move although the head does not.
    settle(&mut geth, &trunk[131], trunk[75].hash, trunk[45].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[75].hash), json!(trunk[45].hash));
    }
    println!("named without a head");
    // Block 3 is below the window, which is known of it and no more.
    settle(&mut geth, &trunk[131], trunk[75].hash, trunk[2].hash);
    for server in &servers {
        wait_below(server);
    }
    settle(&mut geth, &trunk[139], trunk[75].hash, trunk[45].hash);
    // A reorg that leaves both where they are.
    geth.tell(branch);
    let last = branch.last().unwrap();
    settle(&mut geth, last, trunk[75].hash, trunk[45].hash);
    for server in &servers {
        wait_settled(server, json!(trunk[75].hash), json!(trunk[45].hash));
        let mut same = Same::between(server, geth.address());
        for tag in ["safe", "finalized"] {
            same.ask("block", "eth_getBlockByNumber", json!([tag, true]));
        }
        same.blocks(14..=last.number);
        same.finish(GETH);
    }
}
