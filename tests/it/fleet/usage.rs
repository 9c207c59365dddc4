//! What keys used, over all processes of a fleet: each one shows all of it, whatever happens to the
//! processes and to the store, and what others write there counts nothing.

use nearhead_fleet::{bounds::USAGE_AHEAD_MAX, scripts::PUT_USAGE, usage::UsagePeriod};
use nearhead_tenants::{
    UnixMillis,
    id::KeyId,
    usage::{UsageCell, Used},
};
use serde_json::{Value, json};

use super::{
    redis::Redis,
    tenant_store::FleetStores,
    tenants::{also_at, refused, two_processes, wait_lets_in},
};
use crate::{
    admin_api::client::Admin,
    harness::{Connection, Server, check, wait_until},
};

const DAY: u64 = 86_400_000;

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
    let index = stage.key("usage-hours-index");
    let parts = stage.key("usage-hours");
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

/// A store whose usage is bounded to few bytes, and the keys that the scripts get.
struct Bounded {
    redis: Redis,
    now: u64,
}

const BYTES: &str = "{u}:bytes";
const PARTS: [&str; 4] = ["{u}:m", "{u}:h", "{u}:d", "{u}:l"];
const INDEXES: [&str; 4] = ["{u}:mi", "{u}:hi", "{u}:di", "{u}:li"];

/// Most bytes of each kind.
const MOST: u64 = 10_000;

/// Bytes for each part besides its own.
const BESIDES: u64 = 300;

/// A part takes a tenth of the room.
fn part() -> String {
    "p".repeat(700)
}

impl Bounded {
    fn start(name: &str) -> Self {
        Self {
            redis: Redis::start_with(name, &[]),
            now: now(),
        }
    }

    /// Writes parts, which have a kind, a start, a name and bytes. Returns whether there is more to
    /// remove, and how many parts of each kind had no room.
    fn put(&self, parts: &[(usize, u64, &str, &str)]) -> Vec<i64> {
        let number = |number: u64| number.to_string();
        let ahead = u64::try_from(USAGE_AHEAD_MAX.as_millis()).unwrap();
        let mut arguments = [self.now, 1_024, BESIDES, ahead].map(number).to_vec();
        for period in UsagePeriod::ALL {
            arguments.extend([period.millis(), period.kept_millis(), MOST].map(number));
        }
        for (kind, start, name, bytes) in parts {
            let part = [number(*kind as u64 + 1), number(*start)];
            arguments.extend(part.into_iter().chain([*name, *bytes].map(str::to_owned)));
        }
        let keys = PARTS
            .iter()
            .zip(INDEXES)
            .flat_map(|(parts, index)| [*parts, index]);
        let keys: Vec<&str> = [BYTES].into_iter().chain(keys).collect();
        let mut words = vec!["EVAL".to_owned(), PUT_USAGE.to_owned(), number(9)];
        words.extend(keys.into_iter().map(str::to_owned));
        words.extend(arguments);
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        self.redis.numbers(&words)
    }

    /// Writes this many parts of a kind, one in each call. Minutes are of the last minutes.
    fn put_many(&self, kind: usize, count: u64) {
        for at in 0..count {
            let start = self.now - (count - at) * 60_000;
            self.put(&[(kind, start, &format!("{kind}:{at:03}"), &part())]);
            assert!(self.bytes(kind) <= MOST, "{}", self.bytes(kind));
        }
    }

    fn number(&self, words: &[&str]) -> u64 {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let answer = self.redis.call(&words);
        answer.trim_start_matches(':').parse().unwrap()
    }

    /// How many parts of a kind there are, and how many the index has.
    fn counts(&self, kind: usize) -> (u64, u64) {
        let parts = self.number(&["HLEN", PARTS[kind]]);
        (parts, self.number(&["ZCARD", INDEXES[kind]]))
    }

    fn bytes(&self, kind: usize) -> u64 {
        self.number(&["HGET", BYTES, &(kind + 1).to_string()])
    }

    fn has(&self, kind: usize, name: &str) -> bool {
        self.number(&["HEXISTS", PARTS[kind], name]) == 1
    }

    /// Checks that parts, index and bytes agree.
    #[track_caller]
    fn check_agrees(&self, kind: usize, expected: u64) {
        assert_eq!(self.counts(kind), (expected, expected));
        assert_eq!(self.bytes(kind), expected * (700 + BESIDES));
    }
}

