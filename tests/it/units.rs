//! What calls cost: the header of an answer against the rules of docs/methods.md.

use nearhead::rpc::METHODS;
use serde_json::{Value, json};

use crate::harness::{Connection, Server, check, json as parse};

/// A token of the dev chain, which has storage.
const TOKEN: &str = "0xde00000000000000000000000000000000000001";

/// The prices that differ from 1.
const PRICES: [(&str, u64); 10] = [
    ("eth_call", 3),
    ("eth_createAccessList", 6),
    ("eth_estimateGas", 6),
    ("eth_feeHistory", 2),
    ("eth_getBlockAccessList", 2),
    ("eth_getFilterChanges", 2),
    ("eth_getFilterLogs", 2),
    ("eth_getLogs", 2),
    ("eth_getProof", 2),
    ("eth_simulateV1", 6),
];

fn price(method: &str) -> u64 {
    let price = PRICES.iter().find(|(name, _)| *name == method);
    price.map_or(1, |(_, price)| *price)
}

#[test]
fn every_method_has_its_price() {
    for method in &METHODS {
        check(method.name, &method.price, &price(method.name));
    }
}

fn call(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("{key:#x}")).collect()
}

/// Calls, with the storage keys that each names; what they cost follows from their results too.
fn calls() -> Vec<(Value, u64)> {
    let latest = "latest";
    let values = |slots| json!([{TOKEN: keys(slots)}, latest]);
    vec![
        (call("eth_chainId", json!([])), 0),
        (call("eth_getStorageAt", json!([TOKEN, "0x0"])), 0),
        (call("eth_getBlockByNumber", json!([latest, true])), 0),
        (call("eth_getBlockReceipts", json!([latest])), 0),
        (call("eth_getLogs", json!([{"fromBlock": "earliest"}])), 0),
        (call("rpc.discover", json!([])), 0),
        (call("eth_getProof", json!([TOKEN, [], latest])), 0),
        (call("eth_getProof", json!([TOKEN, keys(1)])), 1),
        (call("eth_getProof", json!([TOKEN, keys(3)])), 3),
        (call("eth_getProof", json!([TOKEN, keys(1_024)])), 1_024),
        (call("eth_getStorageValues", values(1)), 1),
        (call("eth_getStorageValues", values(20)), 20),
        (call("eth_getStorageValues", values(1_024)), 1_024),
        // What fails costs the price of its method, and an unknown method 1.
        (call("eth_getProof", json!([TOKEN, keys(1_025)])), 0),
        (call("eth_getProof", json!([TOKEN, keys(9), "0xffff"])), 9),
        (call("eth_getLogs", json!([])), 0),
        (call("eth_subscribe", json!(["newHeads"])), 0),
        (call("eth_newFilter", json!([{}])), 0),
        (call("eth_newBlockFilter", json!([])), 0),
        (call("eth_getFilterChanges", json!(["0x1"])), 0),
        (call("eth_getFilterLogs", json!(["0x1"])), 0),
        (call("eth_uninstallFilter", json!(["0x1"])), 0),
        (call("eth_coinbase", json!([])), 0),
        (call("eth_call", json!([{"to": TOKEN}])), 0),
        (json!({"id": 1}), 0),
    ]
}

/// What a call costs by the rules of docs/methods.md.
fn expected(request: &Value, keys: u64, answer: &Value) -> u64 {
    let price = price(request["method"].as_str().unwrap_or_default());
    let Some(result) = answer.get("result") else {
        return price;
    };
    let parts = (result.to_string().len() as u64).div_ceil(64 << 10);
    price + keys.saturating_sub(1) + 2 * parts.saturating_sub(1)
}

/// Posts a body; its answer and what that costs.
fn post(connection: &mut Connection, body: &Value) -> (Value, u64) {
    let response = connection.post(body.to_string());
    let units = response.header("x-nearhead-units").map(str::parse);
    let Some(Ok(units)) = units else {
        panic!("{body}: {response:?}");
    };
    let answer = match response.body.is_empty() {
        true => Value::Null,
        false => parse(&response.body),
    };
    (answer, units)
}

