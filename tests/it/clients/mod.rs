//! Real clients, held to tests/clients/README.md: what each is said to do there, it does, no more
//! and no less.
//!
//! What they ask is compared with what plain JSON-RPC over HTTP answers (`answers`); what they are
//! told, through reorgs and a line that is cut (`line`), with the chain that HTTP shows (`told`).

mod answers;
mod line;
mod table;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::{Value, json};

use self::{line::Line, told::Told};
use crate::harness::{self, KEY, Process, Server, check, installed, wait_until};

/// Blocks that each reorg of the followed chain replaces.
const REORG_DEPTH: u64 = 3;
/// Blocks that are made between two reorgs.
const REORG_EVERY: u64 = 10;

/// What a client did: the rows of its column, and what it leaves out of answers, by method.
#[derive(Default)]
struct Did {
    rows: BTreeMap<&'static str, String>,
    left_out: BTreeMap<&'static str, BTreeSet<String>>,
}

#[test]
fn ethers() {
    check_client("ethers", &|| node("ethers.mjs"));
}

#[test]
fn viem() {
    check_client("viem", &|| node("viem.mjs"));
}

#[test]
fn web3js() {
    check_client("web3js", &|| node("web3js.mjs"));
}

#[test]
fn web3py() {
    check_client("web3py", &|| {
        let mut command = Command::new(installed("tests/.tools/python/bin/python"));
        command.arg(installed("tests/clients/web3py.py"));
        command
    });
}

#[test]
fn alloy() {
    check_client("alloy", &|| {
        Command::new(installed("tests/.tools/target/debug/alloy-client"))
    });
}

fn node(script: &str) -> Command {
    installed("tests/clients/node_modules/.installed");
    let mut command = Command::new("node");
    command.arg(installed("tests/clients").join(script));
    command
}

/// `client` names its files.
fn check_client(client: &str, command: &dyn Fn() -> Command) {
    let (name, mut did) = ask(client, command());
    let (same_name, followed) = follow(command());
    check("the name", &same_name, &name);
    did.rows.extend(followed.rows);
    did.left_out.extend(followed.left_out);
    table::check(&name, &did);
}

/// The steps that a client told of, in order; what else it wrote is its own.
fn steps(text: &str) -> impl Iterator<Item = Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| harness::json(line.as_bytes()))
}

/// The lines of a client's output that fit into a failure.
fn excerpt(text: &str) -> String {
    let short = text.lines().filter(|line| line.len() < 300);
    short.collect::<Vec<_>>().join("\n")
}

/// Waits for a client to end without an error; returns its name and version, and its output.
#[track_caller]
fn ended(client: Process) -> (String, String) {
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

/// Has the client make every call over HTTP and over WebSocket.
fn ask(client: &str, mut command: Command) -> (String, Did) {
    let server = Server::execution_apis(&[]);
    let calls = answers::calls(&mut server.connect());
    let http = format!("http://{}/v3/{KEY}", server.address);
    let file = answers::file(client, &calls);
    command.args(["answers", &http, &ws(server.address)]);
    let (name, text) = ended(Process::start(command.arg(&file)));
    (name, answers::check(&calls, steps(&text)))
}

fn ws(address: std::net::SocketAddr) -> String {
    format!("ws://{address}/ws/v3/{KEY}")
}

/// Has the client follow a chain that reorganizes, cuts its line for longer than it takes to the
/// next reorg, and has it go on until it was told of another one.
fn follow(mut client: Command) -> (String, Did) {
    let (every, depth) = (REORG_EVERY.to_string(), REORG_DEPTH.to_string());
    let chain = ["--block-time", "250ms", "--reorg-every", &every];
    let server = Server::start(&[&chain[..], &["--reorg-depth", &depth]].concat());
    let line = Line::to(server.address);
    let client = Process::start(client.args(["follow", &ws(line.address)]));

    // Looked at as it comes: what a client was told of stays readable for 128 blocks.
    let reorg = |text: &str| saw_reorg(text).then(|| text.to_owned());
    let seen = client.output.wait_for("a reorg", reorg);
    // A connection that asks nothing for long is closed.
    let mut told = Told::new(server.connect());
    told.read(&seen);
    line.cut();
    let height = height(&server);
    wait_until("a reorg that it misses", || {
        self::height(&server) > height + REORG_EVERY + REORG_DEPTH
    });
    line.mend();
    told.read(&client.output.wait_for("a reorg on the new line", |text| {
        let (_, after) = text.split_once(r#""step":"lost""#)?;
        saw_reorg(after).then(|| text.to_owned())
    }));
    client.terminate();
    let (name, text) = ended(client);
    told.read(&text);
    wait_until("nothing is left of it", || {
        server.metric("nearhead_subscriptions") == 0.0 && server.metric("nearhead_sessions") == 0.0
    });
    (name, told.end())
}

/// Whether heads were told before a reorg, and some after it.
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
    told::quantity(&server.connect().result("eth_blockNumber", &json!([])))
}
