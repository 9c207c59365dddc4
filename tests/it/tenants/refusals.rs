//! Every refusal of docs/access.md, for each way to give a key: over HTTP, in the handshake of a
//! session and as a message of one.

use std::{fs, net::SocketAddr, path::Path};

use nearhead_tenants::{
    id::KeyId,
    limits::{Quota, Rate, TenantLimits},
    record::{BesideSecret, KeySettings},
    secret::SecretDigest,
};
use serde_json::{Value, json};

use super::{
    issuer::Issuer,
    prepared_store::{PreparedStore, now},
};
use crate::{
    harness::{Connection, Response, Server, check, json as parse, request},
    websocket::client::{Client, HEADERS, handshake},
};

/// A row of the table.
struct Refusal {
    what: &'static str,
    place: &'static str,
    status: u16,
    code: i64,
    message: &'static str,
    retry_after: &'static str,
    rate_limit: &'static str,
    session: &'static str,
}

const fn refusal(
    what: &'static str,
    place: &'static str,
    (status, code, message): (u16, i64, &'static str),
    (retry_after, rate_limit): (&'static str, &'static str),
    session: &'static str,
) -> Refusal {
    Refusal {
        what,
        place,
        status,
        code,
        message,
        retry_after,
        rate_limit,
        session,
    }
}

const NO: (&str, &str) = ("no", "no");
const IF_LIMITED: (&str, &str) = ("no", "if a rate is limited");
const KEYS_CHANGED: &str = "4401, `the key's public keys have changed`";
const LIST_CHANGED: &str = "4403, `an allowlist of the key has changed`";

#[rustfmt::skip]
const REFUSALS: [Refusal; 18] = [
    refusal("the key is missing, unknown, expired or revoked", "door", (401, -32002, "invalid project id"), NO, "4401, `the key was revoked or has expired`"),
    refusal("the secret is missing or wrong", "door", (401, -32002, "invalid project secret"), NO, "4401, `the key's secret has changed`"),
    refusal("the token is missing", "door", (401, -32002, "JSON Web Token required, send it in the header Authorization: Bearer"), NO, KEYS_CHANGED),
    refusal("the token cannot be read, or no public key has signed it", "door", (401, -32002, "invalid JSON Web Token"), NO, KEYS_CHANGED),
    refusal("the token is signed, but a claim is missing or malformed", "door", (401, -32002, "invalid claims of the JSON Web Token, it needs aud and exp"), NO, "never"),
    refusal("the token is signed for another key", "door", (401, -32002, "the JSON Web Token is for another audience"), NO, "never"),
    refusal("the token is signed, but its `nbf` has not come", "door", (401, -32002, "the JSON Web Token is not valid yet"), NO, "never"),
    refusal("the token is signed, but its `exp` is over", "door", (401, -32002, "the JSON Web Token has expired"), NO, "4401, `the JSON Web Token has expired`"),
    refusal("the origin is not listed", "door", (403, -32002, "the origin is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the user agent is not listed", "door", (403, -32002, "the user agent is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the client's network is not listed", "door", (403, -32002, "the IP address is not on the allowlist of this project ID"), NO, LIST_CHANGED),
    refusal("the method is not listed", "call", (403, -32002, "the method is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("a contract is not listed", "call", (403, -32002, "the contract address is not on the allowlist of this project ID"), IF_LIMITED, "stays open"),
    refusal("requests a second", "body, handshake", (429, -32005, "project ID request rate exceeded"), ("yes", "yes"), "stays open"),
    refusal("units a second", "body, handshake", (429, -32005, "project ID unit rate exceeded"), ("yes", "yes"), "stays open"),
    refusal("units a day", "body, handshake", (402, -32005, "project ID units of the day are used up, they are renewed at 00:00 UTC"), ("yes, until 00:00 UTC", "if a rate is limited"), "stays open"),
    refusal("sessions", "handshake", (503, -32002, "resource unavailable"), ("1", "no"), "stays open"),
    refusal("subscriptions of the tenant", "call", (200, -32000, "too many subscriptions, at most N a project ID"), IF_LIMITED, "stays open"),
];

/// The row of this refusal.
fn row(what: &str) -> &'static Refusal {
    let row = REFUSALS.iter().find(|row| row.what == what);
    row.unwrap_or_else(|| panic!("no row {what}"))
}

#[test]
fn the_table_of_the_docs_is_this_one() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/access.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, table) = page.split_once("\n| what | where | status |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let found: Vec<&str> = table.lines().skip(2).collect();
    let expected = REFUSALS.iter().map(|row| {
        let Refusal {
            what,
            place,
            status,
            code,
            message,
            retry_after,
            rate_limit,
            session,
        } = row;
        format!(
            "| {what} | {place} | {status} | {code} | `{message}` | {retry_after} | {rate_limit} | {session} |"
        )
    });
    let expected: Vec<String> = expected.collect();
    for (found, expected) in found.iter().zip(&expected) {
        check("docs/access.md", found, &expected.as_str());
    }
    check("rows", &found.len(), &expected.len());
}

/// How a key is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Path,
    Bearer,
    BasicSecret,
    BearerSecret,
    Token,
}

const WAYS: [Way; 5] = [
    Way::Path,
    Way::Bearer,
    Way::BasicSecret,
    Way::BearerSecret,
    Way::Token,
];

const SECRET: &str = "swordfish";

/// What a client sends: what follows `/v3`, and headers.
#[derive(Clone, Debug)]
struct Presented {
    suffix: String,
    headers: Vec<String>,
}

/// The keys of the test, and who signs tokens.
struct Scene {
    store: PreparedStore,
    issuer: Issuer,
    other: Issuer,
}

impl Scene {
    fn new() -> Self {
        let [issuer, other] = ["one", "two"].map(Issuer::new);
        Self {
            store: PreparedStore::default(),
            issuer,
            other,
        }
    }

    /// What a key needs that is given in this way.
    fn settings(&self, way: Way) -> KeySettings {
        let secret = BesideSecret {
            digest: SecretDigest::of(SECRET),
            is_required: true,
            exempts: false,
        };
        KeySettings {
            secret: matches!(way, Way::BasicSecret | Way::BearerSecret).then_some(secret),
            public_keys: match way {
                Way::Token => vec![self.issuer.public_key()],
                _ => Vec::new(),
            },
            ..KeySettings::default()
        }
    }

    /// A client that gives this key in this way, and would be let in.
    fn client(&self, way: Way, key: &str) -> Presented {
        let claims = json!({"aud": KeyId::of_configured(key), "exp": seconds() + 600});
        let authorization = match way {
            Way::Path => None,
            Way::Bearer => Some(format!("Bearer {key}")),
            // ":swordfish" in base64.
            Way::BasicSecret => Some("Basic OnN3b3JkZmlzaA==".to_owned()),
            Way::BearerSecret => Some(format!("Bearer {SECRET}")),
            Way::Token => Some(format!("Bearer {}", self.issuer.token(&claims))),
        };
        with(way, key, authorization)
    }
}

/// A client that gives this key in this way, with this header.
fn with(way: Way, key: &str, authorization: Option<String>) -> Presented {
    let suffix = match way {
        Way::Bearer => String::new(),
        _ => format!("/{key}"),
    };
    let headers = authorization.map(|value| format!("authorization: {value}"));
    Presented {
        suffix,
        headers: headers.into_iter().collect(),
    }
}

fn seconds() -> u64 {
    now().0 / 1_000
}

/// Posts a body as a client.
fn post(address: SocketAddr, client: &Presented, body: &Value) -> Response {
    let mut connection = Connection::open(address, &format!("/v3{}", client.suffix));
    let mut headers = vec!["content-type: application/json"];
    headers.extend(client.headers.iter().map(String::as_str));
    let request = connection.request(&headers, body.to_string().as_bytes());
    connection.send(&request);
    connection.receive()
}

/// The answer to a client's handshake.
fn shake_hands(address: SocketAddr, client: &Presented) -> Response {
    let path = format!("/ws/v3{}", client.suffix);
    let mut headers = HEADERS.to_vec();
    headers.extend(client.headers.iter().map(String::as_str));
    let mut connection = Connection::open(address, &path);
    connection.send(handshake(&path, &headers).as_bytes());
    connection.receive()
}

fn open(address: SocketAddr, client: &Presented) -> Client {
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    Client::open_with(address, &format!("/ws/v3{}", client.suffix), &headers)
}

fn check_error(case: &str, answer: &Value, row: &Refusal) {
    let error = &answer["error"];
    check(case, &error["code"], &json!(row.code));
    let expected = row.message.replace("at most N", "at most 0");
    check(case, &error["message"], &json!(expected));
}

fn check_response(case: &str, response: &Response, row: &Refusal) {
    check(case, &response.status, &row.status);
    check_error(case, &parse(&response.body), row);
    let retry_after = response.header("retry-after");
    let number = retry_after.and_then(|seconds| seconds.parse::<u64>().ok());
    match row.retry_after {
        "no" => check(case, &retry_after, &None),
        "1" => check(case, &retry_after, &Some("1")),
        "yes" => assert!(matches!(number, Some(1..=60)), "{case}: {retry_after:?}"),
        "yes, until 00:00 UTC" => {
            let left = 86_400 - seconds() % 86_400;
            let is_near = number.is_some_and(|number| number.abs_diff(left) <= 60);
            assert!(is_near, "{case}: {retry_after:?}, not {left}");
        }
        other => panic!("{other}"),
    }
    for name in ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        let is_there = response.header(name).is_some();
        check(
            &format!("{case}: {name}"),
            &is_there,
            &(row.rate_limit == "yes"),
        );
    }
}

fn call(method: &str, params: Value) -> Value {
    request(1, method, &params)
}

fn narrowed(settings: KeySettings, allow: Value) -> KeySettings {
    KeySettings {
        allow: serde_json::from_value(allow).unwrap(),
        ..settings
    }
}

/// The clients that the door refuses, each with the row that says how.
fn refused_at_the_door(scene: &mut Scene) -> Vec<(&'static str, String, Presented)> {
    let mut clients = Vec::new();
    for way in WAYS {
        let mut add = |what: &'static str, which: &str, client: Presented| {
            clients.push((what, format!("{way:?}, {which}"), client));
        };
        let settings = scene.settings(way);
        let unknown = "the key is missing, unknown, expired or revoked";
        add(unknown, "unknown", scene.client(way, "nobody"));
        let expired = format!("expired-{way:?}");
        let tenant = scene.store.tenant(&expired, TenantLimits::default());
        let over = Some(now());
        scene.store.key_of(tenant, &expired, over, settings.clone());
        add(unknown, "expired", scene.client(way, &expired));
        let revoked = format!("revoked-{way:?}");
        let id = scene.store.key(&revoked, settings.clone());
        scene.store.revoke(id);
        add(unknown, "revoked", scene.client(way, &revoked));

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
            let name = format!("{}-{way:?}", what.replace([' ', '\''], "-"));
            scene.store.key(&name, narrowed(settings.clone(), allow));
            add(what, "without", scene.client(way, &name));
            let mut other = scene.client(way, &name);
            other.headers.push("origin: https://b.org".to_owned());
            other.headers.push("user-agent: curl".to_owned());
            add(what, "another", other);
        }
    }
    let unknown = "the key is missing, unknown, expired or revoked";
    for (which, client) in [
        ("missing", with(Way::Bearer, "", None)),
        ("empty", with(Way::Path, "", None)),
        (
            "Basic alone",
            with(Way::Bearer, "", Some("Basic OmE=".to_owned())),
        ),
    ] {
        clients.push((unknown, which.to_owned(), client));
    }
    clients.extend(without_what_stands_beside(scene));
    clients
}

