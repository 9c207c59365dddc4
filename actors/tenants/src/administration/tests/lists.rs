use serde_json::json;

use super::scene::*;
use crate::{
    UnixMillis,
    administration::*,
    command::Change,
    id::{KeyId, TenantId},
    record::{KeyRecord, KeySettings, KeyState, TenantRecord},
    secret::{KeyPrefix, SecretDigest},
    store::Commit,
    usage::{UsageCell, Used},
};

/// Names of the keys that a list has, in its order.
fn names(scene: &mut Scene, list: serde_json::Value) -> (Vec<String>, usize) {
    let found = scene.done(of_json::<ListKeys>(list));
    let names = found.keys.iter().map(|key| key.name.to_string());
    (names.collect(), found.total)
}

fn used(key: KeyId, at: UnixMillis, outcome: &str, requests: u64) -> UsageCell {
    UsageCell {
        minute: at,
        key,
        owner: None,
        method: "eth_call".into(),
        outcome: outcome.into(),
        last: at,
        used: Used {
            requests,
            units: 10 * requests,
            ..Used::default()
        },
    }
}

/// Keys a to d: of two tenants, made one after the other, in three states, used or not.
fn scene() -> Scene {
    let mut scene = Scene::new();
    for (number, (tenant, name)) in [("bob", "c"), ("alice", "B"), ("bob", "a"), ("alice", "d")]
        .into_iter()
        .enumerate()
    {
        let by = at(admin(), UnixMillis(NOW.0 + 1 + number as u64));
        let made = scene.run(create_key(tenant, name), &by).unwrap();
        let id = made.view.id;
        match name {
            "a" => drop(scene.done(RevokeKey { id })),
            "B" => drop(scene.done(UpdateKey {
                expires: Patch::Set(NOW),
                ..update_key(id)
            })),
            _ => {
                let used_at = UnixMillis(NOW.0 - 3_600_000);
                let requests = if name == "c" { 5 } else { 3 };
                let cells = [
                    used(id, used_at, "ok", requests),
                    used(id, used_at, "denied", 1),
                ];
                scene.administration.add_usage(&cells).unwrap();
                scene
                    .administration
                    .mark_used(id, UnixMillis(used_at.0 + requests));
            }
        }
    }
    let alice = scene.alice.view.id;
    scene.done(UpdateKey {
        name: Some("x".parse().unwrap()),
        ..update_key(alice)
    });
    let bob = scene.bob.view.id;
    scene.done(UpdateKey {
        name: Some("y".parse().unwrap()),
        ..update_key(bob)
    });
    scene
}

#[test]
fn keys_are_found_sorted_and_cut_into_pages() {
    let mut scene = scene();
    let prefix = scene.alice.view.prefix.as_str().to_owned();
    let id = scene.bob.view.id;
    for (list, expected, total) in [
        (json!({}), "a B c d flag x y", 7),
        (json!({"descending": true}), "y x flag d c B a", 7),
        (json!({"sort": "tenant"}), "B d x a c y flag", 7),
        (json!({"sort": "created", "offset": 1}), "x y c B a d", 7),
        (
            json!({"sort": "lastUsed", "descending": true, "limit": 2}),
            "c d",
            7,
        ),
        (
            json!({"sort": "requests24h", "descending": true, "limit": 2}),
            "c d",
            7,
        ),
        (json!({"offset": 2, "limit": 3}), "c d flag", 7),
        (json!({"offset": 7}), "", 7),
        (json!({"offset": 8, "limit": 1}), "", 7),
        (json!({"state": "active"}), "c d flag x y", 5),
        (json!({"state": "expired"}), "B", 1),
        (json!({"state": "revoked"}), "a", 1),
        (json!({"tenant": "bob"}), "a c y", 3),
        (json!({"tenant": "flag"}), "flag", 1),
        // Of one letter, the beginnings of random keys could be found as well.
        (json!({"search": "BOB"}), "a c y", 3),
        (json!({"search": "flag"}), "flag", 1),
        (json!({"search": " ALICE "}), "B d x", 3),
        (json!({"search": prefix}), "x", 1),
        (json!({"search": id.to_string()}), "y", 1),
        (json!({"search": id.to_string()[..9]}), "y", 1),
        (json!({"search": "nothing has this"}), "", 0),
        (
            json!({"search": "bob", "state": "active", "tenant": "bob"}),
            "c y",
            2,
        ),
    ] {
        let (found, all) = names(&mut scene, list.clone());
        assert_eq!(
            (found.join(" "), all),
            (expected.to_owned(), total),
            "{list}"
        );
    }
}

#[test]
fn a_list_has_what_was_used_in_the_last_day() {
    let mut scene = scene();
    for sort in ["name", "requests24h"] {
        let list = scene.done(of_json::<ListKeys>(json!({"sort": sort, "search": "c"})));
        let key = list
            .keys
            .iter()
            .find(|key| key.name.as_str() == "c")
            .unwrap();
        let expected = json!({"requests": 6, "errors": 1, "units": 60});
        assert_eq!(json!(key.last24h), expected, "{sort}");
        assert_eq!(key.last_used, Some(UnixMillis(NOW.0 - 3_600_000 + 5)));
    }
    let later = at(admin(), UnixMillis(NOW.0 + 26 * 3_600_000));
    let list = scene.run(ListKeys::default(), &later).unwrap();
    assert!(
        list.keys
            .iter()
            .all(|key| key.last24h == Last24h::default())
    );
}

