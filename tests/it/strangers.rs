//! Connections without an accepted key: however many there are, they keep nobody out who has one.
//! And what strangers send costs little: guesses of keys, scrapes, and what is no HTTP.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::{
    harness::{Connection, KEY, PATIENCE, Server, check, get, json as parse, wait_until},
    websocket::client::{HEADERS, handshake},
};

/// A dev chain that does not grow.
const STILL: [&str; 2] = ["--block-time", "0s"];

/// The longest that a key's holder may wait, whoever else is there.
const BOUND: Duration = Duration::from_secs(2);

const OPEN_STRANGERS: &str = r#"nearhead_connections{key="none",listener="public"}"#;
const OPEN_ACCEPTED: &str = r#"nearhead_connections{key="accepted",listener="public"}"#;
const IDLE_EVICTED: &str = r#"nearhead_idle_connections_evicted_total{listener="public"}"#;

fn evicted(server: &Server, reason: &str) -> f64 {
    let labels = format!(r#"{{listener="public",reason="{reason}"}}"#);
    server.metric(&format!("nearhead_strangers_evicted_total{labels}"))
}

/// Connects from 127.0.0.`host`.
fn connect_from(host: u8, address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The status of a request's answer, which is read to its end.
fn exchange(stream: &mut TcpStream, request: &str) -> u16 {
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "closed");
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Some((_, length)) = head.split_once("content-length: ")
            && length.lines().next() == Some(body.len().to_string().as_str())
        {
            return head["HTTP/1.1 ".len()..][..3].parse().unwrap();
        }
    }
}

/// 230 strangers, ten from each of 23 addresses, who send `bytes`.
fn strangers(server: &Server, bytes: &[u8]) -> Vec<TcpStream> {
    let connect = |at: u8| {
        let mut stream = connect_from(2 + at / 10, server.address);
        stream.write_all(bytes).unwrap();
        stream
    };
    (0..230).map(connect).collect()
}

/// A connection of a key's holder, each of whose answers has to come within [`BOUND`].
fn holder(server: &Server) -> Connection {
    let connection = server.connect();
    connection.stream().set_read_timeout(Some(BOUND)).unwrap();
    connection
}

fn is_answered(holder: &mut Connection) {
    let answer = holder.result("eth_chainId", &json!([]));
    check("the answer", &answer, &json!("0x539"));
}

/// Whether the server has not closed this connection.
fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn strangers_that_take_all_slots_keep_no_key_out() {
    let options = [&STILL[..], &["--max-connections", "200"]].concat();
    let server = Server::giving_memory_back(&options);
    let crowds = [
        &b""[..],
        b"POST /v3/guess HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n",
    ];
    server.check_memory_is_back(|| {
        for bytes in crowds {
            keep_nobody_out(&server, bytes);
        }
    });
}

/// A crowd that sends `bytes` takes all slots, and a key's holder is answered.
fn keep_nobody_out(server: &Server, bytes: &[u8]) {
    let before = evicted(server, "slots");
    let mut crowd = strangers(server, bytes);
    let mut first = holder(server);
    is_answered(&mut first);
    // A busy machine refuses some of the crowd before they have a slot.
    wait_until("some are evicted", || evicted(server, "slots") > before);
    check("it has a key", &server.metric(OPEN_ACCEPTED), &1.0);
    // Those that come later take the slots of other strangers, not that of a key.
    for _ in 0..5 {
        crowd.extend(strangers(server, bytes));
        is_answered(&mut first);
        is_answered(&mut holder(server));
    }
    assert!(server.metric(OPEN_STRANGERS) <= 200.0);
    drop(crowd);
    wait_until("they are gone", || server.metric(OPEN_STRANGERS) == 0.0);
}

#[test]
fn strangers_that_drip_their_heads_keep_no_key_out() {
    let limits = ["--max-connections", "200", "--header-timeout", "5s"];
    let server = Server::start(&[&STILL[..], &limits].concat());
    let mut crowd = strangers(&server, b"GET /health HTTP/1.1\r\n");
    let mut first = holder(&server);
    is_answered(&mut first);
    // Bytes do not prolong their time: it ends after a second while the slots run out.
    wait_until("the slowest are gone", || {
        for stranger in &mut crowd {
            // This fails for those that are gone already.
            let _ = stranger.write_all(b"x");
        }
        evicted(&server, "idle") > 0.0
    });
    is_answered(&mut first);
    wait_until("all are gone", || {
        for stranger in &mut crowd {
            let _ = stranger.write_all(b"x");
        }
        server.metric(OPEN_STRANGERS) == 0.0
    });
    is_answered(&mut first);
    check("it has a key", &server.metric(OPEN_ACCEPTED), &1.0);
}

