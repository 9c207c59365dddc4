#![expect(clippy::unwrap_used, reason = "tests")]

use std::{num::NonZeroU32, time::Instant};

use nearhead_tenants::{
    command::{Command, NewKey},
    limits::{Quota, TenantLimits},
    secret::{KeyPrefix, SecretDigest},
};

use super::*;
use crate::access::{
    Exceeded, MethodSet, Now, SessionCaps,
    scene::{NOW, Scene, configured, limits, requests},
};

fn access<const N: usize>(keys: [(&str, &str); N]) -> Access {
    Access::of_configured(&configured(keys), &limits(), NOW)
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        unix: NOW,
    }
}

#[test]
fn a_key_resolves_only_to_its_own_tenant() {
    let access = access([("alice", "a1"), ("bob", "b1"), ("alice", "a2")]);
    let name = |key: &str| Some(access.resolve(key, NOW)?.tenant.name.to_string());
    for (presented, expected) in [
        ("a1", Some("alice")),
        ("a2", Some("alice")),
        ("b1", Some("bob")),
        ("A1", None),
        ("a", None),
        ("a11", None),
        ("", None),
        ("alice", None),
        ("alice=a1", None),
    ] {
        assert_eq!(name(presented).as_deref(), expected, "{presented:?}");
    }
    let [a1, a2, b1] =
        ["a1", "a2", "b1"].map(|key| access.resolve(key, NOW).unwrap().tenant.clone());
    assert!(Arc::ptr_eq(&a1, &a2), "one tenant has both keys");
    assert_ne!(a1.id, b1.id);
}

#[test]
fn without_keys_no_client_is_let_in() {
    let access = access([]);
    assert!(access.resolve("", NOW).is_none());
    assert!(access.resolve("dev", NOW).is_none());
}

#[test]
fn debug_shows_no_secret() {
    let access = access([("alice", "swordfish-of-alice")]);
    let key = access.resolve("swordfish-of-alice", NOW).unwrap();
    let shown = format!("{access:?} {key:?}");
    assert!(shown.contains("alice"), "{shown}");
    assert!(!shown.contains("fish"), "{shown}");
    let digest = String::from(key.record.digest);
    assert!(!shown.contains(&digest[..8]), "{shown}");
}

#[test]
fn a_key_that_expired_or_was_revoked_is_unknown() {
    let mut scene = Scene::default();
    let tenant = scene.tenant(1, TenantLimits::default());
    let id = scene.key("one", tenant, Quota::default());
    let access = Access::new(scene.source(&limits()));
    for (now, is_in) in [(0, true), (4_999, true), (5_000, false)] {
        let now = UnixMillis(now);
        assert_eq!(access.resolve("one", now).is_some(), is_in, "{now:?}");
        assert_eq!(access.key(id, now).is_some(), is_in, "{now:?}");
    }
    scene.run(Command::RevokeKey { id });
    let before = access.version();
    access.replace(scene.source(&limits()));
    assert!(access.version() > before);
    assert!(access.resolve("one", NOW).is_none() && access.key(id, NOW).is_none());
}

#[test]
fn what_a_key_uses_counts_for_its_tenant_and_not_for_others() {
    let mut scene = Scene::default();
    let tenant = scene.tenant(1, TenantLimits::default());
    scene.key("narrow", tenant, requests(1));
    scene.key("wide", tenant, Quota::default());
    let other = scene.tenant(2, TenantLimits::default());
    scene.key("other", other, Quota::default());
    let access = Access::new(scene.source(&limits()));
    let [narrow, wide, other] =
        ["narrow", "wide", "other"].map(|key| access.resolve(key, NOW).unwrap());
    let now = now();
    let allowed = |taken: Result<(), Exceeded>| taken.map_err(|exceeded| exceeded.allowed);
    assert_eq!(narrow.take(1, now), Ok(()));
    assert_eq!(allowed(narrow.take(1, now)), Err(1), "its own quota");
    assert_eq!(wide.take(1, now), Ok(()));
    assert_eq!(allowed(wide.take(1, now)), Err(2), "that of the tenant");
    assert_eq!(other.take(2, now), Ok(()));
    // What the tenant refuses takes nothing from the key.
    let later = |millis| Now {
        instant: now.instant + std::time::Duration::from_millis(millis),
        ..now
    };
    assert_eq!(wide.take(2, later(1_000)), Ok(()));
    assert_eq!(allowed(narrow.take(1, later(1_000))), Err(2));
    assert_eq!(narrow.take(1, later(1_500)), Ok(()));
}

