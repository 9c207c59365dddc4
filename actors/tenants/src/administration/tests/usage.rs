use std::collections::HashMap;

use serde_json::{Value, json};

use super::scene::*;
use crate::{
    UnixMillis,
    administration::*,
    directory::ChangedRecords,
    id::KeyId,
    usage::{SESSION_LABEL, UsageCell, Used},
};

const MINUTE: u64 = 60_000;

/// Usage of the keys of alice and bob, and of the configured one.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let cell = |key, minutes: u64, method: &str, outcome: &str, used| UsageCell {
        minute: UnixMillis(NOW.0 - minutes * MINUTE),
        key,
        owner: scene.administration.owner_of(key),
        method: method.into(),
        outcome: outcome.into(),
        last: NOW,
        used,
    };
    let requests = |requests, bucket: usize| {
        let mut used = Used {
            requests,
            units: 2 * requests,
            bytes_in: 10,
            bytes_out: 20,
            ..Used::default()
        };
        used.latency[bucket] = requests;
        used
    };
    let sessions = Used {
        sessions: 1,
        notifications: 7,
        ..Used::default()
    };
    let (alice, bob) = (scene.alice.view.id, scene.bob.view.id);
    let cells = [
        cell(alice, 1, "eth_call", "ok", requests(9, 0)),
        cell(alice, 1, "eth_call", "denied", requests(1, 6)),
        cell(alice, 5, "eth_chainId", "ok", requests(4, 0)),
        cell(alice, 5, SESSION_LABEL, SESSION_LABEL, sessions),
        cell(bob, 1, "eth_call", "ok", requests(100, 0)),
        cell(scene.flag, 1, "eth_call", "ok", requests(1_000, 0)),
    ];
    scene.administration.add_usage(&cells).unwrap();
    scene
}

/// Asks for usage part by part; also returns how many parts there were.
fn read_in_parts(scene: &mut Scene, ask: Value, periods: u32) -> (UsageView, usize) {
    let mut reading = scene.done(BeginUsage(of_json(ask)));
    let mut parts = 0;
    while !reading.is_done() {
        reading = scene.done(ReadUsagePart { reading, periods });
        parts += 1;
    }
    (reading.into_view(), parts)
}

/// Method, outcome, requests and errors of each row, and how many minutes ago it was.
fn rows(view: &UsageView) -> Vec<Value> {
    let row = |row: &UsageRowView| {
        let minutes = row.at.map(|at| (NOW.0 - at.0) / MINUTE);
        json!([minutes, row.method, row.outcome, row.requests, row.errors])
    };
    view.rows.iter().map(row).collect()
}

#[test]
fn usage_is_grouped_by_what_is_asked_for() {
    let mut scene = scene();
    let alice = scene.alice.view.id;
    for (ask, expected) in [
        (json!({}), json!([[null, null, null, 1114, 1]])),
        (
            json!({"tenant": "bob"}),
            json!([[null, null, null, 100, 0]]),
        ),
        (
            json!({"tenant": "flag"}),
            json!([[null, null, null, 1000, 0]]),
        ),
        (json!({"key": alice}), json!([[null, null, null, 14, 1]])),
        (
            json!({"key": alice, "by": "time", "last": "15m"}),
            json!([[5, null, null, 4, 0], [1, null, null, 10, 1]]),
        ),
        (
            json!({"key": alice, "by": "method", "last": "15m"}),
            json!([
                [null, "eth_call", null, 10, 1],
                [null, "eth_chainId", null, 4, 0],
                [null, "session", null, 0, 0]
            ]),
        ),
        (
            json!({"key": alice, "by": "outcome,time", "last": "3m"}),
            json!([[1, null, "denied", 1, 1], [1, null, "ok", 9, 0]]),
        ),
        (
            json!({"key": alice, "from": NOW.0 - 10 * MINUTE, "to": NOW.0 - 3 * MINUTE}),
            json!([[null, null, null, 4, 0]]),
        ),
    ] {
        let view = scene.done(of_json::<GetUsage>(ask.clone()));
        assert_eq!(json!(rows(&view)), expected, "{ask}");
        assert!(!view.is_truncated);
        for periods in [0, 1, 2, 7, u32::MAX] {
            let (in_parts, _) = read_in_parts(&mut scene, ask.clone(), periods);
            assert_eq!(in_parts, view, "{ask} {periods}");
        }
    }
}

