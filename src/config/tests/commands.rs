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
