//! Handshakes, caps, answers, and how sessions end.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    GOOD,
    client::{BINARY, CLOSE, Client, HEADERS, PING, PONG, Received, TEXT, handshake},
    open, path,
};
use crate::harness::{self, Connection, KEY, Response, Server, check, wait_until};

pub(super) const GOOD_ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":"0x36"}"#;

#[test]
fn messages_are_answered_like_http_bodies() {
    let server = Server::execution_apis(&[]);
    let (mut session, mut http) = (open(&server), server.connect());
    let batch = format!("[{GOOD},{GOOD}]");
    let deep = "[".repeat(100_000);
    for body in [
        GOOD,
        &batch,
        r#"{"jsonrpc":"2.0","id":null,"method":"net_version"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"eth_mine"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x0","toBlock":"0x36"}]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x2d",true]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getStorageAt","params":["0x1"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":[true,true]}"#,
        "",
        "{",
        "[]",
        "1",
        &deep,
    ] {
        let expected = http.post(body);
        for opcode in [TEXT, BINARY] {
            session.send(0x80 | opcode, body.as_bytes());
            let case = &body[..body.len().min(200)];
            check(
                case,
                &session.receive(),
                &Received::Frame(TEXT, expected.body.clone()),
            );
        }
    }
    // A request without an id gets no answer; the next request does.
    session.text(r#"{"jsonrpc":"2.0","method":"eth_blockNumber"}"#);
    session.text(GOOD);
    check(
        "after a request without an id",
        &session.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
}

/// The response to a handshake on a new connection.
fn shake_hands(server: &Server, path: &str, headers: &[&str]) -> Response {
    let mut connection = Connection::open(server.address, path);
    connection.send(handshake(path, headers).as_bytes());
    connection.receive()
}

#[test]
fn malformed_handshakes_are_refused_before_caps_apply() {
    // The session cap is 0, so a well-formed handshake gets 503; errors take precedence.
    let server = Server::execution_apis(&["--max-sessions", "0"]);
    let all_but = |without: &str| -> Vec<&str> {
        let all = HEADERS.iter().copied();
        all.filter(|header| !header.starts_with(without)).collect()
    };
    let with = |version, key| vec![HEADERS[0], HEADERS[1], version, key];
    let (newer, older) = ("sec-websocket-version: 14", "sec-websocket-version: 8");
    let short = "sec-websocket-key: c2hvcnQ=";
    for (case, path, headers, status) in [
        (
            "unknown key",
            "/ws/v3/unknown".to_owned(),
            HEADERS.to_vec(),
            401,
        ),
        ("no key", "/ws/v3".to_owned(), HEADERS.to_vec(), 401),
        ("no upgrade", path(), all_but("upgrade"), 426),
        ("no connection", path(), all_but("connection"), 426),
        ("no version", path(), all_but("sec-websocket-version"), 426),
        ("no key header", path(), all_but("sec-websocket-key"), 400),
        ("a short key", path(), with(HEADERS[2], short), 400),
        ("a newer version", path(), with(newer, HEADERS[3]), 426),
        ("an older version", path(), with(older, HEADERS[3]), 426),
        (
            "another path",
            format!("/ws/v2/{KEY}"),
            HEADERS.to_vec(),
            404,
        ),
    ] {
        let response = shake_hands(&server, &path, &headers);
        check(case, &response.status, &status);
        let body = harness::json(&response.body);
        assert!(
            body["error"]["code"].is_i64() && body["id"].is_null(),
            "{case}: {body}"
        );
    }
    let good = shake_hands(&server, &path(), HEADERS);
    check("a good one", &good.status, &503);
    let closed = server
        .get_admin("/metrics")
        .text()
        .contains("sessions_closed_total{");
    assert!(!closed, "no session was opened");
    let unknown = shake_hands(&server, "/ws/v3/unknown", HEADERS);
    check(
        "the answer to an unknown key",
        &unknown.text(),
        &r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32002,"message":"invalid project id"}}"#,
    );
}

#[test]
fn offered_extensions_and_subprotocols_are_declined() {
    let server = Server::execution_apis(&[]);
    let offers = [
        "sec-websocket-extensions: permessage-deflate; client_max_window_bits",
        "sec-websocket-protocol: chat, superchat",
    ];
    let headers = [HEADERS, &offers].concat();
    let response = shake_hands(&server, &path(), &headers);
    check("status", &response.status, &101);
    for name in ["sec-websocket-extensions", "sec-websocket-protocol"] {
        check(name, &response.header(name), &None);
    }
}