#[test]
fn a_row_has_sums_and_latencies() {
    let mut scene = scene();
    let key = scene.alice.view.id;
    let view = scene.done(of_json::<GetUsage>(json!({"key": key, "last": "15m"})));
    let expected = json!({
        "requests": 14, "errors": 1, "units": 28, "bytesIn": 30, "bytesOut": 60, "sessions": 1,
        "notifications": 7,
        "latency": {"buckets": [13, 0, 0, 0, 0, 0, 1, 0], "p50": 0.25, "p95": 2_500.0, "p99": 2_500.0},
    });
    assert_eq!(json!(view.rows[0]), expected);
    assert_eq!(
        view.latency_bounds,
        [0.25, 1.0, 5.0, 25.0, 100.0, 500.0, 2_500.0]
    );
    let copy: UsageView = serde_json::from_value(json!(view)).unwrap();
    assert_eq!(copy, view);
}

/// The resolution is the finest that is kept for the range, and whole periods are read.
#[test]
fn ranges_have_periods() {
    let mut scene = scene();
    for (last, period, from) in [
        ("15m", MINUTE, NOW.0 - 15 * MINUTE),
        ("12h", MINUTE, NOW.0 - 720 * MINUTE),
        ("7d", 60 * MINUTE, NOW.0 - 7 * 1_440 * MINUTE - 30 * MINUTE),
        (
            "30d",
            1_440 * MINUTE,
            (NOW.0 / 86_400_000 - 30) * 86_400_000,
        ),
    ] {
        let view = scene.done(of_json::<GetUsage>(json!({"last": last, "by": "time"})));
        assert_eq!((view.period, view.from.0), (period, from), "{last}");
        assert!((NOW.0..NOW.0 + period).contains(&view.to.0), "{last}");
        let total: u64 = view.rows.iter().map(|row| row.requests).sum();
        assert_eq!(total, 1_114, "{last}");
    }
}

#[test]
fn a_breakdown_is_written_as_it_is_read() {
    for (text, expected) in [
        ("", Some("")),
        ("time", Some("time")),
        ("outcome,method,key,time", Some("time,key,method,outcome")),
        ("time,time", Some("time")),
        ("times", None),
        ("time method", None),
    ] {
        let found = text.parse::<Breakdown>().ok();
        assert_eq!(
            found.map(|by| by.to_string()).as_deref(),
            expected,
            "{text:?}"
        );
    }
}

/// A request of a method by Alice's key.
fn one_request(scene: &Scene, minutes_ago: u64, method: String) -> UsageCell {
    UsageCell {
        minute: UnixMillis(NOW.0 - minutes_ago * MINUTE),
        key: scene.alice.view.id,
        owner: None,
        method: method.into(),
        outcome: "ok".into(),
        last: NOW,
        used: Used {
            requests: 1,
            ..Used::default()
        },
    }
}

/// An answer that would have too many rows says so, and has no sum that lacks a part.
#[test]
fn rows_are_bounded() {
    let mut scene = Scene::new();
    let cells: Vec<_> = (0..150)
        .flat_map(|method| (1..=600).map(move |minute| (method, minute)))
        .map(|(method, minute)| one_request(&scene, minute, format!("method {method:03}")))
        .collect();
    scene.administration.add_usage(&cells).unwrap();
    let view = scene.done(of_json::<GetUsage>(
        json!({"last": "12h", "by": "time,method"}),
    ));
    assert_eq!((view.rows.len(), view.is_truncated), (USAGE_ROWS_MAX, true));
    // What is beyond the bound is not read.
    let ask = json!({"last": "12h", "by": "time,method"});
    let (in_parts, parts) = read_in_parts(&mut scene, ask, 100);
    assert_eq!((in_parts, parts), (view, 6));
    let view = scene.done(of_json::<GetUsage>(json!({"last": "12h", "by": "time"})));
    assert_eq!((view.rows.len(), view.is_truncated), (600, false));
}

/// More groups than there is room for are the same ones in parts.
#[test]
fn groups_in_parts_are_bounded() {
    let mut scene = Scene::new();
    let cells: Vec<_> = (0..65_000_u64)
        .map(|method| {
            let minutes_ago = 1 + method * 7 % 30;
            one_request(
                &scene,
                minutes_ago,
                format!("method {:05}", method % 64_000),
            )
        })
        .collect();
    scene.administration.add_usage(&cells).unwrap();
    let ask = json!({"last": "1h", "by": "method"});
    let view = scene.done(of_json::<GetUsage>(ask.clone()));
    assert!(view.is_truncated);
    assert_eq!(view.rows[0].requests, 2, "it is in two minutes");
    for periods in [1, 4, 100] {
        let (in_parts, _) = read_in_parts(&mut scene, ask.clone(), periods);
        assert_eq!(in_parts, view, "{periods}");
    }
}