/// Bytes in the store have a bound for each kind, and no kind removes another one.
#[test]
fn usage_in_the_store_is_bounded() {
    let store = Bounded::start("fleet-usage-bound");
    for (kind, fewer) in [(3, 5), (2, 5), (1, 12), (0, 40)] {
        store.put_many(kind, fewer);
    }
    for kind in [2, 3] {
        store.check_agrees(kind, 5);
    }
    for kind in [0, 1] {
        store.check_agrees(kind, 10);
    }
    assert!(store.has(0, "0:039") && store.has(0, "0:030") && !store.has(0, "0:029"));
    // The same one again takes no more.
    assert_eq!(store.put(&[(0, store.now, "0:039", &part())]), [0; 5]);
    store.check_agrees(0, 10);
    // What was just written stays, although it is older than all others, and what goes is counted.
    let oldest = store.now - 50 * 60_000;
    let removed = store.put(&[(0, oldest, "0:late", &part())]);
    assert_eq!(removed, [0, 2, 0, 0, 0]);
    assert!(store.has(0, "0:late") && !store.has(0, "0:031"));
    store.check_agrees(0, 9);

    // What is no longer kept goes, and so does what no clock can have written.
    store.redis.call(&[b"FLUSHALL"]);
    for start in [store.now - 3 * DAY, store.now + 3 * DAY, store.now] {
        store.put(&[(0, start, &start.to_string(), &part())]);
    }
    store.put(&[]);
    store.check_agrees(0, 1);
}

/// Whatever a foreign writer makes of the bytes and the indexes: the next calls mend it, and parts
/// do not go for it that were written by the fleet.
#[test]
fn bytes_and_indexes_of_usage_mend_themselves() {
    let store = Bounded::start("fleet-usage-mends");
    let more = |name: &str| store.put(&[(0, store.now, name, &part())]);
    for forged in ["9007199254740991", "9999", "0", "-7", "x"] {
        store.redis.call(&[b"FLUSHALL"]);
        store.put_many(0, 5);
        store
            .redis
            .call(&[b"HSET", BYTES.as_bytes(), b"1", forged.as_bytes()]);
        assert_eq!(more("more"), [0; 5], "{forged}");
        store.check_agrees(0, 6);
    }
    // Parts without an index take no room for ever, and neither do names without parts.
    for lost in [INDEXES[0], PARTS[0], BYTES] {
        store.redis.call(&[b"FLUSHALL"]);
        store.put_many(0, 5);
        store.redis.call(&[b"DEL", lost.as_bytes()]);
        more("more");
        store.check_agrees(0, if lost == BYTES { 6 } else { 1 });
    }
    // A few names of others go, and leave the parts.
    store.redis.call(&[b"FLUSHALL"]);
    store.put_many(0, 5);
    for at in 0..50 {
        let (score, name) = (format!("{}", store.now + at), format!("junk{at}"));
        let words = [
            b"ZADD",
            INDEXES[0].as_bytes(),
            score.as_bytes(),
            name.as_bytes(),
        ];
        store.redis.call(&words);
    }
    more("more");
    store.check_agrees(0, 6);
    // Very many cost all of that kind, at once.
    store.put_many(1, 3);
    let fill = "for at = 1, 20000 do redis.call('ZADD', KEYS[1], '1e18', at) end return 1";
    store.redis.eval(fill, &[INDEXES[0]], &[]);
    more("more");
    store.check_agrees(0, 1);
    store.check_agrees(1, 3);
    // So do keys of another type.
    for key in [INDEXES[0], PARTS[0], BYTES] {
        store.redis.call(&[b"DEL", key.as_bytes()]);
        store.redis.call(&[b"SADD", key.as_bytes(), b"x"]);
        more("more");
        store.check_agrees(0, 1);
    }
}

/// A read ends although a foreign writer has put very many names into the index, and removes those
/// that it meets.
#[test]
fn a_read_of_usage_ends() {
    let redis = Redis::start_with("fleet-usage-read", &[]);
    let stores = FleetStores::new(&redis, "read".to_owned());
    let mut store = stores.open();
    let at = UnixMillis(now());
    let cell = UsageCell {
        minute: at,
        key: KeyId::of_configured("key"),
        owner: None,
        method: "eth_call".into(),
        outcome: "ok".into(),
        last: at,
        used: Used::default(),
    };
    store.add_usage(&[cell]).unwrap();
    let index = "{read}:usage-last-index";
    let fill = "for at = 1, ARGV[2] do redis.call('ZADD', KEYS[1], ARGV[1], 'junk' .. at) end \
                return 1";
    let names = || redis.call(&[b"ZCARD", index.as_bytes()]);
    let mut reader = stores.open();
    // Later than any clock: they are not met.
    redis.eval(fill, &[index], &["1e18", "200000"]);
    assert_eq!(reader.load().unwrap().last_used.len(), 1);
    assert_eq!(names(), ":200001");
    // All at one time, before the part: they are removed.
    redis.eval(fill, &[index], &["1.5", "200000"]);
    assert_eq!(reader.load().unwrap().last_used.len(), 1);
    assert_eq!(names(), ":1");
    // More parts of one time than a page has, before that of the fleet.
    let fill = "for at = 1, ARGV[2] do redis.call('ZADD', KEYS[1], ARGV[1], at) \
                redis.call('HSET', KEYS[2], at, 'x') end return 1";
    redis.eval(fill, &[index, "{read}:usage-last"], &["1.5", "5000"]);
    assert_eq!(reader.load().unwrap().last_used.len(), 1);
    assert_eq!(names(), ":5001");
}
