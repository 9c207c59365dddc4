//! What attackers try.

use serde_json::{Value, json};

use super::client::{Admin, PASSWORD, ROOT, cookie_of, send};
use crate::harness::{Connection, KEY, Server, check, json as parse, printed};

const STILL: [&str; 2] = ["--block-time", "0s"];

/// The body that logs `root` in.
fn log_in() -> Value {
    json!({"name": "root", "password": PASSWORD})
}

/// A cookie that somebody else has put into a browser never becomes a login.
#[test]
fn a_login_has_a_cookie_of_its_own() {
    let server = Server::start(&STILL);
    let mut admin = Admin::first(&server);
    let planted = "A".repeat(43);
    let mut victim = Admin::nobody(&server);
    victim.with_cookie(&planted);
    let mut cookies = vec![
        planted.clone(),
        admin.headers[0].rsplit_once('=').unwrap().1.to_owned(),
    ];
    for _ in 0..3 {
        let (response, _) = victim.send("POST", "/login", &log_in());
        check("logged in", &response.status, &200);
        let cookie = cookie_of(&response).unwrap();
        assert!(!cookies.contains(&cookie), "the cookie is new");
        cookies.push(cookie);
        victim.with_cookie(&planted);
        victim.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    }
    // Two different cookies: another server of this host has set one of them.
    let both = format!(
        "cookie: nearhead_login={}; nearhead_login={planted}",
        cookies[2]
    );
    victim.headers = vec![both];
    victim.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    // What logged out stays so, and other logins go on.
    victim.with_cookie(&cookies[2]);
    victim.get("/me");
    let (response, _) = victim.send("POST", "/logout", &Value::Null);
    check("logged out", &response.status, &204);
    check("no cookie", &cookie_of(&response).unwrap(), &String::new());
    victim.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    victim.done("POST", "/logout", &Value::Null, 204);
    admin.get("/me");
}

/// A page of another site asks the browser for a change.
#[test]
fn a_foreign_page_changes_nothing() {
    let server = Server::start(&STILL);
    let admin = Admin::first(&server);
    let address = server.admin.unwrap();
    let cookie = admin.headers[0].clone();
    let own = format!("origin: http://{address}");
    let json = "content-type: application/json";
    let form = "content-type: application/x-www-form-urlencoded";
    let text = "content-type: text/plain";
    let path = format!("{ROOT}/tenants");
    for (index, (headers, status)) in [
        (&["origin: https://example.org", json][..], 403),
        (&["origin: null", json], 403),
        (&["origin: http://localhost:1", json], 403),
        (&[json], 403),
        (&[form], 403),
        (&["origin: https://example.org", form], 403),
        (&["origin: https://example.org", text], 403),
        (&["sec-fetch-site: cross-site", json], 403),
        (&["sec-fetch-site: same-site", json], 403),
        (&["sec-fetch-site: cross-site", &own, json], 403),
        (&[&own, form], 415),
        (&[&own, json], 201),
        (&["sec-fetch-site: same-origin", json], 201),
    ]
    .into_iter()
    .enumerate()
    {
        let headers: Vec<_> = headers
            .iter()
            .map(|line| (*line).to_owned())
            .chain([cookie.clone()])
            .collect();
        let body = json!({"name": format!("tenant {index}")}).to_string();
        let response = send(address, "POST", &path, &headers, body.as_bytes());
        check(&format!("{headers:?}"), &response.status, &status);
    }
    // A foreign page cannot log somebody in either, nor read an answer.
    let headers = ["origin: https://example.org", json].map(str::to_owned);
    let body = log_in().to_string();
    let response = send(
        address,
        "POST",
        &format!("{ROOT}/login"),
        &headers,
        body.as_bytes(),
    );
    check("login", &response.status, &403);
    let headers = [cookie, "origin: https://example.org".to_owned()];
    let response = send(address, "GET", &path, &headers, b"");
    check(
        "read",
        &response.header("access-control-allow-origin"),
        &None,
    );
    let preflight = send(address, "OPTIONS", &path, &headers, b"");
    check("preflight", &preflight.status, &405);
    // DNS rebinding.
    let headers = ["host: example.org".to_owned(), admin.headers[0].clone()];
    check(
        "rebinding",
        &send(address, "GET", &path, &headers, b"").status,
        &403,
    );
}

/// The own present password is no easier to guess.
#[test]
fn a_stolen_login_does_not_guess_the_password() {
    let server = Server::start(&STILL);
    let mut admin = Admin::first(&server);
    let path = "/accounts/root/password";
    let guess = json!({"password": "another good password", "present": "a wrong password"});
    for _ in 0..10 {
        admin.refused("PUT", path, &guess, 403, "wrong_password");
    }
    admin.refused("PUT", path, &guess, 429, "throttled");
    let form = "content-type: application/x-www-form-urlencoded".to_owned();
    let headers = [admin.headers.clone(), vec![form]].concat();
    let body =
        "present=a+wrong+password&password=another+good+password&again=another+good+password";
    let address = server.admin.unwrap();
    let page = send(
        address,
        "POST",
        "/account/password",
        &headers,
        body.as_bytes(),
    );
    check("page", &page.status, &429);
    // Forms of other sites are refused, too.
    let headers = [vec![admin.headers[0].clone()], headers[2..].to_vec()].concat();
    for path in ["/account/password", "/tenants/new", "/logout"] {
        check(
            path,
            &send(address, "POST", path, &headers, body.as_bytes()).status,
            &403,
        );
    }
}

