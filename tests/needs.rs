//! Prints one line that names the groups of tests that plain `cargo test` leaves out.
//!
//! They need more than Rust: the execution-apis vectors, geth, anvil, client libraries. The feature
//! `all-tests` compiles them. `tests/run` enables it and checks that each group has run.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, path::Path};

/// Source folders, each with the prefix of its module paths.
const FOLDERS: [(&str, &str); 4] = [
    ("tests/it", ""),
    ("src", "nearhead::"),
    ("actors/src", "nearhead_actors::"),
    ("actors/chain/src", "nearhead_chain::"),
];

/// Modules without tests.
const SUPPORT: [&str; 4] = ["fixture", "pair", "test_chain", "threads"];

fn main() {
    let mut groups = Vec::new();
    for (folder, prefix) in FOLDERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        collect(&folder, &folder, prefix, &mut groups);
    }
    groups.sort();
    let groups = groups.join(", ");
    if cfg!(feature = "all-tests") {
        println!("Groups that need more than Rust: {groups}.");
    } else {
        println!(
            "Not run, because they need more than Rust: {groups}. `tests/run` installs what they \
             need and runs all tests."
        );
    }
}

/// Adds the modules below `folder` that only `all-tests` compiles.
fn collect(root: &Path, folder: &Path, prefix: &str, groups: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, prefix, groups);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let gated = pair[0].starts_with("#[cfg(") && pair[0].contains("\"all-tests\"");
            let module = pair[1].strip_prefix("mod ");
            let Some(module) = module.filter(|_| gated) else {
                continue;
            };
            let module = module.trim_end_matches([';', ' ', '{']);
            if SUPPORT.contains(&module) {
                continue;
            }
            let parent = path.strip_prefix(root).unwrap().with_extension("");
            let parent = parent.to_str().unwrap().replace('/', "::");
            let parent = parent.trim_end_matches("mod");
            let parent = match parent {
                "main" | "lib" | "" => String::new(),
                _ => format!("{}::", parent.trim_end_matches("::")),
            };
            groups.push(format!("{prefix}{parent}{module}"));
        }
    }
}
