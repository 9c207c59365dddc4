//! Records of a fleet that are no entries, such as tenants and keys. The calls block: whoever owns
//! records has a thread for them. A connection of its own waits for no entry.

use std::{sync::Arc, thread, time::Duration};

use alloy_primitives::Bytes;
use crossbeam::channel::{self, Receiver, Sender};
use nearhead_fleet::{
    bounds::{
        CALL_TIME_MAX, CHANGES_KEPT, CHANGES_READ_MAX, COMMIT_BYTES_MAX, COMMIT_TIME_MAX,
        MANIFEST_BYTES_MAX, READ_RECORDS_MAX, READ_TIME_MAX, RECORDS_BYTES_MAX, REPLY_BYTES_MAX,
        STORED_RECORD_BYTES_MAX,
    },
    scripts::{self, Committed},
};
use redis::Value;
use tokio::runtime::Builder;

use super::{
    StoreError, StoreFault, StoreOptions,
    connect::Connector,
    key_of,
    line::Line,
    reply,
    script::{KnownScript, ScriptCall, ask},
};

static COMMIT: KnownScript = KnownScript::new(scripts::COMMIT_RECORDS);
static CHANGED: KnownScript = KnownScript::new(scripts::CHANGED_RECORDS);
static SCAN: KnownScript = KnownScript::new(scripts::SCAN_RECORDS);
static AUDIT: KnownScript = KnownScript::new(scripts::READ_AUDIT);

/// Kinds of entries of the audit, each of which is bounded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// Changes: 100,000 entries, some 50 MB.
    Changes,
    /// Logins: 10,000.
    Logins,
    /// Wrong passwords: 10,000.
    Refusals,
}

impl AuditKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Changes, Self::Logins, Self::Refusals];

    const fn kept(self) -> u64 {
        match self {
            Self::Changes => 100_000,
            Self::Logins | Self::Refusals => 10_000,
        }
    }
}

/// What one write has.
#[derive(Clone, Debug, Default)]
pub struct RecordsCommit {
    /// The manifest that the store has to have; empty if there is none.
    pub known: Bytes,
    /// The new one.
    pub manifest: Bytes,
    /// Its revision.
    pub revision: u64,
    /// Whether all other records are removed.
    pub replaces_all: bool,
    /// Names and bytes; empty bytes if the record is gone.
    pub records: Vec<(String, Bytes)>,
    /// Entries of the audit, with their numbers.
    pub entries: Vec<(AuditKind, u64, Bytes)>,
}

/// Some records.
#[derive(Clone, Debug, Default)]
pub struct RecordsPage {
    /// Where the next page begins; `None` after the last one.
    pub next: Option<u64>,
    /// How many records the store has, with the manifest.
    pub count: u64,
    /// The manifest; empty if there is none.
    pub manifest: Bytes,
    /// Names and bytes.
    pub records: Vec<(String, Bytes)>,
}

/// The manifest, and what has changed.
#[derive(Clone, Debug, Default)]
pub struct RecordsChange {
    /// The manifest; empty if there is none.
    pub manifest: Bytes,
    /// Names and bytes; empty bytes if the record is gone. They are perhaps not all.
    pub records: Vec<(String, Bytes)>,
}

/// One call.
struct Call {
    script: &'static KnownScript,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
    bytes_max: usize,
    limit: Duration,
    answer: Sender<Result<(Arc<str>, Value), StoreError>>,
}

/// The records of a fleet's store; clones share its thread, which ends with the last one.
#[derive(Clone, Debug)]
pub struct FleetRecords {
    calls: Sender<Call>,
    prefix: String,
}

