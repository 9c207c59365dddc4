//! HTTP itself: verbs, paths, keys, content types, limits, framing, timeouts, compression, CORS.

use std::{
    io::{ErrorKind, Read},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use super::{GOOD, check_alive, error};
use crate::harness::{Connection, KEY, PATIENCE, Response, Server, check};

/// The header of most rows.
const JSON: &str = "content-type: application/json";

/// What happens to the connection after the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It answers the next request.
    Alive,
    /// The server closes it.
    Closed,
}

/// A raw request, the status and body of its answer, and the state of the connection afterwards.
struct Row {
    name: &'static str,
    request: Vec<u8>,
    status: u16,
    body: String,
    then: Then,
}

/// Runs each row over a new connection; every answer except 400 must allow all origins.
fn run(server: &Server, rows: Vec<Row>) {
    for Row {
        name,
        request,
        status,
        body,
        then,
    } in rows
    {
        let mut connection = server.connect();
        connection.send(&request);
        let response = connection.receive();
        check(
            name,
            &(response.status, response.text()),
            &(status, body.as_str()),
        );
        if status != 400 {
            check(
                &format!("{name}: CORS"),
                &response.header("access-control-allow-origin"),
                &Some("*"),
            );
        }
        match then {
            Then::Alive => check_alive(name, &mut connection),
            Then::Closed => connection.wait_closed(),
        }
    }
    check_alive("a new connection", &mut server.connect());
}

