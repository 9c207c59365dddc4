//! Real clients: each does exactly what tests/clients/README.md says.
//!
//! Their answers are compared with plain JSON-RPC over HTTP (`answers`). Their notifications,
//! through reorgs and a cut connection (`relay`), are compared with the chain over HTTP (`replay`).
//! Some ask filters over HTTP (`filters`). Foundry calls contracts and forks the chain (`foundry`).
//! The examples of the dashboard are run too (`snippets`).

mod answers;
mod filters;
mod foundry;
mod relay;
mod replay;
mod snippets;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};

use self::{relay::Relay, replay::Replay};
use crate::harness::{self, KEY, Process, Server, check, installed, wait_until};

/// Blocks that each reorg of the followed chain replaces.
const REORG_DEPTH: u64 = 3;
/// Blocks between two reorgs.
const REORG_EVERY: u64 = 10;

/// What a client did, as the test observed it.
#[derive(Default)]
struct Observed {
    /// The rows of its column in the README's table.
    rows: BTreeMap<&'static str, String>,
    /// Members that it omits from answers, by method.
    omitted: BTreeMap<&'static str, BTreeSet<String>>,
}

#[test]
fn ethers() {
    check_client("ethers", &|| node_js("ethers.mjs"));
}

#[test]
fn viem() {
    check_client("viem", &|| node_js("viem.mjs"));
}

#[test]
fn web3js() {
    check_client("web3js", &|| node_js("web3js.mjs"));
}

#[test]
fn web3py() {
    check_client("web3py", &web3_py);
}

pub(crate) fn web3_py() -> Command {
    let mut command = Command::new(installed("tests/.tools/python/bin/python"));
    command.arg(installed("tests/clients/web3py.py"));
    command
}

#[test]
fn alloy() {
    check_client("alloy", &alloy_client);
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

/// Runs both modes of a client, and compares what it did with the README. `client` is the name of
/// its scratch folder.
fn check_client(client: &str, command: &dyn Fn() -> Command) {
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
fn make_calls(client: &str, mut command: Command) -> (String, Observed) {
    let server = Server::execution_apis(&[]);
    let calls = answers::calls(&mut server.connect());
    let http = format!("http://{}/v3/{KEY}", server.address);
    let file = answers::file(client, &calls);
    command.args(["answers", &http, &ws(server.address)]);
    let (name, text) = wait_for_end(Process::start(command.arg(&file)));
    (name, answers::check(&calls, steps(&text)))
}

fn ws(address: std::net::SocketAddr) -> String {
    format!("ws://{address}/ws/v3/{KEY}")
}

/// Runs the client to follow a chain with reorgs. Its connection is cut until another reorg has
/// passed; then it continues until it has seen one more.
fn follow(mut client: Command) -> (String, Observed) {
    let (every, depth) = (REORG_EVERY.to_string(), REORG_DEPTH.to_string());
    let chain = ["--block-time", "150ms", "--reorg-every", &every];
    let server = Server::start(&[&chain[..], &["--reorg-depth", &depth]].concat());
    let relay = Relay::to(server.address);
    let client = Process::start(client.args(["follow", &ws(relay.address)]));

    // Replayed while the client runs: replaced blocks are readable only for a while.
    let reorg = |text: &str| saw_reorg(text).then(|| text.to_owned());
    let seen = client.output.wait_for("a reorg", reorg);
    // Not connected earlier, because the server closes idle connections.
    let mut replay = Replay::new(server.connect());
    replay.read(&seen);
    relay.cut();
    let height = height(&server);
    wait_until("a reorg that the client misses", || {
        self::height(&server) > height + REORG_EVERY + REORG_DEPTH
    });
    relay.restore();
    replay.read(
        &client
            .output
            .wait_for("a reorg on the new connection", |text| {
                let (_, after) = text.split_once(r#""step":"lost""#)?;
                saw_reorg(after).then(|| text.to_owned())
            }),
    );
    client.terminate();
    let (name, text) = wait_for_end(client);
    replay.read(&text);
    wait_until("its session and subscriptions are gone", || {
        server.metric("nearhead_subscriptions") == 0.0 && server.metric("nearhead_sessions") == 0.0
    });
    (name, replay.end())
}

/// Whether the client reported a reorg with heads before and after it.
fn saw_reorg(text: &str) -> bool {
    let (mut heads, mut heads_at_reorg) = (0, None);
    for line in text.lines() {
        heads += u64::from(line.contains(r#""step":"head""#));
        if line.contains(r#""removed":true"#) && heads > 2 * REORG_DEPTH + 2 {
            heads_at_reorg = heads_at_reorg.or(Some(heads));
        }
    }
    heads_at_reorg.is_some_and(|before| heads > before + 2)
}

fn height(server: &Server) -> u64 {
    harness::quantity(&server.connect().result("eth_blockNumber", &json!([])))
}
