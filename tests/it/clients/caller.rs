//! A client that makes calls over HTTP and over WebSocket.

use std::process::Command;

use super::{
    Observed,
    answers::{self, Call},
    steps, wait_for_end,
};
use crate::harness::Process;

/// A running client, and the calls that it makes.
pub(crate) struct Caller<'a> {
    client: Process,
    calls: &'a [Call],
}

impl<'a> Caller<'a> {
    /// Starts a client of these URLs, of HTTP and of WebSocket; `name` is that of its scratch
    /// folder.
    pub(crate) fn start(
        name: &str,
        mut command: Command,
        calls: &'a [Call],
        [http, ws]: [&str; 2],
    ) -> Self {
        command.args(["answers", http, ws]);
        let client = Process::start(command.arg(answers::file(name, calls)));
        Self { client, calls }
    }

    /// Waits until one call is answered.
    pub(crate) fn wait_answer(&self) {
        let answer = |text: &str| text.contains(r#""step":"answer""#).then_some(());
        self.client.output.wait_for("an answer", answer);
    }

    /// Whether it makes its calls over HTTP still.
    pub(crate) fn is_over_http(&self) -> bool {
        let over_ws = |text: &str| Some(text.contains(r#""over":"ws""#));
        !self.client.output.wait_for("its answers", over_ws)
    }

    /// Waits for its end, and checks each answer; returns its name and what it did.
    pub(crate) fn end(self) -> (String, Observed) {
        let (name, text) = wait_for_end(self.client);
        (name, answers::check(self.calls, steps(&text)))
    }
}
