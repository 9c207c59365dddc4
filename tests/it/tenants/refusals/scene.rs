//! Clients that give a key in each way, and what they send.

use std::net::SocketAddr;

use nearhead_tenants::{
    id::KeyId,
    record::{BesideSecret, KeySettings},
    secret::SecretDigest,
};
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Response, request},
    tenants::{
        issuer::Issuer,
        prepared_store::{PreparedStore, now},
    },
    websocket::client::{Client, HEADERS, handshake},
};

/// How a key is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// The key in the path.
    PathKey,
    /// The key as a bearer token.
    BearerKey,
    /// The key in the path, and its secret as the password of HTTP Basic.
    BasicSecret,
    /// The key in the path, and its secret as a bearer token.
    BearerSecret,
    /// The key in the path, and a JSON Web Token.
    Token,
}

pub(super) const CREDENTIALS: [Credentials; 5] = [
    Credentials::PathKey,
    Credentials::BearerKey,
    Credentials::BasicSecret,
    Credentials::BearerSecret,
    Credentials::Token,
];

pub(super) const SECRET: &str = "swordfish";

/// What a client sends: the host, what follows `/v3`, and headers.
#[derive(Clone, Debug)]
pub(super) struct Presented {
    pub(super) host: &'static str,
    pub(super) suffix: String,
    pub(super) headers: Vec<String>,
}

/// The keys of the test, and who signs tokens.
pub(super) struct Scene {
    pub(super) store: PreparedStore,
    /// Its public key is that of keys with tokens.
    pub(super) issuer: Issuer,
    pub(super) other: Issuer,
}

impl Scene {
    pub(super) fn new() -> Self {
        let [issuer, other] = ["one", "two"].map(Issuer::new);
        Self {
            store: PreparedStore::default(),
            issuer,
            other,
        }
    }

    /// What a key needs to be given like this.
    pub(super) fn settings(&self, given: Credentials) -> KeySettings {
        let secret = Box::new(BesideSecret {
            digest: SecretDigest::of(SECRET),
            is_required: true,
            exempts: false,
        });
        KeySettings {
            secret: matches!(given, Credentials::BasicSecret | Credentials::BearerSecret)
                .then_some(secret),
            public_keys: match given {
                Credentials::Token => vec![self.issuer.public_key()],
                _ => Vec::new(),
            },
            ..KeySettings::default()
        }
    }

    /// A client that gives this key like this, and would be let in.
    pub(super) fn client(&self, given: Credentials, key: &str) -> Presented {
        let claims = json!({"aud": KeyId::of_configured(key), "exp": seconds() + 600});
        let authorization = match given {
            Credentials::PathKey => None,
            Credentials::BearerKey => Some(format!("Bearer {key}")),
            // ":swordfish" in base64.
            Credentials::BasicSecret => Some("Basic OnN3b3JkZmlzaA==".to_owned()),
            Credentials::BearerSecret => Some(format!("Bearer {SECRET}")),
            Credentials::Token => Some(format!("Bearer {}", self.issuer.token(&claims))),
        };
        with(given, key, authorization)
    }
}

/// A client that gives this key like this, with this header.
pub(super) fn with(given: Credentials, key: &str, authorization: Option<String>) -> Presented {
    let suffix = match given {
        Credentials::BearerKey => String::new(),
        _ => format!("/{key}"),
    };
    let headers = authorization.map(|value| format!("authorization: {value}"));
    Presented {
        host: "localhost",
        suffix,
        headers: headers.into_iter().collect(),
    }
}

pub(super) fn seconds() -> u64 {
    now().0 / 1_000
}

/// Posts a body as a client.
pub(super) fn post(address: SocketAddr, client: &Presented, body: &Value) -> Response {
    let mut connection = Connection::open(address, &format!("/v3{}", client.suffix));
    let mut headers = vec!["content-type: application/json"];
    headers.extend(client.headers.iter().map(String::as_str));
    let request = connection.request(&headers, body.to_string().as_bytes());
    send(&mut connection, client, &request)
}

/// The answer to a client's handshake.
pub(super) fn shake_hands(address: SocketAddr, client: &Presented) -> Response {
    let path = format!("/ws/v3{}", client.suffix);
    let mut headers = HEADERS.to_vec();
    headers.extend(client.headers.iter().map(String::as_str));
    let mut connection = Connection::open(address, &path);
    let request = handshake(&path, &headers);
    send(&mut connection, client, request.as_bytes())
}

/// Sends a request to the host that the client names.
fn send(connection: &mut Connection, client: &Presented, request: &[u8]) -> Response {
    let request = String::from_utf8(request.to_vec()).unwrap();
    let host = format!("host: {}\r\n", client.host);
    connection.send(request.replacen("host: localhost\r\n", &host, 1).as_bytes());
    connection.receive()
}

pub(super) fn open(address: SocketAddr, client: &Presented) -> Client {
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    Client::open_with(address, &format!("/ws/v3{}", client.suffix), &headers)
}

pub(super) fn call(method: &str, params: Value) -> Value {
    request(1, method, &params)
}

pub(super) fn narrowed(settings: KeySettings, allow: Value) -> KeySettings {
    KeySettings {
        allow: serde_json::from_value(allow).unwrap(),
        ..settings
    }
}
