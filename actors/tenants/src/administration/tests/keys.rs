use serde_json::{Value, json};

use super::scene::*;
use crate::{
    UnixMillis,
    administration::*,
    record::KeyState,
    secret::SecretDigest,
    usage::{KeyOwner, UsageCell, Used},
};

/// The settings that a key has after each of these patches, one after the other.
#[test]
fn a_patch_keeps_what_is_absent() {
    let mut scene = Scene::new();
    let id = scene.alice.view.id;
    for (patch, expected) in [
        (
            json!({}),
            json!({"allow": {}, "quota": {}, "publicKeys": []}),
        ),
        (
            json!({"settings": {"allow": {"methods": ["eth_call"], "networks": ["10.0.0.0/8"]}}}),
            json!({"allow": {"methods": ["eth_call"], "networks": ["10.0.0.0/8"]}, "quota": {}, "publicKeys": []}),
        ),
        (
            json!({"settings": {"allow": {"methods": null}, "quota": {"requests": {"perSecond": 5}, "unitsPerDay": 9}}}),
            json!({"allow": {"networks": ["10.0.0.0/8"]},
                "quota": {"requests": {"perSecond": 5, "burst": 5}, "unitsPerDay": 9}, "publicKeys": []}),
        ),
        (
            json!({"settings": {"allow": {"networks": []}, "quota": {"requests": null, "units": {"perSecond": 1, "burst": 7}}}}),
            json!({"allow": {}, "quota": {"units": {"perSecond": 1, "burst": 7}, "unitsPerDay": 9}, "publicKeys": []}),
        ),
    ] {
        let mut update = patch.clone();
        update["id"] = json!(id);
        let changed = scene.done(of_json::<UpdateKey>(update));
        assert_eq!(json!(changed.view.settings), expected, "{patch}");
        assert_eq!(changed.secret, None);
    }
}

#[test]
fn limits_of_a_tenant() {
    let mut scene = Scene::new();
    for (limits, expected) in [
        (json!({}), json!({"quota": {}, "weight": 1})),
        (
            json!({"sessions": 3, "weight": 4, "quota": {"requests": {"perSecond": 5, "burst": 9}}}),
            json!({"sessions": 3, "weight": 4, "quota": {"requests": {"perSecond": 5, "burst": 9}}}),
        ),
        (
            json!({"sessions": null, "weight": null, "subscriptions": 0}),
            json!({"subscriptions": 0, "weight": 1, "quota": {"requests": {"perSecond": 5, "burst": 9}}}),
        ),
    ] {
        let update = json!({"id": "alice", "limits": limits});
        let changed = scene.done(of_json::<UpdateTenant>(update));
        assert_eq!(json!(changed.limits), expected, "{limits}");
    }
}

#[test]
fn a_secret_beside_a_key_is_made_and_removed() {
    let mut scene = Scene::new();
    let id = scene.alice.view.id;
    let digest = |scene: &Scene| {
        let key = scene.administration.directory().key(id).unwrap();
        key.settings.secret.as_ref().map(|secret| secret.digest)
    };
    let mut made = Vec::new();
    for (secret, view) in [
        (
            json!({"required": true}),
            json!({"required": true, "exempts": false}),
        ),
        (Value::Null, Value::Null),
        (
            json!({"exempts": true}),
            json!({"required": false, "exempts": true}),
        ),
        (json!({}), json!({"required": false, "exempts": false})),
    ] {
        let update = json!({"id": id, "settings": {"secret": secret}});
        let changed = scene.done(of_json::<UpdateKey>(update));
        assert_eq!(json!(changed.view.settings.secret), view, "{secret}");
        assert_eq!(changed.secret.is_some(), !secret.is_null());
        let made_digest = changed.secret.map(|made| SecretDigest::of(made.expose()));
        assert_eq!(digest(&scene), made_digest);
        made.extend(made_digest);
        // Another change keeps it.
        scene.done(update_key(id));
        assert_eq!(digest(&scene), made_digest);
    }
    made.dedup();
    assert_eq!(made.len(), 3, "each is another one");
    // A key may be made with one.
    let create = json!({"tenant": "bob", "name": "x", "settings": {"secret": {"required": true}}});
    let created = scene.done(of_json::<CreateKey>(create));
    assert!(created.secret.is_some() && created.secret != Some(created.key));
}

