//! Large replies are charged for as long as their clients leave them unread, and slow clients lose
//! theirs when others need the memory.

use serde_json::Value;

use crate::{
    harness::{Connection, Server, check, wait_until},
    websocket::client::{Client, connect},
};

/// A dev chain that does not grow, and two keys.
const SCENE: [&str; 6] = [
    "--block-time",
    "0s",
    "--api-key",
    "slow=slow-key",
    "--api-key",
    "other=other-key",
];

const ALL_LOGS: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"earliest"}]}"#;

/// A batch of this many requests, each of whose answers has 24 KB.
fn batch(requests: usize) -> String {
    format!("[{}]", vec![ALL_LOGS; requests].join(","))
}

/// A client that sends this and reads nothing.
fn stalls(server: &Server, body: &str) -> Connection {
    let stream = connect(server.address, Some(4 << 10));
    let mut client = Connection::on(stream, "/v3/slow-key");
    let request = client.request(&["content-type: application/json"], body.as_bytes());
    client.send(&request);
    client
}

fn held(server: &Server) -> f64 {
    server.metric("nearhead_replies_held")
}

fn used(server: &Server) -> f64 {
    server.metric(r#"nearhead_reply_bytes{kind="used"}"#)
}

fn evicted(server: &Server) -> f64 {
    server.metric(r#"nearhead_replies_evicted_total{reason="room"}"#)
}

/// MiB of the process that are resident.
fn resident(server: &Server) -> u64 {
    server.process.resident_kib() >> 10
}

/// 26 clients that read nothing of their answers, until they have left.
fn hold_26(server: &Server, batch: &str) {
    let mut clients = Vec::new();
    // Those that were held for ten seconds are cut off, which a busy machine may need for all.
    wait_until("26 replies are held", || {
        clients.push(stalls(server, batch));
        held(server) >= 26.0
    });
    let (resident, used) = (resident(server), used(server));
    assert!(resident <= 300, "{resident} MiB are resident");
    // At least what each connection has in its buffer.
    assert!(used >= 26.0 * 120_000.0, "{used} bytes are charged");
    drop(clients);
    // A reply that is still being made when its client leaves is charged and not yet held.
    wait_until("everything is given back", || {
        held(server) == 0.0 && self::used(server) == 0.0
    });
}

#[test]
fn slow_readers_of_large_batches_hold_little_and_are_charged_for_it() {
    let server = Server::giving_memory_back(&[&SCENE[..], &["--workers", "2"]].concat());
    // As many as fit into a reply.
    let batch = batch(1_000);
    server.check_memory_is_back(|| hold_26(&server, &batch));
}

#[test]
fn slow_clients_lose_their_replies_when_another_tenant_needs_the_memory() {
    let options = ["--reply-bytes", "2097152", "--workers", "2"];
    let server = Server::start(&[&SCENE[..], &options].concat());
    let batch = batch(200);
    let slow: Vec<Connection> = (0..16).map(|_| stalls(&server, &batch)).collect();
    let refused = || server.metric("nearhead_replies_refused_total");
    wait_until("the budget is full", || refused() + evicted(&server) >= 4.0);
    let mut other = Connection::open(server.address, "/v3/other-key");
    // The tenant that fills the budget is charged for no more than is there, and the other one
    // finds room, whoever reads slowly.
    for round in 0..10 {
        let response = other.post(&batch);
        check(
            "another tenant's batch",
            &(round, response.status),
            &(round, 200),
        );
        let answers: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
        check("its answers", &answers.len(), &200);
    }
    wait_until("a slow client is cut off", || evicted(&server) >= 1.0);
    assert!(used(&server) <= 2_097_152.0);
    drop(slow);
    wait_until("everything is given back", || used(&server) == 0.0);
}

/// While nobody reads, a refusal says that it will take long. That is measured, so it says so only
/// after a while.
#[test]
fn a_refusal_says_when_there_will_be_room() {
    let options = ["--reply-bytes", "1048576", "--workers", "2"];
    let server = Server::start(&[&SCENE[..], &options].concat());
    let batch = batch(200);
    let mut asks = Connection::open(server.address, "/v3/slow-key");
    let mut stalled = Vec::new();
    let mut waits = Vec::new();
    wait_until("a refusal says that nothing is released", || {
        // Those that were held for five seconds make way for others.
        stalled.push(stalls(&server, &batch));
        let response = asks.post(&batch);
        let Some(wait) = response.header("retry-after") else {
            return false;
        };
        let answer: Value = serde_json::from_slice(&response.body).unwrap();
        let said = answer["error"]["data"]["backoff_seconds"].to_string();
        check("refused", &(response.status, wait), &(503, said.as_str()));
        waits.push(wait.parse::<u64>().unwrap());
        waits.last() == Some(&30)
    });
    assert!(
        waits.iter().all(|wait| (1..=30).contains(wait)),
        "{waits:?}"
    );
    check("before it is measured", &waits[0], &1);
    drop(stalled);
    wait_until("the room is there again", || {
        asks.post(&batch).status == 200
    });
}

/// An answer that is shared with the window still has the buffers of its connection.
#[test]
fn the_buffers_of_a_session_are_charged_while_its_client_does_not_read() {
    let server = Server::start(&SCENE);
    let mut session = Client::on(connect(server.address, Some(4 << 10)), "/ws/v3/slow-key");
    session.text(&batch(100));
    wait_until("they are charged", || used(&server) >= 120_000.0);
    check("the answer and the buffers", &held(&server), &2.0);
    drop(session);
    wait_until("everything is given back", || used(&server) == 0.0);
}

#[test]
fn a_slow_session_is_closed_when_another_tenant_needs_the_memory() {
    let server = Server::start(&[&SCENE[..], &["--reply-bytes", "1048576"]].concat());
    let batch = batch(400);
    let mut other = Connection::open(server.address, "/v3/other-key");
    let mut sessions = Vec::new();
    wait_until("a session makes way", || {
        let mut session = Client::on(connect(server.address, Some(4 << 10)), "/ws/v3/slow-key");
        session.text(&batch);
        sessions.push(session);
        let status = other.post(ALL_LOGS).status;
        check("the other key", &status, &200);
        evicted(&server) >= 1.0
    });
    let code = r#"nearhead_sessions_closed_total{code="1013"}"#;
    // The series begins with the first one.
    wait_until("it is closed", || {
        server.get_admin("/metrics").text().contains(code)
    });
}
