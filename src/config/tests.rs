#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, ffi::OsString, fs, path::PathBuf};

use proptest::prelude::*;

use super::{
    resolve::{Origin, Setting},
    *,
};

/// A configuration file, removed when the value is dropped. In one test, the same text has the same
/// path.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        // Tests with the same text run in parallel, each on its own thread.
        let owner = (std::process::id(), std::thread::current().id());
        let name = alloy_primitives::keccak256(format!("{owner:?} {text}"));
        let path = std::env::temp_dir().join(format!("nearhead-{name}.toml"));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Resolves a command from flags, an environment and a file's text.
fn command(
    flags: &[&str],
    environment: &[(&str, &str)],
    toml: Option<&str>,
) -> Result<Command, CommandError> {
    let mut arguments: Vec<OsString> = std::iter::once("nearhead")
        .chain(flags.iter().copied())
        .map(OsString::from)
        .collect();
    let file = toml.map(File::new);
    if let Some(File(path)) = &file {
        arguments.extend([OsString::from("--config"), path.into()]);
    }
    let variable = |name: &str| {
        environment
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| OsString::from(value))
    };
    Command::resolve(arguments, &variable)
}

fn resolved(flags: &[&str], environment: &[(&str, &str)], toml: Option<&str>) -> Resolved {
    match command(flags, environment, toml).unwrap() {
        Command::Serve(resolved) | Command::Check(resolved) => resolved,
        other => panic!("{other:?}"),
    }
}

fn setting<'a>(resolved: &'a Resolved, name: &str) -> &'a Setting {
    resolved
        .settings
        .iter()
        .find(|setting| setting.name == name)
        .unwrap()
}

/// For each option, a valid value other than its default, and how it is shown.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("source", "files", "files"),
    ("genesis", "g.json", "g.json"),
    ("chain", "c.rlp", "c.rlp"),
    ("node", "http://127.0.0.1:1", "http://127.0.0.1:1"),
    ("node-concurrency", "3", "3"),
    ("node-timeout", "500ms", "500ms"),
    ("node-calls-per-key", "50", "50"),
    ("state-bytes", "1048576", "1048576"),
    ("quorum", "3", "3"),
    ("network", "hoodi", "hoodi"),
    ("chain-id", "100", "100"),
    (
        "trusted-block",
        "7:0x1111111111111111111111111111111111111111111111111111111111111111",
        "7:0x1111111111111111111111111111111111111111111111111111111111111111",
    ),
    ("header-rules", "off", "off"),
    ("data-dir", "data", "data"),
    ("seed", "7", "7"),
    ("profile", "mainnet", "mainnet"),
    ("block-time", "250ms", "250ms"),
    ("reorg-every", "10", "10"),
    ("reorg-depth", "3", "3"),
    ("listen", "[::1]:1", "[::1]:1"),
    ("admin-listen", "127.0.0.1:2", "127.0.0.1:2"),
    ("metrics-listen", "[::]:3", "[::]:3"),
    ("workers", "77", "77"),
    ("pool-threads", "78", "78"),
    ("max-connections", "9", "9"),
    ("header-timeout", "1s", "1s"),
    ("body-timeout", "2m", "120s"),
    ("keep-alive", "1h", "3600s"),
    ("max-sessions", "8", "8"),
    ("max-sessions-per-key", "7", "7"),
    ("session-bytes", "524288", "524288"),
    ("head-age-max", "2m", "120s"),
    ("shutdown-grace", "0", "0s"),
    ("api-key", "alice=secret", "1 hidden (alice)"),
    (
        "allowed-host",
        "Dev.example.org,10.1.2.3",
        "dev.example.org, 10.1.2.3",
    ),
    ("trusted-proxy", "10.1.2.3/8,::1", "10.0.0.0/8, ::1/128"),
    ("admin-proxy-header", "X-Forwarded-User", "x-forwarded-user"),
    (
        "public-url",
        "https://rpc.example.org/eth/",
        "https://rpc.example.org/eth",
    ),
    ("open", "true", "true"),
    ("rate-limit", "100", "100"),
    ("tenant-metrics", "true", "true"),
    ("methods", "core", "core"),
    ("omit-total-difficulty", "true", "true"),
    ("logs-deadline", "1500ms", "1500ms"),
    ("log-format", "json", "json"),
    ("log-filter", "warn,nearhead=trace", "warn,nearhead=trace"),
];