#[test]
fn a_key_lives_and_ends() {
    let mut scene = Scene::new();
    let (id, prefix) = (scene.alice.view.id, scene.alice.view.prefix.clone());
    assert!(scene.alice.key.expose().starts_with(prefix.as_str()));
    let rotated = scene.done(RotateKey {
        id,
        overlap: Some(Span::hours(2)),
    });
    assert_ne!(rotated.key, scene.alice.key);
    assert_eq!(rotated.view.name, scene.alice.view.name);
    let two_hours = UnixMillis(NOW.0 + 7_200_000);
    let old = scene.done(GetKey { id });
    assert_eq!(
        (old.replaced_by, old.expires),
        (Some(rotated.view.id), Some(two_hours))
    );
    for (now, state) in [(NOW, KeyState::Active), (two_hours, KeyState::Expired)] {
        let found = scene.run(GetKey { id }, &at(admin(), now)).unwrap();
        assert_eq!(found.state, state);
    }
    // Unless it is said, the old one lives for another day.
    let id = scene.bob.view.id;
    scene.done(RotateKey { id, overlap: None });
    let a_day = UnixMillis(NOW.0 + 86_400_000);
    assert_eq!(scene.done(GetKey { id }).expires, Some(a_day));
    let revoked = scene.done(RevokeKey { id });
    assert_eq!(
        (revoked.state, revoked.revoked),
        (KeyState::Revoked, Some(NOW))
    );
}

#[test]
fn tenants_are_named_by_id_or_name() {
    let mut scene = Scene::new();
    let id = scene.alice.view.tenant.id;
    // A tenant whose name is the id of another one is found by its own id alone.
    let impostor = scene.done(create_tenant(&id.to_string()));
    for (named, expected) in [
        ("alice".to_owned(), id),
        (id.to_string(), id),
        (impostor.id.to_string(), impostor.id),
    ] {
        let named = named.parse().unwrap();
        assert_eq!(scene.done(GetTenant { id: named }).id, expected);
    }
}

/// A stored tenant has the configured keys of its name.
#[test]
fn configured_keys_have_the_stored_tenant_of_their_name() {
    let mut scene = Scene::new();
    let id = scene.flag;
    let before = scene.done(GetKey { id });
    assert_eq!(before.source, RecordSource::Configured);
    assert_eq!((before.created, before.state), (None, KeyState::Active));
    assert_eq!(scene.done(ListKeys::default()).total, 3);
    let made = scene.done(create_tenant("flag"));
    assert_eq!(made.keys.active, 1);
    let list = ListKeys {
        tenant: Some("flag".parse().unwrap()),
        ..ListKeys::default()
    };
    let found = scene.done(list.clone()).keys;
    assert_eq!((found[0].id, found[0].tenant.id), (id, made.id));
    // Renamed, it has them no more.
    scene.done(of_json::<UpdateTenant>(
        json!({"id": "flag", "name": "was flag"}),
    ));
    assert_eq!(scene.done(list).keys[0].tenant, before.tenant);
    assert_eq!(scene.done(GetKey { id }), before);
    assert!(scene.done(GetTenant { id: made.id.into() }).keys == KeyCounts::default());
}

/// Expired and revoked keys are kept for a while, so a holder who rotates without end would fill
/// the directory.
#[test]
fn holders_rotate_within_bounds() {
    let mut scene = Scene::new();
    let ann = scene.ann();
    let mut id = scene.alice.view.id;
    let rotate = |id| RotateKey {
        id,
        overlap: Some(Span::minutes(0)),
    };
    for _ in 1..1_000 {
        id = scene.run(rotate(id), &ann).unwrap().view.id;
    }
    let refused = scene.run(rotate(id), &ann);
    assert_eq!(
        refused.map(|_| ()),
        Err(AdminError::TooManyRotations(1_000))
    );
    assert!(scene.run(rotate(id), &admin()).is_ok());
    let ben = scene.ben();
    assert!(scene.run(rotate(scene.bob.view.id), &ben).is_ok());
}

