//! What pages in a browser may reach: the default key `dev`, the admin listener, and other keys.

use serde_json::Value;

use crate::harness::{Connection, Response, Server, check, json, nearhead, printed};

const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;

const HANDSHAKE: &str = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

const HOST: &str = "the header Host is not of this machine, use localhost or allow the host with \
                    --allowed-host";
const ORIGIN: &str = "the origin is not of this machine, open the page from localhost or give \
                      nearhead an --api-key";

/// A dev chain that does not grow, with these arguments besides.
fn start(arguments: &[&str]) -> Server {
    let fixed = [
        "--block-time",
        "0s",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
    ];
    Server::of(&mut nearhead(fixed.iter().chain(arguments).copied()))
}

/// The lines of the headers `Host` and `Origin`.
fn headers(host: &str, origin: Option<&str>) -> String {
    let origin = origin.map(|origin| format!("origin: {origin}\r\n"));
    format!("host: {host}\r\n{}", origin.unwrap_or_default())
}

/// The answers to a call over HTTP and to the handshake of a session.
fn ask(server: &Server, headers: &str) -> [Response; 2] {
    let length = BODY.len();
    let post = format!(
        "POST /v3/dev HTTP/1.1\r\n{headers}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{BODY}"
    );
    let open = format!("GET /ws/v3/dev HTTP/1.1\r\n{headers}{HANDSHAKE}\r\n");
    [post, open].map(|request| {
        let mut connection = Connection::open(server.address, "/");
        connection.send(request.as_bytes());
        connection.receive()
    })
}

/// Asserts that both are answered, or refused with this message.
fn check_asked(server: &Server, case: &str, headers: &str, refusal: Option<&str>) {
    let answers = ask(server, headers);
    for (response, good) in answers.iter().zip([200, 101]) {
        let case = format!("{case}, {good}");
        let expected = if refusal.is_some() { 403 } else { good };
        check(&case, &response.status, &expected);
        if let Some(message) = refusal {
            let error = &json(&response.body)["error"];
            check(&case, &error["code"], &Value::from(-32002));
            check(&case, &error["message"], &Value::from(message));
            // A developer's script can read why.
            let cors = response.header("access-control-allow-origin");
            check(&case, &cors, &Some("*"));
        }
    }
}

/// A host, an origin, and the message of the refusal if there is one. No host, or two of them, are
/// malformed HTTP.
const CASES: &[(&str, Option<&str>, Option<&str>)] = &[
    ("localhost", None, None),
    ("127.0.0.1:8545", None, None),
    ("[::1]:8545", None, None),
    ("app.localhost:1", None, None),
    ("dev.example.org:8545", None, None),
    ("example.org", None, Some(HOST)),
    ("localhost.example.org", None, Some(HOST)),
    ("192.168.1.2:8545", None, Some(HOST)),
    ("", None, Some(HOST)),
    ("localhost", Some("http://localhost:3000"), None),
    ("localhost", Some("http://127.0.0.1:3000"), None),
    ("localhost", Some("chrome-extension://abcdefgh"), None),
    ("localhost", Some("moz-extension://abcd-efgh"), None),
    ("localhost", Some("safari-web-extension://ABCD-EFGH"), None),
    ("localhost", Some("https://example.org"), Some(ORIGIN)),
    ("localhost", Some("http://dev.example.org"), Some(ORIGIN)),
    ("localhost", Some("null"), Some(ORIGIN)),
    ("localhost", Some("\u{e9}"), Some(ORIGIN)),
    ("localhost", Some(""), Some(ORIGIN)),
    ("example.org", Some("http://localhost:3000"), Some(HOST)),
];

#[test]
fn the_default_key_serves_this_machine_alone() {
    let server = start(&["--allowed-host", "Dev.Example.org"]);
    for (host, origin, refusal) in CASES {
        let case = format!("{host:?} {origin:?}");
        check_asked(&server, &case, &headers(host, *origin), *refusal);
    }
    // A secret beside the key is no way around it.
    let bearer = headers("example.org", None) + "authorization: Bearer dev\r\n";
    check_asked(&server, "a bearer token", &bearer, Some(HOST));
}

#[test]
fn a_key_that_the_operator_gives_serves_every_page() {
    let server = start(&["--api-key", "dev=dev"]);
    for (host, origin, _) in CASES {
        let case = format!("{host:?} {origin:?}");
        check_asked(&server, &case, &headers(host, *origin), None);
    }
}

#[test]
fn the_admin_listener_is_reached_by_allowed_hosts_alone() {
    let server = start(&["--allowed-host", "dev.example.org"]);
    let admin = server.admin.unwrap();
    let metrics = server
        .process
        .output
        .wait_for("the metrics listener", |text| printed(text, "metrics"));
    for (host, _, refusal) in CASES.iter().filter(|(_, origin, _)| origin.is_none()) {
        for (path, on_admin, on_metrics) in [
            ("/health", 200, 200),
            ("/ready", 200, 200),
            ("/metrics", 200, 200),
            // Who has not logged in is sent to the page for that.
            ("/", 303, 404),
            ("/admin/api/v1/me", 401, 404),
            ("/unknown", 404, 404),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\n{}\r\n", headers(host, None));
            let [from_admin, from_metrics] = [admin, metrics].map(|address| {
                let mut connection = Connection::open(address, path);
                connection.send(request.as_bytes());
                connection.receive()
            });
            let case = format!("{path} {host:?}");
            check(&case, &from_metrics.status, &on_metrics);
            let expected = if refusal.is_some() { 403 } else { on_admin };
            check(&case, &from_admin.status, &expected);
            if let Some(message) = refusal {
                let error = &json(&from_admin.body)["error"];
                check(&case, &error["message"], &Value::from(*message));
            }
        }
    }
}
