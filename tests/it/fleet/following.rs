//! Replicas answer as geth does, after each change of the head.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, hex};
use hmac::{Hmac, Mac as _};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    stage::{SECRET, Stage, epoch, leads, wait_heads},
    subscriber::Subscriber,
};
use crate::{
    harness::{Server, check, installed, quantity, wait_until},
    node::comparison::{Comparison, GETH},
};

/// Answers of a replica about these blocks of its window are those of geth.
fn check_answers(replica: &Server, stage: &Stage, blocks: u64) {
    let (number, _) = stage.head();
    let mut comparison = Comparison::between(replica, stage.geth.address());
    comparison.blocks(number + 1 - blocks..=number);
    comparison.chain();
    comparison.finish(GETH);
}

/// Waits until a replica has the JSON of all logs, which no request has asked for: it answers
/// getLogs on the pool until then.
fn check_has_json(replica: &Server) {
    let taken = || {
        let of =
            |class| replica.metric(&format!("nearhead_queue_taken_total{{class=\"{class}\"}}"));
        ["light", "heavy"].map(of)
    };
    let no_match = json!([{"fromBlock": "0xd", "address": [Address::repeat_byte(0xff)]}]);
    wait_until("no request has to make JSON", || {
        let before = taken();
        let found = replica.connect().call("eth_getLogs", &no_match);
        check("no log", &found["result"], &json!([]));
        taken() == before
    });
}

#[test]
fn what_the_leader_has_is_readable_at_replicas() {
    let mut stage = Stage::new("fleet-following", 31, [140, 5]);
    let first = stage.go_to(135);
    let leader = stage.join(Some(stage.geth.address()));
    assert!(leads(&leader));
    let replica = stage.join(None);
    wait_heads(&[&leader, &replica], first);
    for number in 136..=140 {
        let head = stage.go_to(number);
        wait_heads(&[&leader, &replica], head);
    }
    check_has_json(&replica);
    check_answers(&replica, &stage, 8);

    // One starts while the chain goes back and forth between two branches.
    let is_ready = AtomicBool::new(false);
    let late = stage.start(None);
    let toggle = |stage: &mut Stage| {
        let branch = stage.go_to_branch();
        wait_heads(&[&leader], branch);
        let trunk = stage.go_to(140);
        wait_heads(&[&leader], trunk);
    };
    let (late, toggled) = thread::scope(|scope| {
        let toggling = scope.spawn(|| {
            let mut toggled = 0;
            while toggled == 0 || !is_ready.load(Ordering::Relaxed) {
                toggle(&mut stage);
                toggled += 1;
            }
            toggled
        });
        let late = Server::greeting(late);
        wait_until("ready", || late.get("/ready").status == 200);
        is_ready.store(true, Ordering::Relaxed);
        (late, toggling.join().unwrap())
    });
    println!("the chain went back and forth {toggled} times until a process was ready");
    // It reverts blocks that it has, and no other ones.
    wait_heads(&[&replica, &late], stage.head());
    let mut node = stage.geth.connect();
    let mut subscriber = Subscriber::open(late.address, stage.block(135));
    subscriber.resume(late.address, &mut node);
    subscriber.read_to(stage.head(), &mut node);
    for _ in 0..2 {
        let branch = stage.go_to_branch();
        subscriber.read_to(branch, &mut node);
        let trunk = stage.go_to(140);
        subscriber.read_to(trunk, &mut node);
    }
    let [blocks, logs] = subscriber.removed;
    check("blocks that were reverted", &blocks, &(2 * (6 + 5)));
    assert!(logs > 0, "no log was removed");
    subscriber.check(&mut node);
    let head = stage.go_to_branch();
    wait_heads(&[&leader, &replica, &late], head);
    check_answers(&late, &stage, 127);

    // It exports what the documentation lists.
    let page = fs::read_to_string(installed("docs/metrics.md")).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `nearhead_fleet_"));
    let names = rows.map(|row| format!("nearhead_fleet_{}", row.split('`').next().unwrap()));
    let metrics = replica.get_admin("/metrics");
    let mut count = 0;
    for name in names {
        let is_exported = metrics.text().lines().any(|line| line.starts_with(&name));
        assert!(is_exported, "{name} is not exported");
        count += 1;
    }
    assert!(count >= 12, "{count} are documented");

    wait_until("its role and epoch are facts", || {
        let facts = format!(
            r#""fleet":{{"role":"replica","epoch":{}}}"#,
            epoch(&replica)
        );
        replica.get_admin("/ready").text().contains(&facts)
    });
    // An entry of a version to come, which has the fleet's MAC.
    let (entries, unknown) = (
        stage.key("entries"),
        sealed(&stage, b"\x02what no program knows yet"),
    );
    wait_until("it is the newest one", || {
        let (epoch, sequence, _) = stage.newest_entry();
        let next = format!("{epoch}-{}", sequence + 1);
        let words = [b"XADD", entries.as_bytes(), next.as_bytes(), b"e", &unknown];
        stage.redis.call(&words) == next
    });
    let reason = "version 2 of entries";
    wait_until("not ready", || {
        let ready = replica.get_admin("/ready");
        ready.status == 503 && ready.text().contains(reason)
    });
    wait_heads(&[&replica], head);
    // The leader cannot append there, and begins an epoch that the replica knows.
    // The window has room for a block below it, which the leader does not wait for long.
    let begun = Instant::now();
    let head = stage.go_to(140);
    wait_heads(&[&leader, &replica, &late], head);
    wait_until("ready", || replica.get("/ready").status == 200);
    let elapsed = begun.elapsed();
    assert!(elapsed < Duration::from_secs(30), "{elapsed:?}");

    // The node goes back to an ancestor, and stays there.
    stage.geth.set_back(138);
    let back = stage.head();
    wait_heads(&[&leader, &replica, &late], back);
    check_answers(&replica, &stage, 8);
}

/// These bytes with the MAC of an entry of this fleet.
fn sealed(stage: &Stage, content: &[u8]) -> Vec<u8> {
    let genesis: B256 = {
        let params = json!(["0x0", false]);
        let block = stage.geth.connect().result("eth_getBlockByNumber", &params);
        block["hash"].as_str().unwrap().parse().unwrap()
    };
    let chain_id = stage.geth.connect().result("eth_chainId", &json!([]));
    let chain_id = quantity(&chain_id);
    let mac = |key: &[u8], text: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    };
    let secret = hex::decode(SECRET).unwrap();
    let name = format!(
        "nearhead fleet entries\0{chain_id} {genesis} {}",
        stage.name
    );
    let key = mac(&secret, name.as_bytes());
    let digest = Sha256::digest(content);
    [content, &mac(&key, &digest)].concat()
}
