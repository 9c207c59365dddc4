//! SIGTERM: new connections are refused, requests in flight are answered, the exit code is 0.

#[cfg(feature = "all-tests")]
mod in_flight;

use crate::harness::{Server, check};

#[test]
fn an_idle_server_stops_at_once() {
    let server = Server::start(&["--block-time", "0s", "--shutdown-grace", "1h"]);
    let _idle = server.connect();
    server.process.terminate();
    let (status, output) = server.process.wait();
    check(&output, &status.code(), &Some(0));
}
