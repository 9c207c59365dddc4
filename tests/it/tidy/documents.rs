//! The README is short, every relative link in the documents has a target, and every file that they
//! name exists.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::{check_none, root};

/// A reader decides within a minute whether to read on.
const README_LINES_MAX: usize = 120;

/// Documents outside of docs/ whose links are checked.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "deploy/chart/README.md",
    "load-tests/README.md",
    "tests/clients/README.md",
];

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines, at most {README_LINES_MAX}"
    );
}

/// Lines outside of code, with their numbers from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of the links in a line: the texts between `](` and `)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// The anchor of a heading, as GitHub and docs.rs make it: lower case, no punctuation, `-` for a
/// space.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|one| one.is_alphanumeric() || [' ', '-', '_'].contains(one));
    kept.map(|one| if one == ' ' { '-' } else { one }).collect()
}

#[test]
fn links_and_anchors_are_read() {
    let line = "see [a](b.md#c-d), [e](https://f) and `[g]`";
    assert_eq!(links(line).collect::<Vec<_>>(), ["b.md#c-d", "https://f"]);
    assert_eq!(
        anchor("## What `no hash` covers, in 2"),
        "what-no-hash-covers-in-2"
    );
    let text = "a\n```sh\n# b\n```\n# c";
    assert_eq!(prose(text).collect::<Vec<_>>(), [(1, "a"), (5, "# c")]);
}

#[test]
fn every_relative_link_has_a_target() {
    let mut documents: Vec<PathBuf> = DOCUMENTS.iter().map(|path| root().join(path)).collect();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        documents.push(entry.unwrap().path());
    }
    let mut anchors: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut violations = Vec::new();
    let mut count = 0;
    for document in &documents {
        let folder = document.parent().unwrap();
        let text = read(document);
        for (number, line) in prose(&text) {
            for link in links(line).filter(|link| !link.contains("://")) {
                count += 1;
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() {
                    document.clone()
                } else {
                    folder.join(path)
                };
                let is_found = target.canonicalize().is_ok_and(|target| {
                    let anchors = anchors.entry(target).or_insert_with_key(|target| {
                        let text = fs::read_to_string(target).unwrap_or_default();
                        let headings = prose(&text).filter(|(_, line)| line.starts_with('#'));
                        headings.map(|(_, heading)| anchor(heading)).collect()
                    });
                    heading.is_empty() || anchors.iter().any(|anchor| anchor == heading)
                });
                if !is_found {
                    violations.push(format!("{}:{number}: {link}", document.display()));
                }
            }
        }
    }
    assert!(count > 20, "{count} links");
    check_none("a link without a target", &violations);
}

/// Documents that name files of the code.
const GUIDES: [&str; 3] = [
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/performance.md",
];

#[test]
fn named_files_exist() {
    let mut violations = Vec::new();
    let mut count = 0;
    for guide in GUIDES {
        let text = read(&root().join(guide));
        for (number, line) in prose(&text) {
            let names = line.split('`').skip(1).step_by(2).filter(|name| {
                let is_path = ["src/", "actors/", "tests/"]
                    .iter()
                    .any(|top| name.starts_with(top));
                is_path && !name.contains(|one: char| one.is_whitespace() || "<*{".contains(one))
            });
            for name in names {
                count += 1;
                if !root().join(name).exists() {
                    violations.push(format!("{guide}:{number}: {name}"));
                }
            }
        }
    }
    assert!(count > 20, "{count} files");
    check_none("a file that does not exist", &violations);
}