#[test]
fn option_names_are_unique_and_defaults_are_accepted() {
    let names: BTreeSet<_> = OPTIONS.iter().map(|option| option.name).collect();
    assert_eq!(names.len(), OPTIONS.len(), "a name occurs twice");
    assert_eq!(
        names,
        SAMPLES.iter().map(|(name, ..)| *name).collect(),
        "every option is in the tests' table"
    );
    for option in OPTIONS {
        assert!(
            option
                .name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-'),
            "{}",
            option.name
        );
        let default = option.default();
        if default != "none" {
            let mut config = Config::default();
            (option.set)(&mut config, std::slice::from_ref(&default)).unwrap();
            assert_eq!(
                (option.show)(&config),
                default,
                "{}: the default is accepted",
                option.name
            );
        }
    }
}

/// Every option, in each form, with a bad value in the forms that it overrides.
#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    // Makes the configuration complete whatever the option under test is.
    let rest = [
        "--api-key=rest",
        "--source=files",
        "--genesis=rest",
        "--chain=rest",
        "--trusted-proxy=127.0.0.1",
    ];
    for (name, value, shown) in SAMPLES {
        let option = OPTIONS.iter().find(|option| option.name == *name).unwrap();
        let rest: Vec<_> = rest
            .iter()
            .copied()
            .filter(|flag| !flag.starts_with(&format!("--{name}=")))
            .collect();
        let flag = format!("--{name}={value}");
        let with_flag = [&rest[..], &[&flag]].concat();
        let variable = option.environment();
        let in_file = format!("{name} = {value:?}");
        let bad_file = format!("{name} = []");
        let check =
            |flags: &[&str], environment: &[(&str, &str)], toml: Option<&str>, origin: Origin| {
                let resolved = resolved(flags, environment, toml);
                let Setting {
                    value,
                    origin: found,
                    ..
                } = setting(&resolved, name);
                assert_eq!((value.as_str(), found), (*shown, &origin), "{name}");
            };
        check(
            &with_flag,
            &[(&variable, "wrong=,")],
            Some(&bad_file),
            Origin::Flag,
        );
        check(
            &rest,
            &[(&variable, value)],
            Some(&bad_file),
            Origin::Environment(variable.clone()),
        );
        check(
            &rest,
            &[],
            Some(&in_file),
            Origin::File(File::new(&in_file).0.clone()),
        );
    }
    let nothing = resolved(&[], &[], None);
    for option in OPTIONS.iter().filter(|option| !option.is_list()) {
        let expected = Setting {
            name: option.name,
            value: option.default(),
            origin: Origin::Default,
        };
        assert_eq!(setting(&nothing, option.name), &expected);
    }
}

#[test]
fn the_file_may_be_named_by_the_environment_and_hold_numbers_booleans_and_lists() {
    let file =
        File::new("workers = 3\nomit-total-difficulty = true\napi-key = [\"a=1\", \"b=2\"]\n");
    let resolved = resolved(&[], &[("NEARHEAD_CONFIG", file.0.to_str().unwrap())], None);
    assert_eq!(resolved.config.workers, 3);
    assert!(resolved.config.omit_total_difficulty);
    assert_eq!(setting(&resolved, "api-key").value, "2 hidden (a, b)");
}

#[test]
fn a_switch_needs_no_value() {
    assert!(
        resolved(&["--omit-total-difficulty"], &[], None)
            .config
            .omit_total_difficulty
    );
    assert!(
        !resolved(&["--omit-total-difficulty=false"], &[], None)
            .config
            .omit_total_difficulty
    );
}

