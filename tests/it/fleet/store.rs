//! The store is killed and restarted, with its data and without; others write into it.

use std::time::Instant;

use alloy_primitives::hex;

use super::stage::{Stage, leads, role, wait_heads};
use crate::{
    harness::{Server, wait_until},
    node::comparison::{Comparison, GETH},
};

fn refused(server: &Server, reason: &str) -> f64 {
    server.metric(&format!(
        "nearhead_fleet_entries_refused_total{{reason=\"{reason}\"}}"
    ))
}

/// Without the store, all serve what they have; when it is back, they go on.
#[test]
fn a_store_that_comes_back_is_used_with_its_data_and_without() {
    let mut stage = Stage::new("fleet-store", 41, [150, 4]);
    let first = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    let replica = stage.join(None);
    wait_heads(&[&leader, &replica], first);
    // One that says when its head is old.
    let url = stage.redis.url();
    let aged = stage.join_by(None, &["--fleet", &url, "--head-age-max", "4s"]);
    let is_ready = |server: &Server| server.get("/ready").status == 200;
    let mut number = first.0;
    for with_data in [true, false, false] {
        number += 1;
        let head = stage.go_to(number);
        wait_heads(&[&leader, &replica, &aged], head);
        wait_until("a fresh head", || is_ready(&aged));
        stage.redis.kill();
        let failures = "nearhead_fleet_store_failures_total";
        let before = replica.metric(failures);
        wait_until("the replica notices", || replica.metric(failures) > before);
        wait_heads(&[&replica], stage.head());
        number += 1;
        let head = stage.go_to(number);
        // It has no new head, says so, and serves what it has.
        wait_until("stale", || {
            let ready = aged.get_admin("/ready");
            ready.status == 503 && ready.text().contains("\"the head is stale\"")
        });
        assert!(is_ready(&replica), "a head may have any age");
        wait_heads(&[&replica, &aged], stage.block(number - 1));
        stage.redis.restart(with_data);
        wait_heads(&[&leader, &replica, &aged], head);
        wait_until("a fresh head", || is_ready(&aged));
        number += 1;
        let head = stage.go_to(number);
        wait_heads(&[&leader, &replica], head);
        wait_until("it leads again", || leads(&leader));
    }
    // It has no memory left, and answers at once: the leader asks it no faster for that.
    stage.redis.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    let begun = Instant::now();
    number += 1;
    let head = stage.go_to(number);
    let failures = "nearhead_fleet_store_failures_total";
    let before = leader.metric(failures);
    wait_until("it is sent again", || {
        leader.metric(failures) > before + 4.0
    });
    let refused = stage.redis.call(&[b"INFO", b"errorstats"]);
    let elapsed = begun.elapsed().as_millis();
    let (_, refused) = refused.split_once("errorstat_OOM:count=").unwrap();
    let refused: u128 = refused.split(['\r', ',']).next().unwrap().parse().unwrap();
    // A call is two errors: one of the script's command, and one of the script.
    assert!(refused <= 4 + elapsed / 25, "{refused} in {elapsed} ms");
    stage.redis.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    wait_heads(&[&leader, &replica], head);
    let mut comparison = Comparison::between(&replica, stage.geth.address());
    comparison.blocks(number - 20..=number);
    comparison.finish(GETH);
}

