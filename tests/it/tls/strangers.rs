//! Clients that do not finish a handshake, or speak something else.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use super::{TlsServer, client::TlsClient, is_answered, shared_pair};
use crate::harness::{PATIENCE, check, wait_until};

/// The record of a handshake that promises 512 bytes, and some of them.
const BEGUN: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

const STRANGERS: &str = r#"nearhead_connections{key="none",listener="public"}"#;

fn evicted(server: &TlsServer, reason: &str) -> f64 {
    let labels = format!(r#"{{listener="public",reason="{reason}"}}"#);
    server.metric(&format!("nearhead_strangers_evicted_total{labels}"))
}

fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Everything that a server sends until it closes a connection.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Who does not finish the handshake is a stranger as any other: the slots of all others are free
/// for those who have a key.
#[test]
fn handshakes_that_do_not_end_keep_nobody_out() {
    let limits = ["--workers", "1", "--max-connections", "64"];
    let server = TlsServer::start(shared_pair(), &limits);
    for bytes in [&b""[..], BEGUN] {
        let (before, left) = (evicted(&server, "slots"), server.handshakes("left"));
        let mut first = server.http();
        is_answered(&mut first);
        let idle_before = evicted(&server, "idle");
        let crowd: Vec<_> = (0..200)
            .map(|_| connect(server.server.address, bytes))
            .collect();
        wait_until("some are evicted", || evicted(&server, "slots") > before);
        assert!(server.metric(STRANGERS) <= 64.0);
        for _ in 0..5 {
            is_answered(&mut first);
            is_answered(&mut server.http());
        }
        // Those that stay have no more time than for a head.
        wait_until("the slowest are gone", || {
            evicted(&server, "idle") > idle_before
        });
        drop(crowd);
        wait_until("all are gone", || server.metric(STRANGERS) == 0.0);
        assert!(server.handshakes("left") > left);
        is_answered(&mut first);
    }
}

#[test]
fn a_handshake_has_as_long_as_a_head() {
    let server = TlsServer::start(shared_pair(), &["--header-timeout", "1s"]);
    let slow = [&b""[..], BEGUN].map(|bytes| connect(server.server.address, bytes));
    for stream in slow {
        check("closed", &read_to_end(stream), &Vec::new());
    }
    wait_until("both are counted", || server.handshakes("late") == 2.0);
    // The time for a head begins after it.
    let stream = TlsClient::default()
        .handshake(server.server.address)
        .unwrap();
    let begun = super::client::sent(stream, b"GET /health HTTP/1.1\r\n");
    let answer = super::client::read_to_end(begun).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
}

#[test]
fn plain_http_is_answered_with_what_to_do() {
    let filter = ["--log-filter", "info,nearhead=debug"];
    let server = TlsServer::start(shared_pair(), &filter);
    let body = "x".repeat(200_000);
    let post = format!("POST /v3/secret HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{body}");
    for (count, request) in [
        (1.0, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (2.0, &post),
    ] {
        let answer = read_to_end(connect(server.server.address, request.as_bytes()));
        let answer = String::from_utf8(answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {}", text.len())),
            "{answer}"
        );
        assert!(text.contains("use https:// or wss://"), "{answer}");
        wait_until("it is counted", || server.handshakes("plain_http") == count);
    }
    server.wait_logged("a client speaks plain HTTP on a port with TLS");
    // What is neither is closed.
    let garbage = connect(server.server.address, &[0; 64]);
    check("nothing", &read_to_end(garbage), &Vec::new());
    wait_until("it is counted", || server.handshakes("refused") == 1.0);
    let no_hello = connect(
        server.server.address,
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
    );
    let alert = read_to_end(no_hello);
    check("an alert", &alert.first(), &Some(&21));
    wait_until("it is counted", || server.handshakes("refused") == 2.0);
    check(
        "no request",
        &server.metric("nearhead_unparsable_requests_total"),
        &0.0,
    );
    is_answered(&mut server.http());
}

/// A service that stops does not wait for handshakes that nobody goes on with.
#[test]
fn a_handshake_in_progress_does_not_hold_up_the_end() {
    let server = TlsServer::start(shared_pair(), &["--shutdown-grace", "1h"]);
    let idle = connect(server.server.address, BEGUN);
    wait_until("it is connected", || server.metric(STRANGERS) == 1.0);
    server.server.process.terminate();
    check("closed", &read_to_end(idle), &Vec::new());
    server.server.process.check_end(0);
}