/// A request with this verb, path, headers and body.
fn raw(verb: &str, path: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut request = format!("{verb} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    if !body.is_empty() || verb == "POST" {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    [request.as_bytes(), body].concat()
}

fn good_path() -> String {
    format!("/v3/{KEY}")
}

fn good(name: &'static str, request: Vec<u8>) -> Row {
    Row {
        name,
        request,
        status: 200,
        body: GOOD.1.into(),
        then: Then::Alive,
    }
}

#[test]
fn unknown_keys_are_refused() {
    let server = Server::execution_apis(&[]);
    let refused = error("null", -32002, "invalid project id");
    let long = format!("/v3/{}", "k".repeat(4000));
    let upper = format!("/v3/{}", KEY.to_uppercase());
    let prefix = format!("/v3/{}", &KEY[..KEY.len() - 1]);
    let longer = format!("/v3/{KEY}x");
    let paths = [
        ("unknown key", "/v3/unknown"),
        ("key in upper case", &upper),
        ("prefix of the key", &prefix),
        ("key and more", &longer),
        ("4,000 bytes", &long),
        ("key dev without source dev", "/v3/dev"),
        ("NUL", "/v3/%00"),
        ("not UTF-8", "/v3/%ff%fe"),
        ("needlessly percent-encoded", "/v3/integration%2dtest-key"),
        ("empty key", "/v3/"),
        ("no key", "/v3"),
    ];
    let rows = paths.map(|(name, path)| Row {
        name,
        request: raw("POST", path, &[JSON], GOOD.0.as_bytes()),
        status: 401,
        body: refused.clone(),
        then: Then::Alive,
    });
    run(&server, rows.into());
}

#[test]
fn other_verbs_get_405_and_other_paths_404() {
    let server = Server::execution_apis(&[]);
    let verbs =
        ["GET", "PUT", "DELETE", "PATCH", "TRACE", "BREW"].map(|verb| (verb, good_path(), 405));
    let paths = [
        "/",
        "/v2/key",
        "/v3/key/more",
        "/rpc",
        "/health/",
        "/metrics",
        "//",
        "/v3/../metrics",
    ]
    .map(|path| ("POST", path.to_owned(), 404));
    for (verb, path, status) in verbs.into_iter().chain(paths) {
        let mut connection = server.connect();
        connection.send(&raw(verb, &path, &[JSON], GOOD.0.as_bytes()));
        let response = connection.receive();
        let case = format!("{verb} {path}");
        check(&case, &response.status, &status);
        check(
            &case,
            &response.header("access-control-allow-origin"),
            &Some("*"),
        );
        if status == 405 {
            let allowed = response
                .header("allow")
                .unwrap_or_else(|| panic!("{case}: no allow header"));
            assert!(allowed.contains("POST"), "{case}: {allowed}");
        }
        check_alive(&case, &mut connection);
    }
    for path in ["/health", "/ready"] {
        check(path, &server.get(path).status, &200);
    }
}

#[test]
fn only_json_content_types_are_accepted() {
    let server = Server::execution_apis(&[]);
    let accepted = [
        "content-type: application/json",
        "Content-Type: application/json",
        "content-type: APPLICATION/JSON",
        "content-type: application/json; charset=utf-8",
        "content-type: application/json;charset=UTF-8; x=y",
        "content-type: application/json-rpc",
        "content-type: application/jsonrequest",
        "content-type: application/jsonrequest ; v=1",
    ];
    let rows = accepted.map(|header| {
        good(
            header,
            raw("POST", &good_path(), &[header], GOOD.0.as_bytes()),
        )
    });
    run(&server, rows.into());
    let refused: [&[&str]; 9] = [
        &[],
        &["content-type: text/plain"],
        &["content-type: text/json"],
        &["content-type: application/jsonx"],
        &["content-type: application/"],
        &["content-type: application/x-www-form-urlencoded"],
        &["content-type: multipart/form-data; boundary=application/json"],
        &["content-type: json"],
        &["content-type:"],
    ];
    for headers in refused {
        let mut connection = server.connect();
        connection.send(&raw("POST", &good_path(), headers, GOOD.0.as_bytes()));
        let response = connection.receive();
        check(&format!("{headers:?}"), &response.status, &415);
        check(
            &format!("{headers:?}"),
            &response.header("access-control-allow-origin"),
            &Some("*"),
        );
        check_alive(&format!("{headers:?}"), &mut connection);
    }
}

/// The largest body that is accepted.
const BODY_BYTES_MAX: usize = 5 << 20;

/// A good request of exactly this many bytes.
fn padded(bytes: usize) -> Vec<u8> {
    let mut body = GOOD.0.as_bytes().to_vec();
    body.resize(bytes, b' ');
    body
}

/// A POST of `body` in chunks of this many bytes.
fn chunked(body: &[u8], chunk: usize) -> Vec<u8> {
    let mut request = raw(
        "POST",
        &good_path(),
        &[JSON, "transfer-encoding: chunked"],
        b"",
    );
    let head = String::from_utf8(request)
        .unwrap()
        .replace("content-length: 0\r\n", "");
    request = head.into_bytes();
    for chunk in body.chunks(chunk) {
        request.extend(format!("{:x}\r\n", chunk.len()).bytes());
        request.extend(chunk);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    request
}

#[test]
fn bodies_over_5_mib_get_413() {
    let server = Server::execution_apis(&[]);
    let too_large = error("null", -32600, "request body too large, send at most 5 MiB");
    let post = |body: &[u8]| raw("POST", &good_path(), &[JSON], body);
    let large = |name, request, then| Row {
        name,
        request,
        status: 413,
        body: too_large.clone(),
        then,
    };
    run(
        &server,
        vec![
            good("chunked", chunked(GOOD.0.as_bytes(), 7)),
            good("chunked, byte by byte", chunked(GOOD.0.as_bytes(), 1)),
            good("5 MiB", post(&padded(BODY_BYTES_MAX))),
            good("5 MiB, chunked", chunked(&padded(BODY_BYTES_MAX), 1 << 16)),
            large(
                "5 MiB and a byte",
                post(&padded(BODY_BYTES_MAX + 1)),
                Then::Alive,
            ),
            large(
                "5 MiB and a byte, chunked",
                chunked(&padded(BODY_BYTES_MAX + 1), 1 << 16),
                Then::Alive,
            ),
        ],
    );
    // The server reads moderately oversized bodies to their end: a new connection would cost more.
    run(
        &server,
        vec![
            large("32 MiB", post(&padded(32 << 20)), Then::Alive),
            large(
                "32 MiB, chunked",
                chunked(&padded(32 << 20), 1 << 20),
                Then::Alive,
            ),
        ],
    );
    // It closes the connection on a far larger one.
    let mut connection = server.connect();
    connection.send_until_closed(&post(&padded(80 << 20)));
    if let Some(response) = connection.try_receive() {
        check(
            "80 MiB",
            &(response.status, response.text()),
            &(413, too_large.as_str()),
        );
        connection.wait_closed();
    }
    check_alive("80 MiB", &mut server.connect());
}

/// The server answers malformed HTTP with a 4xx and closes, or only closes.
#[test]
fn malformed_http_ends_only_its_own_connection() {
    let server = Server::execution_apis(&[]);
    let path = good_path();
    let body = GOOD.0;
    let length = body.len();
    let many_headers = "x: y\r\n".repeat(1000);
    let long_header = format!("x: {}\r\n", "y".repeat(1 << 20));
    let garbage = [
        ("garbage", "GARBAGE\r\n\r\n".to_owned()),
        ("binary", "\u{1}\u{2}\u{3}\u{0}\r\n\r\n".to_owned()),
        (
            "TLS hello",
            "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n".to_owned(),
        ),
        (
            "HTTP/2 preface",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        ),
        ("no version", format!("POST {path}\r\n\r\n")),
        ("HTTP/3.0", format!("POST {path} HTTP/3.0\r\n\r\n")),
        (
            "header without a colon",
            format!("POST {path} HTTP/1.1\r\nhost localhost\r\n\r\n"),
        ),
        (
            "header with a space",
            format!("POST {path} HTTP/1.1\r\nhost : localhost\r\n\r\n"),
        ),
        (
            "negative length",
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n{body}"),
        ),
        (
            "length in words",
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: ten\r\n\r\n{body}"),
        ),
        (
            "huge length",
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}0\r\n\r\n{body}",
                u64::MAX
            ),
        ),
        (
            "two lengths",
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\ncontent-length: 1\r\n\r\n{body}"
            ),
        ),
        (
            "length and chunks",
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{JSON}\r\ncontent-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
        ),
        (
            "a chunk without a size",
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"
            ),
        ),
        (
            "a chunk too large to count",
            format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\n{JSON}\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{body}"
            ),
        ),
        (
            "1,000 headers",
            format!("POST {path} HTTP/1.1\r\n{many_headers}content-length: 0\r\n\r\n"),
        ),
        (
            "a header of 1 MiB",
            format!("POST {path} HTTP/1.1\r\n{long_header}content-length: 0\r\n\r\n"),
        ),
        (
            "a path of 1 MiB",
            format!("POST /v3/{} HTTP/1.1\r\n\r\n", "k".repeat(1 << 20)),
        ),
    ];
    for (name, request) in garbage {
        let mut connection = server.connect();
        connection.send_until_closed(request.as_bytes());
        if let Some(response) = connection.try_receive() {
            assert!(
                (400..500).contains(&response.status),
                "{name}: {response:?}"
            );
            connection.wait_closed();
        }
        check_alive(name, &mut server.connect());
    }
}

