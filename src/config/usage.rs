//! What is wrong with a command line, in one line.

use std::ffi::OsString;

use clap::{Command, error::ErrorKind};

/// The command that a command line names, as far as it does: `nearhead key create`.
pub(super) fn command_named(mut command: Command, arguments: &[OsString]) -> String {
    let mut name = command.get_name().to_owned();
    for argument in arguments.iter().skip(1) {
        let Some(next) = command.find_subcommand(argument) else {
            break;
        };
        name = format!("{name} {}", next.get_name());
        command = next.clone();
    }
    name
}

/// clap's message as one line.
pub(super) fn usage_message(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    match error.kind() {
        // The missing arguments follow on lines of their own.
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<&str> = lines
                .take_while(|line| line.starts_with(['-', '<']))
                .collect();
            format!("{first} {}", missing.join(", "))
        }
        _ => first,
    }
}
