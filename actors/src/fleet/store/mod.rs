//! The store of a fleet, Redis or Valkey: runs the protocol's scripts, and reads its stream.
//!
//! Every call has a time limit, and every reply a bound in bytes. A call that fails says what
//! failed; the next one connects again, and looks for the master again. So a caller repeats what it
//! needs, and has nothing to mend.
//!
//! | file | what it has |
//! |---|---|
//! | `url` | where the store is, and what it is shown as |
//! | `options` | what a store is opened with |
//! | `error` | what can fail, and whether the connection can go on |
//! | `bounded` | a socket that reads no more than was asked for |
//! | `connect` | sockets, TLS, log-in, and the search for the master |
//! | `resolver` | names of servers, looked up on a thread of their own |
//! | `line` | one connection, which is opened when it is needed |
//! | `script` | calls of scripts |
//! | `reply` | what is read out of replies |
//! | `below` | what a leader says of blocks below its window |
//! | `items` | calls about state that processes share |
//! | `presence` | calls for who is there |
//! | `pipe` | calls of many callers on one connection, sent together |
//! | `filters` | the filters of clients, by way of a pipe |
//! | `quotas` | calls for what tenants may use |
//! | `records` | records that are no entries, for a thread that blocks |
//! | `usage` | what keys used, for the same thread |
//! | `checks` | whether the server suits a fleet |

mod below;
mod bounded;
mod checks;
mod connect;
mod error;
mod filters;
mod items;
mod line;
mod options;
mod pipe;
mod presence;
mod quotas;
mod records;
mod reply;
mod resolver;
mod script;
mod url;
mod usage;

#[cfg(test)]
pub(super) mod fake_server;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use alloy_primitives::Bytes;
use nearhead_fleet::{
    bounds::{
        APPEND_TIME_MAX, CALL_TIME_MAX, ENTRY_BYTES_MAX, EPOCH_LEAP_MAX, EPOCH_MAX, LEASE,
        LEASE_MAX, READ_BYTES_MAX, READ_ENTRIES_MAX, READ_TIME_MAX, REPLY_BYTES_MAX,
    },
    leader::Append,
    position::Position,
    replica::Report,
    scripts::{self, Acquired, Appended, Renewed, Reported},
};
use redis::Value;

pub use self::{
    checks::{StoreChecks, StoreProblem},
    error::{StoreError, StoreFault},
    filters::{FilterRead, FilterReturn, FilterStore},
    options::{OptionsError, StoreOptions},
    pipe::PipeCounts,
    quotas::{CountCall, LoanCall},
    records::{AuditKind, FleetRecords, RecordsChange, RecordsCommit, RecordsPage},
    url::{StoreUrl, StoreUrlError},
    usage::{UsagePage, UsagePlace, UsagePut},
};
use self::{
    connect::Connector,
    line::Line,
    script::{KnownScript, ScriptCall, ask, parsed_by, run},
};

/// Bytes of a reply with entries besides the entries themselves.
const ENTRY_FRAME_BYTES: usize = 4 << 10;

static ACQUIRE: KnownScript = KnownScript::new(scripts::ACQUIRE);
static RENEW: KnownScript = KnownScript::new(scripts::RENEW);
static RELEASE: KnownScript = KnownScript::new(scripts::RELEASE);
static APPEND: KnownScript = KnownScript::new(scripts::APPEND);
static REPORT: KnownScript = KnownScript::new(scripts::REPORT);
static READ: KnownScript = KnownScript::new(scripts::READ);

/// The keys of one fleet. All have the prefix as their hash tag, so that a script may use several.
#[derive(Debug)]
struct Keys {
    lease: String,
    fence: String,
    entries: String,
    /// The two halves that have items, and what is known of them.
    items: [String; 3],
    wants: String,
    below: String,
    /// What the names of turns begin with.
    turns: String,
    processes: String,
    /// What the keys of quotas begin with.
    quotas: String,
}