#[test]
fn unusual_but_valid_http_is_answered() {
    let server = Server::execution_apis(&[]);
    let path = good_path();
    let body = GOOD.0;
    let length = body.len();
    run(
        &server,
        vec![
            good(
                "query string",
                raw("POST", &format!("{path}?x=y"), &[JSON], body.as_bytes()),
            ),
            good(
                "absolute form",
                raw(
                    "POST",
                    &format!("http://localhost{path}"),
                    &[JSON],
                    body.as_bytes(),
                ),
            ),
            good(
                "empty lines first",
                [
                    b"\r\n\r\n".as_slice(),
                    &raw("POST", &path, &[JSON], body.as_bytes()),
                ]
                .concat(),
            ),
            Row {
                name: "HTTP/1.0",
                request: format!(
                    "POST {path} HTTP/1.0\r\n{JSON}\r\ncontent-length: {length}\r\n\r\n{body}"
                )
                .into(),
                status: 200,
                body: GOOD.1.into(),
                then: Then::Closed,
            },
            Row {
                name: "connection: close",
                request: raw("POST", &path, &[JSON, "connection: close"], body.as_bytes()),
                status: 200,
                body: GOOD.1.into(),
                then: Then::Closed,
            },
        ],
    );
    let mut connection = server.connect();
    let request = raw(
        "POST",
        &path,
        &[JSON, "expect: 100-continue"],
        body.as_bytes(),
    );
    let (head, body) = request.split_at(request.len() - length);
    connection.send(head);
    check("expect", &connection.receive().status, &100);
    connection.send(body);
    check("expect", &connection.receive().text(), &GOOD.1);
    check_alive("expect", &mut connection);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let requests: Vec<u8> = (0..200)
        .flat_map(|id| {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_blockNumber"}}"#);
            connection.request(&[JSON], body.as_bytes())
        })
        .collect();
    connection.send(&requests);
    for id in 0..200 {
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"0x36"}}"#);
        check(
            "pipelined",
            &connection.receive().text(),
            &expected.as_str(),
        );
    }
    check_alive("pipelined", &mut connection);
}