#[test]
fn a_flag_holds_one_key_and_a_variable_several() {
    let keys = |resolved: &Resolved| {
        let keys = resolved.config.api_keys.iter();
        keys.map(|key| (key.tenant.clone(), key.secret().to_owned()))
            .collect::<Vec<_>>()
    };
    let expected = [("alice", "a"), ("key-2", "b"), ("alice", "c")]
        .map(|(name, secret)| (name.into(), secret.into()));
    let flags = [
        "--api-key",
        "alice=a",
        "--api-key",
        "b",
        "--api-key",
        "alice=c",
    ];
    assert_eq!(keys(&resolved(&flags, &[], None)), expected);
    assert_eq!(
        keys(&resolved(
            &[],
            &[("NEARHEAD_API_KEY", "alice=a, b,alice=c")],
            None
        )),
        expected
    );
}

#[test]
fn an_unnamed_key_joins_no_other_tenant() {
    for (given, expected) in [
        ("key-2=a,b", "key-2, key-3"),
        ("a,key-1=b", "key-2, key-1"),
        ("a,b,key-2=c,d", "key-1, key-3, key-2, key-4"),
        ("alice=a,bob=b,alice=c", "alice, bob"),
    ] {
        let resolved = resolved(&["--api-key", given], &[], None);
        let count = given.split(',').count();
        let shown = format!("{count} hidden ({expected})");
        assert_eq!(setting(&resolved, "api-key").value, shown, "{given}");
    }
}

#[test]
fn space_around_a_value_is_ignored() {
    let given = [
        ("NEARHEAD_MAX_SESSIONS", " auto "),
        ("NEARHEAD_WORKERS", " 2 "),
    ];
    let resolved = resolved(&[], &given, None);
    assert_eq!(resolved.config.max_sessions, Cap::Auto);
    assert_eq!(resolved.config.workers, 2);
}

/// Flags, environment, file, and the whole message.
type BadCommand<'a> = (
    &'a [&'a str],
    &'a [(&'a str, &'a str)],
    Option<&'a str>,
    &'a str,
);

