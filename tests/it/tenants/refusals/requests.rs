//! Requests that are refused as a whole, and handshakes.

use nearhead_tenants::limits::TenantLimits;
use serde_json::json;

use super::{
    refusal::{
        OTHER_HOST, OTHER_ORIGIN, REFUSALS, Refusal, TOO_MANY_GUESSES, TOO_MANY_TOKENS,
        check_response, row,
    },
    scene::{
        CREDENTIALS, Credentials, Presented, Scene, call, narrowed, open, post, seconds,
        shake_hands, with,
    },
};
use crate::{
    harness::{Response, check},
    tenants::prepared_store::now,
};

#[test]
fn requests_and_handshakes_are_refused() {
    let mut scene = Scene::new();
    let clients = refused_clients(&mut scene);
    let good: Vec<_> = CREDENTIALS
        .map(|given| {
            let name = format!("good-{given:?}");
            let settings = scene.settings(given);
            scene.store.key(&name, settings);
            scene.client(given, &name)
        })
        .into();
    let server = scene.store.serve("refusals-requests", &[]);
    for client in good {
        let response = post(server.address, &client, &call("eth_chainId", json!([])));
        check(&format!("{client:?}"), &response.status, &200);
        drop(open(server.address, &client));
    }
    for row in REFUSALS.iter().filter(|row| row.place == "request") {
        let of_row = clients.iter().filter(|(what, ..)| *what == row.what);
        assert!(of_row.count() > 0, "no client for {}", row.what);
    }
    let chain_id = call("eth_chainId", json!([]));
    for (what, which, client) in clients {
        let (case, row) = (format!("{what}: {which}"), row(what));
        for body in [&chain_id, &json!([chain_id, chain_id])] {
            let response = refused(row, || post(server.address, &client, body));
            check_response(&format!("{case}, HTTP"), &response, row, false);
        }
        let response = refused(row, || shake_hands(server.address, &client));
        check_response(&format!("{case}, handshake"), &response, row, false);
    }
}

/// The answer to a client that is refused. One whose network has to wait is at first refused for
/// its token, by each worker, or for its key.
fn refused(row: &Refusal, ask: impl Fn() -> Response) -> Response {
    let first = ask();
    if ![TOO_MANY_TOKENS, TOO_MANY_GUESSES].contains(&row.what) {
        return first;
    }
    let mut next = std::iter::repeat_with(ask).take(1_000);
    next.find(|response| response.status == row.status)
        .unwrap_or(first)
}

/// The clients whose requests are refused, each with the row that says how.
fn refused_clients(scene: &mut Scene) -> Vec<(&'static str, String, Presented)> {
    let mut clients = Vec::new();
    for given in CREDENTIALS {
        let mut add = |what: &'static str, which: &str, client: Presented| {
            clients.push((what, format!("{given:?}, {which}"), client));
        };
        let settings = scene.settings(given);
        let unknown = "the key is missing, unknown, expired or revoked";
        add(unknown, "unknown", scene.client(given, "nobody"));
        let expired = format!("expired-{given:?}");
        let tenant = scene.store.tenant(&expired, TenantLimits::default());
        let over = Some(now());
        scene.store.key_of(tenant, &expired, over, settings.clone());
        add(unknown, "expired", scene.client(given, &expired));
        let revoked = format!("revoked-{given:?}");
        let id = scene.store.key(&revoked, settings.clone());
        scene.store.revoke(id);
        add(unknown, "revoked", scene.client(given, &revoked));

        for (what, allow) in [
            (
                "the origin is not listed",
                json!({"origins": ["https://a.org"]}),
            ),
            (
                "the user agent is not listed",
                json!({"userAgents": ["wallet"]}),
            ),
            (
                "the client's network is not listed",
                json!({"networks": ["10.0.0.0/8"]}),
            ),
        ] {
            let name = format!("{}-{given:?}", what.replace([' ', '\''], "-"));
            scene.store.key(&name, narrowed(settings.clone(), allow));
            add(what, "without", scene.client(given, &name));
            let mut other = scene.client(given, &name);
            other.headers.push("origin: https://b.org".to_owned());
            other.headers.push("user-agent: curl".to_owned());
            add(what, "another", other);
        }
    }
    let unknown = "the key is missing, unknown, expired or revoked";
    for (which, client) in [
        ("missing", with(Credentials::BearerKey, "", None)),
        ("empty", with(Credentials::PathKey, "", None)),
        (
            "Basic alone",
            with(Credentials::BearerKey, "", Some("Basic OmE=".to_owned())),
        ),
    ] {
        clients.push((unknown, which.to_owned(), client));
    }
    for given in [Credentials::PathKey, Credentials::BearerKey] {
        let dev = scene.client(given, "dev");
        let other = Presented {
            host: "example.org",
            ..dev.clone()
        };
        clients.push((OTHER_HOST, format!("{given:?}"), other));
        for origin in ["https://example.org", "null"] {
            let mut other = dev.clone();
            other.headers.push(format!("origin: {origin}"));
            clients.push((OTHER_ORIGIN, format!("{given:?}, {origin}"), other));
        }
    }
    clients.extend(without_what_stands_beside(scene));
    // The last one: then every other guess would have to wait.
    let client = with(Credentials::PathKey, "guessed", None);
    clients.push((TOO_MANY_GUESSES, "unknown".to_owned(), client));
    clients
}