/// Whoever changes what they have read does not undo what others have changed since.
#[test]
fn a_change_of_an_older_version_is_refused() {
    let mut scene = Scene::new();
    let (key, tenant) = (scene.alice.view.id, scene.alice.view.tenant.id);
    let read = scene.done(GetKey { id: key });
    let version = |scene: &mut Scene| scene.done(GetKey { id: key }).version;
    let update = |read: &KeyView, units: u64| -> UpdateKey {
        let settings = json!({"quota": {"unitsPerDay": units}});
        of_json(json!({"id": key, "settings": settings, "ifVersion": read.version}))
    };
    let first = scene.done(update(&read, 5)).view;
    assert_ne!(first.version, read.version);
    assert_eq!(version(&mut scene), first.version);
    let stale = scene.run(update(&read, 6), &admin());
    assert_eq!(stale, Err(AdminError::Stale));
    assert_eq!(scene.done(GetKey { id: key }), first, "nothing was changed");
    // The same again is no change.
    assert_eq!(scene.done(update(&first, 5)).view, first);
    // What a key is used for is none either.
    scene.administration.mark_used(key, NOW);
    assert_eq!(version(&mut scene), first.version);
    // Any other change is, also one that a form does not show.
    scene.done(RotateKey {
        id: key,
        overlap: None,
    });
    assert_eq!(
        scene.run(update(&first, 7), &admin()),
        Err(AdminError::Stale)
    );
    let rotated = scene.done(GetKey { id: key });
    scene.done(update(&rotated, 7));

    let read = scene.done(GetTenant { id: tenant.into() });
    let rename = |name: &str| -> UpdateTenant {
        of_json(json!({"id": tenant, "name": name, "ifVersion": read.version}))
    };
    scene.done(rename("alice 2"));
    assert_eq!(
        scene.run(rename("alice 3"), &admin()),
        Err(AdminError::Stale)
    );
    assert_eq!(scene.done(GetKey { id: scene.flag }).version, None);
}

/// Keys that have been over for 30 days go, with an entry of the service itself; what they used
/// still counts for their tenant.
#[test]
fn keys_that_are_long_over_are_removed() {
    let mut scene = Scene::new();
    let key = |scene: &mut Scene, expires: Option<u64>| {
        let create = CreateKey {
            expires: expires.map(|days| NOW.after(Span::days(days as u32).duration())),
            ..create_key("alice", "short")
        };
        scene.done(create).view.id
    };
    let [expiring, later, revoked] = [Some(1), Some(2), Some(9)].map(|days| key(&mut scene, days));
    scene.done(RevokeKey { id: revoked });
    let tenant = scene.alice.view.tenant.id;
    let used = UsageCell {
        minute: NOW,
        key: revoked,
        owner: Some(KeyOwner {
            tenant,
            chain: None,
        }),
        method: "eth_call".into(),
        outcome: "ok".into(),
        last: NOW,
        used: Used {
            requests: 3,
            ..Used::default()
        },
    };
    scene.administration.add_usage(&[used]).unwrap();
    scene.administration.take_changed();
    let day = |days| NOW.after(Span::days(days).duration());
    for (days, is_kept) in [
        (29, [true, true, true]),
        (30, [true, true, false]),
        (31, [false, true, false]),
        (32, [false, false, false]),
    ] {
        assert_eq!(scene.administration.expire(day(days)), Ok(false));
        let found = [expiring, later, revoked].map(|id| scene.run(GetKey { id }, &admin()).is_ok());
        assert_eq!(found, is_kept, "day {days}");
        let usage = GetUsage {
            last: Some(Span::days(31)),
            ..GetUsage::default()
        };
        let rows = scene.run(usage, &at(scene.ann(), day(days))).unwrap().rows;
        let requests = rows.first().map(|row| row.requests);
        // Usage is kept for 31 days.
        assert!(days > 30 || requests == Some(3), "day {days}");
        let changed = scene.administration.take_changed().records.keys;
        assert_eq!(changed.is_empty(), days == 29, "day {days}");
    }
    assert!(
        scene
            .run(
                GetKey {
                    id: scene.alice.view.id
                },
                &admin()
            )
            .is_ok()
    );
    let ann = scene.ann();
    let audit = scene
        .run(ListAudit::default(), &at(ann.clone(), day(32)))
        .unwrap();
    let newest = &audit.entries[0];
    assert_eq!(
        (newest.verb.as_str(), &newest.author),
        ("key.remove", &AuthorView::Service)
    );
    assert_eq!((newest.key, newest.key_name.clone()), (Some(later), None));
    assert_eq!(newest.detail["name"], "short");
    // After a restart, too.
    let mut again = open(&scene.store);
    let keys = ListKeys::default().run(&mut again, &ann).unwrap();
    assert_eq!(keys.total, 1);
}

/// One call removes a bounded number, and says that there are more.
#[test]
fn many_keys_are_removed_by_and_by() {
    let mut scene = Scene::new();
    for _ in 0..501 {
        let create = CreateKey {
            expires: Some(UnixMillis(NOW.0 + 1)),
            ..create_key("alice", "short")
        };
        scene.done(create);
    }
    let later = NOW.after(Span::days(31).duration());
    for (is_more, left) in [(true, 4), (false, 3), (false, 3)] {
        assert_eq!(scene.administration.expire(later), Ok(is_more));
        assert_eq!(scene.done(ListKeys::default()).total, left);
    }
}
