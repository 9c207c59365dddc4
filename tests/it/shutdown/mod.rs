//! SIGTERM: new connections are refused, requests in flight are answered, the exit code is 0. What
//! a service manager is notified of, and a restart on its sockets.

#[cfg(feature = "all-tests")]
mod in_flight;
mod service_manager;

use std::net::TcpStream;

use serde_json::json;

use crate::harness::{Server, check, request, wait_until};

#[test]
fn an_idle_server_stops_at_once() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-grace", "1h"]);
    let _idle = server.connect();
    server.process.terminate();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}

/// A load balancer has time to notice, and who still comes is served.
#[test]
fn an_unready_server_serves_until_its_delay_is_over() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-delay", "1h"]);
    let mut before = server.connect();
    server.process.terminate();
    wait_until("not ready", || server.get("/ready").status == 503);
    for connection in [&mut before, &mut server.connect()] {
        let served = connection.call("eth_chainId", &json!([]));
        check("served", &served["result"].is_string(), &true);
    }
    server.process.interrupt();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(1));
}

#[test]
fn the_delay_ends() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-delay", "1s"]);
    server.process.terminate();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}

/// Its client believes that it is connected. It has a second: a slow machine may miss it.
#[test]
fn a_new_connection_gets_an_answer_to_its_first_request() {
    let is_answered = || {
        let server = Server::start(&["--block-time", "0s"]);
        let mut connection = server.connect();
        let open = r#"nearhead_connections{key="none",listener="public"}"#;
        wait_until("it is accepted", || server.metric(open) == 1.0);
        server.process.terminate();
        wait_until("no others are", || {
            TcpStream::connect(server.address).is_err()
        });
        // An idle connection would have been closed before so many others are made.
        let others = (0..40).map(|_| TcpStream::connect(server.admin.unwrap()));
        if others.into_iter().any(|other| other.is_err()) {
            return false;
        }
        let body = request(1, "eth_chainId", &json!([])).to_string();
        let asked = connection.request(&["content-type: application/json"], body.as_bytes());
        connection.send_until_closed(&asked);
        connection
            .try_receive()
            .is_some_and(|answer| answer.status == 200)
    };
    assert!(
        (0..10).any(|_| is_answered()),
        "no connection got an answer"
    );
}
