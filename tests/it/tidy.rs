//! Rules that no compiler checks: who may know what, what may not be called, what the README has to
//! say.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

/// The project's folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source file.
struct Source {
    /// From the root.
    path: String,
    text: String,
    /// Whether the file is compiled for tests alone.
    is_test: bool,
}

impl Source {
    /// Lines of code with their numbers from 1: comments are taken off, and the tests at the end
    /// where `tests` is false.
    fn code(&self, tests: bool) -> impl Iterator<Item = (usize, &str)> {
        let end = if tests {
            None
        } else {
            self.text.find("\nmod tests {")
        };
        let text = &self.text[..end.unwrap_or(self.text.len())];
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// What can be searched for words: lines of code outside of tests, and each import written out,
    /// so that `use crate::{a, http::b};` has `crate::http` in it.
    fn words(&self) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
        let lines = self.code(false).map(|(number, line)| (number, line.into()));
        let imports = self.imports().into_iter();
        lines.chain(imports.map(|(number, path)| (number, path.into())))
    }

    /// Paths that the file imports, with the line that each import begins on.
    fn imports(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let mut lines = self.code(false);
        while let Some((number, line)) = lines.next() {
            let Some((before, begun)) = line.split_once("use ") else {
                continue;
            };
            if !(before.trim().is_empty() || before.trim().starts_with("pub")) {
                continue;
            }
            let mut tree = begun.to_owned();
            while !tree.contains(';') {
                let Some((_, line)) = lines.next() else { break };
                tree.push_str(line.trim());
            }
            let mut paths = Vec::new();
            expand("", tree.trim_end_matches(';'), &mut paths);
            found.extend(paths.into_iter().map(|path| (number, path)));
        }
        found
    }

    /// Modules that the file declares for tests alone: paths without their ending.
    fn test_modules(&self) -> impl Iterator<Item = String> {
        let folder = match self
            .path
            .strip_suffix("/mod.rs")
            .or_else(|| self.path.strip_suffix("/lib.rs"))
        {
            Some(folder) => folder.to_owned(),
            None => self.path.trim_end_matches(".rs").to_owned(),
        };
        // Those that the tests of other packages are given, too.
        let text = self
            .text
            .replace(r#"#[cfg(any(test, feature = "testing"))]"#, "#[cfg(test)]");
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

/// Writes the paths of a use tree out: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        if !tree.is_empty() {
            paths.push(format!("{prefix}{tree}"));
        }
        return;
    };
    let prefix = format!("{prefix}{head}");
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &inner[start..], paths);
}

