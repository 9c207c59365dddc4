//! What deploy/ has for operators, checked by what reads it: systemd, Prometheus, Helm, buildah,
//! HAProxy, dpkg.
//!
//! | file | what it tests |
//! |---|---|
//! | `mod.rs` | the units |
//! | `alerts` | alerts and dashboards |
//! | `prometheus` | a Prometheus that scrapes a running service |
//! | `chart`, `pod` | the Helm chart; the pod that it makes, whose environment is run |
//! | `workflows` | the workflows of .github/ |
//! | `shipped` | the program without its symbols, which packages have |
//! | `image` | the image, built and started |
//! | `context` | what the image is built from |
//! | `buildah` | what builds images |
//! | `compose` | the services around it |
//! | `proxy` | the proxy of a fleet |
//! | `package` | the Debian package, from its installation to its removal |
//! | `clean_root` | a Debian with nothing installed |

mod alerts;
mod buildah;
mod chart;
mod clean_root;
mod compose;
mod context;
mod image;
mod package;
mod pod;
mod prometheus;
mod proxy;
mod shipped;
mod workflows;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::harness::{check, scratch};

const UNITS: [&str; 2] = ["nearhead.service", "nearhead.socket"];

/// A file of the project.
fn project(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Runs a command, which has to succeed; returns its standard output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}: run tests/setup"));
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    text
}

fn analyze(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).output();
    let output = output.expect("systemd-analyze is installed by tests/setup");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn units_are_valid() {
    let folder = scratch("units");
    let paths = UNITS.map(|name| {
        // The program is not installed here.
        let unit = project(&format!("deploy/{name}"))
            .replace("/usr/bin/nearhead", env!("CARGO_BIN_EXE_nearhead"));
        let path = folder.join(name);
        fs::write(&path, unit).unwrap();
        path.to_str().unwrap().to_owned()
    });
    // Nor is its man page.
    let (are_valid, text) = analyze(&["verify", "--man=no", &paths[0], &paths[1]]);
    check(&text, &are_valid, &true);
    // It may warn of other units of this machine.
    let is_of_ours = |line: &&str| line.contains("nearhead.s");
    check("warnings", &text.lines().find(is_of_ours), &None);
}

/// From 0, all doors are closed, to 10; the threshold is in tenths.
#[test]
fn the_service_is_exposed_to_little() {
    let path = scratch("hardened").join("nearhead.service");
    fs::write(&path, project("deploy/nearhead.service")).unwrap();
    let offline = ["security", "--offline=true", "--threshold=20"];
    let (is_hardened, text) = analyze(&[&offline[..], &[path.to_str().unwrap()]].concat());
    check(&text, &is_hardened, &true);
}
