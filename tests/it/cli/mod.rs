//! The command line: help, check, refusals with their exit codes, and the secrecy of keys.

#[cfg(feature = "all-tests")]
mod files;
mod health;
mod panics;

use std::{fs, net::TcpListener, path::PathBuf};

use crate::harness::{Connection, Process, Server, UnusedPort, check, json, nearhead, scratch};

/// Runs the program; returns its exit code and its whole output.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    run_with(arguments, &[])
}

fn run_with(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = nearhead(arguments.iter().copied());
    command.envs(environment.iter().copied());
    let (status, text) = Process::start(&mut command).wait();
    (status.code(), text)
}

/// Writes a file into a new folder.
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

/// Option, invalid value, and the part of the message that says what is accepted.
const WRONG: &[(&str, &str, &str)] = &[
    ("source", "node.js", "dev"),
    ("listen", "localhost", "127.0.0.1:8545"),
    ("listen", "127.0.0.1:65536", "127.0.0.1:8545"),
    ("admin-listen", "on", "off, or"),
    ("metrics-listen", "9090", "127.0.0.1:9090"),
    ("allowed-host", "localhost:1", "without a port"),
    ("trusted-proxy", "10.0.0.0/33", "10.0.0.0/8"),
    ("admin-proxy-header", "x user", "the name of a header"),
    ("public-url", "rpc.example.org", "https://rpc.example.org"),
    (
        "public-url",
        "https://rpc.example.org/?a",
        "without a query",
    ),
    (
        "public-url",
        "ftp://rpc.example.org",
        "https://rpc.example.org",
    ),
    ("open", "yes", "true or false"),
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
    ("call-gas-max", "20999", "from 21000"),
    ("call-gas-max", "0x5208", "from 21000"),
    ("call-timeout", "0s", "1ms"),
    ("head-age-max", "999ms", "auto, off"),
    ("head-age-max", "25h", "24h"),
    ("head-age-max", "none", "auto, off"),
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
    ("quorum", "0", "auto or a whole number from 1"),
    ("quorum", "17", "the number of nodes"),
    ("network", "holesky", "mainnet, sepolia or hoodi"),
    ("chain-id", "0", "from 1"),
    ("trusted-block", "7:0x11", "64 hex digits"),
    ("header-rules", "strict", "auto, on or off"),
    ("max-connections", "0", "from 1"),
    ("connections-per-address", "off", "auto or a whole number"),
    (
        "reply-bytes",
        "1048575",
        "auto or a whole number from 1048576",
    ),
];