/// What others write is refused and counted, whatever it is, and the service goes on.
#[test]
fn false_entries_are_refused_and_the_service_goes_on() {
    let mut stage = Stage::new("fleet-false", 43, [170, 4]);
    let first = stage.go_to(130);
    let leader = stage.join(Some(stage.geth.address()));
    let replicas = [stage.join(None), stage.join(None)];
    let all = [&leader, &replicas[0], &replicas[1]];
    wait_heads(&all, first);
    let refused_by_all = |reason| replicas.each_ref().map(|one| refused(one, reason));
    let wait_refused = |reason, before: [f64; 2]| {
        wait_until(&format!("each replica refuses it: {reason}"), || {
            refused_by_all(reason)
                .iter()
                .zip(before)
                .all(|(now, before)| *now > before)
        });
    };
    let entries = stage.key("entries");
    let add = |id: &str, bytes: &[u8]| {
        let added = stage
            .redis
            .call(&[b"XADD", entries.as_bytes(), id.as_bytes(), b"e", bytes]);
        assert_eq!(added, id);
    };
    let invented = hex!("01c0ffee").repeat(100);
    // Invented: in the place of the next one, which the leader then cannot append.
    let (epoch, sequence, _) = stage.newest_entry();
    add(&format!("{epoch}-{}", sequence + 1), &invented);
    wait_refused("mac", [0.0; 2]);
    let head = stage.geth.go_to(&stage.chain.trunk[130]);
    wait_heads(&all, head);
    // Replayed and reordered: a true entry in a later place, and in an epoch to come.
    let copy = |from: &str, to: &str| {
        let script = "local e = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) \
                      return redis.call('XADD', KEYS[1], ARGV[2], 'e', e[1][2][2])";
        assert_eq!(stage.redis.eval(script, &[&entries], &[from, to]), to);
    };
    let (epoch, sequence, id) = stage.newest_entry();
    copy(&id, &format!("{epoch}-{}", sequence + 2));
    wait_refused("misplaced", [0.0; 2]);
    let head = stage.geth.go_to(&stage.chain.trunk[131]);
    wait_heads(&all, head);
    let (epoch, _, id) = stage.newest_entry();
    let before = refused_by_all("misplaced");
    copy(&id, &format!("{}-0", epoch + 1));
    wait_refused("misplaced", before);
    let head = stage.geth.go_to(&stage.chain.trunk[132]);
    wait_heads(&all, head);
    // Before replicas read them, two entries change places, and the next one has another byte.
    let before = ["misplaced", "mac"].map(refused_by_all);
    replicas.iter().for_each(|one| one.process.freeze());
    // A read that waits in the store would be answered with the true entry.
    wait_until("nobody waits for an entry", || {
        !stage
            .redis
            .call(&[b"CLIENT", b"LIST"])
            .contains("cmd=xread")
            || stage
                .redis
                .call(&[b"INFO", b"clients"])
                .contains("blocked_clients:0")
    });
    let (epoch, sequence, _) = stage.newest_entry();
    for at in 1..=3 {
        stage.geth.go_to(&stage.chain.trunk[132 + at]);
        let next = (epoch, sequence + at as u64);
        wait_until("an entry", || {
            let (epoch, sequence, _) = stage.newest_entry();
            (epoch, sequence) == next
        });
    }
    let swap = "local all = redis.call('XRANGE', KEYS[1], '-', '+') \
                local n = #all \
                local bytes = {} \
                for i, e in ipairs(all) do bytes[i] = e[2][2] end \
                bytes[n - 2], bytes[n - 1] = bytes[n - 1], bytes[n - 2] \
                bytes[n] = string.sub(bytes[n], 1, 99) .. '!' .. string.sub(bytes[n], 101) \
                redis.call('DEL', KEYS[1]) \
                for i, e in ipairs(all) do redis.call('XADD', KEYS[1], e[1], 'e', bytes[i]) end \
                return 'swapped'";
    let swapped = stage.redis.eval(swap, &[&entries], &[]);
    assert_eq!(swapped, "swapped");
    replicas.iter().for_each(|one| one.process.thaw());
    wait_refused("misplaced", before[0]);
    wait_refused("mac", before[1]);
    wait_heads(&[&replicas[0], &replicas[1]], head);
    // The true ones are lost: a snapshot comes after some changes.
    for payload in &stage.chain.trunk[136..146] {
        let head = stage.geth.go_to(payload);
        wait_heads(&[&leader], head);
    }
    wait_heads(&all, stage.head());
    // Rewritten: all entries but the newest are gone, and that one has another byte. A process that
    // starts has to wait for a snapshot, which comes after some changes.
    let rewrite = "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1) \
                    local id, bytes = e[1][1], e[1][2][2] \
                    redis.call('DEL', KEYS[1]) \
                    bytes = string.sub(bytes, 1, 99) .. '!' .. string.sub(bytes, 101) \
                    return redis.call('XADD', KEYS[1], id, 'e', bytes)";
    stage.redis.eval(rewrite, &[&entries], &[]);
    let late = stage.start(None);
    late.output
        .wait_for("a refusal", |log| log.contains("is refused").then_some(()));
    // One with a node waits for ten seconds, and follows its node until there is a snapshot.
    let alone = stage.join(Some(stage.geth.address()));
    assert!(role(&alone, "own_nodes"));
    wait_heads(&[&alone], stage.head());
    for payload in &stage.chain.trunk[146..155] {
        let head = stage.geth.go_to(payload);
        wait_heads(&all, head);
    }
    let late = Server::greeting(late);
    wait_heads(&[&late, &alone], stage.head());
    wait_until("it follows the leader", || role(&alone, "replica"));
    assert!(refused(&late, "mac") >= 1.0);
    // Another type in place of each key.
    for key in ["entries", "fence", "lease"] {
        let key = stage.key(key);
        stage.redis.call(&[b"DEL", key.as_bytes()]);
        stage.redis.call(&[b"SADD", key.as_bytes(), b"x"]);
    }
    let head = stage.geth.go_to(&stage.chain.trunk[155]);
    wait_heads(&[&leader, &replicas[0], &replicas[1], &late], head);
    for replica in &replicas {
        let mut comparison = Comparison::between(replica, stage.geth.address());
        comparison.blocks(head.0 - 20..=head.0);
        comparison.finish(GETH);
    }
}
