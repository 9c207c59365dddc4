//! The exact answers to requests that are malformed, or ask for what is not there.

use serde_json::{Value, json};

use super::client::{Admin, ROOT, send};
use crate::harness::{Server, check, json as parse};

const STILL: [&str; 2] = ["--block-time", "0s"];

#[test]
fn malformed_requests_are_refused() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    let (id, _) = admin.key("Acme", "key");
    let none = || Value::Null;
    let key = format!("/keys/{id}");
    let with = |settings: Value| json!({"settings": settings});
    let origins = |count: usize| {
        let origins: Vec<_> = (0..count)
            .map(|at| format!("https://{at}.example.org"))
            .collect();
        with(json!({"allow": {"origins": origins}}))
    };
    for (verb, path, body, status, code) in [
        ("GET", "/nothing", none(), 404, "unknown_path"),
        ("GET", "/", none(), 404, "unknown_path"),
        ("GET", "/tenants/", none(), 404, "unknown_path"),
        ("PUT", "/tenants", none(), 405, "wrong_verb"),
        ("GET", "/tenants/none", none(), 404, "unknown_tenant"),
        ("GET", "/keys/0000000000000000", none(), 404, "unknown_key"),
        ("GET", "/keys/x", none(), 400, "invalid"),
        ("DELETE", "/accounts/none", none(), 404, "unknown_account"),
        ("DELETE", "/tokens/none", none(), 404, "unknown_token"),
        (
            "PUT",
            "/accounts/none/password",
            json!({"password": "a good password"}),
            404,
            "unknown_account",
        ),
        ("POST", "/tenants", none(), 400, "invalid"),
        ("POST", "/tenants", json!([]), 400, "invalid"),
        ("POST", "/tenants", json!("x"), 400, "invalid"),
        ("POST", "/tenants", json!({}), 400, "invalid"),
        ("POST", "/tenants", json!({"name": 7}), 400, "invalid"),
        ("POST", "/tenants", json!({"name": ""}), 400, "invalid"),
        (
            "POST",
            "/tenants",
            json!({"name": "a\r\nset-cookie: x"}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tenants",
            json!({"name": "x".repeat(129)}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tenants",
            json!({"name": "x", "more": 1}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tenants",
            json!({"name": "x", "limits": {"weight": 0}}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tenants",
            json!({"name": "x", "limits": {"sessions": -1}}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tenants",
            json!({"name": "Acme"}),
            409,
            "name_taken",
        ),
        ("PATCH", "/tenants/Acme", json!({"id": "x"}), 400, "invalid"),
        (
            "POST",
            "/keys",
            json!({"tenant": "none", "name": "x"}),
            404,
            "unknown_tenant",
        ),
        (
            "POST",
            "/keys",
            json!({"tenant": "Acme", "name": "x", "expires": 1}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/keys",
            json!({"tenant": "Acme", "name": "x", "digest": "00"}),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"quota": {"requests": {"perSecond": 0}}})),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"allow": {"methods": ["eth_nothing"]}})),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"allow": {"networks": ["10.0.0.0/33"]}})),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"allow": {"contracts": ["0x00"]}})),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"publicKeys": [{"kid": "a", "algorithm": "none", "pem": ""}]})),
            400,
            "invalid",
        ),
        (
            "PATCH",
            &key,
            with(json!({"publicKeys": [{"kid": "a", "algorithm": "ES256", "pem": "x"}]})),
            400,
            "invalid",
        ),
        ("PATCH", &key, origins(31), 400, "invalid"),
        (
            "POST",
            "/tokens",
            json!({"name": "x", "role": "owner"}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tokens",
            json!({"name": "x", "role": "holder"}),
            400,
            "invalid",
        ),
        (
            "POST",
            "/tokens",
            json!({"name": "tests", "role": "admin"}),
            409,
            "name_taken",
        ),
        (
            "POST",
            "/accounts",
            json!({"name": "x", "role": "admin", "password": "short"}),
            400,
            "invalid_password",
        ),
        ("GET", "/keys?limit=0", none(), 400, "invalid"),
        ("GET", "/keys?limit=501", none(), 400, "invalid"),
        ("GET", "/keys?limit=ten", none(), 400, "invalid"),
        ("GET", "/keys?sort=digest", none(), 400, "invalid"),
        ("GET", "/keys?more=1", none(), 400, "invalid"),
        ("GET", "/keys?search=%ff", none(), 400, "invalid"),
        ("GET", "/usage?last=1x", none(), 400, "invalid"),
        ("GET", "/usage?by=name", none(), 400, "invalid"),
        ("GET", "/usage?from=2&to=1", none(), 400, "invalid"),
        ("GET", "/usage?format=xml", none(), 400, "invalid"),
        ("GET", "/me", json!({}), 400, "invalid"),
        ("POST", &format!("{key}/revoke"), json!({}), 400, "invalid"),
    ] {
        admin.refused(verb, path, &body, status, code);
    }
    admin.done("PATCH", &key, &origins(30), 200);
    admin.check_schemas("refusals");
}

/// Bodies, media types and verbs below JSON.
#[test]
fn http_is_checked_before_json() {
    let server = Server::start(&STILL);
    let admin = Admin::start(&server);
    let address = server.admin.unwrap();
    let path = format!("{ROOT}/tenants");
    let media = |name: &str| vec![admin.headers[0].clone(), format!("content-type: {name}")];
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(256 << 10));
    for (case, headers, body, status, code) in [
        (
            "a form",
            media("application/x-www-form-urlencoded"),
            "name=x",
            415,
            "not_json",
        ),
        (
            "text",
            media("text/plain"),
            "{\"name\": \"x\"}",
            415,
            "not_json",
        ),
        (
            "no type",
            vec![admin.headers[0].clone()],
            "{\"name\": \"x\"}",
            415,
            "not_json",
        ),
        (
            "no JSON",
            media("application/json"),
            "{\"name\": ",
            400,
            "invalid",
        ),
        (
            "not UTF-8",
            media("application/json"),
            "{\"name\": \"\\ud800\"}",
            400,
            "invalid",
        ),
        (
            "too large",
            media("application/json"),
            &large,
            413,
            "body_too_large",
        ),
        (
            "it works",
            media("Application/JSON; charset=utf-8"),
            "{\"name\": \"x\"}",
            201,
            "",
        ),
    ] {
        let response = send(address, "POST", &path, &headers, body.as_bytes());
        check(case, &response.status, &status);
        let answer = parse(&response.body);
        let found = answer["error"]["code"].as_str().unwrap_or_default();
        check(case, &found, &code);
    }
    for (verb, path, allow) in [
        ("DELETE", "/tenants", "GET, HEAD, POST"),
        ("GET", "/login", "POST"),
        ("OPTIONS", "/keys/1", "GET, HEAD, PATCH, DELETE"),
        ("POST", "/accounts/x/password", "PUT"),
    ] {
        let path = format!("{ROOT}{path}");
        let response = send(address, verb, &path, &[], b"");
        check(verb, &response.status, &405);
        check(verb, &response.header("allow"), &Some(allow));
    }
}
