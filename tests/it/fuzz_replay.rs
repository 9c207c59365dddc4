//! Runs the fuzz targets' checks over their corpus, over every seed truncated at and changed in
//! each byte, and over what fuzzers have found.

use std::{fs, path::PathBuf, process::Command, sync::LazyLock};

use crate::harness::scratch;

#[path = "../fuzz/checks/mod.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, which are another crate"
)]
mod checks;

/// Larger seeds run unchanged: their size is what they test.
const SEED_BYTES_CHANGED: usize = 1024;

fn folder(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "fuzz", name]
        .iter()
        .collect()
}

/// File names in a folder, without extension, sorted.
fn names(folder: PathBuf) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<_> = entries.map(|entry| stem(entry.unwrap().path())).collect();
    names.sort();
    names
}

/// Runs the check of `target` over its seeds and their variants.
fn check(target: &str) {
    check_every(target, 1);
}

/// The same with a variant for only every so many bytes: the check opens files or signs.
fn check_every(target: &str, step: usize) {
    let (_, check) = checks::TARGETS
        .iter()
        .find(|(name, _)| *name == target)
        .unwrap();
    let corpus = folder("corpus").join(target);
    let seeds = fs::read_dir(corpus)
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let mut count = 0;
    for seed in seeds {
        count += 1;
        check(&seed);
        if seed.len() > SEED_BYTES_CHANGED {
            continue;
        }
        for position in (0..seed.len()).step_by(step) {
            check(&seed[..position]);
            let mut changed = seed.clone();
            for change in [0x01, 0x10, 0x80, 0xff] {
                changed[position] = seed[position] ^ change;
                check(&changed);
            }
        }
    }
    assert!(count > 0, "{target} has no seeds");
    let found = fs::read_dir(FOUND.join(target)).unwrap();
    let found: Vec<_> = found.map(|entry| entry.unwrap().path()).collect();
    assert!(!found.is_empty(), "fuzzers have found nothing for {target}");
    found
        .iter()
        .for_each(|path| check(&fs::read(path).unwrap()));
}

/// Inputs that fuzzers have found, a folder for each target.
static FOUND: LazyLock<PathBuf> = LazyLock::new(|| {
    let unpacked = scratch("found");
    let mut tar = Command::new("tar");
    let tar = tar.arg("-xzf").arg(folder("found.tar.gz"));
    let status = tar.arg("-C").arg(&unpacked).status().unwrap();
    assert!(status.success(), "{status}");
    unpacked
});

#[test]
fn every_target_has_a_check_and_seeds() {
    let checked: Vec<_> = checks::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(names(folder("targets")), checked);
    assert_eq!(names(folder("corpus")), checked);
}

#[test]
fn admin_body() {
    check("admin_body");
}

#[test]
fn block_rlp() {
    check("block_rlp");
}

#[test]
fn chain_file() {
    check("chain_file");
}

#[test]
fn envelope() {
    check("envelope");
}

#[test]
fn follow() {
    check("follow");
}

#[test]
fn frames() {
    check("frames");
}

#[test]
fn log_filter() {
    check("log_filter");
}

#[test]
fn params() {
    check("params");
}

#[test]
fn proxy_header() {
    check("proxy_header");
}

#[test]
fn saved_block() {
    check("saved_block");
}

#[test]
fn saved_window() {
    check_every("saved_window", 5);
}

#[test]
fn tenant_store() {
    check_every("tenant_store", 40);
}

#[test]
fn token() {
    check_every("token", 8);
}

#[test]
fn trie_nodes() {
    check("trie_nodes");
}