/// The clients whose secret or token is missing or wrong.
fn without_what_stands_beside(scene: &mut Scene) -> Vec<(&'static str, String, Presented)> {
    let mut clients = Vec::new();
    let settings = scene.settings(Way::BearerSecret);
    scene.store.key("with-secret", settings);
    let settings = scene.settings(Way::Token);
    let id = scene.store.key("with-token", settings);
    let header = |value: &str| Some(value.to_owned());
    for (which, way, authorization) in [
        ("no secret", Way::Path, None),
        ("the key alone", Way::Bearer, header("Bearer with-secret")),
        ("another password", Way::Path, header("Basic OmE=")),
        ("a user", Way::Path, header("Basic YTpzd29yZGZpc2g=")),
        ("another bearer", Way::Path, header("Bearer swordfisH")),
        ("another scheme", Way::Path, header("Digest swordfish")),
    ] {
        let what = "the secret is missing or wrong";
        let client = with(way, "with-secret", authorization);
        clients.push((what, which.to_owned(), client));
    }
    for (which, way, authorization) in [
        ("no token", Way::Path, None),
        ("the key alone", Way::Bearer, header("Bearer with-token")),
        ("a password", Way::Path, header("Basic OnN3b3JkZmlzaA==")),
    ] {
        let client = with(way, "with-token", authorization);
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
        let client = with(Way::Token, "with-token", Some(format!("Bearer {token}")));
        clients.push((what, which.to_owned(), client));
    }
    clients
}

