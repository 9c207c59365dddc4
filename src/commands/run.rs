use std::io::Write;

use serde::Serialize;

use super::{
    Failure,
    api_call::ApiCall,
    command_line::{Action, AdminCommand},
    connection::Connection,
    terminal,
};

/// A command that is being run.
pub(super) struct Run<'o> {
    pub(super) connection: Connection,
    pub(super) is_json: bool,
    /// Where answers are printed.
    output: &'o mut dyn Write,
}

/// Runs a command, and prints its answer to `output`.
///
/// # Errors
/// The command was wrong, or failed. What was done before stays done, and is printed.
pub fn run(command: AdminCommand, output: &mut dyn Write) -> Result<(), Failure> {
    let AdminCommand {
        place,
        is_json,
        action,
    } = command;
    let mut run = Run {
        connection: Connection::open(&place)?,
        is_json,
        output,
    };
    match action {
        Action::Key(action) => run.key(action),
        Action::Tenant(action) => run.tenant(action),
        Action::Admin(action) => run.admin(action),
    }
}

impl Run<'_> {
    /// Has something done.
    pub(super) fn call<C: ApiCall>(&mut self, call: C) -> Result<C::Answer, Failure> {
        self.connection.run(call)
    }

    /// Prints an answer: as JSON in one line, or as text.
    pub(super) fn answer<T: Serialize>(
        &mut self,
        view: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = match self.is_json {
            true => serde_json::to_string(view).map_err(Failure::new)? + "\n",
            false => text(view),
        };
        self.print(&text);
        Ok(())
    }

    /// Says that something was done that has no answer. In JSON, that is nothing.
    pub(super) fn done(&mut self, text: &str) {
        if !self.is_json {
            self.print(&format!("{text}\n"));
        }
    }

    fn print(&mut self, text: &str) {
        // A closed reader, such as a pager, is not a failure.
        let _ = self.output.write_all(text.as_bytes());
    }
}

/// Asks a person whether something is to be done, unless that was said.
pub(super) fn is_sure(already: bool, question: impl FnOnce() -> String) -> Result<(), Failure> {
    if already {
        return Ok(());
    }
    if !terminal::is_interactive() {
        let message = "nobody can be asked, because this is no terminal: give --yes";
        return Err(Failure::misuse(message));
    }
    Ok(terminal::confirm(&question())?)
}
