//! SIGTERM with requests in flight.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::{Connection, Server, check, json, wait_until};

const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;

/// Sends the first part of a request; returns when the server counts it as in flight.
fn begin(server: &Server, connection: &mut Connection, part: &[u8]) {
    let in_flight = || server.metric("nearhead_http_requests_in_flight");
    let before = in_flight();
    connection.send(part);
    wait_until("the request is in flight", || in_flight() > before);
}

/// Sends SIGTERM; returns when the server refuses new connections.
fn stop_accepting(server: &Server) {
    server.process.terminate();
    wait_until("new connections are refused", || {
        TcpStream::connect(server.address).is_err()
    });
}

#[test]
fn a_request_in_flight_is_answered() {
    let server = Server::execution_apis(&["--shutdown-grace", "30s"]);
    let mut connection = server.connect();
    let request = connection.request(&["content-type: application/json"], REQUEST.as_bytes());
    let (first, second) = request.split_at(request.len() - 10);
    begin(&server, &mut connection, first);
    stop_accepting(&server);
    connection.send(second);
    let response = connection.receive();
    check(
        "the answer",
        &response.text(),
        &r#"{"jsonrpc":"2.0","id":1,"result":"0x36"}"#,
    );
    server.process.check_end(0);
}

/// A load balancer's probe that is in flight learns that the server is draining.
#[test]
fn a_draining_server_is_not_ready() {
    let server = Server::execution_apis(&["--shutdown-grace", "30s"]);
    let mut probe = server.connect();
    let head = "GET /ready HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n";
    begin(&server, &mut probe, head.as_bytes());
    stop_accepting(&server);
    // Operators learn why, until the last client has its answer.
    let response = server.get_admin("/ready");
    let missing = json(&response.body)["missing"].take();
    check(
        "ready, for operators",
        &(response.status, missing),
        &(503, json!(["the service is going away"])),
    );
    probe.send(b"{}");
    let response = probe.receive();
    check(
        "ready",
        &(response.status, response.text()),
        &(503, r#"{"ready":false}"#),
    );
    server.process.check_end(0);
}

/// The grace period of the test below.
const GRACE: Duration = Duration::from_secs(1);

#[test]
fn a_request_that_never_ends_is_cut_after_the_grace_period() {
    let server = Server::execution_apis(&["--shutdown-grace", "1s"]);
    let mut connection = server.connect();
    let request = connection.request(&["content-type: application/json"], REQUEST.as_bytes());
    begin(&server, &mut connection, &request[..request.len() - 10]);
    let signaled = Instant::now();
    server.process.terminate();
    connection.wait_closed();
    let waited = signaled.elapsed();
    assert!(waited >= GRACE, "cut off after {waited:?}");
    server.process.check_end(0);
}

/// Its client believes that it is connected. It has a second: a slow machine may miss it.
#[test]
fn a_new_connection_gets_an_answer_to_its_first_request() {
    let is_answered = || {
        let server = Server::start(&["--block-time", "0s"]);
        let mut connection = server.connect();
        let open = r#"nearhead_connections{key="none",listener="public"}"#;
        wait_until("it is accepted", || server.metric(open) == 1.0);
        stop_accepting(&server);
        // An idle connection would have been closed before so many others are made.
        let others = (0..40).map(|_| TcpStream::connect(server.admin.unwrap()));
        if others.into_iter().any(|other| other.is_err()) {
            return false;
        }
        let headers = ["content-type: application/json"];
        let asked = connection.request(&headers, REQUEST.as_bytes());
        connection.send_until_closed(&asked);
        connection
            .try_receive()
            .is_some_and(|answer| answer.status == 200)
    };
    assert!((0..3).any(|_| is_answered()), "no connection got an answer");
}