#[test]
fn a_replaced_table_keeps_the_counters_of_those_that_stay() {
    let access = access([("a", "a1"), ("b", "b1")]);
    let (caps, now) = (SessionCaps::new(10), now());
    let [a, b] = ["a1", "b1"].map(|key| access.resolve(key, NOW).unwrap());
    let permit = caps.take(&a.tenant).unwrap();
    assert_eq!(a.take(2, now), Ok(()));
    assert_eq!(b.take(2, now), Ok(()));

    // a gets another key, b goes, c comes.
    let mut scene = Scene {
        configured: configured([("c", "c1"), ("a", "a2")]).into_iter().collect(),
        ..Scene::default()
    };
    access.replace(scene.source(&limits()));
    assert!(access.resolve("a1", NOW).is_none() && access.resolve("b1", NOW).is_none());
    let [a2, c] = ["a2", "c1"].map(|key| access.resolve(key, NOW).unwrap());
    assert_eq!(a2.tenant.id, a.tenant.id);
    assert!(
        a2.take(1, now).is_err() && a.take(1, now).is_err(),
        "one bucket"
    );
    assert!(caps.take(&a2.tenant).is_none(), "one count of sessions");
    assert_eq!(c.take(2, now), Ok(()));
    drop(permit);
    let permit = caps.take(&a2.tenant).unwrap();
    assert!(caps.take(&a.tenant).is_none());
    drop(permit);

    // b comes back, and begins again.
    scene.configured = configured([("b", "b1")]).into_iter().collect();
    access.replace(scene.source(&limits()));
    assert_eq!(access.resolve("b1", NOW).unwrap().take(2, now), Ok(()));
}

#[test]
fn what_does_not_change_is_not_made_again() {
    let mut scene = Scene::default();
    let [one, two] = [1, 2].map(|number| scene.tenant(number, TenantLimits::default()));
    scene.key("one", one, Quota::default());
    scene.key("two", two, Quota::default());
    scene.configured = configured([("tenant 1", "by flag")]).into_iter().collect();
    let access = Access::new(scene.source(&limits()));
    let all = || ["one", "two", "by flag"].map(|key| access.resolve(key, NOW).unwrap());
    let before = all();
    assert!(
        Arc::ptr_eq(&before[0].tenant, &before[2].tenant),
        "by its name"
    );
    scene.tenant(
        2,
        TenantLimits {
            sessions: Some(7),
            ..TenantLimits::default()
        },
    );
    access.replace(scene.source(&limits()));
    let after = all();
    let same: Vec<bool> = (0..3)
        .map(|at| Arc::ptr_eq(&before[at], &after[at]))
        .collect();
    assert_eq!(same, [true, false, true]);
    assert_eq!(after[1].tenant.limits.sessions, 7);
}

#[test]
fn changed_limits_apply_at_once() {
    let keys = configured([("a", "a")]);
    let access = Access::of_configured(&keys, &limits(), NOW);
    let (caps, now) = (SessionCaps::new(10), now());
    let a = access.resolve("a", NOW).unwrap();
    let _permit = caps.take(&a.tenant).unwrap();
    assert_eq!(a.take(2, now), Ok(()));
    let scene = Scene {
        configured: keys.into_iter().collect(),
        ..Scene::default()
    };
    let more = ServiceLimits {
        methods: MethodSet::Core,
        quota: requests(3),
        sessions: 2,
        node_calls: NonZeroU32::new(4),
    };
    access.replace(scene.source(&more));
    let a = access.resolve("a", NOW).unwrap();
    assert_eq!(a.tenant.limits, more);
    assert_eq!(a.take(3, now), Ok(()), "a full bucket");
    assert_eq!(
        a.take(1, now).map_err(|e| e.allowed),
        Err(3),
        "of the new rate"
    );
    let _second = caps.take(&a.tenant).unwrap();
    assert!(
        caps.take(&a.tenant).is_none(),
        "the first session still counts"
    );
}

/// After a restart, the units of the day are those that were recorded.
#[test]
fn units_of_the_day_outlive_the_process_and_other_limits() {
    let mut scene = Scene::default();
    let per_day = |units| TenantLimits {
        quota: Quota {
            units_per_day: std::num::NonZeroU64::new(units),
            ..Quota::default()
        },
        ..TenantLimits::default()
    };
    let tenant = scene.tenant(1, per_day(10));
    scene.key("one", tenant, Quota::default());
    scene.used_today.add_to_tenant(tenant, 9);
    let service = ServiceLimits {
        quota: Quota::default(),
        ..limits()
    };
    let access = Access::new(scene.source(&service));
    let key = || access.resolve("one", NOW).unwrap();
    assert_eq!(key().take(1, now()), Ok(()));
    assert!(key().take(1, now()).is_err(), "10 of 10");
    scene.tenant(1, per_day(11));
    access.replace(scene.source(&service));
    assert_eq!(key().take(1, now()), Ok(()));
    assert!(key().take(1, now()).is_err(), "11 of 11");
}

