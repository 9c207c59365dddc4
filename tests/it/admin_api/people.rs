//! Accounts, API tokens, roles, and logins.

use serde_json::{Value, json};

use super::client::{Admin, PASSWORD, cookie_of, first_token};
use crate::harness::{Connection, Server, check, scratch};

const STILL: [&str; 2] = ["--block-time", "0s"];

/// Every operation is called with success, and every answer has the schema of the document.
#[test]
fn every_answer_is_as_the_document_says() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let limits = json!({"quota": {"requests": {"perSecond": 9}, "unitsPerDay": 1_000_000}, "sessions": 5, "weight": 2});
    let body = json!({"name": "Acme", "limits": limits});
    let tenant = admin.done("POST", "/tenants", &body, 201);
    check(
        "burst",
        &tenant["limits"]["quota"]["requests"]["burst"],
        &json!(9),
    );
    let id = tenant["id"].as_str().unwrap();
    let path = format!("/tenants/{id}");
    let change = json!({"name": "Acme 2", "limits": {"sessions": null, "quota": {"units": {"perSecond": 5, "burst": 7}}}});
    admin.done("PATCH", &path, &change, 200);
    admin.get(&path);
    admin.get("/tenants/Acme%202");
    admin.get("/tenants?limit=1");
    let settings = json!({
        "allow": {
            "origins": ["https://app.example.org"],
            "userAgents": ["curl"],
            "methods": ["eth_chainId"],
            "contracts": ["0x00000000000000000000000000000000000000aa"],
            "networks": ["10.0.0.0/8", "127.0.0.1"],
        },
        "secret": {"required": false, "exempts": true},
    });
    let body = json!({"tenant": "Acme 2", "name": "narrow", "expires": 4_102_444_800_000_u64, "settings": settings});
    let key = admin.done("POST", "/keys", &body, 201);
    assert!(key["secret"].is_string(), "{key}");
    let path = format!("/keys/{}", key["id"].as_str().unwrap());
    let view = admin.get(&path);
    check(
        "no secret",
        &view["settings"]["secret"],
        &json!({"required": false, "exempts": true}),
    );
    let change = json!({"expires": null, "settings": {"secret": {"required": true}, "allow": {"methods": null}}});
    let changed = admin.done("PATCH", &path, &change, 200);
    assert!(changed["secret"] != key["secret"], "{changed}");
    admin.done("POST", &format!("{path}/rotate"), &json!({}), 201);
    admin.done("POST", &format!("{path}/revoke"), &Value::Null, 200);
    admin.done("DELETE", &path, &Value::Null, 204);
    admin.get("/keys?sort=requests24h&descending=true");
    admin.get("/usage?last=30d&by=time,key,method,outcome");
    admin.get("/audit?limit=500");
    admin.get("/overview");
    admin.get("/nodes");
    let fleet = admin.get("/fleet");
    check("no fleet", &fleet["inFleet"], &json!(false));
    admin.get("/me");
    let holder = json!({"name": "Zoë /%", "password": PASSWORD, "role": "holder", "tenant": id});
    admin.done("POST", "/accounts", &holder, 201);
    let password = json!({"password": "another good password"});
    let account = "/accounts/Zo%C3%AB%20%2F%25";
    admin.done("PUT", &format!("{account}/password"), &password, 204);
    let log_in = json!({"name": "Zoë /%", "password": "another good password"});
    let mut other = Admin::nobody(&server);
    other.done("POST", "/login", &log_in, 200);
    check(
        "its login",
        &admin.get("/accounts")["accounts"][1]["lastSeen"].is_u64(),
        &true,
    );
    admin.done("POST", "/login", &log_in, 200);
    admin.done("POST", "/logout", &Value::Null, 204);
    admin.done("DELETE", account, &Value::Null, 204);
    let token = json!({"name": "t", "role": "holder", "tenant": "Acme 2", "expires": 4_102_444_800_000_u64});
    admin.done("POST", "/tokens", &token, 201);
    admin.get("/tokens");
    admin.done("DELETE", "/tokens/t", &Value::Null, 204);
    admin.done("DELETE", &format!("/tenants/{id}"), &Value::Null, 204);
    admin.get("/openapi.json");

    let called = admin.check_schemas("all");
    let document = admin.get("/openapi.json");
    let operations = document["paths"].as_object().unwrap().values();
    let operations = operations.flat_map(|path| path.as_object().unwrap().values());
    let mut operations: Vec<_> = operations
        .map(|operation| operation["operationId"].as_str().unwrap().to_owned())
        // A client of its own has called it.
        .filter(|name| name != "claimFirstAccount")
        .collect();
    operations.sort();
    let called = called
        .into_iter()
        .filter(|name| name != "claimFirstAccount");
    check("all are called", &called.collect(), &operations);
}

