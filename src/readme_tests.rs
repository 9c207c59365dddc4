//! README.md's tables, compared with what they are tables of.
#![expect(clippy::unwrap_used, reason = "tests")]

use nearhead_actors::upstream::health::{Fault, UpstreamState};
use nearhead_chain::remote::Check;

use crate::{access::MethodSet, config::OPTIONS, metrics::Metrics, rpc::METHODS};

/// Fails with the table that README.md should have, ready to be pasted.
fn check(head: &str, rows: impl Iterator<Item = String>) {
    let columns = head.matches('|').count() - 1;
    let table: String = [
        format!("{head}\n"),
        format!("|{}\n", "---|".repeat(columns)),
    ]
    .into_iter()
    .chain(rows.map(|row| format!("{row}\n")))
    .collect();
    let readme = include_str!("../README.md");
    assert!(
        readme.contains(&format!("\n{table}\n")),
        "README.md should have:\n\n{table}"
    );
}

#[test]
fn options() {
    let rows = OPTIONS.iter().map(|option| {
        let default = match option.default() {
            _ if option.help.contains("one a core") => "one a core".to_owned(),
            default if default == "none" => default,
            default => format!("`{default}`"),
        };
        let (name, accepts, help) = (option.name, option.accepts, option.help);
        format!("| `{name}` | {accepts} | {default} | {help} |")
    });
    check("| option | accepts | default | what it is for |", rows);
}

#[test]
fn node_states() {
    let rows = UpstreamState::ALL
        .iter()
        .map(|(state, says)| format!("| `{}` | {says} |", state.label()));
    check("| state | the node |", rows);
}

#[test]
fn node_faults() {
    // A block that failed is counted by what it failed.
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| *fault != Fault::BadBlock);
    let rows = faults.map(|fault| format!("| `{}` | {fault} |", fault.label()));
    check("| reason | what the node did |", rows);
}

#[test]
fn checks_of_blocks() {
    let rows = Check::OF_BLOCKS
        .iter()
        .map(|check| format!("| `{}` | {check} |", check.label()));
    check("| check that a block failed | what it found |", rows);
}

#[test]
fn metrics() {
    let rows = Metrics::new().unwrap().rows();
    check(
        "| metric | type | labels | what it says |",
        rows.into_iter(),
    );
}

#[test]
fn methods() {
    let rows = METHODS.iter().map(|method| {
        let set = match method.set {
            MethodSet::Core => "core",
            MethodSet::Companion => "companion",
        };
        format!("| `{}` | {set} |", method.name)
    });
    check("| method | set |", rows);
}

/// Reads the constants of limits.rs with their documentation.
#[test]
fn limits() {
    let source = include_str!("limits.rs");
    let mut rows = Vec::new();
    let mut documentation: Vec<&str> = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("/// ") {
            documentation.push(text);
        } else if let Some(constant) = line.strip_prefix("pub const ") {
            let (name, rest) = constant.split_once(": ").unwrap();
            let (_, value) = rest.trim_end_matches(';').split_once(" = ").unwrap();
            let why = documentation.join(" ");
            rows.push(format!("| `{name}` | {} | {why} |", shown(value)));
            documentation.clear();
        } else {
            documentation.clear();
        }
    }
    assert_eq!(rows.len(), source.matches("pub const ").count());
    check("| limit | value | what and why |", rows.into_iter());
}

/// A constant's expression as people write it.
fn shown(expression: &str) -> String {
    for (constructor, unit) in [("secs", "s"), ("millis", "ms")] {
        if let Some(number) = expression.strip_prefix(&format!("Duration::from_{constructor}(")) {
            return format!("{} {unit}", number.trim_end_matches(')'));
        }
    }
    match (expression, expression.split_once(" << ")) {
        (_, Some((number, "10"))) => format!("{number} KiB"),
        (_, Some((number, "20"))) => format!("{number} MiB"),
        _ => expression.replace('_', ","),
    }
}
