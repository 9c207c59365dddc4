//! The program as it is shipped, without its symbols: what deploy/split-symbols makes of the
//! release build of tests/run. It is made once, for all packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use super::run;
use crate::harness::{check, installed, scratch};

/// The release build, which tests/run makes before it runs tests.
pub(super) fn release() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let program = target.join("release/nearhead");
    assert!(
        program.is_file(),
        "{} is missing: run cargo build --release --locked",
        program.display()
    );
    program
}

/// A folder that an image is built from: `nearhead`, `nearhead.debug` and the licences.
pub(super) fn shipped() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("shipped");
        let mut split = Command::new(installed("deploy/split-symbols"));
        run(split.arg(release()).arg(&folder));
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            fs::copy(installed(licence), folder.join(licence)).unwrap();
        }
        folder
    })
}

/// What readelf says of a file.
fn readelf(what: &str, file: &str) -> String {
    let mut readelf = Command::new("readelf");
    run(readelf.args(["--wide", what]).arg(shipped().join(file)))
}

/// A debugger finds the symbols by the build id, and they are nowhere else.
#[test]
fn symbols_are_apart_from_the_program() {
    let sections = readelf("--sections", "nearhead");
    for section in [".symtab", ".debug_info", ".debug_line", ".comment"] {
        assert!(!sections.contains(section), "{section} is in\n{sections}");
    }
    assert!(sections.contains(".gnu_debuglink"), "{sections}");
    let build_id = |file| {
        let notes = readelf("--notes", file);
        let line = notes.lines().find_map(|line| line.split_once("Build ID: "));
        line.map(|(_, id)| id.trim().to_owned()).unwrap()
    };
    check("id", &build_id("nearhead.debug"), &build_id("nearhead"));
    let symbols = readelf("--symbols", "nearhead.debug");
    assert!(symbols.contains(" main\n"), "no function main");
    let version = run(Command::new(shipped().join("nearhead")).arg("--version"));
    let expected = concat!("nearhead ", env!("CARGO_PKG_VERSION"), "\n");
    check("it runs", &version.as_str(), &expected);
}

/// The profile of what is shipped, as cargo resolves it.
#[test]
fn what_is_shipped_is_the_release_with_lines_of_the_source() {
    let mut cargo = Command::new("cargo");
    // Where cargo may say so.
    cargo.env("RUSTC_BOOTSTRAP", "1").args([
        "build",
        "--locked",
        "--profile=dist",
        "-Zunstable-options",
        "--unit-graph",
    ]);
    let graph = run(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    let graph = crate::harness::json(graph.as_bytes());
    let units = graph["units"].as_array().unwrap();
    let is_program = |unit: &&serde_json::Value| {
        unit["target"]["name"] == "nearhead" && unit["target"]["kind"][0] == "bin"
    };
    let profile = &units.iter().find(is_program).unwrap()["profile"];
    let expected = serde_json::json!({
        "name": "dist",
        "opt_level": "3",
        "lto": "thin",
        "codegen_backend": null,
        "codegen_units": 4,
        "debuginfo": "line-tables-only",
        "debug_assertions": false,
        "overflow_checks": true,
        "rpath": false,
        "incremental": false,
        "panic": "unwind",
        "strip": {"deferred": "None"},
    });
    for (name, value) in expected.as_object().unwrap() {
        check(name, &profile[name], value);
    }
}
