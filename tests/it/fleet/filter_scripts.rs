//! The filters of clients in a real store: the scripts, whatever is in their keys, and the pipe
//! that sends many calls together.

use std::{sync::Arc, time::Instant};

use alloy_primitives::Bytes;
use nearhead_actors::fleet::store::{FilterStore, PipeCounts, StoreFault, StoreOptions};
use nearhead_fleet::{
    bounds::{CALL_TIME_MAX, FILTER_KEPT, FILTER_MOVE_TIME_MAX},
    filter::FilterName,
    scripts::{self, FilterMade},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use super::redis::Redis;
use crate::harness::{check, wait_until};

/// The sizes as which filters of these tests count.
const SIZES: [u64; 2] = [100, 1_000];

/// What the caps of these tests are.
const FILTERS_MAX: u64 = 5;
const BYTES_MAX: u64 = 2_600;
const TENANT_FILTERS_MAX: u64 = 3;
const TENANT_BYTES_MAX: u64 = 1_400;

const INDEXES: [&str; 2] = ["{f}:all:0", "{f}:all:1"];

/// Scripts with caps of a few filters.
struct Small {
    redis: Redis,
    kept_ms: u64,
}

impl Small {
    fn start(name: &str, kept_ms: u64) -> Self {
        let redis = Redis::start_with(name, &[]);
        Self { redis, kept_ms }
    }

    fn keys(tenant: &str, name: &str) -> Vec<String> {
        let of_tenant = [0, 1].map(|size| format!("{{f}}:{tenant}:{size}"));
        let own = [format!("{{f}}:filter:{name}")];
        let all = INDEXES.map(str::to_owned);
        own.into_iter().chain(all).chain(of_tenant).collect()
    }

    /// Runs a script whose answer is a list, of which this is one element.
    fn run(&self, script: &str, element: u8, keys: &[String], args: &[String]) -> String {
        let script = format!("local a = (function() {script} end)() return a[{element}]");
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.redis.eval(&script, &keys, &args)
    }

    /// Makes a filter whose criteria have so many bytes.
    fn make(&self, tenant: &str, name: &str, bytes: usize) -> String {
        let numbers = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>();
        let mut args = vec![name.to_owned(), "c".repeat(bytes), "place".to_owned()];
        args.extend(numbers(&[0, self.kept_ms, 32]));
        args.push("{f}:filter:".to_owned());
        args.extend(numbers(&[
            FILTERS_MAX,
            BYTES_MAX,
            TENANT_FILTERS_MAX,
            TENANT_BYTES_MAX,
        ]));
        args.extend(numbers(&SIZES));
        self.run(scripts::MAKE_FILTER, 1, &Self::keys(tenant, name), &args)
    }

    /// One element of what a read answers: place, or criteria. Questions are noted after so many
    /// milliseconds.
    fn read(&self, name: &str, element: u8, noted_after: u64) -> String {
        let numbers = [1, 90, 9, 0, self.kept_ms, noted_after, SIZES[0], SIZES[1]];
        let numbers = numbers.iter().map(u64::to_string);
        let args: Vec<String> = [name.to_owned()].into_iter().chain(numbers).collect();
        self.run(scripts::READ_FILTER, element, &Self::keys("a", name), &args)
    }

    fn drop(&self, tenant: &str, name: &str) -> String {
        let keys = Self::keys(tenant, name);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        self.redis.eval(scripts::DROP_FILTER, &keys, &[name, "9"])
    }

    fn step(&self, name: &str, from: &str, to: &str, not_after: &str) -> String {
        let args = [from, to, not_after].map(str::to_owned);
        self.run(scripts::MOVE_FILTER, 1, &Self::keys("a", name)[..1], &args)
    }

    fn text(&self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.redis.call(&words)
    }
}

#[test]
fn filters_have_a_number_and_bytes_for_all_and_for_each_tenant() {
    let small = Small::start("fleet-filter-caps", 60_000);
    for name in ["1", "2", "3"] {
        check(name, &small.make("a", name, 90), &"made".to_owned());
    }
    check(
        "a tenant",
        &small.make("a", "4", 90),
        &"tenant_full".to_owned(),
    );
    check("another", &small.make("b", "5", 90), &"made".to_owned());
    check("another", &small.make("b", "6", 90), &"made".to_owned());
    check("all", &small.make("c", "7", 90), &"full".to_owned());
    check("its place", &small.drop("b", "5"), &"place".to_owned());
    check("gone", &small.drop("b", "5"), &String::new());
    check("room", &small.make("c", "7", 90), &"made".to_owned());
    for (tenant, name) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "6"), ("c", "7")] {
        small.drop(tenant, name);
    }
    // By bytes, each as the next larger size: 1,000, and 100.
    check("large", &small.make("a", "1", 101), &"made".to_owned());
    check("small", &small.make("a", "2", 100), &"made".to_owned());
    check(
        "bytes",
        &small.make("a", "3", 101),
        &"tenant_full".to_owned(),
    );
    check("large", &small.make("b", "4", 1_500), &"made".to_owned());
    check(
        "bytes of all",
        &small.make("c", "5", 101),
        &"full".to_owned(),
    );
    check("small", &small.make("c", "5", 1), &"made".to_owned());
}