/// However often a key is rotated, what all keys of the chain use is one quota.
#[test]
fn the_keys_of_a_chain_share_one_meter() {
    let mut scene = Scene {
        expires: None,
        ..Scene::default()
    };
    let tenant = scene.tenant(1, TenantLimits::default());
    let service = ServiceLimits {
        quota: Quota::default(),
        ..limits()
    };
    let per_day = |units| Quota {
        units_per_day: std::num::NonZeroU64::new(units),
        ..requests(3)
    };
    let first = scene.key("first", tenant, per_day(10));
    let access = Access::new(scene.source(&service));
    let rotate = |scene: &mut Scene, id, by: &str| {
        let key = NewKey {
            id: KeyId::of_configured(by),
            prefix: KeyPrefix::of(by),
            digest: SecretDigest::of(by),
        };
        let (id, old_expires) = (id, UnixMillis(NOW.0 + 1));
        scene.run(Command::RotateKey {
            id,
            key,
            old_expires,
        });
        KeyId::of_configured(by)
    };
    let take = |access: &Access, key: &str, second: u64| {
        let instant = now().instant + std::time::Duration::from_secs(100 * second);
        let now = Now { instant, ..now() };
        let taken = access.resolve(key, NOW).unwrap().take(3, now);
        taken.map_err(|exceeded| exceeded.allowed)
    };
    assert_eq!(take(&access, "first", 1), Ok(()));
    let second = rotate(&mut scene, first, "second");
    access.replace(scene.source(&service));
    assert_eq!(
        take(&access, "second", 1),
        Err(3),
        "the bucket of the first one"
    );
    assert_eq!(take(&access, "second", 2), Ok(()));
    assert_eq!(take(&access, "first", 2), Err(3));
    // Another quota is that of both, with the units of the day that were used.
    scene.key("second", tenant, per_day(9));
    access.replace(scene.source(&service));
    assert_eq!(take(&access, "first", 3), Ok(()));
    for key in ["first", "second"] {
        assert_eq!(take(&access, key, 4), Err(9), "9 of 9: {key}");
    }
    // One that is revoked leaves the meter to the other, and to its successor.
    scene.run(Command::RevokeKey { id: first });
    rotate(&mut scene, second, "third");
    scene.run(Command::RevokeKey { id: second });
    scene.run(Command::RemoveKey { id: first });
    access.replace(scene.source(&service));
    assert_eq!(take(&access, "third", 5), Err(9));
    // So it is after a restart.
    for (units, expected) in [(8, Ok(())), (9, Err(9))] {
        scene.used_today = UsedToday::default();
        scene.used_today.add_to_chain(first, units);
        let access = Access::new(scene.source(&service));
        assert_eq!(take(&access, "third", 6), expected);
    }
}

/// Queues see a tenant's weight, and that it is the same tenant when its weight changes.
#[test]
fn the_share_of_a_tenant_has_its_weight() {
    let weighted = |weight| TenantLimits {
        weight: NonZeroU32::new(weight).unwrap(),
        ..TenantLimits::default()
    };
    let mut scene = Scene::default();
    let service = limits();
    let tenant = scene.tenant(1, weighted(3));
    scene.key("k", tenant, Quota::default());
    let access = Access::new(scene.source(&service));
    let share = || access.resolve("k", NOW).unwrap().tenant.call_budget.share();
    let three = share();
    assert_eq!(three.weight().get(), 3);
    let update = scene.put_tenant(tenant, "other".parse().unwrap(), weighted(1_000));
    let changed = scene.try_run(update).unwrap();
    access.update(scene.source(&service), &changed);
    assert_eq!(share(), three.with_weight(NonZeroU32::new(1_000).unwrap()));
    // Another one.
    let access = Access::of_configured(&configured([("a", "a"), ("b", "b")]), &service, NOW);
    let share = |key| access.resolve(key, NOW).unwrap().tenant.call_budget.share();
    assert_ne!(share("a"), share("b"));
    assert_eq!(share("a").weight(), NonZeroU32::MIN);
}