/// The clients whose secret or token is missing or wrong.
fn without_what_stands_beside(scene: &mut Scene) -> Vec<(&'static str, String, Presented)> {
    let mut clients = Vec::new();
    let settings = scene.settings(Credentials::BearerSecret);
    scene.store.key("with-secret", settings);
    let settings = scene.settings(Credentials::Token);
    let id = scene.store.key("with-token", settings);
    let header = |value: &str| Some(value.to_owned());
    for (which, given, authorization) in [
        ("no secret", Credentials::PathKey, None),
        (
            "the key alone",
            Credentials::BearerKey,
            header("Bearer with-secret"),
        ),
        (
            "another password",
            Credentials::PathKey,
            header("Basic OmE="),
        ),
        (
            "a user",
            Credentials::PathKey,
            header("Basic YTpzd29yZGZpc2g="),
        ),
        (
            "another bearer",
            Credentials::PathKey,
            header("Bearer swordfisH"),
        ),
        (
            "another scheme",
            Credentials::PathKey,
            header("Digest swordfish"),
        ),
    ] {
        let what = "the secret is missing or wrong";
        let client = with(given, "with-secret", authorization);
        clients.push((what, which.to_owned(), client));
    }
    for (which, given, authorization) in [
        ("no token", Credentials::PathKey, None),
        (
            "the key alone",
            Credentials::BearerKey,
            header("Bearer with-token"),
        ),
        (
            "a password",
            Credentials::PathKey,
            header("Basic OnN3b3JkZmlzaA=="),
        ),
    ] {
        let client = with(given, "with-token", authorization);
        clients.push(("the token is missing", which.to_owned(), client));
    }
    let exp = seconds() + 600;
    let good = json!({"aud": id, "exp": exp});
    let signed = scene.issuer.token(&good);
    let unsigned = signed.rsplit_once('.').unwrap().0;
    let unreadable = "the token cannot be read, or no public key has signed it";
    let malformed = "the token is signed, but a claim is missing or malformed";
    for (what, which, token) in [
        (unreadable, "text", "abc".to_owned()),
        (unreadable, "unsigned", format!("{unsigned}.")),
        (unreadable, "another issuer", scene.other.token(&good)),
        (unreadable, "too long", "a".repeat(9_000)),
        (malformed, "no exp", scene.issuer.token(&json!({"aud": id}))),
        (
            malformed,
            "no aud",
            scene.issuer.token(&json!({"exp": exp})),
        ),
        (
            "the token is signed for another key",
            "aud",
            scene.issuer.token(&json!({"aud": "another", "exp": exp})),
        ),
        (
            "the token is signed, but its `nbf` has not come",
            "nbf",
            scene
                .issuer
                .token(&json!({"aud": id, "exp": exp, "nbf": exp - 100})),
        ),
        (
            "the token is signed, but its `exp` is over",
            "exp",
            scene.issuer.token(&json!({"aud": id, "exp": exp - 700})),
        ),
    ] {
        let client = with(
            Credentials::Token,
            "with-token",
            Some(format!("Bearer {token}")),
        );
        clients.push((what, which.to_owned(), client));
    }
    let settings = scene.settings(Credentials::Token);
    let id = scene.store.key("flooded", settings);
    let token = scene.issuer.token(&json!({"aud": id, "exp": exp}));
    let unsigned = token.rsplit_once('.').unwrap().0;
    let authorization = Some(format!("Bearer {unsigned}."));
    let client = with(Credentials::Token, "flooded", authorization);
    clients.push((TOO_MANY_TOKENS, "unsigned".to_owned(), client));
    clients
}
