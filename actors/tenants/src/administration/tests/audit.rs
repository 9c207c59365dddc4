use serde_json::{Value, json};

use super::scene::*;
use crate::{administration::*, secret::SecretDigest};

/// The public key of RFC 7515 §A.3.
const PEM: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
-----END PUBLIC KEY-----
";

/// The newest entry, without what it always has.
fn newest(scene: &mut Scene) -> Value {
    let list = ListAudit {
        limit: Some(1),
        ..ListAudit::default()
    };
    let entry = scene.done(list).entries.remove(0);
    assert_eq!(entry.at, NOW);
    json!({
        "verb": entry.verb,
        "by": entry.author,
        "from": entry.from,
        "tenant": entry.tenant_name,
        "key": entry.key,
        "detail": entry.detail,
    })
}

fn root() -> Value {
    json!({"kind": "account", "name": "root"})
}

#[test]
fn each_change_has_its_entry() {
    let scene = &mut Scene::new();
    let check = |scene: &mut Scene, expected: Value| {
        let mut expected = expected;
        expected["by"] = root();
        expected["from"] = json!("192.0.2.1");
        assert_eq!(newest(scene), expected);
    };
    scene.done(create_tenant("carol"));
    let limits = json!({"quota": {}, "weight": 1});
    let detail = json!({"name": "carol", "limits": limits});
    check(
        scene,
        json!({"verb": "tenant.create", "tenant": "carol", "key": null, "detail": detail}),
    );
    scene.done(of_json::<UpdateTenant>(
        json!({"id": "carol", "name": "carla"}),
    ));
    let detail = json!({"name": {"old": "carol", "new": "carla"}});
    check(
        scene,
        json!({"verb": "tenant.update", "tenant": "carla", "key": null, "detail": detail}),
    );
    let made = scene.done(create_key("carla", "backend"));
    let settings = json!({"allow": {}, "quota": {}});
    let made_prefix = made.view.prefix;
    let prefix = &made_prefix;
    let id = made.view.id;
    let detail = json!({"name": "backend", "prefix": prefix, "settings": settings});
    check(
        scene,
        json!({"verb": "key.create", "tenant": "carla", "key": id, "detail": detail}),
    );
    let secret = json!({"required": false, "exempts": false});
    let update = json!({"id": id, "expires": NOW.0 + 9, "settings": {"allow": {"origins": null}, "secret": secret}});
    scene.done(of_json::<UpdateKey>(update));
    let settings = json!({"secret": {"old": null, "new": secret}});
    let detail = json!({"expires": {"old": null, "new": NOW.0 + 9}, "settings": settings});
    check(
        scene,
        json!({"verb": "key.update", "tenant": "carla", "key": id, "detail": detail}),
    );
    let rotated = scene.done(RotateKey {
        id,
        overlap: Some(Span::minutes(0)),
    });
    let (successor, prefix) = (rotated.view.id, rotated.view.prefix);
    let detail =
        json!({"name": "backend", "successor": successor, "prefix": prefix, "oldExpires": NOW});
    check(
        scene,
        json!({"verb": "key.rotate", "tenant": "carla", "key": id, "detail": detail}),
    );
    scene.done(RevokeKey { id });
    let detail = json!({"name": "backend"});
    check(
        scene,
        json!({"verb": "key.revoke", "tenant": "carla", "key": id, "detail": detail}),
    );
    scene.done(RemoveKey { id });
    let prefix = made_prefix;
    let detail = json!({"name": "backend", "prefix": prefix});
    check(
        scene,
        json!({"verb": "key.remove", "tenant": "carla", "key": id, "detail": detail}),
    );
    scene.done(of_json::<CreateToken>(
        json!({"name": "ci", "role": "holder", "tenant": "carla"}),
    ));
    let detail = json!({"token": "ci", "role": "holder"});
    check(
        scene,
        json!({"verb": "token.create", "tenant": "carla", "key": null, "detail": detail}),
    );
    scene.done(RemoveToken {
        name: "ci".parse().unwrap(),
    });
    check(
        scene,
        json!({"verb": "token.remove", "tenant": "carla", "key": null, "detail": detail}),
    );
    scene.done(PreparedAccount {
        name: "cid".parse().unwrap(),
        password: hash(),
        role: RoleName::Holder,
        tenant: Some("carla".parse().unwrap()),
    });
    let detail = json!({"account": "cid", "role": "holder"});
    check(
        scene,
        json!({"verb": "account.create", "tenant": "carla", "key": null, "detail": detail}),
    );
    scene.done(PreparedPassword {
        name: "cid".parse().unwrap(),
        password: hash(),
        verified: None,
    });
    check(
        scene,
        json!({"verb": "account.password", "tenant": "carla", "key": null, "detail": detail}),
    );
    scene.done(RemoveAccount {
        name: "cid".parse().unwrap(),
    });
    check(
        scene,
        json!({"verb": "account.remove", "tenant": "carla", "key": null, "detail": detail}),
    );
    scene.done(RemoveTenant {
        id: "carla".parse().unwrap(),
    });
    let detail = json!({"name": "carla", "keys": 1});
    check(
        scene,
        json!({"verb": "tenant.remove", "tenant": null, "key": null, "detail": detail}),
    );
}

