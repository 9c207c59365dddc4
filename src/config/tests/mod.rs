#![allow(clippy::unwrap_used)]

mod commands;
mod keys;
mod messages;
mod precedence;
mod together;

use std::{ffi::OsString, fs, path::PathBuf};

use super::{given::Origin, resolved::Setting, *};

/// A configuration file, removed when the value is dropped. In one test, the same text has the same
/// path.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        // Tests with the same text run in parallel, each on its own thread.
        let owner = (std::process::id(), std::thread::current().id());
        let name = alloy_primitives::keccak256(format!("{owner:?} {text}"));
        let path = std::env::temp_dir().join(format!("nearhead-{name}.toml"));
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Resolves a command from flags, an environment and a file's text.
fn command(
    flags: &[&str],
    environment: &[(&str, &str)],
    toml: Option<&str>,
) -> Result<Command, CommandError> {
    let mut arguments: Vec<OsString> = std::iter::once("nearhead")
        .chain(flags.iter().copied())
        .map(OsString::from)
        .collect();
    let file = toml.map(File::new);
    if let Some(File(path)) = &file {
        arguments.extend([OsString::from("--config"), path.into()]);
    }
    let variable = |name: &str| {
        environment
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| OsString::from(value))
    };
    Command::resolve(arguments, &variable)
}

fn resolved(flags: &[&str], environment: &[(&str, &str)], toml: Option<&str>) -> Resolved {
    match command(flags, environment, toml).unwrap() {
        Command::Serve(resolved) | Command::Check(resolved) => resolved,
        other => panic!("{other:?}"),
    }
}

fn setting<'a>(resolved: &'a Resolved, name: &str) -> &'a Setting {
    resolved
        .settings
        .iter()
        .find(|setting| setting.name == name)
        .unwrap()
}
