//! How commands and their options are declared, and how their values are read.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};

/// A variable of the environment.
pub(in crate::commands) type Environment<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// A command that does something.
pub(super) fn verb(name: &'static str, about: &'static str, examples: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(format!("Examples:\n{examples}"))
}

/// A command that others follow.
pub(super) fn group(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .subcommand_required(true)
        .disable_help_subcommand(true)
}

/// An option with a value.
pub(super) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .allow_negative_numbers(true)
        .help(help)
}

/// An option without a value.
pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

/// The value of an argument, if it was given.
pub(super) fn given<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
) -> Option<T> {
    // An option that the command does not have was not given.
    matches.try_get_one(name).ok().flatten().cloned()
}

/// All values of an argument.
pub(super) fn all<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    name: &str,
) -> Option<Vec<T>> {
    let values = matches.try_get_many(name).ok().flatten()?;
    Some(values.cloned().collect())
}
