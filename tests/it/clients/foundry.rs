//! Foundry: `cast` calls contracts, and `anvil` forks the chain.

use std::process::Command;

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::{answers::CONTRACT, urls};
use crate::{
    harness::{KEY, Process, Server, check, installed, scratch, wait_until},
    upstreams::Anvil,
};

/// Who calls.
const CALLER: &str = "0x0707070707070707070707070707070707070707";

/// Runs `cast` with these words, and returns what it prints.
fn cast(url: &str, words: &[&str]) -> String {
    let mut command = Command::new(installed("tests/.tools/bin/cast"));
    // It reads a configuration below HOME.
    command.env("HOME", scratch("cast"));
    command.args(words).args(["--rpc-url", url]);
    let (status, output) = Process::start(&mut command).wait();
    assert!(status.success(), "cast {words:?}: {output}");
    output.trim().to_owned()
}

#[test]
fn cast_calls_contracts() {
    let server = Server::execution_apis(&[]);
    let mut plain = server.connect();
    let call = json!({"from": CALLER, "to": CONTRACT, "input": "0xff01"});
    // A quantity as cast prints it.
    let mut decimal = |method: &str, params: Value| {
        let result = plain.result(method, &params);
        let result: U256 = result.as_str().unwrap().parse().unwrap();
        result.to_string()
    };
    let gas = decimal("eth_estimateGas", json!([call]));
    let price = decimal("eth_gasPrice", json!([]));
    let balance = decimal("eth_getBalance", json!([CONTRACT, "latest"]));
    let block = plain.result("eth_getBlockByNumber", &json!(["0x30", false]));
    let list = plain.result("eth_createAccessList", &json!([call, "latest"]));
    let data = ["--from", CALLER, "--data", "0xff01"];
    for url in urls(server.address) {
        let cast = |words: &[&str]| cast(&url, words);
        let called = cast(&[&["call", CONTRACT][..], &data].concat());
        check("call", &&*called, &"0xffee");
        let called = cast(&[&["call", CONTRACT, "--block", "48"][..], &data].concat());
        check("call at a block", &&*called, &"0xffee");
        let estimated = cast(&["estimate", CONTRACT, "0xff01", "--from", CALLER]);
        check("estimate", &estimated, &gas);
        check("gas price", &cast(&["gas-price"]), &price);
        check("balance", &cast(&["balance", CONTRACT]), &balance);
        let hash = cast(&["block", "48", "--field", "hash"]);
        check("block", &json!(hash), &block["hash"]);
        let words = [
            "access-list",
            CONTRACT,
            "0xff01",
            "--from",
            CALLER,
            "--json",
        ];
        let found: Value = serde_json::from_str(&cast(&words)).unwrap();
        check("access list", &found["gasUsed"], &list["gasUsed"]);
        check("access list", &found["accessList"], &list["accessList"]);
    }
}

/// A fork reads what its calls and transactions need.
#[test]
fn anvil_forks_the_chain() {
    let server = Server::start(&["--block-time", "1s"]);
    let url = format!("http://{}/v3/{KEY}", server.address);
    let fork = Anvil::start(&["--fork-url", &url]);
    let mut theirs = fork.connect();
    // After anvil's start, which takes longer from a cold disk than a connection may be silent.
    let mut ours = server.connect();
    let at = theirs.result("eth_blockNumber", &json!([]));
    let logs = ours.result("eth_getLogs", &json!([{"fromBlock": "earliest"}]));
    // Some events name no account.
    let logs = logs.as_array().unwrap().iter();
    let logs: Vec<_> = logs.filter(|log| log["topics"][1].is_string()).collect();
    assert!(logs.len() > 100, "{}", logs.len());
    for log in logs.iter().step_by(logs.len() / 20) {
        let (token, hash) = (&log["address"], &log["transactionHash"]);
        let holder = format!("0x{}", &log["topics"][1].as_str().unwrap()[26..]);
        let transaction = ours.result("eth_getTransactionByHash", &json!([hash]));
        let call = json!({"from": holder, "to": token, "input": transaction["input"]});
        for (method, params) in [
            ("eth_getBalance", json!([holder, at])),
            ("eth_getTransactionCount", json!([holder, at])),
            ("eth_getCode", json!([token, at])),
            ("eth_getStorageAt", json!([token, "0x0", at])),
            ("eth_call", json!([call, at])),
        ] {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|connection| {
                let mut answer = connection.call(method, &params);
                (answer["result"].take(), answer["error"]["code"].take())
            });
            check(&format!("{method} {params}"), &ours, &theirs);
        }
    }
    // One of anvil's own accounts sends on the fork.
    let account = theirs.result("eth_accounts", &json!([]))[0].clone();
    let token = &logs.last().unwrap()["address"];
    let sent = json!([{"from": account, "to": token, "value": "0x0"}]);
    let hash = theirs.result("eth_sendTransaction", &sent);
    let mut receipt = Value::Null;
    wait_until("the transaction is mined", || {
        receipt = theirs.result("eth_getTransactionReceipt", &json!([hash]));
        receipt.is_object()
    });
    check("sent to", &receipt["to"], token);
}