#[test]
fn sessions_are_capped_in_total_and_per_key() {
    let server = Server::execution_apis(&[
        "--api-key",
        "other=other-key",
        "--max-sessions",
        "3",
        "--max-sessions-per-key",
        "2",
    ]);
    let refused = |path: &str| {
        let response = shake_hands(&server, path, HEADERS);
        (
            response.status,
            response.header("retry-after").map(str::to_owned),
        )
    };
    let first = open(&server);
    let _second = open(&server);
    check(
        "two of one key",
        &refused(&path()),
        &(503, Some("1".to_owned())),
    );
    let _third = Client::open(server.address, "/ws/v3/other-key");
    check("three in total", &refused("/ws/v3/other-key").0, &503);
    check("open", &server.metric("nearhead_sessions"), &3.0);
    drop(first);
    wait_until("a session ends with its connection", || {
        server.metric("nearhead_sessions") == 2.0
    });
    let mut fourth = open(&server);
    fourth.text(GOOD);
    check(
        "a new session",
        &fourth.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
}

/// By default the sessions of one key take at most half of the connections, and all sessions three
/// quarters.
#[test]
fn default_caps_leave_connections_for_http() {
    let flags = ["--max-connections", "8", "--api-key", "other=other-key"];
    let server = Server::execution_apis(&flags);
    let status = |path: &str| shake_hands(&server, path, HEADERS).status;
    let _of_one_key: Vec<Client> = (0..4).map(|_| open(&server)).collect();
    check("half of the connections", &status(&path()), &503);
    let other = "/ws/v3/other-key";
    let _of_another = [(); 2].map(|()| Client::open(server.address, other));
    check("three quarters of the connections", &status(other), &503);
    check("a probe", &server.get("/health").status, &200);
}

#[test]
fn handshakes_count_against_the_rate_limit() {
    let server = Server::execution_apis(&["--rate-limit", "1"]);
    let mut refused = None;
    wait_until("a handshake exceeds one request a second", || {
        let response = shake_hands(&server, &path(), HEADERS);
        refused = (response.status != 101).then_some(response);
        refused.is_some()
    });
    let refused = refused.unwrap();
    check("status", &refused.status, &429);
    check("retry-after", &refused.header("retry-after"), &Some("1"));
    let error = crate::harness::json(&refused.body);
    check("code", &error["error"]["code"], &json!(-32005));
}

#[test]
fn shutdown_answers_requests_in_flight_and_closes_with_1001() {
    let server = Server::execution_apis(&["--shutdown-grace", "30s"]);
    let mut idle = open(&server);
    let mut busy = open(&server);
    busy.text(GOOD);
    server.process.terminate();
    check(
        "in flight",
        &busy.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
    for session in [&mut idle, &mut busy] {
        let (code, reason) = session.close_code();
        check(&reason, &code, &1001);
        session.send(0x80 | CLOSE, &1001_u16.to_be_bytes());
        session.wait_end();
    }
    server.process.check_end(0);
}

/// An equal share in each second of the grace period but its last two, so that not all clients
/// connect elsewhere at once.
#[test]
fn shutdown_closes_one_session_after_another() {
    let server = Server::execution_apis(&["--shutdown-grace", "8s", "--workers", "1"]);
    let sessions: Vec<_> = (0..24).map(|_| open(&server)).collect();
    server.process.terminate();
    let began = Instant::now();
    let close = |mut session: Client| {
        check("code", &session.close_code().0, &1001);
        let at = began.elapsed();
        session.send(0x80 | CLOSE, &1001_u16.to_be_bytes());
        session.wait_end();
        at
    };
    let mut closed: Vec<Duration> = thread::scope(|threads| {
        let clients = sessions.into_iter();
        let clients: Vec<_> = clients
            .map(|session| threads.spawn(move || close(session)))
            .collect();
        clients.into_iter().map(|one| one.join().unwrap()).collect()
    });
    closed.sort_unstable();
    // On a busy machine, a second may be missed, and the next one has a larger share.
    let early = closed.partition_point(|at| *at < closed[0] + Duration::from_millis(2_500));
    assert!((4..=16).contains(&early), "{closed:?}");
    assert!(closed[23] < Duration::from_secs(8), "{closed:?}");
    server.process.check_end(0);
}

#[test]
fn disconnected_sessions_leave_nothing_behind() {
    let server = Server::execution_apis(&[]);
    for round in 0..200 {
        let mut session = open(&server);
        match round % 4 {
            0 => {}
            1 => session.text(GOOD),
            2 => session.send_bytes(&[0x81, 0xfe, 0xff]),
            _ => session.send(0x80 | CLOSE, &[]),
        }
    }
    wait_until("all sessions are gone", || {
        server.metric("nearhead_sessions") == 0.0
    });
    check(
        "subscriptions",
        &server.metric("nearhead_subscriptions"),
        &0.0,
    );
    let mut session = open(&server);
    session.text(GOOD);
    check(
        "a new session",
        &session.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
}

/// A client requests 21 MB 40 times and reads nothing: the server stops reading from it, holds a
/// few answers, and cuts it off.
#[test]
fn only_a_session_that_stops_reading_is_cut_off() {
    let server = Server::execution_apis(&[]);
    let logs = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs",
        "params": [{"fromBlock": "0x0", "toBlock": "latest"}]})
    .to_string();
    let mut stalled = open(&server);
    let mut other = open(&server);
    for _ in 0..40 {
        stalled.text(&logs);
    }
    wait_until("one request is answered", || {
        server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#) >= 1.0
    });
    other.text(GOOD);
    check(
        "meanwhile",
        &other.receive(),
        &Received::Frame(TEXT, GOOD_ANSWER.into()),
    );
    wait_until("the session is cut off", || {
        server.metric("nearhead_sessions") == 1.0
    });
    let answered = server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#);
    assert!(answered < 40.0, "{answered} requests were answered");
    other.send(0x80 | PING, b"there?");
    check(
        "afterwards",
        &other.receive(),
        &Received::Frame(PONG, b"there?".to_vec()),
    );
}