/// What the clones of a store share.
struct Inner {
    owner: String,
    keys: Keys,
    /// The lease and reports: small calls, which wait for no entry.
    control: Line,
    /// Who is there.
    presence: Line,
    /// Quotas: small calls, many a second.
    quotas: Line,
    /// Entries that are appended: some megabytes, now and then.
    appends: Line,
    /// Reads, which block until there is an entry.
    reads: Line,
    /// Items that reads need.
    items: Line,
    /// Items that are put.
    puts: Line,
    /// Wants that are waited for.
    wants: Line,
}

/// The store of a fleet, which is connected to when it is needed. Clones share its connections.
#[derive(Clone)]
pub struct FleetStore(Arc<Inner>);

impl fmt::Debug for FleetStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = &self.0.keys;
        formatter.debug_tuple("FleetStore").field(keys).finish()
    }
}

impl FleetStore {
    /// The store with these options. It is not connected to: it may be away when a process starts.
    ///
    /// # Errors
    /// An option cannot be used.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(&options)?);
        let key = |name| key_of(&options.prefix, name);
        Ok(Self(Arc::new(Inner {
            keys: Keys {
                lease: key("lease"),
                fence: key("fence"),
                entries: key("entries"),
                items: [key("items-0"), key("items-1"), key("items")],
                wants: key("wants"),
                below: key("below"),
                turns: key("turn"),
                processes: key("processes"),
                quotas: key("quotas"),
            },
            control: Line::new(Arc::clone(&connector)),
            presence: Line::new(Arc::clone(&connector)),
            quotas: Line::new(Arc::clone(&connector)),
            appends: Line::new(Arc::clone(&connector)),
            reads: Line::new(Arc::clone(&connector)),
            items: Line::new(Arc::clone(&connector)),
            puts: Line::new(Arc::clone(&connector)),
            wants: Line::new(connector),
            owner: options.owner,
        })))
    }

    /// Asks for the lease, with an epoch above `seen`.
    ///
    /// # Errors
    /// The store did not answer as it should. The lease may have been given even so.
    pub async fn acquire(&self, seen: u64) -> Result<Acquired, StoreError> {
        let keys = &self.0.keys;
        let call = ScriptCall::new(&ACQUIRE, &[&keys.lease, &keys.fence, &keys.entries])
            .bytes(self.0.owner.as_bytes())
            .number(millis(LEASE))
            .number(seen)
            .number(millis(LEASE_MAX))
            .number(EPOCH_MAX)
            .number(EPOCH_LEAP_MAX);
        self.control(&call, Acquired::parse).await
    }

    /// Asks for more time for an epoch that this process leads.
    ///
    /// # Errors
    /// The store did not answer as it should. The lease may have been renewed even so.
    pub async fn renew(&self, epoch: u64) -> Result<Renewed, StoreError> {
        let keys = &self.0.keys;
        let call = ScriptCall::new(&RENEW, &[&keys.lease, &keys.fence])
            .bytes(self.0.owner.as_bytes())
            .number(millis(LEASE))
            .number(epoch);
        self.control(&call, Renewed::parse).await
    }

    /// Gives the lease of an epoch back, if this process still has it.
    ///
    /// # Errors
    /// The store did not answer as it should. The lease ends by itself then.
    pub async fn release(&self, epoch: u64) -> Result<(), StoreError> {
        let call = ScriptCall::new(&RELEASE, &[&self.0.keys.lease])
            .bytes(self.0.owner.as_bytes())
            .number(epoch);
        self.control(&call, scripts::parse_released).await
    }

    /// Appends an entry. It may be sent again, unchanged, until the store answers.
    ///
    /// # Errors
    /// The store did not answer as it should. The entry may have been appended even so.
    pub async fn append(&self, append: &Append) -> Result<Appended, StoreError> {
        let keys = &self.0.keys;
        let position = append.entry.position;
        let call = ScriptCall::new(&APPEND, &[&keys.lease, &keys.fence, &keys.entries])
            .bytes(self.0.owner.as_bytes())
            .number(position.epoch)
            .number(position.sequence)
            .bytes(&append.entry.bytes)
            .number(append.keep_from)
            .number(append.entries_max)
            .flag(append.begins_snapshot);
        run(&self.0.appends, &call, APPEND_TIME_MAX, Appended::parse).await
    }

    /// The entries after a position, in their order, at most `count`; waits up to `wait` for one.
    /// They are some, not all. What cannot be an entry of a fleet, or is too large for one, is
    /// empty.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn read(
        &self,
        after: Position,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<(Position, Bytes)>, StoreError> {
        let Inner { keys, reads, .. } = &*self.0;
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(count.min(READ_ENTRIES_MAX));
        // `BLOCK 0` would wait for ever.
        command.arg("BLOCK").arg(millis(wait).max(1));
        command.arg("STREAMS").arg(&keys.entries);
        command.arg(after.to_string());
        let limit = wait + READ_TIME_MAX;
        match reads.ask(command, READ_BYTES_MAX, limit).await {
            // Nothing came: perhaps because this is no longer the master.
            Ok((server, Value::Nil)) => {
                let role = redis::cmd("ROLE");
                let (_, role) = reads.ask(role, REPLY_BYTES_MAX, CALL_TIME_MAX).await?;
                match reply::is_master(&role) {
                    true => Ok(Vec::new()),
                    false => Err(reads.is_no_master(server)),
                }
            }
            Ok((server, answer)) => {
                let entries = reply::streams(answer, ENTRY_BYTES_MAX);
                entries.map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
            }
            Err(error) if matches!(error.fault(), StoreFault::TooLarge(_)) => {
                self.read_one(after).await
            }
            Err(error) => Err(error),
        }
    }

    /// The entry after a position, whatever comes after it; empty if it is too large.
    async fn read_one(&self, after: Position) -> Result<Vec<(Position, Bytes)>, StoreError> {
        let after = after.to_string();
        let call = ScriptCall::new(&READ, &[&self.0.keys.entries])
            .bytes(after.as_bytes())
            .number(ENTRY_BYTES_MAX as u64);
        let bytes_max = ENTRY_BYTES_MAX + ENTRY_FRAME_BYTES;
        let (server, answer) = ask(&self.0.reads, &call, bytes_max, READ_TIME_MAX).await?;
        let entry = reply::entry(answer);
        entry.map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))
    }

    /// Reports what this process has seen; the answer has the newest entry of the store.
    ///
    /// # Errors
    /// The store did not answer as it should.
    pub async fn report(&self, report: Report) -> Result<Reported, StoreError> {
        let call = ScriptCall::new(&REPORT, &[&self.0.keys.fence])
            .number(report.seen.epoch)
            .number(report.seen.sequence)
            .flag(report.is_forked)
            .flag(report.wants_snapshot)
            .number(EPOCH_MAX);
        let (server, answer) = ask(&self.0.control, &call, REPLY_BYTES_MAX, CALL_TIME_MAX).await?;
        parsed_by(server, answer, reply::word_and_numbers, Reported::parse)
    }

    /// Whether the store suits a fleet: what it is, and what is wrong with it.
    ///
    /// # Errors
    /// It cannot be reached, or this process may not use it.
    pub async fn checks(&self) -> Result<StoreChecks, StoreError> {
        let info = redis::cmd("INFO");
        let asked = since_epoch();
        let (server, info) = (self.0.control)
            .ask(info, REPLY_BYTES_MAX, CALL_TIME_MAX)
            .await?;
        let asked = asked..=since_epoch();
        let info = reply::text(info)
            .map_err(|text| StoreError::new(server, StoreFault::Nonsense(text)))?;
        // It runs a script that writes nothing: every store has position 0-0.
        let nothing = Report {
            seen: Position::default(),
            is_forked: false,
            wants_snapshot: false,
        };
        self.report(nothing).await?;
        Ok(StoreChecks::of(&info, &asked))
    }

    /// A small call, whose answer is a word and a number.
    async fn control<T>(
        &self,
        call: &ScriptCall<'_>,
        parse: impl FnOnce(&str, i64) -> Result<T, scripts::UnknownAnswer>,
    ) -> Result<T, StoreError> {
        run(&self.0.control, call, CALL_TIME_MAX, parse).await
    }
}

/// The key of a name, with the prefix of a fleet.
fn key_of(prefix: &str, name: &str) -> String {
    format!("{{{prefix}}}:{name}")
}

/// The time by this machine's clock.
pub(super) fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