/// The entry of a change has what differs, before and after, and nothing else.
#[test]
fn an_update_says_what_differs() {
    let scene = &mut Scene::new();
    let id = scene.alice.view.id;
    let settings = |scene: &mut Scene, settings: Value| {
        scene.done(of_json::<UpdateKey>(
            json!({"id": id, "settings": settings}),
        ));
        newest(scene)["detail"].take()
    };
    let rate = |per_second: u32| json!({"requests": {"perSecond": per_second, "burst": 9}});
    let public_key = |pem: &str| json!([{"kid": "issuer", "algorithm": "ES256", "pem": pem}]);
    for (given, expected) in [
        (
            json!({"allow": {"origins": ["https://a.org"], "methods": []}, "quota": rate(5)}),
            json!({"allow": {"origins": {"old": null, "new": ["https://a.org"]}},
                "quota": {"requests": {"perSecond": {"old": null, "new": 5}, "burst": {"old": null, "new": 9}}}}),
        ),
        (
            json!({"allow": {"origins": ["https://a.org"], "methods": null}, "quota": rate(6)}),
            json!({"quota": {"requests": {"perSecond": {"old": 5, "new": 6}}}}),
        ),
        (
            json!({"allow": {"origins": ["https://b.org"]}}),
            json!({"allow": {"origins": {"old": ["https://a.org"], "new": ["https://b.org"]}}}),
        ),
        (
            json!({"secret": {}}),
            json!({"secret": {"old": null, "new": {"required": false, "exempts": false}}}),
        ),
        // Another one that looks the same.
        (
            json!({"secret": {}}),
            json!({"secret": {"old": {"required": false, "exempts": false}, "new": {"required": false, "exempts": false}}}),
        ),
        (
            json!({"secret": null, "publicKeys": public_key(PEM)}),
            json!({"secret": {"old": {"required": false, "exempts": false}, "new": null},
                "publicKeys": {"old": null, "new": ["issuer"]}}),
        ),
    ] {
        let found = settings(scene, given.clone());
        assert_eq!(found, json!({"settings": expected}), "{given}");
    }
    // What changes nothing leaves no entry.
    let verbs = scene.verbs().len();
    scene.done(update_key(id));
    scene.done(of_json::<UpdateKey>(
        json!({"id": id, "settings": {"quota": rate(6)}}),
    ));
    scene.done(of_json::<UpdateTenant>(
        json!({"id": "alice", "name": "alice", "limits": {"weight": 1}}),
    ));
    assert_eq!(scene.verbs().len(), verbs);
    // What is too long is named.
    let long = |letter: &str| -> Vec<_> {
        (0..30)
            .map(|at| format!("https://{at}.{}.org", letter.repeat(60)))
            .collect()
    };
    settings(scene, json!({"allow": {"origins": long("a")}}));
    let found = settings(
        scene,
        json!({"allow": {"origins": long("b")}, "quota": rate(7)}),
    );
    let places = [
        "settings.allow.origins",
        "settings.quota.requests.perSecond",
    ];
    assert_eq!(found, json!({"changed": places}));
}

/// A quota is that of all keys of a chain, and each has its entry.
#[test]
fn a_quota_of_a_chain_has_an_entry_for_each_key() {
    let scene = &mut Scene::new();
    let old = scene.alice.view.id;
    let new = scene
        .done(RotateKey {
            id: old,
            overlap: None,
        })
        .view
        .id;
    let update = json!({"id": new, "name": "x", "settings": {"quota": {"unitsPerDay": 7}}});
    scene.done(of_json::<UpdateKey>(update));
    let quota = json!({"quota": {"unitsPerDay": {"old": null, "new": 7}}});
    let entry = |detail: Value, key| json!({"verb": "key.update", "by": root(), "from": "192.0.2.1", "tenant": "alice", "key": key, "detail": detail});
    assert_eq!(newest(scene), entry(json!({"settings": quota}), old));
    let of_new = ListAudit {
        key: Some(new),
        limit: Some(1),
        ..ListAudit::default()
    };
    let found = scene.done(of_new).entries.remove(0).detail;
    assert_eq!(
        found,
        json!({"name": {"old": "backend", "new": "x"}, "settings": quota})
    );
}

