//! Clients that ask filters over HTTP: heads and logs follow the chain through reorgs.

use std::process::Command;

use serde_json::{Value, json};

use super::{REORG_DEPTH, REORG_EVERY, alloy_client, node_js, steps, wait_for_end, web3_py};
use crate::harness::{Connection, KEY, Process, Server, check, quantity, wait_until};

#[test]
fn viem_asks_filters() {
    check_filters(node_js("viem.mjs"));
}

#[test]
fn web3py_asks_filters() {
    check_filters(web3_py());
}

#[test]
fn alloy_asks_filters() {
    check_filters(alloy_client());
}

/// Blocks that a client has to get after the first reorg that it sees.
const BLOCKS: usize = 40;

/// Runs a client until it has seen a reorg and some blocks after it. What it got is compared
/// with the blocks by their hashes, because the chain goes on.
fn check_filters(mut client: Command) {
    let (every, depth) = (REORG_EVERY.to_string(), REORG_DEPTH.to_string());
    let chain = ["--block-time", "150ms", "--reorg-every", &every];
    let server = Server::start(&[&chain[..], &["--reorg-depth", &depth]].concat());
    let url = format!("http://{}/v3/{KEY}", server.address);
    let client = Process::start(client.args(["poll", &url]));
    let saw_enough = |text: &str| {
        let (_, after) = text.split_once(r#""removed":true"#)?;
        (after.matches(r#""step":"block""#).count() >= BLOCKS).then_some(())
    };
    client
        .output
        .wait_for("a reorg and blocks after it", saw_enough);
    check("open", &server.metric("nearhead_filters"), &2.0);
    client.terminate();
    let (name, text) = wait_for_end(client);
    let mut connection = server.connect();
    let blocks = follow_blocks(&mut connection, &text);
    let logs = follow_logs(&text);
    let compared = compare(&mut connection, &blocks, &logs);
    // Some of them were replaced, and the last ones are not compared.
    assert!(compared >= BLOCKS / 3, "{name}: {compared} blocks");
    // alloy leaves its filters to be forgotten.
    if !name.starts_with("alloy") {
        wait_until("its filters are removed", || {
            server.metric("nearhead_filters") == 0.0
        });
    }
}

/// The values of steps of this kind, in order.
fn values<'a>(text: &'a str, kind: &'a str) -> impl Iterator<Item = Value> + 'a {
    let of_kind = steps(text).filter(move |step| step["step"] == kind);
    of_kind.map(|mut step| step["value"].take())
}

/// The blocks of the last branch that a client got, each on its parent.
fn follow_blocks(connection: &mut Connection, text: &str) -> Vec<Value> {
    let mut held: Vec<Value> = Vec::new();
    for hash in values(text, "block") {
        let block = connection.result("eth_getBlockByHash", &json!([hash, false]));
        assert!(
            !held.iter().any(|held| held["hash"] == hash),
            "{hash} comes twice"
        );
        while held
            .last()
            .is_some_and(|last| last["hash"] != block["parentHash"])
        {
            held.pop();
        }
        held.push(block);
    }
    held
}

/// The logs that are left once removed ones are taken off.
fn follow_logs(text: &str) -> Vec<Value> {
    let place = |log: &Value| (quantity(&log["blockNumber"]), quantity(&log["logIndex"]));
    let mut held: Vec<Value> = Vec::new();
    for log in values(text, "log") {
        if log["removed"] == true {
            // It may be of a block before the filter.
            if let Some(last) = held.pop() {
                check("removed", &id(&last), &id(&log));
            }
        } else {
            let last = held.last().map(place);
            assert!(last < Some(place(&log)), "{log} after {last:?}");
            held.push(log);
        }
    }
    held
}

fn id(log: &Value) -> [&Value; 3] {
    ["blockHash", "logIndex", "transactionHash"].map(|member| &log[member])
}

/// Compares the logs of the blocks between the first and the last log but for the latest blocks, of
/// which a client may not have got both; returns how many blocks these are.
fn compare(connection: &mut Connection, blocks: &[Value], logs: &[Value]) -> usize {
    let number = |value: Option<&Value>, member: &str| quantity(&value.unwrap()[member]);
    let first = number(logs.first(), "blockNumber") + 1;
    let last = number(blocks.last(), "number") - 2 * REORG_DEPTH;
    let compared = blocks
        .iter()
        .filter(|block| (first..last).contains(&quantity(&block["number"])));
    let mut count = 0;
    for block in compared {
        count += 1;
        let theirs = connection.result("eth_getLogs", &json!([{"blockHash": block["hash"]}]));
        let theirs: Vec<_> = theirs.as_array().unwrap().iter().map(id).collect();
        let ours = logs.iter().filter(|log| log["blockHash"] == block["hash"]);
        check("logs of a block", &ours.map(id).collect(), &theirs);
    }
    count
}
