//! The tables of tests/clients/README.md.

use super::{Observed, answers::METHODS};
use crate::harness;

/// Rows for clients that follow the chain, below those of the methods.
const FOLLOWER_ROWS: [&str; 6] = [
    "heads",
    "numbers",
    "logs",
    "added logs",
    "lost connection",
    "unsubscribe",
];

const README: &str = include_str!("../../clients/README.md");

/// Asserts that the README's column of this client and its rows of omitted members are what was
/// observed.
pub(super) fn check(client: &str, observed: &Observed) {
    let mut lines = README
        .lines()
        .skip_while(|line| !line.starts_with("| call or event |"));
    let head: Vec<&str> = cells(lines.next().unwrap()).collect();
    let column = head.iter().position(|cell| *cell == client);
    let column = column.unwrap_or_else(|| panic!("README.md has no column {client:?}: {head:?}"));
    let shown: Vec<(String, String)> = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let row: Vec<&str> = cells(line).collect();
            (plain(row[0]), plain(row[column]))
        })
        .collect();
    let cell = |row: &str| {
        observed
            .rows
            .get(row)
            .map_or("-", String::as_str)
            .to_owned()
    };
    let rows = METHODS.into_iter().chain(FOLLOWER_ROWS);
    let expected: Vec<_> = rows.map(|row| (row.to_owned(), cell(row))).collect();
    harness::check(&format!("README.md, {client}"), &shown, &expected);

    let name = client.split(' ').next().unwrap();
    let rows = README
        .lines()
        .filter(|line| line.starts_with(&format!("| {name} | `")));
    let shown: Vec<&str> = rows.collect();
    let expected: Vec<String> = observed
        .omitted
        .iter()
        .filter(|(_, members)| !members.is_empty())
        .map(|(of, members)| {
            let members: Vec<String> = members.iter().map(|member| format!("`{member}`")).collect();
            format!("| {name} | `{of}` | {} |", members.join(", "))
        })
        .collect();
    assert!(
        shown == expected,
        "README.md should have:\n{}",
        expected.join("\n")
    );
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_matches('|').split('|').map(str::trim)
}

/// A cell without backticks.
fn plain(cell: &str) -> String {
    cell.replace('`', "")
}
