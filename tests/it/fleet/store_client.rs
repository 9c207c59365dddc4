//! The client of the store and servers that hang, refuse, overflow, or are none: each call ends
//! within its bound, and the next one works.

use std::{
    fs,
    future::Future,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    pin::Pin,
    thread,
    time::{Duration, Instant},
};

use alloy_primitives::{B256, Bytes};
use nearhead_actors::fleet::store::{FleetStore, StoreError};
use nearhead_fleet::{
    bounds::{
        APPEND_TIME_MAX, CALL_TIME_MAX, ENTRY_BYTES_MAX, READ_BYTES_MAX, READ_ENTRIES_MAX,
        READ_TIME_MAX,
    },
    entry::SealedEntry,
    leader::Append,
    position::Position,
    replica::Report,
    scripts::{Acquired, Appended},
};

use tokio::task::JoinSet;

use super::{redis::Redis, store_access::Access};
use crate::{
    harness::{check, scratch, wait_until},
    upstreams::TlsFront,
};

/// By how much a machine that does other things is late.
const SLACK: Duration = Duration::from_secs(4);

const REPORT: Report = Report {
    seen: Position {
        epoch: 0,
        sequence: 0,
    },
    is_forked: false,
    wants_snapshot: false,
};

type Outcome = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

fn append(position: Position) -> Append {
    Append {
        entry: SealedEntry {
            position,
            digest: B256::ZERO,
            bytes: Bytes::from_static(b"entry"),
        },
        keep_from: 0,
        entries_max: 100,
        begins_snapshot: false,
    }
}

/// Every call, with the longest time that it may take.
fn calls(store: &FleetStore) -> [(&'static str, Duration, Outcome); 7] {
    let [one, two, three, four, five, six, seven] = [(); 7].map(|()| store.clone());
    let entry = append(Position::new(1, 0));
    let small = CALL_TIME_MAX;
    [
        (
            "acquire",
            small,
            Box::pin(async move { one.acquire(0).await.map(drop) }),
        ),
        (
            "renew",
            small,
            Box::pin(async move { two.renew(1).await.map(drop) }),
        ),
        (
            "release",
            small,
            Box::pin(async move { three.release(1).await.map(drop) }),
        ),
        (
            "report",
            small,
            Box::pin(async move { four.report(REPORT).await.map(drop) }),
        ),
        (
            "checks",
            2 * small,
            Box::pin(async move { five.checks().await.map(drop) }),
        ),
        (
            "append",
            APPEND_TIME_MAX,
            Box::pin(async move { six.append(&entry).await.map(drop) }),
        ),
        (
            "read",
            READ_TIME_MAX,
            Box::pin(async move {
                let read = seven.read(Position::default(), READ_ENTRIES_MAX, Duration::ZERO);
                read.await.map(drop)
            }),
        ),
    ]
}

/// The fault of a call.
#[track_caller]
fn fault<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> &'static str {
    answer.unwrap_err().fault().label()
}

/// A server that hangs: every call ends within its bound, and works when the server goes on. A
/// server that is killed and started again is connected to again.
#[test]
fn a_server_that_hangs_or_dies_keeps_nobody_waiting() {
    let mut redis = Redis::start_with("fleet-hangs", &[]);
    let access = Access::to(&redis.url());
    // One client has a connection, and another one has none when the server hangs.
    let [connected, new] = ["a", "b"].map(|owner| access.open(owner));
    check(
        "acquired",
        &access.run(connected.acquire(0)),
        &Ok(Acquired::Epoch(1)),
    );
    for (_, _, call) in calls(&connected) {
        access.run(call).unwrap();
    }
    redis.process().freeze();
    access.run(async {
        let mut all = JoinSet::new();
        for (name, limit, call) in calls(&connected).into_iter().chain(calls(&new)) {
            let begun = Instant::now();
            all.spawn(async move { (name, limit, call.await, begun.elapsed()) });
        }
        while let Some(ended) = all.join_next().await {
            let (name, limit, answer, elapsed) = ended.unwrap();
            assert!(
                elapsed < limit + SLACK,
                "{name} took {elapsed:?} of {limit:?}"
            );
            // Those that have no connection of their own wait for one that hangs.
            let fault = fault(answer);
            assert!(["timeout", "not_asked"].contains(&fault), "{name}: {fault}");
        }
    });
    redis.process().thaw();
    for (name, _, call) in calls(&connected).into_iter().chain(calls(&new)) {
        let answer = access.run(call);
        assert!(answer.is_ok(), "{name}: {answer:?}");
    }
    redis.kill();
    check(
        "killed",
        &fault(access.run(connected.report(REPORT))),
        &"unreachable",
    );
    redis.restart(true);
    // Each line finds out by itself that its connection is gone.
    wait_until("connected again", || {
        let mut calls = calls(&connected).into_iter();
        calls.all(|(_, _, call)| access.run(call).is_ok())
    });
    redis.call(&[b"SCRIPT", b"FLUSH"]);
    for (name, _, call) in calls(&connected) {
        let answer = access.run(call);
        assert!(answer.is_ok(), "{name} after SCRIPT FLUSH: {answer:?}");
    }
}