/// A filter that nobody asks about leaves room, and one that is asked about stays.
#[test]
fn a_filter_expires_unless_somebody_asks() {
    let small = Small::start("fleet-filter-expiry", 4_000);
    let made = || small.make("a", "1", 90) + &small.make("a", "2", 90) + &small.make("a", "3", 90);
    check("made", &made(), &"made".repeat(3));
    wait_until("the others expire", || {
        // Only questions of some age are noted.
        assert_eq!(small.read("1", 2, 500), "place");
        small.text(&["EXISTS", "{f}:filter:2", "{f}:filter:3"]) == ":0"
    });
    check("room", &small.make("a", "4", 90), &"made".to_owned());
    check("room", &small.make("a", "5", 90), &"made".to_owned());
    check("full", &small.make("a", "6", 90), &"tenant_full".to_owned());
}

/// Most questions write nothing.
#[test]
fn a_question_is_noted_now_and_then() {
    let small = Small::start("fleet-filter-noted", 600_000);
    check("made", &small.make("a", "1", 90), &"made".to_owned());
    let written = || {
        let stats = small.text(&["INFO", "commandstats"]);
        stats.contains("cmdstat_zadd") || stats.contains("cmdstat_pexpire")
    };
    small.text(&["CONFIG", "RESETSTAT"]);
    check("place", &small.read("1", 2, 500_000), &"place".to_owned());
    assert!(!written());
    // In the same millisecond it need not be noted.
    wait_until("it is noted", || {
        small.read("1", 2, 0);
        written()
    });
}

/// Whatever others put into the indexes, the counts mend themselves.
#[test]
fn counts_of_filters_mend_themselves() {
    let small = Small::start("fleet-filter-mend", 60_000);
    let own_indexes = ["{f}:a:0", "{f}:a:1"];
    let time = "local t = redis.call('TIME')[1] * 1000 ";
    let fill = |key: &str, ahead: &str| {
        let script = "for i = 1, 300 do redis.call('ZADD', KEYS[1], t + ARGV[1], 'x' .. i) end \
                      return 'filled'";
        let filled = small
            .redis
            .eval(&format!("{time}{script}"), &[key], &[ahead]);
        assert_eq!(filled, "filled");
    };
    for key in INDEXES.into_iter().chain(own_indexes) {
        // Names of no filter are forgotten, some at each try.
        fill(key, "30000");
        let mut tries = 0;
        wait_until("it is made", || {
            tries += 1;
            small.make("a", "1", 90) == "made"
        });
        assert!((5..20).contains(&tries), "{key}: {tries}");
        small.drop("a", "1");
        small.text(&["DEL", key]);
        // Those of another time count nothing.
        for ahead in ["-1000", "70000"] {
            fill(key, ahead);
            check(key, &small.make("a", "1", 90), &"made".to_owned());
            small.drop("a", "1");
        }
        // Nor does another type, which is emptied.
        small.text(&["DEL", key]);
        small.text(&["SADD", key, "x"]);
        check(key, &small.make("a", "1", 90), &"made".to_owned());
        check("place", &small.read("1", 2, 0), &"place".to_owned());
        small.drop("a", "1");
        small.text(&["DEL", key]);
    }
    // An index that is gone is there again when the filters are asked about.
    check("made", &small.make("a", "1", 90), &"made".to_owned());
    for key in [INDEXES[0], own_indexes[0]] {
        small.text(&["DEL", key]);
        // A question in the same millisecond need not be noted.
        wait_until("it is there again", || {
            small.read("1", 2, 0);
            small.text(&["ZSCORE", key, "1"]) != "$-1"
        });
    }
}

