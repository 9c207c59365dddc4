//! What keys used, over all processes of a fleet: each one shows all of it, whatever happens to the
//! processes and to the store, and what others write there counts nothing.

use nearhead_fleet::{scripts::PUT_USAGE, usage::UsagePeriod};
use serde_json::{Value, json};

use super::{
    redis::Redis,
    tenants::{also_at, refused, two_processes, wait_lets_in},
};
use crate::{
    admin_api::client::Admin,
    harness::{Connection, Server, check, wait_until},
};

/// Sends so many requests of a method that nothing else asks for.
fn send(server: &Server, key: &str, count: u32) {
    let mut connection = Connection::open(server.address, &format!("/v3/{key}"));
    for id in 0..count {
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": "eth_blockNumber", "params": []});
        check("status", &connection.post(request.to_string()).status, &200);
    }
}

/// Requests of that method with a key, as a process shows them for a span of time.
fn requests(admin: &mut Admin, id: &str, last: &str) -> u64 {
    let path = format!("/usage?key={id}&last={last}&by=method");
    let (response, usage) = admin.send("GET", &path, &Value::Null);
    if response.status == 503 {
        // The store is away.
        return 0;
    }
    check(&path, &response.status, &200);
    let rows = usage["rows"].as_array().unwrap();
    let of_method = rows.iter().filter(|row| row["method"] == "eth_blockNumber");
    let requests = of_method.map(|row| row["requests"].as_u64().unwrap());
    requests.sum()
}

/// Waits until each of them shows so many, by minute, hour and day.
#[track_caller]
fn wait_shown(admins: &mut [&mut Admin], id: &str, expected: u64) {
    for admin in admins {
        for last in ["15m", "1d", "30d"] {
            let mut found = 0;
            wait_until(&format!("{expected} requests are shown ({last})"), || {
                found = requests(admin, id, last);
                found >= expected
            });
            check(last, &found, &expected);
        }
    }
}

#[test]
fn every_process_shows_the_usage_of_all() {
    let (mut stage, a, b) = two_processes("fleet-usage", 61);
    let mut at_a = Admin::first(&a);
    let mut at_b = also_at(&b, &a, &at_a);
    at_a.tenant("acme");
    let (id, key) = at_a.key("acme", "wallet");
    wait_lets_in(&[&a, &b], &key, true);
    send(&a, &key, 5);
    send(&b, &key, 7);
    wait_shown(&mut [&mut at_a, &mut at_b], &id, 12);
    // A process that joins shows it as well, and when the key was last used.
    let c = stage.join(None);
    let mut at_c = also_at(&c, &a, &at_a);
    wait_shown(&mut [&mut at_c], &id, 12);
    let shown = at_c.get(&format!("/keys/{id}"));
    assert!(shown["lastUsed"].is_u64(), "{shown}");
    check("last 24 h", &shown["last24h"]["errors"], &json!(0));

    // What somebody without the fleet's key writes counts nothing, and is counted.
    let index = stage.key("usage-hours");
    let parts = stage.key("usage");
    let copy = "for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do \
                  redis.call('HSET', KEYS[1], name .. '0', redis.call('HGET', KEYS[1], name)) \
                  redis.call('ZADD', KEYS[2], redis.call('ZSCORE', KEYS[2], name), name .. '0') \
                end \
                redis.call('HSET', KEYS[1], 'h:1:forged:0', string.rep('x', 100)) \
                return redis.call('ZADD', KEYS[2], ARGV[1], 'h:1:forged:0')";
    let hour = UsagePeriod::Hour.start(now()).to_string();
    let before = [refused(&b, "mac"), refused(&b, "name")];
    stage.redis.eval(copy, &[&parts, &index], &[&hour]);
    wait_shown(&mut [&mut at_a, &mut at_b, &mut at_c], &id, 12);
    assert!(refused(&b, "mac") > before[0] && refused(&b, "name") > before[1]);

    // What was used while the store was away is added when it is back.
    stage.redis.kill();
    wait_until("it is said", || {
        a.metric("nearhead_tenant_store_failing") == 1.0
    });
    send(&a, &key, 3);
    stage.redis.restart(true);
    wait_shown(&mut [&mut at_a, &mut at_b], &id, 15);
    // A process that ends leaves its sums.
    send(&c, &key, 4);
    wait_shown(&mut [&mut at_c], &id, 19);
    c.process.terminate();
    c.process.check_end(0);
    wait_shown(&mut [&mut at_a, &mut at_b], &id, 19);
    // Another type in place of the sums costs what is written already, and nothing else.
    for name in [&parts, &index] {
        stage.redis.call(&[b"DEL", name.as_bytes()]);
        stage.redis.call(&[b"SADD", name.as_bytes(), b"x"]);
    }
    send(&a, &key, 1);
    wait_until("the process goes on", || {
        requests(&mut at_a, &id, "15m") > 0
    });
    wait_until("the store works again", || {
        a.metric("nearhead_tenant_store_failing") == 0.0
    });
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap().as_millis()).unwrap()
}

/// Bytes in the store have a bound: the oldest minutes go first, then hours, then days.
#[test]
fn usage_in_the_store_is_bounded() {
    let redis = Redis::start_with("fleet-usage-bound", &[]);
    let keys = ["{u}:usage", "{u}:m", "{u}:h", "{u}:d", "{u}:l"];
    let number = |number: u64| number.to_string();
    let now = now();
    // Most bytes, time, most to remove, besides, and the periods.
    let put = |parts: &[(usize, u64, &str, &str)]| {
        let mut arguments = vec![number(10_000), number(now), number(1_024), number(300)];
        for period in UsagePeriod::ALL {
            arguments.extend([number(period.millis()), number(period.kept_millis())]);
        }
        for (kind, start, name, bytes) in parts {
            let part = [number(*kind as u64), number(*start)];
            arguments.extend(part.into_iter().chain([*name, *bytes].map(str::to_owned)));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        redis.eval(PUT_USAGE, &keys, &arguments)
    };
    let count = |at: usize| -> usize {
        let answer = redis.call(&[b"ZCARD", keys[at].as_bytes()]);
        answer.trim_start_matches(':').parse().unwrap()
    };
    let bytes = || -> u64 {
        let answer = redis.call(&[b"HGET", keys[0].as_bytes(), b"bytes"]);
        answer.parse().unwrap()
    };
    let part = "p".repeat(700);
    for minute in 0..30 {
        let start = now - minute * 60_000;
        put(&[(1, start, &format!("m{minute}"), &part)]);
        // The same one again takes no more.
        put(&[(1, start, &format!("m{minute}"), &part)]);
        assert!(bytes() <= 10_000, "{}", bytes());
    }
    assert!((1..=10).contains(&count(1)), "{}", count(1));
    for at in 0..30 {
        put(&[
            (2, now, &format!("h{at}"), &part),
            (3, now, &format!("d{at}"), &part),
        ]);
        assert!(bytes() <= 10_000, "{}", bytes());
    }
    assert_eq!(count(1), 0, "minutes went first");
    assert!(
        count(2) < count(3) && count(3) <= 10,
        "{} and {}",
        count(2),
        count(3)
    );
    // What is no longer kept goes, at most so many at once.
    redis.call(&[b"FLUSHALL"]);
    let old = |at: u64| put(&[(1, now - 3 * 86_400_000, &format!("old{at}"), "p")]);
    (0..3).for_each(|at| drop(old(at)));
    put(&[]);
    assert_eq!((count(1), bytes()), (0, 0));
}