/// Passwords, users of an access control list, TLS, and memory that is full.
#[test]
fn a_server_that_refuses_says_why() {
    let redis = Redis::start_with("fleet-refuses", &[]);
    let access = Access::to(&redis.url());
    let address = redis.address();
    let store = |url: &str| access.open_at(url, "a");
    let report = |url: &str| access.run(store(url).report(REPORT));

    let front = TlsFront::to(address, &scratch("fleet-refuses-tls"));
    let url = format!("rediss://localhost:{}", front.address.port());
    check("an unknown authority", &fault(report(&url)), &"unreachable");

    // Others may use all that a fleet needs, and no more.
    let rule = "on >us/er:pass ~{store-client}:* +@connection +@scripting +eval +evalsha +@read \
                +@write +role +info";
    for words in [
        format!("ACL SETUSER fleet {rule}"),
        "ACL SETUSER reader on >secret ~* +@connection +@read".to_owned(),
        "CONFIG SET requirepass top".to_owned(),
    ] {
        let words: Vec<&[u8]> = words.split_whitespace().map(str::as_bytes).collect();
        assert!(
            ["+OK", "-NOAUTH"].contains(&redis.call(&words).as_str()),
            "{words:?}"
        );
    }
    for (url, expected) in [
        ("redis://{}", Some("denied")),
        ("redis://:wrong@{}", Some("denied")),
        ("redis://:top@{}", None),
        ("redis://fleet:us%2Fer:pass@{}", None),
        ("redis://fleet:wrong@{}", Some("denied")),
        ("redis://reader:secret@{}", Some("denied")),
    ] {
        let answer = report(&url.replace("{}", &address.to_string()));
        check(
            url,
            &answer.as_ref().err().map(|error| error.fault().label()),
            &expected,
        );
        let text = answer.map_err(|error| error.to_string());
        let shown = text.as_ref().err().map_or("", String::as_str);
        assert!(
            !["wrong", "secret"].iter().any(|one| shown.contains(one)),
            "{shown}"
        );
    }
    let fleet = store(&format!("redis://fleet:us%2Fer:pass@{address}"));
    for (name, _, call) in calls(&fleet) {
        let answer = access.run(call);
        assert!(answer.is_ok(), "{name} by a user of its own: {answer:?}");
    }
}

/// Its memory is full: nothing is written, the fault says so, and it works when there is memory.
#[test]
fn a_server_whose_memory_is_full_is_used_when_it_has_some_again() {
    let redis = Redis::start_with("fleet-memory", &["--maxmemory-policy", "noeviction"]);
    let access = Access::to(&redis.url());
    let store = access.open("a");
    check(
        "acquired",
        &access.run(store.acquire(0)),
        &Ok(Acquired::Epoch(1)),
    );
    let at = |sequence: u64| append(Position::new(1, sequence));
    check(
        "first",
        &access.run(store.append(&at(0))),
        &Ok(Appended::Appended(false)),
    );
    redis.call(&[b"CONFIG", b"SET", b"maxmemory", b"1"]);
    check(
        "an entry",
        &fault(access.run(store.append(&at(1)))),
        &"memory",
    );
    // What the epoch before it wrote makes room for it.
    let epoch = access.run(store.acquire(1));
    check("a lease", &epoch, &Ok(Acquired::Epoch(2)));
    let first = append(Position::new(2, 0));
    check(
        "its entry",
        &fault(access.run(store.append(&first))),
        &"memory",
    );
    redis.call(&[b"CONFIG", b"SET", b"maxmemory", b"0"]);
    check(
        "when there is memory",
        &access.run(store.append(&first)),
        &Ok(Appended::Appended(false)),
    );
    // An entry that is too large for a read of several, and one that is too large for any.
    let entries = access.key("entries");
    for (id, bytes) in [("2-1", READ_BYTES_MAX), ("2-2", ENTRY_BYTES_MAX + 1)] {
        let script = "return redis.call('XADD', KEYS[1], ARGV[1], 'e', string.rep('x', ARGV[2]))";
        let words = ["EVAL", script, "1", &entries, id, &bytes.to_string()];
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        check("added", &redis.call(&words), &id.to_owned());
    }
    redis.call(&[b"XADD", entries.as_bytes(), b"2-3", b"x", b"y", b"z", b"z"]);
    redis.call(&[b"XADD", entries.as_bytes(), b"2-4", b"e", b"good"]);
    let mut lengths = Vec::new();
    let mut after = Position::default();
    while let Some((last, _)) = {
        let read = access
            .run(store.read(after, READ_ENTRIES_MAX, Duration::ZERO))
            .unwrap();
        lengths.extend(read.iter().map(|(id, bytes)| (id.sequence, bytes.len())));
        read.last().cloned()
    } {
        after = last;
    }
    let expected = [(0, 5), (1, READ_BYTES_MAX), (2, 0), (3, 0), (4, 4)];
    check("lengths", &lengths, &expected.to_vec());
}

