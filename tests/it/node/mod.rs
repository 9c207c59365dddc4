//! Following real upstreams: anvil, geth and a geth driven over the engine API, with every failure
//! that can occur between them and nearhead.
//!
//! | file | what it tests |
//! |---|---|
//! | `access_lists` | access lists of blocks, true and false ones |
//! | `calls` | calls of contracts whose state a node has: round trips, and lies |
//! | `amsterdam` | a chain that crosses from Osaka to Amsterdam |
//! | `following` | the window is filled and the head followed, over HTTP and WebSocket; every answer equals the upstream's |
//! | `conformance` | every method at every block of a growing chain |
//! | `config` | the configurations of forks |
//! | `reorgs` | reorgs of any depth, rollbacks, and their notifications |
//! | `saved_window` | the window outlives the process: what is restored, and what is damaged |
//! | `settled` | safe and finalized |
//! | `failures` | upstreams that freeze, slow down, drop connections, limit calls, serve another chain, or are two backends behind one URL |
//! | `tls` | upstreams behind TLS |
//! | `restarts` | upstreams that are restarted |
//! | `unknown_types` | chains with transactions of an unknown type |
//! | `switching` | several upstreams of which one suffices: the head goes on, and does not go back for another one |
//! | `liar` | no false value in an upstream's answers about blocks is served (`exceptions`: the values that are not detected) |
//! | `faults` | all that can fail under nearhead: nodes, connections, proxies, itself, clock, names, disk, descriptors, memory |
//! | `fields` | the lies cover every member of the upstreams' answers |
//! | `filters` | filters over reorgs answer what geth's do |
//! | `announcements` | lies in the heads that an upstream announces |
//! | `data_folder` | what outlives the process: locks, other chains, damaged files |
//! | `doctor` | what `nearhead doctor` says of nodes |
//! | `identity` | which chain is followed: agreed on, pinned, finalized by an earlier process |
//! | `forwarding` | transactions and other calls that are passed to nodes, and nodes that fail or lie about them |
//! | `freshness` | a head that stands still |
//! | `classes` | an upstream that refuses or stalls one class of calls is used for the others |
//! | `trust` | nodes that invent blocks, alone and against a quorum |
//! | `raw` | blocks, receipts and transactions in RLP |
//! | `state` | accounts, slots, codes and proofs at every block, and lies about them |
//! | `state_edges` | accounts that are made, destructed, emptied and delegated: merged as geth changes them |
//! | `state_follow` | state that stays current: what a block changed and what was read before asks no node again |
//!
//! `comparison` compares the answers; `driven_geth` is a geth whose head the test chooses;
//! `held_state` waits for merges, and compares what is held; `saved_scene` is a geth whose calls
//! are counted, and a nearhead that saves the window.

pub(crate) mod access_lists;
mod amsterdam;
mod announcements;
mod calls;
mod classes;
pub(crate) mod comparison;
mod config;
mod conformance;
mod data_folder;
mod doctor;
pub(crate) mod driven_geth;
mod exceptions;
mod failures;
mod faults;
mod fees;
mod fields;
mod filters;
mod following;
mod forwarding;
mod freshness;
mod held_state;
mod identity;
mod liar;
mod raw;
mod reorgs;
mod restarts;
mod saved_scene;
mod saved_window;
mod settled;
mod state;
mod state_edges;
mod state_follow;
mod switching;
mod tls;
mod trust;
mod unknown_types;

use std::{collections::BTreeMap, fs::File, net::SocketAddr};

use alloy_primitives::B256;
use nearhead_chain::chain_file::ChainReader;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Server, check, scratch, serving, vectors, wait_until},
    upstreams::{Geth, quantity},
};