/// Strangers that send requests without end are not less idle than a key's holder that has just
/// connected: those go who connected first.
#[test]
fn requests_without_a_key_keep_no_slot() {
    let limits = ["--workers", "1", "--max-connections", "64"];
    let server = Server::start(&[&STILL[..], &limits].concat());
    let health = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
    let guess = post("guess", "").replace("1000000", "0");
    for (request, status) in [(health, 200), (guess, 401)] {
        let begin = |at: u8| {
            let mut stranger = connect_from(2 + at / 4, server.address);
            check("a stranger", &exchange(&mut stranger, &request), &status);
            stranger
        };
        let before = evicted(&server, "slots") + evicted(&server, "idle");
        let mut crowd: Vec<_> = (0..40).map(begin).collect();
        let mut holder = holder(&server);
        wait_until("the holder is there", || {
            server.metric(OPEN_STRANGERS) == 41.0
        });
        for stranger in &mut crowd {
            check("again", &exchange(stranger, &request), &status);
        }
        // 60 may be there, and 47 for longer than two seconds.
        let later: Vec<_> = (40..70).map(begin).collect();
        assert!(evicted(&server, "slots") + evicted(&server, "idle") - before >= 11.0);
        is_answered(&mut holder);
        drop((crowd, later, holder));
        wait_until("they are gone", || {
            server.metric(OPEN_STRANGERS) + server.metric(OPEN_ACCEPTED) == 0.0
        });
    }
}

/// A tenant that takes all slots keeps nobody else out: its idle connections make way, and neither
/// its sessions nor the connections of a smaller tenant.
#[test]
fn idle_connections_of_a_tenant_make_way_for_others() {
    let limits = [
        "--workers",
        "1",
        "--max-connections",
        "16",
        "--api-key",
        "other=other-key",
    ];
    let server = Server::start(&[&STILL[..], &limits].concat());
    let mut small = Connection::open(server.address, "/v3/other-key");
    is_answered(&mut small);
    let mut session = server.connect();
    session.send(handshake(&format!("/ws/v3/{KEY}"), HEADERS).as_bytes());
    check("a session", &session.receive().status, &101);
    let crowd: Vec<_> = (0..14)
        .map(|_| {
            let mut connection = server.connect();
            is_answered(&mut connection);
            connection
        })
        .collect();
    let mut others = Vec::new();
    for count in 1..4 {
        // It waits for a slot until one of the crowd's connections has been idle for a second.
        let mut other = Connection::open(server.address, "/v3/other-key");
        is_answered(&mut other);
        others.push(other);
        wait_until("one made way", || {
            server.metric(IDLE_EVICTED) >= f64::from(count)
        });
    }
    let open = crowd.iter().filter(|other| is_open(other.stream()));
    assert!(open.count() <= 11, "three made way");
    is_answered(&mut small);
    others.iter_mut().for_each(is_answered);
    check("the session", &server.metric("nearhead_sessions"), &1.0);
    check("strangers", &evicted(&server, "slots"), &0.0);
}

#[test]
fn a_connection_whose_key_is_refused_is_a_strangers_again() {
    let server = Server::start(&STILL);
    let mut stream = connect_from(1, server.address);
    let counts = || [OPEN_STRANGERS, OPEN_ACCEPTED].map(|series| server.metric(series));
    let call = |key| post(key, "").replace("1000000", "0");
    for (key, status, expected) in [
        ("guess", 401, [1.0, 0.0]),
        (KEY, 200, [0.0, 1.0]),
        ("guess", 401, [1.0, 0.0]),
        (KEY, 200, [0.0, 1.0]),
    ] {
        check(key, &exchange(&mut stream, &call(key)), &status);
        // Connections that the server was started with may still be open.
        wait_until(key, || counts() == expected);
    }
}

#[test]
fn an_address_displaces_its_own_strangers_alone() {
    let limits = ["--workers", "1", "--connections-per-address", "4"];
    let server = Server::start(&[&STILL[..], &limits].concat());
    let other = connect_from(3, server.address);
    // Those that have a key do not count.
    let mut keys = Vec::new();
    for _ in 0..8 {
        let mut key = server.connect();
        is_answered(&mut key);
        keys.push(key);
    }
    let crowd: Vec<_> = (0..10).map(|_| connect_from(1, server.address)).collect();
    wait_until("six are closed", || evicted(&server, "address") == 6.0);
    let open: Vec<_> = crowd.iter().map(is_open).collect();
    check(
        "the last four",
        &open,
        &[[false; 6].as_slice(), &[true; 4]].concat(),
    );
    assert!(is_open(&other), "another address");
    keys.iter_mut().for_each(is_answered);
}

#[test]
fn proxies_and_an_address_without_a_cap_are_not_counted() {
    let [of_proxy, uncapped] = [
        [
            "--connections-per-address",
            "4",
            "--trusted-proxy",
            "127.0.0.3",
        ],
        ["--connections-per-address", "0", "--workers", "1"],
    ]
    .map(|limits| Server::start(&[&STILL[..], &limits].concat()));
    for server in [of_proxy, uncapped] {
        let crowd: Vec<_> = (0..50).map(|_| connect_from(3, server.address)).collect();
        wait_until("all are open", || server.metric(OPEN_STRANGERS) == 50.0);
        assert!(crowd.iter().all(is_open));
        check("none had to go", &evicted(&server, "address"), &0.0);
    }
}

