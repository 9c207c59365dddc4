//! The access log has every request, under the id in its response, and no key.

use serde_json::{Value, json};

use crate::harness::{Connection, KEY, Server, check, json};

const LOGGED: &[&str] = &[
    "--log-format",
    "json",
    "--log-filter",
    "info,nearhead::access=debug",
];

/// Posts a body with these headers; returns the id in the response.
fn id_of(connection: &mut Connection, headers: &[&str], body: &[u8]) -> String {
    let request = connection.request(headers, body);
    connection.send(&request);
    let response = connection.receive();
    let id = response.header("x-request-id");
    id.unwrap_or_else(|| panic!("no id: {response:?}"))
        .to_owned()
}

/// The log line of the request with this id.
fn logged(server: &Server, id: &str) -> Value {
    server.process.output.wait_for(id, |text| {
        let mut lines = text.lines().filter(|line| line.starts_with('{'));
        let line = lines.find(|line| line.contains(&format!(r#""request_id":"{id}""#)))?;
        Some(json(line.as_bytes()))
    })
}

#[test]
fn every_request_is_logged_under_the_id_in_its_response() {
    let server = Server::execution_apis(LOGGED);
    let json_type = "content-type: application/json";
    let good = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let mut connection = server.connect();
    let own = id_of(
        &mut connection,
        &[json_type, "x-request-id: my-own-1"],
        good,
    );
    check("own id", &own, &"my-own-1".into());
    let generated = id_of(&mut connection, &[json_type], good);
    let another = id_of(&mut connection, &[json_type], good);
    assert_ne!(generated, another, "each request gets a new id");
    let unknown = br#"{"jsonrpc":"2.0","id":1,"method":"eth_mine"}"#;
    let unknown = id_of(&mut connection, &[json_type], unknown);
    let wrong_type = id_of(&mut connection, &[], good);
    let mut unauthorized = Connection::open(server.address, "/v3/a-key-that-is-wrong");
    let wrong_key = id_of(&mut unauthorized, &[json_type], good);
    let mut lost = Connection::open(server.address, "/v9/a-key-that-is-lost");
    let no_path = id_of(&mut lost, &[json_type], good);

    for (id, method, outcome, status) in [
        ("my-own-1", "eth_chainId", json!("ok"), 200),
        (&generated, "eth_chainId", json!("ok"), 200),
        (&unknown, "unknown", json!("invalid"), 200),
        (&wrong_type, "none", json!("invalid"), 415),
        (&wrong_key, "none", json!("denied"), 401),
        (&no_path, "none", Value::Null, 404),
    ] {
        let line = logged(&server, id);
        let seen = [&line["method"], &line["outcome"], &line["status"]];
        check(
            &line.to_string(),
            &seen,
            &[&json!(method), &outcome, &json!(status)],
        );
        assert!(line["bytes"].as_u64() > Some(0), "{line}");
        assert!(
            line["micros"].is_u64() && line["peer"].is_string(),
            "{line}"
        );
    }
    server.process.terminate();
    let (_, text) = server.process.wait();
    for key in [KEY, "a-key-that-is-wrong", "a-key-that-is-lost"] {
        let logged = text.lines().filter(|line| line.starts_with('{'));
        let leaks: Vec<&str> = logged.filter(|line| line.contains(key)).collect();
        assert!(leaks.is_empty(), "{leaks:?}");
    }
}

#[test]
fn without_the_log_client_ids_are_echoed_and_none_is_generated() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let good = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    for (header, expected) in [
        ("x-request-id: abc", Some("abc")),
        ("x-request-id: a b", None),
        ("x-other: abc", None),
    ] {
        let request = connection.request(&["content-type: application/json", header], good);
        connection.send(&request);
        check(
            header,
            &connection.receive().header("x-request-id"),
            &expected,
        );
    }
}
