//! How many may wait, and when they leave.

use std::time::Instant;

use serde_json::json;

use super::{AT_ONCE, LONG_WAIT, number_request, open_session, post, with_member};
use crate::harness::{self, Connection, KEY, Server, check, request, wait_until};

/// Requests of one tenant that may wait.
const OF_TENANT: usize = 1_024;

/// Those of one session that wait here: one less than may be in progress.
const OF_SESSION: usize = 15;

const OTHER_KEY: &str = "the-key-of-another-tenant";

/// Sessions of one tenant take all of its places. Another tenant has places, a client that leaves
/// frees its own, and all are refused when the service stops.
#[test]
fn the_places_are_bounded_and_come_back() {
    let other = format!("other={OTHER_KEY}");
    // One worker, so that a request is counted before the next one is read.
    let arguments = ["--block-time", "0s", "--workers", "1", "--api-key", &other];
    let server = Server::start(&[&arguments[..], &LONG_WAIT].concat());
    let full = || server.metric(r#"nearhead_min_block_waits_total{outcome="full"}"#);
    let mut connection = server.connect();
    let head = super::seen(&connection.post(number_request().to_string())).0;
    let next = head + 1;
    let waiting = with_member(&json!(next)).to_string();
    // One place is left for a request over HTTP.
    let mut left = OF_TENANT - 1;
    let mut sessions = Vec::new();
    while left > 0 {
        let mut session = open_session(&server, KEY);
        let messages = left.min(OF_SESSION);
        (0..messages).for_each(|_| session.text(&waiting));
        left -= messages;
        // Answered while the others wait, and after they were read.
        session.text(&request(2, "eth_chainId", &json!([])).to_string());
        check("while others wait", &session.answer()["id"], &json!(2));
        sessions.push(session);
    }
    let begun = Instant::now();
    let in_flight = || server.metric("nearhead_http_requests_in_flight");
    let body = number_request().to_string();
    let mut last = server.connect();
    last.begin_post_after(&next.to_string(), body.as_bytes());
    wait_until("it waits", || in_flight() >= 1.0);
    let response = post(&mut connection, &next.to_string(), &number_request());
    check("status", &response.status, &503);
    check("retry after", &response.header("retry-after"), &Some("1"));
    check("full", &full(), &1.0);
    // Another tenant has places.
    let mut other = Connection::open(server.address, &format!("/v3/{OTHER_KEY}"));
    other.begin_post_after(&next.to_string(), body.as_bytes());
    wait_until("it waits too", || in_flight() >= 2.0);
    check("full", &full(), &1.0);
    // A client that goes away frees its place.
    drop(last);
    wait_until("it has left", || in_flight() < 2.0);
    let mut next_one = server.connect();
    next_one.begin_post_after(&next.to_string(), body.as_bytes());
    wait_until("it waits in their place", || in_flight() >= 2.0);
    check("full", &full(), &1.0);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    // All leave at once when the service stops.
    server.process.terminate();
    for connection in [&mut other, &mut next_one] {
        let response = connection.receive();
        check("at the end", &response.status, &503);
        let answer = harness::json(&response.body);
        check("code", &answer["error"]["code"], &json!(-32002));
    }
    let answer = sessions[0].answer();
    check("of a session", &answer["error"]["code"], &json!(-32002));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    drop(sessions);
    server.process.check_end(0);
}
