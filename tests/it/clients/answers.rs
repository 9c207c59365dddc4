//! The calls that clients make, and how they represent the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    path::PathBuf,
};

use alloy_primitives::Address;
use serde_json::{Value, json};

use super::Observed;
use crate::harness::{self, Connection, quantity, scratch, vectors};

/// The seven core methods, calls of contracts, and fees, in the order of the README's table.
pub(super) const METHODS: [&str; 12] = [
    "eth_getStorageAt",
    "eth_getLogs",
    "eth_getBlockByHash",
    "eth_getUncleByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionReceipt",
    "eth_getProof",
    "eth_call",
    "eth_estimateGas",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_feeHistory",
];

/// A contract of the chain, which returns `0xffee` for the input `0xff01`.
pub(super) const CONTRACT: &str = "0x17e7eedce4ac02ef114a7ed9fe6e2f33feba1667";

/// Largest answer that clients request: viem accepts at most 10 MiB over HTTP, and one receipt has
/// 21 MB.
const ANSWER_BYTES_MAX: usize = 10 << 20;

/// A call and its answer over plain JSON-RPC and HTTP.
pub(crate) struct Call {
    method: &'static str,
    params: Value,
    answer: Value,
}

/// Calls for the whole execution-apis chain, with all forks and transaction types: each block with
/// hashes and with transactions, each uncle, transaction and receipt, the logs of each block, and
/// slots with their proofs.
pub(super) fn calls(http: &mut Connection) -> Vec<Call> {
    let mut calls = Vec::new();
    block_calls(http, &mut calls, "latest", usize::MAX);
    let genesis = harness::json(&std::fs::read(vectors().join("genesis.json")).unwrap());
    let absent = json!({"storage": {format!("{:#066x}", 1): null}});
    let accounts = genesis["alloc"].as_object().unwrap();
    for (address, account) in accounts.iter().chain([(&"ab".repeat(20), &absent)]) {
        let address = format!("0x{}", address.trim_start_matches("0x").to_lowercase());
        let slots = account["storage"].as_object().into_iter().flatten();
        let slots: Vec<&String> = slots.map(|(slot, _)| slot).take(3).collect();
        if let [first, ..] = slots[..] {
            let mut call = |method, params| record(http, &mut calls, method, params);
            call("eth_getStorageAt", json!([address, first, "latest"]));
            call("eth_getProof", json!([address, slots, "latest"]));
        }
    }
    let from = format!("{:#x}", Address::repeat_byte(7));
    let mut call = |method, params| record(http, &mut calls, method, params);
    for block in ["latest", "0x30"] {
        let output = call(
            "eth_call",
            json!([{"to": CONTRACT, "input": "0xff01"}, block]),
        );
        harness::check("eth_call", &output, &json!("0xffee"));
    }
    for to in [CONTRACT, &from] {
        let gas = call(
            "eth_estimateGas",
            json!([{"from": from, "to": to, "input": "0xff01"}]),
        );
        assert!(quantity(&gas) > 21_000, "{gas}");
    }
    for method in ["eth_gasPrice", "eth_maxPriorityFeePerGas"] {
        assert!(quantity(&call(method, json!([]))) > 0);
    }
    for (newest, percentiles) in [("latest", json!([10.5, 50])), ("0x30", json!([]))] {
        let fees = call("eth_feeHistory", json!(["0x5", newest, percentiles]));
        harness::check("fees", &members(&fees, "baseFeePerGas").len(), &6);
    }
    calls
}

/// Calls about these blocks of a chain that goes on. No answer depends on the head, so there are
/// none about prices. `storage` is a contract with its slots; `call` is what a contract is called
/// with.
pub(crate) fn calls_about(
    http: &mut Connection,
    blocks: RangeInclusive<u64>,
    storage: (Address, &[String]),
    call: &Value,
) -> Vec<Call> {
    let mut calls = Vec::new();
    let at = format!("{:#x}", blocks.end());
    block_calls(http, &mut calls, &at, blocks.count());
    let mut make = |method, params| record(http, &mut calls, method, params);
    let (contract, slots) = storage;
    let contract = format!("{contract:#x}");
    for slot in slots {
        make("eth_getStorageAt", json!([contract, slot, at]));
        make("eth_getProof", json!([contract, [slot], at]));
    }
    make("eth_getProof", json!([contract, slots, at]));
    make("eth_call", json!([call, at]));
    let from = format!("{:#x}", Address::repeat_byte(7));
    let transfer = json!({"from": from, "to": from, "input": "0xff01"});
    make("eth_estimateGas", json!([transfer]));
    make("eth_feeHistory", json!(["0x5", at, [10.5, 50]]));
    calls.retain(|call| !has_large_nonce(&call.answer));
    calls
}

/// Whether there is a nonce of which a client loses digits that has floating-point numbers for
/// them. The authorizations of the dev chain have some.
fn has_large_nonce(answer: &Value) -> bool {
    let is_large = |(name, value): (&String, &Value)| {
        name == "nonce" && quantity(value) > 1 << 53 || has_large_nonce(value)
    };
    match answer {
        Value::Object(members) => members.iter().any(is_large),
        Value::Array(items) => items.iter().any(has_large_nonce),
        _ => false,
    }
}