#[test]
fn a_holder_sees_and_rotates_what_is_theirs() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let [own, other] = ["Own", "Other"].map(|name| admin.tenant(name));
    let (own_key, _) = admin.key("Own", "mine");
    let (other_key, _) = admin.key("Other", "theirs");
    let account =
        json!({"name": "holder", "password": PASSWORD, "role": "holder", "tenant": "Own"});
    admin.done("POST", "/accounts", &account, 201);
    let token = json!({"name": "holder", "role": "holder", "tenant": own});
    let token = admin.done("POST", "/tokens", &token, 201);
    let mut by_token = Admin::nobody(&server);
    by_token.with_token(token["token"].as_str().unwrap());
    let mut by_password = Admin::nobody(&server);
    let log_in = json!({"name": "holder", "password": PASSWORD});
    let (response, _) = by_password.send("POST", "/login", &log_in);
    by_password.with_cookie(&cookie_of(&response).unwrap());

    for holder in [&mut by_token, &mut by_password] {
        check("role", &holder.get("/me")["tenant"]["id"], &json!(own));
        check("keys", &holder.get("/keys")["total"], &json!(1));
        check("tenants", &holder.get("/tenants")["total"], &json!(1));
        holder.get(&format!("/keys/{own_key}"));
        holder.get(&format!("/tenants/{own}"));
        holder.get("/usage?last=1h");
        holder.get("/audit");
        let none = Value::Null;
        for (verb, path, body, status, code) in [
            (
                "GET",
                format!("/keys/{other_key}"),
                none.clone(),
                404,
                "unknown_key",
            ),
            (
                "POST",
                format!("/keys/{other_key}/rotate"),
                none.clone(),
                404,
                "unknown_key",
            ),
            (
                "GET",
                format!("/tenants/{other}"),
                none.clone(),
                404,
                "unknown_tenant",
            ),
            (
                "GET",
                format!("/usage?key={other_key}"),
                none.clone(),
                404,
                "unknown_key",
            ),
            (
                "GET",
                "/keys?tenant=Other".to_owned(),
                none.clone(),
                404,
                "unknown_tenant",
            ),
            (
                "POST",
                "/keys".to_owned(),
                json!({"tenant": "Own", "name": "x"}),
                403,
                "not_allowed",
            ),
            (
                "PATCH",
                format!("/keys/{own_key}"),
                json!({"name": "x"}),
                403,
                "not_allowed",
            ),
            (
                "POST",
                format!("/keys/{own_key}/revoke"),
                none.clone(),
                403,
                "not_allowed",
            ),
            (
                "POST",
                "/tenants".to_owned(),
                json!({"name": "x"}),
                403,
                "not_allowed",
            ),
            (
                "PATCH",
                format!("/tenants/{own}"),
                json!({"name": "x"}),
                403,
                "not_allowed",
            ),
            (
                "DELETE",
                format!("/tenants/{own}"),
                none.clone(),
                403,
                "not_allowed",
            ),
            (
                "GET",
                "/accounts".to_owned(),
                none.clone(),
                403,
                "not_allowed",
            ),
            (
                "GET",
                "/tokens".to_owned(),
                none.clone(),
                403,
                "not_allowed",
            ),
            (
                "GET",
                "/overview".to_owned(),
                none.clone(),
                403,
                "not_allowed",
            ),
            ("GET", "/nodes".to_owned(), none.clone(), 403, "not_allowed"),
            ("GET", "/fleet".to_owned(), none.clone(), 403, "not_allowed"),
            (
                "POST",
                "/accounts".to_owned(),
                json!({"name": "x", "password": PASSWORD, "role": "admin"}),
                403,
                "not_allowed",
            ),
            (
                "PUT",
                "/accounts/root/password".to_owned(),
                json!({"password": "another good password", "present": PASSWORD}),
                403,
                "not_allowed",
            ),
        ] {
            holder.refused(verb, &path, &body, status, code);
        }
    }
    by_token.done(
        "POST",
        &format!("/keys/{own_key}/rotate"),
        &Value::Null,
        201,
    );
    // The own password needs the present one.
    let path = "/accounts/holder/password";
    let new = json!({"password": "another good password"});
    by_password.refused("PUT", path, &new, 403, "wrong_password");
    let new = json!({"password": "another good password", "present": PASSWORD});
    by_password.done("PUT", path, &new, 204);
    by_password.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    by_token.check_schemas("holder-token");
    by_password.check_schemas("holder-password");

    // With their tenant, holders are gone.
    admin.done("DELETE", &format!("/tenants/{own}"), &Value::Null, 204);
    by_token.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
}

