//! One client, a proxy, and two processes of which one is behind.

use std::net::SocketAddr;

use serde_json::json;

use super::{LONG_WAIT, number_request, post, seen};
use crate::harness::{self, Connection, KEY, RoundRobin, Server, check, quantity, wait_until};

/// Two processes with one chain, of which the second gets each block later, behind a proxy.
struct Fleet {
    _ahead: Server,
    behind: Server,
    proxy: SocketAddr,
}

impl Fleet {
    fn start() -> Self {
        let chain = [&["--block-time", "300ms"][..], &LONG_WAIT].concat();
        let ahead = Server::start(&chain);
        let head =
            |server: &Server| quantity(&server.connect().result("eth_blockNumber", &json!([])));
        let first = head(&ahead);
        wait_until("a block", || head(&ahead) > first);
        let behind = Server::start(&chain);
        let at = json!([format!("{first:#x}"), false]);
        let [one, other] = [&ahead, &behind].map(|server| {
            wait_until("it has come as far", || head(server) >= first);
            let mut connection = server.connect();
            connection.result("eth_getBlockByNumber", &at)["hash"].take()
        });
        check("both have one chain", &one, &other);
        Self {
            proxy: RoundRobin::of(&[ahead.address, behind.address]).address,
            _ahead: ahead,
            behind,
        }
    }

    /// Requests that waited until their block came.
    fn waited(&self) -> f64 {
        let series = r#"nearhead_min_block_waits_total{outcome="reached"}"#;
        self.behind.metric(series)
    }
}

/// How often a number is below the one before.
fn went_back(numbers: &[u64]) -> usize {
    numbers.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

/// The oracle: the numbers of a client's answers never go down. Without the header they do.
#[test]
fn a_client_that_passes_on_what_it_saw_never_goes_back() {
    let fleet = Fleet::start();
    let read = |min_block: Option<&str>| {
        let mut connection = Connection::open(fleet.proxy, &format!("/v3/{KEY}"));
        let response = match min_block {
            Some(min_block) => post(&mut connection, min_block, &number_request()),
            None => connection.post(number_request().to_string()),
        };
        check("status", &response.status, &200);
        let answer = harness::json(&response.body);
        let (_, named) = seen(&response);
        (quantity(&answer["result"]), named)
    };
    let plain: Vec<_> = (0..12).map(|_| read(None).0).collect();
    assert!(went_back(&plain) > 0, "nobody is behind: {plain:?}");
    let mut numbers = Vec::new();
    let mut last = None;
    for _ in 0..12 {
        let (number, named) = read(last.as_deref());
        numbers.push(number);
        last = Some(named);
    }
    check("stale reads", &went_back(&numbers), &0);
    assert!(fleet.waited() >= 1.0, "nothing waited: {numbers:?}");
}

/// The examples of docs/min-block.md, as they are printed.
#[cfg(feature = "all-tests")]
#[test]
fn the_examples_of_the_documentation_never_go_back() {
    use std::{fs, os::unix::fs::symlink, process::Command};

    use crate::{
        clients::{alloy_client, steps, wait_for_end},
        harness::{Process, installed, scratch},
    };

    installed("tests/clients/node_modules/.installed");
    let folder = scratch("min-block");
    // An example finds its libraries as it would in a project of its own.
    let libraries = installed("tests/clients/node_modules");
    symlink(libraries, folder.join("node_modules")).unwrap();
    let page = fs::read_to_string(installed("docs/min-block.md")).unwrap();
    let examples: Vec<_> = page.split("```js\n").skip(1).collect();
    check("examples", &examples.len(), &2);
    let fleet = Fleet::start();
    let url = format!("http://{}/v3/{KEY}", fleet.proxy);
    for (example, library) in examples.iter().zip(["ethers", "viem"]) {
        let (code, _) = example.split_once("```").unwrap();
        assert!(code.contains(&format!("from '{library}'")), "{code}");
        let waited = fleet.waited();
        let run = |code: &str| {
            let file = folder.join("example.mjs");
            fs::write(&file, code).unwrap();
            let process = Process::start(Command::new("node").arg(&file).arg(&url));
            let (status, text) = process.wait();
            assert!(status.success(), "{library}: {text}");
            let numbers = text.lines().map(|line| line.parse().unwrap());
            numbers.collect::<Vec<u64>>()
        };
        let numbers = run(code);
        check(library, &numbers.len(), &8);
        check(library, &went_back(&numbers), &0);
        assert!(fleet.waited() > waited, "{library}: {numbers:?}");
        // The same client goes back if it passes on nothing.
        let plain = run(&code.replace("if (seen !== '')", "if (false)"));
        assert!(went_back(&plain) > 0, "{library}: {plain:?}");
    }
    let source = fs::read_to_string(installed("tests/clients/alloy/seen.rs")).unwrap();
    let printed = page.contains(&format!("```rust\n{source}```\n"));
    assert!(printed, "the example for alloy is not its source");
    let waited = fleet.waited();
    let client = Process::start(alloy_client().args(["reads", &url]));
    let (_, text) = wait_for_end(client);
    let reads = steps(&text).filter(|step| step["step"] == "read");
    let numbers: Vec<_> = reads.map(|read| read["value"].as_u64().unwrap()).collect();
    check("alloy", &numbers.len(), &8);
    check("alloy", &went_back(&numbers), &0);
    assert!(fleet.waited() > waited, "alloy: {numbers:?}");
}
