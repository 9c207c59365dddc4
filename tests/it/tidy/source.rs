//! The source files of the workspace, in the form in which the rules search them.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use super::{
    root,
    tokens::{Statement, statements, test_items},
};

/// A source file.
pub(super) struct Source {
    /// From the root.
    pub(super) path: String,
    pub(super) text: String,
    /// Whether the file is compiled for tests alone.
    pub(super) is_test: bool,
    /// First and last lines of the items that are compiled for tests alone.
    test_items: Vec<(usize, usize)>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str, is_test: bool) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            is_test,
            test_items: test_items(text),
        }
    }

    /// Lines of code with their numbers from 1, without comments, and without the items for tests
    /// where `tests` is false.
    pub(super) fn code(&self, tests: bool) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        let lines = lines.map(|(index, line)| (index + 1, line));
        lines.filter(move |(number, line)| {
            let is_in = |(first, last): &(usize, usize)| (first..=last).contains(&number);
            !line.trim_start().starts_with("//") && (tests || !self.test_items.iter().any(is_in))
        })
    }

    /// What rules search for words: lines of code outside of tests, and the full path of each
    /// import, so that `use crate::{a, http::b};` contains `crate::http`.
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
        let lines = self.code(false).map(|(number, line)| (number, line.into()));
        let imports = self.imports().into_iter();
        lines.chain(imports.map(|(number, path)| (number, path.into())))
    }

    /// Paths that the file imports outside of its tests, with the line that each import begins on.
    pub(super) fn imports(&self) -> Vec<(usize, String)> {
        let uses = statements(&self.text).into_iter();
        let paths = uses.filter_map(|(line, statement)| match statement {
            Statement::Use { path, .. } => Some((line, path.join("::"))),
            Statement::Path(_) => None,
        });
        paths.collect()
    }

    /// Modules that the file declares for tests alone: paths without the extension.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let folder = match self
            .path
            .strip_suffix("/mod.rs")
            .or_else(|| self.path.strip_suffix("/lib.rs"))
        {
            Some(folder) => folder.to_owned(),
            None => self.path.trim_end_matches(".rs").to_owned(),
        };
        // Modules for the tests of other packages count too.
        let text = self
            .text
            .replace(r#"#[cfg(any(test, feature = "testing"))]"#, "#[cfg(test)]")
            .replace(
                r#"#[cfg(all(test, feature = "all-tests"))]"#,
                "#[cfg(test)]",
            );
        let after: Vec<String> = text
            .split("#[cfg(test)]\n")
            .skip(1)
            .map(str::to_owned)
            .collect();
        after.into_iter().filter_map(move |after| {
            let declared = after.lines().find(|line| !line.starts_with("#["))?;
            let (_, name) = declared.split_once("mod ")?;
            Some(format!("{folder}/{}", name.strip_suffix(';')?))
        })
    }
}

/// All Rust files of the workspace whose path begins with one of these.
pub(super) fn sources(places: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "actors", "tests", "load-tests"] {
        walk(&root().join(folder), &mut found);
    }
    let read = |path: PathBuf| {
        let relative = path
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let is_test = relative.starts_with("tests/") || relative.contains("/benches/");
        Source::new(&relative, &fs::read_to_string(&path).unwrap(), is_test)
    };
    let mut sources: Vec<Source> = found.into_iter().map(read).collect();
    let test_modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in &mut sources {
        let is_in = |module: &String| {
            source
                .path
                .strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.is_test |= test_modules.iter().any(is_in);
    }
    for place in places {
        let is_there = |source: &Source| source.path.starts_with(place);
        assert!(
            sources.iter().any(is_there),
            "there is no source at {place}"
        );
    }
    sources.retain(|source| places.iter().any(|place| source.path.starts_with(place)));
    sources
}

fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        if !["target", ".tools", "node_modules"]
            .iter()
            .any(|name| path.ends_with(name))
        {
            fs::read_dir(path)
                .unwrap()
                .for_each(|entry| walk(&entry.unwrap().path(), found));
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_path_buf());
    }
}

#[test]
fn imports_are_written_out() {
    let text =
        "use a::b;\npub(crate) use c::{\n    d,\n    // Why.\n    e::{f, g},\n    h::i,\n};\n";
    let source = Source::new("src/x.rs", &format!("{text}let x = 1;\n"), false);
    let imports = source.imports();
    let expected = [
        (1, "a::b"),
        (2, "c::d"),
        (2, "c::e::f"),
        (2, "c::e::g"),
        (2, "c::h::i"),
    ];
    assert_eq!(
        imports,
        expected.map(|(number, path)| (number, path.to_owned()))
    );
}

#[test]
fn items_for_tests_are_no_code() {
    let text = "a();\n#[cfg(test)]\nfn b() {\n    c();\n}\n// d\ne();\n#[cfg(all(test, feature = \"x\"))]\nuse f;\ng();\n";
    let source = Source::new("src/x.rs", text, false);
    let code: Vec<_> = source.code(false).collect();
    assert_eq!(code, [(1, "a();"), (7, "e();"), (10, "g();")]);
    assert_eq!(source.code(true).count(), 9);
}
