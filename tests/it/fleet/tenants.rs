//! Tenants and keys of a fleet: a change at one process holds at every process, whatever happens to
//! the store, and what others write there is refused.

use std::{
    thread,
    time::{Duration, Instant},
};

use nearhead_fleet::record::RecordError;
use serde_json::{Value, json};

use super::stage::{Stage, wait_heads};
use crate::{
    admin_api::client::{Admin, id_and_key},
    harness::{Connection, Server, check, nearhead, run_with_input, scratch, wait_until},
    websocket::client::Client,
};

/// Until a change holds everywhere: a second, and three more for a machine that is busy.
const IN_FORCE_MAX: Duration = Duration::from_secs(4);

/// Until a revocation holds everywhere: what docs/fleet.md says.
const REVOKED_MAX: Duration = Duration::from_secs(1);

/// Revocations that are measured.
const REVOCATIONS: usize = 6;

fn status(server: &Server, key: &str) -> u16 {
    let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    connection.post(request.to_string()).status
}

/// Whether a key lets in. An address that presents wrong keys too often is answered with 429.
fn lets_in(server: &Server, key: &str) -> bool {
    match status(server, key) {
        200 => true,
        401 | 429 => false,
        other => panic!("status {other}"),
    }
}

/// Waits until a key lets in at every process, or at none, for as long as a change may take.
#[track_caller]
pub(super) fn wait_lets_in(servers: &[&Server], key: &str, expected: bool) {
    let since = Instant::now();
    for server in servers {
        wait_until(&format!("lets in: {expected}"), || {
            lets_in(server, key) == expected
        });
    }
    let took = since.elapsed();
    assert!(took < IN_FORCE_MAX, "it holds everywhere after {took:?}");
}

pub(super) fn refused(server: &Server, reason: &str) -> f64 {
    server.metric(&format!(
        "nearhead_fleet_records_refused_total{{reason=\"{reason}\"}}"
    ))
}

fn refused_in_all(server: &Server) -> f64 {
    let reasons = RecordError::LABELS;
    reasons.map(|reason| refused(server, reason)).iter().sum()
}

/// The same person at another process: the cookie holds there as well, and pages have its origin.
pub(super) fn also_at(server: &Server, of: &Server, admin: &Admin) -> Admin {
    let [from, to] = [of, server].map(|one| one.admin.unwrap().to_string());
    let mut other = Admin::nobody(server);
    let headers = admin.headers.iter();
    other.headers = headers.map(|line| line.replace(&from, &to)).collect();
    other
}

/// A leader and a replica without nodes, which have the same head.
pub(super) fn two_processes(name: &str, seed: u64) -> (Stage, Server, Server) {
    let mut stage = Stage::new(name, seed, [150, 4]);
    let head = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    let replica = stage.join(None);
    wait_heads(&[&leader, &replica], head);
    (stage, leader, replica)
}

fn revoke(admin: &mut Admin, id: &str) {
    admin.done("POST", &format!("/keys/{id}/revoke"), &Value::Null, 200);
}

#[test]
fn a_key_made_at_one_process_holds_at_every_process() {
    let (stage, a, b) = two_processes("fleet-tenants", 47);
    let all = [&a, &b];
    let mut at_a = Admin::first(&a);
    let mut at_b = also_at(&b, &a, &at_a);

    // Made at one, it lets in at the other; revoked at one, it ends sessions of the other.
    at_a.tenant("acme");
    let (id, key) = id_and_key(&at_a.done(
        "POST",
        "/keys",
        &json!({"tenant": "acme", "name": "wallet"}),
        201,
    ));
    wait_lets_in(&all, &key, true);
    let mut session = Client::open(b.address, &format!("/ws/v3/{key}"));
    let answer = session.call("eth_chainId", &json!([]));
    assert!(answer["result"].is_string(), "{answer}");
    let since = Instant::now();
    revoke(&mut at_a, &id);
    let (code, _) = session.close_code();
    let took = since.elapsed();
    check("close code", &code, &4401);
    assert!(took < IN_FORCE_MAX, "closed after {took:?}");
    wait_lets_in(&all, &key, false);

    // Two who administer at once lose nothing.
    let make = |admin: &mut Admin, of: &str| -> Vec<String> {
        let one = |at| admin.key("acme", &format!("{of} {at}")).1;
        (0..10).map(one).collect()
    };
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| make(&mut at_a, "a"));
        let second = make(&mut at_b, "b");
        (first.join().unwrap(), second)
    });
    for key in first.iter().chain(&second) {
        wait_lets_in(&all, key, true);
    }
    // The audit has each change once, at both.
    for admin in [&mut at_a, &mut at_b] {
        let audit = admin.get("/audit?limit=100");
        let entries = audit["entries"].as_array().unwrap();
        let of = |verb: &str| entries.iter().filter(|entry| entry["verb"] == verb).count();
        check("keys made", &of("key.create"), &21);
        check("keys revoked", &of("key.revoke"), &1);
    }

    // A process that joins knows all of it.
    let late = stage.join(None);
    wait_lets_in(&[&late], &first[0], true);
    wait_lets_in(&[&late], &key, false);
}

