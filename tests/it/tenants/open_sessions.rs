//! What an administrator changes holds for open sessions, soon.

use std::time::{Duration, Instant};

use nearhead_tenants::{UnixMillis, record::KeySettings};
use serde_json::{Value, json};

use super::{
    administrator::Administrator,
    prepared_store::{PreparedStore, now},
};
use crate::{harness::check, websocket::client::Client};

/// The time until a change holds for every session: a second, and three more for a machine that is
/// busy with other tests.
pub(super) const IN_FORCE_MAX: Duration = Duration::from_secs(4);

/// Quotas, and the message once they are exceeded.
const QUOTAS: [(&str, &str); 3] = [
    (
        r#"{"requests": {"perSecond": 1, "burst": 1}}"#,
        "project ID request rate exceeded",
    ),
    (
        r#"{"units": {"perSecond": 1, "burst": 1}}"#,
        "project ID unit rate exceeded",
    ),
    (
        r#"{"unitsPerDay": 1}"#,
        "project ID units of the day are used up, they are renewed at 00:00 UTC",
    ),
];

/// Calls until the answer is of this kind, for as long as a change may take.
fn call_until(case: &str, session: &mut Client, is_it: impl Fn(&Value) -> bool) -> Value {
    let from = Instant::now();
    loop {
        let answer = session.call("eth_chainId", &json!([]));
        let took = from.elapsed();
        if is_it(&answer) {
            assert!(took < IN_FORCE_MAX, "{case}: in force after {took:?}");
            return answer;
        }
        assert!(took < IN_FORCE_MAX, "{case}: not in force: {answer}");
    }
}

/// A quota that a key or its tenant is given while a session is open refuses the session's calls,
/// and no longer once it is taken away.
#[test]
fn a_new_limit_holds_for_open_sessions() {
    let mut store = PreparedStore::default();
    Administrator::prepare(&mut store);
    let mut cases = Vec::new();
    for (at, (quota, message)) in QUOTAS.into_iter().enumerate() {
        for of in ["key", "tenant"] {
            let name = format!("{of}-{at}");
            let id = store.key(&name, KeySettings::default());
            cases.push((of, name, id, quota, message));
        }
    }
    let server = store.serve("open-sessions-limits", &[]);
    let administrator = Administrator::of(&server);
    for (of, name, id, quota, message) in cases {
        let case = format!("{of}, {quota}");
        let mut session = Client::open(server.address, &format!("/ws/v3/{name}"));
        for _ in 0..3 {
            let answer = session.call("eth_chainId", &json!([]));
            assert!(answer["result"].is_string(), "{case}: {answer}");
        }
        let set = |quota: &Value| {
            let quota = json!({"quota": quota});
            let (path, body) = match of {
                "key" => (format!("/keys/{id}"), json!({"settings": quota})),
                _ => (format!("/tenants/{name}"), json!({"limits": quota})),
            };
            administrator.done("PATCH", &path, &body);
        };
        let quota: Value = serde_json::from_str(quota).unwrap();
        set(&quota);
        let refused = call_until(&case, &mut session, |answer| answer["error"].is_object());
        check(&case, &refused["error"]["code"], &json!(-32005));
        check(&case, &refused["error"]["message"], &json!(message));
        let (kind, _) = quota.as_object().unwrap().iter().next().unwrap();
        set(&json!({kind: null}));
        call_until(&case, &mut session, |answer| answer["result"].is_string());
    }
}

/// A session that does nothing is closed when its key expires, also if that was set while it was
/// open.
#[test]
fn a_new_expiry_ends_open_sessions() {
    let mut store = PreparedStore::default();
    Administrator::prepare(&mut store);
    let id = store.key("expiring", KeySettings::default());
    let server = store.serve("open-sessions-expiry", &[]);
    let mut session = Client::open(server.address, "/ws/v3/expiring");
    assert!(session.call("eth_chainId", &json!([]))["result"].is_string());
    let expires = now().after(Duration::from_secs(4));
    let administrator = Administrator::of(&server);
    let body = json!({"expires": expires});
    administrator.done("PATCH", &format!("/keys/{id}"), &body);
    let (code, reason) = session.close_code();
    let closed = now();
    check(
        "closed",
        &(code, reason.as_str()),
        &(4401, "the key was revoked or has expired"),
    );
    check_time(expires, closed);
}

/// Asserts that a session was closed soon after it was due, and not before.
pub(super) fn check_time(due: UnixMillis, closed: UnixMillis) {
    assert!(
        due <= closed && closed < due.after(IN_FORCE_MAX),
        "due at {due:?}, closed at {closed:?}"
    );
}