#[test]
fn the_error_for_a_bad_value_is_one_line_that_says_what_is_accepted() {
    let commands: &[BadCommand<'_>] = &[
        (
            &["--workers", "0"],
            &[],
            None,
            r#"--workers "0": expected a whole number from 1 to 512"#,
        ),
        (
            &["--workers=-1"],
            &[],
            None,
            r#"--workers "-1": expected a whole number from 1 to 512"#,
        ),
        (
            &["--workers", "+1"],
            &[],
            None,
            r#"--workers "+1": expected a whole number from 1 to 512"#,
        ),
        (
            &["--workers="],
            &[],
            None,
            r#"--workers "": expected a whole number from 1 to 512"#,
        ),
        (
            &[],
            &[("NEARHEAD_WORKERS", "x")],
            None,
            r#"NEARHEAD_WORKERS "x": expected a whole number from 1 to 512"#,
        ),
        (
            &[],
            &[],
            Some("workers = 0"),
            r#"workers in FILE "0": expected a whole number from 1 to 512"#,
        ),
        (
            &[],
            &[],
            Some("workers = [1]"),
            r#"workers in FILE "array": expected a whole number from 1 to 512"#,
        ),
        (
            &[],
            &[],
            Some("wrokers = 1"),
            r#"unknown key "wrokers" in FILE; the keys are the flags of nearhead --help without the dashes"#,
        ),
        (
            &[],
            &[],
            Some("[server]\nworkers = 1"),
            r#"unknown key "server" in FILE; the keys are the flags of nearhead --help without the dashes"#,
        ),
        (
            &[],
            &[],
            Some("seed = 1\nworkers 1"),
            "--config FILE: line 2: key with no value, expected `=`",
        ),
        (
            &["--block-time", "1"],
            &[],
            None,
            r#"--block-time "1": expected a time from 0 to 1h, such as 500ms, 12s or 1m"#,
        ),
        (
            &["--shutdown-grace", "1500ms"],
            &[],
            None,
            r#"--shutdown-grace "1500ms": expected a time in whole seconds from 0 to 1h, such as 10s or 1m"#,
        ),
        (
            &["--listen", "localhost:1"],
            &[],
            None,
            r#"--listen "localhost:1": expected an IP address and a port, such as 127.0.0.1:8545"#,
        ),
        (
            &["--source", "Dev"],
            &[],
            None,
            r#"--source "Dev": expected dev, files or node"#,
        ),
        (
            &["--log-filter", "a=b=c"],
            &[],
            None,
            r#"--log-filter "a=b=c": expected a level (error, warn, info, debug, trace, off) or directives such as nearhead=debug,actix_server=warn"#,
        ),
        (
            &["--api-key", "sw ordfish"],
            &[],
            None,
            "--api-key (hidden): expected NAME=SECRET or SECRET, each of letters, digits, '-', '_', '.' and '~', no secret twice",
        ),
        (
            &["--api-key", "a=x", "--api-key", "b=x"],
            &[],
            None,
            "--api-key (hidden): expected NAME=SECRET or SECRET, each of letters, digits, '-', '_', '.' and '~', no secret twice",
        ),
        (
            &[],
            &[("NEARHEAD_API_KEY", "a=,b")],
            None,
            "NEARHEAD_API_KEY (hidden): expected NAME=SECRET or SECRET, each of letters, digits, '-', '_', '.' and '~', no secret twice",
        ),
        (
            &["--wrokers", "1"],
            &[],
            None,
            "unexpected argument '--wrokers' found; see nearhead --help",
        ),
        (
            &["--workers"],
            &[],
            None,
            "a value is required for '--workers <THREADS>' but none was supplied; see nearhead --help",
        ),
        (
            &["serve"],
            &[],
            None,
            "unrecognized subcommand 'serve'; see nearhead --help",
        ),
        (
            &["export", "--genesis", "g"],
            &[],
            None,
            "the following required arguments were not provided: --chain <FILE>; see nearhead export --help",
        ),
        (
            &["export", "--genesis", "g", "--chain", "c", "--blocks", "0"],
            &[],
            None,
            r#"--blocks "0": expected a whole number from 1 to 1000000"#,
        ),
        (
            &["export", "--genesis", "g", "--chain", "c", "--seed", "x"],
            &[],
            None,
            r#"--seed "x": expected a whole number from 0 to 18446744073709551615"#,
        ),
        (
            &["--source", "files", "--api-key", "k"],
            &[],
            None,
            "--source files needs --genesis FILE",
        ),
        (
            &["--source", "files", "--api-key", "k", "--genesis", "g"],
            &[],
            None,
            "--source files needs --chain FILE",
        ),
        (
            &["--chain", "c"],
            &[],
            None,
            "--chain is given, but the source is dev (the default): add --source files",
        ),
        (
            &["--node", "http://127.0.0.1:1"],
            &[],
            None,
            "--node is given, but the source is dev (the default): add --source node",
        ),
        (
            &["--source", "node", "--api-key", "k"],
            &[],
            None,
            "--source node needs --node URL",
        ),
        (
            &["--source", "node", "--node", "ftp://user:swordfish@host"],
            &[],
            None,
            "--node (hidden): expected a URL with http, https, ws or wss, at most 16 of them",
        ),
        (
            &["--quorum", "0"],
            &[],
            None,
            r#"--quorum "0": expected auto or a whole number from 1 to the number of nodes"#,
        ),
        (
            &["--network", "holesky"],
            &[],
            None,
            r#"--network "holesky": expected mainnet, sepolia or hoodi"#,
        ),
        (
            &["--chain-id", "0"],
            &[],
            None,
            r#"--chain-id "0": expected a whole number from 1 to 18446744073709551615"#,
        ),
        (
            &["--trusted-block", "7:0x11"],
            &[],
            None,
            r#"--trusted-block "7:0x11": expected NUMBER:HASH, with a whole number and 0x with 64 hex digits, at most 16 of them"#,
        ),
        (
            &["--header-rules", "strict"],
            &[],
            None,
            r#"--header-rules "strict": expected auto, on or off"#,
        ),
        (
            &["--chain-id", "5"],
            &[],
            None,
            "--chain-id is given, but the source is dev (the default): add --source node",
        ),
    ];
    for (flags, environment, toml, expected) in commands {
        let message = command(flags, environment, *toml).unwrap_err().to_string();
        let path = toml
            .map(|text| File::new(text).0.display().to_string())
            .unwrap_or_default();
        assert_eq!(
            message,
            expected.replace("FILE", if toml.is_some() { &path } else { "FILE" })
        );
    }
}

