//! Answers in JSON, and what commands on a data folder change for the service that starts on it.

use serde_json::{Value, json};

use super::place::{PASSWORD, Place};
use crate::harness::{Connection, json as parse, wait_until};

/// Commands that read, and the path of the API that has the same.
const READS: [(&str, &str); 9] = [
    ("key list", "/keys?limit=100"),
    ("key list --tenant acme", "/keys?limit=100&tenant=acme"),
    (
        "key list --state revoked --sort created --descending",
        "/keys?limit=100&state=revoked&sort=created&descending=true",
    ),
    (
        "key list --search web --limit 1 --offset 1",
        "/keys?limit=1&offset=1&search=web",
    ),
    ("tenant list", "/tenants?limit=100"),
    ("tenant list --search cm", "/tenants?limit=100&search=cm"),
    ("tenant show acme", "/tenants/acme"),
    ("admin list", "/accounts"),
    ("admin token list", "/tokens"),
];

/// What the API answers.
fn api(place: &Place, path: &str) -> Value {
    let Place::Service { server, token, .. } = place else {
        panic!("no service")
    };
    let path = format!("/admin/api/v1{path}");
    let mut connection = Connection::open(server.admin.unwrap(), &path);
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
    connection.send(request.as_bytes());
    let response = connection.receive();
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    parse(&response.body)
}

