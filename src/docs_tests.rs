//! Compares the tables of docs/ with the code that they document.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, fs, path::Path, sync::Mutex};

use nearhead_actors::upstream::{Choice, Fault, UpstreamState};
use nearhead_chain::remote::Check;

use crate::{
    access::MethodSet,
    config::OPTIONS,
    metrics::Metrics,
    rpc::{METHODS, SEND_RAW_TRANSACTION},
};

/// Serialises the tests, because several tables are on one page.
static PAGES: Mutex<()> = Mutex::new(());

/// Fails unless the page has the table with this head and these rows.
///
/// `UPDATE_DOCS=1 cargo test docs_tests` writes the tables instead.
fn check(page: &str, head: &str, rows: impl Iterator<Item = String>) {
    let columns = head.matches('|').count() - 1;
    let table: String = [
        format!("{head}\n"),
        format!("|{}\n", "---|".repeat(columns)),
    ]
    .into_iter()
    .chain(rows.map(|row| format!("{row}\n")))
    .collect();
    let _turn = PAGES.lock();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let start = text.find(&format!("\n{head}\n"));
    let start = start.unwrap_or_else(|| panic!("{page} has no table {head}")) + 1;
    let end = text[start..]
        .find("\n\n")
        .map_or(text.len(), |length| start + length + 1);
    if text[start..end] == table {
        return;
    }
    assert!(updates(), "{page} should have:\n\n{table}");
    fs::write(&path, format!("{}{table}{}", &text[..start], &text[end..])).unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the tests, not an option of the service"
)]
fn updates() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn options() {
    let rows = OPTIONS.iter().map(|option| {
        let default = match option.default() {
            _ if option.help.contains("one per core") => "one per core".to_owned(),
            default if default == "none" => default,
            default => format!("`{default}`"),
        };
        let (name, accepts, help) = (option.name, option.accepts, option.help);
        format!("| `{name}` | {accepts} | {default} | {help} |")
    });
    let head = "| option | accepts | default | what it is for |";
    check("docs/configuration.md", head, rows);
}

/// Options that the chart sets by values of their own, and those that it does not take: secrets,
/// and a browser's.
const NOT_IN_CHART: [&str; 10] = [
    "listen",
    "admin-listen",
    "metrics-listen",
    "data-dir",
    "shutdown-delay",
    "shutdown-grace",
    "api-key",
    "fleet",
    "fleet-key",
    "open",
];

/// The chart takes the other options by their names.
#[test]
fn options_of_the_chart() {
    const PATH: &str = "deploy/chart/values.schema.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PATH);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("{\"enum\": [\n        \"source\"").unwrap();
    let (_, after) = rest.split_once("\n      ]").unwrap();
    let names = OPTIONS.iter().map(|option| option.name);
    let names = names.filter(|name| !NOT_IN_CHART.contains(name));
    let rows: Vec<_> = names.map(|name| format!("        \"{name}\"")).collect();
    let rows = rows.join(",\n");
    let expected = format!("{before}{{\"enum\": [\n{rows}\n      ]{after}");
    if text != expected {
        assert!(updates(), "{PATH} should have:\n\n{rows}");
        fs::write(&path, expected).unwrap();
    }
}

#[test]
fn node_states() {
    let rows = UpstreamState::ALL
        .iter()
        .map(|(state, meaning)| format!("| `{}` | {meaning} |", state.label()));
    check("docs/nodes.md", "| state | the node |", rows);
}

#[test]
fn head_choices() {
    let rows = Choice::ALL
        .into_iter()
        .map(|choice| format!("| `{}` | {} | {choice} |", choice.label(), choice.effect()));
    check("docs/nodes.md", "| choice | the head | why |", rows);
}

#[test]
fn node_faults() {
    // A block that failed is counted by the check that it failed.
    let faults = Fault::ALL
        .into_iter()
        .filter(|fault| *fault != Fault::BadBlock);
    let rows = faults.map(|fault| format!("| `{}` | {fault} |", fault.label()));
    check("docs/nodes.md", "| reason | what the node did |", rows);
}

