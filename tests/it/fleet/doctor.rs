//! What `nearhead doctor` finds of a fleet's store: a real Redis, behind TLS and by sentinels, and
//! with what is wrong with it; and what its user has to be allowed.

use std::{fs, path::PathBuf};

use serde_json::json;

use super::{
    redis::{Redis, Sentinel, free_port},
    stage::{SECRET, leads, wait_heads},
};
use crate::{
    harness::{
        Connection, Process, Server, check, installed, nearhead, scratch, serving, wait_until,
    },
    upstreams::{Anvil, TlsFront},
};

const CHAIN: [&str; 4] = ["--source", "node", "--network", "mainnet"];

/// What the doctor finds, and how it ends, of a store at this URL.
fn examine(url: &str, more: &[&str], environment: &[(&str, &PathBuf)]) -> (Option<i32>, String) {
    let fleet = ["--fleet", url, "--fleet-key", SECRET];
    let listen = ["doctor", "--listen", "127.0.0.1:0"];
    let all = [&listen[..], &CHAIN, &fleet, more].concat();
    let mut command = nearhead(all.iter().copied());
    let (status, text) = Process::start(command.envs(environment.iter().copied())).wait();
    (status.code(), text)
}

#[track_caller]
fn finds(url: &str, more: &[&str], environment: &[(&str, &PathBuf)], expected: &[&str]) {
    let (code, text) = examine(url, more, environment);
    for finding in expected {
        assert!(text.contains(finding), "no {finding:?}: {text}");
    }
    let is_bad = expected.iter().any(|finding| finding.starts_with("BAD"));
    check(&text, &code, &Some(i32::from(is_bad)));
}

const GOOD: [&str; 3] = [
    "good  --fleet-key: 32 bytes",
    "good  the fleet's store: Redis 7.",
    "good  the fleet's clocks: 0.",
];

fn set(redis: &Redis, option: &str, value: &str) {
    let words = ["CONFIG", "SET", option, value].map(str::as_bytes);
    check(option, &redis.call(&words), &"+OK".to_owned());
}

#[test]
fn what_is_wrong_with_a_store_is_found() {
    let mut redis = Redis::start("fleet-doctor");
    let url = redis.url();
    finds(&url, &[], &[], &GOOD);
    // Another secret, which is read from a file.
    let file = scratch("fleet-doctor-key").join("key");
    fs::write(&file, "abc\n").unwrap();
    let key = ["--fleet-key", file.to_str().unwrap()];
    let bad = ["BAD   --fleet-key: ", "64 hex digits"];
    let (_, text) = examine(&url, &[], &[]);
    assert!(!text.contains(SECRET), "{text}");
    let fleet = ["--fleet", &url, key[0], key[1], "--listen", "127.0.0.1:0"];
    let mut command = nearhead([&["doctor"], &CHAIN[..], &fleet].concat());
    let text = Process::start(&mut command).check_end(1);
    assert!(bad.iter().all(|bad| text.contains(bad)), "{text}");

    // It may evict, and it keeps nothing.
    set(&redis, "maxmemory-policy", "allkeys-lru");
    set(&redis, "appendonly", "no");
    let problems = [
        "BAD   the fleet's store: its maxmemory-policy is allkeys-lru",
        "weak  the fleet's store: it keeps no append-only file",
    ];
    finds(&url, &[], &[], &problems);
    // A process says the same when it starts, once.
    let fleet = ["--fleet", &url, "--fleet-key", SECRET];
    let process = Process::start(&mut serving(&[&CHAIN[..], &fleet].concat()));
    for problem in ["its maxmemory-policy is", "it keeps no append-only file"] {
        let logged = |log: &str| log.contains(problem).then_some(());
        process.output.wait_for(problem, logged);
    }
    drop(process);
    set(&redis, "maxmemory-policy", "noeviction");
    set(&redis, "appendonly", "yes");

    // The wrong password, a user who may not run scripts, and one who may not ask what it is.
    let may = |name: &str, commands: &str| {
        let user = format!("ACL SETUSER {name} on >right ~* {commands}");
        let words: Vec<&[u8]> = user.split(' ').map(str::as_bytes).collect();
        check(name, &redis.call(&words), &"+OK".to_owned());
    };
    may("one", "+info +role");
    may("two", "+@all -info");
    let at = redis.address();
    for (user, commands) in [
        ("one:wrong", "authentication failed"),
        ("nobody:right", "authentication failed"),
        ("one:right", "evalsha"),
        ("two:right", "info"),
    ] {
        let (code, text) = examine(&format!("redis://{user}@{at}"), &[], &[]);
        check(&text, &code, &Some(1));
        let expected = "BAD   --fleet: the fleet's store, redis://127.0.0.1:";
        let is_found = text.contains(expected) && text.contains(commands);
        assert!(is_found, "{user}: {text}");
        assert!(text.contains("docs/fleet.md lists"), "{text}");
        assert!(!text.contains("right") && !text.contains("wrong"), "{text}");
    }
    let away = ["BAD   --fleet: ", "cannot be reached", "start it"];
    redis.kill();
    finds(&url, &[], &[], &away);
}