/// The time from the acknowledgement of a revocation until the key lets in nobody at the other
/// processes, and until its sessions there have ended.
fn revocation(admin: &mut Admin, others: [&Server; 2], all: &[&Server], name: &str) -> Duration {
    let (id, key) = admin.key("acme", name);
    wait_lets_in(all, &key, true);
    let sessions = others.map(|server| {
        let mut session = Client::open(server.address, &format!("/ws/v3/{key}"));
        let answer = session.call("eth_chainId", &json!([]));
        assert!(answer["result"].is_string(), "{answer}");
        session
    });
    thread::scope(|scope| {
        let closed = sessions.map(|mut session| {
            scope.spawn(move || {
                check("close code", &session.close_code().0, &4401);
                Instant::now()
            })
        });
        let refused = others.map(|server| {
            let key = &key;
            scope.spawn(move || {
                wait_until("it is refused", || !lets_in(server, key));
                Instant::now()
            })
        });
        revoke(admin, &id);
        let acknowledged = Instant::now();
        let all = closed.into_iter().chain(refused);
        let took = all.map(|thread| {
            let held = thread.join().unwrap();
            held.saturating_duration_since(acknowledged)
        });
        took.max().unwrap()
    })
}

/// Each of several revocations at one process holds at all others.
#[test]
fn a_revocation_holds_everywhere_within_a_second() {
    let (stage, a, b) = two_processes("fleet-revocations", 61);
    let c = stage.join(None);
    let all = [&a, &b, &c];
    let mut admin = Admin::first(&a);
    admin.tenant("acme");
    let took: Vec<Duration> = (0..REVOCATIONS)
        .map(|at| revocation(&mut admin, [&b, &c], &all, &format!("wallet {at}")))
        .collect();
    println!("revocations held everywhere after {took:?}");
    let is_in_time = took.iter().all(|took| *took < REVOKED_MAX);
    assert!(is_in_time, "{took:?}");
}