#[test]
fn checks_of_blocks() {
    let rows = Check::OF_BLOCKS
        .iter()
        .map(|check| format!("| `{}` | {check} |", check.label()));
    let head = "| check that a block failed | what it found |";
    check("docs/nodes.md", head, rows);
}

#[test]
fn metrics() {
    let rows = Metrics::new([]).unwrap().rows();
    let head = "| metric | type | labels | what it says |";
    check("docs/metrics.md", head, rows.into_iter());
}

#[test]
fn methods() {
    let rows = METHODS.iter().chain([&SEND_RAW_TRANSACTION]).map(|method| {
        let set = match method.set {
            MethodSet::Core => "core",
            MethodSet::Companion => "companion",
            MethodSet::Forwarded => "forwarded",
        };
        let (name, price, contracts) = (method.name, method.price, method.contracts.label());
        format!("| `{name}` | {set} | {price} | {contracts} |")
    });
    check(
        "docs/methods.md",
        "| method | set | units | contracts |",
        rows,
    );
}

/// README and CHANGELOG say how many companion methods there are.
#[test]
fn companions_are_counted() {
    let companions = METHODS
        .iter()
        .filter(|method| method.set == MethodSet::Companion);
    let count = format!(" {} companion", companions.count());
    for (page, text) in [
        ("README.md", include_str!("../README.md")),
        ("CHANGELOG.md", include_str!("../CHANGELOG.md")),
    ] {
        let words: Vec<_> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(&count), "{page} lacks{count}s");
    }
}

/// The page has a row for every code that an error may have.
#[test]
fn error_codes() {
    let source = include_str!("rpc/error.rs");
    let page = include_str!("../docs/errors.md");
    let codes = source.lines().filter_map(|line| {
        let (_, code) = line.trim().strip_suffix(',')?.rsplit_once("=> ")?;
        code.parse::<i32>().ok().filter(|code| code.abs() > 1_000)
    });
    let codes: Vec<i32> = codes.collect();
    assert!(codes.len() > 8, "{codes:?}");
    for code in codes {
        let row = format!("\n| {code} | ");
        assert!(page.contains(&row), "docs/errors.md has no row for {code}");
    }
}

/// The page has every code of the admin API's errors.
#[test]
fn administration_codes() {
    let page = include_str!("../docs/administration.md");
    let operations = include_str!("../actors/tenants/src/administration/error.rs");
    let calls = include_str!("admin/api/api_error.rs");
    let rows = operations.lines().filter(|line| line.contains("(Kind::"));
    // What is left out are the members of the answer.
    let lines = calls.lines().filter(|line| !line.contains("json!"));
    let texts = rows.chain(lines).flat_map(|line| line.split('"'));
    let is_code = |text: &&str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && text.len() > 3
    };
    let codes: Vec<_> = texts.filter(is_code).collect();
    assert!(codes.len() > 30, "{codes:?}");
    for code in codes {
        let named = format!("`{code}`");
        assert!(page.contains(&named), "docs/administration.md lacks {code}");
    }
}

#[test]
fn limits() {
    for (source, head) in [
        (
            include_str!("limits.rs"),
            "| limit | value | what and why |",
        ),
        (
            include_str!("../actors/src/admission/cost.rs"),
            "| permits and their units | value | what and why |",
        ),
        (
            include_str!("../actors/chain/src/window/limits.rs"),
            "| window | value | what and why |",
        ),
        (
            include_str!("../actors/chain/src/call/limits.rs"),
            "| calls | value | what and why |",
        ),
        (
            include_str!("../actors/tenants/src/bounds.rs"),
            "| tenants and keys | value | what and why |",
        ),
        (
            include_str!("../actors/fleet/src/bounds.rs"),
            "| fleets | value | what and why |",
        ),
    ] {
        check("docs/limits.md", head, constants(source).into_iter());
    }
}

/// What a call of a command begins with: in a script, and in the store's client.
const CALLS: [&str; 3] = ["redis.call('", "redis.pcall('", "redis::cmd(\""];