#[test]
fn a_store_is_found_behind_tls_and_by_sentinels() {
    let redis = Redis::start("fleet-doctor-tls");
    let front = TlsFront::to(redis.address(), &scratch("fleet-doctor-front"));
    let url = format!("rediss://localhost:{}", front.address.port());
    let trusted = ("SSL_CERT_FILE", &front.certificate);
    finds(&url, &[], &[trusted], &GOOD);
    // A name that is not in the certificate, and a certificate that nobody has signed.
    let other = format!("rediss://127.0.0.1:{}", front.address.port());
    let bad = ["BAD   --fleet: ", "invalid peer certificate"];
    finds(&other, &[], &[trusted], &bad);
    finds(&url, &[], &[], &bad);
    // It does not speak TLS, and waits for more.
    let plain = redis.url().replace("redis", "rediss");
    finds(
        &plain,
        &[],
        &[trusted],
        &["BAD   --fleet: ", "did not answer"],
    );

    let sentinel = Sentinel::of(redis.address(), "main", "fleet-doctor-sentinel");
    let url = sentinel.url();
    let name = ["--fleet-sentinel", "main"];
    finds(&url, &name, &[], &GOOD);
    let unused = format!("redis://127.0.0.1:{}", free_port());
    let two = ["--fleet-sentinel", "main", "--fleet", &unused];
    finds(&url, &two, &[], &GOOD);
    let name = ["--fleet-sentinel", "other"];
    let bad = [
        "BAD   --fleet: ",
        "knows no master called other",
        "correct --fleet-sentinel",
    ];
    finds(&url, &name, &[], &bad);
}

/// The command of docs/fleet.md that makes a fleet's user, with this password.
fn user(password: &str) -> Vec<String> {
    let page = fs::read_to_string(installed("docs/fleet.md")).unwrap();
    let (_, rest) = page.split_once("redis-cli ACL SETUSER ").unwrap();
    let (command, _) = rest.split_once("\n```").unwrap();
    let words = command.split_whitespace().filter(|word| *word != "\\");
    let word = |word: &str| word.trim_matches('\'').replace("PASSWORD", password);
    ["ACL", "SETUSER"]
        .map(str::to_owned)
        .into_iter()
        .chain(words.map(word))
        .collect()
}

/// A user with no more than docs/fleet.md gives it leads and reads, and is never refused.
#[test]
fn the_documented_user_is_enough() {
    let redis = Redis::start("fleet-user");
    let words = user("a1b2");
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    check("ACL SETUSER", &redis.call(&words), &"+OK".to_owned());
    let url = format!("redis://nearhead:a1b2@{}", redis.address());
    finds(&url, &[], &[], &GOOD);
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let genesis =
        Connection::open(anvil.address, "/").result("eth_getBlockByNumber", &json!(["0x0", false]));
    let genesis = format!("0:{}", genesis["hash"].as_str().unwrap());
    let node = format!("http://{}", anvil.address);
    let options = [
        ["--source", "node"],
        ["--head-age-max", "off"],
        ["--chain-id", "31337"],
        ["--trusted-block", &genesis],
        ["--fleet", &url],
        ["--fleet-key", SECRET],
    ];
    let options = options.as_flattened();
    let leader = Server::of(&mut serving(&[options, &["--node", &node]].concat()));
    wait_until("it leads", || leads(&leader));
    let replica = Server::of(&mut serving(options));
    anvil.mine(1);
    wait_heads(&[&leader, &replica], anvil.head());
    // It gives the lease back.
    leader.process.terminate();
    leader.process.check_end(0);
    let lease: [&[u8]; 2] = [b"EXISTS", b"{nearhead}:lease"];
    check("the lease", &redis.call(&lease), &":0".to_owned());
    check("refusals", &redis.call(&[b"ACL", b"LOG"]), &"*0".to_owned());
}
