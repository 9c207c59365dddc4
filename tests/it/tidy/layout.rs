//! Files are short, named for what they contain, and no wider than a screen.

use std::{fs, path::Path};

use super::{check_none, root, source::sources};

/// Lines of a file with one responsibility. Tests may be longer: they have tables.
const CODE_LINES_MAX: usize = 550;
const TEST_LINES_MAX: usize = 900;

#[test]
fn files_are_short_and_named_for_what_they_contain() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors", "tests"]) {
        let last = source
            .code(source.is_test)
            .last()
            .map_or(0, |(number, _)| number);
        let most = if source.is_test {
            TEST_LINES_MAX
        } else {
            CODE_LINES_MAX
        };
        if last > most {
            let what = if source.is_test {
                "lines"
            } else {
                "lines without its tests"
            };
            violations.push(format!("{}: {last} {what}, at most {most}", source.path));
        }
        let name = Path::new(&source.path)
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if [
            "utils", "util", "common", "helpers", "helper", "manager", "misc",
        ]
        .contains(&name.as_str())
        {
            violations.push(format!(
                "{}: the name does not say what the file contains",
                source.path
            ));
        }
    }
    check_none("a long file, or one with a vague name", &violations);
}

/// Columns of code and comments, in Rust and in scripts.
const COLUMNS_MAX: usize = 100;
const SCRIPT_COLUMNS_MAX: usize = 120;

/// Whether a line may be wider: rows of tables, string literals and URLs are not broken.
fn may_be_wide(line: &str) -> bool {
    let text = line
        .trim_start()
        .trim_start_matches(['/', '!', '#'])
        .trim_start();
    let is_comment = ["//", "# "]
        .iter()
        .any(|mark| line.trim_start().starts_with(mark));
    let has_text = line.ends_with('\\') || line.contains('"') || line.contains('\'');
    text.starts_with('|') || line.contains("://") || has_text && !is_comment
}

#[test]
fn lines_fit_a_screen() {
    let mut files: Vec<(String, String)> = sources(&["src", "actors", "tests", "load-tests"])
        .into_iter()
        .map(|source| (source.path, source.text))
        .collect();
    files.extend(scripts());
    assert!(files.iter().any(|(path, _)| path == "tests/run"));
    let mut violations = Vec::new();
    for (path, text) in files {
        let most = if path.ends_with(".rs") {
            COLUMNS_MAX
        } else {
            SCRIPT_COLUMNS_MAX
        };
        let mut is_skipped = false;
        for (index, line) in text.lines().enumerate() {
            // A table in the code, aligned by columns.
            is_skipped |= line.starts_with("#[rustfmt::skip]");
            is_skipped &= !(line.starts_with('}') || line.starts_with(']'));
            let width = line.chars().count();
            if width > most && !is_skipped && !may_be_wide(line) {
                violations.push(format!("{path}:{}: {width} columns", index + 1));
            }
        }
    }
    check_none("too wide", &violations);
}

/// Path and text of the shell and Python scripts.
fn scripts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in [
        ".ci",
        "deploy",
        "tests",
        "tests/chart",
        "tests/clients",
        "tests/fuzz",
        "load-tests",
    ] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            let is_python = path.extension().is_some_and(|extension| extension == "py");
            if is_python || text.starts_with("#!") {
                let name = path.strip_prefix(root()).unwrap();
                found.push((name.display().to_string(), text));
            }
        }
    }
    found
}