#[test]
fn the_door_refuses_requests_and_handshakes() {
    let mut scene = Scene::new();
    let clients = refused_at_the_door(&mut scene);
    let good: Vec<_> = WAYS
        .map(|way| {
            let name = format!("good-{way:?}");
            let settings = scene.settings(way);
            scene.store.key(&name, settings);
            scene.client(way, &name)
        })
        .into();
    let server = scene.store.serve("refusals-door", &[]);
    for client in good {
        let response = post(server.address, &client, &call("eth_chainId", json!([])));
        check(&format!("{client:?}"), &response.status, &200);
        drop(open(server.address, &client));
    }
    for row in REFUSALS.iter().filter(|row| row.place == "door") {
        let of_row = clients.iter().filter(|(what, ..)| *what == row.what);
        assert!(of_row.count() > 0, "no client for {}", row.what);
    }
    let chain_id = call("eth_chainId", json!([]));
    for (what, which, client) in clients {
        let case = format!("{what}: {which}");
        for body in [&chain_id, &json!([chain_id, chain_id])] {
            let response = post(server.address, &client, body);
            check_response(&format!("{case}, HTTP"), &response, row(what));
        }
        let response = shake_hands(server.address, &client);
        check_response(&format!("{case}, handshake"), &response, row(what));
    }
}