/// Nor is that of another account: whoever may set it learns nothing from the one they state.
#[test]
fn the_password_of_another_account_cannot_be_guessed() {
    let server = Server::start(&STILL);
    let mut by_token = Admin::start(&server);
    let path = "/accounts/root/password";
    for present in ["a wrong password", PASSWORD] {
        let body = json!({"password": "short", "present": present});
        by_token.refused("PUT", path, &body, 400, "invalid_password");
    }
}

#[test]
fn what_was_removed_lets_nobody_in() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    let token = admin.done(
        "POST",
        "/tokens",
        &json!({"name": "gone", "role": "admin"}),
        201,
    );
    let token = token["token"].as_str().unwrap().to_owned();
    let account = json!({"name": "gone", "password": PASSWORD, "role": "admin"});
    admin.done("POST", "/accounts", &account, 201);
    let mut by_token = Admin::nobody(&server);
    by_token.with_token(&token);
    by_token.get("/me");
    let mut by_password = Admin::nobody(&server);
    let log_in = json!({"name": "gone", "password": PASSWORD});
    let (response, _) = by_password.send("POST", "/login", &log_in);
    by_password.with_cookie(&cookie_of(&response).unwrap());
    by_password.get("/me");
    admin.done("DELETE", "/tokens/gone", &Value::Null, 204);
    admin.done("DELETE", "/accounts/gone", &Value::Null, 204);
    for gone in [&mut by_token, &mut by_password] {
        gone.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    }
    by_password.headers.clear();
    by_password.refused("POST", "/login", &log_in, 401, "wrong_login");
    // Neither a key of a client, nor a cookie as a token, nor a token as a cookie.
    let mut other = Admin::nobody(&server);
    for token in [KEY, "", "dev", &"A".repeat(43)] {
        other.with_token(token);
        other.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    }
    let admins = admin.headers[0].rsplit_once(' ').unwrap().1.to_owned();
    other.with_cookie(&admins);
    other.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
    other.headers = vec![
        format!("authorization: Bearer {admins}"),
        "authorization: Bearer x".to_owned(),
    ];
    other.refused("GET", "/me", &Value::Null, 401, "not_logged_in");
}