/// Whether a key is let in.
fn is_let_in(place: &Place, key: &str, headers: &[&str]) -> bool {
    let mut connection = Connection::open(place.server().address, &format!("/v3/{key}"));
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let headers = [&["content-type: application/json"], headers].concat();
    let request = connection.request(&headers, body.as_bytes());
    connection.send(&request);
    connection.receive().status == 200
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The answers of commands are those of the API, and a data folder has the same ones.
#[test]
fn json_is_that_of_the_api() {
    let place = Place::folder("commands-json");
    for line in [
        "tenant create acme --sessions 5 --weight 3 --units-per-second 100:500",
        "key create --tenant acme --name web --origin https://app.example.org --expires 90d",
        "key create --tenant other --create-tenant --name web --secret required",
        "key create --tenant other --name old",
        "key revoke old --yes",
    ] {
        let ran = place.run(&words(line));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
    }
    let alice = place.run_with(&words("admin create-account alice"), PASSWORD);
    assert_eq!(alice.code, Some(0), "{}", alice.err);
    place.token(&["--expires", "30d"]);
    // It makes one more token.
    let place = place.start();
    for (line, path) in READS {
        assert_eq!(place.json(&words(line)), api(&place, path), "{line}");
    }
    let in_service = |line: &str| place.json(&words(line));
    let all: Vec<Value> = READS.map(|(line, _)| in_service(line)).into();
    let key = |name: &str| in_service(&format!("key show {name}"));
    let old = key("old");
    let id = old["id"].as_str().unwrap();
    assert_eq!(api(&place, &format!("/keys/{id}")), old);
    for text in [&id[..8], old["prefix"].as_str().unwrap()] {
        let found = place.run(&["key", "show", text, "--json"]);
        assert_eq!(
            (found.code, parse(found.out.as_bytes())),
            (Some(0), old.clone()),
            "{text}"
        );
    }
    let usage = in_service("key usage old --last 1h --by method,outcome");
    assert_eq!(usage["rows"], json!([]));
    let place = place.stop();
    for ((line, _), expected) in READS.iter().zip(all) {
        let found = place.json(&words(line));
        assert_eq!(
            without_configured(found),
            without_configured(expected),
            "{line}"
        );
    }
    assert_eq!(place.json(&words("key show old")), old);
}

/// An answer without the keys and tenants of the configuration, which only a service has.
fn without_configured(mut answer: Value) -> Value {
    let Some(members) = answer.as_object_mut() else {
        return answer;
    };
    let mut left_out = 0;
    for list in ["keys", "tenants"] {
        if let Some(list) = members.get_mut(list).and_then(Value::as_array_mut) {
            let before = list.len();
            list.retain(|item| item["source"] != "configured");
            left_out += before - list.len();
        }
    }
    if let Some(total) = members.get_mut("total") {
        *total = json!(total.as_u64().unwrap() - left_out as u64);
    }
    answer
}

/// Keys that were made on a data folder let clients in, and so do those made on a service.
#[test]
fn keys_work() {
    let place = Place::folder("commands-keys");
    let create = "key create --tenant acme --create-tenant --name ";
    let made = |place: &Place, more: &str| {
        let made = place.json(&words(&format!("{create}{more}")));
        let text = |member: &str| made[member].as_str().map(str::to_owned);
        (text("key").unwrap(), text("secret"))
    };
    let (before, _) = made(&place, "before");
    let (with_secret, secret) = made(&place, "secret --secret required");
    let secret = format!("authorization: Bearer {}", secret.unwrap());
    let place = place.start();
    let (after, _) = made(&place, "after");
    for key in [&before, &after] {
        assert!(is_let_in(&place, key, &[]), "{key}");
    }
    assert!(!is_let_in(&place, &with_secret, &[]));
    assert!(is_let_in(&place, &with_secret, &[&secret]));
    // A limit, a rotation and a revocation are in force when the command ends.
    let done = |line: &str| {
        let ran = place.run(&words(line));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
    };
    done("key limit secret --no-secret");
    assert!(is_let_in(&place, &with_secret, &[]));
    done("key limit after --origin https://app.example.org");
    assert!(!is_let_in(&place, &after, &[]));
    assert!(is_let_in(
        &place,
        &after,
        &["origin: https://app.example.org"]
    ));
    let rotated = place.json(&words("key rotate before --old-expires 0s"));
    assert!(!is_let_in(&place, &before, &[]));
    let successor = rotated["key"].as_str().unwrap();
    assert!(is_let_in(&place, successor, &[]));
    // The name stands for the successor, because the old key is over.
    done("key revoke before --yes");
    assert!(!is_let_in(&place, successor, &[]));
    // A worker hands over what it has counted four times a second.
    wait_until("usage is counted", || {
        let usage = place.json(&words("key usage secret --by method"));
        usage["rows"][0]["method"] == "eth_chainId"
    });
    done("tenant remove acme --yes");
    assert!(!is_let_in(&place, &with_secret, &[]));
}

/// A password that was set lets its account in, and the one before no longer does.
#[test]
fn passwords_are_reset() {
    let log_in = |place: &Place, name: &str, password: &str| {
        let path = "/admin/api/v1/login";
        let mut connection = Connection::open(place.server().admin.unwrap(), path);
        let body = json!({"name": name, "password": password}).to_string();
        let headers = [
            "content-type: application/json",
            "sec-fetch-site: same-origin",
        ];
        let request = connection.request(&headers, body.as_bytes());
        connection.send(&request);
        connection.receive().status
    };
    let reset = |place: &Place, line: &str, password: &str| {
        let ran = place.run_with(&words(line), password);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
        ran.out
    };
    let [one, two, three] = [
        "the first password",
        "the second password",
        "the third password",
    ];
    let place = Place::folder("commands-passwords");
    let out = reset(&place, "admin reset-password", one);
    assert_eq!(out, "made the administrator admin\n");
    let place = place.start();
    assert_eq!(log_in(&place, "admin", one), 200);
    let out = reset(&place, "admin reset-password", two);
    assert_eq!(out, "changed the password of admin, and ended its logins\n");
    assert_eq!(log_in(&place, "admin", one), 401);
    assert_eq!(log_in(&place, "admin", two), 200);
    let place = place.stop();
    reset(&place, "admin reset-password admin", three);
    reset(&place, "admin create-account alice", one);
    let several = place.run_with(&words("admin reset-password"), two);
    assert_eq!(several.code, Some(2), "{}", several.err);
    assert!(
        several.err.contains("several administrators"),
        "{}",
        several.err
    );
    let place = place.start();
    assert_eq!(log_in(&place, "admin", two), 401);
    assert_eq!(log_in(&place, "admin", three), 200);
    assert_eq!(log_in(&place, "alice", one), 200);
}
