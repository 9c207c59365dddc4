//! The PROXY protocol: whoever a trusted proxy names is the client, and nobody else may connect.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::harness::{Connection, KEY, PATIENCE, Server, check, json as parse, wait_until};

/// A header with this command, family and addresses.
pub(crate) fn header(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    [&signature[..], &[command, family], &length, addresses].concat()
}

/// The header of a client at this address, who connects to another one.
pub(crate) fn header_of(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().unwrap();
    let ports = [client.port().to_be_bytes(), [1, 187]].concat();
    match client {
        SocketAddr::V4(at) => {
            let source = at.ip().octets();
            header(0x21, 0x11, &[&source[..], &[10, 0, 0, 1], &ports].concat())
        }
        SocketAddr::V6(at) => {
            let source = at.ip().octets();
            header(0x21, 0x21, &[&source[..], &[1; 16], &ports].concat())
        }
    }
}

/// Connects from the proxy, or from another address, and sends these bytes.
pub(crate) fn connect(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

pub(crate) const PROXY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A proxy at [`PROXY`], and a log of requests.
pub(crate) const OPTIONS: [&str; 7] = [
    "--proxy-protocol",
    "--trusted-proxy",
    "127.0.0.2",
    "--log-format",
    "json",
    "--log-filter",
    "info,nearhead::access=debug",
];

fn start(arguments: &[&str]) -> Server {
    let still = ["--block-time", "0s"];
    let all = [&still[..], &OPTIONS, arguments].concat();
    Server::listening(&mut crate::harness::serving(&all))
}

/// Whether the server closes a connection without a byte.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut bytes);
    bytes.is_empty()
}

fn refused(server: &Server, reason: &str) -> f64 {
    let series = format!(r#"nearhead_proxy_headers_refused_total{{reason="{reason}"}}"#);
    let metrics = server.get_admin("/metrics");
    let mut lines = metrics.text().lines();
    let value = lines.find_map(|line| line.strip_prefix(&series)?.trim().parse().ok());
    // A series with labels appears with its first event.
    value.unwrap_or(0.0)
}

/// The line of the access log of a request with this id on a connection.
fn logged(server: &Server, connection: &mut Connection, id: &str) -> Value {
    let id_line = format!("x-request-id: {id}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    let headers = [
        "content-type: application/json",
        &*id_line,
        "x-forwarded-for: 9.9.9.9",
    ];
    let request = connection.request(&headers, body.to_string().as_bytes());
    connection.send(&request);
    check(id, &connection.receive().status, &200);
    server.process.output.wait_for(id, |text| {
        let id = format!(r#""request_id":"{id}""#);
        let line = text.lines().find(|line| line.contains(&id))?;
        Some(parse(line.as_bytes()))
    })
}

#[test]
fn the_client_is_the_one_that_a_proxy_names() {
    let server = start(&[]);
    let unknown = header(0x21, 0x00, &[]);
    for (id, bytes, peer) in [
        ("v4", header_of("192.0.2.7:4711"), "192.0.2.7:4711"),
        ("v6", header_of("[2001:db8::7]:4712"), "[2001:db8::7]:4712"),
        ("local", header(0x20, 0x00, &[]), "127.0.0.2:"),
        ("unknown", unknown, "127.0.0.2:"),
    ] {
        let stream = connect(PROXY, server.address, &bytes);
        let mut connection = Connection::on(stream, &format!("/v3/{KEY}"));
        // One header is for all requests.
        for at in 0..2 {
            let line = logged(&server, &mut connection, &format!("{id}-{at}"));
            assert!(line["peer"].as_str().unwrap().starts_with(peer), "{line}");
            // Only a proxy's header names somebody else.
            let named = if peer.ends_with(':') {
                json!("9.9.9.9")
            } else {
                Value::Null
            };
            check(id, &line["client"], &named);
        }
    }
    for reason in ["untrusted", "malformed", "late"] {
        check(reason, &refused(&server, reason), &0.0);
    }
}

#[test]
fn others_may_not_connect_and_other_headers_are_refused() {
    let server = start(&["--header-timeout", "1s"]);
    let request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let good = header_of("192.0.2.7:4711");
    let with_request = [&good[..], request].concat();
    for from in [[127, 0, 0, 1], [127, 0, 0, 3]] {
        assert!(is_closed(connect(
            from.into(),
            server.address,
            &with_request
        )));
    }
    wait_until("both are counted", || refused(&server, "untrusted") == 2.0);
    let mut count = 0.0;
    for bytes in [
        &request[..],
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\nGET / HTTP/1.1\r\n\r\n",
        &header(0x21, 0x12, &[0; 12]),
        &header(0x21, 0x11, &[0; 11]),
        &header(0x21, 0x11, &[0; 521]),
        &header(0x31, 0x11, &[0; 12]),
        &header(0x2f, 0x11, &[0; 12]),
    ] {
        assert!(
            is_closed(connect(PROXY, server.address, bytes)),
            "{bytes:?}"
        );
        count += 1.0;
        wait_until("it is counted", || refused(&server, "malformed") == count);
    }
    for bytes in [&[][..], &good[..good.len() - 1]] {
        assert!(
            is_closed(connect(PROXY, server.address, bytes)),
            "{bytes:?}"
        );
    }
    wait_until("both are counted", || refused(&server, "late") == 2.0);
}

/// A network has as many strangers as it may have, through however many proxies they come.
#[test]
fn connections_are_counted_by_the_address_that_is_named() {
    let limits = ["--workers", "1", "--connections-per-address", "2"];
    let server = start(&limits);
    let evicted =
        || server.metric(r#"nearhead_strangers_evicted_total{listener="public",reason="address"}"#);
    let strangers = r#"nearhead_connections{key="none",listener="public"}"#;
    let open = |client: String| connect(PROXY, server.address, &header_of(&client));
    let _others: Vec<_> = (1..6).map(|at| open(format!("192.0.2.{at}:1"))).collect();
    let mut one: Vec<_> = (1..4)
        .map(|port| open(format!("198.51.100.1:{port}")))
        .collect();
    wait_until("one is evicted", || evicted() == 1.0);
    assert!(is_closed(one.remove(0)), "the first one is");
    wait_until("the others stay", || server.metric(strangers) == 7.0);
    check("no other", &evicted(), &1.0);
}
