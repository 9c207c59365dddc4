//! The dashboard in a real browser: tests/browser does what a person does, and keeps pictures of
//! every page under target/screenshots.

use std::{path::Path, process::Command};

use crate::harness::{Process, Server, installed, nearhead};

#[test]
fn a_person_uses_it_in_a_browser() {
    let arguments = [
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--block-time",
        "500ms",
    ];
    let server = Server::of(&mut nearhead(arguments));
    let link = server.process.output.wait_for("the link", |text| {
        let (_, path) = text.split_once("/first-account?token=")?;
        let token = path.split_whitespace().next()?;
        Some(format!(
            "http://{}/first-account?token={token}",
            server.admin.unwrap()
        ))
    });
    installed("tests/browser/node_modules/.installed");
    let mut browser = Command::new("node");
    browser
        .arg(installed("tests/browser/dashboard.mjs"))
        .args([link, format!("http://{}", server.address)])
        .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots"));
    let (status, text) = Process::start(&mut browser).wait();
    assert!(status.success(), "{status}\n{text}");
    print!("{text}");
}
