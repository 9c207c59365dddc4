use serde_json::json;

use super::scene::*;
use crate::{UnixMillis, administration::*, id::KeyId};

/// Checks that an operation is refused with a code and a message, and that nothing changes.
fn check<O: Operation>(
    scene: &mut Scene,
    operation: O,
    kind: AdminErrorKind,
    code: &str,
    message: &str,
) {
    let before = scene.store.usage_queries.lock().unwrap().len();
    let verbs = scene.verbs();
    let Err(error) = scene.run(operation, &admin()) else {
        panic!("{code} is expected");
    };
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    assert!(error.to_string().contains(message), "{error}");
    let body = json!(ErrorBody::from(&error));
    assert_eq!(body["error"]["code"], code);
    assert_eq!(scene.verbs(), verbs);
    assert!(scene.store.usage_queries.lock().unwrap().len() <= before + 1);
}

#[test]
fn tenants() {
    use AdminErrorKind as Kind;
    let scene = &mut Scene::new();
    let taken = "another tenant has the name bob";
    check(
        scene,
        create_tenant("bob"),
        Kind::Conflict,
        "name_taken",
        taken,
    );
    let rename: UpdateTenant = of_json(json!({"id": "alice", "name": "bob"}));
    check(scene, rename, Kind::Conflict, "name_taken", taken);
    for named in ["carol", "0123456789abcdef", "", "\u{202e}"] {
        let id: TenantRef = named.parse().unwrap();
        let message = format!("there is no tenant {named}");
        let remove = RemoveTenant { id: id.clone() };
        check(scene, remove, Kind::Unknown, "unknown_tenant", &message);
        check(
            scene,
            GetTenant { id },
            Kind::Unknown,
            "unknown_tenant",
            &message,
        );
    }
    // One that only the configuration names.
    let id: TenantRef = "flag".parse().unwrap();
    let message = "create one of this name to give it limits, or change --api-key";
    let remove = RemoveTenant { id };
    check(scene, remove, Kind::Conflict, "configured", message);
    let update = of_json::<UpdateTenant>(json!({"id": "flag", "limits": {"weight": 2}}));
    check(scene, update, Kind::Conflict, "configured", message);
    check(
        scene,
        create_key("flag", "x"),
        Kind::Conflict,
        "configured",
        message,
    );
    let list = ListTenants {
        limit: Some(501),
        ..ListTenants::default()
    };
    check(
        scene,
        list,
        Kind::Invalid,
        "invalid",
        "limit: a page has 1 to 500 entries",
    );
}

#[test]
fn keys() {
    use AdminErrorKind as Kind;
    let scene = &mut Scene::new();
    let id = KeyId::of_bytes([7; 8]);
    let message = "there is no key 0707070707070707";
    check(scene, GetKey { id }, Kind::Unknown, "unknown_key", message);
    check(scene, update_key(id), Kind::Unknown, "unknown_key", message);
    check(
        scene,
        RevokeKey { id },
        Kind::Unknown,
        "unknown_key",
        message,
    );
    check(
        scene,
        RotateKey { id, overlap: None },
        Kind::Unknown,
        "unknown_key",
        message,
    );
    let remove = RemoveKey { id };
    check(scene, remove, Kind::Unknown, "unknown_key", message);
    // A key that the configuration names.
    let id = scene.flag;
    let message = "is configured: change it where it is written, which is --api-key";
    check(scene, update_key(id), Kind::Conflict, "configured", message);
    check(
        scene,
        RevokeKey { id },
        Kind::Conflict,
        "configured",
        message,
    );
    check(
        scene,
        RotateKey { id, overlap: None },
        Kind::Conflict,
        "configured",
        message,
    );
    let remove = RemoveKey { id };
    check(scene, remove, Kind::Conflict, "configured", message);
    let over = CreateKey {
        expires: Some(NOW),
        ..create_key("alice", "over")
    };
    check(
        scene,
        over,
        Kind::Invalid,
        "invalid",
        "expires: this time is past",
    );
    let nine_keys: Vec<_> = (0..9).map(|kid| public_key(&kid.to_string())).collect();
    for (settings, message) in [
        (
            json!({"allow": {"methods": ["eth_blockNumbr"]}}),
            "there is no method eth_blockNumbr",
        ),
        (
            json!({"publicKeys": [{"kid": "a", "algorithm": "ES256", "pem": "x"}]}),
            "public key a: expected one public key in PEM",
        ),
        (
            json!({"publicKeys": [public_key("a"), public_key("a")]}),
            "two public keys have the kid a",
        ),
        (
            json!({"publicKeys": [public_key("a")], "secret": {}}),
            "a key has a secret or public keys, not both",
        ),
        (
            json!({"publicKeys": nine_keys}),
            "a key has at most 8 public keys",
        ),
    ] {
        let key = scene.alice.view.id;
        let update: UpdateKey = of_json(json!({"id": key, "settings": settings}));
        check(scene, update, Kind::Invalid, "invalid", message);
        let create = json!({"tenant": "alice", "name": "x", "settings": settings});
        check(
            scene,
            of_json::<CreateKey>(create),
            Kind::Invalid,
            "invalid",
            message,
        );
    }
}

