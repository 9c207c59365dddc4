//! Runs the README's commands as printed, and compares the exported metrics with
//! docs/metrics.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use serde_json::Value;

use crate::{
    harness::{Process, Server, check, json, scratch},
    peers::Anvil,
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The fenced blocks of the README in order: language and text.
fn blocks() -> Vec<(String, String)> {
    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README.md");
    let mut blocks = Vec::new();
    let mut parts = readme.split("\n```");
    parts.next();
    while let Some(block) = parts.next() {
        let (language, text) = block.split_once('\n').expect("a fence ends its line");
        blocks.push((language.to_owned(), text.to_owned()));
        parts.next();
    }
    blocks
}

/// The first block that holds this text.
fn block_with(text: &str) -> String {
    let found = blocks().into_iter().find(|(_, block)| block.contains(text));
    found
        .unwrap_or_else(|| panic!("no block of the README has {text:?}"))
        .1
}

/// A shell in the project's folder.
fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(root());
    command
}

/// Types of the members of an answer, so that a README's example and today's answer can be
/// compared.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(text) if text.starts_with("0x") => "hex".into(),
        Value::String(_) => "string".into(),
        Value::Array(items) => items.first().map(shape).into_iter().collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), shape(member)))
            .collect(),
    }
}

#[test]
fn the_first_screen_works_as_printed() {
    let run = block_with("cargo run --release");
    let curl = block_with("curl ");
    run_to_its_end("cargo build --release --locked --quiet");
    let server = Server::of(&mut shell(&format!("exec {}", run.trim())));
    let (status, answer) = Process::start(&mut shell(&curl)).wait();
    assert!(status.success(), "{curl}\n{answer}");
    let start = answer
        .find('{')
        .unwrap_or_else(|| panic!("{curl} gave: {answer}"));
    let end = answer.rfind('}').unwrap();
    let answer = json(&answer.as_bytes()[start..=end]);
    assert!(
        answer.get("result").is_some_and(|result| !result.is_null()),
        "{answer}"
    );
    let printed = blocks()
        .into_iter()
        .find(|(language, text)| language == "json" && text.contains("\"result\""));
    let (_, printed) = printed.expect("the README prints the answer in a json block");
    assert_eq!(
        shape(&answer),
        shape(&json(printed.as_bytes())),
        "the answer that the README prints"
    );
    // The line that the start prints works when pasted.
    let line = server.process.output.wait_for("a curl line", |text| {
        text.lines()
            .find_map(|line| line.find("curl ").map(|at| line[at..].to_owned()))
    });
    let (status, answer) = Process::start(&mut shell(&line)).wait();
    assert!(
        status.success() && answer.contains("\"result\""),
        "{line}\n{answer}"
    );
    // The port is the same.
    drop(server);
    a_chain_of_files_is_served_as_printed();
    a_node_is_followed_as_printed();
    tests_are_run_as_printed();
}

/// What is built before, so that the wait for what comes is not a wait for a compiler.
fn run_to_its_end(line: &str) {
    assert!(shell(line).status().unwrap().success(), "{line}");
}

/// Exports a chain and serves it with a key that nobody here knows.
fn a_chain_of_files_is_served_as_printed() {
    let folder = scratch("readme");
    // In another folder than the project's, where a developer may have files of these names.
    let in_scratch = |line: &str| {
        let manifest = root().join("Cargo.toml");
        let cargo = format!(
            "cargo() {{ exec cargo \"$1\" --manifest-path '{}' \"${{@:2}}\"; }}",
            manifest.display()
        );
        let mut command = shell(&format!("{cargo}\n{line}"));
        command.current_dir(&folder);
        command
    };
    let commands = block_with(" export ");
    let (export, serve) = commands.trim().split_once('\n').unwrap();
    let (status, output) = Process::start(&mut in_scratch(export)).wait();
    assert!(status.success(), "{export}\n{output}");
    let server = Server::of(&mut in_scratch(serve));
    let ready = json(&server.get("/ready").body);
    assert_eq!(ready["head"], 200, "{ready}");
}

/// Follows a node on the port that nodes have, with a key that nobody here knows.
fn a_node_is_followed_as_printed() {
    let line = block_with("--source node");
    let (_, url) = line.split_once("--node http://127.0.0.1:").unwrap();
    let port = url.split(' ').next().unwrap().parse().unwrap();
    let mut anvil = Anvil::on_port(port, &["--no-mining"]);
    anvil.mine(3);
    let server = Server::of(&mut shell(&format!("exec {}", line.trim())));
    let ready = json(&server.get("/ready").body);
    assert_eq!(
        (&ready["head"], &ready["blocks"]),
        (&3.into(), &4.into()),
        "{ready}"
    );
}

/// All that `tests/run` does but the tests themselves, of which this is one.
fn tests_are_run_as_printed() {
    let run = block_with("tests/run");
    run_to_its_end("tests/setup");
    run_to_its_end("cargo test --workspace --locked --no-run --quiet");
    let (status, output) = Process::start(&mut shell(&format!("{} --list", run.trim()))).wait();
    assert!(
        status.success() && output.contains("readme::the_first_screen_works_as_printed: test"),
        "{run}\n{output}"
    );
}

/// What a running program exports is what the table says, with the same labels; a unit test
/// compares the table with all that there is, also of what needs a node or a session to happen.
#[test]
fn metrics_are_those_of_the_table() {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let (_, table) = page.split_once("\n| metric | type | labels |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    // Name, type and labels of each.
    let rows = table.lines().skip(2).map(|row| {
        let cells: Vec<_> = row.split('|').map(|cell| cell.replace('`', "")).collect();
        let labels = cells[3].split(',').map(|label| label.trim().to_owned());
        let labels: BTreeSet<_> = labels.filter(|label| !label.is_empty()).collect();
        (
            cells[1].trim().to_owned(),
            cells[2].trim().to_owned(),
            labels,
        )
    });
    let rows: Vec<_> = rows.collect();
    let server = Server::start(&["--source", "dev", "--block-time", "0"]);
    let metrics = server.get("/metrics");
    let mut kinds = BTreeMap::new();
    for line in metrics.text().lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (name, kind) = line.split_once(' ').unwrap();
            kinds.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        let Some((series, _)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split("\",");
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        // A histogram's own.
        let labels: BTreeSet<_> = labels.filter(|label| label != "le").collect();
        let is_row = |(row, _, has): &&(String, String, BTreeSet<String>)| {
            name.strip_prefix(row.as_str())
                .is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
                && *has == labels
        };
        assert!(
            rows.iter().any(|row| is_row(&row)),
            "not in docs/metrics.md: {line}"
        );
    }
    for (name, kind, labels) in &rows {
        match kinds.get(name) {
            Some(exported) => check(name, exported, kind),
            // Nothing of it has happened yet.
            None => assert!(!labels.is_empty(), "{name} is not exported"),
        }
    }
}