/// The user that docs/fleet.md makes in the store may do what a fleet does there, and no more.
#[test]
fn commands_of_a_fleet() {
    const PATH: &str = "docs/fleet.md";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // What the client does by itself when it connects, to a database other than the first.
    let mut commands = BTreeSet::from(["select".to_owned()]);
    for sources in ["actors/fleet/src/scripts", "actors/src/fleet/store"] {
        for file in fs::read_dir(folder.join(sources)).unwrap() {
            let path = file.unwrap().path();
            // Tests have folders of their own.
            if path.is_dir() {
                continue;
            }
            let source = fs::read_to_string(path).unwrap();
            for call in CALLS {
                let calls = source.split(call).skip(1);
                let names = calls.filter_map(|rest| rest.split(['\'', '"']).next());
                commands.extend(names.map(str::to_ascii_lowercase));
            }
        }
    }
    // It is asked of another server.
    assert!(commands.remove("sentinel") && commands.contains("xread"));
    let commands: Vec<String> = commands.iter().map(|name| format!("+{name}")).collect();
    let mut lines = vec![String::new()];
    for command in commands {
        let line = lines.last_mut().unwrap();
        if line.len() + command.len() > 110 {
            line.push_str(" \\");
            lines.push(String::new());
        }
        let line = lines.last_mut().unwrap();
        line.push_str(if line.is_empty() { "  " } else { " " });
        line.push_str(&command);
    }
    let list = lines.join("\n");
    let path = folder.join(PATH);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("'~{nearhead}:*' \\\n").unwrap();
    let (_, after) = rest.split_once("\n```").unwrap();
    let expected = format!("{before}'~{{nearhead}}:*' \\\n{list}\n```{after}");
    if text != expected {
        assert!(updates(), "{PATH} should have:\n\n{list}");
        fs::write(&path, expected).unwrap();
    }
}

/// A row for each constant of a file, with its documentation.
fn constants(source: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut documentation: Vec<&str> = Vec::new();
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            documentation.extend(text.split_whitespace());
        } else if let Some(constant) = constant(line) {
            let (name, rest) = constant.split_once(": ").unwrap();
            let (_, value) = rest.trim_end_matches(';').split_once(" = ").unwrap();
            let reason = without_links(&documentation.join(" "));
            rows.push(format!("| `{name}` | {} | {reason} |", shown(name, value)));
            documentation.clear();
        } else {
            documentation.clear();
        }
    }
    assert_eq!(rows.len(), source.lines().filter_map(constant).count());
    rows
}

/// What follows `const` in the first line of a constant that is visible outside its file.
fn constant(line: &str) -> Option<&str> {
    let visible = ["pub const ", "pub(crate) const "];
    visible.iter().find_map(|start| line.strip_prefix(start))
}

/// Links to items work only in the code's own documentation.
fn without_links(text: &str) -> String {
    let text = text.replace("[`", "`").replace("`]", "`");
    text.replace("`CostClass::Cheap`", "cheap")
        .replace("`CostClass::Measured`", "measured")
}

/// A constant's expression as people write it.
fn shown(name: &str, expression: &str) -> String {
    for (constructor, unit) in [("secs", "s"), ("millis", "ms"), ("micros", "µs")] {
        if let Some(number) = expression.strip_prefix(&format!("Duration::from_{constructor}(")) {
            return format!("{} {unit}", number.trim_end_matches(')'));
        }
    }
    match (expression, expression.split_once(" << ")) {
        (_, Some((number, "10"))) if name.contains("BYTES") => format!("{number} KiB"),
        (_, Some((number, "20"))) if name.contains("BYTES") => format!("{number} MiB"),
        (_, Some((number, "30"))) if name.contains("BYTES") => format!("{number} GiB"),
        ("1 << 20", _) => "1,048,576".to_owned(),
        _ if expression
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_') =>
        {
            expression.replace('_', ",")
        }
        _ => expression.to_owned(),
    }
}
