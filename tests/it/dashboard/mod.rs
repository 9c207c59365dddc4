//! The dashboard in a real browser: tests/browser does what a person does, and keeps pictures of
//! every page under target/screenshots.
//!
//! | file | what it is |
//! |---|---|
//! | `nodes` | the pages of nodes that fail and recover |
//! | `behind_a_proxy` | a browser that reaches the dashboard through a proxy |
//! | `nginx` | the proxy |

mod behind_a_proxy;
mod nginx;
mod nodes;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    admin_api::client::Admin,
    harness::{Process, Server, check, installed, nearhead, scratch, wait_until},
};

/// The path of the page that makes the first account, as it is printed.
fn first_path(server: &Server) -> String {
    server.process.output.wait_for("the link", |text| {
        let (_, token) = text.split_once("/first-account?token=")?;
        let token = token.split_whitespace().next()?;
        Some(format!("/first-account?token={token}"))
    })
}

/// The link that makes the first account.
fn link(server: &Server) -> String {
    format!("http://{}{}", server.admin.unwrap(), first_path(server))
}

/// Where pictures are kept.
fn pictures(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("screenshots").join(name)
}

/// Runs a script of tests/browser.
fn browse(script: &str) -> Command {
    installed("tests/browser/node_modules/.installed");
    let mut browser = Command::new("node");
    browser.arg(installed(format!("tests/browser/{script}.mjs")));
    browser
}

/// Waits until a script ends, which has to find no fault.
fn finish(browser: Process) {
    let (status, text) = browser.wait();
    assert!(status.success(), "{status}\n{text}");
    print!("{text}");
}

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
    let mut browser = browse("dashboard");
    browser
        .args([link(&server), format!("http://{}", server.address)])
        .arg(pictures("pages"));
    finish(Process::start(&mut browser));
}

/// With `--open`, the program that opens a browser gets a page that leads to the link; the link
/// itself would be seen by every user of the machine.
#[cfg(target_os = "linux")]
#[test]
fn it_is_opened_at_the_start() {
    let folder = scratch("open");
    let (opener, opened) = (folder.join("xdg-open"), folder.join("opened"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >{0}.new\nmv {0}.new {0}\n",
        opened.display()
    );
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let start = || {
        let arguments = ["--open", "--block-time", "0s"];
        let mut command = nearhead(arguments);
        command
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(["--data-dir", folder.join("data").to_str().unwrap()])
            .env("PATH", &path)
            .env("TMPDIR", &folder);
        let server = Server::of(&mut command);
        wait_until("opened", || opened.exists());
        let target = fs::read_to_string(&opened).unwrap();
        fs::remove_file(&opened).unwrap();
        (server, target.trim().to_owned())
    };
    let (server, page) = start();
    check("the folder", &Path::new(&page).parent(), &Some(&*folder));
    let metadata = fs::metadata(&page).unwrap();
    check("mode", &(metadata.permissions().mode() & 0o777), &0o600);
    let text = fs::read_to_string(&page).unwrap();
    let leads = format!("content=\"0; url={}\"", link(&server));
    assert!(text.contains(&leads), "{text}");
    drop(Admin::first(&server));
    server.process.terminate();
    assert!(server.process.wait().0.success());
    assert!(!Path::new(&page).exists());
    // With an account, there is nothing to hide.
    let (server, url) = start();
    let expected = format!("http://{}", server.admin.unwrap());
    check("the URL", &url, &expected);
}
