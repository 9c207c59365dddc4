//! The command line: help, check, refusals with their exit codes, and that a key is never told.

use std::{fs, path::PathBuf, process::Command};

use crate::harness::{Connection, KEY, Process, Server, check, json, nearhead, scratch, vectors};

/// Exit code, standard output and error together.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    run_with(arguments, &[])
}

fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = nearhead(arguments.iter().copied());
    command.envs(environment.iter().copied());
    let (status, text) = Process::start(&mut command).wait();
    (status.code(), text)
}

/// A file with this text in a folder of its own.
fn file(name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = scratch(&format!("cli-{name}")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn help_names_every_option_and_fits_a_terminal() {
    let (code, help) = run(&["--help"]);
    check("--help", &code, &Some(0));
    for option in nearhead::config::OPTIONS {
        assert!(
            help.contains(&format!("--{}", option.name)),
            "--{} is not in --help:\n{help}",
            option.name
        );
    }
    for command in ["check", "export"] {
        assert!(
            help.contains(command),
            "{command} is not in --help:\n{help}"
        );
    }
    for line in help.lines() {
        assert!(
            line.chars().count() <= 100,
            "a line of --help is too long: {line}"
        );
    }
    let (code, version) = run(&["--version"]);
    check(
        "--version",
        &(code, version.trim()),
        &(Some(0), concat!("nearhead ", env!("CARGO_PKG_VERSION"))),
    );
}

#[test]
fn check_prints_the_resolved_configuration_without_secrets() {
    let config = file(
        "check.toml",
        "workers = 3\nlog-format = \"json\"\nblock-time = \"5s\"\n",
    );
    let arguments = [
        "check",
        "--config",
        config.to_str().unwrap(),
        "--block-time",
        "7s",
        "--api-key",
        "alice=topsecret",
    ];
    let (code, text) = run_with(
        &arguments,
        &[("NEARHEAD_WORKERS", "2"), ("NEARHEAD_BLOCK_TIME", "6s")],
    );
    check("check", &code, &Some(0));
    let value = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} is not printed:\n{text}"))
            .to_owned()
    };
    for (name, expected) in [
        ("block-time", "7s"),
        ("workers", "2"),
        ("log-format", "json"),
        ("source", "dev"),
    ] {
        assert!(
            value(name).contains(expected),
            "flag > environment > file > default: {}",
            value(name)
        );
    }
    assert!(
        !text.contains("topsecret"),
        "the secret is printed:\n{text}"
    );
    assert!(value("api-key").contains("alice"), "{}", value("api-key"));
}

/// Option, a value that it does not take, and what the message says of what it takes.
const WRONG: &[(&str, &str, &str)] = &[
    ("source", "node.js", "dev"),
    ("listen", "localhost", "127.0.0.1:8545"),
    ("listen", "127.0.0.1:65536", "127.0.0.1:8545"),
    ("workers", "0", "from 1"),
    ("workers", "-1", "from 1"),
    ("workers", "two", "from 1"),
    ("pool-threads", "0", "from 1"),
    ("seed", "-5", "from 0"),
    ("seed", "18446744073709551616", "from 0"),
    ("block-time", "1", "500ms"),
    ("block-time", "2h", "1h"),
    ("block-time", "fast", "500ms"),
    ("logs-deadline", "0ms", "1ms"),
    ("logs-deadline", "10", "1ms"),
    ("header-timeout", "999ms", "1s"),
    ("body-timeout", "", "100ms"),
    ("keep-alive", "0s", "1s"),
    ("shutdown-grace", "1500ms", "whole seconds"),
    ("methods", "all", "companion"),
    ("omit-total-difficulty", "maybe", "true or false"),
    ("log-format", "xml", "json"),
    ("profile", "huge", "mainnet"),
    ("reorg-every", "often", "from 0"),
    ("reorg-depth", "0", "from 1"),
    ("reorg-depth", "128", "127"),
    ("rate-limit", "-1", "from 0"),
    ("max-connections", "0", "from 1"),
];

#[test]
fn a_wrong_value_is_one_line_that_says_what_is_accepted() {
    for (name, value, accepted) in WRONG {
        let flag = format!("--{name}={value}");
        let variable = format!("NEARHEAD_{}", name.to_uppercase().replace('-', "_"));
        let key = if value.parse::<i64>().is_ok() {
            format!("{name} = {value}\n")
        } else {
            format!("{name} = {value:?}\n")
        };
        let config = file(&format!("wrong-{name}.toml"), key);
        let from_file = ["--config", config.to_str().unwrap()];
        for (form, answer) in [
            (format!("--{name}"), run(&[&flag])),
            (variable.clone(), run_with(&[], &[(&variable, value)])),
            ((*name).to_owned(), run(&from_file)),
        ] {
            let (code, text) = answer;
            check(&format!("{form} {value}: {text}"), &code, &Some(2));
            check(
                &format!("{form} {value}: one line: {text}"),
                &text.lines().count(),
                &1,
            );
            for part in [form.as_str(), value, accepted] {
                assert!(
                    text.contains(part),
                    "{form} {value}: {part:?} is not in: {text}"
                );
            }
        }
    }
}