#[test]
fn a_half_closed_connection_gets_the_answer_to_a_whole_request() {
    let server = Server::execution_apis(&[]);
    let mut whole = server.connect();
    whole.send(&whole.request(&[JSON], GOOD.0.as_bytes()));
    whole.stream().shutdown(Shutdown::Write).unwrap();
    check("a whole request", &whole.receive().text(), &GOOD.1);
    whole.wait_closed();

    let request = whole.request(&[JSON], GOOD.0.as_bytes());
    for part in [0, 10, request.len() - 10] {
        let mut half = server.connect();
        half.send(&request[..part]);
        half.stream().shutdown(Shutdown::Write).unwrap();
        if let Some(response) = half.try_receive() {
            assert!(
                (400..500).contains(&response.status),
                "{part} bytes: {response:?}"
            );
            half.wait_closed();
        }
        check_alive("half a request", &mut server.connect());
    }
}

/// Sends bytes one by one until the server answers or closes; panics if it waits for all of them.
fn drip(connection: &mut Connection, bytes: &[u8]) {
    // Shorter than any timeout of the server: a timeout that restarted with each byte would never
    // expire.
    let pause = Some(Duration::from_millis(100));
    connection.stream().set_read_timeout(pause).unwrap();
    for byte in bytes {
        // Waiting for an answer is also the pause between two bytes.
        let peeked = connection.stream().peek(&mut [0]);
        if !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            connection
                .stream()
                .set_read_timeout(Some(PATIENCE))
                .unwrap();
            return;
        }
        connection.send_until_closed(&[*byte]);
    }
    panic!("the server waited for all {} bytes", bytes.len());
}

/// A request that stalls or drips is cut off at its timeout; other clients are unaffected.
#[test]
fn slow_requests_time_out_and_affect_no_other_client() {
    let server = Server::execution_apis(&[
        "--header-timeout",
        "1s",
        "--body-timeout",
        "300ms",
        "--keep-alive",
        "1s",
    ]);
    let request = server.connect().request(&[JSON], GOOD.0.as_bytes());
    let head = request.len() - GOOD.0.len();
    for (name, part) in [
        ("within the headers", 20),
        ("after the headers", head),
        ("within the body", head + 10),
    ] {
        for drips in [false, true] {
            let mut connection = server.connect();
            connection.send(&request[..part]);
            if drips {
                drip(&mut connection, &request[part..]);
            }
            if let Some(response) = connection.try_receive() {
                check(name, &response.status, &408);
            }
            connection.wait_closed();
            check_alive(name, &mut server.connect());
        }
    }
    let mut idle = server.connect();
    check_alive("connecting", &mut idle);
    idle.wait_closed();
}

/// Sends a request with this accept-encoding, or none if it is empty.
fn compressed(server: &Server, encoding: &str, request: &str) -> Response {
    let mut connection = server.connect();
    let header = format!("accept-encoding: {encoding}");
    let headers = if encoding.is_empty() {
        vec![JSON]
    } else {
        vec![JSON, &header]
    };
    connection.send(&connection.request(&headers, request.as_bytes()));
    let response = connection.receive();
    check_alive(encoding, &mut connection);
    response
}

