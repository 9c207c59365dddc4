//! What each module may mention, read from the tables of the code maps.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use super::{
    check_none, root,
    source::{Source, sources},
};

/// The packages: folder, and the file whose table names its modules.
const PACKAGES: [(&str, &str); 5] = [
    ("src", "src/lib.rs"),
    ("actors/src", "actors/src/lib.rs"),
    ("actors/chain/src", "actors/chain/src/lib.rs"),
    ("actors/fleet/src", "actors/fleet/src/lib.rs"),
    ("actors/tenants/src", "actors/tenants/src/lib.rs"),
];

/// The head of such a table.
const HEAD: &str = "//! | module | what it does | must not mention |";

/// The row whose words no module of the package may mention.
const EVERY_MODULE: &str = "every module";

/// Module, as its path in the package's folder without `.rs`, and what it must not mention.
type Modules = BTreeMap<String, Vec<String>>;

/// Reads the table of a code map.
fn modules(text: &str) -> Modules {
    let (_, table) = text
        .split_once(HEAD)
        .expect("the code map has a table of modules");
    let rows = table
        .lines()
        .skip(2)
        .map_while(|line| line.strip_prefix("//! | "));
    let modules = rows.map(|row| {
        let cells: Vec<&str> = row.split(" |").collect();
        let module = backticked(cells[0]).next().unwrap_or(cells[0]);
        let words = backticked(cells[2]).map(str::to_owned);
        (module.trim_end_matches(".rs").to_owned(), words.collect())
    });
    modules.collect()
}

/// The texts between backticks.
fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn a_table_of_modules_is_read() {
    let text = format!(
        "//! # Map\n{HEAD}\n//! |---|---|---|\n//! | every module | all | `x` |\n\
         //! | [`a`] | does | `actix`, `crate::b` |\n//! | `c/d.rs` | `more` | |\n//!\n//! | `e` | | |\n"
    );
    let modules = modules(&text);
    let words = |module: &str| modules[module].join(" ");
    assert_eq!(modules.len(), 3);
    assert_eq!(
        (words(EVERY_MODULE), words("a"), words("c/d")),
        ("x".to_owned(), "actix crate::b".to_owned(), String::new())
    );
}

/// Files and folders at the top of a package that are not for tests alone.
fn places(folder: &str, sources: &[Source]) -> BTreeSet<String> {
    let inside = sources.iter().filter(|source| !source.is_test);
    let inside = inside.filter_map(|source| source.path.strip_prefix(folder)?.strip_prefix('/'));
    let tops = inside.map(|path| {
        path.split('/')
            .next()
            .unwrap()
            .trim_end_matches(".rs")
            .to_owned()
    });
    tops.filter(|top| top != "lib").collect()
}

/// Whether a line contains the word. If the word is a path of the package, it must be a whole one.
fn mentions(line: &str, word: &str) -> bool {
    let is_part = |one: char| one.is_alphanumeric() || one == '_';
    let is_path = word.starts_with("crate::") && word.ends_with(is_part);
    line.match_indices(word).any(|(at, _)| {
        let rest = &line[at + word.len()..];
        !is_path || !rest.starts_with(is_part)
    })
}

#[test]
fn no_module_mentions_what_the_code_map_forbids() {
    assert!(mentions("use crate::read;", "crate::read") && mentions("actix_web", "actix"));
    assert!(!mentions("use crate::readiness;", "crate::read"));
    let all = sources(&["src", "actors"]);
    let mut violations = Vec::new();
    for (folder, map) in PACKAGES {
        let modules = modules(&fs::read_to_string(root().join(map)).unwrap());
        let places = places(folder, &all);
        for place in places.iter().filter(|place| !modules.contains_key(*place)) {
            violations.push(format!("{map}: no row for {folder}/{place}"));
        }
        for (module, words) in &modules {
            let prefix = match module.as_str() {
                EVERY_MODULE => format!("{folder}/"),
                module => format!("{folder}/{module}"),
            };
            let files = all.iter().filter(|source| {
                let rest = source.path.strip_prefix(&prefix);
                rest.is_some_and(|rest| {
                    module == EVERY_MODULE || rest.starts_with('/') || rest == ".rs"
                })
            });
            let files: Vec<&Source> = files.collect();
            if files.is_empty() {
                violations.push(format!("{map}: there is no {module}"));
            }
            for word in words {
                // A module that does not exist cannot be imported: the row is out of date.
                if let Some(name) = word.strip_prefix("crate::").filter(|name| !name.is_empty())
                    && !places.contains(name.split("::").next().unwrap())
                {
                    violations.push(format!(
                        "{map}: {module} must not mention {word}, which does not exist"
                    ));
                }
            }
            for source in files.iter().filter(|source| !source.is_test) {
                for (number, line) in source.words() {
                    for word in words.iter().filter(|word| mentions(&line, word)) {
                        let (path, line) = (&source.path, line.trim());
                        violations.push(format!("{path}:{number}: {word}: {line}"));
                    }
                }
            }
        }
    }
    check_none(
        "a module mentions what its row of the code map forbids",
        &violations,
    );
}
