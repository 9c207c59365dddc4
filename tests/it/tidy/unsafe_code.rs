//! SECURITY.md has every file with `unsafe` code, and each use has its reason.

use std::{collections::BTreeSet, fs};

use super::{check_none, root, source::sources};

/// Whether a line of code begins something unsafe. The name of the lint is another word.
fn is_unsafe(line: &str) -> bool {
    let mut words = line.split(|one: char| !(one.is_alphanumeric() || one == '_'));
    // A string that has the word is no code.
    !line.contains('"') && words.any(|word| word == "unsafe")
}

#[test]
fn unsafe_code_is_listed_with_its_reason() {
    let mut files = BTreeSet::new();
    let mut violations = Vec::new();
    for source in sources(&["src", "actors", "tests", "load-tests"]) {
        let lines: Vec<_> = source.text.lines().collect();
        for (number, _) in source.code(true).filter(|(_, line)| is_unsafe(line)) {
            files.insert(source.path.clone());
            // The comment may have several lines, and the statement a line before the block.
            let before = &lines[number.saturating_sub(6)..number];
            if !before
                .iter()
                .any(|line| line.trim().starts_with("// SAFETY: "))
            {
                violations.push(format!("{}:{number}", source.path));
            }
        }
    }
    check_none("unsafe without a reason", &violations);

    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let (_, table) = page.split_once("| file | why |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let listed = rows.map(|row| row.split('`').nth(1).unwrap().to_owned());
    assert_eq!(listed.collect::<BTreeSet<_>>(), files, "SECURITY.md");
}

#[test]
fn unsafe_code_is_recognized() {
    for (line, expected) in [
        ("unsafe { f() }", true),
        ("let x = unsafe { f() };", true),
        ("unsafe impl Send for X {}", true),
        ("    unsafe_code,", false),
        ("#[expect(unsafe_code, reason = \"why\")]", false),
        ("let text = \"unsafe\";", false),
    ] {
        assert_eq!(is_unsafe(line), expected, "{line}");
    }
}