impl FleetRecords {
    /// The records of the store with these options, which is connected to when it is needed.
    ///
    /// # Errors
    /// An option cannot be used, or the system has no thread left.
    pub fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let line = Line::new(Arc::new(Connector::new(options)?));
        let (calls, received) = channel::bounded(1);
        let no_thread = |error: std::io::Error| {
            StoreError::new("".into(), StoreFault::Unreachable(error.to_string().into()))
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let serve = move || {
            // A connection makes progress in calls alone, which is when something is awaited.
            serve(&received, |call| runtime.block_on(answer(&line, call)));
        };
        let thread = thread::Builder::new().name("records".to_owned());
        thread.spawn(serve).map_err(no_thread)?;
        Ok(Self {
            calls,
            prefix: options.prefix.clone(),
        })
    }

    pub(super) fn key(&self, name: &str) -> String {
        key_of(&self.prefix, name)
    }

    fn audit_key(&self, kind: AuditKind) -> String {
        self.key(match kind {
            AuditKind::Changes => "audit-changes",
            AuditKind::Logins => "audit-logins",
            AuditKind::Refusals => "audit-refusals",
        })
    }

    pub(super) fn call(
        &self,
        script: &'static KnownScript,
        keys: Vec<String>,
        args: Vec<Vec<u8>>,
        (bytes_max, limit): (usize, Duration),
    ) -> Result<(Arc<str>, Value), StoreError> {
        let (answer, answered) = channel::bounded(1);
        let call = Call {
            script,
            keys,
            args,
            bytes_max,
            limit,
            answer,
        };
        let gone = || StoreError::new("".into(), StoreFault::Unreachable("it is closed".into()));
        self.calls.send(call).map_err(|_| gone())?;
        // The thread limits the time.
        answered.recv().map_err(|_| gone())?
    }

    /// Writes all of it, or nothing if the store has another manifest than the known one.
    ///
    /// # Errors
    /// The store did not answer as it should. It may have been written even so.
    pub fn commit(&self, commit: RecordsCommit) -> Result<Committed, StoreError> {
        let mut keys = vec![self.key("records"), self.key("changes")];
        keys.extend(AuditKind::ALL.map(|kind| self.audit_key(kind)));
        let number = |number: u64| number.to_string().into_bytes();
        let mut args = vec![
            commit.known.to_vec(),
            commit.manifest.to_vec(),
            number(commit.revision),
            number(commit.replaces_all.into()),
            number(CHANGES_KEPT),
        ];
        args.extend(AuditKind::ALL.map(|kind| number(kind.kept())));
        args.push(number(MANIFEST_BYTES_MAX as u64));
        args.push(number(commit.records.len() as u64));
        for (name, bytes) in commit.records {
            args.extend([name.into_bytes(), bytes.to_vec()]);
        }
        for (kind, at, bytes) in commit.entries {
            args.extend([number(kind as u64 + 1), number(at), bytes.to_vec()]);
        }
        let length: usize = args.iter().map(Vec::len).sum();
        if length > COMMIT_BYTES_MAX {
            let fault = StoreFault::Refused("there is too much to write at once".into());
            return Err(StoreError::new("".into(), fault));
        }
        let bounds = (REPLY_BYTES_MAX, COMMIT_TIME_MAX);
        let (server, value) = self.call(&COMMIT, keys, args, bounds)?;
        let committed = reply::word_and_number(value).and_then(|(word, number)| {
            let committed = Committed::parse(&word, number);
            committed.map_err(|error| error.to_string().into())
        });
        committed.map_err(|text| nonsense(server, text))
    }

