//! Help, version and `nearhead export`.

use super::*;

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

/// What `nearhead health` asks.
#[test]
fn health_asks_the_listener_that_answers_best() {
    let health = |flags: &[&str], environment: &[(&str, &str)], toml| {
        let flags = [&["health"], flags].concat();
        match command(&flags, environment, toml).unwrap() {
            Command::Health(health) => health,
            other => panic!("{flags:?}: {other:?}"),
        }
    };
    let metrics = ("NEARHEAD_METRICS_LISTEN", "0.0.0.0:9090");
    for (flags, environment, toml, url) in [
        (&[][..], &[][..], None, "http://127.0.0.1:8590/ready"),
        (&[], &[metrics], None, "http://127.0.0.1:9090/ready"),
        (
            &["--metrics-listen", "[::]:7"],
            &[metrics],
            None,
            "http://[::1]:7/ready",
        ),
        (
            &[],
            &[("NEARHEAD_LISTEN", "10.0.0.5:80")],
            Some("admin-listen = \"off\"\n"),
            "http://10.0.0.5/ready",
        ),
    ] {
        let found = health(flags, environment, toml);
        assert_eq!((found.url.as_str(), found.is_configured), (url, true));
        assert_eq!(found.timeout, Duration::from_secs(5));
    }
    let tls = ["--tls-cert", "c.pem", "--tls-key", "k.pem"];
    for (more, url, has_tls) in [
        (&[][..], "https://127.0.0.1:8590/ready", true),
        (
            &["--metrics-listen", "[::]:7"],
            "http://[::1]:7/ready",
            false,
        ),
        (
            &["--admin-client-ca", "a.pem"],
            "https://127.0.0.1:8545/ready",
            true,
        ),
    ] {
        let found = health(&[&tls, more].concat(), &[], None);
        assert_eq!(
            (found.url.as_str(), found.certificate.is_some()),
            (url, has_tls)
        );
    }
    let behind_proxies = [
        "health",
        "--admin-listen",
        "off",
        "--proxy-protocol",
        "--trusted-proxy",
        "10.0.0.1",
    ];
    let refused = command(&behind_proxies, &[], None).unwrap_err().to_string();
    assert!(refused.contains("metrics-listen"), "{refused}");
    // A configuration is not read, so it may be wrong.
    let wrong = [("NEARHEAD_LISTEN", "here")];
    let found = health(&["https://a.example/b/", "--timeout", "1m"], &wrong, None);
    assert_eq!(found.url.as_str(), "https://a.example/b/ready");
    assert_eq!(
        (found.is_configured, found.timeout),
        (false, Duration::from_secs(60))
    );
}
