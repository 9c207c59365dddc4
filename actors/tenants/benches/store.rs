//! Prints the costs of the store: `cargo bench -p nearhead-tenants --bench store [-- KEYS]`.
//!
//! 100,000 keys of 1,000 tenants, and the usage of all of them. Times are not asserted.
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{
    env, fs,
    hint::black_box,
    time::{Duration, Instant},
};

use nearhead_tenants::{
    UnixMillis,
    audit::{AuditEntry, Author, Detail, Verb},
    command::{Command, NewKey},
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::KeySettings,
    secret::{KeyPrefix, SecretDigest},
    store::{Commit, SqliteStore, TenantStore},
    usage::{
        GroupBy, KeyOwner, Labels, Merged, RequestUse, Resolution, UsageCounts, UsageOf, UsageQuery,
    },
};

/// Number of tenants.
const TENANTS: usize = 1_000;
/// Number of keys unless one is given.
const KEYS: usize = 100_000;
/// Number of requests that are counted.
const REQUESTS: usize = 10_000_000;
/// Number of commits that are timed.
const COMMITS: usize = 200;

/// How long this thread has run on a processor: other programs do not count.
fn on_processor() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Runs something, and prints how long that took, and for how long it ran on a processor.
fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (begun, begun_on) = (Instant::now(), on_processor());
    let result = run();
    let [took, ran] = [begun.elapsed(), on_processor() - begun_on];
    let [took, ran] = [took, ran].map(|time| time.as_secs_f64() * 1_000.0);
    println!("{what:<40} {took:>9.2} ms {ran:>9.2} ms on the processor");
    result
}

fn tenant(number: usize) -> TenantId {
    TenantId::of_configured(&(number % TENANTS).to_string())
}

fn key(number: usize) -> KeyId {
    KeyId::of_configured(&number.to_string())
}

fn create_key(number: usize) -> Command {
    let mut settings = KeySettings::default();
    let origins = vec!["https://app.example.org".parse().unwrap()];
    settings.allow.origins = origins.try_into().unwrap();
    Command::CreateKey {
        key: NewKey {
            id: key(number),
            prefix: KeyPrefix::of("0123456789012345678901234"),
            digest: SecretDigest::of(&number.to_string()),
        },
        tenant: tenant(number),
        name: format!("backend {number}").parse().unwrap(),
        expires: Some(UnixMillis(1_900_000_000_000)),
        settings,
    }
}

