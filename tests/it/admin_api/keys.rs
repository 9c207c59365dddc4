//! Tenants and keys from their making to their end.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::client::{Admin, id_and_key, send};
use crate::{
    harness::{Connection, KEY, Server, check, wait_until},
    websocket::client::Client,
};

/// A dev chain that does not grow.
const STILL: [&str; 2] = ["--block-time", "0s"];

/// The answer to a call with this key, on a new connection.
fn call(server: &Server, key: &str) -> crate::harness::Response {
    let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    connection.post(request.to_string())
}

fn status(server: &Server, key: &str) -> u16 {
    call(server, key).status
}

#[test]
fn a_key_is_made_used_limited_rotated_and_revoked() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let tenant = admin.tenant("Acme <b>& co</b>");
    let (id, key) = admin.key("Acme <b>& co</b>", "wallet");
    check("at once", &status(&server, &key), &200);
    let path = format!("/keys/{id}");
    let view = admin.get(&path);
    check("prefix", &view["prefix"], &json!(key[..6]));
    check("tenant", &view["tenant"]["id"], &json!(tenant));
    assert!(!view.to_string().contains(&key[6..]), "{view}");

    // A limit is in force when it is answered.
    let limited = json!({"settings": {"quota": {"requests": {"perSecond": 1, "burst": 1}}}});
    admin.done("PATCH", &path, &limited, 200);
    let refused = (0..50)
        .map(|_| call(&server, &key))
        .find(|answer| answer.status == 429);
    let refused = refused.expect("one second has less than 50 requests");
    assert!(refused.header("retry-after").is_some());
    let lifted = json!({"settings": {"quota": {"requests": null}}});
    let view = admin.done("PATCH", &path, &lifted, 200);
    check("no limit", &view["settings"]["quota"], &json!({}));
    check("lifted", &status(&server, &key), &200);

    let overlap = json!({"overlap": "1h"});
    let rotate = format!("{path}/rotate");
    let (next, next_key) = id_and_key(&admin.done("POST", &rotate, &overlap, 201));
    for key in [&key, &next_key] {
        check("both", &status(&server, key), &200);
    }
    check("replaced", &admin.get(&path)["replacedBy"], &json!(next));
    admin.refused("POST", &rotate, &Value::Null, 409, "rotated");

    let mut session = Client::open(server.address, &format!("/ws/v3/{next_key}"));
    let answer = session.call("eth_chainId", &json!([]));
    check("session", &answer["result"], &json!("0x539"));
    let revoke = format!("/keys/{next}/revoke");
    let revoked = admin.done("POST", &revoke, &Value::Null, 200);
    check("state", &revoked["state"], &json!("revoked"));
    check("revoked", &status(&server, &next_key), &401);
    let expected = (4401, "the key was revoked or has expired".to_owned());
    check("the session", &session.close_code(), &expected);
    let named = json!({"name": "again"});
    admin.refused("PATCH", &format!("/keys/{next}"), &named, 409, "revoked");
    check("the other key", &status(&server, &key), &200);

    let usage = format!("/usage?key={id}&last=15m&by=method,outcome");
    wait_until("usage is seen", || {
        let rows = admin.get(&usage)["rows"].clone();
        let rows = rows.as_array().unwrap().clone();
        rows.iter().any(|row| {
            row["method"] == "eth_chainId"
                && row["outcome"] == "ok"
                && row["requests"].as_u64() >= Some(4)
        })
    });
    let (csv, _) = admin.send("GET", &format!("{usage}&format=csv"), &Value::Null);
    check(
        "csv",
        &csv.header("content-type"),
        &Some("text/csv; charset=utf-8"),
    );
    assert!(csv.text().contains(",eth_chainId,ok,"), "{}", csv.text());
    wait_until("the last use is seen", || {
        admin.get(&path)["lastUsed"].is_u64()
    });

    let audit = admin.get(&format!("/audit?tenant={tenant}"));
    let entries = audit["entries"].as_array().unwrap();
    let verbs: Vec<_> = entries
        .iter()
        .map(|entry| entry["verb"].as_str().unwrap())
        .collect();
    let expected = [
        "key.revoke",
        "key.rotate",
        "key.update",
        "key.update",
        "key.create",
        "tenant.create",
    ];
    check("audit", &verbs, &expected.to_vec());
    for entry in entries {
        let author = json!({"kind": "token", "name": "tests"});
        check("author", &entry["author"], &author);
        check("from", &entry["from"], &json!("127.0.0.1"));
    }
    for secret in [&key, &next_key] {
        assert!(
            !audit.to_string().contains(&secret[6..]),
            "a key in the audit"
        );
    }

    admin.done("DELETE", &format!("/tenants/{tenant}"), &Value::Null, 204);
    check("with its tenant", &status(&server, &key), &401);
    admin.refused("GET", &path, &Value::Null, 404, "unknown_key");
    admin.check_schemas("keys");
}

