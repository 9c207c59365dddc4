//! The keys of the configuration while the service runs.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    harness::{Connection, Server, check, nearhead, scratch},
    websocket::client::Client,
};

/// Replaces a file as editors and orchestrators do: at once.
fn replace(file: &Path, keys: &[&str]) {
    let next = file.with_extension("next");
    fs::write(&next, format!("api-key = {keys:?}\n")).unwrap();
    fs::rename(next, file).unwrap();
}

/// The status of a request with this key.
fn status(server: &Server, key: &str) -> u16 {
    let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    connection.post(request.to_string()).status
}

fn session(server: &Server, key: &str) -> Client {
    Client::open(server.address, &format!("/ws/v3/{key}"))
}

#[test]
fn a_changed_file_replaces_keys_and_closes_only_their_sessions() {
    let file = scratch("keys").with_extension("toml");
    replace(&file, &["alice=a1", "bob=b1"]);
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
    ];
    let server = Server::of(&mut nearhead(arguments));
    let [mut alice, mut bob] = ["a1", "b1"].map(|key| session(&server, key));
    for client in [&mut alice, &mut bob] {
        check(
            "before",
            &client.call("eth_chainId", &json!([]))["id"].is_null(),
            &false,
        );
    }

    replace(&file, &["bob=b1", "carol=c1"]);
    // Without a look at each moment: too many guesses would be throttled.
    let log = "the keys of the configuration were read again";
    server
        .process
        .output
        .wait_for(log, |text| text.contains(log).then_some(()));
    check("carol", &status(&server, "c1"), &200);
    check("alice", &status(&server, "a1"), &401);
    check("bob", &status(&server, "b1"), &200);
    let closed = alice.close_code();
    let expected = (4401, "the key was revoked or has expired".to_owned());
    check("her session", &closed, &expected);
    check(
        "his session",
        &bob.call("eth_chainId", &json!([]))["id"].is_null(),
        &false,
    );

    // A file that cannot be read changes nothing.
    let log = "the configuration cannot be read again: the keys stay";
    fs::write(&file, "api-key = [\n").unwrap();
    server
        .process
        .output
        .wait_for(log, |text| text.contains(log).then_some(()));
    check("bob", &status(&server, "b1"), &200);
    check(
        "his session",
        &bob.call("eth_chainId", &json!([]))["id"].is_null(),
        &false,
    );
}

#[test]
fn a_hangup_reads_the_keys_again_and_ends_nothing() {
    let server = Server::start(&[]);
    let mut client = session(&server, crate::harness::KEY);
    server.process.hang_up();
    let log = "the keys of the configuration were read again";
    server
        .process
        .output
        .wait_for(log, |text| text.contains(log).then_some(()));
    check(
        "the session",
        &client.call("eth_chainId", &json!([]))["id"].is_null(),
        &false,
    );
}

/// SIGHUP reads a file again whose size and time have not changed, for which nothing else looks.
#[test]
fn a_hangup_replaces_the_keys_of_a_file() {
    let file = scratch("keys-hangup").with_extension("toml");
    replace(&file, &["alice=a1"]);
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
    ];
    let server = Server::of(&mut nearhead(arguments));
    check("before", &status(&server, "a1"), &200);
    let mut before = session(&server, "a1");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "api-key = [\"alice=a2\"]\n").unwrap();
    let written = fs::File::options().write(true).open(&file).unwrap();
    written.set_modified(time).unwrap();
    server.process.hang_up();
    let closed = before.close_code();
    let expected = (4401, "the key was revoked or has expired".to_owned());
    check("the session", &closed, &expected);
    check("old", &status(&server, "a1"), &401);
    check("new", &status(&server, "a2"), &200);
}

/// Keys of the environment let clients in, and stay when the configuration is read again.
#[test]
fn keys_stand_in_the_environment() {
    let file = scratch("keys-environment").with_extension("toml");
    replace(&file, &["alice=a1"]);
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--config",
        file.to_str().unwrap(),
    ];
    let mut command = nearhead(arguments);
    command.env("NEARHEAD_API_KEY", "bob=b1,carol=c1");
    let server = Server::of(&mut command);
    let mut bob = session(&server, "b1");
    for _ in 0..2 {
        // The environment takes the place of the file.
        for (key, expected) in [("b1", 200), ("c1", 200), ("a1", 401)] {
            check(key, &status(&server, key), &expected);
        }
        server.process.hang_up();
        let log = "the keys of the configuration were read again";
        server
            .process
            .output
            .wait_for(log, |text| text.contains(log).then_some(()));
    }
    let answer = bob.call("eth_chainId", &json!([]));
    check("his session", &answer["result"].is_string(), &true);
}

/// The status of a request to this path with this header.
fn status_with(server: &Server, path: &str, authorization: &str) -> u16 {
    let mut connection = Connection::open(server.address, path);
    let headers = ["content-type: application/json", authorization];
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    let request = connection.request(&headers, request.to_string().as_bytes());
    connection.send(&request);
    connection.receive().status
}

#[test]
fn a_key_stands_in_the_path_or_in_a_header() {
    let server = Server::start(&[]);
    let key = crate::harness::KEY;
    let in_path = format!("/v3/{key}");
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    for (path, authorization, expected) in [
        (&*in_path, "x-other: 1".to_owned(), 200),
        ("/v3", bearer(key), 200),
        ("/v3/", bearer(key), 200),
        ("/v3", bearer("another"), 401),
        ("/v3", "x-other: 1".to_owned(), 401),
        ("/v3", format!("authorization: Basic {key}"), 401),
        // A key without a secret ignores what stands beside it.
        (&*in_path, bearer("another"), 200),
    ] {
        let status = status_with(&server, path, &authorization);
        check(&format!("{path} {authorization}"), &status, &expected);
    }
    let header = [&*bearer(key)];
    let mut client = Client::open_with(server.address, "/ws/v3", &header);
    check(
        "a session",
        &client.call("eth_chainId", &json!([]))["id"].is_null(),
        &false,
    );
}