/// Decodes a body.
fn decompressed(encoding: &str, body: &[u8]) -> Vec<u8> {
    let mut reader: Box<dyn Read + '_> = match encoding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(body)),
        "br" => Box::new(brotli::Decompressor::new(body, 1 << 16)),
        "zstd" => Box::new(zstd::Decoder::new(body).unwrap()),
        other => panic!("{other} is not offered"),
    };
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    text
}

#[test]
fn large_answers_are_compressed_as_the_client_accepts() {
    let server = Server::execution_apis(&[]);
    let large = r#"{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x0","toBlock":"0x36"}]}"#;
    let plain = compressed(&server, "", large);
    assert!(
        plain.body.len() > 20_000,
        "an answer of {} bytes is not large",
        plain.body.len()
    );
    check(
        "no accept-encoding",
        &plain.header("content-encoding"),
        &None,
    );
    // `None`: whichever of the accepted encodings the server prefers.
    for (accepted, used) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("gzip, deflate, br, zstd", None),
        ("gzip;q=1.0, br;q=0.5", Some("gzip")),
        ("GZIP", Some("gzip")),
    ] {
        let response = compressed(&server, accepted, large);
        let encoding = response
            .header("content-encoding")
            .unwrap_or_else(|| panic!("{accepted}: not compressed"));
        assert!(
            used.is_none_or(|used| used == encoding),
            "{accepted}: {encoding}"
        );
        assert!(
            response.body.len() < plain.body.len() / 2,
            "{accepted}: {} bytes",
            response.body.len()
        );
        assert!(
            response
                .header("vary")
                .is_some_and(|vary| vary.to_lowercase().contains("accept-encoding")),
            "{accepted}"
        );
        let text = decompressed(encoding, &response.body);
        assert!(text == plain.body, "{accepted}: other bytes");
    }
    for accepted in [
        "identity",
        "gzip;q=0",
        "unknown",
        "deflate;q=0, identity",
        "*;q=0, identity",
    ] {
        let response = compressed(&server, accepted, large);
        check(
            accepted,
            &(response.header("content-encoding"), &response.body),
            &(None, &plain.body),
        );
    }
    // A compressed reply has no content-length, and HTTP/1.0 has no chunks to delimit it.
    let mut old = server.connect();
    let request =
        String::from_utf8(old.request(&[JSON, "accept-encoding: gzip"], large.as_bytes()));
    old.send(
        request
            .unwrap()
            .replacen("HTTP/1.1", "HTTP/1.0", 1)
            .as_bytes(),
    );
    let response = old.receive();
    let found = (response.header("content-encoding"), &response.body);
    check("HTTP/1.0", &found, &(None, &plain.body));
    let small = compressed(&server, "gzip, br, zstd", GOOD.0);
    check(
        "small",
        &(small.header("content-encoding"), small.text()),
        &(None, GOOD.1),
    );
}

#[test]
fn cors_preflights_are_answered() {
    let server = Server::execution_apis(&[]);
    let headers = [
        "origin: https://example.org",
        "access-control-request-method: POST",
        "access-control-request-headers: content-type",
    ];
    for path in [good_path(), "/v3/unknown".into()] {
        let mut connection = server.connect();
        connection.send(&raw("OPTIONS", &path, &headers, b""));
        let response = connection.receive();
        check(&path, &(response.status, response.text()), &(204, ""));
        check(
            &path,
            &response.header("access-control-allow-origin"),
            &Some("*"),
        );
        let methods = response
            .header("access-control-allow-methods")
            .unwrap_or_default();
        assert!(methods.contains("POST"), "{response:?}");
        // The star does not cover this one.
        let names = response.header("access-control-allow-headers");
        check(&path, &names, &Some("*, authorization"));
        // Browsers ask their user instead.
        let private = response.header("access-control-allow-private-network");
        check(&path, &private, &None);
        check_alive(&path, &mut connection);
    }
}

#[test]
fn a_thousand_idle_connections_affect_no_other_client() {
    let server = Server::execution_apis(&[]);
    let idle: Vec<TcpStream> = (0..1000)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let mut connection: Connection = server.connect();
    for _ in 0..100 {
        check_alive("opening 1,000 idle connections", &mut connection);
    }
    drop(idle);
    check_alive("closing the idle connections", &mut connection);
}