#[test]
fn a_restart_keeps_accounts_and_logins_and_prints_no_link() {
    let folder = scratch("admin-restart");
    let server = Server::on_data(&folder, &[]);
    let mut admin = Admin::first(&server);
    let cookie = admin.headers[0].clone();
    admin.tenant("Acme");
    admin.key("Acme", "kept");
    server.process.terminate();
    assert!(server.process.wait().0.success());

    let server = Server::on_data(&folder, &[]);
    let mut again = Admin::nobody(&server);
    again.with_cookie(cookie.strip_prefix("cookie: nearhead_login=").unwrap());
    check(
        "logged in",
        &again.get("/me")["author"]["name"],
        &json!("root"),
    );
    check("keys", &again.get("/keys?search=kept")["total"], &json!(1));
    server.process.terminate();
    let (_, output) = server.process.wait();
    assert!(!output.contains("first-account"), "{output}");
}

#[test]
fn the_first_link_works_once() {
    let server = Server::start(&STILL);
    let token = first_token(&server);
    let mut nobody = Admin::nobody(&server);
    let first = |token: &str, name: &str, password: &str| json!({"token": token, "name": name, "password": password});
    let path = "/first-account";
    nobody.refused(
        "POST",
        path,
        &first("x", "root", PASSWORD),
        401,
        "wrong_token",
    );
    // What can be mended does not use it up.
    nobody.refused("POST", path, &first(&token, " ", PASSWORD), 400, "invalid");
    nobody.refused(
        "POST",
        path,
        &first(&token, "root", "short"),
        400,
        "invalid_password",
    );
    let me = nobody.done("POST", path, &first(&token, "root", PASSWORD), 200);
    check("role", &me["me"]["role"], &json!("admin"));
    nobody.refused(
        "POST",
        path,
        &first(&token, "second", PASSWORD),
        401,
        "wrong_token",
    );
    let log_in = json!({"name": "root", "password": PASSWORD});
    let (response, _) = nobody.send("POST", "/login", &log_in);
    nobody.with_cookie(&cookie_of(&response).unwrap());
    let accounts = nobody.get("/accounts");
    check("one", &accounts["accounts"].as_array().unwrap().len(), &1);
    nobody.refused(
        "DELETE",
        "/accounts/root",
        &Value::Null,
        409,
        "last_administrator",
    );
    nobody.check_schemas("first");
}

/// A proxy that authenticates people names them; nobody else does.
#[test]
fn an_authenticating_proxy_names_accounts() {
    let trusting = [
        "--admin-proxy-header",
        "X-Forwarded-User",
        "--trusted-proxy",
    ];
    for (proxy, is_believed) in [("127.0.0.0/8", true), ("10.0.0.0/8", false)] {
        let server = Server::start(&[&STILL[..], &trusting, &[proxy]].concat());
        let token = Admin::start(&server).headers[0].clone();
        let token = token.rsplit_once(' ').unwrap().1.to_owned();
        let same = format!("origin: http://{}", server.admin.unwrap());
        let bearer = |token: &str| format!("authorization: Bearer {token}");
        let user = |name: &str| format!("x-forwarded-user: {name}");
        let tenant = json!({"name": "Acme"});
        for (headers, verb, status, code) in [
            (vec![user("root")], "GET", 200, ""),
            (vec![user("root"), same.clone()], "POST", 201, ""),
            (vec![user("other")], "GET", 401, "not_logged_in"),
            (vec![user("")], "GET", 401, "not_logged_in"),
            (
                vec![user("root"), user("root")],
                "GET",
                401,
                "not_logged_in",
            ),
            // A page of another site has it added, too.
            (vec![user("root")], "POST", 403, "foreign_origin"),
            (
                vec![user("root"), "origin: https://example.org".to_owned()],
                "POST",
                403,
                "foreign_origin",
            ),
            // Proxies pass on tokens of others.
            (vec![user("root"), bearer("x")], "GET", 200, ""),
            (
                vec![user("other"), bearer(&token)],
                "GET",
                401,
                "not_logged_in",
            ),
            // It is no API token: a page of another site has the header added.
            (
                vec![user("root"), bearer(&token)],
                "POST",
                403,
                "foreign_origin",
            ),
        ] {
            let mut admin = Admin::nobody(&server);
            admin.headers = headers.clone();
            let body = if verb == "POST" {
                tenant.clone()
            } else {
                Value::Null
            };
            let (response, answer) = admin.send(verb, "/tenants", &body);
            let case = format!("{proxy} {headers:?} {verb}: {answer}");
            if is_believed {
                check(&case, &response.status, &status);
                check(
                    &case,
                    &answer["error"]["code"].as_str().unwrap_or_default(),
                    &code,
                );
            } else {
                // `foreign_origin` if a browser says so, else nobody. The API token counts.
                let has_token = headers.contains(&bearer(&token));
                let is_refused = matches!(response.status, 401 | 403);
                check(&case, &is_refused, &!has_token);
            }
        }
    }
}

