//! A chain that crosses from Osaka to Amsterdam while it is followed.
//!
//! geth 1.17.4 makes it. Of Amsterdam's EIPs it has those that a follower sees: 7928 and 7843
//! (header members), 7778 and 8037 (gas), 7708 (logs of transfers). Gas costs and contracts of the
//! final fork differ, which no check depends on.

use std::{
    cmp::Ordering,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{
    comparison::{Comparison, GETH},
    follow, follow_with, head, http, refuted, ws,
};
use crate::{
    harness::{Connection, KEY, Server, check, scratch, wait_until},
    upstreams::{Genesis, Geth, quantity},
    websocket::client::Client,
};

/// The account of geth's dev mode, for which geth signs.
const ACCOUNT: &str = "0x71562b71999873db5b286df957af199ec94617f7";
/// The address of the logs of transfers (EIP-7708).
const SYSTEM: &str = "0xfffffffffffffffffffffffffffffffffffffffe";
/// Why calls are refused.
const REFUSAL: &str = "calls and eth_config are not supported from Amsterdam on: its gas costs are \
                       not verified in this version";
/// The time for the start of geth and nearhead, and for the traffic before the fork.
const SECONDS_BEFORE_FORK: u64 = 25;

/// Code that creates a contract with five slots. A call to it clears them, for which gas is
/// refunded.
fn creation() -> String {
    let stores = |value: u8| -> String {
        let store = |slot| format!("60{value:02x}60{slot:02x}55");
        (0..5_u8).map(store).collect()
    };
    let (set, clear) = (stores(1), stores(0));
    let length = clear.len() / 2;
    let start = set.len() / 2 + 9;
    format!("0x{set}60{length:02x}8060{start:02x}5f395ff3{clear}")
}

/// Sends a transaction and waits until geth has it in a block; returns its receipt.
fn send(upstream: &mut Connection, mut transaction: Value) -> Value {
    transaction["from"] = json!(ACCOUNT);
    transaction["gas"] = json!("0x2dc6c0");
    let hash = upstream.result("eth_sendTransaction", &json!([transaction]));
    let mut receipt = Value::Null;
    wait_until("a receipt", || {
        // geth answers with an error until it has indexed its transactions.
        let answer = upstream.call("eth_getTransactionReceipt", &json!([hash]));
        receipt = answer["result"].clone();
        receipt.is_object()
    });
    check("status", &receipt["status"], &json!("0x1"));
    receipt
}

/// What was sent before the fork or after it.
struct Traffic {
    transfer: Value,
    creation: Value,
    /// A call for which gas is refunded.
    clearing: Value,
}

impl Traffic {
    /// Sends a transfer to this account, a creation and a call, each into a block of its own.
    fn send(upstream: &mut Connection, recipient: &str) -> Self {
        let transfer = send(upstream, json!({"to": recipient, "value": "0x7"}));
        let creation = send(upstream, json!({"data": creation()}));
        let clearing = send(upstream, json!({"to": creation["contractAddress"]}));
        Self {
            transfer,
            creation,
            clearing,
        }
    }

    /// How the gas of the block of this receipt, its only one, compares with the receipt's.
    fn gas_of_block(upstream: &mut Connection, receipt: &Value) -> Ordering {
        let block = block(upstream, &receipt["blockNumber"]);
        check(
            "transactions",
            &block["transactions"].as_array().unwrap().len(),
            &1,
        );
        quantity(&block["gasUsed"]).cmp(&quantity(&receipt["gasUsed"]))
    }
}

fn block(connection: &mut Connection, number: &Value) -> Value {
    connection.result("eth_getBlockByNumber", &json!([number, false]))
}

#[test]
fn a_chain_that_crosses_to_amsterdam_is_followed() {
    let folder = scratch("node-amsterdam");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fork = now.as_secs() + SECONDS_BEFORE_FORK;
    let mut genesis = Genesis::of_dev_mode(&folder);
    genesis.add_rich(ACCOUNT.parse().unwrap());
    genesis.begin_amsterdam(fork);
    let path = genesis.write(&folder);
    let geth = Geth::dev_at_genesis(&folder, &path, 1);
    let urls = [http(geth.address), ws(geth.address)];
    let [http, ws] = urls.each_ref().map(std::slice::from_ref);
    // The genesis file names the fork, so that header rules are on.
    let rules = ["--genesis", path.to_str().unwrap()];
    let servers = [follow(http), follow(ws), follow_with(http, &rules)];
    for (server, is_on) in servers.iter().zip([0.0, 0.0, 1.0]) {
        let found = server.metric("nearhead_header_rules");
        check("header rules", &found, &is_on);
    }
    let mut session = Client::open(servers[1].address, &format!("/ws/v3/{KEY}"));
    session.call("eth_subscribe", &json!(["newHeads"]));

    let mut upstream = geth.connect();
    let before = Traffic::send(&mut upstream, "0x00000000000000000000000000000000000000b0");
    await_fork(&mut session, fork);
    let after = Traffic::send(&mut upstream, "0x00000000000000000000000000000000000000a0");

    check_gas_and_logs(&mut upstream, fork, &before, &after);
    let last = quantity(&after.clearing["blockNumber"]);
    for server in &servers {
        check_served(server, &geth, last, &after);
    }
    check_calls_refused(&servers[2], &before);
}

/// Checks that calls of the state after a block of Amsterdam are refused with the reason, though
/// the genesis names the fork, and those before it are not.
fn check_calls_refused(server: &Server, before: &Traffic) {
    let mut ours = server.connect();
    let to = json!({"to": ACCOUNT});
    let refused = json!({"code": -32000, "message": REFUSAL});
    for (method, params) in [
        ("eth_call", json!([to])),
        ("eth_estimateGas", json!([to])),
        ("eth_createAccessList", json!([to])),
        (
            "eth_simulateV1",
            json!([{"blockStateCalls": [{"calls": [to]}]}]),
        ),
        ("eth_config", json!([])),
    ] {
        let answer = ours.call(method, &params);
        check(method, &answer["error"], &refused);
    }
    let number = &before.clearing["blockNumber"];
    let called = ours.result("eth_call", &json!([to, number]));
    check("before Amsterdam", &called, &json!("0x"));
}

/// Reads the heads that nearhead announces up to the first of Amsterdam.
fn await_fork(session: &mut Client, fork: u64) {
    let mut before = 0;
    loop {
        let head = session.notification()["result"].clone();
        let is_amsterdam = quantity(&head["timestamp"]) >= fork;
        for name in ["blockAccessListHash", "slotNumber"] {
            check(name, &head[name].is_string(), &is_amsterdam);
        }
        if is_amsterdam {
            break;
        }
        before += 1;
    }
    assert!(before > 0, "no head of Osaka was announced");
}

/// Checks that geth's chain has what this test is about.
fn check_gas_and_logs(upstream: &mut Connection, fork: u64, before: &Traffic, after: &Traffic) {
    let mut gas = |receipt| Traffic::gas_of_block(upstream, receipt);
    for receipt in [&before.transfer, &before.creation, &before.clearing] {
        check("before", &gas(receipt), &Ordering::Equal);
    }
    // State gas and execution gas: the larger one counts, and the sender pays both.
    check("creation", &gas(&after.creation), &Ordering::Less);
    // The sender gets a refund, and the block does not.
    check("clearing", &gas(&after.clearing), &Ordering::Greater);
    check("no log", &before.transfer["logs"], &json!([]));
    check("log", &after.transfer["logs"][0]["address"], &json!(SYSTEM));
    for (receipt, is_amsterdam) in [(&before.clearing, false), (&after.transfer, true)] {
        let block = block(upstream, &receipt["blockNumber"]);
        check(
            "side",
            &(quantity(&block["timestamp"]) >= fork),
            &is_amsterdam,
        );
    }
}

/// Checks that all blocks up to `last` are served as geth serves them, and that geth has no fault.
fn check_served(server: &Server, geth: &Geth, last: u64, after: &Traffic) {
    let mut ours = server.connect();
    wait_until("the last block", || head(&mut ours).0 >= last);
    let mut comparison = Comparison::between(server, geth.address);
    comparison.blocks(0..=last);
    let number = &after.clearing["blockNumber"];
    let contract = &after.creation["contractAddress"];
    let state_root = block(&mut ours, number)["stateRoot"].clone();
    let state_root = state_root.as_str().unwrap().parse().unwrap();
    comparison.queue_proof(json!([contract, ["0x0", "0x7"], number]), state_root);
    comparison.queue("code", "eth_getCode", json!([contract, number]));
    comparison.flush();
    comparison.finish(GETH);
    check("faults", &refuted(server, 0), &Default::default());
    let logs = json!([{"fromBlock": "0x0", "address": SYSTEM}]);
    let logs = ours.result("eth_getLogs", &logs);
    let of_transfer = logs.as_array().unwrap().iter();
    let mut of_transfer = of_transfer.map(|log| &log["transactionHash"]);
    assert!(of_transfer.any(|hash| *hash == after.transfer["transactionHash"]));
    let found = &block(&mut ours, number)["hash"];
    check("hash", found, &after.clearing["blockHash"]);
}
