use serde_json::{Value, json};

use super::scene::*;
use crate::{
    UnixMillis,
    administration::*,
    usage::{SESSION_LABEL, UsageCell, Used},
};

const MINUTE: u64 = 60_000;

/// Usage of the keys of alice and bob, and of the configured one.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let cell = |key, minutes: u64, method: &str, outcome: &str, used| UsageCell {
        minute: UnixMillis(NOW.0 - minutes * MINUTE),
        key,
        tenant: scene.administration.tenant_of(key),
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

/// An answer that would have too many rows says so, and has no sum that lacks a part.
#[test]
fn rows_are_bounded() {
    let mut scene = Scene::new();
    let cells: Vec<_> = (0..150)
        .flat_map(|method| (1..=600).map(move |minute| (method, minute)))
        .map(|(method, minute)| UsageCell {
            minute: UnixMillis(NOW.0 - minute * MINUTE),
            key: scene.alice.view.id,
            tenant: None,
            method: format!("method {method:03}").into(),
            outcome: "ok".into(),
            last: NOW,
            used: Used {
                requests: 1,
                ..Used::default()
            },
        })
        .collect();
    scene.administration.add_usage(&cells).unwrap();
    let view = scene.done(of_json::<GetUsage>(
        json!({"last": "12h", "by": "time,method"}),
    ));
    assert_eq!((view.rows.len(), view.is_truncated), (USAGE_ROWS_MAX, true));
    let view = scene.done(of_json::<GetUsage>(json!({"last": "12h", "by": "time"})));
    assert_eq!((view.rows.len(), view.is_truncated), (600, false));
}
