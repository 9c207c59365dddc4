//! Each example of docs/commands.md, run on a data folder and on a running service.

use std::collections::BTreeSet;

use super::{
    example::{Example, Names, examples, words},
    place::{PASSWORD, Place},
};
use crate::harness::nearhead;

/// Where an example is run that names a data folder.
const FOLDER: &str = " --data-dir /var/lib/nearhead";

#[test]
fn examples_work_on_a_folder() {
    Walk::new("commands-documented-folder").run(&examples());
}

#[test]
fn examples_work_on_a_service() {
    let examples = examples();
    let is_before = |example: &&Example| example.command.contains(FOLDER);
    let before = examples.iter().take_while(is_before).count();
    let (before, after) = examples.split_at(before);
    let mut walk = Walk::new("commands-documented-service");
    walk.run(before);
    // The token that the first examples have made.
    let token = walk.secrets.last().cloned().unwrap();
    walk.place = walk.place.start_with(token);
    walk.run(after);
}

/// Examples that are run one after the other.
struct Walk {
    place: Place,
    names: Names,
    /// What may not be printed again.
    secrets: Vec<String>,
}

impl Walk {
    fn new(name: &str) -> Self {
        Self {
            place: Place::folder(name),
            names: Names::default(),
            secrets: vec![PASSWORD.to_owned()],
        }
    }

    fn run(&mut self, examples: &[Example]) {
        for example in examples {
            let command = self.names.translate(&example.command);
            let case = format!("docs/commands.md:{}: {command}", example.line);
            let words = words(command.trim_end_matches(FOLDER));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let input = if example.reads_password { PASSWORD } else { "" };
            let ran = self.place.run_with(&words, input);
            assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{case}");
            if let Err(difference) = self.names.compare(&example.output, &ran.out) {
                panic!("{case}: {difference}\n{}", ran.out);
            }
            // A secret is in the answer that makes it, and in no other.
            let known = |secret: &&String| ran.out.contains(*secret);
            assert_eq!(self.secrets.iter().find(known), None, "{case}");
            let is_part = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
            let parts = ran.out.split(|one: char| !is_part(one));
            let made: BTreeSet<&str> = parts.filter(|part| part.len() == 43).collect();
            self.secrets.extend(made.into_iter().map(str::to_owned));
        }
        assert!(self.secrets.len() > 1, "no secret was made");
    }
}

/// Every verb has an example, its own and one in its help, and the help fits a terminal.
#[test]
fn every_verb_is_documented() {
    let shown: Vec<String> = examples()
        .iter()
        .map(|example| example.command.clone())
        .collect();
    let mut verbs = 0;
    for group in ["key", "tenant", "admin", "admin token"] {
        for verb in subcommands(group) {
            let words: Vec<&str> = group.split(' ').chain([verb.as_str()]).collect();
            let command = words.join(" ");
            if command == "admin token" {
                continue;
            }
            verbs += 1;
            let is_shown = shown.iter().any(|line| line.starts_with(&command));
            assert!(is_shown, "docs/commands.md has no example of {command}");
            let help = help(&command);
            let example = format!("Examples:\n  nearhead {command}");
            assert!(help.contains(&example), "no example in {help}");
            for option in ["--admin-url", "--token-file", "--data-dir", "--json"] {
                assert!(help.contains(option), "{option} is missing: {help}");
            }
            let wide = help.lines().find(|line| line.chars().count() > 100);
            assert_eq!(wide, None, "{command}");
        }
    }
    assert_eq!(verbs, 20);
}

fn help(command: &str) -> String {
    let arguments = command.split(' ').chain(["--help"]);
    let output = nearhead(arguments).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the help of a group lists.
fn subcommands(group: &str) -> Vec<String> {
    let help = help(group);
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
}
