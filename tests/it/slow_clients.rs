//! Clients that send or read too slowly are cut off, their resources are freed, and other clients
//! are unaffected.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::harness::{Server, check, wait_until};

const GOOD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;

/// The number of sockets that the server has open. Files come and go: those of the store, and the
/// kernel's about memory.
fn open_sockets(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.process.id());
    let links = fs::read_dir(folder).unwrap();
    let targets = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    let is_socket = |target: &PathBuf| target.to_string_lossy().starts_with("socket:");
    targets.filter(is_socket).count()
}

#[test]
fn the_headers_of_every_request_have_a_timeout() {
    let server = Server::execution_apis(&["--header-timeout", "1s", "--keep-alive", "1s"]);
    let mut slow = server.connect();
    check("first", &slow.post(GOOD).status, &200);
    // The first byte of the next request ends the keep-alive pause; the rest never comes.
    slow.send(b"P");
    slow.wait_closed();
    let cut = server.metric("nearhead_slow_clients_total");
    check("counted", &cut, &1.0);
    check("others", &server.connect().post(GOOD).status, &200);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = Server::execution_apis(&[]);
    let mut other = server.connect();
    check("other", &other.post(GOOD).status, &200);
    let before = open_sockets(&server);
    let logs = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs",
        "params": [{"fromBlock": "0x0", "toBlock": "latest"}]});
    let mut stalled = server.connect();
    let request = stalled.request(
        &["content-type: application/json"],
        logs.to_string().as_bytes(),
    );
    // The answer has 21 MB, more than the socket buffers hold.
    stalled.send(&request);
    wait_until("the request is answered", || {
        server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#) >= 1.0
    });
    let cut = || server.metric("nearhead_slow_clients_total");
    check("not cut off at once", &cut(), &0.0);
    wait_until("the client is cut off", || cut() == 1.0);
    // `before` may include a connection of `Server::get` that was still closing; the bound holds
    // either way.
    wait_until("its socket is closed", || open_sockets(&server) <= before);
    check("other", &other.post(GOOD).status, &200);
}