#[test]
fn records_of_another_form_are_not_there() {
    let small = Small::start("fleet-filter-records", 60_000);
    let key = "{f}:filter:1";
    check("none", &small.read("1", 2, 0), &String::new());
    check("made", &small.make("a", "1", 90), &"made".to_owned());
    check("criteria", &small.read("1", 3, 0), &"c".repeat(90));
    small.text(&["HSET", key, "criteria", &"c".repeat(91)]);
    check("too long", &small.read("1", 3, 0), &String::new());
    check("the place", &small.read("1", 2, 0), &"place".to_owned());
    small.text(&["HSET", key, "place", &"p".repeat(10)]);
    check("too long", &small.read("1", 2, 0), &String::new());
    check("too long", &small.drop("a", "1"), &String::new());
    for other in [&["SADD", key, "x"][..], &["SET", key, "x"]] {
        small.text(&["DEL", key]);
        small.text(other);
        check("another type", &small.read("1", 2, 0), &String::new());
        check(
            "moved",
            &small.step("1", "place", "next", ""),
            &"other".to_owned(),
        );
        check("dropped", &small.drop("a", "1"), &String::new());
        check("made", &small.make("a", "1", 90), &"made".to_owned());
        check("place", &small.read("1", 2, 0), &"place".to_owned());
    }
    // It moves from where it is alone, and in time.
    let clock = small.redis.eval("return redis.call('TIME')[1]", &[], &[]);
    let [past, future] = [-10, 10].map(|s| (clock.parse::<i64>().unwrap() + s).to_string() + "000");
    check(
        "late",
        &small.step("1", "place", "next", &past),
        &"late".to_owned(),
    );
    check(
        "moved",
        &small.step("1", "place", "next", &future),
        &"moved".to_owned(),
    );
    check(
        "other",
        &small.step("1", "place", "next", &future),
        &"other".to_owned(),
    );
    check(
        "back",
        &small.step("1", "next", "place", ""),
        &"moved".to_owned(),
    );
}

/// The client of the store.
struct Client {
    redis: Redis,
    runtime: Runtime,
    store: FilterStore,
    counts: Arc<PipeCounts>,
}

impl Client {
    fn start(name: &str) -> Self {
        let redis = Redis::start_with(name, &[]);
        let counts = Arc::<PipeCounts>::default();
        let options = StoreOptions {
            urls: vec![redis.url().parse().unwrap()],
            sentinel: None,
            prefix: "f".to_owned(),
            owner: "owner".to_owned(),
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            store: FilterStore::open(&options, Arc::clone(&counts)).unwrap(),
            runtime: runtime.unwrap(),
            counts,
            redis,
        }
    }

    fn run<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    fn place(&self, name: &FilterName) -> String {
        text(&self.run(self.store.read(name, false)).unwrap().place)
    }