fn public_key(kid: &str) -> serde_json::Value {
    json!({"kid": kid, "algorithm": "ES256", "pem": PEM_OF_A})
}

/// The public key of RFC 7515 §A.3.
const PEM_OF_A: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
-----END PUBLIC KEY-----
";

#[test]
fn keys_that_are_over() {
    use AdminErrorKind as Kind;
    let scene = &mut Scene::new();
    let id = scene.alice.view.id;
    let made = scene.done(RotateKey { id, overlap: None });
    let message = format!("rotate its successor {}", made.view.id);
    check(
        scene,
        RotateKey { id, overlap: None },
        Kind::Conflict,
        "rotated",
        &message,
    );
    let chained = RotateKey {
        id: made.view.id,
        overlap: None,
    };
    let message =
        format!("the key {id}, of the same chain of rotations, lets clients in until 2026-01-16T");
    check(scene, chained, Kind::Conflict, "overlap", &message);
    let remove = RemoveKey { id };
    check(scene, remove, Kind::Conflict, "active", "revoke it before");
    let endless = RotateKey {
        id: scene.bob.view.id,
        overlap: Some("2592001s".parse().unwrap()),
    };
    let message = "overlap: the old key lets clients in for up to 30d";
    check(scene, endless, Kind::Invalid, "invalid", message);
    let id = scene.bob.view.id;
    scene.done(RevokeKey { id });
    let message = "was revoked, and stays so";
    check(scene, update_key(id), Kind::Conflict, "revoked", message);
    check(
        scene,
        RotateKey { id, overlap: None },
        Kind::Conflict,
        "revoked",
        message,
    );
    let expired = scene.done(create_key("bob", "expired")).view.id;
    scene.done(UpdateKey {
        expires: Patch::Set(NOW),
        ..update_key(expired)
    });
    let rotate = RotateKey {
        id: expired,
        overlap: None,
    };
    check(
        scene,
        rotate,
        Kind::Conflict,
        "expired",
        "has expired: let it expire later",
    );
}

#[test]
fn accounts_and_tokens() {
    use AdminErrorKind as Kind;
    let scene = &mut Scene::new();
    let account = |name: &str, role, tenant: Option<&str>| PreparedAccount {
        name: name.parse().unwrap(),
        password: hash(),
        role,
        tenant: tenant.map(|tenant| tenant.parse().unwrap()),
    };
    let taken = account("ann", RoleName::Admin, None);
    check(
        scene,
        taken,
        Kind::Conflict,
        "name_taken",
        "the name ann is in use already",
    );
    let of_tenant = account("x", RoleName::Admin, Some("alice"));
    check(
        scene,
        of_tenant,
        Kind::Invalid,
        "invalid",
        "an administrator has no tenant",
    );
    let of_none = account("x", RoleName::Holder, None);
    check(
        scene,
        of_none,
        Kind::Invalid,
        "invalid",
        "a holder needs a tenant",
    );
    let of_unknown = account("x", RoleName::Holder, Some("carol"));
    check(
        scene,
        of_unknown,
        Kind::Unknown,
        "unknown_tenant",
        "there is no tenant carol",
    );
    let short: CreateAccount = of_json(json!({"name": "x", "password": "short", "role": "admin"}));
    check(
        scene,
        short,
        Kind::Invalid,
        "invalid_password",
        "at least 12 characters",
    );
    let name = || "eve".parse().unwrap();
    let unknown = RemoveAccount { name: name() };
    check(
        scene,
        unknown,
        Kind::Unknown,
        "unknown_account",
        "there is no account eve",
    );
    let unknown = RemoveToken { name: name() };
    check(
        scene,
        unknown,
        Kind::Unknown,
        "unknown_token",
        "there is no API token eve",
    );
    let unknown: SetPassword = of_json(json!({"name": "eve", "password": "correct horse battery"}));
    check(
        scene,
        unknown,
        Kind::Unknown,
        "unknown_account",
        "there is no account eve",
    );
    let last = RemoveAccount {
        name: "root".parse().unwrap(),
    };
    let message = "the only administrator is root";
    check(scene, last, Kind::Conflict, "last_administrator", message);
    let token = |expires: Option<UnixMillis>| CreateToken {
        name: name(),
        role: RoleName::Admin,
        tenant: None,
        expires,
    };
    check(
        scene,
        token(Some(NOW)),
        Kind::Invalid,
        "invalid",
        "expires: this time is past",
    );
    scene.done(token(None));
    check(
        scene,
        token(None),
        Kind::Conflict,
        "name_taken",
        "the name eve is in use already",
    );
}