/// Makes all tenants and keys in one commit.
fn fill(store: &mut SqliteStore, keys: usize, now: UnixMillis) {
    let mut directory = store.load().unwrap().directory;
    let tenants = (0..TENANTS).map(|number| Command::CreateTenant {
        id: tenant(number),
        name: format!("tenant {number}").parse().unwrap(),
        limits: TenantLimits::default(),
    });
    let mut changes = Vec::new();
    for command in tenants.chain((0..keys).map(create_key)) {
        let planned = directory.plan(command, now).unwrap();
        for change in planned {
            directory.make(change.clone());
            changes.push(change);
        }
    }
    timed(&format!("write {keys} keys in one commit"), || {
        let commit = Commit {
            directory: &changes,
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
    });
}

fn time_commits(store: &mut SqliteStore, now: UnixMillis) {
    let directory = store.load().unwrap().directory;
    let mut times: Vec<Duration> = (0..COMMITS)
        .map(|number| {
            let changes = directory
                .plan(Command::RevokeKey { id: key(number) }, now)
                .unwrap();
            let entry = AuditEntry {
                at: now,
                author: Author::CommandLine,
                from: None,
                verb: Verb::KEY_REVOKE,
                tenant: Some(tenant(number)),
                key: Some(key(number)),
                detail: Detail::default(),
            };
            let begun = Instant::now();
            let commit = Commit {
                directory: &changes,
                entries: &[entry],
                ..Commit::default()
            };
            store.commit(&commit).unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    let (median, most) = (times[COMMITS / 2], times[COMMITS - 1]);
    println!("one revocation, durable: median {median:.2?}, longest {most:.2?}");
}

/// The cost of counting, which is on the path of a request.
fn time_counting(keys: usize) {
    for used in [1, 1_000, keys.min(40_000)] {
        let ids: Vec<KeyId> = (0..used).map(key).collect();
        let mut counts = UsageCounts::default();
        let begun = on_processor();
        for number in 0..REQUESTS {
            let request = RequestUse {
                method: 3,
                outcome: 0,
                units: 10,
                bytes_in: 100,
                bytes_out: 200,
                took: Duration::from_micros(black_box(80)),
            };
            counts.request(ids[number.wrapping_mul(7_919) % used], &request);
        }
        let each = (on_processor() - begun) / REQUESTS as u32;
        println!("count a request of one of {used} keys: {each:.1?}");
        black_box(counts.take());
    }
}

/// A flush of one cell for each key, again and again in new minutes.
fn time_flushes(store: &mut SqliteStore, keys: usize, now: UnixMillis) {
    let methods: Vec<String> = (0..60)
        .map(|number| format!("eth_method{number}"))
        .collect();
    let labels = Labels::new(methods.iter().map(String::as_str), ["ok", "limited"]);
    let mut merged = Merged::new(labels, now);
    for minute in 0..6 {
        let now = now.after(Duration::from_secs(20 * minute));
        let mut longest = Duration::ZERO;
        for first in (0..keys).step_by(50_000) {
            let mut counts = UsageCounts::default();
            for number in first..keys.min(first + 50_000) {
                let request = RequestUse {
                    method: (number % 60) as u16,
                    outcome: 0,
                    units: 10,
                    bytes_in: 100,
                    bytes_out: 200,
                    took: Duration::from_micros(80),
                };
                counts.request(key(number), &request);
            }
            let taken = counts.take();
            timed("merge the cells of a worker", || merged.merge(&taken, now));
        }
        let cells = merged.len();
        timed(&format!("flush {cells} cells"), || {
            let owner_of = |_| {
                Some(KeyOwner {
                    tenant: tenant(1),
                    chain: None,
                })
            };
            let flushed = merged.flush(now, owner_of, |cells| {
                let begun = Instant::now();
                let added = store.add_usage(cells);
                longest = longest.max(begun.elapsed());
                added
            });
            flushed.unwrap();
        });
        println!("    the longest transaction: {longest:.1?}");
    }
}

fn time_queries(store: &mut SqliteStore, now: UnixMillis) {
    let by_time = GroupBy {
        time: true,
        method: true,
        ..GroupBy::default()
    };
    let by_key = GroupBy {
        key: true,
        ..GroupBy::default()
    };
    let by_key_and_outcome = GroupBy {
        outcome: true,
        ..by_key
    };
    let end = now.after(Duration::from_secs(3_600));
    for (what, of, resolution, by) in [
        (
            "usage of one key by minute and method",
            UsageOf::Keys(vec![key(1)]),
            Resolution::Minute,
            by_time,
        ),
        (
            "usage of one key by day and method",
            UsageOf::Keys(vec![key(1)]),
            Resolution::Day,
            by_time,
        ),
        (
            "usage of a tenant by hour and method",
            UsageOf::Tenant(tenant(1)),
            Resolution::Hour,
            by_time,
        ),
        (
            "usage of all keys by hour and method",
            UsageOf::All,
            Resolution::Hour,
            by_time,
        ),
        (
            "usage of all keys by outcome, all hours",
            UsageOf::All,
            Resolution::Hour,
            by_key_and_outcome,
        ),
        (
            "units of the day by key",
            UsageOf::All,
            Resolution::Day,
            by_key,
        ),
    ] {
        let query = UsageQuery {
            of,
            resolution,
            from: UnixMillis(0),
            to: end,
            by,
            rows_max: 1_000_000,
        };
        let answer = timed(what, || store.usage(&query).unwrap());
        println!("    {} rows", answer.rows.len());
    }
}

fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or("VmRSS: unknown").to_owned()
}

fn main() {
    let keys = env::args()
        .skip(1)
        .find_map(|text| text.parse().ok())
        .unwrap_or(KEYS);
    let folder = env::temp_dir().join(format!("nearhead-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let now = UnixMillis(1_800_009_000_000);
    let mut store = timed("open a new store", || SqliteStore::open(&folder).unwrap());
    fill(&mut store, keys, now);
    time_commits(&mut store, now);
    time_flushes(&mut store, keys, now);
    time_queries(&mut store, now);
    timed("expire nothing", || store.expire(now).unwrap());
    let later = now.after(Duration::from_secs(4 * 86_400));
    timed("one step of expiry", || store.expire(later).unwrap());
    timed("close", || drop(store));
    for name in ["tenants.sqlite", "usage.sqlite"] {
        let bytes = fs::metadata(folder.join(name)).unwrap().len();
        println!("{name}: {} KiB", bytes / 1_024);
    }
    let before = resident();
    let mut store = timed("open", || SqliteStore::open(&folder).unwrap());
    let loaded = timed("load", || store.load().unwrap());
    assert_eq!(loaded.directory.keys().len(), keys);
    println!("memory before: {before}, after: {}", resident());
    time_counting(keys);
    drop(store);
    fs::remove_dir_all(&folder).unwrap();
}
