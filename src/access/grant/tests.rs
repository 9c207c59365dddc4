#![expect(clippy::unwrap_used, reason = "tests")]

use nearhead_tenants::{
    allowlists::Allowlists,
    command::Command,
    id::{KeyId, TenantId},
    limits::{Quota, TenantLimits},
    record::KeySettings,
};

use serde_json::json;

use super::*;
use crate::access::{
    issuer::Issuer,
    local_only::LocalOnly,
    scene::{NOW, Scene, configured, limits, now},
};

const SECRET: &str = "the secret beside the key";

/// What allows pages of a.org, programs called wallet and the network 10.0.0.0/8.
fn lists() -> Allowlists {
    let json = r#"{"origins":["https://a.org"],"userAgents":["wallet"],"networks":["10.0.0.0/8"]}"#;
    serde_json::from_str(json).unwrap()
}

fn settings(allow: Allowlists, secret: Option<(bool, bool)>) -> KeySettings {
    let secret = secret.map(|(is_required, exempts)| {
        Box::new(BesideSecret {
            digest: SecretDigest::of(SECRET),
            is_required,
            exempts,
        })
    });
    KeySettings {
        allow,
        secret,
        ..KeySettings::default()
    }
}

fn caller<'a>(origin: &'a str, user_agent: &'a str, address: &str) -> Caller<'a> {
    let text = |text: &'a str| Some(text).filter(|text| !text.is_empty());
    Caller {
        origin: text(origin),
        user_agent: text(user_agent),
        address: address.parse().ok(),
    }
}

/// A table with one key, `key`.
fn scene(settings: KeySettings) -> (Scene, Access) {
    let mut scene = Scene::default();
    let tenant = scene.tenant(1, TenantLimits::default());
    scene.key_with("key", tenant, settings);
    let access = Access::new(scene.source(&limits()));
    (scene, access)
}

fn admit(access: &Access, beside: Option<&str>, caller: Caller<'_>) -> Result<(), Refused> {
    let presented = Presented::new("key", beside);
    let tokens = TokenCache::default();
    access
        .admit(&presented, || caller, &tokens, now())
        .map(|_| ())
}

#[test]
fn each_list_has_to_allow_the_caller() {
    let (_, access) = scene(settings(lists(), None));
    let not_listed = |kind| Err(Refused::NotListed(kind));
    for (origin, user_agent, address, expected) in [
        ("https://a.org", "wallet/1", "10.0.0.1", Ok(())),
        (
            "https://b.org",
            "wallet/1",
            "10.0.0.1",
            not_listed(ListKind::Origins),
        ),
        ("", "wallet/1", "10.0.0.1", not_listed(ListKind::Origins)),
        (
            "https://a.org",
            "curl",
            "10.0.0.1",
            not_listed(ListKind::UserAgents),
        ),
        (
            "https://a.org",
            "",
            "10.0.0.1",
            not_listed(ListKind::UserAgents),
        ),
        (
            "https://a.org",
            "wallet/1",
            "11.0.0.1",
            not_listed(ListKind::Networks),
        ),
        (
            "https://a.org",
            "wallet/1",
            "",
            not_listed(ListKind::Networks),
        ),
    ] {
        let found = admit(&access, None, caller(origin, user_agent, address));
        assert_eq!(found, expected, "{origin} {user_agent} {address}");
    }
}

