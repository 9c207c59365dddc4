//! The commands as clap knows them, and what it has read of them.
//!
//! | file | content |
//! |---|---|
//! | `argument` | how options are declared and read |
//! | `place` | where a command works: the options that all of them have |
//! | `key` | `nearhead key` |
//! | `tenant` | `nearhead tenant` |
//! | `admin` | `nearhead admin` |
//! | `limits` | the options that limit keys and tenants |
//! | `value` | texts that stand for times, rates and public keys |

pub(crate) mod admin;
mod argument;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod place;
pub(crate) mod tenant;
pub(crate) mod value;

use clap::{ArgMatches, Command};

use self::{
    admin::AdminAction, argument::Environment, key::KeyAction, place::Place, tenant::TenantAction,
};

/// A command of an administrator, and where it works.
#[derive(Debug)]
pub struct AdminCommand {
    /// Where it works.
    pub(crate) place: Place,
    /// Whether it prints JSON.
    pub(crate) is_json: bool,
    /// What it does.
    pub(crate) action: Action,
}

/// What a command does.
#[derive(Debug)]
pub(crate) enum Action {
    /// `nearhead key`.
    Key(KeyAction),
    /// `nearhead tenant`.
    Tenant(TenantAction),
    /// `nearhead admin`.
    Admin(AdminAction),
}

/// The commands of administrators.
pub(crate) fn commands() -> [Command; 3] {
    [key::command(), tenant::command(), admin::command()].map(with_place)
}

/// Adds the options that say where a command works, after its own, to each verb.
fn with_place(command: Command) -> Command {
    match command.has_subcommands() {
        true => command.mut_subcommands(with_place),
        false => place::with_options(command),
    }
}

impl AdminCommand {
    /// Reads what clap has matched for one of [`commands`].
    ///
    /// # Errors
    /// The arguments are not valid together; the message says which.
    pub(crate) fn read(
        name: &str,
        matches: &ArgMatches,
        environment: &Environment<'_>,
    ) -> Result<Self, String> {
        let mut last = matches;
        let mut words = vec![name];
        while let Some((word, inner)) = last.subcommand() {
            words.push(word);
            last = inner;
        }
        let action = match &words[..] {
            ["key", verb] => Action::Key(KeyAction::read(verb, last)?),
            ["tenant", verb] => Action::Tenant(TenantAction::read(verb, last)?),
            ["admin", verbs @ ..] => Action::Admin(AdminAction::read(verbs, last)?),
            _ => return Err(format!("{} is not a command", words.join(" "))),
        };
        Ok(Self {
            place: Place::read(last, environment)?,
            is_json: last.get_flag("json"),
            action,
        })
    }
}
