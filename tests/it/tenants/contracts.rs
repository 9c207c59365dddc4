//! Keys that are narrowed to contracts: every method, by its rule in the registry.

use alloy_primitives::{Address, address};
use nearhead::rpc::{ContractRule, METHODS};
use nearhead_tenants::{allowlists::Allowlists, record::KeySettings};
use serde_json::{Value, json};

use super::prepared_store::PreparedStore;
use crate::{
    harness::{Connection, check, json as parse, request},
    websocket::client::Client,
};

/// Tokens of the dev chain; the first two are on the list.
const LISTED: Address = address!("de00000000000000000000000000000000000001");
const ALSO_LISTED: Address = address!("de00000000000000000000000000000000000002");
const OTHER: Address = address!("de00000000000000000000000000000000000003");

const HASH: &str = "0xabababababababababababababababababababababababababababababababab";

/// The error of a call that names another address, or none where one is needed.
fn not_listed() -> Value {
    let message = "the contract address is not on the allowlist of this project ID";
    json!({"code": -32002, "message": message})
}

/// Calls of every method, each with whether a key that is narrowed to two contracts may make it.
fn calls() -> Vec<(&'static str, Value, bool)> {
    let slot = "0x0";
    let mut calls = vec![
        ("eth_getLogs", json!([{"address": LISTED}]), true),
        (
            "eth_getLogs",
            json!([{"address": [ALSO_LISTED, LISTED]}]),
            true,
        ),
        ("eth_getLogs", json!([{"address": OTHER}]), false),
        ("eth_getLogs", json!([{"address": [LISTED, OTHER]}]), false),
        ("eth_getLogs", json!([{"address": []}]), false),
        ("eth_getLogs", json!([{"address": null}]), false),
        ("eth_getLogs", json!([{}]), false),
        ("eth_getLogs", json!([{"fromBlock": "pending"}]), false),
        ("eth_getLogs", json!([{"blockHash": HASH}]), false),
        ("eth_newFilter", json!([{"address": LISTED}]), true),
        (
            "eth_newFilter",
            json!([{"address": [LISTED, OTHER]}]),
            false,
        ),
        ("eth_newFilter", json!([{}]), false),
        ("eth_newBlockFilter", json!([]), true),
        ("eth_uninstallFilter", json!(["0x1"]), true),
        ("eth_getFilterChanges", json!(["0x1"]), true),
        ("eth_getFilterLogs", json!(["0x1"]), true),
        ("eth_subscribe", json!(["logs", {"address": LISTED}]), true),
        (
            "eth_subscribe",
            json!(["logs", {"address": [LISTED, OTHER]}]),
            false,
        ),
        ("eth_subscribe", json!(["logs", {}]), false),
        ("eth_subscribe", json!(["logs"]), false),
        ("eth_subscribe", json!(["newHeads"]), true),
        ("eth_subscribe", json!(["reorgs"]), true),
        ("eth_unsubscribe", json!(["0x1"]), true),
        (
            "eth_getStorageValues",
            json!([{LISTED.to_string(): [slot]}]),
            true,
        ),
        (
            "eth_getStorageValues",
            json!([{OTHER.to_string(): [slot]}]),
            false,
        ),
        (
            "eth_getStorageValues",
            json!([{LISTED.to_string(): [slot], OTHER.to_string(): []}]),
            false,
        ),
        ("eth_getBlockAccessList", json!(["latest"]), false),
        ("eth_getBlockReceipts", json!(["latest"]), false),
        ("eth_getBlockReceipts", json!([]), false),
        ("eth_getBlockByHash", json!([HASH, true]), true),
        ("debug_getRawBlock", json!(["latest"]), true),
        ("debug_getRawHeader", json!(["latest"]), true),
        ("debug_getRawReceipts", json!(["latest"]), false),
        ("debug_getRawTransaction", json!([HASH]), true),
        ("eth_call", json!([{"to": LISTED}]), true),
        ("eth_call", json!([{"to": OTHER}]), false),
        ("eth_call", json!([{"input": "0x00"}]), false),
        (
            "eth_call",
            json!([{"to": LISTED}, "latest", {LISTED.to_string(): {"code": "0x00"}}]),
            false,
        ),
        (
            "eth_call",
            json!([{"to": LISTED}, "latest", {LISTED.to_string(): {"stateDiff": {}}}]),
            false,
        ),
        ("eth_call", json!([{"to": LISTED, "from": OTHER}]), true),
        (
            "eth_call",
            json!([{"to": LISTED, "from": OTHER, "value": "0x1"}]),
            false,
        ),
        (
            "eth_call",
            json!([{"to": LISTED, "authorizationList": []}]),
            false,
        ),
        ("eth_estimateGas", json!([{"to": LISTED}]), true),
        ("eth_estimateGas", json!([{"to": OTHER}]), false),
        ("eth_createAccessList", json!([{"to": LISTED}]), true),
        ("eth_createAccessList", json!([{"to": OTHER}]), false),
        (
            "eth_simulateV1",
            json!([{"blockStateCalls": [{"calls": [{"to": LISTED}]}]}]),
            false,
        ),
        ("eth_baseFee", json!([]), true),
        ("eth_blobBaseFee", json!([]), true),
        ("eth_capabilities", json!([]), true),
        ("eth_config", json!([]), true),
        ("eth_feeHistory", json!(["0x1", "latest", [50]]), true),
        ("eth_gasPrice", json!([]), true),
        ("eth_maxPriorityFeePerGas", json!([]), true),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["latest", "0x0"]),
            true,
        ),
        ("eth_getTransactionReceipt", json!([HASH]), true),
        (
            "eth_getUncleByBlockHashAndIndex",
            json!([HASH, "0x0"]),
            true,
        ),
        ("eth_getBlockByNumber", json!(["latest", true]), true),
        ("eth_getBlockTransactionCountByHash", json!([HASH]), true),
        (
            "eth_getBlockTransactionCountByNumber",
            json!(["latest"]),
            true,
        ),
        (
            "eth_getTransactionByBlockHashAndIndex",
            json!([HASH, "0x0"]),
            true,
        ),
        ("eth_getTransactionByHash", json!([HASH]), true),
        (
            "eth_getUncleByBlockNumberAndIndex",
            json!(["latest", "0x0"]),
            true,
        ),
        ("eth_getUncleCountByBlockHash", json!([HASH]), true),
        ("eth_getUncleCountByBlockNumber", json!(["latest"]), true),
    ];
    for (address, is_allowed) in [(LISTED, true), (ALSO_LISTED, true), (OTHER, false)] {
        calls.extend([
            ("eth_getBalance", json!([address]), is_allowed),
            ("eth_getCode", json!([address]), is_allowed),
            ("eth_getTransactionCount", json!([address]), is_allowed),
            ("eth_getStorageAt", json!([address, slot]), is_allowed),
            (
                "eth_getProof",
                json!([address, [slot], "latest"]),
                is_allowed,
            ),
        ]);
    }
    for method in [
        "eth_accounts",
        "eth_blockNumber",
        "eth_chainId",
        "eth_syncing",
        "net_listening",
        "net_version",
        "rpc.discover",
        "web3_clientVersion",
    ] {
        calls.push((method, json!([]), true));
    }
    calls
}

