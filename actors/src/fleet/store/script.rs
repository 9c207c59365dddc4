//! Calls of scripts: by hash, and with the text if the store does not know it.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nearhead_fleet::{bounds::REPLY_BYTES_MAX, scripts::UnknownAnswer};
use redis::{Cmd, Script, Value};

use super::{StoreError, StoreFault, error::printable, line::Line, reply};

/// A script, and the hash by which the store knows it.
pub(super) struct KnownScript {
    text: &'static str,
    hash: OnceLock<String>,
}

impl KnownScript {
    pub(super) const fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: OnceLock::new(),
        }
    }

    fn hash(&self) -> &str {
        let hash = || Script::new(self.text).get_hash().to_owned();
        self.hash.get_or_init(hash)
    }
}

/// A call of a script.
pub(super) struct ScriptCall<'a> {
    script: &'static KnownScript,
    keys: Vec<&'a str>,
    args: Vec<Cow<'a, [u8]>>,
}

impl<'a> ScriptCall<'a> {
    pub(super) fn new(script: &'static KnownScript, keys: &[&'a String]) -> Self {
        Self {
            script,
            keys: keys.iter().map(|key| key.as_str()).collect(),
            args: Vec::new(),
        }
    }

    pub(super) fn bytes(mut self, bytes: &'a [u8]) -> Self {
        self.args.push(bytes.into());
        self
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.args.push(number.to_string().into_bytes().into());
        self
    }

    pub(super) fn signed(mut self, number: i64) -> Self {
        self.args.push(number.to_string().into_bytes().into());
        self
    }

    pub(super) fn flag(self, is_set: bool) -> Self {
        self.number(is_set.into())
    }

    /// The call by the script's hash, or with its text.
    pub(super) fn command(&self, is_known: bool) -> Cmd {
        let mut command = match is_known {
            true => redis::cmd("EVALSHA"),
            false => redis::cmd("EVAL"),
        };
        match is_known {
            true => command.arg(self.script.hash()),
            false => command.arg(self.script.text),
        };
        command.arg(self.keys.len()).arg(&self.keys);
        for arg in &self.args {
            command.arg(&**arg);
        }
        command
    }
}

/// Runs a script that answers a word and a number.
pub(super) async fn run<T>(
    line: &Line,
    call: &ScriptCall<'_>,
    limit: Duration,
    parse: impl FnOnce(&str, i64) -> Result<T, UnknownAnswer>,
) -> Result<T, StoreError> {
    let (server, answer) = ask(line, call, REPLY_BYTES_MAX, limit).await?;
    parsed(server, answer, parse)
}

/// Reads an answer that is a word and a number.
pub(super) fn parsed<T>(
    server: Arc<str>,
    answer: Value,
    parse: impl FnOnce(&str, i64) -> Result<T, UnknownAnswer>,
) -> Result<T, StoreError> {
    parsed_by(server, answer, reply::word_and_number, parse)
}

/// Reads an answer that is a word and what `read` finds after it.
pub(super) fn parsed_by<N, T>(
    server: Arc<str>,
    answer: Value,
    read: impl FnOnce(Value) -> Result<(String, N), Box<str>>,
    parse: impl FnOnce(&str, N) -> Result<T, UnknownAnswer>,
) -> Result<T, StoreError> {
    let parsed = read(answer).and_then(|(word, numbers)| {
        let word = printable(&word);
        parse(&word, numbers).map_err(|error| error.to_string().into())
    });
    parsed.map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
}

/// Runs a script, which is sent with its text if the store does not know it.
pub(super) async fn ask(
    line: &Line,
    call: &ScriptCall<'_>,
    bytes_max: usize,
    limit: Duration,
) -> Result<(Arc<str>, Value), StoreError> {
    match line.ask(call.command(true), bytes_max, limit).await {
        Err(error) if *error.fault() == StoreFault::UnknownScript => {
            line.ask(call.command(false), bytes_max, limit).await
        }
        answer => answer,
    }
}
