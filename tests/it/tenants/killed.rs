//! The end of a service by force, under requests.

use std::{
    thread,
    time::{Duration, Instant},
};

use nearhead_chain::campaign;
use nearhead_tenants::{id::KeyId, record::KeySettings};
use serde_json::{Value, json};

use super::{administrator::Administrator, prepared_store::PreparedStore};
use crate::{
    harness::{Connection, Server, check, request, scratch},
    rng::Rng,
};

/// Usage of the last moments before the end may be lost.
const LOST_MAX: Duration = Duration::from_secs(10);

/// How many milliseconds after [`LOST_MAX`] the end may come: more than the time from one write to
/// the next.
const SPREAD: u64 = 9_000;

/// Services that end at the same time, each at another moment.
const SERVICES: u64 = 4;

/// The pause between two requests, so that other tests have the machine.
const PAUSE: Duration = Duration::from_millis(5);

/// The key that is used.
const USED: &str = "used";

/// Requests of [`USED`], as the store has them.
fn requests(administrator: &Administrator, id: KeyId) -> usize {
    let usage = administrator.get(&format!("/usage?last=12h&key={id}"));
    let requests = usage["rows"][0]["requests"].as_u64();
    requests.unwrap_or(0).try_into().unwrap()
}

fn status(server: &Server, key: &str) -> u16 {
    let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
    let body = request(1, "eth_chainId", &json!([])).to_string();
    connection.post(body).status
}

/// Asks until the end is due; returns when each answer came.
fn ask(server: &Server, end: Instant) -> Vec<Instant> {
    // Several workers count.
    let mut connections: Vec<_> = (0..4)
        .map(|_| Connection::open(server.address, &format!("/v3/{USED}")))
        .collect();
    let mut answered = Vec::new();
    for connection in (0..connections.len()).cycle() {
        if Instant::now() >= end {
            break;
        }
        connections[connection].result("eth_chainId", &json!([]));
        answered.push(Instant::now());
        thread::park_timeout(PAUSE);
    }
    answered
}

/// Ends one service by force, again and again, and checks what it knows at the next start.
fn end_by_force(number: u64) {
    let mut store = PreparedStore::default();
    Administrator::prepare(&mut store);
    let used = store.key(USED, KeySettings::default());
    let folder = scratch(&format!("killed-{number}"));
    store.write(&folder);
    let mut server = Server::on_data(&folder, &[]);
    let mut rng = Rng::new(number);
    let mut found = 0;
    for round in 0..campaign::rounds(1, 20) {
        let case = format!("service {number}, round {round}");
        let end = Instant::now() + LOST_MAX + Duration::from_millis(rng.between(500, SPREAD));
        let answered = ask(&server, end);
        // Of keys, nothing is lost: the answers to these calls are the last ones.
        let administrator = Administrator::of(&server);
        let create = |name: &str| {
            let body = json!({"tenant": USED, "name": format!("{name} {round}")});
            let made = administrator.done("POST", "/keys", &body);
            let member = |name: &str| made[name].as_str().unwrap().to_owned();
            (member("id"), member("key"))
        };
        let (revoked_id, revoked) = create("revoked");
        administrator.done("POST", &format!("/keys/{revoked_id}/revoke"), &Value::Null);
        let (_, created) = create("created");
        let ended = Instant::now();
        // Dropping it is kill -9.
        drop(server);

        server = Server::on_data(&folder, &[]);
        let before = found;
        found = requests(&Administrator::of(&server), used);
        let is_due = |at: &&Instant| ended.duration_since(**at) > LOST_MAX;
        let due = answered.iter().filter(is_due).count();
        assert!(due > 0, "{case}: no answer is old enough");
        let counted = found - before;
        assert!(
            (due..=answered.len()).contains(&counted),
            "{case}: usage has {counted} requests, not {due} to {}",
            answered.len()
        );
        check(&case, &status(&server, &created), &200);
        check(&case, &status(&server, &revoked), &401);
    }
}

/// Whenever a service is killed, usage lacks at most the last 10 s, and has nothing that was not
/// asked; no key is lost, and none comes back.
#[test]
fn a_kill_loses_at_most_ten_seconds_of_usage_and_no_key() {
    thread::scope(|scope| {
        for number in 1..=SERVICES {
            scope.spawn(move || end_by_force(number));
        }
    });
}
