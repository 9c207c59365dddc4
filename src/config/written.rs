//! What is written from the table of options: a configuration file, shell completions, a man page.

use std::path::PathBuf;

use clap::ArgMatches;
use clap_complete::Shell;

use super::{OPTIONS, command_line::command_line};

/// What the help says of an option whose default depends on the machine.
const ONE_PER_CORE: &str = "one per core";

/// How the file begins.
const HEAD: &str = "\
# The configuration of nearhead, for nearhead --config FILE. A line such as #workers = \"2\" is an
# option; without its \"#\" it is in force. `nearhead check --config FILE` shows the result.
# Options on the command line and in the environment come first.
";

/// Columns of a comment in the file.
const COLUMNS: usize = 96;

/// `nearhead init`: a configuration file, which is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Where it is written to.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// `nearhead init` as the command line gives it.
pub(super) fn init(matches: &ArgMatches) -> Init {
    Init {
        path: matches
            .get_one::<PathBuf>("file")
            .cloned()
            .unwrap_or_default(),
        text: commented(),
    }
}

/// Every option as a comment.
fn commented() -> String {
    let mut text = HEAD.to_owned();
    let mut group = "";
    for option in OPTIONS {
        if option.group != group {
            group = option.group;
            text.push_str(&format!("\n## {group}\n"));
        }
        let (default, example) = match option.default().as_str() {
            _ if option.help.contains(ONE_PER_CORE) => {
                ("Default: one per core. For example:", "2".to_owned())
            }
            "none" => ("No default. For example:", option.unit.to_owned()),
            default => ("The default:", default.to_owned()),
        };
        text.push('\n');
        let (help, accepts) = (option.help, option.accepts);
        push_comment(&mut text, &format!("{help}. Accepts {accepts}. {default}"));
        // Of ASCII, a string of Rust is one of TOML.
        text.push_str(&format!("#{} = {example:?}\n", option.name));
    }
    text
}

fn push_comment(text: &mut String, comment: &str) {
    let mut column = COLUMNS;
    for word in comment.split_whitespace() {
        if column + 1 + word.len() > COLUMNS {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push('#');
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.len();
    }
    text.push('\n');
}

/// The completions for a shell.
pub(super) fn completions(matches: &ArgMatches) -> String {
    let mut script = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>("shell") {
        clap_complete::generate(*shell, &mut command_line(), "nearhead", &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// The man page.
pub(super) fn man() -> String {
    let mut page = Vec::new();
    // To write into memory does not fail.
    let _ = clap_mangen::Man::new(command_line()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Without its signs, the file is valid and says the defaults.
    #[test]
    fn the_written_file_has_every_default() {
        let is_option = |line: &&str| {
            let name = line
                .strip_prefix('#')
                .and_then(|line| line.split_once(" = "));
            name.is_some_and(|(name, _)| OPTIONS.iter().any(|option| option.name == name))
        };
        let text = commented();
        let lines: Vec<_> = text.lines().filter(is_option).collect();
        assert_eq!(lines.len(), OPTIONS.len(), "{text}");
        for (line, option) in lines.iter().zip(OPTIONS) {
            let table: toml::Table = line[1..].parse().unwrap();
            let value = table[option.name].as_str().unwrap();
            let mut config = crate::config::Config::default();
            if option.default() != "none" && !option.help.contains(ONE_PER_CORE) {
                let given = [value.to_owned()];
                (option.set)(&mut config, &given).unwrap_or_else(|| panic!("{line}"));
                assert_eq!((option.show)(&config), option.default(), "{line}");
            }
        }
        assert!(
            text.lines().all(|line| line.len() <= COLUMNS + 40),
            "{text}"
        );
        assert!(text.parse::<toml::Table>().unwrap().is_empty());
    }
}
