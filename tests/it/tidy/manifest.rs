//! What Cargo.toml has to say.

use std::fs;

use super::root;

/// Numbers that nodes and clients state must not wrap around in what is released either. Nothing
/// else notices if they may: tests run with the profile `dev`.
#[test]
fn the_release_checks_arithmetic() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, profile) = manifest.split_once("\n[profile.release]\n").unwrap();
    let (profile, _) = profile.split_once("\n[").unwrap();
    let checks = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with('#') && line.contains("overflow-checks"));
        lines.map(str::to_owned).collect()
    };
    let wanted = ["overflow-checks = true"];
    assert_eq!(checks(profile), wanted);
    assert_eq!(checks(&manifest), wanted, "a package overrides it");
}

/// The fuzz targets are a workspace of their own: `fuzz_replay` has what they check.
#[test]
fn the_lints_of_the_workspace_are_those_of_each_package() {
    let manifest = |folder: &str| fs::read_to_string(root().join(folder).join("Cargo.toml"));
    let workspace = manifest(".").unwrap();
    let (_, members) = workspace.split_once("\nmembers = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    for member in members.split(',') {
        let folder = member.trim().trim_matches('"');
        let manifest = manifest(folder).unwrap();
        let has_lints = manifest.contains("\n[lints]\nworkspace = true\n");
        assert!(has_lints, "{folder} has no lints");
    }
}
