//! Clients that read slowly, disconnect, or send bursts.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    GOOD,
    client::{BINARY, CLOSE, CONTINUATION, Client, PING, PONG, Received, TEXT, connect, frame},
    limits::LOGS_ANSWERED,
    open, path,
    session::GOOD_ANSWER,
};
use crate::harness::{self, KEY, Server, check, wait_until};

const FIN: u8 = 0x80;

/// All logs of the execution-apis chain: 21 MB, more than socket buffers hold.
const ALL_LOGS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x0","toBlock":"latest"}]}"#;

/// Requests all logs; returns when the server sends them.
fn ask_for_all_logs(server: &Server, session: &mut Client) {
    let before = server.metric(LOGS_ANSWERED);
    session.text(ALL_LOGS);
    wait_until("the logs are answered", || {
        server.metric(LOGS_ANSWERED) > before
    });
}

#[track_caller]
fn is_all_logs(received: &Received) {
    let Received::Frame(TEXT, payload) = received else {
        panic!("{received:?}");
    };
    assert!(payload.len() > 20_000_000 && payload.ends_with(b"}]}"));
}

/// Reads `bytes` at this average rate, even if this thread is scheduled rarely.
fn read_at(bytes_per_second: u32, bytes: usize, stream: &mut impl Read) {
    let began = Instant::now();
    let mut read = 0;
    wait_until("all bytes are read", || {
        let due = began.elapsed().as_secs_f64() * f64::from(bytes_per_second);
        let due = (due as usize).min(bytes);
        let mut part = vec![0; due - read];
        stream.read_exact(&mut part).unwrap();
        read = due;
        read == bytes
    });
}

/// Bytes per second. At this rate a third of the largest socket buffer takes longer than the time
/// that a client may pause.
const SLOW: u32 = 100_000;
const SLOW_FOR: Duration = Duration::from_secs(14);

#[test]
fn a_slow_and_steady_reader_gets_everything() {
    let server = Server::execution_apis(&[]);
    let mut session = Client::on(connect(server.address, Some(32 << 10)), &path());
    let mut http = connect(server.address, Some(32 << 10));
    session.text(ALL_LOGS);
    let head = format!(
        "POST /v3/{KEY} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{ALL_LOGS}",
        ALL_LOGS.len()
    );
    http.write_all(head.as_bytes()).unwrap();
    let bytes = SLOW as usize * SLOW_FOR.as_secs() as usize;
    let session = std::thread::spawn(move || {
        let len = session.begin_text();
        read_at(SLOW, bytes, &mut session.stream);
        let mut rest = Vec::new();
        let left = (len - bytes) as u64;
        let stream = session.stream.by_ref();
        stream.take(left).read_to_end(&mut rest).unwrap();
        (rest.len() as u64 == left && rest.ends_with(b"}]}")).then_some(session)
    });
    read_at(SLOW, bytes, &mut http);
    let mut rest = Vec::new();
    http.read_to_end(&mut rest).unwrap();
    assert!(
        rest.ends_with(b"}]}"),
        "the last {} bytes do not end the answer",
        rest.len()
    );
    let mut session = session.join().unwrap().expect("everything was sent");
    session.text(GOOD);
    let good = Received::Frame(TEXT, GOOD_ANSWER.into());
    check("afterwards", &session.receive(), &good);
}

#[test]
fn shutdown_sends_everything_to_a_slow_reader() {
    let server = Server::execution_apis(&["--shutdown-grace", "60s"]);
    let mut session = open(&server);
    ask_for_all_logs(&server, &mut session);
    server.process.terminate();
    let len = session.begin_text();
    // Reading takes longer than a client has to close once everything is sent.
    read_at(len as u32 / 6, len, &mut session.stream);
    let (code, reason) = session.close_code();
    check(&reason, &code, &1001);
    session.send(FIN | CLOSE, &1001_u16.to_be_bytes());
    session.wait_end();
    server.process.check_end(0);
}

#[test]
fn a_client_that_stops_reading_gets_the_close_reason() {
    // All logs fit in the budget, so the answer is sent to its end.
    let server = Server::execution_apis(&["--session-bytes", "67108864", "--workers", "1"]);
    let mut session = open(&server);
    ask_for_all_logs(&server, &mut session);
    let closed = r#"nearhead_sessions_closed_total{code="1013"} 1"#;
    wait_until("the session is closed", || {
        server.get_admin("/metrics").text().contains(closed)
    });
    is_all_logs(&session.receive());
    let expected = (1013, "nothing was read for 8 seconds".to_owned());
    check("the reason", &session.close_code(), &expected);
    // A pong does not end the session: the server still waits for the client's close frame.
    session.send(FIN | PONG, b"");
    for _ in 0..3 {
        check("open", &server.metric("nearhead_sessions"), &1.0);
    }
    session.send(FIN | CLOSE, &1013_u16.to_be_bytes());
    session.wait_end();
}