/// Anything in place of the keys: each call ends, and a lease can be had again.
#[test]
fn hostile_values_stop_no_call_and_no_leader() {
    let redis = Redis::start_with("fleet-hostile", &[]);
    let access = Access::to(&redis.url());
    let store = access.open("a");
    let [lease, fence, entries] = ["lease", "fence", "entries"].map(|key| access.key(key));
    let long = "9".repeat(5_000);
    let mut damages: Vec<Vec<&str>> = Vec::new();
    for key in [&lease, &fence, &entries] {
        for make in [
            &["SET", key, "\0\u{ff}"][..],
            &["SADD", key, "x"],
            &["LPUSH", key, "x"],
            &["ZADD", key, "1", "x"],
            &["HSET", key, "epoch", "x", "sequence", "x"],
            &["XADD", key, "*", "x", "y"],
        ] {
            damages.push(make.to_vec());
        }
    }
    for number in [
        "inf",
        "-inf",
        "nan",
        "-1",
        "1e300",
        "0x10",
        " 7",
        "1.5",
        "",
        "\0",
        &long,
        "9007199254740993",
        "18446744073709551616",
    ] {
        damages.push(vec!["HSET", &fence, "epoch", number]);
        damages.push(vec!["HSET", &fence, "sequence", number]);
    }
    let highest = "18446744073709551615-18446744073709551615";
    damages.push(vec!["XADD", &entries, highest, "e", "x"]);
    damages.push(vec!["SET", &lease, "x:a", "PX", "5000"]);
    let mut newest = 0;
    for damage in &damages {
        let name = format!("{damage:.200?}");
        // A state that a call of the fleet left, and what somebody does to it.
        let Ok(Acquired::Epoch(epoch)) = access.run(store.acquire(newest)) else {
            panic!("no lease before {name}");
        };
        assert!(
            epoch > newest && epoch < newest + 10,
            "{epoch} after {newest}"
        );
        newest = epoch;
        access
            .run(store.append(&append(Position::new(epoch, 0))))
            .unwrap();
        if damage[0] != "HSET" || !damage[1].ends_with("fence") || damage.len() > 4 {
            redis.call(&[b"DEL", damage[1].as_bytes()]);
        }
        let words: Vec<&[u8]> = damage.iter().map(|word| word.as_bytes()).collect();
        let made = redis.call(&words);
        assert!(!made.starts_with('-'), "{name}: {made}");
        let next = Position::new(epoch, 1);
        for (call, _, answer) in calls(&store).into_iter().skip(1) {
            // It may be refused, and says why.
            if let Err(error) = access.run(answer) {
                let label = error.fault().label();
                assert!(
                    ["refused", "nonsense"].contains(&label),
                    "{name}, {call}: {error}"
                );
            }
        }
        let _ = access.run(store.append(&append(next)));
    }
    // The last one is a lease of somebody else, until it ends.
    let held = access.run(store.acquire(newest));
    assert!(matches!(held, Ok(Acquired::Held(_))), "{held:?}");
}

/// What is no Redis, and answers this once it was asked something; again and again if it repeats.
fn pretender(answer: &'static [u8], repeats: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let _ = client.read(&mut [0; 4096]);
                while client.write_all(answer).is_ok() && repeats {}
                // It stays silent until the client leaves.
                let _ = client.read(&mut [0; 4096]);
                while client.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

/// A server that is no Redis, or one that answers without an end: each call ends, and the memory of
/// this process does not grow with what is sent.
#[test]
fn a_server_that_is_none_is_given_up() {
    let zeros: &[u8] = Box::leak(vec![b'0'; 1 << 20].into_boxed_slice());
    let deep: &[u8] = Box::leak(b"*1\r\n".repeat(10_000).into_boxed_slice());
    let access = Access::to("redis://127.0.0.1:1");
    let mut all = JoinSet::new();
    for (name, answer, repeats) in [
        (
            "HTTP",
            &b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"[..],
            false,
        ),
        ("silent", b"", false),
        ("a line without an end", zeros, true),
        ("a long string", b"$999999999\r\n0000", true),
        ("a negative length", b"$-7\r\n", true),
        ("a long list", b"*2147483647\r\n", true),
        (
            "a list of many",
            b"*99999999\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
            true,
        ),
        ("a deep list", deep, true),
        ("endless agreement", b"+OK\r\n", true),
        ("endless nothing", b"$-1\r\n", true),
        ("binary", b"\x00\xff\x16\x03\x01", true),
    ] {
        let address = pretender(answer, repeats);
        let store = access.open_at(&format!("redis://{address}"), "a");
        access.run(async {
            for (call, limit, answer) in calls(&store) {
                let begun = Instant::now();
                all.spawn(async move { (name, call, limit, answer.await, begun.elapsed()) });
            }
        });
    }
    access.run(async {
        while let Some(ended) = all.join_next().await {
            let (name, call, limit, answer, elapsed) = ended.unwrap();
            assert!(elapsed < limit + SLACK, "{name}, {call}: {elapsed:?}");
            assert!(answer.is_err(), "{name}, {call}");
        }
    });
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 8 << 20, "{kib} KiB");
}
