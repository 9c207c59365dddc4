//! Which value an option has, and how it is shown.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

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
    ("state-follow", "proofs", "proofs"),
    (
        "forward",
        "eth_sendRawTransaction,txpool_status",
        "eth_sendRawTransaction, txpool_status",
    ),
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
    ("metrics-max-age", "1m", "60s"),
    ("workers", "77", "77"),
    ("pool-threads", "78", "78"),
    ("max-connections", "9", "9"),
    ("connections-per-address", "3", "3"),
    ("header-timeout", "1s", "1s"),
    ("body-timeout", "2m", "120s"),
    ("keep-alive", "1h", "3600s"),
    ("max-sessions", "8", "8"),
    ("max-sessions-per-key", "7", "7"),
    ("session-bytes", "524288", "524288"),
    ("reply-bytes", "1048576", "1048576"),
    ("head-age-max", "2m", "120s"),
    ("shutdown-delay", "0", "0s"),
    ("shutdown-grace", "0", "0s"),
    ("tls-cert", "cert.pem", "cert.pem"),
    ("tls-key", "key.pem", "key.pem"),
    ("admin-client-ca", "ca.pem", "ca.pem"),
    ("api-key", "alice=secret", "1 hidden (alice)"),
    (
        "allowed-host",
        "Dev.example.org,10.1.2.3",
        "dev.example.org, 10.1.2.3",
    ),
    ("trusted-proxy", "10.1.2.3/8,::1", "10.0.0.0/8, ::1/128"),
    ("proxy-protocol", "true", "true"),
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
    ("call-gas-max", "1000000", "1000000"),
    ("call-timeout", "1500ms", "1500ms"),
    (
        "otlp-endpoint",
        "http://127.0.0.1:4318/path",
        "http://127.0.0.1:4318",
    ),
    ("otlp-sample-ratio", "0.5", "0.5"),
    ("log-format", "json", "json"),
    ("log-filter", "warn,nearhead=trace", "warn,nearhead=trace"),
    (
        "fleet",
        "redis://me:secret@127.0.0.1:6379",
        "redis://127.0.0.1:6379",
    ),
    (
        "fleet-key",
        "1111111111111111111111111111111111111111111111111111111111111111",
        "hidden",
    ),
    ("fleet-prefix", "mainnet:1", "mainnet:1"),
    ("fleet-sentinel", "primary", "primary"),
    ("min-block-wait", "500ms", "500ms"),
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
    let rest = |source| {
        [
            source,
            "--api-key=rest",
            "--node=http://127.0.0.1:1",
            "--genesis=rest",
            "--chain=rest",
            "--trusted-proxy=127.0.0.1",
            "--tls-cert=rest",
            "--tls-key=rest",
        ]
    };
    for (name, value, shown) in SAMPLES {
        let option = OPTIONS.iter().find(|option| option.name == *name).unwrap();
        let is_of_fleet = name.starts_with("fleet");
        // What is forwarded needs nodes, and so does a fleet.
        let source = match *name == "forward" || is_of_fleet {
            true => "--source=node",
            false => "--source=files",
        };
        let fleet = ["--fleet=redis://rest", "--fleet-key=rest.key"];
        let fleet = fleet.into_iter().filter(|_| is_of_fleet);
        let rest: Vec<_> = rest(source)
            .into_iter()
            .chain(fleet)
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
fn space_around_a_value_is_ignored() {
    let given = [
        ("NEARHEAD_MAX_SESSIONS", " auto "),
        ("NEARHEAD_WORKERS", " 2 "),
    ];
    let resolved = resolved(&[], &given, None);
    assert_eq!(resolved.config.max_sessions, Cap::Auto);
    assert_eq!(resolved.config.workers, 2);
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

proptest! {
    /// A time that is shown is parsed as the same time.
    #[test]
    fn times_are_parsed_as_they_are_shown(millis in 0_u64..3_600_000) {
        let time = Duration::from_millis(millis);
        let shown = time.show();
        prop_assert_eq!(duration(&[shown], Duration::ZERO, Duration::from_secs(3600)), Some(time));
    }
}