/// A key that is over is removed with its open page, and no other key.
#[test]
fn a_key_that_is_over_is_removed() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    let (id, key) = admin.key("Acme", "wallet");
    let path = format!("/keys/{id}");
    let mut session = Client::open(server.address, &format!("/ws/v3/{key}"));
    admin.refused("DELETE", &path, &Value::Null, 409, "active");
    let next = admin.done("POST", &format!("{path}/rotate"), &Value::Null, 201);
    let (next, next_key) = id_and_key(&next);
    let rotate = format!("/keys/{next}/rotate");
    admin.refused("POST", &rotate, &Value::Null, 409, "overlap");
    let long = json!({"overlap": "31d"});
    admin.refused("POST", &rotate, &long, 400, "invalid");
    admin.done("POST", &format!("{path}/revoke"), &Value::Null, 200);
    admin.done("DELETE", &path, &Value::Null, 204);
    let expected = (4401, "the key was revoked or has expired".to_owned());
    check("its session", &session.close_code(), &expected);
    for verb in ["GET", "DELETE"] {
        admin.refused(verb, &path, &Value::Null, 404, "unknown_key");
    }
    check("its key", &status(&server, &key), &401);
    check("its successor", &status(&server, &next_key), &200);
    admin.done("POST", &rotate, &json!({"overlap": "0s"}), 201);
    admin.check_schemas("removed");
}

/// The quota of a key that is rotated is not another one.
#[test]
fn a_rotation_multiplies_no_quota() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    let settings = json!({"quota": {"unitsPerDay": 5, "requests": {"perSecond": 100}}});
    let body = json!({"tenant": "Acme", "name": "wallet", "settings": settings});
    let (id, first) = id_and_key(&admin.done("POST", "/keys", &body, 201));
    let used = |key: &str| {
        let let_in = (0..10).take_while(|_| status(&server, key) == 200);
        let_in.count()
    };
    let rotate = format!("/keys/{id}/rotate");
    check("one", &status(&server, &first), &200);
    let (_, second) = id_and_key(&admin.done("POST", &rotate, &Value::Null, 201));
    assert!(used(&second) < 5);
    check("the first", &status(&server, &first), &402);
    check("the second", &status(&server, &second), &402);
}

/// A client that leaves before the end of its batch has used what was answered.
#[test]
fn a_batch_that_is_cut_off_is_charged() {
    const ITEMS: usize = 60;
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    // More than a unit for each item, less than the first item costs beside them.
    let settings = json!({"quota": {"unitsPerDay": 1_100}});
    let body = json!({"tenant": "Acme", "name": "wallet", "settings": settings});
    let (_, key) = id_and_key(&admin.done("POST", "/keys", &body, 201));
    let slots: Vec<_> = (0..1_024).map(|slot| format!("{slot:#x}")).collect();
    let params = json!([
        "0xde00000000000000000000000000000000000001",
        slots,
        "latest"
    ]);
    let item = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getProof", "params": params});
    let mut session = Client::open(server.address, &format!("/ws/v3/{key}"));
    session.text(&Value::from(vec![item; ITEMS]).to_string());
    let answered = "nearhead_requests_total{method=\"eth_getProof\",outcome=\"ok\"}";
    wait_until("an item is answered", || server.metric(answered) >= 1.0);
    drop(session);
    check("the next request", &status(&server, &key), &402);
}

