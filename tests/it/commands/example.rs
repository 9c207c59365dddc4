//! The examples of docs/commands.md: commands with the output that each one has.
//!
//! Ids, secrets and times are others in every run. What stands for one in an example stands for the
//! same in all examples below it, so a later command may name it.

use std::{collections::HashMap, fs, path::Path};

/// A command and what it prints.
#[derive(Debug)]
pub(super) struct Example {
    /// The line of the document.
    pub(super) line: usize,
    /// The command, without the program's name.
    pub(super) command: String,
    /// Whether a password is given on standard input.
    pub(super) reads_password: bool,
    /// What is printed.
    pub(super) output: String,
}

/// What an example has that is another in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// 16 hexadecimal digits.
    Id,
    /// 43 characters of base64url.
    Secret,
    /// The first six characters of a key.
    Prefix,
    /// A time.
    Time,
}

/// Reads the examples of a document.
pub(super) fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let text = fs::read_to_string(path).unwrap();
    let mut examples: Vec<Example> = Vec::new();
    let mut is_console = false;
    for (index, line) in text.lines().enumerate() {
        match line {
            "```console" => is_console = true,
            "```" => is_console = false,
            _ if !is_console => {}
            _ => match (line.strip_prefix("$ nearhead "), examples.last_mut()) {
                (Some(command), _) => examples.push(Example::read(index + 1, command)),
                (None, Some(last)) => {
                    last.output.push_str(line);
                    last.output.push('\n');
                }
                (None, None) => panic!("line {}: {line}", index + 1),
            },
        }
    }
    examples
}

impl Example {
    fn read(line: usize, command: &str) -> Self {
        let (command, input) = command.split_once(" < ").unwrap_or((command, ""));
        Self {
            line,
            command: command.to_owned(),
            reads_password: !input.is_empty(),
            output: String::new(),
        }
    }
}

/// The words of a command line; those in quotes are one.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in command.split('\'').enumerate() {
        match index % 2 {
            1 => words.push(part.to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words
}

/// What stands for what: the values of an example, and those of a run.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// A text of an example as it is in the run.
    pub(super) fn translate(&self, text: &str) -> String {
        let known = self.0.iter();
        known.fold(text.to_owned(), |text, (of_example, of_run)| {
            text.replace(of_example, of_run)
        })
    }

    /// Compares an output with that of an example, and learns the values that are new in it.
    pub(super) fn compare(&mut self, example: &str, output: &str) -> Result<(), String> {
        let [expected, found] = [example, output].map(parts);
        let differ = || {
            let [expected, found] = [&expected, &found].map(|parts| {
                let plain = parts.iter().map(|(plain, kind)| match kind {
                    Some(kind) => format!("{kind:?}"),
                    None => plain.clone(),
                });
                plain.collect::<Vec<_>>().join(" ")
            });
            Err(format!("\n expected: {expected}\n    found: {found}"))
        };
        if expected.len() != found.len() {
            return differ();
        }
        for ((one, kind), (other, other_kind)) in expected.iter().zip(&found) {
            match kind {
                _ if kind != other_kind => return differ(),
                None if one != other => return differ(),
                None | Some(Kind::Time) => {}
                Some(_) => {
                    let known = self.0.entry(one.clone()).or_insert_with(|| other.clone());
                    if known != other {
                        return Err(format!("{one} is {known}, and now {other}"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The words of a text, and what kind of value each is; how much space is between them does not
/// matter.
fn parts(text: &str) -> Vec<(String, Option<Kind>)> {
    let mut parts: Vec<(String, Option<Kind>)> = Vec::new();
    let marks = |one: char| !(one.is_ascii_alphanumeric() || "-_…:".contains(one));
    for word in relative_times_marked(text).split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            // A colon is a part of a time, and does not begin one.
            let end = match rest.starts_with(':') {
                true => 1,
                false => rest.find(marks).unwrap_or(rest.len()).max(1),
            };
            let end = (end..=rest.len()).find(|end| rest.is_char_boundary(*end));
            let (part, more) = rest.split_at(end.unwrap_or(rest.len()));
            parts.push((part.to_owned(), kind(part)));
            rest = more;
        }
    }
    parts
}

fn kind(part: &str) -> Option<Kind> {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if part.len() == 16 && is_hex(part) {
        Some(Kind::Id)
    } else if part.len() == 43 {
        Some(Kind::Secret)
    } else if part.chars().count() == 7 && part.ends_with('…') {
        Some(Kind::Prefix)
    } else if part == MARK || part.len() == 20 && part.ends_with('Z') && part.contains('T') {
        Some(Kind::Time)
    } else {
        None
    }
}

/// Stands for a time beside the present.
const MARK: &str = "TIME";

/// Replaces times beside the present, such as `3 seconds ago`.
fn relative_times_marked(text: &str) -> String {
    let units = ["second", "minute", "hour", "day", "month", "year"];
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut marked: Vec<String> = Vec::new();
        let mut index = 0;
        while index < words.len() {
            let [one, two, three] = [0, 1, 2].map(|more| {
                let word = words.get(index + more).copied().unwrap_or_default();
                word.trim_matches(['(', ')'])
            });
            let is_unit = |word: &str| units.contains(&word.trim_end_matches('s'));
            let length = if one == "just" && two == "now" {
                2
            } else if is_number(one) && is_unit(two) && three == "ago"
                || one == "in" && is_number(two) && is_unit(three)
            {
                3
            } else {
                marked.push(words[index].to_owned());
                index += 1;
                continue;
            };
            marked.push(MARK.to_owned());
            index += length;
        }
        marked.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
