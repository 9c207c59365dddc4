//! The examples that the dashboard shows for a key, run as they are printed.

use std::{fs, os::unix::fs::symlink, process::Command};

use crate::{
    admin_api::client::{Admin, send},
    harness::{Process, Server, check, installed, json, nearhead, scratch},
};

/// How an example runs, and whether it goes on with a session after its first line.
const EXAMPLES: [(&str, &str, bool); 4] = [
    ("curl", "bash", false),
    ("ethers", "node", true),
    ("viem", "node", true),
    ("web3.py", "python", false),
];

/// The text of an element, as a browser shows it.
fn text_of(html: &str) -> String {
    [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#38;", "&"),
    ]
    .iter()
    .fold(html.to_owned(), |text, (entity, character)| {
        text.replace(entity, character)
    })
}

/// The examples on the page of a new key: names and code.
fn examples(server: &Server) -> Vec<(String, String)> {
    let mut admin = Admin::first(server);
    admin.tenant("Acme");
    let headers = [
        admin.headers.clone(),
        vec!["content-type: application/x-www-form-urlencoded".to_owned()],
    ]
    .concat();
    let form = b"tenant=Acme&name=example";
    let response = send(server.admin.unwrap(), "POST", "/keys/new", &headers, form);
    check("status", &response.status, &200);
    let page = response.text();
    let parts = page.split("<summary>").skip(1);
    let example = |part: &str| {
        let (name, rest) = part.split_once("</summary>").unwrap();
        let (_, code) = rest.split_once("<pre id=\"snippet-").unwrap();
        let (_, code) = code.split_once('>').unwrap();
        let (code, _) = code.split_once("</pre>").unwrap();
        (name.to_owned(), text_of(code))
    };
    parts.map(example).collect()
}

#[test]
fn the_examples_of_the_dashboard_work() {
    installed("tests/clients/node_modules/.installed");
    let python = installed("tests/.tools/python/bin/python");
    let server = Server::of(&mut nearhead([
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--block-time",
        "300ms",
    ]));
    let folder = scratch("snippets");
    // An example finds its libraries as it would in a project of its own.
    symlink(
        installed("tests/clients/node_modules"),
        folder.join("node_modules"),
    )
    .unwrap();
    let examples = examples(&server);
    let names: Vec<&str> = examples.iter().map(|(name, _)| name.as_str()).collect();
    check("examples", &names, &EXAMPLES.map(|(name, ..)| name).into());
    for ((name, code), (_, program, is_live)) in examples.iter().zip(EXAMPLES) {
        // A file may not have the name of a library.
        let file = folder.join("example.mjs");
        fs::write(&file, code).unwrap();
        let mut command = match program {
            "python" => Command::new(&python),
            program => Command::new(program),
        };
        let process = Process::start(command.arg(&file));
        let is_number = |line: &str| match program {
            "bash" => json(line.as_bytes())["result"].is_string(),
            _ => line.trim_end_matches('n').parse::<u64>().is_ok(),
        };
        if is_live {
            // The head over HTTP, and then new heads of the session.
            process.output.wait_for(name, |text| {
                let numbers = text.lines().filter(|line| is_number(line)).count();
                (numbers >= 3).then_some(())
            });
        } else {
            let (status, text) = process.wait();
            assert!(status.success(), "{name}: {text}");
            let is_it = text.lines().count() == 1 && is_number(text.trim());
            assert!(is_it, "{name}: {text}");
        }
    }
}