/// What somebody has changed since it was read is not changed back.
#[test]
fn a_change_of_an_older_version_is_refused() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let tenant = admin.tenant("Acme");
    let (id, _) = admin.key("Acme", "wallet");
    let key = format!("/keys/{id}");
    for path in [key.clone(), format!("/tenants/{tenant}")] {
        let (response, view) = admin.send("GET", &path, &Value::Null);
        let etag = response.header("etag").expect("a version").to_owned();
        check("etag", &etag, &format!("{}", view["version"]));
        let change = |admin: &mut Admin, name: &str, if_match: &str| {
            let headers = admin.headers.clone();
            admin.headers.push(format!("if-match: {if_match}"));
            let (response, answer) = admin.send("PATCH", &path, &json!({"name": name}));
            admin.headers = headers;
            let code = answer["error"]["code"].as_str().unwrap_or_default();
            let etag = response.header("etag").unwrap_or_default().to_owned();
            (response.status, code.to_owned(), etag)
        };
        let (status, _, next) = change(&mut admin, "one", &etag);
        check("fresh", &status, &200);
        let stale = (412, "stale".to_owned(), String::new());
        check("stale", &change(&mut admin, "two", &etag), &stale);
        check("fresh again", &change(&mut admin, "three", &next).0, &200);
        check("any", &change(&mut admin, "four", "*").0, &200);
        // Well-formed ones that are not the version, which no weak one is.
        for other in [r#""a""#, r#"W/"a""#, &format!("W/{next}"), r#""""#] {
            check(other, &change(&mut admin, "x", other), &stale);
        }
        for malformed in ["one", "\"a\", \"b\"", "\"a", "W/a", "w/\"a\"", ""] {
            let invalid = (400, "invalid".to_owned(), String::new());
            check(malformed, &change(&mut admin, "x", malformed), &invalid);
        }
        let body = json!({"name": "x", "ifVersion": "0"});
        admin.refused("PATCH", &path, &body, 400, "invalid");
        check("the last one", &admin.get(&path)["name"], &json!("four"));
    }
    admin.headers.push("if-match: \"a\"".to_owned());
    let revoke = format!("{key}/revoke");
    admin.refused("POST", &revoke, &Value::Null, 400, "invalid");
}

/// The page of a form that is stale has what is stored beside what was typed.
#[test]
fn a_stale_form_overwrites_nothing() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let tenant = admin.tenant("Acme");
    let (id, _) = admin.key("Acme", "wallet");
    let address = server.admin.unwrap();
    for (page, other) in [
        (
            format!("/keys/{id}"),
            json!({"settings": {"quota": {"unitsPerDay": 77}}}),
        ),
        (
            format!("/tenants/{tenant}"),
            json!({"limits": {"quota": {"unitsPerDay": 77}}}),
        ),
    ] {
        let headers = admin.headers.clone();
        let version = |page: &str| {
            let (_, rest) = page
                .split_once("name=\"version\" value=\"")
                .expect("a version");
            rest.split_once('"').unwrap().0.to_owned()
        };
        let open = send(address, "GET", &page, &headers, b"");
        let opened = version(open.text());
        admin.done("PATCH", &page, &other, 200);
        let submit = |version: &str| {
            let form = "content-type: application/x-www-form-urlencoded".to_owned();
            let headers = [headers.clone(), vec![form]].concat();
            let body = format!("version={version}&name=typed&unitsPerDay=55&unitsBurst=");
            send(address, "POST", &page, &headers, body.as_bytes())
        };
        let refused = submit(&opened);
        check("refused", &refused.status, &409);
        let text = refused.text();
        for part in [
            "Somebody has changed it since this page was opened",
            "<tr><th scope=\"row\">Units a day</th><td>77</td><td>55</td></tr>",
            "<td>typed</td>",
            "value=\"55\"",
        ] {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
        let stored = admin.get(&page);
        assert_ne!(stored["name"], "typed", "nothing is saved");
        // Now both were shown.
        check("again", &submit(&version(text)).status, &303);
        check("saved", &admin.get(&page)["name"], &json!("typed"));
    }
}

