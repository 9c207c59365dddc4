//! The command that the command line gives, with the options that it needs.

use std::{env, ffi::OsString};

use super::{
    command_error::CommandError,
    command_line::command_line,
    export::Export,
    health::Health,
    resolved::Resolved,
    usage::{command_named, usage_message},
    written::{self, Init},
};
use crate::commands::AdminCommand;

/// The command that the command line gives.
#[derive(Debug)]
pub enum Command {
    /// Serve.
    Serve(Resolved),
    /// Print the resolved configuration and stop.
    Check(Resolved),
    /// Look at the machine and the nodes, say what to change, and stop.
    Doctor(Resolved),
    /// Ask a running service whether it is ready, and stop.
    Health(Health),
    /// Write the dev chain as files and stop.
    Export(Export),
    /// Write a configuration file and stop.
    Init(Init),
    /// Do what an administrator asks for and stop.
    Administer(Box<AdminCommand>),
    /// Print this text (help, version, completions, the man page) and stop.
    Print(String),
}

impl Command {
    /// Reads this process's command line and environment.
    ///
    /// # Errors
    /// The command line, the environment or the file is invalid.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment"
    )]
    pub fn of_process() -> Result<Self, CommandError> {
        Self::resolve(env::args_os(), &|name| env::var_os(name))
    }

    /// Resolves the command line (the program's name first), with the environment given as a
    /// function.
    ///
    /// # Errors
    /// The command line, the environment or the file is invalid.
    pub(crate) fn resolve(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, CommandError> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let matches = match command_line().try_get_matches_from(&arguments) {
            Ok(matches) => matches,
            Err(help) if !help.use_stderr() => {
                return Ok(Self::Print(help.render().to_string()));
            }
            Err(error) => {
                let command = command_named(command_line(), &arguments);
                let message = usage_message(&error);
                return Err(CommandError::Usage { message, command });
            }
        };
        match matches.subcommand() {
            Some(("export", matches)) => Export::read(matches).map(Self::Export),
            Some(("check", matches)) => Resolved::new(matches, environment).map(Self::Check),
            Some(("doctor", matches)) => Resolved::new(matches, environment).map(Self::Doctor),
            Some(("health", matches)) => Health::read(matches, environment).map(Self::Health),
            Some(("init", matches)) => Ok(Self::Init(written::init(matches))),
            Some(("completions", matches)) => Ok(Self::Print(written::completions(matches))),
            Some(("man", _)) => Ok(Self::Print(written::man())),
            Some((name, matches)) => {
                let read = AdminCommand::read(name, matches, environment);
                let read = read.map_err(|message| CommandError::Usage {
                    message,
                    command: command_named(command_line(), &arguments),
                })?;
                Ok(Self::Administer(Box::new(read)))
            }
            None => Resolved::new(&matches, environment).map(Self::Serve),
        }
    }
}