#[test]
fn a_cookie_is_secure_where_a_trusted_proxy_has_tls() {
    let server = Server::start(&[&STILL[..], &["--trusted-proxy", "127.0.0.1"]].concat());
    drop(Admin::first(&server));
    let body = json!({"name": "root", "password": PASSWORD});
    for (header, is_secure) in [
        ("x-other: 1", false),
        ("x-forwarded-proto: http", false),
        ("x-forwarded-proto: https", true),
        ("forwarded: for=192.0.2.1;proto=https", true),
        ("forwarded: for=192.0.2.1;proto=http", false),
    ] {
        let mut admin = Admin::nobody(&server);
        admin.headers = vec![header.to_owned()];
        let (response, _) = admin.send("POST", "/login", &body);
        let cookie = response.header("set-cookie").unwrap();
        check(header, &cookie.ends_with("; Secure"), &is_secure);
        check(header, &cookie.starts_with("__Host-"), &is_secure);
        // It counts the way that it was set, and no other.
        let (pair, _) = cookie.split_once(';').unwrap();
        for (proto, is_let_in) in [("http", !is_secure), ("https", is_secure)] {
            admin.headers = vec![
                format!("x-forwarded-proto: {proto}"),
                format!("cookie: café=crème; {pair}"),
            ];
            let (response, _) = admin.send("GET", "/me", &Value::Null);
            check(header, &(response.status == 200), &is_let_in);
        }
        let attributes = "; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict";
        assert!(cookie.contains(attributes), "{cookie}");
    }
    let server = Server::start(&STILL);
    drop(Admin::first(&server));
    let mut admin = Admin::nobody(&server);
    admin.headers = vec!["x-forwarded-proto: https".to_owned()];
    let (response, _) = admin.send("POST", "/login", &body);
    let is_secure = response.header("set-cookie").unwrap().contains("Secure");
    check("nobody is trusted", &is_secure, &false);
}

/// The overview says what clients do.
#[test]
fn the_overview_shows_the_traffic() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.result("eth_chainId", &json!([]));
    }
    let _wrong = connection.call("eth_call", &json!([]));
    let mut session = crate::websocket::client::Client::open(
        server.address,
        &format!("/ws/v3/{}", crate::harness::KEY),
    );
    let _ = session.call("eth_subscribe", &json!(["newHeads"]));
    let view = admin.get("/overview");
    for (member, expected) in [
        ("ready", json!(true)),
        ("requests", json!(5)),
        ("sessions", json!(1)),
        ("subscriptions", json!(1)),
        ("nodes", json!([])),
        ("agreement", Value::Null),
    ] {
        check(member, &view[member], &expected);
    }
    check("blocks", &view["head"]["blocks"], &json!(128));
    check(
        "outcome",
        &view["outcomes"][0],
        &json!({"outcome": "ok", "requests": 4}),
    );
    check("errors", &view["lastMinute"]["errors"], &json!(1));
    assert!(view["lastMinute"]["p99Millis"].is_number(), "{view}");
    admin.check_schemas("overview");
    drop::<Connection>(connection);
}