#[test]
fn a_missing_file_is_named_with_its_option() {
    let error = command(&["--config", "/no/such.toml"], &[], None)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("--config /no/such.toml: "), "{error}");
    let error = command(&[], &[("NEARHEAD_CONFIG", "/no/such.toml")], None)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("NEARHEAD_CONFIG /no/such.toml: "),
        "{error}"
    );
}

#[test]
fn no_secret_is_shown() {
    let secret = "swordfish";
    let given = format!("alice={secret}");
    let resolved = resolved(&["check", "--api-key", &given], &[], None);
    for shown in [
        resolved.to_string(),
        format!("{resolved:?}"),
        format!("{:?}", resolved.config),
    ] {
        assert!(
            shown.contains("alice") && !shown.contains(secret),
            "{shown}"
        );
    }
    for toml in [
        "api-key = [\"swordfish/\"]",
        "api-key = \"swordfish",
        "api-key = [\"swordfish\", 1.5]",
        "swordfish",
    ] {
        let error = command(&[], &[], Some(toml)).unwrap_err();
        let own_name = toml == "swordfish";
        assert!(own_name || !error.to_string().contains(secret), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn the_dev_key_is_added_only_on_loopback_addresses() {
    for listen in ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0"] {
        let resolved = resolved(&["--listen", listen], &[], None);
        assert_eq!(
            resolved.config.api_keys,
            [ApiKey::default_dev()],
            "{listen}"
        );
    }
    // Without a key, nobody is let in until one is made.
    let files = ["--source=files", "--genesis=g", "--chain=c"];
    let node = ["--source=node", "--node=http://127.0.0.1:1"];
    for arguments in [
        &["--listen", "0.0.0.0:1"][..],
        &["--listen", "[::]:1"],
        &files,
        &node,
    ] {
        let resolved = resolved(arguments, &[], None);
        assert_eq!(resolved.config.api_keys, [], "{arguments:?}");
    }
    let given = resolved(&["--api-key", "dev=dev"], &[], None);
    assert_eq!(given.config.api_keys, [ApiKey::new("dev", "dev")]);
    assert!(
        !given.config.api_keys[0].is_default(),
        "it is like any other"
    );
    let given = resolved(&["--api-key", "alice=a"], &[], None);
    assert_eq!(
        given.config.api_keys,
        [ApiKey::new("alice", "a")],
        "a key that is given takes its place"
    );
}

#[test]
fn help_and_version_are_printed() {
    for (flag, part) in [
        ("--help", "--logs-deadline"),
        ("-h", "Dev chain:"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        match command(&[flag], &[], None).unwrap() {
            Command::Print(text) => assert!(text.contains(part), "{flag}: {text}"),
            other => panic!("{flag}: {other:?}"),
        }
    }
}

#[test]
fn an_export_reads_only_the_command_line() {
    let flags = [
        "export",
        "--genesis",
        "g",
        "--chain",
        "c",
        "--seed",
        "9",
        "--profile",
        "p99",
        "--block-time",
        "12s",
    ];
    let expected = Export {
        genesis: "g".into(),
        chain: "c".into(),
        blocks: 127,
        seed: 9,
        profile: Profile::P99,
        block_time: Duration::from_secs(12),
    };
    match command(&flags, &[("NEARHEAD_SEED", "1")], None).unwrap() {
        Command::Export(export) => assert_eq!(export, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn data_is_kept_where_the_environment_says() {
    let home = ("HOME", "/home/a");
    for (flag, environment, expected) in [
        ("", &[][..], "auto"),
        ("", &[home], "/home/a/.local/share/nearhead"),
        ("", &[home, ("XDG_DATA_HOME", "/data")], "/data/nearhead"),
        // XDG has relative paths ignored.
        (
            "",
            &[home, ("XDG_DATA_HOME", "data")],
            "/home/a/.local/share/nearhead",
        ),
        ("", &[("HOME", "a")], "auto"),
        ("", &[("HOME", "")], "auto"),
        (
            "",
            &[home, ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")],
            "/var/lib/a",
        ),
        (
            "",
            &[home, ("STATE_DIRECTORY", "")],
            "/home/a/.local/share/nearhead",
        ),
        ("--data-dir=auto", &[home], "/home/a/.local/share/nearhead"),
        ("--data-dir=none", &[home], "none"),
        ("--data-dir=./auto", &[home], "./auto"),
    ] {
        let flags = [flag].into_iter().filter(|flag| !flag.is_empty());
        let resolved = resolved(&flags.collect::<Vec<_>>(), environment, None);
        let found = &setting(&resolved, "data-dir").value;
        assert_eq!(found, expected, "{flag} {environment:?}");
    }
}

/// A source node with this many nodes and these flags.
fn following(nodes: usize, flags: &[&str]) -> Result<Command, CommandError> {
    let nodes: Vec<String> = (1..=nodes)
        .map(|at| format!("--node=http://127.0.0.{at}:1"))
        .collect();
    let mut all = vec!["--source=node", "--api-key=k"];
    all.extend(
        nodes
            .iter()
            .map(String::as_str)
            .chain(flags.iter().copied()),
    );
    command(&all, &[], None)
}

/// Sixty-four times the same hex digit.
fn hash(digit: char) -> String {
    format!("0x{}", digit.to_string().repeat(64))
}

#[test]
fn a_quorum_is_at_most_all_nodes() {
    for (nodes, quorum, error) in [
        (1, "auto", ""),
        (1, "1", ""),
        (3, "1", ""),
        (3, "3", ""),
        (16, "16", ""),
        (
            1,
            "2",
            "--quorum 2 is more than the number of nodes, 1: add --node URL, or lower --quorum",
        ),
        (
            3,
            "4",
            "--quorum 4 is more than the number of nodes, 3: add --node URL, or lower --quorum",
        ),
        (
            16,
            "17",
            r#"--quorum "17": expected auto or a whole number from 1 to the number of nodes"#,
        ),
    ] {
        let found = following(nodes, &["--quorum", quorum]);
        let found = found.err().map(|error| error.to_string());
        assert_eq!(found.unwrap_or_default(), error, "{quorum} of {nodes}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    use nearhead_chain::network::Network::{Mainnet, Sepolia};
    let [a, b] = ['1', '2'].map(hash);
    let genesis = Sepolia.genesis_hash();
    let sixteen: Vec<String> = (0..16).map(|at| format!("{at}:{a}")).collect();
    let seventeen = [sixteen.join(","), format!("16:{a}")].join(",");
    let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
    let trusted = |value: &str| flag("trusted-block", &value);
    let cases: [(&[String], &str); 11] = [
        (&[flag("network", &Sepolia)], ""),
        (
            &[flag("network", &Sepolia), flag("chain-id", &11_155_111)],
            "",
        ),
        (
            &[flag("network", &Sepolia), flag("chain-id", &1)],
            "--chain-id 1 contradicts --network sepolia, whose chain id is 11155111: give one of them",
        ),
        (
            &[
                flag("network", &Sepolia),
                trusted(&format!("0:{genesis}, 5:{a}")),
            ],
            "",
        ),
        (
            &[flag("network", &Mainnet), trusted(&format!("5:{a},0:{b}"))],
            "--trusted-block 0:0x2222222222222222222222222222222222222222222222222222222222222222 \
             contradicts --network mainnet, whose genesis is \
             0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3: give one of them",
        ),
        (&[trusted(&format!("0:{b}"))], ""),
        (
            &[
                trusted(&format!("5:{a}")),
                trusted(&format!("5:{a}")),
                trusted(&format!("6:{b}")),
            ],
            "",
        ),
        (
            &[
                trusted(&format!("5:{a}")),
                trusted(&format!("6:{a}")),
                trusted(&format!("5:{b}")),
            ],
            "--trusted-block gives two hashes for block 5: give the right one",
        ),
        (&[trusted(&sixteen.join(","))], ""),
        (
            &[trusted(&[sixteen.join(","), format!("3:{a}")].join(","))],
            "",
        ),
        (&[trusted(&seventeen)], "--trusted-block \""),
    ];
    for (flags, error) in cases {
        let texts: Vec<&str> = flags.iter().map(String::as_str).collect();
        let found = following(1, &texts).err().map(|error| error.to_string());
        let found = found.unwrap_or_default();
        match error.ends_with('"') {
            true => assert!(found.starts_with(error), "{flags:?}: {found}"),
            false => assert_eq!(found, error, "{flags:?}"),
        }
    }
}

#[test]
fn a_trusted_block_is_a_number_and_a_hash() {
    let a = hash('a');
    let block = |number| (number, B256::repeat_byte(0xaa));
    for (text, expected) in [
        (format!("0:{a}"), Some(vec![block(0)])),
        (format!("{}:{a}", u64::MAX), Some(vec![block(u64::MAX)])),
        (format!(" 7:{a} , 5:{a}"), Some(vec![block(7), block(5)])),
        (String::new(), None),
        (a.clone(), None),
        (format!(":{a}"), None),
        (format!("-1:{a}"), None),
        (format!("18446744073709551616:{a}"), None),
        (format!("0x5:{a}"), None),
        (format!("5:{}", &a[2..]), None),
        (format!("5:{a}0"), None),
        (format!("5:0x{}", "g".repeat(64)), None),
        (format!("5:{a},"), None),
    ] {
        let found = trusted_blocks(std::slice::from_ref(&text));
        assert_eq!(found, expected, "{text}");
    }
}

proptest! {
    /// Any text gives a configuration or a message of one line.
    #[test]
    fn any_text_gives_a_configuration_or_one_line(option in 0..OPTIONS.len(), text in "\\PC{0,12}") {
        let flag = format!("--{}={text}", OPTIONS[option].name);
        if let Err(error) = command(&[&flag], &[], None) {
            let message = error.to_string();
            prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }

    /// A time that is shown is parsed as the same time.
    #[test]
    fn times_are_parsed_as_they_are_shown(millis in 0_u64..3_600_000) {
        let time = Duration::from_millis(millis);
        let shown = value::Show::show(&time);
        prop_assert_eq!(duration(&[shown], Duration::ZERO, Duration::from_secs(3600)), Some(time));
    }
}

#[test]
fn a_proxy_that_names_accounts_has_to_be_trusted() {
    let header = "--admin-proxy-header=X-User";
    for (flags, error) in [
        (&[header, "--trusted-proxy=10.0.0.1"][..], None),
        (
            &[header],
            Some(
                "--admin-proxy-header is read in requests of trusted proxies alone: add --trusted-proxy",
            ),
        ),
    ] {
        let found = command(flags, &[], None)
            .err()
            .map(|error| error.to_string());
        assert_eq!(found.as_deref(), error, "{flags:?}");
    }
}