#[test]
fn a_list_follows_changes() {
    let mut scene = scene();
    assert_eq!(
        names(&mut scene, json!({"tenant": "bob"})).0,
        ["a", "c", "y"]
    );
    scene.done(of_json::<UpdateTenant>(json!({"id": "bob", "name": "Zed"})));
    assert_eq!(
        names(&mut scene, json!({"search": "zed"})).0,
        ["a", "c", "y"]
    );
    assert_eq!(names(&mut scene, json!({"search": "bob"})).0, [""; 0]);
    scene.done(RemoveTenant {
        id: "alice".parse().unwrap(),
    });
    assert_eq!(names(&mut scene, json!({})).0, ["a", "c", "flag", "y"]);
    scene.done(create_key("Zed", "b"));
    assert_eq!(names(&mut scene, json!({})).0, ["a", "b", "c", "flag", "y"]);
    let id = scene.bob.view.id;
    scene.administration.mark_used(id, NOW);
    let newest = json!({"sort": "lastUsed", "descending": true, "limit": 1});
    assert_eq!(names(&mut scene, newest).0, ["y"]);
    scene
        .administration
        .replace_configured(Vec::new(), NOW)
        .unwrap();
    assert_eq!(names(&mut scene, json!({})).0, ["a", "b", "c", "y"]);
}

#[test]
fn tenants_are_listed_with_their_keys() {
    let mut scene = scene();
    let list = scene.done(of_json::<ListTenants>(json!({"offset": 1, "limit": 2})));
    let shown = list.tenants.iter().map(|tenant| {
        let KeyCounts {
            active,
            expired,
            revoked,
        } = tenant.keys;
        (
            tenant.name.as_str(),
            active,
            expired,
            revoked,
            tenant.source,
        )
    });
    let (stored, configured) = (RecordSource::Stored, RecordSource::Configured);
    let expected = [("bob", 2, 0, 1, stored), ("flag", 1, 0, 0, configured)];
    assert_eq!(
        (shown.collect::<Vec<_>>(), list.total),
        (expected.to_vec(), 3)
    );
    assert_eq!(
        list.tenants[0].last_used,
        Some(UnixMillis(NOW.0 - 3_600_000 + 5))
    );
    let found = scene.done(of_json::<ListTenants>(json!({"search": "LI"})));
    assert_eq!((found.tenants[0].name.as_str(), found.total), ("alice", 1));
}

const KEYS: u64 = 100_000;

