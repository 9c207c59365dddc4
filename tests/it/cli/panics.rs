//! A panic of the program is one log line.

use serde_json::{Value, json};

use super::run_with;
use crate::harness::{check, json};

/// No system has room for a stack of so many bytes, so that the first thread that needs a default
/// one cannot be started. The program panics then.
const NO_STACK: (&str, &str) = ("RUST_MIN_STACK", "1152921504606846976");

/// What is on stderr of a program that panics; nothing is on stdout.
fn panicking(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let arguments = [&["--listen", "127.0.0.1:0"], arguments].concat();
    let environment = [&[NO_STACK], environment].concat();
    let (code, text) = run_with(&arguments, &environment);
    check(&text, &code, &Some(101));
    text
}

/// The only line, which is JSON.
fn line_of(text: &str) -> Value {
    let mut lines = text.lines().map(|line| json(line.as_bytes()));
    let line = lines.next().unwrap();
    check(text, &lines.next(), &None);
    line
}

#[test]
fn a_panic_is_one_line_of_the_log() {
    let as_json = ["--log-format", "json"];
    let line = line_of(&panicking(&as_json, &[]));
    for (member, expected) in [
        ("level", json!("ERROR")),
        ("target", json!("nearhead::panic")),
        ("thread", json!("main")),
        ("backtrace", json!(null)),
    ] {
        check(&line.to_string(), &line[member], &expected);
    }
    let text = |member: &str| line[member].as_str().unwrap();
    let (file, column) = text("message").rsplit_once(':').unwrap();
    let (file, number) = file.rsplit_once(':').unwrap();
    assert!(file.starts_with("panicked at ") && file.ends_with(".rs"));
    assert!([number, column].iter().all(|at| at.parse::<u32>().is_ok()));
    let reason = "failed to spawn thread";
    assert!(text("reason").starts_with(reason), "{line}");

    let line = line_of(&panicking(&as_json, &[("RUST_BACKTRACE", "1")]));
    let backtrace = line["backtrace"].as_str().unwrap();
    assert!(backtrace.contains("nearhead::main"), "{backtrace}");

    let text = panicking(&[], &[("RUST_BACKTRACE", "1")]);
    check(&text, &text.lines().count(), &1);
    for part in ["ERROR nearhead::panic: panicked at ", reason, "\\n"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Whatever the filter, a panic is not silent.
#[test]
fn a_filter_does_not_hide_a_panic() {
    for filter in ["off", "nearhead=off", "warn,[span]=off"] {
        let arguments = ["--log-format", "json", "--log-filter", filter];
        let line = line_of(&panicking(&arguments, &[]));
        check(filter, &line["target"], &json!("nearhead::panic"));
    }
    let text = panicking(&["--log-filter", "nearhead::panic=off"], &[]);
    assert!(text.contains("\nthread 'main' ("), "{text}");
    assert!(text.contains("panicked at "), "{text}");
}