/// Each of so many blocks with hashes and with transactions, its uncles, transactions and receipts,
/// and its logs: this one, its parent, and so on.
fn block_calls(http: &mut Connection, calls: &mut Vec<Call>, newest: &str, blocks: usize) {
    let mut next = http.result("eth_getBlockByNumber", &json!([newest, false]));
    for _ in 0..blocks {
        let Some(hash) = next.get("hash").cloned() else {
            return;
        };
        let mut call = |method, params| record(http, calls, method, params);
        call("eth_getBlockByHash", json!([hash, false]));
        let block = call("eth_getBlockByHash", json!([hash, true]));
        call("eth_getLogs", json!([{"blockHash": hash}]));
        for index in 0..members(&block, "uncles").len() {
            let index = format!("{index:#x}");
            call("eth_getUncleByBlockHashAndIndex", json!([hash, index]));
        }
        for transaction in members(&block, "transactions") {
            let place = json!([block["number"], transaction["transactionIndex"]]);
            call("eth_getTransactionByBlockNumberAndIndex", place);
            call("eth_getTransactionReceipt", json!([transaction["hash"]]));
        }
        next = http.result("eth_getBlockByHash", &json!([block["parentHash"], false]));
    }
}

/// Makes a call over HTTP and records it with its answer, unless that is too large for a client.
fn record(
    http: &mut Connection,
    calls: &mut Vec<Call>,
    method: &'static str,
    params: Value,
) -> Value {
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

/// Writes the calls to a file for the client.
pub(super) fn file(client: &str, calls: &[Call]) -> PathBuf {
    let file = scratch(&format!("clients-{client}")).join("calls.json");
    let calls = calls.iter();
    let calls: Value = calls
        .map(|call| json!({"method": call.method, "params": call.params}))
        .collect();
    std::fs::write(&file, calls.to_string()).unwrap();
    file
}

/// Asserts that the client made each call once over each transport, and that every answer is that
/// of plain JSON-RPC.
pub(super) fn check(calls: &[Call], steps: impl Iterator<Item = Value>) -> Observed {
    let mut observed = Observed::default();
    let mut answers = steps.filter(|step| step["step"] == "answer");
    let mut names: BTreeMap<&'static str, Vec<BTreeSet<String>>> = BTreeMap::new();
    for (transport, over) in ["http", "ws"].into_iter().enumerate() {
        for (index, call) in calls.iter().enumerate() {
            let case = format!("{} {} over {over}", call.method, call.params);
            let answer = answers.next().unwrap_or_else(|| panic!("{case}: not made"));
            let made = json!([answer["over"], answer["call"]]);
            harness::check(&case, &made, &json!([over, index]));
            let omitted = observed.omitted.entry(call.method).or_default();
            compare(&case, &answer["value"], &call.answer, "", omitted);
            let names = names.entry(call.method).or_default();
            names.resize(2, BTreeSet::new());
            names[transport].insert(answer["by"].as_str().unwrap().to_owned());
        }
    }
    harness::check("an answer without a call", &answers.next(), &None);
    for (method, names) in names {
        let names: Vec<String> = names
            .iter()
            .map(|names| names.iter().cloned().collect::<Vec<_>>().join(", "))
            .collect();
        let cell = match &names[..] {
            [http, ws] if http == ws => http.clone(),
            [http, ws] => format!("{http}; over WebSocket {ws}"),
            _ => unreachable!("two transports"),
        };
        observed.rows.insert(method, cell);
    }
    observed
}

/// Asserts that a client's value equals that of plain JSON-RPC. Paths of members that the client
/// omits, such as `logs[].removed`, go into `omitted`; a null member counts as absent.
pub(super) fn compare(
    case: &str,
    value: &Value,
    plain: &Value,
    path: &str,
    omitted: &mut BTreeSet<String>,
) {
    match (value, plain) {
        (Value::Object(value), Value::Object(plain)) => {
            let missing = |name: &String| value.get(name).is_none_or(Value::is_null);
            for (name, member) in plain.iter().filter(|(_, member)| !member.is_null()) {
                let path = format!("{path}{name}");
                if missing(name) {
                    omitted.insert(path);
                } else {
                    compare(case, &value[name], member, &format!("{path}."), omitted);
                }
            }
            for (name, member) in value.iter().filter(|(_, member)| !member.is_null()) {
                let known = plain.get(name).is_some_and(|member| !member.is_null());
                assert!(known, "{case}: {path}{name} is not in the answer: {member}");
            }
        }
        (Value::Array(value), Value::Array(plain)) => {
            let path = format!("{}[].", path.trim_end_matches('.'));
            harness::check(&format!("{case}: {path}"), &value.len(), &plain.len());
            for (value, plain) in value.iter().zip(plain) {
                compare(case, value, plain, &path, omitted);
            }
        }
        // Some clients write 0 as 0.0.
        (Value::Number(value), Value::Number(plain)) => {
            harness::check(&format!("{case}: {path}"), &value.as_f64(), &plain.as_f64());
        }
        _ => harness::check(&format!("{case}: {path}"), value, plain),
    }
}
