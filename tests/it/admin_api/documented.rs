//! The commands of docs/administration.md, run as printed.

use std::process::Command;

use serde_json::{Value, json};

use super::client::{Admin, PASSWORD, first_token};
use crate::harness::{Process, Server, check, scratch};

const PAGE: &str = include_str!("../../../docs/administration.md");

/// The shell blocks of the page, in order.
fn blocks() -> Vec<&'static str> {
    let blocks = PAGE.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

/// Runs a block with these variables; returns its output.
fn run(block: &str, server: &Server, variables: &[(&str, &str)]) -> String {
    let admin = format!("http://{}", server.admin.unwrap());
    let script = block.replace("http://127.0.0.1:8590", &admin);
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(scratch("documented"))
        .env("ADMIN", &admin)
        .envs(variables.iter().copied());
    let (status, output) = Process::start(&mut command).wait();
    assert!(status.success(), "{status}\n{output}");
    output
}

/// The JSON values of an output, one after the other.
fn values(output: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(output).into_iter();
    values.map(Result::unwrap).collect()
}

#[test]
fn every_command_works_as_printed() {
    let server = Server::start(&["--block-time", "0s"]);
    let [first, calls] = blocks().try_into().expect("two blocks");
    let token = first_token(&server);
    let output = run(first, &server, &[("FIRST", &token), ("PASSWORD", PASSWORD)]);
    let answers = values(&output);
    check(
        "the first account",
        &answers[0]["me"]["role"],
        &json!("admin"),
    );
    let token = answers[1]["token"].as_str().unwrap();

    let mut admin = Admin::nobody(&server);
    admin.with_token(token);
    admin.tenant("Other");
    let (id, _) = admin.key("Other", "key");
    let output = run(calls, &server, &[("TOKEN", token), ("ID", &id)]);
    // All but the table are JSON, and a removal has no answer.
    let (before, table) = output.split_once("at,key,method").unwrap();
    let (table, after) = table.split_once('{').unwrap();
    assert!(table.starts_with(",outcome,requests,"), "{table}");
    let answers = [values(before), values(&format!("{{{after}"))].concat();
    let calls = calls
        .lines()
        .filter(|line| line.starts_with("api /") || line.starts_with("api '"));
    check("calls", &answers.len(), &(calls.count() - 2));
    for answer in answers {
        assert!(answer["error"].is_null(), "{answer}");
    }
}
