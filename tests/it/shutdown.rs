//! SIGTERM: nothing new is accepted, what is in flight is answered, the exit code is 0.

use std::net::TcpStream;

use crate::harness::{Server, check, wait_until};

const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#;

#[test]
fn a_request_in_flight_is_answered() {
    let server = Server::execution_apis(&["--shutdown-grace", "30s"]);
    let mut connection = server.connect();
    let request = connection.request(&["content-type: application/json"], REQUEST.as_bytes());
    let (first, second) = request.split_at(request.len() - 10);
    let in_flight = || server.metric("nearhead_http_requests_in_flight");
    let before = in_flight();
    connection.send(first);
    wait_until("the request is in flight", || in_flight() > before);
    server.process.terminate();
    wait_until("nothing new is accepted", || {
        TcpStream::connect(server.address).is_err()
    });
    connection.send(second);
    let response = connection.receive();
    check(
        "the answer",
        &response.text(),
        &r#"{"jsonrpc":"2.0","id":1,"result":"0x36"}"#,
    );
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}

#[test]
fn a_request_that_never_ends_is_cut_after_the_grace_period() {
    let server = Server::execution_apis(&["--shutdown-grace", "1s"]);
    let mut connection = server.connect();
    let request = connection.request(&["content-type: application/json"], REQUEST.as_bytes());
    connection.send(&request[..request.len() - 10]);
    server.process.terminate();
    connection.wait_closed();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}

#[test]
fn idle_it_stops_at_once() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-grace", "1h"]);
    let _idle = server.connect();
    server.process.terminate();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}