#[test]
fn a_ping_is_answered_between_large_answers() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    ask_for_all_logs(&server, &mut session);
    session.send(FIN | PING, b"there?");
    session.text(ALL_LOGS);
    session.send(FIN | PING, b"still?");
    is_all_logs(&session.receive());
    let pong = |payload: &[u8]| Received::Frame(PONG, payload.to_vec());
    check("the first pong", &session.receive(), &pong(b"there?"));
    // The second pong may overtake the answer that was requested before it.
    let (first, second) = (session.receive(), session.receive());
    let (answer, other) = match first {
        Received::Frame(PONG, _) => (second, first),
        _ => (first, second),
    };
    is_all_logs(&answer);
    check("the second pong", &other, &pong(b"still?"));
}

#[test]
fn a_close_during_an_answer_gets_the_answer_and_the_echo() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    ask_for_all_logs(&server, &mut session);
    let len = session.begin_text();
    session.send(FIN | CLOSE, &1000_u16.to_be_bytes());
    read_at(len as u32 / 2, len, &mut session.stream);
    check("the echo", &session.close_code().0, &1000);
    session.wait_end();
}

#[test]
fn a_burst_of_requests_is_answered_a_few_at_a_time() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    let mut sent = Vec::new();
    for id in 0..1_000_u32 {
        // Log queries take longer.
        let method = match id % 20 {
            0 => json!(["eth_getLogs", [{"fromBlock": "0x0", "toBlock": "0x10"}]]),
            _ => json!(["eth_blockNumber", []]),
        };
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method[0], "params": method[1]});
        sent.extend(frame(FIN | TEXT, request.to_string().as_bytes()));
        sent.extend(frame(FIN | PING, &id.to_be_bytes()));
    }
    let (mut pings, mut missing) = (0_u32, Vec::from_iter(0..1_000_u64));
    std::thread::scope(|scope| {
        let mut writer = session.stream.get_ref().try_clone().unwrap();
        scope.spawn(move || writer.write_all(&sent).unwrap());
        while pings < 1_000 || !missing.is_empty() {
            match session.receive() {
                Received::Frame(PONG, payload) => {
                    check("in order", &payload, &pings.to_be_bytes().to_vec());
                    pings += 1;
                }
                Received::Frame(TEXT, payload) => {
                    let id = harness::json(&payload)["id"].as_u64().unwrap();
                    let overtaken = missing.iter().position(|other| *other == id).unwrap();
                    assert!(overtaken < 16, "{id} overtook {overtaken} requests");
                    missing.remove(overtaken);
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn an_abrupt_disconnect_is_counted_as_1006() {
    let server = Server::execution_apis(&[]);
    for sent in [&b""[..], &frame(FIN | TEXT, GOOD.as_bytes()), b"\x81"] {
        open(&server).send_bytes(sent);
    }
    wait_until("all sessions are gone", || {
        server.metric("nearhead_sessions") == 0.0
    });
    let metrics = server.get_admin("/metrics");
    let closed: Vec<&str> = metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("nearhead_sessions_closed_total"))
        .collect();
    check(
        "closed",
        &closed,
        &vec![r#"nearhead_sessions_closed_total{code="1006"} 3"#],
    );
}

#[test]
fn only_a_message_over_the_memory_budget_is_refused() {
    let server = Server::execution_apis(&["--workers", "1"]);
    let large = vec![b' '; 5 << 20];
    let _hoarders: Vec<Client> = (0..26)
        .map(|_| {
            let mut hoarder = open(&server);
            hoarder.send(BINARY, &large);
            // The pong shows that the server has read the message.
            hoarder.send(FIN | PING, b"");
            let pong = Received::Frame(PONG, Vec::new());
            check("read", &hoarder.receive(), &pong);
            hoarder
        })
        .collect();
    let mut session = open(&server);
    session.send(TEXT, GOOD.as_bytes());
    session.send(FIN | CONTINUATION, &large[..4 << 20]);
    let refused = session.message();
    check("the code", &refused["error"]["code"], &json!(-32002));
    check("the id", &refused["id"], &Value::Null);
    let counted = r#"nearhead_requests_total{method="other",outcome="refused"}"#;
    check("counted", &server.metric(counted), &1.0);
    session.text(GOOD);
    let good = Received::Frame(TEXT, GOOD_ANSWER.into());
    check("afterwards", &session.receive(), &good);
}

/// Upper bound on the growth of resident memory for 50 idle sessions: a few allocator buffers, much
/// less than a large message for each.
const GROWTH_KIB_MAX: i64 = 48 << 10;

#[test]
fn memory_of_a_large_message_is_released() {
    let server = Server::execution_apis(&[]);
    let message = frame(FIN | BINARY, &vec![b' '; 32 << 20]);
    let send_one = || {
        let mut session = open(&server);
        session.send_bytes(&message);
        let refused = session.message();
        check("refused", &refused["error"]["code"], &json!(-32600));
        session
    };
    drop(send_one());
    let before = super::hostile::resident_kib(&server);
    let _sessions: Vec<Client> = (0..50).map(|_| send_one()).collect();
    let counted = r#"nearhead_requests_total{method="other",outcome="invalid"}"#;
    check("counted", &server.metric(counted), &51.0);
    check("open", &server.metric("nearhead_sessions"), &50.0);
    let grown = super::hostile::resident_kib(&server) - before;
    assert!(grown < GROWTH_KIB_MAX, "memory grew by {grown} KiB");
}
