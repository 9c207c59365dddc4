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
