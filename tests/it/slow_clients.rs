//! Clients that take too long to ask or to read: they are cut off, whatever they hold is freed,
//! nobody else notices.

use std::fs;

use serde_json::json;

use crate::harness::{Server, check, wait_until};

const GOOD: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;

/// Files and sockets that the server has open.
fn open_files(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.process.id());
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn the_head_of_every_request_has_a_timeout() {
    let server = Server::execution_apis(&["--header-timeout", "1s", "--keep-alive", "1s"]);
    let mut slow = server.connect();
    check("first", &slow.post(GOOD).status, &200);
    // The pause ends with the first byte of the next head, which never comes to its end.
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
    let before = open_files(&server);
    let logs = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs",
        "params": [{"fromBlock": "0x0", "toBlock": "latest"}]});
    let mut deaf = server.connect();
    let request = deaf.request(
        &["content-type: application/json"],
        logs.to_string().as_bytes(),
    );
    // The answer has 21 MB, more than the sockets between them hold.
    deaf.send(&request);
    wait_until("it is answered", || {
        server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#) >= 1.0
    });
    let cut = || server.metric("nearhead_slow_clients_total");
    check("it has its time", &cut(), &0.0);
    wait_until("it is cut off", || cut() == 1.0);
    // A probe's connection that was still closing may be among those of before: more than that is
    // none too many.
    wait_until("its socket is free", || open_files(&server) <= before);
    check("other", &other.post(GOOD).status, &200);
}