#[test]
fn logins_have_entries_of_those_who_log_in() {
    let scene = &mut Scene::new();
    let verified = VerifiedPassword {
        account: "ann".parse().unwrap(),
        hash: hash(),
    };
    let lifetime = std::time::Duration::from_secs(60);
    let login = scene
        .run(BeginLogin { verified, lifetime }, &nobody())
        .unwrap();
    let ann = json!({"kind": "account", "name": "ann"});
    let entry = |verb: &str, by: &Value, detail: Value| json!({"verb": verb, "by": by, "from": "192.0.2.3", "tenant": "alice", "key": null, "detail": detail});
    assert_eq!(newest(scene), entry("login", &ann, json!({})));
    let cookie = SecretDigest::of(login.cookie.expose());
    scene.run(EndLogin { cookie }, &nobody()).unwrap();
    assert_eq!(newest(scene), entry("logout", &ann, json!({})));
    let verbs = scene.verbs().len();
    scene.run(EndLogin { cookie }, &nobody()).unwrap();
    assert_eq!(scene.verbs().len(), verbs, "it was over");
    let unknown = json!({"kind": "unknown"});
    let refuse = |name: &str| RefuseLogin {
        name: name.to_owned(),
    };
    scene.run(refuse("ann"), &nobody()).unwrap();
    assert_eq!(
        newest(scene),
        entry("login.refused", &unknown, json!({"account": "ann"}))
    );
    // This may be a password in the wrong field.
    scene
        .run(refuse("correct horse battery"), &nobody())
        .unwrap();
    let mut expected = entry("login.refused", &unknown, json!({}));
    expected["tenant"] = Value::Null;
    assert_eq!(newest(scene), expected);
}

#[test]
fn the_audit_has_pages_and_outlives_tenants() {
    let scene = &mut Scene::new();
    let (alice, key) = (scene.alice.view.tenant.id, scene.alice.view.id);
    scene.done(RemoveTenant { id: alice.into() });
    let list = |list: Value| of_json::<ListAudit>(list);
    let first = scene.done(list(json!({"limit": 2})));
    let next = first.next.unwrap();
    let second = scene.done(list(json!({"limit": 500, "before": next})));
    assert_eq!((first.entries.len(), second.next), (2, None));
    let numbers = first
        .entries
        .iter()
        .chain(&second.entries)
        .map(|entry| entry.number);
    let numbers: Vec<_> = numbers.collect();
    assert_eq!(
        numbers,
        (1..=numbers.len() as u64).rev().collect::<Vec<_>>()
    );
    let verbs = |found: AuditListView| -> Vec<_> {
        found.entries.into_iter().map(|entry| entry.verb).collect()
    };
    let of_tenant = scene.done(list(json!({"tenant": alice})));
    assert_eq!(
        verbs(of_tenant),
        [
            "tenant.remove",
            "account.create",
            "key.create",
            "tenant.create"
        ]
    );
    let of_key = scene.done(list(json!({"key": key})));
    assert_eq!(verbs(of_key), ["key.create"]);
}

/// Accounts, API tokens and keys of a tenant go with it, in the store too.
#[test]
fn holders_go_with_their_tenant() {
    let scene = &mut Scene::new();
    scene.done(of_json::<CreateToken>(
        json!({"name": "ci", "role": "holder", "tenant": "alice"}),
    ));
    scene.done(RemoveTenant {
        id: "alice".parse().unwrap(),
    });
    let names = |names: AccountsView| {
        names
            .accounts
            .into_iter()
            .map(|account| account.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(scene.done(ListAccounts {})), ["root"]);
    assert_eq!(scene.done(ListTokens {}).tokens, []);
    let stored = scene.store.load().unwrap();
    assert_eq!(
        (
            stored.accounts.accounts().len(),
            stored.accounts.tokens().len()
        ),
        (1, 0)
    );
    assert_eq!(stored.directory.keys().len(), 1);
}
