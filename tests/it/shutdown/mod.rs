//! SIGTERM: new connections are refused, requests in flight are answered, the exit code is 0. What
//! a service manager is notified of, and a restart on its sockets.

#[cfg(feature = "all-tests")]
mod in_flight;
mod service_manager;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Server, check, wait_until};

#[test]
fn an_idle_server_stops_at_once() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-grace", "1h"]);
    let _idle = server.connect();
    server.process.terminate();
    server.process.check_end(0);
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
    server.process.check_end(1);
}

#[test]
fn the_delay_ends() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-delay", "1s"]);
    let began = Instant::now();
    server.process.terminate();
    server.process.check_end(0);
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "it was not waited for"
    );
}
