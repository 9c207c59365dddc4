//! Open sessions end when their client would be refused.

use std::fs;

use nearhead_tenants::UnixMillis;
use serde_json::{Value, json};

use super::{
    refusal::{OTHER_HOST, REFUSALS, Refusal, row},
    scene::{CREDENTIALS, Credentials, Scene, open, seconds, with},
};
use crate::{
    harness::{Server, check, nearhead, scratch},
    tenants::{administrator::Administrator, open_sessions::IN_FORCE_MAX, prepared_store::now},
    websocket::client::Client,
};

/// What an administrator changes so that a session ends for the reason of this row; `None` if its
/// credentials cannot have that.
fn change(scene: &Scene, what: &str, given: Credentials) -> Option<Value> {
    let has_secret = matches!(given, Credentials::BasicSecret | Credentials::BearerSecret);
    let settings = match what {
        "the key is missing, unknown, expired or revoked" => return Some(Value::Null),
        "the secret is missing or wrong" if given != Credentials::Token => {
            json!({"secret": {"required": true}})
        }
        "the token is missing" if given != Credentials::Token && !has_secret => {
            json!({"publicKeys": [scene.issuer.public_key()]})
        }
        "the token cannot be read, or no public key has signed it"
            if given == Credentials::Token =>
        {
            json!({"publicKeys": [scene.other.public_key()]})
        }
        "the origin is not listed" => json!({"allow": {"origins": ["https://a.org"]}}),
        "the user agent is not listed" => json!({"allow": {"userAgents": ["wallet"]}}),
        "the client's network is not listed" => json!({"allow": {"networks": ["10.0.0.0/8"]}}),
        _ => return None,
    };
    Some(json!({"settings": settings}))
}

#[test]
fn open_sessions_end_when_they_would_be_refused() {
    let mut scene = Scene::new();
    Administrator::prepare(&mut scene.store);
    let mut cases = Vec::new();
    for (at, row) in REFUSALS.iter().enumerate() {
        for given in CREDENTIALS {
            let is_expiry = row.what == "the token is signed, but its `exp` is over";
            let change = change(&scene, row.what, given);
            if change.is_none() && !(is_expiry && given == Credentials::Token) {
                continue;
            }
            let name = format!("{at}-{given:?}");
            let settings = scene.settings(given);
            let id = scene.store.key(&name, settings);
            cases.push((row, given, name, id, change));
        }
    }
    // Hosts are of the configuration: the next test changes them.
    let ends = |row: &Refusal| row.session.starts_with("44") && row.what != OTHER_HOST;
    for row in REFUSALS.iter().filter(|row| ends(row)) {
        assert!(
            cases.iter().any(|(other, ..)| other.what == row.what),
            "{}",
            row.what
        );
    }
    let server = scene.store.serve("refusals-sessions", &[]);
    // A token has 60 s more than its `exp`.
    let exp = seconds() - 56;
    let token_ends = UnixMillis((exp + 60) * 1_000);
    // All at once, because each end takes up to a second.
    let mut sessions: Vec<_> = cases
        .into_iter()
        .map(|(row, given, name, id, change)| {
            let client = match change {
                Some(_) => scene.client(given, &name),
                None => {
                    let claims = json!({"aud": id, "exp": exp});
                    let token = scene.issuer.token(&claims);
                    with(given, &name, Some(format!("Bearer {token}")))
                }
            };
            let mut session = open(server.address, &client);
            let answer = session.call("eth_chainId", &json!([]));
            assert!(answer["result"].is_string(), "{given:?}: {answer}");
            (row, given, id, change, session)
        })
        .collect();
    let administrator = Administrator::of(&server);
    for (_, _, id, change, _) in &sessions {
        match change {
            Some(Value::Null) => {
                administrator.done("POST", &format!("/keys/{id}/revoke"), &Value::Null);
            }
            Some(change) => {
                administrator.done("PATCH", &format!("/keys/{id}"), change);
            }
            None => {}
        }
    }
    let changed = now();
    // Those that wait for the time come last, because they are read one after another.
    sessions.sort_by_key(|(.., change, _)| change.is_none());
    for (row, given, _, change, session) in &mut sessions {
        let (code, reason) = session.close_code();
        let due = match change {
            Some(_) => changed,
            None => token_ends,
        };
        let closed = now();
        assert!(
            closed < due.after(IN_FORCE_MAX),
            "{}: {given:?}: due at {due:?}, closed at {closed:?}",
            row.what
        );
        let case = format!("{}: {given:?}", row.what);
        check(&case, &format!("{code}, `{reason}`").as_str(), &row.session);
    }
}

/// Hosts of the default key that the operator no longer allows end its sessions, at SIGHUP.
#[test]
fn sessions_of_the_default_key_end_when_hosts_change() {
    let file = scratch("refusals-hosts").join("nearhead.toml");
    fs::write(&file, "allowed-host = [\"dev.example.org\"]\n").unwrap();
    let fixed = [
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--block-time",
        "0s",
    ];
    let mut command = nearhead(
        fixed
            .iter()
            .copied()
            .chain(["--config", file.to_str().unwrap()]),
    );
    let server = Server::of(&mut command);
    let mut session = Client::open(server.address, "/ws/v3/dev");
    assert!(session.call("eth_chainId", &json!([]))["result"].is_string());
    fs::write(&file, "").unwrap();
    server.process.hang_up();
    let (code, reason) = session.close_code();
    let closed = format!("{code}, `{reason}`");
    check("closed", &closed.as_str(), &row(OTHER_HOST).session);
}