#[test]
fn what_there_is_not_is_refused() {
    for (arguments, part) in [
        (vec!["--no-such-option"], "--no-such-option"),
        (vec!["no-such-command"], "no-such-command"),
        (vec!["--config", "/no/such/file.toml"], "/no/such/file.toml"),
        (vec!["export", "--genesis", "g.json"], "--chain"),
    ] {
        let (code, text) = run(&arguments);
        check(
            &format!("{arguments:?}: {text}"),
            &(code, text.lines().count()),
            &(Some(2), 1),
        );
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    let config = file("unknown.toml", "wrokers = 1\n");
    let (code, text) = run(&["--config", config.to_str().unwrap()]);
    check(&text, &(code, text.lines().count()), &(Some(2), 1));
    assert!(text.contains("wrokers"), "{text}");
}

#[test]
fn without_a_key_it_starts_only_where_nobody_else_can_ask() {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| vectors().join(name).display().to_string());
    for arguments in [
        vec!["--listen", "0.0.0.0:0"],
        vec!["--listen", "[::]:0"],
        vec![
            "--source",
            "files",
            "--genesis",
            &genesis,
            "--chain",
            &chain,
        ],
    ] {
        let (code, text) = run(&arguments);
        check(
            &format!("{arguments:?}: {text}"),
            &(code, text.lines().count()),
            &(Some(2), 1),
        );
        assert!(
            text.contains("--api-key"),
            "{arguments:?} does not say how to make a key: {text}"
        );
    }
}

#[test]
fn a_wrong_key_value_is_hidden() {
    let (code, text) = run(&["--api-key", "alice=not a good secret"]);
    check(&text, &(code, text.lines().count()), &(Some(2), 1));
    assert!(
        text.contains("--api-key") && !text.contains("not a good secret"),
        "{text}"
    );
}

/// Keys that are right, wrong, in a path that is not there: none is told, whatever is logged.
#[test]
fn keys_are_in_no_log_metric_or_error() {
    for format in ["text", "json"] {
        check_secrets_are_kept(format);
    }
}

fn check_secrets_are_kept(format: &str) {
    let secrets = ["s3cr3t-of-alice", "s3cr3t-of-nobody"];
    let mut process = nearhead([
        "--listen",
        "127.0.0.1:0",
        "--api-key",
        "alice=s3cr3t-of-alice",
        // Everything but the tries of the chain that is made at the start, which are megabytes of
        // it.
        "--log-filter",
        "trace,trie=off",
        "--log-format",
        format,
        "--block-time",
        "0s",
    ]);
    let server = Server::of(&mut process);
    let mut said = String::new();
    for secret in secrets {
        for path in [
            format!("/v3/{secret}"),
            format!("/v3/{secret}/x"),
            format!("/ws/v3/{secret}"),
            format!("/{secret}"),
        ] {
            let mut connection = Connection::open(server.address, &path);
            for body in [
                r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#,
                "x",
                "[]",
            ] {
                let response = connection.post(body);
                said.push_str(&format!("{:?} {}\n", response.headers, response.text()));
            }
            let response = server.get(&path);
            said.push_str(&format!("{:?} {}\n", response.headers, response.text()));
        }
    }
    said.push_str(server.get("/metrics").text());
    server.process.terminate();
    let (_, output) = server.process.wait();
    said.push_str(&output);
    // What is not the greeting is a log line, and every one of them is an object.
    let logged = output.lines().filter(|line| line.contains("eth_chainId"));
    let logged: Vec<&str> = logged.filter(|line| !line.starts_with("try ")).collect();
    assert!(!logged.is_empty(), "requests are not logged:\n{output}");
    if format == "json" {
        for line in output.lines().filter(|line| line.starts_with('{')) {
            let line = json(line.as_bytes());
            let has = |member: &str| line[member].is_string();
            assert!(has("timestamp") && has("level") && has("target"), "{line}");
        }
        let other = logged.iter().find(|line| !line.starts_with('{'));
        check("a line that is no JSON", &other, &None);
    }
    for secret in secrets {
        let line = said.lines().find(|line| line.contains(secret));
        check(&format!("{format}: a line with {secret}"), &line, &None);
    }
}

/// What the start says: what is served and where, and a line to try it with, which tells no key.
#[test]
fn the_greeting_says_what_is_served_and_where() {
    let [genesis, chain] =
        ["genesis.json", "chain.rlp"].map(|name| vectors().join(name).display().to_string());
    let files = [
        "--source",
        "files",
        "--genesis",
        &genesis,
        "--chain",
        &chain,
    ];
    let dev = ["--block-time", "0s", "--seed", "9"];
    for (name, source, key) in [
        ("dev, seed 9", &dev[..], None),
        ("dev, seed 9", &dev, Some(KEY)),
        ("files", &files, Some(KEY)),
    ] {
        for methods in ["companion", "core"] {
            let mut command = nearhead(["--listen", "127.0.0.1:0", "--methods", methods]);
            command.args(source);
            command.args(key.into_iter().flat_map(|key| ["--api-key", key]));
            check_greeting(&Server::of(&mut command), name, methods, key);
        }
    }
}

