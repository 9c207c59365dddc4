//! Real clients: each does exactly what tests/clients/README.md says.
//!
//! Their answers are compared with plain JSON-RPC over HTTP (`answers`). Their notifications,
//! through reorgs and a cut connection (`relay`), are compared with the chain over HTTP (`replay`).
//! Each runs as a `caller` or a `follower`, here or in a fleet. Some ask filters over HTTP
//! (`filters`). Foundry calls contracts and forks the chain (`foundry`).
//! The examples of the dashboard are run too (`snippets`).

mod answers;
mod caller;
mod filters;
mod follower;
mod foundry;
mod relay;
mod replay;
mod snippets;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

pub(crate) use self::{
    answers::{Call, calls_about},
    caller::Caller,
    follower::Follower,
    relay::Relay,
};
use crate::harness::{self, KEY, Process, Server, check, installed, wait_until};

/// Blocks that each reorg of the followed chain replaces.
pub(crate) const REORG_DEPTH: u64 = 3;
/// Blocks between two reorgs.
pub(crate) const REORG_EVERY: u64 = 10;

/// What a client did, as the test observed it.
#[derive(Default)]
pub(crate) struct Observed {
    /// The rows of its column in the README's table.
    rows: BTreeMap<&'static str, String>,
    /// Members that it omits from answers, by method.
    omitted: BTreeMap<&'static str, BTreeSet<String>>,
}

/// A client, by the name of its scratch folder.
pub(crate) type NamedClient = (&'static str, fn() -> Command);

pub(crate) const CLIENTS: [NamedClient; 5] = [
    ("ethers", || node_js("ethers.mjs")),
    ("viem", || node_js("viem.mjs")),
    ("web3js", || node_js("web3js.mjs")),
    ("web3py", web3_py),
    ("alloy", alloy_client),
];

#[test]
fn ethers() {
    check_client("ethers");
}

#[test]
fn viem() {
    check_client("viem");
}

#[test]
fn web3js() {
    check_client("web3js");
}

#[test]
fn web3py() {
    check_client("web3py");
}

#[test]
fn alloy() {
    check_client("alloy");
}

pub(crate) fn web3_py() -> Command {
    let mut command = Command::new(installed("tests/.tools/python/bin/python"));
    command.arg(installed("tests/clients/web3py.py"));
    command
}

pub(crate) fn alloy_client() -> Command {
    // tests/setup builds it with the tests' dependencies.
    let client = Path::new(env!("CARGO_BIN_EXE_nearhead")).with_file_name("alloy-client");
    Command::new(installed(client))
}

pub(crate) fn node_js(script: &str) -> Command {
    installed("tests/clients/node_modules/.installed");
    let mut command = Command::new("node");
    command.arg(installed("tests/clients").join(script));
    command
}

/// Runs both modes of a client, and compares what it did with the README.
fn check_client(client: &str) {
    let is_it = |(name, _): &&NamedClient| *name == client;
    let (_, command) = CLIENTS.iter().find(is_it).unwrap();
    let (name, mut observed) = make_calls(client, command());
    let (same_name, followed) = follow(command());
    check("the client's name", &same_name, &name);
    observed.rows.extend(followed.rows);
    observed.omitted.extend(followed.omitted);
    table::check(&name, &observed);
}

/// The steps that a client reported, in order; other output is ignored.
pub(crate) fn steps(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| harness::json(line.as_bytes()))
}

/// The lines of a client's output that are short enough for a failure message.
fn excerpt(text: &str) -> String {
    let short = text.lines().filter(|line| line.len() < 300);
    short.collect::<Vec<_>>().join("\n")
}

/// Waits for a client to exit without an error; returns its name and version, and its output.
#[track_caller]
pub(crate) fn wait_for_end(client: Process) -> (String, String) {
    let (status, text) = client.wait();
    assert!(status.success(), "{status}\n{}", excerpt(&text));
    check(
        "the last step",
        &steps(&text).last(),
        &Some(json!({"step": "end"})),
    );
    let first = steps(&text).next().unwrap();
    check("the first step", &first["step"], &json!("client"));
    (first["value"].as_str().unwrap().to_owned(), text)
}

/// Runs the client to make every call over HTTP and over WebSocket.
fn make_calls(client: &str, command: Command) -> (String, Observed) {
    let server = Server::execution_apis(&[]);
    let calls = answers::calls(&mut server.connect());
    let urls = urls(server.address);
    Caller::start(client, command, &calls, urls.each_ref().map(String::as_str)).end()
}

/// The URLs of HTTP and of WebSocket.
pub(crate) fn urls(server: SocketAddr) -> [String; 2] {
    [
        format!("http://{server}/v3/{KEY}"),
        format!("ws://{server}/ws/v3/{KEY}"),
    ]
}

/// Runs the client to follow a chain with reorgs. Its connection is cut until another reorg has
/// passed; then it continues until it has seen one more.
fn follow(command: Command) -> (String, Observed) {
    let (every, depth) = (REORG_EVERY.to_string(), REORG_DEPTH.to_string());
    let chain = ["--block-time", "150ms", "--reorg-every", &every];
    let server = Server::start(&[&chain[..], &["--reorg-depth", &depth]].concat());
    let relay = Relay::to(server.address);
    let [_, ws] = urls(relay.address);
    let mut client = Follower::start(command, &ws);
    client.see_reorg(|| server.connect());
    relay.cut();
    let height = height(&server);
    wait_until("a reorg that the client misses", || {
        self::height(&server) > height + REORG_EVERY + REORG_DEPTH
    });
    relay.restore();
    client.see_next_reorg();
    let followed = client.end();
    wait_until("its session and subscriptions are gone", || {
        server.metric("nearhead_subscriptions") == 0.0 && server.metric("nearhead_sessions") == 0.0
    });
    followed
}

fn height(server: &Server) -> u64 {
    harness::quantity(&server.connect().result("eth_blockNumber", &json!([])))
}
