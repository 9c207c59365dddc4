use serde_json::{Value, json};

use super::scene::*;
use crate::{administration::*, secret::SecretDigest};

/// What every operation answers, by an administrator.
fn answers(scene: &mut Scene) -> Vec<Value> {
    let id = scene.alice.view.id;
    let alice = || "alice".parse().unwrap();
    vec![
        json!(scene.done(ListTenants::default())),
        json!(scene.done(GetTenant { id: alice() })),
        json!(scene.done(of_json::<UpdateTenant>(
            json!({"id": "alice", "name": "alice"})
        ))),
        json!(scene.done(ListKeys::default())),
        json!(scene.done(GetKey { id })),
        json!(scene.done(of_json::<UpdateKey>(json!({"id": id, "name": "renamed"})))),
        json!(scene.done(GetUsage::default())),
        json!(scene.done(ListAccounts {})),
        json!(scene.done(ListTokens {})),
        json!(scene.done(WhoAmI {})),
        json!(scene.done(ListAudit {
            limit: Some(500),
            ..ListAudit::default()
        })),
        json!(scene.done(RevokeKey { id })),
    ]
}

#[test]
fn no_answer_has_a_digest_and_a_secret_is_shown_once() {
    let mut scene = Scene::new();
    let id = scene.alice.view.id;
    let update = json!({"id": id, "settings": {"secret": {"required": true}}});
    let changed = scene.done(of_json::<UpdateKey>(update));
    let rotated = scene.done(RotateKey {
        id: scene.bob.view.id,
        overlap: None,
    });
    let token = scene.done(of_json::<CreateToken>(
        json!({"name": "ci", "role": "admin"}),
    ));
    let login = scene.done(BeginLogin {
        verified: VerifiedPassword {
            account: "root".parse().unwrap(),
            hash: hash(),
        },
        lifetime: std::time::Duration::from_secs(60),
    });
    let mut secrets = vec![
        scene.alice.key.clone(),
        scene.bob.key.clone(),
        changed.secret.unwrap(),
        rotated.key,
        token.token,
        login.cookie,
    ];
    secrets.push(HASH.to_owned().into());
    let digests: Vec<_> = secrets
        .iter()
        .map(|secret| String::from(SecretDigest::of(secret.expose())))
        .collect();
    // The search finds what is there.
    let stored = scene.store.load().unwrap();
    let keys: Vec<_> = stored.directory.keys().map(|key| json!(**key)).collect();
    assert!(json!(keys).to_string().contains(&digests[0]));
    assert!(json!(scene.alice).to_string().contains(secrets[0].expose()));
    let log = format!(
        "{:?} {:?} {changed:?}",
        scene.alice,
        scene.bob,
        changed = changed.view
    );
    for answer in answers(&mut scene) {
        let text = format!("{answer} {log}");
        for hidden in secrets
            .iter()
            .map(SecretText::expose)
            .chain(digests.iter().map(|digest| &**digest))
        {
            assert!(!text.contains(hidden), "{hidden} is in {text}");
        }
    }
}
