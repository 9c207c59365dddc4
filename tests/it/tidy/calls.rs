//! What has one place, and what is called nowhere.

use super::{check_none, source::sources};

/// Names that one file alone may use: word, the files, why.
const ALONE: &[(&str, &[&str], &str)] = &[
    (
        "actix_web_actors",
        &["src/ws/session_actor.rs"],
        "deprecated: one file to replace",
    ),
    (
        "std::env",
        &[
            "src/main.rs",
            "src/config/",
            // Programs of their own: what they measure is named on their own command line.
            "actors/chain/benches/",
        ],
        "every option is in the table of config/mod.rs",
    ),
    (
        "crate::http",
        &["src/service.rs", "src/http"],
        "HTTP is one transport: only who starts it knows it",
    ),
    ("crate::reply", &["src/http"], "bodies in pieces are HTTP's"),
    (
        "head.store(",
        &["actors/src/head_tracker"],
        "one writer: the head tracker",
    ),
    (
        "process::exit",
        &["src/main.rs"],
        "the end of the process is main's decision",
    ),
    (
        "prometheus",
        &["src/metrics", "src/http/probes.rs"],
        "every metric is in one room, and one route serves them",
    ),
    (
        "SyncArbiter",
        &["actors/src/read/pool.rs"],
        "its queue is unbounded: whoever sends to it holds a permit",
    ),
];

#[test]
fn some_things_have_one_place() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test)
    {
        let lines: Vec<_> = source.words().collect();
        for (word, places, why) in ALONE {
            if places.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            for (number, line) in lines.iter().filter(|(_, line)| line.contains(word)) {
                let line = line.trim();
                violations.push(format!("{}:{number}: {line}  ({why})", source.path));
            }
        }
    }
    check_none("used out of its place", &violations);
}

/// Whether a line has one of JSON-RPC's error numbers: -32xxx, -39xxx or 4444, digits grouped or
/// not.
fn has_code(line: &str) -> bool {
    let line = line.replace('_', "");
    line.split(|character: char| !(character.is_ascii_digit() || character == '-'))
        .any(|word| match word.strip_prefix('-') {
            Some(digits) => {
                digits.len() == 5 && (digits.starts_with("32") || digits.starts_with("39"))
            }
            None => word == "4444",
        })
}

/// Where they stand: those that are sent, and what those of nodes mean.
const CODES: [&str; 2] = ["src/rpc/error.rs", "actors/src/upstream/client/code.rs"];

#[test]
fn error_numbers_have_one_place() {
    assert!(has_code("Self::Parse => -32700,") && has_code("-39_001") && has_code("=> 4444"));
    assert!(!has_code("from -3 to 4") && !has_code("32700") && !has_code("x44445"));
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test && !CODES.contains(&source.path.as_str()))
    {
        for (number, line) in source.code(false).filter(|(_, line)| has_code(line)) {
            violations.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    check_none("an error's number outside of rpc::error", &violations);
}

/// Calls that no code makes, each with its reason; `.clippy.toml` bans what has a path.
const BANNED: &[(&str, &str)] = &[
    ("do_send", "unbounded: take a permit, then send"),
    ("unbounded", "every queue has a bound"),
    ("todo!(", "no stub"),
    ("unimplemented!(", "no stub"),
    ("dbg!(", "not for a release"),
];

#[test]
fn banned_calls() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"]) {
        for (number, line) in source.code(true) {
            for (word, why) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                violations.push(format!("{}:{number}: {word}: {why}", source.path));
            }
        }
    }
    check_none("banned", &violations);
}

/// What neither input, nor a peer, nor a disk may cause.
#[test]
fn no_panic_outside_tests() {
    let words = [".unwrap()", ".expect(", "unreachable!(", "panic!("];
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test)
    {
        for (number, line) in source
            .code(false)
            .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        {
            violations.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    check_none("a panic outside tests", &violations);
}

/// Tests run, and wait for states instead of time.
#[test]
fn tests_are_run_and_do_not_sleep() {
    let ignored = concat!("#[", "ignore");
    let sleeps = [concat!("thread::", "sleep"), concat!("time::", "sleep(")];
    let mut violations = Vec::new();
    for source in sources(&["src", "actors", "tests"]) {
        for (number, line) in source.code(true) {
            let sleeping = source.is_test && sleeps.iter().any(|sleep| line.contains(sleep));
            if line.contains(ignored) || sleeping {
                violations.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    check_none("ignored, or asleep", &violations);
}