/// A store with 100,000 keys of 1,000 tenants.
fn many() -> SharedStore {
    let mut store = SharedStore::default();
    let tenants = (0..1_000_u64).map(|number| {
        let name = format!("tenant {:03}", number * 7 % 1_000);
        Change::Tenant(std::sync::Arc::new(TenantRecord {
            id: TenantId::of_bytes(number.to_be_bytes()),
            name: name.parse().unwrap(),
            created: NOW,
            limits: Default::default(),
        }))
    });
    let keys = (0..KEYS).map(|number| {
        let secret = format!("{number:06} of a secret of 32 bytes");
        Change::Key(std::sync::Arc::new(KeyRecord {
            id: KeyId::of_bytes((number + 1).to_be_bytes()),
            tenant: TenantId::of_bytes((number % 1_000).to_be_bytes()),
            name: format!("a key with number {}", number * 7_919 % KEYS)
                .parse()
                .unwrap(),
            prefix: KeyPrefix::of(&secret),
            digest: SecretDigest::of(&secret),
            created: UnixMillis(number * 31 % KEYS),
            expires: None,
            revoked: (number % 10 == 0).then_some(NOW),
            replaced_by: None,
            chain: None,
            settings: KeySettings::default(),
        }))
    });
    let changes: Vec<_> = tenants.chain(keys).collect();
    let commit = Commit {
        directory: &changes,
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
    store
}

/// A page of 100,000 keys costs one pass over them, and one query for what its keys used: nothing
/// sorts them all, and nothing looks up each.
#[test]
fn a_page_of_100_000_keys_is_little_work() {
    let store = many();
    let mut administration = open(&store);
    for (list, page, total) in [
        (json!({"limit": 50}), 50, 100_001),
        (
            json!({"sort": "tenant", "limit": 50, "descending": true}),
            50,
            100_001,
        ),
        (
            json!({"sort": "created", "limit": 500, "offset": 50_000}),
            500,
            100_001,
        ),
        (json!({"sort": "lastUsed", "offset": 100_000}), 1, 100_001),
        (json!({"search": "number 99", "limit": 50}), 50, 1_111),
        (json!({"state": "revoked", "limit": 50}), 50, 10_000),
        (json!({"tenant": "tenant 007", "limit": 500}), 100, 100),
        (json!({"sort": "requests24h", "limit": 50}), 50, 100_001),
    ] {
        store.usage_queries.lock().unwrap().clear();
        administration.rows().comparisons.set(0);
        let operation = of_json::<ListKeys>(list.clone());
        let found = operation.run(&mut administration, &admin()).unwrap();
        assert_eq!((found.keys.len(), found.total), (page, total), "{list}");
        let comparisons = administration.rows().comparisons.get();
        assert!(comparisons <= 8 * KEYS, "{list}: {comparisons} comparisons");
        let queries = store.usage_queries.lock().unwrap().clone();
        let expected = match list["sort"] == "requests24h" {
            true => vec![0; 25],
            false => vec![page],
        };
        assert_eq!(queries, expected, "{list}");
    }
    // Of what all keys used, an hour is read at a time: the 24 before this one, and it.
    for (hours, queries) in [(0, 0), (1, 0), (2, 25)] {
        store.usage_queries.lock().unwrap().clear();
        let by = at(admin(), UnixMillis(NOW.0 + hours * 3_600_000));
        let list = of_json::<ListKeys>(json!({"sort": "requests24h", "limit": 50}));
        list.run(&mut administration, &by).unwrap();
        assert_eq!(store.usage_queries.lock().unwrap().len(), queries);
    }
    // One key is found without a table of all.
    let revoked = ListKeys {
        state: Some(KeyState::Revoked),
        limit: Some(1),
        sort: KeySort::Created,
        ..ListKeys::default()
    };
    let id = revoked.run(&mut administration, &admin()).unwrap().keys[0].id;
    let mut administration = open(&store);
    GetKey { id }.run(&mut administration, &admin()).unwrap();
    assert!(administration.rows.is_none());
}

/// The table of all keys is freed when nobody asks for a list any more.
#[test]
fn a_table_for_lists_is_kept_for_a_while() {
    let mut scene = scene();
    let after = |seconds: u64| UnixMillis(NOW.0 + seconds * 1_000);
    let list = |scene: &mut Scene, now| {
        let list = ListKeys::default().run(&mut scene.administration, &at(admin(), now));
        list.unwrap().total
    };
    let total = list(&mut scene, NOW);
    for (now, is_kept) in [(599, true), (600, false), (601, false)] {
        scene.administration.expire(after(now)).unwrap();
        assert_eq!(scene.administration.rows.is_some(), is_kept, "{now}");
    }
    assert_eq!(list(&mut scene, after(700)), total);
    assert_eq!(list(&mut scene, after(1_200)), total);
    scene.administration.expire(after(1_700)).unwrap();
    assert!(scene.administration.rows.is_some(), "asked for again");
}

/// What was read in parts, and what is added meanwhile, is what one query for all of it says.
#[test]
fn what_keys_used_of_late_is_read_in_parts() {
    let mut scene = scene();
    let hour = |hours: u64| UnixMillis(NOW.0 + hours * 3_600_000);
    let requests = |scene: &mut Scene, now: UnixMillis| -> Vec<(String, u64)> {
        let list = of_json::<ListKeys>(json!({"sort": "requests24h", "descending": true}));
        let list = scene.run(list, &at(admin(), now)).unwrap();
        let used = list.keys.iter();
        let used = used.map(|key| (key.name.to_string(), key.last24h.requests));
        used.filter(|(_, requests)| *requests > 0).collect()
    };
    let use_once = |scene: &mut Scene, at: UnixMillis| {
        let cell = used(scene.bob.view.id, at, "ok", 1);
        scene.administration.add_usage(&[cell]).unwrap();
    };
    assert!(!scene.administration.knows_recent_use(NOW));
    let mut parts = 1;
    while scene.administration.read_recent_use(NOW).unwrap() {
        // One in an hour that was read, and one that is still to be read.
        if parts == 12 {
            use_once(&mut scene, UnixMillis(NOW.0 - 20 * 3_600_000));
            use_once(&mut scene, NOW);
        }
        assert!(!scene.administration.knows_recent_use(NOW));
        parts += 1;
    }
    assert_eq!(parts, 25);
    use_once(&mut scene, NOW);
    let queries = scene.store.usage_queries.lock().unwrap().len();
    let found = requests(&mut scene, NOW);
    assert!(found.contains(&("y".to_owned(), 3)), "{found:?}");
    // The next hour: the old sums serve until the new ones are read.
    assert!(scene.administration.knows_recent_use(hour(1)));
    assert_eq!(requests(&mut scene, hour(1)), found);
    assert_eq!(scene.store.usage_queries.lock().unwrap().len(), queries);
    while scene.administration.read_recent_use(hour(5)).unwrap() {}
    let found = requests(&mut scene, hour(5));
    assert!(found.contains(&("y".to_owned(), 2)), "{found:?}");
    assert!(!scene.administration.knows_recent_use(hour(30)));
    assert_eq!(requests(&mut scene, hour(30)), []);
}