#[test]
fn imports_are_written_out() {
    let source = Source {
        path: "src/x.rs".to_owned(),
        text: "use a::b;\npub(crate) use c::{\n    d,\n    // Why.\n    e::{f, g},\n    h::i,\n};\nlet x = 1;\n"
            .to_owned(),
        is_test: false,
    };
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

/// All Rust files of the workspace whose path begins with one of these.
fn sources(places: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "actors", "tests"] {
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
        Source {
            path: relative,
            text: fs::read_to_string(&path).unwrap(),
            is_test,
        }
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

/// Fails with all lines that break a rule.
fn check_none(rule: &str, violations: &[String]) {
    assert!(violations.is_empty(), "{rule}:\n{}", violations.join("\n"));
}

/// Who may not mention what: folder or file, words, and why.
const BOUNDARIES: &[(&str, &[&str], &str)] = &[
    (
        "actors/chain/src",
        &[
            "actix",
            "tokio",
            "std::net",
            "std::fs",
            "std::env",
            "SystemTime",
            "Instant",
            "async fn",
            "async move",
        ],
        "the chain package is pure: no async, no sockets, no files, no clock",
    ),
    (
        "actors/src",
        &[
            "actix_web",
            "actix_http",
            "serde_json",
            "std::env",
            "api_key",
        ],
        "the mailboxes know no HTTP, no JSON-RPC and no configuration",
    ),
    (
        "src/rpc",
        &["actix_web", "actix_http", "crate::http", "crate::config"],
        "JSON-RPC knows no HTTP",
    ),
    (
        "src/access",
        &[
            "actix",
            "crate::http",
            "crate::rpc",
            "Instant::now",
            "SystemTime",
        ],
        "keys and quotas know neither HTTP nor JSON-RPC, and are told the time",
    ),
    (
        "src/http/request_actor.rs",
        &["actix_web", "actix_http", "crate::http", "crate::reply"],
        "a request's actor knows no HTTP",
    ),
    (
        "src/service.rs",
        &["serde_json", "RpcError", "Envelope", "Params"],
        "who starts the parts does not know JSON-RPC",
    ),
    (
        "src/feed.rs",
        &[
            "actix_web",
            "crate::http",
            "crate::rpc",
            "crate::access",
            "api_key",
            "serde_json",
        ],
        "the source's thread knows no HTTP, no JSON-RPC and no keys",
    ),
    (
        "src/export.rs",
        &["actix_web", "crate::http", "crate::rpc", "serde_json"],
        "exporting knows no HTTP and no JSON-RPC",
    ),
    (
        "src/progress.rs",
        &["actix_web", "crate::http", "crate::rpc", "serde_json"],
        "progress knows no HTTP and no JSON-RPC",
    ),
    (
        "src/logging.rs",
        &["actix_web", "crate::http", "crate::rpc", "serde_json"],
        "logging knows no HTTP and no JSON-RPC",
    ),
    (
        "src/metrics.rs",
        &["actix_web", "actix_http", "crate::http"],
        "metrics do not know how they are asked for",
    ),
    (
        "actors/src/head.rs",
        &["_actor", "crate::read", "crate::source"],
        "the pointer does not know who reads it",
    ),
    (
        "actors/src/head_tracker",
        &["crate::source", "crate::read"],
        "the head tracker does not know where blocks come from",
    ),
    (
        "actors/src/source",
        &["_actor", "crate::read"],
        "a source does not know who reads",
    ),
    (
        "actors/src/upstream",
        &["_actor", "crate::read"],
        "a source does not know who reads",
    ),
    (
        "src/config",
        &["actix::", "actix_web::", "crate::http", "crate::rpc"],
        "the configuration knows nobody who reads it",
    ),
];

/// Rooms in a room that may mention one more thing: folder, word.
const DOORS: &[(&str, &str)] = &[
    // A node is asked by JSON-RPC.
    ("actors/src/upstream", "serde_json"),
];

#[test]
fn rooms_know_only_what_they_may() {
    let mut violations = Vec::new();
    for (folder, words, why) in BOUNDARIES {
        for source in sources(&[folder]) {
            for (number, line) in source.words() {
                let may = |word: &str| {
                    DOORS
                        .iter()
                        .any(|(folder, known)| source.path.starts_with(folder) && *known == word)
                };
                let knows = |word: &&str| line.contains(*word) && !may(word);
                if !source.is_test && words.iter().any(knows) {
                    violations.push(format!(
                        "{}:{number}: {}  ({why})",
                        source.path,
                        line.trim()
                    ));
                }
            }
        }
    }
    check_none("a room knows what it must not know", &violations);
}

/// Names that one file alone may use: word, the files, why.
const ALONE: &[(&str, &[&str], &str)] = &[
    (
        "actix_web_actors",
        &["src/ws/session_actor.rs"],
        "deprecated: one file to replace",
    ),
    (
        "std::env",
        &[
            "src/main.rs",
            "src/config/",
            // Programs of their own: what they measure is named on their own command line.
            "actors/chain/benches/",
        ],
        "every option is in the table of config/mod.rs",
    ),
    (
        "crate::http",
        &["src/service.rs", "src/http"],
        "HTTP is one transport: only who starts it knows it",
    ),
    ("crate::reply", &["src/http"], "bodies in pieces are HTTP's"),
    (
        "head.store(",
        &["actors/src/head_tracker"],
        "one writer: the head tracker",
    ),
    (
        "process::exit",
        &["src/main.rs"],
        "the end of the process is main's decision",
    ),
    (
        "prometheus",
        &["src/metrics.rs", "src/http/probes.rs"],
        "every metric is in one file, and one route serves them",
    ),
    (
        "SyncArbiter",
        &["actors/src/read/pool.rs"],
        "its queue is unbounded: whoever sends to it holds a permit",
    ),
];

#[test]
fn some_things_have_one_place() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test)
    {
        for (word, places, why) in ALONE {
            let allowed = places.iter().any(|place| source.path.starts_with(place));
            for (number, line) in source
                .words()
                .filter(|(_, line)| !allowed && line.contains(word))
            {
                violations.push(format!(
                    "{}:{number}: {}  ({why})",
                    source.path,
                    line.trim()
                ));
            }
        }
    }
    check_none("used out of its place", &violations);
}

