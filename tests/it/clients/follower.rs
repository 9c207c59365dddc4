//! A client that follows a chain with reorgs, and loses its connection.

use std::process::Command;

use alloy_primitives::B256;

use super::{Observed, REORG_DEPTH, replay::Replay, wait_for_end};
use crate::harness::{Connection, Process};

/// What it reports when it has lost its connection.
const LOST: &str = r#""step":"lost""#;

/// A running client. What it is notified of is replayed while it runs: replaced blocks are readable
/// only for a while.
pub(crate) struct Follower {
    client: Process,
    replay: Option<Replay>,
    /// Bytes of its output in which a reorg was found.
    seen: usize,
}

impl Follower {
    /// Starts a client of this WebSocket URL.
    pub(crate) fn start(mut command: Command, url: &str) -> Self {
        let client = Process::start(command.args(["follow", url]));
        Self {
            client,
            replay: None,
            seen: 0,
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
        let text = self.client.output.wait_for("a reorg", reorg);
        self.replay = Some(Replay::new(http()));
        self.read(&text);
    }

    /// Waits until it has lost its connection since it saw a reorg.
    pub(crate) fn wait_lost(&self) {
        let lost = |text: &str| text[self.seen..].contains(LOST).then_some(());
        self.client.output.wait_for("a lost connection", lost);
    }

    /// Waits until it has lost its connection since it saw a reorg, and has seen another one on the
    /// next connection.
    pub(crate) fn see_next_reorg(&mut self) {
        let reorg = |text: &str| {
            let (_, after) = text[self.seen..].rsplit_once(LOST)?;
            saw_reorg(after).then(|| text.to_owned())
        };
        let what = "a reorg on the new connection";
        let text = self.client.output.wait_for(what, reorg);
        self.read(&text);
    }

    /// Waits until it was notified of this block as a head since it saw a reorg.
    pub(crate) fn wait_block(&self, hash: B256) {
        let head = format!(r#""hash":"{hash}""#);
        let is_head = |line: &str| line.contains(r#""step":"head""#) && line.contains(&head);
        let seen = |text: &str| text[self.seen..].lines().any(is_head).then_some(());
        self.client.output.wait_for(&format!("head {hash}"), seen);
    }

    fn read(&mut self, text: &str) {
        self.replay.as_mut().unwrap().read(text);
        self.seen = text.len();
    }

    /// Ends it, and checks what it was notified of; returns its name and what it did.
    pub(crate) fn end(self) -> (String, Observed) {
        let (name, replay) = self.stop();
        (name, replay.end())
    }

    /// Ends it when it was notified of this block as a head, and of all logs of it. It has to hold
    /// nothing above.
    pub(crate) fn end_at(mut self, hash: B256) {
        self.wait_block(hash);
        let logs = self.replay.as_mut().unwrap().logs_of(hash);
        let block = format!(r#""blockHash":"{hash}""#);
        let is_log = |line: &&str| line.contains(r#""step":"log""#) && line.contains(&block);
        let seen = |text: &str| {
            let count = text[self.seen..].lines().filter(is_log).count();
            (count >= logs).then_some(())
        };
        self.client.output.wait_for("the last logs", seen);
        let (_, replay) = self.stop();
        replay.end_at(hash);
    }

    fn stop(self) -> (String, Replay) {
        self.client.terminate();
        let (name, text) = wait_for_end(self.client);
        let mut replay = self.replay.unwrap();
        replay.read(&text);
        (name, replay)
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
