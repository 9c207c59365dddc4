//! The README's own commands, run as printed.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    harness::{Process, Server, json, keep_data_in_scratch, scratch},
    upstreams::Anvil,
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

/// The first fenced block that contains this text.
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
    // tests/run and cargo set variables that build scripts read: ring's depends on CARGO_PKG_NAME.
    // A cargo that inherits them rebuilds such dependencies, and the next cargo without them does
    // so again.
    for (name, _) in std::env::vars_os() {
        let is_set_for_tests = name.to_str().is_some_and(|name| {
            name == "RUSTC_BOOTSTRAP"
                || name.starts_with("CARGO_MANIFEST_")
                || name.starts_with("CARGO_PKG_")
        });
        if is_set_for_tests {
            command.env_remove(name);
        }
    }
    keep_data_in_scratch(&mut command);
    command
}

/// The types of an answer's members, which the README's example and the real answer share.
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
fn every_command_works_as_printed() {
    let run = block_with("cargo run --release");
    let curl = block_with("curl ");
    run_to_completion("cargo build --release --locked --quiet");
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
    // The command in the greeting works when pasted.
    let line = server.process.output.wait_for("a curl line", |text| {
        text.lines()
            .find_map(|line| line.find("curl ").map(|at| line[at..].to_owned()))
    });
    let (status, answer) = Process::start(&mut shell(&line)).wait();
    assert!(
        status.success() && answer.contains("\"result\""),
        "{line}\n{answer}"
    );
    // The next commands use the same port.
    drop(server);
    a_chain_of_files_is_served_as_printed();
    a_node_is_followed_as_printed();
    tests_are_run_as_printed();
}

/// Runs a build step before the command under test, so that no timeout includes a compiler.
fn run_to_completion(line: &str) {
    assert!(shell(line).status().unwrap().success(), "{line}");
}

/// Exports a chain and serves it with the README's key.
fn a_chain_of_files_is_served_as_printed() {
    let folder = scratch("readme");
    // In a scratch folder: a developer may have files of these names in the project's folder.
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
    let ready = json(&server.get_admin("/ready").body);
    assert_eq!(ready["head"], 200, "{ready}");
}

/// Follows an upstream on the README's port with the README's key.
fn a_node_is_followed_as_printed() {
    let line = block_with("--source node");
    let (_, url) = line.split_once("--node http://127.0.0.1:").unwrap();
    let port = url.split(' ').next().unwrap().parse().unwrap();
    let mut anvil = Anvil::on_port(port, &["--no-mining"]);
    anvil.mine(3);
    let server = Server::of(&mut shell(&format!("exec {}", line.trim())));
    let ready = json(&server.get_admin("/ready").body);
    assert_eq!(
        (&ready["head"], &ready["blocks"]),
        (&3.into(), &4.into()),
        "{ready}"
    );
}

/// Does what `tests/run` does, but lists the tests instead of running them: this is one of them.
fn tests_are_run_as_printed() {
    let run = block_with("tests/run");
    run_to_completion("tests/setup");
    run_to_completion("cargo test --workspace --locked --features all-tests --no-run --quiet");
    let (status, output) = Process::start(&mut shell(&format!("{} --list", run.trim()))).wait();
    assert!(
        status.success() && output.contains("readme::every_command_works_as_printed: test"),
        "{run}\n{output}"
    );
}
