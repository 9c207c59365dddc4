//! Tables and lists of facts, as people read them in a terminal.

use crate::thousands::thousands;

/// Space between two columns.
const GAP: &str = "  ";

/// On which side a column is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a head.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub(super) fn new(columns: impl Into<Vec<(&'static str, Align)>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each column.
    pub(super) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// The table, each line ended.
    pub(super) fn text(&self) -> String {
        let heads = self.columns.iter().map(|(head, _)| head.to_uppercase());
        let heads: Vec<String> = heads.collect();
        let mut widths: Vec<usize> = heads.iter().map(|head| width(head)).collect();
        for row in &self.rows {
            for (most, cell) in widths.iter_mut().zip(row) {
                *most = width(cell).max(*most);
            }
        }
        let lines = std::iter::once(&heads).chain(&self.rows);
        lines.map(|line| self.line(line, &widths)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let columns = cells.iter().zip(&self.columns).zip(widths);
        let cells = columns.map(|((cell, (_, align)), most)| {
            let space = " ".repeat(most.saturating_sub(width(cell)));
            match align {
                Align::Left => format!("{cell}{space}"),
                Align::Right => format!("{space}{cell}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        format!("{}\n", line.trim_end())
    }
}

/// Facts about one thing: a name and a value in each line. Those without a value are left out.
pub(super) fn facts<const N: usize>(facts: [(&str, Option<String>); N]) -> String {
    let present = || facts.iter().filter(|(_, value)| value.is_some());
    let most = present().map(|(name, _)| width(name)).max().unwrap_or(0);
    let line = |(name, value): &(&str, Option<String>)| {
        let space = " ".repeat(most - width(name));
        let value = value.as_deref().unwrap_or_default();
        format!("{name}{space}{GAP}{value}\n")
    };
    present().map(line).collect()
}

/// Columns that a text takes, if each character takes one.
fn width(text: &str) -> usize {
    text.chars().count()
}

/// A number with commas between thousands.
pub(super) fn number(number: impl Into<u64>) -> String {
    thousands(number.into())
}

/// A number of things: `1 key`, `2,000 keys`.
pub(super) fn count(number_of: usize, thing: &str) -> String {
    let plural = if number_of == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", number(number_of as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new([
            ("name", Align::Left),
            ("requests", Align::Right),
            ("state", Align::Left),
        ]);
        let head = "NAME  REQUESTS  STATE\n";
        assert_eq!(table.text(), head);
        table.row(["Zoë's key".into(), number(1_234_567_u64), "active".into()]);
        table.row(["b".into(), number(7_u64), String::new()]);
        let expected = "NAME        REQUESTS  STATE\n\
                        Zoë's key  1,234,567  active\n\
                        b                  7\n";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn facts_are_aligned() {
        let text = facts([
            ("id", Some("7".into())),
            ("expires", None),
            ("state", Some("active".into())),
        ]);
        assert_eq!(text, "id     7\nstate  active\n");
    }

    #[test]
    fn numbers_have_commas() {
        for (of, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(number(of), expected);
        }
        assert_eq!(
            (count(1, "key"), count(0, "key")),
            ("1 key".into(), "0 keys".into())
        );
    }
}