#[test]
fn calls_and_bodies_are_refused_over_both_transports() {
    let mut scene = Scene::new();
    let rate = |quota: Quota| TenantLimits {
        quota,
        ..TenantLimits::default()
    };
    let one = Some(Rate::of_one_second(std::num::NonZeroU32::MIN));
    let contract = "0xde00000000000000000000000000000000000001";
    let balance = call(
        "eth_getBalance",
        json!(["0xde00000000000000000000000000000000000002"]),
    );
    let chain_id = call("eth_chainId", json!([]));
    let subscribe = call("eth_subscribe", json!(["newHeads"]));
    let no_limits = TenantLimits::default();
    let no_lists = json!({});
    // Each row, what its tenant may do, what its key is narrowed to, and what is refused.
    let of_day = std::num::NonZeroU64::new(1);
    let cases = [
        (
            "the method is not listed",
            no_limits,
            json!({"methods": ["eth_blockNumber"]}),
            &chain_id,
        ),
        (
            "a contract is not listed",
            no_limits,
            json!({"contracts": [contract]}),
            &balance,
        ),
        (
            "requests a second",
            rate(Quota {
                requests: one,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "units a second",
            rate(Quota {
                units: one,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "units a day",
            rate(Quota {
                units_per_day: of_day,
                ..Quota::default()
            }),
            no_lists.clone(),
            &chain_id,
        ),
        (
            "sessions",
            TenantLimits {
                sessions: Some(0),
                ..no_limits
            },
            no_lists.clone(),
            &chain_id,
        ),
        (
            "subscriptions of the tenant",
            TenantLimits {
                subscriptions: Some(0),
                ..no_limits
            },
            no_lists,
            &subscribe,
        ),
    ];
    for row in REFUSALS.iter().filter(|row| row.place != "door") {
        let of_row = cases.iter().filter(|(what, ..)| *what == row.what);
        check(row.what, &of_row.count(), &1);
    }
    let mut clients = Vec::new();
    for (what, limits, allow, body) in &cases {
        for way in WAYS {
            let name = format!("{}-{way:?}", what.replace(' ', "-"));
            let tenant = scene.store.tenant(&name, *limits);
            let settings = narrowed(scene.settings(way), allow.clone());
            scene.store.key_of(tenant, &name, None, settings);
            clients.push((*what, way, scene.client(way, &name), *body));
        }
    }
    let server = scene.store.serve("refusals-calls", &[]);
    for (what, way, client, body) in clients {
        let (case, row) = (format!("{what}: {way:?}"), row(what));
        if row.place == "handshake" {
            let response = shake_hands(server.address, &client);
            check_response(&format!("{case}, handshake"), &response, row);
            continue;
        }
        let mut session = open(server.address, &client);
        if row.place != "call" {
            // Uses up the quota: a body that is larger than a full bucket leaves it in debt. If the
            // handshake has emptied it, it is full again within a second or two.
            let batch = Value::from(vec![chain_id.clone(); 50]);
            crate::harness::wait_until("the quota is used up", || {
                let response = post(server.address, &client, &batch);
                response.status == 200 || row.what == "units a day"
            });
        }
        // Over HTTP, nobody subscribes.
        if row.status != 200 {
            let response = post(server.address, &client, body);
            check_response(&format!("{case}, HTTP"), &response, row);
        }
        if row.place == "body, handshake" {
            let response = shake_hands(server.address, &client);
            check_response(&format!("{case}, handshake"), &response, row);
        }
        session.text(&body.to_string());
        let answer = session.answer();
        check(&case, &answer["id"], &json!(1));
        check_error(&format!("{case}, session"), &answer, row);
        if row.place == "call" {
            let batch = json!([body, call("eth_blockNumber", json!([]))]);
            session.text(&batch.to_string());
            let answers = session.answer();
            check_error(&format!("{case}, in a batch"), &answers[0], row);
            let is_answered = answers[1]["result"].is_string();
            check(&format!("{case}, stays open"), &is_answered, &true);
        }
    }
}

/// What an administrator changes so that a session ends for the reason of this row; `None` if its
/// way cannot have that.
fn change(scene: &Scene, what: &str, way: Way) -> Option<Value> {
    let has_secret = matches!(way, Way::BasicSecret | Way::BearerSecret);
    let settings = match what {
        "the key is missing, unknown, expired or revoked" => return Some(Value::Null),
        "the secret is missing or wrong" if way != Way::Token => {
            json!({"secret": {"required": true}})
        }
        "the token is missing" if way != Way::Token && !has_secret => {
            json!({"publicKeys": [scene.issuer.public_key()]})
        }
        "the token cannot be read, or no public key has signed it" if way == Way::Token => {
            json!({"publicKeys": [scene.other.public_key()]})
        }
        "the origin is not listed" => json!({"allow": {"origins": ["https://a.org"]}}),
        "the user agent is not listed" => json!({"allow": {"userAgents": ["wallet"]}}),
        "the client's network is not listed" => json!({"allow": {"networks": ["10.0.0.0/8"]}}),
        _ => return None,
    };
    Some(json!({"settings": settings}))
}

/// Calls the API of administration.
fn administer(server: &Server, verb: &str, path: &str, body: &Value) {
    let admin = server.admin.expect("there is an admin listener");
    let path = format!("/admin/api/v1{path}");
    // Some calls take no body.
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut connection = Connection::open(admin, &path);
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {API_TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.send(format!("{head}{body}").as_bytes());
    let response = connection.receive();
    assert!(response.status < 300, "{verb} {path} {body}: {response:?}");
}

const API_TOKEN: &str = "token-of-the-test";

#[test]
fn open_sessions_end_when_they_would_be_refused() {
    let mut scene = Scene::new();
    scene.store.api_token(API_TOKEN);
    let mut cases = Vec::new();
    for (at, row) in REFUSALS.iter().enumerate() {
        for way in WAYS {
            let is_expiry = row.what == "the token is signed, but its `exp` is over";
            let change = change(&scene, row.what, way);
            if change.is_none() && !(is_expiry && way == Way::Token) {
                continue;
            }
            let name = format!("{at}-{way:?}");
            let settings = scene.settings(way);
            let id = scene.store.key(&name, settings);
            cases.push((row, way, name, id, change));
        }
    }
    let ends = |row: &Refusal| row.session.starts_with("44");
    for row in REFUSALS.iter().filter(|row| ends(row)) {
        assert!(
            cases.iter().any(|(other, ..)| other.what == row.what),
            "{}",
            row.what
        );
    }
    let server = scene.store.serve("refusals-sessions", &[]);
    // All at once, because each end takes up to a second.
    let mut sessions: Vec<_> = cases
        .into_iter()
        .map(|(row, way, name, id, change)| {
            let client = match change {
                Some(_) => scene.client(way, &name),
                None => {
                    let claims = json!({"aud": id, "exp": seconds() - 55});
                    let token = scene.issuer.token(&claims);
                    with(way, &name, Some(format!("Bearer {token}")))
                }
            };
            let mut session = open(server.address, &client);
            let answer = session.call("eth_chainId", &json!([]));
            assert!(answer["result"].is_string(), "{way:?}: {answer}");
            (row, way, id, change, session)
        })
        .collect();
    for (_, _, id, change, _) in &sessions {
        match change {
            Some(Value::Null) => {
                administer(&server, "POST", &format!("/keys/{id}/revoke"), &Value::Null);
            }
            Some(change) => administer(&server, "PATCH", &format!("/keys/{id}"), change),
            None => {}
        }
    }
    for (row, way, _, _, session) in &mut sessions {
        let (code, reason) = session.close_code();
        let case = format!("{}: {way:?}", row.what);
        check(&case, &format!("{code}, `{reason}`").as_str(), &row.session);
    }
}