/// A body that arrives slowly does not hold open the door that its request came in by.
#[test]
fn a_request_whose_body_arrives_after_the_key_was_revoked_is_refused() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    let body = body.to_string();
    for is_revoked in [false, true] {
        let (id, key) = admin.key("Acme", "slow");
        let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
        let first = connection.post(&body);
        check("let in", &first.status, &200);
        let request = connection.request(&["content-type: application/json"], body.as_bytes());
        let (begun, rest) = request.split_at(request.len() - 1);
        connection.send(begun);
        if is_revoked {
            let revoke = format!("/keys/{id}/revoke");
            admin.done("POST", &revoke, &Value::Null, 200);
        }
        connection.send(rest);
        let expected = if is_revoked { 401 } else { 200 };
        check("slow", &connection.receive().status, &expected);
        check("the next one", &connection.post(&body).status, &expected);
    }
}

#[test]
fn what_is_configured_is_seen_and_not_changed() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let keys = admin.get("/keys");
    check("total", &keys["total"], &json!(1));
    let key = &keys["keys"][0];
    check("source", &key["source"], &json!("configured"));
    let path = format!("/keys/{}", key["id"].as_str().unwrap());
    let named = json!({"name": "other"});
    admin.refused("PATCH", &path, &named, 409, "configured");
    let revoke = format!("{path}/revoke");
    admin.refused("POST", &revoke, &Value::Null, 409, "configured");
    check("it stays", &status(&server, KEY), &200);
    admin.check_schemas("configured");
}

#[test]
fn lists_are_searched_sorted_and_paged() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let a = admin.tenant("Alpha");
    admin.tenant("Beta");
    for name in ["one", "two", "three"] {
        admin.key("Alpha", name);
    }
    let (revoked, _) = admin.key("Beta", "four");
    admin.done(
        "POST",
        &format!("/keys/{revoked}/revoke"),
        &Value::Null,
        200,
    );
    let names = |list: &Value| {
        let keys = list["keys"].as_array().unwrap();
        keys.iter()
            .map(|key| key["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("?tenant=Alpha", &["one", "three", "two"][..]),
        (
            &format!("?tenant={a}&sort=name&descending=true"),
            &["two", "three", "one"],
        ),
        ("?tenant=Alpha&limit=1&offset=1", &["three"]),
        ("?search=THR", &["three"]),
        ("?search=beta", &["four"]),
        ("?state=revoked", &["four"]),
        ("?search=no+such+key", &[]),
    ] {
        let list = admin.get(&format!("/keys{query}"));
        check(
            query,
            &names(&list),
            &expected.iter().map(|name| (*name).to_owned()).collect(),
        );
    }
    let total = &admin.get("/keys?tenant=Alpha&limit=1")["total"];
    check("total", total, &json!(3));
    let tenants = admin.get("/tenants?search=alp");
    check(
        "tenants",
        &tenants["tenants"][0]["keys"]["active"],
        &json!(3),
    );
    admin.check_schemas("lists");
}

/// 50 keys are made, rotated and revoked at once while clients of other keys go on.
#[test]
fn other_clients_go_on_while_keys_come_and_go() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Busy");
    let is_done = AtomicBool::new(false);
    let (answered, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = server.connect();
                let request =
                    json!({"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []});
                while !is_done.load(Ordering::Relaxed) {
                    let count = match connection.post(request.to_string()).status {
                        200 => &answered,
                        _ => &failed,
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let token = admin.headers.clone();
        let workers: Vec<_> = (0..50)
            .map(|at| {
                let (server, token) = (&server, token.clone());
                scope.spawn(move || {
                    let mut admin = Admin::nobody(server);
                    admin.headers = token;
                    let (id, key) = admin.key("Busy", &format!("key {at}"));
                    check("made", &status(server, &key), &200);
                    let rotate = format!("/keys/{id}/rotate");
                    let (next, next_key) =
                        id_and_key(&admin.done("POST", &rotate, &json!({"overlap": "1h"}), 201));
                    check("rotated", &status(server, &next_key), &200);
                    for (id, key) in [(id, key), (next, next_key)] {
                        let revoke = format!("/keys/{id}/revoke");
                        admin.done("POST", &revoke, &Value::Null, 200);
                        check("revoked", &status(server, &key), &401);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = workers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    check("failed", &failed.into_inner(), &0);
    assert!(answered.into_inner() > 100);
    let revoked = admin.get("/keys?state=revoked&limit=1");
    check("revoked", &revoked["total"], &json!(100));
}