#[test]
fn a_secret_lets_in_and_may_exempt_from_the_lists_of_browsers() {
    let right = format!("Bearer {SECRET}");
    let (right, wrong, other) = (Some(&*right), Some("Bearer guess"), Some("Digest x"));
    let (page, server, stranger) = (
        caller("https://a.org", "wallet/1", "10.0.0.1"),
        caller("", "", "10.0.0.1"),
        caller("", "", "11.0.0.1"),
    );
    let wrong_secret = Err(Refused::WrongSecret);
    let not_listed = |kind| Err(Refused::NotListed(kind));
    // Whether it is required and whether it exempts; what is presented, by whom.
    for ((is_required, exempts), beside, caller, expected) in [
        ((false, false), None, page, Ok(())),
        ((false, false), right, page, Ok(())),
        ((false, false), wrong, page, wrong_secret),
        ((false, false), other, page, Ok(())),
        ((false, false), right, server, not_listed(ListKind::Origins)),
        ((true, false), None, page, wrong_secret),
        ((true, false), other, page, wrong_secret),
        ((true, false), right, page, Ok(())),
        ((false, true), right, server, Ok(())),
        ((false, true), None, server, not_listed(ListKind::Origins)),
        (
            (false, true),
            right,
            stranger,
            not_listed(ListKind::Networks),
        ),
    ] {
        let (_, access) = scene(settings(lists(), Some((is_required, exempts))));
        let found = admit(&access, beside, caller);
        let case = format!("required {is_required}, exempts {exempts}, {beside:?}, {caller:?}");
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_key_without_a_secret_ignores_what_stands_beside_it() {
    let (_, access) = scene(KeySettings::default());
    for beside in [None, Some("Bearer x"), Some("Basic OnNlY3JldA==")] {
        assert_eq!(admit(&access, beside, Caller::default()), Ok(()));
    }
}

fn with_public_keys<const N: usize>(issuers: [&Issuer; N]) -> KeySettings {
    KeySettings {
        public_keys: issuers.map(Issuer::public_key).into(),
        ..KeySettings::default()
    }
}

/// A token for the key `key` that ends in this many seconds, and then has its leeway.
fn token(issuer: &Issuer, ends_in_seconds: u64) -> String {
    let aud = KeyId::of_configured("key");
    let exp = NOW.0 / 1_000 + ends_in_seconds;
    format!("Bearer {}", issuer.token(&json!({"aud": aud, "exp": exp})))
}

#[test]
fn a_key_with_public_keys_asks_for_a_token() {
    let [issuer, other] = ["one", "two"].map(Issuer::new);
    let (_, access) = scene(with_public_keys([&issuer]));
    let [good, foreign] = [&issuer, &other].map(|issuer| token(issuer, 10));
    let refused = |error| Err(Refused::Token(error));
    for (beside, expected) in [
        (None, refused(TokenError::Missing)),
        (Some("Bearer a.b.c"), refused(TokenError::Invalid)),
        (Some("Bearer "), refused(TokenError::Invalid)),
        (Some("Basic OnNlY3JldA=="), refused(TokenError::Missing)),
        (Some("Digest x"), refused(TokenError::Missing)),
        (Some(&*foreign), refused(TokenError::Invalid)),
        (Some(&*good), Ok(())),
    ] {
        let found = admit(&access, beside, Caller::default());
        assert_eq!(found, expected, "{beside:?}");
    }
    // The key itself is not in its path, so that there is no room for a token.
    let bearer = Presented::new("", Some("Bearer key"));
    let tokens = TokenCache::default();
    let found = access.admit(&bearer, Caller::default, &tokens, now());
    assert_eq!(found.map(|_| ()), refused(TokenError::Missing));
    // It exempts from no list.
    let (_, access) = scene(KeySettings {
        allow: lists(),
        ..with_public_keys([&issuer])
    });
    let found = admit(&access, Some(&good), caller("", "wallet", "10.0.0.1"));
    assert_eq!(found, Err(Refused::NotListed(ListKind::Origins)));
}

/// A session is let in by a token, which ends, or whose public key is removed.
#[test]
fn an_open_session_follows_its_token() {
    let [issuer, other] = ["one", "two"].map(Issuer::new);
    let lifetimes = [(0, 60_000), (10, 70_000)];
    for (seconds, ends) in lifetimes {
        let (mut scene, access) = scene(with_public_keys([&issuer]));
        scene.expires = None;
        let tenant = scene.directory.tenants().next().unwrap().id;
        scene.key_with("key", tenant, with_public_keys([&issuer]));
        access.replace(scene.source(&limits()));
        let (token, tokens) = (token(&issuer, seconds), TokenCache::default());
        let presented = Presented::new("key", Some(&token));
        let admitted = access
            .admit(&presented, Caller::default, &tokens, now())
            .unwrap();
        let grant = admitted.into_grant(&access, Caller::default());
        let at = |millis| UnixMillis(NOW.0 + millis);
        let before = at(ends - 1);
        assert!(grant.key(before).is_ok() && grant.is_current(before));
        assert!(!grant.is_current(at(ends)));
        let expired = Err(Refused::Token(TokenError::Expired));
        assert_eq!(grant.key(at(ends)).map(|_| ()), expired);

        // Another public key comes, its own goes, all go.
        for (settings, expected) in [
            (with_public_keys([&issuer, &other]), Ok(())),
            (
                with_public_keys([&other]),
                Err(Refused::Token(TokenError::Invalid)),
            ),
            (
                KeySettings::default(),
                Err(Refused::Token(TokenError::Invalid)),
            ),
        ] {
            scene.key_with("key", tenant, settings);
            access.replace(scene.source(&limits()));
            assert!(!grant.is_current(NOW));
            assert_eq!(grant.key(NOW).map(|_| ()), expected);
            let found = access.admit(&presented, Caller::default, &tokens, now());
            if access
                .key(KeyId::of_configured("key"), NOW)
                .unwrap()
                .needs_token()
            {
                assert_eq!(found.map(|_| ()), expected, "as another session");
            }
        }
    }
}

/// A session without a token ends once its key asks for one.
#[test]
fn an_open_session_ends_when_its_key_gets_public_keys() {
    let (mut scene, access) = scene(KeySettings::default());
    let (presented, tokens) = (Presented::new("key", None), TokenCache::default());
    let admitted = access.admit(&presented, Caller::default, &tokens, now());
    let grant = admitted.unwrap().into_grant(&access, Caller::default());
    let tenant = scene.directory.tenants().next().unwrap().id;
    scene.key_with("key", tenant, with_public_keys([&Issuer::new("one")]));
    access.replace(scene.source(&limits()));
    let expected = Err(Refused::Token(TokenError::Missing));
    assert_eq!(grant.key(NOW).map(|_| ()), expected);
}

#[test]
fn an_open_session_follows_its_key() {
    let page = caller("https://a.org", "wallet/1", "10.0.0.1");
    fn tenant(scene: &Scene) -> TenantId {
        scene.directory.tenants().next().unwrap().id
    }
    let update = |settings: KeySettings| {
        move |scene: &mut Scene| {
            let tenant = tenant(scene);
            scene.key_with("key", tenant, settings);
        }
    };
    let revoke = |scene: &mut Scene| {
        let id = scene.directory.keys().next().unwrap().id;
        scene.run(Command::RevokeKey { id });
    };
    let remove = |scene: &mut Scene| {
        let id = tenant(scene);
        scene.run(Command::RemoveTenant { id });
    };
    let other = serde_json::from_str(r#"{"origins":["https://b.org"]}"#).unwrap();
    let narrower = Quota {
        units_per_day: std::num::NonZeroU64::new(7),
        ..Quota::default()
    };
    type Change = Box<dyn FnOnce(&mut Scene)>;
    let changes: [(&str, Change, Result<(), Refused>); 7] = [
        ("nothing", Box::new(|_| ()), Ok(())),
        ("revoked", Box::new(revoke), Err(Refused::UnknownKey)),
        ("removed", Box::new(remove), Err(Refused::UnknownKey)),
        (
            "lists that allow it",
            Box::new(update(settings(lists(), None))),
            Ok(()),
        ),
        (
            "lists that do not",
            Box::new(update(settings(other, None))),
            Err(Refused::NotListed(ListKind::Origins)),
        ),
        (
            "a secret",
            Box::new(update(settings(Allowlists::default(), Some((true, false))))),
            Err(Refused::WrongSecret),
        ),
        (
            "a quota",
            Box::new(update(KeySettings {
                quota: narrower,
                ..KeySettings::default()
            })),
            Ok(()),
        ),
    ];
    for (what, change, expected) in changes {
        let (mut scene, access) = scene(KeySettings::default());
        let presented = Presented::new("key", None);
        let admitted = access
            .admit(&presented, || page, &TokenCache::default(), now())
            .unwrap();
        let grant = admitted.into_grant(&access, page);
        assert!(grant.key(NOW).is_ok() && grant.is_current(NOW), "{what}");
        change(&mut scene);
        access.replace(scene.source(&limits()));
        assert!(!grant.is_current(NOW), "{what}: there is another table");
        assert_eq!(grant.key(NOW).map(|_| ()), expected, "{what}");
        if what == "a quota" {
            let quota = grant.key(NOW).unwrap().record.settings.quota;
            assert_eq!(quota, narrower, "in force at once");
        }
        assert_eq!(grant.is_current(NOW), expected.is_ok(), "{what}");
    }
}

/// A key of the configuration that serves this machine alone from now on, or under other hosts,
/// ends its sessions; one that no longer does goes on.
#[test]
fn an_open_session_ends_when_its_key_serves_this_machine_alone() {
    let local = |host: &str| Some(LocalOnly::new(&[host.parse().unwrap()]));
    let refused = Err(Refused::NotLocal(NotLocal::Host));
    for (before, after, expected) in [
        (None, None, Ok(())),
        (None, local("a.example"), refused),
        (local("a.example"), local("a.example"), Ok(())),
        (local("a.example"), local("b.example"), refused),
        (local("a.example"), None, Ok(())),
    ] {
        let keys = |local_only: &Option<LocalOnly>| {
            let key = configured([("tenant", "by flag")]).remove(0);
            let key = match local_only {
                Some(local_only) => key.for_this_machine(local_only.clone()),
                None => key,
            };
            [key].into_iter().collect()
        };
        let mut scene = Scene {
            configured: keys(&before),
            ..Scene::default()
        };
        let access = Access::new(scene.source(&limits()));
        let presented = Presented::new("by flag", None);
        let tokens = TokenCache::default();
        let admitted = access.admit(&presented, Caller::default, &tokens, now());
        let grant = admitted.unwrap().into_grant(&access, Caller::default());
        assert!(grant.key(NOW).is_ok());
        scene.configured = keys(&after);
        access.replace(scene.source(&limits()));
        let found = grant.key(NOW).map(|_| ());
        assert_eq!(found, expected, "{before:?} {after:?}");
    }
}

#[test]
fn an_open_session_ends_when_its_key_expires() {
    let (_, access) = scene(KeySettings::default());
    let tokens = TokenCache::default();
    let admitted = access
        .admit(
            &Presented::new("key", None),
            Caller::default,
            &tokens,
            now(),
        )
        .unwrap();
    let grant = admitted.into_grant(&access, Caller::default());
    for (now, expected) in [
        (1_000, Ok(())),
        (4_999, Ok(())),
        (5_000, Err(Refused::UnknownKey)),
    ] {
        let now = UnixMillis(now);
        assert_eq!(grant.key(now).map(|_| ()), expected, "{now:?}");
        assert_eq!(grant.is_current(now), expected.is_ok(), "{now:?}");
    }
}

#[test]
fn a_tenant_has_so_many_subscriptions_in_all_sessions() {
    let (mut scene, access) = scene(KeySettings::default());
    let most = |most| TenantLimits {
        subscriptions: Some(most),
        ..TenantLimits::default()
    };
    scene.tenant(1, most(2));
    access.replace(scene.source(&limits()));
    let grant = || {
        let presented = Presented::new("key", None);
        let tokens = TokenCache::default();
        let admitted = access.admit(&presented, Caller::default, &tokens, now());
        let admitted = admitted.unwrap();
        admitted.into_grant(&access, Caller::default())
    };
    let (one, other) = (grant(), grant());
    let first = one.take_subscription().unwrap();
    let _second = other.take_subscription().unwrap();
    assert_eq!(one.take_subscription().unwrap_err(), 2);
    drop(first);
    assert!(other.take_subscription().is_ok());
}