/// An old beginning makes no parts in which there is nothing.
#[test]
fn parts_begin_where_usage_is_kept() {
    let mut scene = scene();
    let ask = json!({"from": 0, "to": NOW.0});
    let (view, parts) = read_in_parts(&mut scene, ask.clone(), 16);
    assert_eq!(parts, 2);
    assert_eq!(scene.done(of_json::<GetUsage>(ask)), view);
}

/// Who may not see usage cannot begin to read it.
#[test]
fn parts_are_of_what_one_may_see() {
    let mut scene = scene();
    let of_bob = || BeginUsage(of_json(json!({"tenant": "bob"})));
    let ann = scene.ann();
    assert!(matches!(
        scene.run(of_bob(), &ann),
        Err(AdminError::NoTenant(_))
    ));
    let nobody = Requester::new(Identity::nobody(), None, NOW);
    assert_eq!(
        scene.run(of_bob(), &nobody).err(),
        Some(AdminError::NotLoggedIn)
    );
    // Without a tenant, it is the own one.
    let mut reading = scene.run(BeginUsage(GetUsage::default()), &ann).unwrap();
    while !reading.is_done() {
        let part = ReadUsagePart {
            reading,
            periods: 9,
        };
        reading = scene.run(part, &ann).unwrap();
    }
    assert_eq!(reading.into_view().rows[0].requests, 14);
}

/// Units of today, as they are after a restart: by alice, by the tenant of the configuration, and
/// by the chain of this key.
fn used_today(scene: &Scene, chain: KeyId) -> [u64; 3] {
    let mut administration = open(&scene.store);
    let used = administration.used_today(NOW).unwrap();
    let alice = used.by_tenant(scene.alice.view.tenant.id);
    let flag = scene.administration.owner_of(scene.flag).unwrap();
    [alice, used.by_tenant(flag.tenant), used.by_chain(chain)]
}

/// What a key used counts for its tenant and its chain also when the key is removed.
#[test]
fn units_of_a_removed_key_still_count() {
    let mut scene = Scene::new();
    let first = scene.alice.view.id;
    let mut rotate = |id| {
        let rotate = of_json::<RotateKey>(json!({"id": id, "overlap": "1h"}));
        let made = scene.done(rotate);
        scene.done(RevokeKey { id });
        made.view.id
    };
    let second = rotate(first);
    let third = rotate(second);
    let keys = [(first, 1), (second, 20), (third, 300), (scene.flag, 4_000)];
    for (key, units) in keys {
        let cell = UsageCell {
            key,
            owner: scene.administration.owner_of(key),
            used: Used {
                units,
                ..Used::default()
            },
            ..one_request(&scene, 0, "eth_call".to_owned())
        };
        scene.administration.add_usage(&[cell]).unwrap();
    }
    assert_eq!(used_today(&scene, first), [321, 4_000, 321]);
    scene.done(RemoveKey { id: first });
    scene.done(RemoveKey { id: second });
    assert_eq!(used_today(&scene, first), [321, 4_000, 321]);
    // Those that get a quota read the same, and no more than they need.
    for (tenant, key, expected) in [
        (None, Some(third), [0, 0, 321]),
        (Some(third), None, [321, 0, 0]),
    ] {
        let mut records = ChangedRecords::default();
        let owner = |key| scene.administration.owner_of(key).unwrap().tenant;
        records.tenants.extend(tenant.map(owner));
        records.keys.extend(key);
        let flag = owner(scene.flag);
        let used = scene.administration.used_today_by(&records, NOW).unwrap();
        let found = [
            used.by_tenant(scene.alice.view.tenant.id),
            used.by_tenant(flag),
            used.by_chain(first),
        ];
        assert_eq!(found, expected);
    }
    // A tenant that takes the name of configured keys has what they used.
    let made = scene.done(create_tenant("flag")).id;
    let mut records = ChangedRecords::default();
    records.tenants.insert(made);
    let used = scene.administration.used_today_by(&records, NOW).unwrap();
    assert_eq!(used.by_tenant(made), 4_000);
    assert_eq!(
        scene
            .administration
            .used_today(NOW)
            .unwrap()
            .by_tenant(made),
        4_000
    );
}

/// When another process of a fleet used a key is noted each minute, unless this one used it later.
#[test]
fn what_other_processes_use_is_noted() {
    let mut scene = Scene::new();
    let [alice, bob] = [scene.alice.view.id, scene.bob.view.id];
    let before = UnixMillis(NOW.0 - 60_000);
    scene.administration.mark_used(bob, NOW);
    let used = HashMap::from([(alice, before), (bob, before)]);
    *scene.store.used_elsewhere.lock().unwrap() = used;
    scene.administration.expire(NOW).unwrap();
    assert_eq!(scene.done(GetKey { id: alice }).last_used, Some(before));
    assert_eq!(scene.done(GetKey { id: bob }).last_used, Some(NOW));
}
