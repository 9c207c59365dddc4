//! The calls that clients make, and what they made of the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::{Value, json};

use super::Did;
use crate::harness::{self, Connection, scratch, vectors};

/// The seven methods, as the table has them.
pub(super) const METHODS: [&str; 7] = [
    "eth_getStorageAt",
    "eth_getLogs",
    "eth_getBlockByHash",
    "eth_getUncleByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionReceipt",
    "eth_getProof",
];

/// Largest answer in bytes that is asked for: viem takes no more than 10 MiB over HTTP, and one
/// receipt has 21 MB.
const ANSWER_BYTES_MAX: usize = 10 << 20;

/// A call, and the answer to plain JSON-RPC over HTTP.
pub(super) struct Call {
    method: &'static str,
    params: Value,
    answer: Value,
}

/// Everything of the execution-apis chain: each block with hashes and with transactions, each
/// uncle, transaction and receipt, the logs of each block, and slots with their proofs: all forks
/// and all transaction types.
pub(super) fn calls(http: &mut Connection) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut next = http.result("eth_getBlockByNumber", &json!(["latest", false]));
    while let Some(hash) = next.get("hash").cloned() {
        let mut ask = |method, params| ask(http, &mut calls, method, params);
        ask("eth_getBlockByHash", json!([hash, false]));
        let block = ask("eth_getBlockByHash", json!([hash, true]));
        ask("eth_getLogs", json!([{"blockHash": hash}]));
        for index in 0..members(&block, "uncles").len() {
            let index = format!("{index:#x}");
            ask("eth_getUncleByBlockHashAndIndex", json!([hash, index]));
        }
        for transaction in members(&block, "transactions") {
            let place = json!([block["number"], transaction["transactionIndex"]]);
            ask("eth_getTransactionByBlockNumberAndIndex", place);
            ask("eth_getTransactionReceipt", json!([transaction["hash"]]));
        }
        next = http.result("eth_getBlockByHash", &json!([block["parentHash"], false]));
    }
    let genesis = harness::json(&std::fs::read(vectors().join("genesis.json")).unwrap());
    let absent = json!({"storage": {format!("{:#066x}", 1): null}});
    let accounts = genesis["alloc"].as_object().unwrap();
    for (address, account) in accounts.iter().chain([(&"ab".repeat(20), &absent)]) {
        let address = format!("0x{}", address.trim_start_matches("0x").to_lowercase());
        let slots = account["storage"].as_object().into_iter().flatten();
        let slots: Vec<&String> = slots.map(|(slot, _)| slot).take(3).collect();
        if let [first, ..] = slots[..] {
            let mut ask = |method, params| ask(http, &mut calls, method, params);
            ask("eth_getStorageAt", json!([address, first, "latest"]));
            ask("eth_getProof", json!([address, slots, "latest"]));
        }
    }
    calls
}

/// Asks, and keeps call and answer.
fn ask(http: &mut Connection, calls: &mut Vec<Call>, method: &'static str, params: Value) -> Value {
    let answer = http.result(method, &params);
    if answer.to_string().len() <= ANSWER_BYTES_MAX {
        calls.push(Call {
            method,
            params,
            answer: answer.clone(),
        });
    }
    answer
}

fn members<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The calls in a file that clients read.
pub(super) fn file(client: &str, calls: &[Call]) -> PathBuf {
    let file = scratch(&format!("clients-{client}")).join("calls.json");
    let calls = calls.iter();
    let calls: Value = calls
        .map(|call| json!({"method": call.method, "params": call.params}))
        .collect();
    std::fs::write(&file, calls.to_string()).unwrap();
    file
}

/// Every call was made once over each transport, and every answer is that of plain JSON-RPC.
pub(super) fn check(calls: &[Call], steps: impl Iterator<Item = Value>) -> Did {
    let mut did = Did::default();
    let mut answers = steps.filter(|step| step["step"] == "answer");
    let mut ways: BTreeMap<&'static str, Vec<BTreeSet<String>>> = BTreeMap::new();
    for (transport, over) in ["http", "ws"].into_iter().enumerate() {
        for (index, call) in calls.iter().enumerate() {
            let case = format!("{} {} over {over}", call.method, call.params);
            let answer = answers.next().unwrap_or_else(|| panic!("{case}: not made"));
            let made = json!([answer["over"], answer["call"]]);
            harness::check(&case, &made, &json!([over, index]));
            let left_out = did.left_out.entry(call.method).or_default();
            compare(&case, &answer["value"], &call.answer, "", left_out);
            let ways = ways.entry(call.method).or_default();
            ways.resize(2, BTreeSet::new());
            ways[transport].insert(answer["by"].as_str().unwrap().to_owned());
        }
    }
    harness::check("one more answer", &answers.next(), &None);
    for method in METHODS {
        let ways: Vec<String> = ways[method]
            .iter()
            .map(|ways| ways.iter().cloned().collect::<Vec<_>>().join(", "))
            .collect();
        let cell = match &ways[..] {
            [http, ws] if http == ws => http.clone(),
            [http, ws] => format!("{http}; over WebSocket {ws}"),
            _ => unreachable!("two transports"),
        };
        did.rows.insert(method, cell);
    }
    did
}

/// Asserts that a client understood what plain JSON-RPC says. What it says nothing of goes into
/// `left_out`, as `logs[].removed`; null and nothing are the same.
pub(super) fn compare(
    case: &str,
    value: &Value,
    plain: &Value,
    path: &str,
    left_out: &mut BTreeSet<String>,
) {
    match (value, plain) {
        (Value::Object(value), Value::Object(plain)) => {
            let missing = |name: &String| value.get(name).is_none_or(Value::is_null);
            for (name, member) in plain.iter().filter(|(_, member)| !member.is_null()) {
                let path = format!("{path}{name}");
                if missing(name) {
                    left_out.insert(path);
                } else {
                    compare(case, &value[name], member, &format!("{path}."), left_out);
                }
            }
            for (name, member) in value.iter().filter(|(_, member)| !member.is_null()) {
                let known = plain.get(name).is_some_and(|member| !member.is_null());
                assert!(known, "{case}: {path}{name} is made up: {member}");
            }
        }
        (Value::Array(value), Value::Array(plain)) => {
            let path = format!("{}[].", path.trim_end_matches('.'));
            harness::check(&format!("{case}: {path}"), &value.len(), &plain.len());
            for (value, plain) in value.iter().zip(plain) {
                compare(case, value, plain, &path, left_out);
            }
        }
        _ => harness::check(&format!("{case}: {path}"), value, plain),
    }
}