#[test]
fn records_that_others_write_are_refused() {
    let (stage, a, b) = two_processes("fleet-records", 53);
    let c = stage.join(None);
    let all = [&a, &b, &c];
    let mut admin = Admin::first(&a);
    admin.tenant("acme");
    let (good, good_key) = admin.key("acme", "good");
    let (bad, bad_key) = admin.key("acme", "bad");
    wait_lets_in(&all, &bad_key, true);
    let records = stage.key("records");
    let eval = |script: &str, args: &[&str]| stage.redis.eval(script, &[&records], args);
    let field = |id: &str| format!("key:{id}");
    // What it was before it was revoked, for later.
    let copy = "return redis.call('HSET', KEYS[1] .. ':copy', ARGV[1], redis.call('HGET', KEYS[1], ARGV[1]))";
    eval(copy, &[&field(&bad)]);
    revoke(&mut admin, &bad);
    wait_lets_in(&all, &bad_key, false);

    let replay = "return redis.call('HSET', KEYS[1], ARGV[1], redis.call('HGET', KEYS[1] .. ':copy', ARGV[1]))";
    let move_to =
        "return redis.call('HSET', KEYS[1], ARGV[2], redis.call('HGET', KEYS[1], ARGV[1]))";
    let rewrite = "local r = redis.call('HGET', KEYS[1], ARGV[1]) \
                   return redis.call('HSET', KEYS[1], ARGV[1], string.sub(r, 1, 9) .. '!' .. string.sub(r, 11))";
    let remove = "return redis.call('HDEL', KEYS[1], ARGV[1])";
    for (case, script, args, reason) in [
        ("replayed", replay, vec![field(&bad)], "old"),
        ("copied", move_to, vec![field(&good), field(&bad)], "name"),
        ("rewritten", rewrite, vec![field(&good)], "mac"),
        ("removed", remove, vec![field(&good)], "missing"),
        ("no manifest", remove, vec!["manifest".to_owned()], "old"),
    ] {
        let before = all.map(|server| refused(server, reason));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        eval(script, &args);
        for (server, before) in all.into_iter().zip(before) {
            wait_until(&format!("{case}: it is refused"), || {
                refused(server, reason) > before
            });
            check(case, &lets_in(server, &bad_key), &false);
            check(case, &lets_in(server, &good_key), &true);
        }
        // A process that knows what was written puts it back, and administration goes on.
        for server in all {
            wait_until(&format!("{case}: the store works again"), || {
                server.metric("nearhead_tenant_store_failing") == 0.0
            });
        }
        let (_, key) = admin.key("acme", case);
        wait_lets_in(&all, &key, true);
    }
    // Another type in place of the records, of their changes or of the audit; an entry of the audit
    // that is ahead of all others, and one among the records.
    let audit = stage.key("audit-changes");
    let changes = stage.key("changes");
    let set = "redis.call('DEL', KEYS[1]) return redis.call('SADD', KEYS[1], 'x')";
    let ahead = "return redis.call('XADD', KEYS[1], '9007199254740991-0', 'e', 'x')";
    let at_end = "local n = '18446744073709551615' \
                  return redis.call('XADD', KEYS[1], n .. '-' .. n, 'e', 'x')";
    let long = "return redis.call('HSET', KEYS[1], 'manifest', string.rep('x', 70000))";
    let pushing = "return redis.call('ZADD', KEYS[1], 'inf', 'x')";
    let into_records = "local e = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1] \
                        local name = 'audit:' .. string.match(e[1], '%d+') \
                        return redis.call('HSET', KEYS[1], name, e[2][2])";
    for (case, script, keys, spoils) in [
        ("records", set, vec![&records], true),
        ("changes", set, vec![&changes], false),
        ("audit", set, vec![&audit], false),
        ("audit ahead", ahead, vec![&audit], false),
        ("audit at its end", at_end, vec![&audit], false),
        ("long manifest", long, vec![&records], true),
        ("changes ahead", pushing, vec![&changes], false),
        (
            "an entry as a record",
            into_records,
            vec![&records, &audit],
            true,
        ),
    ] {
        let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        let before = all.map(refused_in_all);
        stage.redis.eval(script, &keys, &[]);
        for (server, before) in all.into_iter().zip(before) {
            wait_until(&format!("{case}: it is noticed"), || {
                !spoils || refused_in_all(server) > before
            });
            wait_until(&format!("{case}: the store works again"), || {
                server.metric("nearhead_tenant_store_failing") == 0.0
            });
            check(case, &lets_in(server, &good_key), &true);
        }
        let (id, key) = admin.key("acme", case);
        wait_lets_in(&all, &key, true);
        let entries = admin.get("/audit?limit=1");
        check(case, &entries["entries"][0]["key"], &json!(id));
    }
    let ahead = [b"ZCOUNT", changes.as_bytes(), b"inf", b"inf"];
    check("changes ahead", &stage.redis.call(&ahead).as_str(), &":0");
}