#[test]
fn a_wrong_value_is_refused_in_one_line_with_what_is_accepted() {
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
fn unknown_options_commands_and_files_are_refused() {
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

/// What may not be forwarded, or not with this source, is one line that says so.
#[test]
fn methods_that_are_not_forwarded_are_refused_at_the_start() {
    let node = ["--source", "node", "--node", "http://127.0.0.1:1"];
    let dev = ["--source", "dev"];
    for (source, methods, part) in [
        (
            &node[..],
            "eth_sendRawTransaction,txpool_status,trace_block",
            None,
        ),
        (
            &node,
            "eth_chainId",
            Some("nearhead answers this method itself"),
        ),
        (
            &node,
            "txpool_status,eth_getLogs",
            Some("--forward eth_getLogs: "),
        ),
        (&node, "admin_peers", Some("never forwarded")),
        (&node, "engine_newPayloadV4", Some("never forwarded")),
        (&node, "personal_sign", Some("never forwarded")),
        (&node, "debug_traceTransaction", Some("never forwarded")),
        (&node, "Miner_start", Some("never forwarded")),
        (&node, "anvil_setBalance", Some("never forwarded")),
        (
            &node,
            "eth_sendrawtransaction",
            Some("write it eth_sendRawTransaction"),
        ),
        (&node, "eth_sign", Some("never forwarded")),
        (&node, "eth_signTransaction", Some("never forwarded")),
        (&node, "eth_sendTransaction", Some("never forwarded")),
        (
            &node,
            "eth_newPendingTransactionFilter",
            Some("never forwarded, use eth_newFilter or eth_subscribe"),
        ),
        (
            &node,
            "eth_subscribe",
            Some("nearhead answers this method itself"),
        ),
        (&node, "", Some("the name of a method")),
        (&node, "txpool status", Some("the name of a method")),
        (&node, "txpool_status,", Some("the name of a method")),
        (&dev, "txpool_status", Some("it needs --source node")),
        (&[], "txpool_status", Some("add --source node")),
    ] {
        for command in [&["check"][..], &[]] {
            // Without a reason not to, it would serve.
            if command.is_empty() && part.is_none() {
                continue;
            }
            let arguments = [command, source, &["--forward", methods]].concat();
            let (code, text) = run(&arguments);
            let case = format!("{arguments:?}: {text}");
            match part {
                None => {
                    check(&case, &code, &Some(0));
                    assert!(text.contains("eth_sendRawTransaction, txpool_status, trace_block"));
                }
                Some(part) => {
                    check(&case, &(code, text.trim().lines().count()), &(Some(2), 1));
                    assert!(text.contains(part), "{case}");
                }
            }
        }
    }
}

#[test]
fn an_invalid_key_is_not_printed() {
    let (code, text) = run(&["--api-key", "alice=not a good secret"]);
    check(&text, &(code, text.lines().count()), &(Some(2), 1));
    assert!(
        text.contains("--api-key") && !text.contains("not a good secret"),
        "{text}"
    );
}

/// Valid and invalid keys, on known and unknown paths, with all logs enabled.
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
        // Everything but the tries of the dev chain, which log megabytes at the start.
        "--log-filter",
        "trace,trie=off",
        "--log-format",
        format,
        "--block-time",
        "0s",
    ]);
    let server = Server::of(&mut process);
    let mut seen = String::new();
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
                seen.push_str(&format!("{:?} {}\n", response.headers, response.text()));
            }
            let response = server.get(&path);
            seen.push_str(&format!("{:?} {}\n", response.headers, response.text()));
        }
    }
    seen.push_str(server.get_admin("/metrics").text());
    server.process.terminate();
    let (_, output) = server.process.wait();
    seen.push_str(&output);
    // Every line outside the greeting is a log line; in JSON format each is an object.
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
        check("a line that is not JSON", &other, &None);
    }
    for secret in secrets {
        let line = seen.lines().find(|line| line.contains(secret));
        check(&format!("{format}: a line with {secret}"), &line, &None);
    }
}

/// The configuration file, the completions and the man page.
#[test]
fn what_is_written_from_the_options_can_be_used() {
    let file = scratch("cli-init").join("nearhead.toml");
    let path = file.to_str().unwrap();
    let (code, text) = run(&["init", path]);
    check(&text, &code, &Some(0));
    let (code, text) = run(&["check", "--config", path]);
    check(&text, &code, &Some(0));
    fs::write(&file, "workers = 3").unwrap();
    let (code, text) = run(&["init", path]);
    check(&text, &code, &Some(1));
    check(
        "what was there",
        &fs::read_to_string(&file).unwrap().as_str(),
        &"workers = 3",
    );
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = run(&["completions", shell]);
        check(shell, &code, &Some(0));
        for word in ["nearhead", "logs-deadline", "tenant"] {
            assert!(script.contains(word), "{shell} completes no {word}");
        }
    }
    let (code, text) = run(&["completions", "cmd"]);
    check(&text, &code, &Some(2));
    let (code, page) = run(&["man"]);
    check("man", &code, &Some(0));
    assert!(
        page.contains(".SH NAME") && page.contains("logs\\-deadline"),
        "{page}"
    );
}

/// What is looked at, each with what to change.
#[test]
fn the_doctor_says_what_to_change() {
    let (code, text) = run(&[
        "doctor",
        "--listen",
        "127.0.0.1:0",
        "--max-connections",
        "9",
    ]);
    check(&text, &code, &Some(0));
    for good in ["good  descriptors:", "good  --listen:", "data folder:"] {
        assert!(text.contains(good), "{good} is not in\n{text}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let nobody = UnusedPort::take();
    let node = format!("http://{}", nobody.address());
    let folder = ["--data-dir", "/proc/nowhere"];
    let source = ["--source", "node", "--node", &node, "--listen", &address];
    let (code, text) = run(&[&["doctor"], &source[..], &folder].concat());
    check(&text, &code, &Some(1));
    for bad in [
        format!("BAD   --listen: {address} cannot be listened on"),
        "BAD   data folder: /proc/nowhere cannot be written".to_owned(),
        "BAD   quorum: 1 of 1 nodes have to agree, and 0 can".to_owned(),
        format!("BAD   {node}: it does not answer"),
    ] {
        assert!(text.contains(&bad), "{bad} is not in\n{text}");
    }
}
