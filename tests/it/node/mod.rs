//! Real nodes that are followed: anvil, geth, and a geth that is led, with everything that may go
//! wrong between.
//!
//! | file | what is held |
//! |---|---|
//! | `following` | the window is filled and the head followed, over HTTP and WebSocket; every answer is the node's own |
//! | `conformance` | every method at every block of a chain that grows |
//! | `reorgs` | reorgs of any depth, rollbacks, and the notifications of them |
//! | `settled` | safe and finalized |
//! | `trouble` | nodes that are frozen, slow, cut off, limited, of another chain, or two behind one URL |
//! | `tls` | nodes behind TLS |
//! | `restarts` | nodes whose process ends and is started again |
//! | `unknown_types` | chains with transactions of a type that is not known |
//! | `switching` | another node is followed, and the head does not go back for it |
//! | `liar` | nothing false is served, whatever is false in what a node says of blocks (`exceptions`: what is not found) |
//! | `fields` | that every member of what nodes state is lied about |
//! | `notices` | lies in the heads that a node tells of |
//! | `state` | accounts, slots, codes and proofs at every block, and lies about them |
//!
//! `same` compares the answers, `led` is a geth that stands wherever the test wants it.

mod conformance;
mod exceptions;
mod fields;
mod following;
mod led;
mod liar;
mod notices;
mod reorgs;
mod restarts;
mod same;
mod settled;
mod state;
mod switching;
mod tls;
mod trouble;
mod unknown_types;

use std::{collections::BTreeMap, fs::File, net::SocketAddr, time::Instant};

use alloy_primitives::B256;
use nearhead_chain::chain_file::{ChainReader, write_block};
use serde_json::{Value, json};

use crate::{
    harness::{Connection, PATIENCE, Server, check, scratch, serving, vectors, wait_until},
    peers::{Geth, quantity},
};

fn http(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn ws(address: SocketAddr) -> String {
    format!("ws://{address}")
}

/// Reasons by which a node counts as gone.
const GONE: &[&str] = &["silent", "timeout", "connection"];

/// Blocks of the window.
const WINDOW: u64 = 128;

/// Asserts what is answered about the block below the window: it is gone, not absent.
fn check_pruned(server: &Server, number: u64) {
    let params = json!([format!("{number:#x}"), false]);
    let answer = server.connect().call("eth_getBlockByNumber", &params);
    let error = json!({"code": 4444, "message": "pruned history unavailable"});
    check(&params.to_string(), &answer["error"], &error);
}

/// The arguments of a nearhead that follows these nodes.
fn arguments(nodes: &[String]) -> Vec<&str> {
    let nodes = nodes.iter().flat_map(|url| ["--node", url.as_str()]);
    ["--source", "node"].into_iter().chain(nodes).collect()
}

/// Follows these nodes; returns when the window is filled.
fn follow(nodes: &[String]) -> Server {
    follow_with(nodes, &[])
}

/// The same, with more arguments.
fn follow_with(nodes: &[String], more: &[&str]) -> Server {
    Server::start(&[arguments(nodes).as_slice(), more].concat())
}

/// Follows these nodes; returns when there is a block.
fn begin(nodes: &[String]) -> Server {
    Server::listening(&mut serving(&arguments(nodes)))
}

/// A geth that has imported the execution-apis chain up to this block.
fn chain_of_execution_apis(name: &str, blocks: usize) -> Geth {
    let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|file| vectors().join(file));
    let folder = scratch(name);
    let imported = folder.join("blocks.rlp");
    let mut file = File::create(&imported).unwrap();
    let all = ChainReader::new(File::open(chain).unwrap()).unwrap();
    all.take(blocks)
        .for_each(|raw| write_block(&mut file, &raw.unwrap()).unwrap());
    Geth::start(&folder, &genesis, &imported)
}

/// Number and hash of the head that is served, or that a node has.
pub(crate) fn head(connection: &mut Connection) -> (u64, B256) {
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    (quantity(&block["number"]), hash(&block))
}

fn hash(block: &Value) -> B256 {
    block["hash"].as_str().unwrap().parse().unwrap()
}

/// Waits until this block is the head.
#[track_caller]
fn wait_head(server: &Server, wanted: (u64, B256)) {
    let mut connection = server.connect();
    wait_until(&format!("head {wanted:?}"), || {
        head(&mut connection) == wanted
    });
}

/// Waits for a line of the log.
fn wait_logged(server: &Server, text: &str) {
    let is_there = |log: &str| log.contains(text).then_some(());
    server.process.output.wait_for(text, is_there);
}

/// The same, but for those by which a machine that has much to do makes a node look gone.
fn refuted(server: &Server, node: usize) -> BTreeMap<String, u64> {
    let mut faults = faults(server, node);
    faults.retain(|reason, _| !GONE.contains(&reason.as_str()));
    faults
}

/// Faults of a node that were counted, by reason.
fn faults(server: &Server, node: usize) -> BTreeMap<String, u64> {
    let metrics = server.get("/metrics");
    let node = format!("node=\"{node}\"");
    let series = metrics.text().lines().filter_map(|line| {
        let labels = line.strip_prefix("nearhead_node_faults_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let (_, reason) = labels.split_once("reason=\"")?;
        let is_meant = labels.split(',').any(|label| label == node);
        let reason = reason.split('"').next()?.to_owned();
        (is_meant && count != "0").then(|| (reason, count.parse().unwrap()))
    });
    series.collect()
}

/// How often a node has asked to be asked less.
fn limited(server: &Server, node: usize) -> u64 {
    counted(
        server,
        &format!("nearhead_node_limited_total{{node=\"{node}\"}} "),
    )
}

/// What a line of the metrics that begins so ends with.
fn counted(server: &Server, series: &str) -> u64 {
    let metrics = server.get("/metrics");
    let mut lines = metrics.text().lines();
    let count = lines.find_map(|line| line.strip_prefix(series));
    count.map_or(0, |count| count.parse().unwrap())
}

/// Waits until a node has done something that is counted by one of these reasons.
#[track_caller]
fn wait_fault(server: &Server, node: usize, reasons: &[&str]) {
    let mut seen = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    while !reasons.iter().any(|reason| seen.contains_key(*reason)) {
        assert!(
            Instant::now() < deadline,
            "node {node} has none of {reasons:?}, but {seen:?}"
        );
        seen = faults(server, node);
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}