#[test]
fn an_answer_says_what_it_costs_and_a_batch_costs_the_sum() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let (mut sum, mut largest) = (0, 0);
    for (request, keys) in calls() {
        let (answer, units) = post(&mut connection, &request);
        let expected = expected(&request, keys, &answer);
        check(&request.to_string(), &units, &expected);
        sum += units;
        largest = largest.max(units);
    }
    assert!(largest > 1_024, "a result is larger than 64 KiB: {largest}");

    let mut batch: Vec<Value> = calls().into_iter().map(|(request, _)| request).collect();
    let (answers, units) = post(&mut connection, &json!(batch));
    check("answers", &answers.as_array().unwrap().len(), &batch.len());
    check("batch", &units, &sum);

    // Without an id, nothing of this is run.
    for item in &mut batch {
        item.as_object_mut().unwrap().remove("id");
    }
    batch.pop();
    let (answer, units) = post(&mut connection, &json!(batch));
    check("notifications", &answer, &Value::Null);
    check("notifications", &units, &(batch.len() as u64));
}

#[test]
fn a_refused_body_costs_a_unit_for_each_item() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let oversized = vec![json!(0); 1_001];
    for (body, units) in [(json!([]), 1), (json!(oversized), 1_000)] {
        check(&body.to_string(), &post(&mut connection, &body).1, &units);
    }
    let response = connection.post("{");
    check("header", &response.header("x-nearhead-units"), &Some("1"));
    check("no rate", &response.header("ratelimit-limit"), &None);
}

#[test]
fn what_is_left_is_said_and_what_is_over_it_costs_nothing() {
    let server = Server::start(&["--block-time", "0s", "--rate-limit", "3"]);
    let mut connection = server.connect();
    let request = call("eth_chainId", json!([]));
    let batch = json!([request, request, request]);
    for (body, status, units, retry_after) in
        [(&batch, 200, "3", None), (&batch, 429, "0", Some("1"))]
    {
        let response = connection.post(body.to_string());
        check("status", &response.status, &status);
        check("units", &response.header("x-nearhead-units"), &Some(units));
        check("limit", &response.header("ratelimit-limit"), &Some("3"));
        let left = response.header("ratelimit-remaining").unwrap();
        assert!(["0", "1", "2"].contains(&left), "{left}");
        check("reset", &response.header("ratelimit-reset"), &Some("1"));
        check("wait", &response.header("retry-after"), &retry_after);
    }
}

#[test]
fn a_script_may_read_what_its_call_costs() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let headers = [
        "content-type: application/json",
        "origin: https://a.example",
    ];
    let request = call("eth_chainId", json!([])).to_string();
    let request = connection.request(&headers, request.as_bytes());
    connection.send(&request);
    let response = connection.receive();
    let exposed = response.header("access-control-expose-headers").unwrap();
    for name in [
        "x-nearhead-units",
        "ratelimit-limit",
        "ratelimit-remaining",
        "ratelimit-reset",
        "retry-after",
        "x-request-id",
    ] {
        assert!(exposed.split(", ").any(|one| one == name), "{exposed}");
    }
}

/// A block's transactions, or its receipts and their logs, are read again for their RLP.
#[test]
fn rlp_costs_units() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let latest = json!(["latest"]);
    let receipts = connection.result("eth_getBlockReceipts", &latest);
    let receipts = receipts.as_array().unwrap();
    let logs = receipts.iter().map(|one| one["logs"].as_array().unwrap());
    let (count, logs) = (
        receipts.len() as u64,
        logs.map(Vec::len).sum::<usize>() as u64,
    );
    assert!(count > 10 && logs > 10, "{count} receipts, {logs} logs");
    for (method, keys) in [
        ("debug_getRawHeader", 0),
        ("debug_getRawBlock", count.div_ceil(4)),
        ("debug_getRawReceipts", (count + logs).div_ceil(4)),
    ] {
        let request = call(method, latest.clone());
        let (answer, units) = post(&mut connection, &request);
        check(method, &units, &expected(&request, keys, &answer));
    }
}

/// Gas beyond that of a simple call is paid for, also if the call fails.
#[test]
fn gas_costs_units() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    // A loop that never ends.
    let code = json!({TOKEN: {"code": "0x5b600056"}});
    for (gas, expected) in [(50_000, 3), (50_001, 4), (200_000, 33), (10_000_000, 1_993)] {
        let request = json!({"to": TOKEN, "gas": format!("{gas:#x}")});
        let request = call("eth_call", json!([request, "latest", code]));
        let (answer, units) = post(&mut connection, &request);
        check(
            "out of gas",
            &answer["error"]["message"],
            &json!("out of gas"),
        );
        check(&request.to_string(), &units, &expected);
    }
}