/// Whether a line has one of JSON-RPC's error numbers: -32xxx, -39xxx or 4444, digits grouped or
/// not.
fn has_code(line: &str) -> bool {
    let line = line.replace('_', "");
    line.split(|character: char| !(character.is_ascii_digit() || character == '-'))
        .any(|word| match word.strip_prefix('-') {
            Some(digits) => {
                digits.len() == 5 && (digits.starts_with("32") || digits.starts_with("39"))
            }
            None => word == "4444",
        })
}

/// Where they stand: those that are sent, and what those of nodes mean.
const CODES: [&str; 2] = ["src/rpc/error.rs", "actors/src/upstream/client/code.rs"];

#[test]
fn error_numbers_have_one_place() {
    assert!(has_code("Self::Parse => -32700,") && has_code("-39_001") && has_code("=> 4444"));
    assert!(!has_code("from -3 to 4") && !has_code("32700") && !has_code("x44445"));
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test && !CODES.contains(&source.path.as_str()))
    {
        for (number, line) in source.code(false).filter(|(_, line)| has_code(line)) {
            violations.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    check_none("an error's number outside of rpc::error", &violations);
}

/// Calls that no code makes, each with its reason; `.clippy.toml` bans what has a path.
const BANNED: &[(&str, &str)] = &[
    ("do_send", "unbounded: take a permit, then send"),
    ("unbounded", "every queue has a bound"),
    ("todo!(", "no stub"),
    ("unimplemented!(", "no stub"),
    ("dbg!(", "not for a release"),
];

#[test]
fn banned_calls() {
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"]) {
        for (number, line) in source.code(true) {
            for (word, why) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                violations.push(format!("{}:{number}: {word}: {why}", source.path));
            }
        }
    }
    check_none("banned", &violations);
}

/// What neither input, nor a peer, nor a disk may cause.
#[test]
fn no_panic_outside_tests() {
    let words = [".unwrap()", ".expect(", "unreachable!(", "panic!("];
    let mut violations = Vec::new();
    for source in sources(&["src", "actors"])
        .iter()
        .filter(|source| !source.is_test)
    {
        for (number, line) in source
            .code(false)
            .filter(|(_, line)| words.iter().any(|word| line.contains(word)))
        {
            violations.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    check_none("a panic outside tests", &violations);
}

/// Tests run, and wait for states instead of time.
#[test]
fn tests_are_run_and_do_not_sleep() {
    let ignored = concat!("#[", "ignore");
    let sleeps = [concat!("thread::", "sleep"), concat!("time::", "sleep(")];
    let mut violations = Vec::new();
    for source in sources(&["src", "actors", "tests"]) {
        for (number, line) in source.code(true) {
            let sleeping = source.is_test && sleeps.iter().any(|sleep| line.contains(sleep));
            if line.contains(ignored) || sleeping {
                violations.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    check_none("ignored, or asleep", &violations);
}

/// Lines of code of one responsibility; tables of tests may be longer.
const CODE_LINES_MAX: usize = 550;
const TEST_LINES_MAX: usize = 900;

#[test]
fn files_are_short_and_named_for_what_they_hold() {
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
            violations.push(format!(
                "{}: {last} lines without its tests, at most {most}",
                source.path
            ));
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
            violations.push(format!("{}: says nothing of what it holds", source.path));
        }
    }
    check_none("long, or badly named", &violations);
}
