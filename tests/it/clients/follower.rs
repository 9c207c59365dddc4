//! A client that follows a chain with reorgs, and loses its connection once.

use std::process::Command;

use super::{Observed, REORG_DEPTH, replay::Replay, wait_for_end};
use crate::harness::{Connection, Process};

/// A running client. What it is notified of is replayed while it runs: replaced blocks are readable
/// only for a while.
pub(crate) struct Follower {
    client: Process,
    replay: Option<Replay>,
}

impl Follower {
    /// Starts a client of this WebSocket URL.
    pub(crate) fn start(mut command: Command, url: &str) -> Self {
        let client = Process::start(command.args(["follow", url]));
        Self {
            client,
            replay: None,
        }
    }

    /// Waits until it is notified of a head.
    pub(crate) fn wait_head(&self) {
        let head = |text: &str| text.contains(r#""step":"head""#).then_some(());
        self.client.output.wait_for("a head", head);
    }

    /// Waits until it has seen a reorg. `http` is where blocks are read; not connected earlier,
    /// because servers close idle connections.
    pub(crate) fn see_reorg(&mut self, http: impl FnOnce() -> Connection) {
        let reorg = |text: &str| saw_reorg(text).then(|| text.to_owned());
        let seen = self.client.output.wait_for("a reorg", reorg);
        let replay = self.replay.insert(Replay::new(http()));
        replay.read(&seen);
    }

    /// Waits until it has lost its connection, and has seen a reorg on the next one.
    pub(crate) fn see_next_reorg(&mut self) {
        let reorg = |text: &str| {
            let (_, after) = text.split_once(r#""step":"lost""#)?;
            saw_reorg(after).then(|| text.to_owned())
        };
        let what = "a reorg on the new connection";
        let seen = self.client.output.wait_for(what, reorg);
        self.replay.as_mut().unwrap().read(&seen);
    }

    /// Ends it, and checks what it was notified of; returns its name and what it did.
    pub(crate) fn end(self) -> (String, Observed) {
        self.client.terminate();
        let (name, text) = wait_for_end(self.client);
        let mut replay = self.replay.unwrap();
        replay.read(&text);
        (name, replay.end())
    }
}

/// Whether the client reported a reorg with heads before and after it.
fn saw_reorg(text: &str) -> bool {
    let (mut heads, mut heads_at_reorg) = (0, None);
    for line in text.lines() {
        heads += u64::from(line.contains(r#""step":"head""#));
        if line.contains(r#""removed":true"#) && heads > 2 * REORG_DEPTH + 2 {
            heads_at_reorg = heads_at_reorg.or(Some(heads));
        }
    }
    heads_at_reorg.is_some_and(|before| heads > before + 2)
}