fn check_greeting(server: &Server, source: &str, methods: &str, key: Option<&str>) {
    let said = |name: &str| {
        server.process.output.wait_for(name, |text| {
            let lines = text
                .split_inclusive('\n')
                .filter_map(|line| line.strip_suffix('\n'));
            let mut said = lines.filter_map(|line| line.strip_prefix(name));
            said.next().map(|said| said.trim_start().to_owned())
        })
    };
    check(
        "version",
        &said("nearhead ").as_str(),
        &env!("CARGO_PKG_VERSION"),
    );
    check("source", &said("source ").as_str(), &source);
    let head = said("head ");
    let (number, hash) = head.split_once(' ').unwrap();
    let url = format!("http://{}/v3", server.address);
    check("url", &said("url "), &format!("{url}/<API_KEY>"));

    // Whoever has the key types it; the line works when it is pasted.
    let (ask, shown) = match key {
        Some(_) => ("printf 'key: '; read -r KEY; ", "$KEY"),
        None => ("", "dev"),
    };
    let line = said("try ");
    let start = format!("{ask}curl -s {url}/{shown} ");
    assert!(
        line.starts_with(&start),
        "{line} does not begin with {start}"
    );
    let script = format!("{{ {line}; }} <<< '{}'", key.unwrap_or_default());
    let (status, answer) = Process::start(Command::new("bash").args(["-c", &script])).wait();
    assert!(status.success(), "{script}: {answer}");
    let answer = json(&answer.as_bytes()[answer.find('{').unwrap()..]);
    let number = format!("{:#x}", number.parse::<u64>().unwrap());
    let result = &answer["result"];
    match methods {
        "core" => check(
            "head",
            &(&result["hash"], &result["number"]),
            &(&hash.into(), &number.into()),
        ),
        _ => check("head", result, &number.into()),
    }
}

/// A chain file with one block made wrong: exit code 1, the block and the check are named, nothing
/// is served.
#[test]
fn a_bad_block_stops_the_import() {
    let good = fs::read(vectors().join("chain.rlp")).unwrap();
    let blocks = split(&good);
    let flipped = |block: usize, field: usize| {
        let mut bytes = good.clone();
        let at = blocks[block - 1].fields[field];
        bytes[at + 5] ^= 1;
        bytes
    };
    let without = |block: usize| {
        [
            &good[..blocks[block - 1].start],
            &good[blocks[block].start..],
        ]
        .concat()
    };
    let cases = [
        ("parent", flipped(7, 0), "block 7", "parent"),
        ("ommers", flipped(7, 1), "block 7", "ommers"),
        ("state-root", flipped(20, 3), "block 20", "state root"),
        (
            "transactions-root",
            flipped(8, 4),
            "block 8",
            "transactions root",
        ),
        ("receipts-root", flipped(30, 5), "block 30", "receipts root"),
        ("bloom", flipped(2, 6), "block 2", "bloom"),
        (
            "withdrawals-root",
            flipped(45, 16),
            "block 45",
            "withdrawals root",
        ),
        (
            "requests-hash",
            flipped(54, 20),
            "block 54",
            "requests hash",
        ),
        ("missing", without(10), "block 11", "parent"),
        (
            "truncated",
            good[..good.len() - 10].to_vec(),
            "block 54",
            "",
        ),
        (
            "garbage",
            [&good[..blocks[20].start], &[0x83, 1, 2]].concat(),
            "block 21",
            "",
        ),
    ];
    for (name, chain, block, checked) in cases {
        let chain = file(&format!("{name}.rlp"), chain);
        let genesis = vectors().join("genesis.json");
        let files = [
            "--genesis",
            genesis.to_str().unwrap(),
            "--chain",
            chain.to_str().unwrap(),
        ];
        let fixed = [
            "--listen",
            "127.0.0.1:0",
            "--api-key",
            "k",
            "--source",
            "files",
        ];
        let (code, text) = run(&[&fixed[..], &files[..]].concat());
        check(&format!("{name}: {text}"), &code, &Some(1));
        for part in [block, checked] {
            assert!(text.contains(part), "{name}: {part:?} is not in: {text}");
        }
        assert!(!text.contains("http://"), "{name}: it serves: {text}");
    }
}

/// Where a block begins in the file, and where the content of each of its header's fields does.
struct Place {
    start: usize,
    fields: Vec<usize>,
}

fn split(file: &[u8]) -> Vec<Place> {
    use alloy_rlp::Header;
    let mut places = Vec::new();
    let mut rest = file;
    while !rest.is_empty() {
        let start = file.len() - rest.len();
        let mut block = Header::decode_bytes(&mut rest, true).unwrap();
        let mut header = Header::decode_bytes(&mut block, true).unwrap();
        let mut fields = Vec::new();
        while !header.is_empty() {
            let content = Header::decode_bytes(&mut header, false).unwrap();
            fields.push(content.as_ptr() as usize - file.as_ptr() as usize);
        }
        places.push(Place { start, fields });
    }
    places
}
