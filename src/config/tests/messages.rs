//! What a bad value is answered with.

use proptest::prelude::*;

use super::*;

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
            r#"--log-filter "a=b=c": expected a level (error, warn, info, debug, trace, off) or directives such as nearhead=debug,hyper=warn"#,
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
            &["--otlp-endpoint", "ws://host#x-token=swordfish"],
            &[],
            None,
            "--otlp-endpoint (hidden): expected a URL with http or https, such as http://127.0.0.1:4318",
        ),
        (
            &["--otlp-sample-ratio", "1.01"],
            &[],
            None,
            r#"--otlp-sample-ratio "1.01": expected a number from 0 to 1, such as 0.01"#,
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
}