/// A process that has missed a revocation never writes what it knows over it.
#[test]
fn a_process_that_is_behind_puts_nothing_back() {
    let (mut stage, a, b) = two_processes("fleet-behind", 61);
    let all = [&a, &b];
    let mut admin = Admin::first(&a);
    admin.tenant("acme");
    let (_, good_key) = admin.key("acme", "good");
    let records = stage.key("records");
    let old = stage.key("old");
    let copy = "return redis.call('COPY', KEYS[1], KEYS[2], 'REPLACE')";
    let cut = "local r = redis.call('HGET', KEYS[1], ARGV[1]) \
               return redis.call('HSET', KEYS[1], ARGV[1], string.sub(r, 2))";
    let manifest = "return redis.sha1hex(redis.call('HGET', KEYS[1], 'manifest'))";
    for (at, (case, reason)) in [("all is put back", "old"), ("one is cut", "mac")]
        .into_iter()
        .enumerate()
    {
        let (id, key) = admin.key("acme", case);
        wait_lets_in(&all, &key, true);
        stage.redis.eval(copy, &[&records, &old], &[]);
        // One process does not run while a key is revoked, and the other one does not afterwards.
        let before = refused(&b, reason);
        b.process.freeze();
        revoke(&mut admin, &id);
        let (.., entry) = stage.newest_entry();
        stage.go_to(131 + at as u64);
        wait_until("an entry states the revision", || {
            stage.newest_entry().2 != entry
        });
        a.process.freeze();
        match reason {
            "old" => stage.redis.eval(copy, &[&old, &records], &[]),
            _ => stage.redis.eval(cut, &[&records], &[&format!("key:{id}")]),
        };
        let written = stage.redis.eval(manifest, &[&records], &[]);
        b.process.thaw();
        // It looks four times a second, and would put back what it knows after two.
        wait_until(&format!("{case}: it is refused"), || {
            refused(&b, reason) >= before + 12.0
        });
        let found = stage.redis.eval(manifest, &[&records], &[]);
        check(case, &found, &written);
        a.process.thaw();
        for server in all {
            wait_until(&format!("{case}: it is revoked"), || !lets_in(server, &key));
            wait_until(&format!("{case}: the store works again"), || {
                server.metric("nearhead_tenant_store_failing") == 0.0
            });
            check(case, &lets_in(server, &good_key), &true);
        }
    }

    // The store loses a revocation, and a process that does not know it makes changes: it stays
    // revoked. What was made in a revision that both have used is gone.
    let mut at_b = also_at(&b, &a, &admin);
    for written in [1, 2] {
        let (id, revoked) = admin.key("acme", &format!("revoked before {written}"));
        wait_lets_in(&all, &revoked, true);
        stage.redis.eval(copy, &[&records, &old], &[]);
        b.process.freeze();
        revoke(&mut admin, &id);
        a.process.freeze();
        stage.redis.eval(copy, &[&old, &records], &[]);
        b.process.thaw();
        let make = |at| at_b.key("acme", &format!("{at} of {written}")).1;
        let made: Vec<String> = (1..=written).map(make).collect();
        a.process.thaw();
        for server in all {
            wait_until("it is revoked", || !lets_in(server, &revoked));
            wait_until("it is gone", || !lets_in(server, &made[0]));
            wait_until("it is kept", || {
                made[1..].iter().all(|key| lets_in(server, key))
            });
            wait_until("the store works again", || {
                server.metric("nearhead_tenant_store_failing") == 0.0
            });
        }
    }

    // Those that know what the store has lost have ended: an operator decides.
    stage.redis.eval(copy, &[&records, &old], &[]);
    let before = refused(&b, "old");
    b.process.freeze();
    let (id, key) = admin.key("acme", "lost");
    revoke(&mut admin, &id);
    let (.., entry) = stage.newest_entry();
    stage.go_to(133);
    wait_until("an entry states the revision", || {
        stage.newest_entry().2 != entry
    });
    drop(a);
    stage.redis.eval(copy, &[&old, &records], &[]);
    b.process.thaw();
    wait_until("it is refused", || refused(&b, "old") > before);
    drop(b);
    let entries = stage.key("entries");
    stage.redis.call(&[b"DEL", entries.as_bytes()]);
    let started = stage.join(Some(stage.geth.address()));
    check("as the store has it", &lets_in(&started, &good_key), &true);
    check("lost", &lets_in(&started, &key), &false);
}

#[test]
fn keys_hold_while_the_store_is_away_and_are_put_back() {
    let (mut stage, a, b) = two_processes("fleet-keys-kept", 59);
    let all = [&a, &b];
    let mut admin = Admin::first(&a);
    admin.tenant("acme");
    let (_, kept) = admin.key("acme", "kept");
    let (revoked_id, revoked) = admin.key("acme", "revoked");
    revoke(&mut admin, &revoked_id);
    wait_lets_in(&all, &kept, true);
    wait_lets_in(&all, &revoked, false);
    for with_data in [true, false] {
        stage.redis.kill();
        for server in all {
            wait_until("it is said", || {
                server.metric("nearhead_tenant_store_failing") == 1.0
            });
            let ready = server.get_admin("/ready");
            assert!(ready.text().contains("\"store\":"), "{}", ready.text());
            check("kept", &lets_in(server, &kept), &true);
            check("revoked", &lets_in(server, &revoked), &false);
        }
        // To change something is refused, soon.
        let since = Instant::now();
        let body = json!({"tenant": "acme", "name": "refused"});
        admin.refused("POST", "/keys", &body, 503, "store_failed");
        let took = since.elapsed();
        assert!(took < Duration::from_secs(5), "refused after {took:?}");
        stage.redis.restart(with_data);
        for server in all {
            wait_until("the store works", || {
                server.metric("nearhead_tenant_store_failing") == 0.0
            });
        }
        let (_, key) = admin.key("acme", &format!("with data: {with_data}"));
        wait_lets_in(&all, &key, true);
    }
    // What was put back is what a process reads that starts.
    let late = stage.join(None);
    check("kept", &lets_in(&late, &kept), &true);
    check("revoked", &lets_in(&late, &revoked), &false);
}

/// What a command changes in the folder of a process of a fleet, nobody would read.
#[test]
fn commands_refuse_the_folder_of_a_process_of_a_fleet() {
    let (stage, _a, _b) = two_processes("fleet-folder", 67);
    let folder = scratch("fleet-folder-data");
    let root = folder.to_str().unwrap().to_owned();
    let options = ["--fleet", &stage.redis.url(), "--data-dir", &root];
    let process = stage.join_by(None, &options).process;
    process.terminate();
    process.check_end(0);
    let arguments = ["tenant", "create", "acme", "--data-dir", &root];
    let output = run_with_input(&mut nearhead(arguments), b"");
    check("exit code", &output.status.code(), &Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the fleet's store"), "{said}");
}