#[test]
fn ranges_of_usage() {
    use AdminErrorKind as Kind;
    let scene = &mut Scene::new();
    for (range, message) in [
        (
            json!({"last": "0s"}),
            "last: usage is kept for the last 30 days",
        ),
        (
            json!({"last": "32d"}),
            "last: usage is kept for the last 30 days",
        ),
        (
            json!({"last": "1h", "from": 1}),
            "last: give either last, or from and to",
        ),
        (json!({"to": 1}), "from: to needs a from"),
        (
            json!({"from": 2, "to": 2}),
            "to: a range ends after it begins",
        ),
        (
            json!({"from": 2, "to": u64::MAX}),
            "to: a range ends after it begins",
        ),
    ] {
        check(
            scene,
            of_json::<GetUsage>(range),
            Kind::Invalid,
            "invalid",
            message,
        );
    }
    let (key, tenant) = (scene.alice.view.id, "bob");
    let other: GetUsage = of_json(json!({"key": key, "tenant": tenant}));
    check(
        scene,
        other,
        Kind::Unknown,
        "unknown_key",
        "there is no key",
    );
}

/// What is not an operation never becomes one.
#[test]
fn bodies_that_are_no_operations() {
    fn refused<O: serde::de::DeserializeOwned>(body: serde_json::Value) -> String {
        match serde_json::from_value::<O>(body.clone()) {
            Ok(_) => panic!("{body} is accepted"),
            Err(error) => error.to_string(),
        }
    }
    for (error, expected) in [
        (
            refused::<CreateTenant>(json!({"name": "x", "limit": {}})),
            "unknown field `limit`",
        ),
        (
            refused::<CreateTenant>(json!({"name": " x"})),
            "a name has 1 to 128 bytes",
        ),
        (
            refused::<CreateTenant>(json!({"name": "x", "limits": {"weight": 0}})),
            "a weight is a whole number from 1 to 1000",
        ),
        (
            refused::<CreateTenant>(json!({"name": "x", "limits": {"weight": 1_001}})),
            "a weight is a whole number from 1 to 1000",
        ),
        (
            refused::<GetUsage>(json!({"last": "1 day"})),
            "a span of time is",
        ),
        (
            refused::<GetUsage>(json!({"by": "time,hour"})),
            "usage is grouped by",
        ),
        (refused::<GetKey>(json!({"id": "x"})), "an id has 16"),
        (
            refused::<CreateKey>(
                json!({"tenant": "a", "name": "x", "settings": {"allow": {"networks": ["x"]}}}),
            ),
            "a network is an IP address",
        ),
        (
            refused::<CreateKey>(
                json!({"tenant": "a", "name": "x", "settings": {"secret": {"digest": ""}}}),
            ),
            "unknown field `digest`",
        ),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_store_that_fails_changes_nothing() {
    let mut scene = Scene::new();
    *scene.store.fails.lock().unwrap() = true;
    let error = scene.run(create_tenant("carol"), &admin()).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (AdminErrorKind::Unavailable, "store_failed")
    );
    assert!(!error.to_string().contains("sqlite"), "{error}");
    assert!(scene.administration.failure().is_some());
    *scene.store.fails.lock().unwrap() = false;
    assert_eq!(scene.done(ListTenants::default()).total, 3);
    assert!(
        scene.administration.failure().is_some(),
        "it was not written since"
    );
    *scene.store.fails.lock().unwrap() = true;
    assert!(scene.administration.expire(NOW).is_err());
    assert!(scene.administration.failure().is_some());
    *scene.store.fails.lock().unwrap() = false;
    // Nobody changes anything, and it is found out all the same.
    scene.administration.expire(NOW).unwrap();
    assert!(scene.administration.failure().is_none());
    scene.done(create_tenant("carol"));
    assert_eq!(scene.done(ListTenants::default()).total, 4);
}
