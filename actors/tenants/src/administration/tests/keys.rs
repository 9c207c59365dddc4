use serde_json::{Value, json};

use super::scene::*;
use crate::{UnixMillis, administration::*, record::KeyState, secret::SecretDigest};

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

/// Expired and revoked keys stay, so a holder who rotates without end would fill the directory.
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