/// Methods that name a filter, which has the addresses: `filters` has calls that are refused.
const OF_FILTER: [&str; 2] = ["eth_getFilterChanges", "eth_getFilterLogs"];

/// A method that is checked has a call with a listed address and one with another.
#[test]
fn every_method_has_calls_for_its_rule() {
    let calls = calls();
    for method in &METHODS {
        let mut of_method = calls.iter().filter(|(name, ..)| *name == method.name);
        let (allowed, refused): (Vec<_>, Vec<_>) = of_method.by_ref().partition(|call| call.2);
        let expected = match method.contracts {
            ContractRule::Allowed => (true, false),
            ContractRule::Checked => (true, !OF_FILTER.contains(&method.name)),
            ContractRule::Refused => (false, true),
        };
        let found = (!allowed.is_empty(), !refused.is_empty());
        check(method.name, &found, &expected);
    }
}

/// An answer without its id of a subscription or a filter, which is random.
fn comparable(method: &str, mut answer: Value) -> Value {
    let makes_id = ["eth_subscribe", "eth_newFilter", "eth_newBlockFilter"];
    if makes_id.contains(&method) && answer["result"].is_string() {
        answer["result"] = true.into();
    }
    answer
}

#[test]
fn a_key_reads_the_contracts_on_its_list_alone() {
    let mut store = PreparedStore::default();
    let narrow = Allowlists {
        contracts: vec![LISTED, ALSO_LISTED].try_into().unwrap(),
        ..Allowlists::default()
    };
    let settings = KeySettings {
        allow: narrow,
        ..KeySettings::default()
    };
    store.key("narrow", settings);
    store.key("free", KeySettings::default());
    let server = store.serve("contracts", &[]);
    let [mut narrow, mut free] =
        ["narrow", "free"].map(|key| Client::open(server.address, &format!("/ws/v3/{key}")));
    let mut http = Connection::open(server.address, "/v3/narrow");
    for (method, params, is_allowed) in calls() {
        let case = format!("{method} {params}");
        let mut expected = comparable(method, free.call(method, &params));
        if !is_allowed {
            expected = json!({"jsonrpc": "2.0", "id": 1, "error": not_listed()});
        }
        let found = narrow.call(method, &params);
        check(&case, &comparable(method, found), &expected);
        if method.ends_with("subscribe") {
            continue;
        }
        // Over HTTP: the status of a single request, an error of an item in a batch.
        let response = http.post(request(1, method, &params).to_string());
        check(&case, &response.status, &if is_allowed { 200 } else { 403 });
        let found = parse(&response.body);
        check(&case, &comparable(method, found), &expected);
        let chain_id = request(2, "eth_chainId", &json!([]));
        let batch = json!([request(1, method, &params), chain_id]);
        let response = http.post(batch.to_string());
        check(&case, &response.status, &200);
        let answers = parse(&response.body);
        let found = answers[0].clone();
        check(&case, &comparable(method, found), &expected);
        check(&case, &answers[1]["error"], &Value::Null);
    }
}