fn http(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn ws(address: SocketAddr) -> String {
    format!("ws://{address}")
}

/// Fault reasons that mean that an upstream is gone.
const GONE: &[&str] = &["silent", "timeout", "connection"];

/// Blocks in the window.
const WINDOW: u64 = 128;

/// Asserts that the block below the window is refused as pruned, and not answered with null.
fn check_pruned(server: &Server, number: u64) {
    let params = json!([format!("{number:#x}"), false]);
    let answer = server.connect().call("eth_getBlockByNumber", &params);
    let error = json!({"code": 4444, "message": "pruned history unavailable"});
    check(&params.to_string(), &answer["error"], &error);
}

/// The arguments of a nearhead that follows these upstreams. Their heads are never stale, because
/// the tests decide when a block is made.
fn arguments(upstreams: &[String]) -> Vec<&str> {
    let upstreams = upstreams.iter().flat_map(|url| ["--node", url.as_str()]);
    let fixed = ["--source", "node", "--head-age-max", "off"];
    fixed.into_iter().chain(upstreams).collect()
}

/// Follows these upstreams; returns when the window is filled.
fn follow(upstreams: &[String]) -> Server {
    follow_with(upstreams, &[])
}

/// The same as [`follow`], with more arguments.
fn follow_with(upstreams: &[String], more: &[&str]) -> Server {
    Server::start(&[arguments(upstreams).as_slice(), more].concat())
}

/// Follows these upstreams; returns when the server listens: it has a head, and may still be
/// filling the window.
fn follow_while_filling(upstreams: &[String]) -> Server {
    Server::listening(&mut serving(&arguments(upstreams)))
}

/// A geth that has imported the execution-apis chain up to this block.
fn chain_of_execution_apis(name: &str, blocks: usize) -> Geth {
    let [genesis, chain] = ["genesis.json", "chain.rlp"].map(|file| vectors().join(file));
    let all = ChainReader::new(File::open(chain).unwrap()).unwrap();
    let blocks = all.take(blocks).map(Result::unwrap);
    Geth::of_blocks(&scratch(name), &genesis, blocks)
}

/// Number and hash of the head of nearhead or of an upstream.
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

/// Waits for a log line that contains this text.
fn wait_logged(server: &Server, text: &str) {
    let find = |log: &str| log.contains(text).then_some(());
    server.process.output.wait_for(text, find);
}

/// How many lines of the log contain this text.
fn logged(server: &Server, text: &str) -> usize {
    let count = |log: &str| log.lines().filter(|line| line.contains(text)).count();
    server.process.output.wait_for(text, |log| Some(count(log)))
}

/// Waits until more lines of the log contain this text than [`logged`] counted before.
fn wait_logged_again(server: &Server, text: &str, before: usize) {
    wait_until(text, || logged(server, text) > before);
}

/// The faults of an upstream without [`GONE`]: a busy machine makes an upstream look gone.
fn refuted(server: &Server, upstream: usize) -> BTreeMap<String, u64> {
    refuted_in(server.get_admin("/metrics").text(), upstream)
}

/// The same on a page of metrics.
fn refuted_in(page: &str, upstream: usize) -> BTreeMap<String, u64> {
    let mut faults = faults_in(page, upstream);
    faults.retain(|reason, _| !GONE.contains(&reason.as_str()));
    faults
}

/// The counted faults of an upstream, by reason.
fn faults(server: &Server, upstream: usize) -> BTreeMap<String, u64> {
    faults_in(server.get_admin("/metrics").text(), upstream)
}

/// The same on a page of metrics.
fn faults_in(page: &str, upstream: usize) -> BTreeMap<String, u64> {
    let upstream = format!("node=\"{upstream}\"");
    let series = page.lines().filter_map(|line| {
        let labels = line.strip_prefix("nearhead_node_faults_total{")?;
        let (labels, count) = labels.split_once("} ")?;
        let (_, reason) = labels.split_once("reason=\"")?;
        let matches = labels.split(',').any(|label| label == upstream);
        let reason = reason.split('"').next()?.to_owned();
        (matches && count != "0").then(|| (reason, count.parse().unwrap()))
    });
    series.collect()
}

/// How often an upstream has limited our calls.
fn limited(server: &Server, upstream: usize) -> u64 {
    counted(
        server,
        &format!("nearhead_node_limited_total{{node=\"{upstream}\"}} "),
    )
}

/// The value of the metrics line that starts with `series`; 0 if there is none.
fn counted(server: &Server, series: &str) -> u64 {
    let metrics = server.get_admin("/metrics");
    let mut lines = metrics.text().lines();
    let count = lines.find_map(|line| line.strip_prefix(series));
    count.map_or(0, |count| count.parse().unwrap())
}

/// Waits until a fault with one of these reasons is counted for an upstream.
#[track_caller]
fn wait_fault(server: &Server, upstream: usize, reasons: &[&str]) {
    wait_new_fault(server, upstream, reasons, &BTreeMap::new());
}

/// Waits until one more fault with one of these reasons is counted for an upstream than `before`.
#[track_caller]
fn wait_new_fault(
    server: &Server,
    upstream: usize,
    reasons: &[&str],
    before: &BTreeMap<String, u64>,
) {
    wait_until(
        &format!("upstream {upstream} has one of {reasons:?}"),
        || {
            let seen = faults(server, upstream);
            let is_new = |reason: &&str| seen.get(*reason) > before.get(*reason);
            reasons.iter().any(is_new)
        },
    );
}