    fn count(&self, outcome: &str) -> u64 {
        let counts = self.counts.by_outcome();
        counts.iter().find(|(name, _)| *name == outcome).unwrap().1
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const NAME: FilterName = FilterName {
    tenant: [1; 8],
    owner: [2; 8],
    id: [3; 16],
};

#[test]
fn thousands_of_questions_share_a_connection() {
    let client = Client::start("fleet-filter-client");
    let store = &client.store;
    assert_eq!(store.now(), None);
    let made = client.run(store.make(&NAME, b"criteria", b"place"));
    assert_eq!(made, Ok(FilterMade::Made));
    let read = client.run(store.read(&NAME, true)).unwrap();
    assert_eq!(
        [text(&read.place), text(&read.criteria)],
        ["place", "criteria"]
    );
    assert!(store.now().unwrap().abs_diff(read.now) < 1_000);
    let other = FilterName {
        owner: [9; 8],
        ..NAME
    };
    assert!(client.place(&other).is_empty(), "another key has it");
    // Also when the store forgets its scripts.
    client.redis.call(&[b"SCRIPT", b"FLUSH"]);
    client.run(async {
        let mut calls = JoinSet::new();
        for _ in 0..2_000 {
            let store = store.clone();
            calls.spawn(async move { store.read(&NAME, false).await.unwrap().place });
        }
        for place in calls.join_all().await {
            assert_eq!(text(&place), "place");
        }
    });
    let clients = client.redis.call(&[b"INFO", b"clients"]);
    assert!(clients.contains("connected_clients:2\r\n"), "{clients}");
    // It moves from one place to the next, and back.
    let advance = |from: &[u8], to: &[u8]| client.run(store.advance(&NAME, from, to));
    assert_eq!(advance(b"place", b"next"), Ok(true));
    assert_eq!(advance(b"place", b"next"), Ok(false));
    client.run(store.take_back(&NAME, b"next", b"place").unwrap().made());
    assert_eq!(client.place(&NAME), "place");
    assert_eq!(text(&client.run(store.remove(&NAME)).unwrap()), "place");
    assert!(client.run(store.remove(&NAME)).unwrap().is_empty());
    let left = "return redis.call('DBSIZE') .. ''";
    assert_eq!(client.redis.eval(left, &[], &[]), "0");
    assert_eq!(client.count("failed"), 0);
}

/// While the store hangs, few wait for it. What was asked then does not happen later, and a filter
/// that has to go back goes back.
#[test]
fn a_store_that_hangs_moves_no_filter_for_those_who_have_left() {
    let client = Client::start("fleet-filter-hangs");
    let store = &client.store;
    client.run(store.make(&NAME, b"criteria", b"0")).unwrap();
    assert_eq!(client.place(&NAME), "0");
    client.redis.process().freeze();
    let begun = Instant::now();
    let advanced = client.run(store.advance(&NAME, b"0", b"1"));
    let fault = advanced.unwrap_err();
    assert!(matches!(fault.fault(), StoreFault::TimedOut(_)), "{fault}");
    let back = store.take_back(&NAME, b"1", b"0").unwrap();
    client.run(back.made());
    assert!(
        begun.elapsed() < FILTER_MOVE_TIME_MAX + CALL_TIME_MAX * 3,
        "{:?}",
        begun.elapsed()
    );
    // One call at a time tries the store.
    wait_until("it is known to be away", || client.count("failed") > 0);
    let refused = (0..200).filter(|_| {
        let asked = client.runtime.block_on(async {
            let read = std::pin::pin!(store.read(&NAME, false));
            tokio::time::timeout(std::time::Duration::ZERO, read).await
        });
        matches!(asked, Ok(Err(error)) if matches!(error.fault(), StoreFault::NotAsked(_)))
    });
    assert!(refused.count() > 150, "many wait for a store that is away");
    client.redis.process().thaw();
    wait_until("it is asked again", || {
        client.run(store.read(&NAME, false)).is_ok()
    });
    assert_eq!(client.place(&NAME), "0");
    // One that had moved goes back when the store is there again, whoever asks.
    assert_eq!(client.run(store.advance(&NAME, b"0", b"2")), Ok(true));
    client.redis.process().freeze();
    drop(store.take_back(&NAME, b"2", b"0").unwrap());
    let failed = client.count("failed");
    wait_until("it has failed", || client.count("failed") > failed);
    client.redis.process().thaw();
    client.run(store.settle());
    wait_until("it is back", || {
        let read = client.run(store.read(&NAME, false));
        read.is_ok_and(|read| text(&read.place) == "0")
    });
    assert_eq!(client.count("given_up"), 0);
    assert!(FILTER_KEPT > CALL_TIME_MAX);
}