/// A POST with this key and these header lines, whose body does not come.
fn post(key: &str, lines: &str) -> String {
    format!(
        "POST /v3/{key} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 1000000\r\n{lines}\r\n"
    )
}

/// Guesses keys until one is refused with 429; returns how often it was not, and the refusal.
fn guess(server: &Server, lines: &str) -> (usize, crate::harness::Response) {
    let mut guesses = 0;
    loop {
        let mut connection = server.connect();
        let request = post("guess", lines).replace("1000000", "0");
        connection.send(request.as_bytes());
        let response = connection.receive();
        if response.status == 429 {
            return (guesses, response);
        }
        check("a guess", &response.status, &401);
        guesses += 1;
    }
}

#[test]
fn guesses_of_keys_are_throttled_by_address_and_keys_are_not() {
    let proxy = ["--trusted-proxy", "127.0.0.1"];
    let server = Server::start(&[&STILL[..], &proxy].concat());
    let began = Instant::now();
    let behind = "x-forwarded-for: 192.0.2.1\r\n";
    let (guesses, refusal) = guess(&server, behind);
    // One more is allowed for each second that it took.
    let most = 100 + usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!((100..=most).contains(&guesses), "{guesses}");
    check("retry-after", &refusal.header("retry-after"), &Some("1"));
    check("it ends", &refusal.header("connection"), &Some("close"));
    let error = &parse(&refusal.body)["error"];
    check("code", &error["code"], &json!(-32005));
    check("backoff", &error["data"]["backoff_seconds"], &json!(1));
    assert!(server.metric("nearhead_key_guesses_throttled_total") >= 1.0);

    // The body is not waited for; nor is a handshake read. Each may be the one of its second.
    wait_until("a post is refused unread", || {
        let mut connection = server.connect();
        connection.send(post("guess", behind).as_bytes());
        connection
            .stream()
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let mut start = [0; 12];
        let read = connection.stream().read_exact(&mut start);
        read.is_ok() && start == *b"HTTP/1.1 429"
    });
    wait_until("a handshake is refused", || {
        let headers = [HEADERS, &["x-forwarded-for: 192.0.2.1"]].concat();
        let mut connection = server.connect();
        connection.send(handshake("/ws/v3/guess", &headers).as_bytes());
        connection.receive().status == 429
    });

    // Whoever has a key is let in from there; and others may guess.
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let mut connection = server.connect();
    for _ in 0..5 {
        let lines = ["content-type: application/json", behind.trim_end()];
        let request = connection.request(&lines, call.as_bytes());
        connection.send(&request);
        check("a key", &connection.receive().status, &200);
        check("throttled still", &guess(&server, behind).1.status, &429);
    }
    let headers = [HEADERS, &["x-forwarded-for: 192.0.2.1"]].concat();
    connection.send(handshake(&format!("/ws/v3/{KEY}"), &headers).as_bytes());
    check("a session", &connection.receive().status, &101);
    let mut connection = server.connect();
    let request = post("guess", "x-forwarded-for: 192.0.2.2\r\n").replace("1000000", "0");
    connection.send(request.as_bytes());
    check("another address", &connection.receive().status, &401);
}

#[test]
fn a_page_of_metrics_is_gathered_once_for_many() {
    let server = Server::start(&[&STILL[..], &["--metrics-max-age", "1m"]].concat());
    let admin = server.admin.unwrap();
    let first = get(admin, "/metrics");
    assert!(
        first
            .text()
            .contains("\nnearhead_metrics_gathered_total 1\n")
    );
    let mut connection = Connection::open(admin, "/metrics");
    for _ in 0..200 {
        connection.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        check(
            "the same page",
            &(connection.receive().body == first.body),
            &true,
        );
    }
    let server = Server::start(&[&STILL[..], &["--metrics-max-age", "0"]].concat());
    for expected in [1.0, 2.0, 3.0] {
        check(
            "gathered",
            &server.metric("nearhead_metrics_gathered_total"),
            &expected,
        );
    }
}

#[test]
fn what_is_no_http_is_counted_and_no_error() {
    for (filter, is_logged) in [("info", false), ("info,nearhead=debug", true)] {
        let server = Server::start(&[&STILL[..], &["--log-filter", filter]].concat());
        let long = [&b"GET / HTTP/1.1\r\nx: "[..], &[b'x'; 200_000]].concat();
        for bytes in [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            &b"GET / FOO\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nhost : \x01\r\n\r\n",
            &long,
        ] {
            let mut connection = server.connect();
            connection.send_until_closed(bytes);
            connection.wait_closed();
        }
        wait_until("all are counted", || {
            server.metric("nearhead_unparsable_requests_total") == 4.0
        });
        is_answered(&mut holder(&server));
        server.process.terminate();
        let output = server.process.check_end(0);
        assert!(
            !output.contains("ERROR") && !output.contains("WARN actix"),
            "{output}"
        );
        let lines = output
            .matches("what a client sent is no HTTP request")
            .count();
        check(&output, &lines, &(if is_logged { 4 } else { 0 }));
    }
}