/// Without credentials, nothing but the login and the document is answered.
#[test]
fn nobody_is_let_in_without_credentials() {
    let server = Server::start(&STILL);
    let mut nobody = Admin::nobody(&server);
    let document = nobody.get("/openapi.json");
    let mut checked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            if operation["security"].as_array().unwrap().is_empty() {
                continue;
            }
            let path = path
                .replace("{id}", "0000000000000000")
                .replace("{name}", "root");
            nobody.refused(
                &verb.to_uppercase(),
                &path,
                &Value::Null,
                401,
                "not_logged_in",
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn the_other_listeners_do_not_administer() {
    let server = Server::start(&[&STILL[..], &["--metrics-listen", "127.0.0.1:0"]].concat());
    let admin = Admin::start(&server);
    let metrics = server
        .process
        .output
        .wait_for("the metrics listener", |text| printed(text, "metrics"));
    for address in [server.address, metrics] {
        for path in ["/me", "/keys", "/openapi.json", "/login"] {
            for verb in ["GET", "POST"] {
                let path = format!("{ROOT}{path}");
                let response = send(address, verb, &path, &admin.headers, b"");
                check(
                    &format!("{verb} {path} of {address}"),
                    &response.status,
                    &404,
                );
            }
        }
        for path in ["/", "/login", "/first-account", "/assets/style.css"] {
            let response = send(address, "GET", path, &admin.headers, b"");
            check(path, &response.status, &404);
        }
    }
}

/// Texts that are something else to SQL, to HTML or to HTTP come back as they are, or are refused.
#[test]
fn texts_stay_texts() {
    let server = Server::start(&STILL);
    let mut admin = Admin::start(&server);
    admin.tenant("Acme");
    for text in [
        "'; DROP TABLE keys; --",
        "\" OR 1=1 --",
        "%' UNION SELECT digest FROM keys --",
        "x'||(SELECT 1)||'",
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "{{7*7}} ${7*7}",
        "../../etc/passwd",
        "\\u0000",
    ] {
        let tenant = admin.done("POST", "/tenants", &json!({"name": text}), 201);
        check(text, &tenant["name"], &json!(text));
        let key = admin.done("POST", "/keys", &json!({"tenant": text, "name": text}), 201);
        check(text, &key["tenant"]["name"], &json!(text));
        let account = json!({"name": text, "password": PASSWORD, "role": "holder", "tenant": text});
        admin.done("POST", "/accounts", &account, 201);
        admin.done(
            "POST",
            "/tokens",
            &json!({"name": text, "role": "admin"}),
            201,
        );
        let mut other = Admin::nobody(&server);
        other.refused(
            "POST",
            "/login",
            &json!({"name": text, "password": text}),
            401,
            "wrong_login",
        );
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        check(
            text,
            &admin.get(&format!("/tenants/{encoded}"))["name"],
            &json!(text),
        );
        check(
            text,
            &admin.get(&format!("/keys?search={encoded}"))["total"],
            &json!(1),
        );
        check(
            text,
            &admin.get(&format!("/keys?tenant={encoded}"))["total"],
            &json!(1),
        );
        check(
            text,
            &admin.get(&format!("/tenants?search={encoded}"))["total"],
            &json!(1),
        );
        for path in [
            format!("/keys/{encoded}"),
            format!("/usage?key={encoded}"),
            format!("/usage?last={encoded}"),
            format!("/usage?by={encoded}"),
            format!("/audit?key={encoded}"),
            format!("/audit?before={encoded}"),
            format!("/keys?sort={encoded}"),
            format!("/keys?offset={encoded}"),
        ] {
            admin.refused("GET", &path, &Value::Null, 400, "invalid");
        }
        admin.done("DELETE", &format!("/tokens/{encoded}"), &Value::Null, 204);
        admin.done("DELETE", &format!("/accounts/{encoded}"), &Value::Null, 204);
        admin.done("DELETE", &format!("/tenants/{encoded}"), &Value::Null, 204);
    }
    for text in [
        "a\r\nset-cookie: nearhead_login=x",
        "a\u{0}b",
        "a\u{202e}b",
        "\u{feff}",
        " a",
    ] {
        for (path, body) in [
            ("/tenants", json!({"name": text})),
            ("/keys", json!({"tenant": "Acme", "name": text})),
            ("/tokens", json!({"name": text, "role": "admin"})),
            (
                "/accounts",
                json!({"name": text, "password": PASSWORD, "role": "admin"}),
            ),
        ] {
            admin.refused("POST", path, &body, 400, "invalid");
        }
    }
    check(
        "nothing is lost",
        &admin.get("/tenants?search=acme")["total"],
        &json!(1),
    );
    admin.check_schemas("texts");
}

#[test]
fn files_are_served_by_their_names_alone() {
    let server = Server::start(&STILL);
    let address = server.admin.unwrap();
    for path in [
        "/assets/",
        "/assets/..",
        "/assets/../Cargo.toml",
        "/assets/%2e%2e%2fCargo.toml",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/none.css",
        "/assets/%00",
        "/admin/api/v1/../../assets/none",
    ] {
        let response = send(address, "GET", path, &[], b"");
        check(path, &response.status, &404);
    }
}

/// Whatever is answered, browsers are told to keep it to itself.
#[test]
fn every_answer_has_security_headers() {
    let server = Server::start(&STILL);
    let address = server.admin.unwrap();
    for (verb, path) in [
        ("GET", "/health"),
        ("GET", "/metrics"),
        ("POST", "/metrics"),
        ("GET", "/nothing"),
        ("GET", "/admin/api/v1/me"),
        ("GET", "/admin/api/v1/openapi.json"),
        ("POST", "/admin/api/v1/login"),
        ("GET", "/admin/api/nothing"),
        ("GET", "/assets/none"),
        ("GET", "/login"),
        ("GET", "/first-account"),
        ("GET", "/keys/none"),
    ] {
        let response = send(address, verb, path, &[], b"");
        if path == "/login" {
            check("a page", &response.status, &200);
            let kind = response.header("content-type");
            check("a page", &kind, &Some("text/html; charset=utf-8"));
        }
        for (name, value) in [
            (
                "content-security-policy",
                "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                 connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
            ),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            check(
                &format!("{verb} {path}"),
                &response.header(name),
                &Some(value),
            );
        }
    }
}

/// A body that does not end, and one that is no request, do not hold the listener up.
#[test]
fn large_bodies_are_bounded() {
    let server = Server::start(&STILL);
    let address = server.admin.unwrap();
    let path = format!("{ROOT}/login");
    let json = ["content-type: application/json".to_owned()];
    for size in [(256 << 10) + 1, 5 << 20] {
        let response = send(address, "POST", &path, &json, &vec![b' '; size]);
        check("status", &response.status, &413);
        let code = &parse(&response.body)["error"]["code"];
        check("code", code, &json!("body_too_large"));
    }
    let mut upgrade = Connection::open(address, &path);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    );
    upgrade.send(head.as_bytes());
    check("upgrade", &upgrade.receive().status, &400);
    check(
        "it goes on",
        &send(address, "GET", "/health", &[], b"").status,
        &200,
    );
}
