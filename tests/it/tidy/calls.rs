//! Names that only one place may use, and calls that are banned.

use super::{check_none, source::sources};

/// Names that only these files may use: the name, the files, the reason.
const EXCLUSIVE: &[(&str, &[&str], &str)] = &[
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
            // A service manager names the sockets that it passes on in the environment.
            "src/listeners/inherited.rs",
            // Separate programs, which take the names of what they measure as arguments.
            "actors/chain/benches/",
        ],
        "every option is in the table of config/mod.rs",
    ),
    (
        "crate::http",
        &["src/service", "src/listeners.rs", "src/http", "src/admin"],
        "HTTP is one transport: only its starters and its other routes know it",
    ),
    (
        "head.store(",
        &["actors/src/head_tracker"],
        "one writer: the head tracker",
    ),
    (
        "process::exit",
        &["src/main.rs"],
        "only main ends the process",
    ),
    (
        "prometheus",
        &["src/metrics", "src/admin/probes.rs"],
        "metrics are defined in one folder and served by one route",
    ),
];

#[test]
fn some_names_are_used_in_one_place_only() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test)
    {
        let lines: Vec<_> = source.words().collect();
        for (word, places, why) in EXCLUSIVE {
            if places.iter().any(|place| source.path.starts_with(place)) {
                continue;
            }
            for (number, line) in lines.iter().filter(|(_, line)| line.contains(word)) {
                let line = line.trim();
                violations.push(format!("{}:{number}: {line}  ({why})", source.path));
            }
        }
    }
    check_none("used in another place", &violations);
}

/// Whether a line has one of JSON-RPC's error codes: -32xxx, -38xxx, -39xxx or 4444, digits grouped
/// or not.
fn has_code(line: &str) -> bool {
    let line = line.replace('_', "");
    line.split(|character: char| !(character.is_ascii_digit() || character == '-'))
        .any(|word| match word.strip_prefix('-') {
            Some(digits) => {
                digits.len() == 5
                    && ["32", "38", "39"]
                        .iter()
                        .any(|start| digits.starts_with(start))
            }
            None => word == "4444",
        })
}

/// Files that may contain error codes: of errors that are sent, of those inside of results, and of
/// upstreams' errors.
const CODES: [&str; 4] = [
    "src/rpc/error.rs",
    "src/rpc/error/simulation.rs",
    "actors/chain/src/call/simulation/result.rs",
    "actors/src/upstream/client/error_code.rs",
];

#[test]
fn error_codes_are_in_few_files_only() {
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
    check_none("an error code outside its files", &violations);
}

/// Calls that no code may make, each with the reason. `.clippy.toml` bans those that have a path.
const BANNED: &[(&str, &str)] = &[
    ("do_send", "unbounded: take a permit, then send"),
    ("unbounded", "every queue has a bound"),
    ("todo!(", "no stub"),
    ("unimplemented!(", "no stub"),
    ("dbg!(", "for debugging only"),
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

/// Neither input, nor a peer, nor a disk may cause a panic.
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

/// No test is ignored, and tests wait for states instead of sleeping.
#[test]
fn tests_are_not_ignored_and_do_not_sleep() {
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
    check_none("an ignored test, or one that sleeps", &violations);
}