    /// What has changed since a manifest and its revision; `None` if nothing has.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub fn changes(
        &self,
        known: &[u8],
        revision: u64,
    ) -> Result<Option<RecordsChange>, StoreError> {
        let keys = vec![self.key("records"), self.key("changes")];
        let numbers = [
            revision,
            STORED_RECORD_BYTES_MAX as u64,
            CHANGES_READ_MAX,
            MANIFEST_BYTES_MAX as u64,
        ];
        let mut args = vec![known.to_vec()];
        args.extend(numbers.map(|number| number.to_string().into_bytes()));
        let bounds = (RECORDS_BYTES_MAX, CALL_TIME_MAX);
        let (server, value) = self.call(&CHANGED, keys, args, bounds)?;
        let mut found = reply::strings(value, usize::MAX).map_err(|text| nonsense(server, text))?;
        if found.is_empty() {
            return Ok(None);
        }
        let records = pairs(found.split_off(1));
        let manifest = found.pop().unwrap_or_default();
        Ok(Some(RecordsChange { manifest, records }))
    }

    /// Some records, after those of the page before.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub fn page(&self, cursor: u64) -> Result<RecordsPage, StoreError> {
        let numbers = [
            cursor,
            READ_RECORDS_MAX,
            STORED_RECORD_BYTES_MAX as u64,
            MANIFEST_BYTES_MAX as u64,
        ];
        let args = numbers.map(|number| number.to_string().into_bytes());
        let bounds = (RECORDS_BYTES_MAX, READ_TIME_MAX);
        let keys = vec![self.key("records")];
        let (server, value) = self.call(&SCAN, keys, args.into(), bounds)?;
        let mut found =
            reply::strings(value, usize::MAX).map_err(|text| nonsense(server.clone(), text))?;
        if found.len() < 3 {
            return Err(nonsense(server, "a page that is too short".into()));
        }
        let records = pairs(found.split_off(3));
        let number = |bytes: &Bytes| std::str::from_utf8(bytes).ok()?.parse::<u64>().ok();
        let (Some(next), Some(count)) = (number(&found[0]), number(&found[1])) else {
            return Err(nonsense(server, "a page without numbers".into()));
        };
        Ok(RecordsPage {
            next: Some(next).filter(|next| *next != 0),
            count,
            manifest: found.pop().unwrap_or_default(),
            records,
        })
    }

    /// Entries of the audit below a number, the newest first: their numbers and bytes.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub fn audit(&self, kind: AuditKind, before: u64) -> Result<Vec<(u64, Bytes)>, StoreError> {
        let numbers = [before, READ_RECORDS_MAX, STORED_RECORD_BYTES_MAX as u64];
        let args = numbers.map(|number| number.to_string().into_bytes());
        let bounds = (RECORDS_BYTES_MAX, READ_TIME_MAX);
        let (server, value) = self.call(&AUDIT, vec![self.audit_key(kind)], args.into(), bounds)?;
        let found = reply::strings(value, usize::MAX).map_err(|text| nonsense(server, text))?;
        let entries = pairs(found).into_iter().filter_map(|(id, bytes)| {
            let number = id.split('-').next()?.parse().ok()?;
            Some((number, bytes))
        });
        Ok(entries.collect())
    }
}

pub(super) fn nonsense(server: Arc<str>, text: Box<str>) -> StoreError {
    StoreError::new(server, StoreFault::Nonsense(text))
}

/// Names with bytes. A name that is not UTF-8 is none of a record, and refused as another one.
pub(super) fn pairs(found: Vec<Bytes>) -> Vec<(String, Bytes)> {
    let pairs = found.chunks_exact(2);
    let pairs = pairs.map(|pair| {
        (
            String::from_utf8_lossy(&pair[0]).into_owned(),
            pair[1].clone(),
        )
    });
    pairs.collect()
}

/// Answers calls until nobody makes one any more.
fn serve(calls: &Receiver<Call>, answer: impl Fn(&Call) -> Result<(Arc<str>, Value), StoreError>) {
    for call in calls {
        // Sending fails if nobody waits any more.
        let _ = call.answer.send(answer(&call));
    }
}

async fn answer(line: &Line, call: &Call) -> Result<(Arc<str>, Value), StoreError> {
    let keys: Vec<&String> = call.keys.iter().collect();
    let script = ScriptCall::new(call.script, &keys);
    let script = (call.args.iter()).fold(script, |script, arg| script.bytes(arg));
    ask(line, &script, call.bytes_max, call.limit).await
}
