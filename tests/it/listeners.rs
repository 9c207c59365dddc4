//! The public, the admin and the metrics listener: what each of them answers, and that they do not
//! starve each other.

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};

use crate::harness::{
    Connection, KEY, Process, Server, check, get, json as parse, nearhead, printed, wait_until,
};

/// A dev chain that does not grow.
const STILL: [&str; 2] = ["--block-time", "0s"];

/// A server with all three listeners, and the address of the last.
fn with_metrics(arguments: &[&str]) -> (Server, SocketAddr) {
    let metrics = ["--metrics-listen", "127.0.0.1:0"];
    let server = Server::start(&[&STILL[..], &metrics, arguments].concat());
    let address = server
        .process
        .output
        .wait_for("the metrics listener", |text| printed(text, "metrics"));
    (server, address)
}

#[test]
fn each_listener_has_its_own_routes() {
    let (server, metrics) = with_metrics(&[]);
    let admin = server.admin.unwrap();
    let up = json!({"status": "up"});
    let rpc = format!("/v3/{KEY}");
    let session = format!("/ws/v3/{KEY}");
    for (listener, address, path, status, body) in [
        ("public", server.address, "/health", 200, Some(up.clone())),
        (
            "public",
            server.address,
            "/ready",
            200,
            Some(json!({"ready": true})),
        ),
        ("public", server.address, "/metrics", 404, None),
        ("admin", admin, "/health", 200, Some(up.clone())),
        ("admin", admin, &rpc, 404, None),
        ("admin", admin, &session, 404, None),
        ("admin", admin, "/v3/", 404, None),
        ("metrics", metrics, "/health", 200, Some(up)),
        ("metrics", metrics, "/", 404, None),
        ("metrics", metrics, &rpc, 404, None),
        ("metrics", metrics, &session, 404, None),
    ] {
        let response = get(address, path);
        let case = format!("{path} of the {listener} listener");
        check(&case, &response.status, &status);
        if let Some(body) = body {
            check(&case, &parse(&response.body), &body);
        }
    }
    for (listener, address) in [("admin", admin), ("metrics", metrics)] {
        let ready = parse(&get(address, "/ready").body);
        let expected = [
            ("ready", json!(true)),
            ("missing", json!([])),
            ("blocks", json!(128)),
        ];
        for (member, value) in expected {
            check(
                &format!("{listener}: {member} in {ready}"),
                &ready[member],
                &value,
            );
        }
        let response = get(address, "/metrics");
        check(listener, &response.status, &200);
        assert!(
            response.text().contains("\nnearhead_head_number "),
            "{listener}"
        );
        let cors = response.header("access-control-allow-origin");
        check(&format!("{listener}: no page may read it"), &cors, &None);
        let mut connection = Connection::open(address, "/metrics");
        check(listener, &connection.post("{}").status, &405);
        check(
            listener,
            &connection.post("{}").header("allow"),
            &Some("GET, HEAD"),
        );
    }
}

/// Whether the listener answers a new connection.
fn call(server: &Server) -> Value {
    server.connect().result("eth_chainId", &json!([]))
}

/// Connections that use up a listener: more than it has, none of which ends.
fn crowd(address: SocketAddr, count: usize) -> Vec<Connection> {
    let begin = |_| {
        let mut connection = Connection::open(address, "/health");
        connection.send(b"POST /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n");
        connection
    };
    (0..count).map(begin).collect()
}

#[test]
fn a_crowd_at_one_listener_does_not_starve_the_others() {
    let limits = ["--workers", "1", "--max-connections", "4"];
    let (server, metrics) = with_metrics(&limits);
    let admin = server.admin.unwrap();
    let clients = crowd(server.address, 8);
    wait_until("the public listener is full", || {
        let evicted = r#"nearhead_strangers_evicted_total{listener="public",reason="slots"}"#;
        server.metric(evicted) >= 5.0
    });
    for address in [admin, metrics] {
        check("ready", &get(address, "/ready").status, &200);
    }
    check("a key's holder", &call(&server), &json!("0x539"));
    drop(clients);
    for address in [admin, metrics] {
        let operators = crowd(address, 72);
        check("in the crowd", &get(address, "/ready").status, &200);
        check("a call", &call(&server), &json!("0x539"));
        for other in [admin, metrics]
            .into_iter()
            .filter(|other| *other != address)
        {
            check("ready", &get(other, "/ready").status, &200);
        }
        drop(operators);
        check("ready again", &get(address, "/ready").status, &200);
    }
}

#[test]
fn a_taken_address_that_was_asked_for_is_refused() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0".to_owned();
    for addresses in [
        [&taken, &free, &free],
        [&free, &taken, &free],
        [&free, &free, &taken],
    ] {
        let options = ["--listen", "--admin-listen", "--metrics-listen"];
        let arguments = options.into_iter().zip(addresses);
        let arguments = arguments.flat_map(|(option, address)| [option, address.as_str()]);
        let (status, output) = Process::start(&mut nearhead(arguments)).wait();
        check(&output, &status.code(), &Some(1));
        let expected = format!("nearhead: cannot listen on {taken}: ");
        assert!(output.contains(&expected), "{addresses:?}: {output}");
    }
}

#[test]
fn a_taken_default_is_replaced_by_a_free_port() {
    let (_held, server, admin) = loop {
        // Another program may have it, as long as it likes.
        let held = TcpListener::bind("127.0.0.1:8590").ok();
        let mut command = nearhead(["--block-time", "0s", "--listen", "127.0.0.1:0"]);
        let server = Server::of(&mut command);
        let admin = server.admin.unwrap();
        if admin.port() != 8_590 {
            break (held, server, admin);
        }
        assert!(held.is_none(), "two programs listen on one port");
        // The other program has ended meanwhile.
    };
    let warning = format!("127.0.0.1:8590 is taken, so the admin listener is on {admin}");
    server
        .process
        .output
        .wait_for("the warning", |text| text.contains(&warning).then_some(()));
    check("metrics", &server.get_admin("/metrics").status, &200);
}

#[test]
fn all_listeners_stop_with_the_service() {
    let (server, metrics) = with_metrics(&["--shutdown-grace", "1h"]);
    // Idle connections of a scraper and of a browser do not hold it up.
    let mut idle: Vec<Connection> = [server.admin.unwrap(), metrics]
        .map(|address| Connection::open(address, "/health"))
        .into();
    for connection in &mut idle {
        connection.send(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n");
        check("health", &connection.receive().status, &200);
    }
    server.process.terminate();
    server.process.check_end(0);
}

#[test]
fn without_an_admin_listener_metrics_have_their_own() {
    let mut command = nearhead([
        "--block-time",
        "0s",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "off",
        "--metrics-listen",
        "127.0.0.1:0",
    ]);
    let server = Server::of(&mut command);
    check("no admin listener", &server.admin, &None);
    let metrics = server
        .process
        .output
        .wait_for("the metrics listener", |text| printed(text, "metrics"));
    check("metrics", &get(metrics, "/metrics").status, &200);
}
