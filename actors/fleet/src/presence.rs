//! Which processes a fleet has: each one writes what it is, and reads what the others are.
//!
//! What a process writes is a sealed record ([`Record`]) under its own name: a process that nobody
//! runs would lower what all others admit while the store is away, and would be shown to operators.
//! The store removes what was not written for some time, by its own clock, and who can write there
//! can write an old record again. So a process counts only while its records advance, by the clock
//! of who reads them ([`Presence`]).

use std::{collections::HashMap, time::Duration};

use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable, Header};

use crate::{
    block_id::BlockId,
    bounds::{PRESENCE_BYTES_MAX, PRESENCE_TEXT_BYTES_MAX, PROCESSES_MAX},
    fleet_key::FleetKey,
    record::Record,
    rlp::list,
};

/// What the names of these records begin with: none passes for another kind of record.
const NAME: &str = "process:";

/// Time between two records of one process, in a fleet of up to a hundred.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// Time between two records for each process that there is: all of them read all of them, and the
/// store sends at most 30 KB a second to each.
const PERIOD_EACH: Duration = Duration::from_millis(10);

/// Periods after which a process is gone.
const PERIODS: u32 = 5;

/// A process, as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Random, and another one at each start.
    pub owner: String,
    /// The name of its machine; empty if it does not know it.
    pub host: String,
    /// The name of its role.
    pub role: String,
    /// The newest epoch that it has met.
    pub epoch: u64,
    /// Entries of the store that it has not applied.
    pub lag_entries: u64,
    /// Milliseconds for which it has lacked entries.
    pub lag_millis: u64,
    /// Its head; `None` if it serves nothing yet.
    pub head: Option<BlockId>,
    /// The version of its program.
    pub version: String,
    /// The version of entries that it reads.
    pub entries_version: u8,
    /// When it started, in milliseconds since 1970 by its own clock.
    pub started_millis: u64,
}

/// A text as a process may have it: printable ASCII, and short.
#[must_use]
pub fn plain(text: &str) -> String {
    let printable = text.chars().map(|char| match char {
        ' '..='~' => char,
        _ => '?',
    });
    printable.take(PRESENCE_TEXT_BYTES_MAX).collect()
}

impl Process {
    fn texts(&self) -> [&String; 4] {
        [&self.owner, &self.host, &self.role, &self.version]
    }

    /// The record of this process; `revision` is higher than that of each one before. `None` if a
    /// text is too long.
    #[must_use]
    pub fn seal(&self, revision: u64, key: &FleetKey) -> Option<Bytes> {
        let head = self.head.unwrap_or_default();
        let mut payload = Vec::new();
        list(&mut payload, |out| {
            for text in self.texts() {
                plain(text).encode(out);
            }
            self.epoch.encode(out);
            self.lag_entries.encode(out);
            self.lag_millis.encode(out);
            u8::from(self.head.is_some()).encode(out);
            head.number.encode(out);
            head.hash.encode(out);
            self.entries_version.encode(out);
            self.started_millis.encode(out);
        });
        let record = Record {
            name: format!("{NAME}{}", self.owner),
            revision,
            payload: payload.into(),
        };
        let sealed = record.seal(key).ok()?;
        (sealed.len() <= PRESENCE_BYTES_MAX).then_some(sealed)
    }

    /// The process that a record is about, with the revision; `None` if this fleet has not written
    /// it, or a text in it is none that a process writes.
    fn open(bytes: &[u8], key: &FleetKey) -> Option<(Self, u64)> {
        if bytes.len() > PRESENCE_BYTES_MAX {
            return None;
        }
        let (record, _) = Record::open_any(bytes, key).ok()?;
        let owner = record.name.strip_prefix(NAME)?;
        let process = Self::decode(&record.payload).ok()?;
        let is_plain = process.texts().into_iter().all(|text| plain(text) == *text);
        (is_plain && process.owner == owner).then_some((process, record.revision))
    }

    /// A later version may append fields, which this one does not read.
    fn decode(mut bytes: &[u8]) -> Result<Self, alloy_rlp::Error> {
        let mut rest = Header::decode_bytes(&mut bytes, true)?;
        let rest = &mut rest;
        let (owner, host) = (String::decode(rest)?, String::decode(rest)?);
        let (role, version) = (String::decode(rest)?, String::decode(rest)?);
        let (epoch, lag_entries) = (u64::decode(rest)?, u64::decode(rest)?);
        let lag_millis = u64::decode(rest)?;
        let has_head = u8::decode(rest)? == 1;
        let head = BlockId {
            number: u64::decode(rest)?,
            hash: Decodable::decode(rest)?,
        };
        Ok(Self {
            owner,
            host,
            role,
            epoch,
            lag_entries,
            lag_millis,
            head: has_head.then_some(head),
            version,
            entries_version: u8::decode(rest)?,
            started_millis: u64::decode(rest)?,
        })
    }
}

/// What is known of one process.
#[derive(Clone, Debug)]
struct Known {
    process: Process,
    revision: u64,
    /// When its record last advanced.
    advanced_at: Duration,
}

/// The processes of a fleet, as one of them knows them. Times are since some start that the caller
/// chooses; they do not go back.
///
/// While the store does not answer, they stay as they were: each process goes on with its share of
/// what all of them admit.
#[derive(Debug)]
pub struct Presence {
    key: FleetKey,
    own: String,
    known: HashMap<String, Known>,
    refused: u64,
}

impl Presence {
    /// Knows nobody yet; `own` is the owner of the process that reads.
    #[must_use]
    pub fn new(key: FleetKey, own: String) -> Self {
        Self {
            key,
            own,
            known: HashMap::new(),
            refused: 0,
        }
    }

    /// Reads the records that the store has at `now`. Returns the processes, the reader first and
    /// the others by their names.
    pub fn read(&mut self, records: &[Bytes], now: Duration) -> Vec<Process> {
        for record in records.iter().take(PROCESSES_MAX) {
            match Process::open(record, &self.key) {
                Some((process, revision)) => self.note(process, revision, now),
                None => self.refused += 1,
            }
        }
        let gone_after = self.gone_after();
        self.known
            .retain(|_, known| now.saturating_sub(known.advanced_at) < gone_after);
        let known = self.known.values();
        let mut processes: Vec<_> = known.map(|known| known.process.clone()).collect();
        processes.sort_unstable_by(|one, other| {
            let rank = |process: &Process| process.owner != self.own;
            (rank(one), &one.host, &one.owner).cmp(&(rank(other), &other.host, &other.owner))
        });
        processes
    }

    fn note(&mut self, process: Process, revision: u64, now: Duration) {
        let is_full = self.known.len() >= PROCESSES_MAX;
        match self.known.get_mut(&process.owner) {
            Some(known) if revision <= known.revision => {}
            None if is_full => self.refused += 1,
            _ => {
                let known = Known {
                    process,
                    revision,
                    advanced_at: now,
                };
                self.known.insert(known.process.owner.clone(), known);
            }
        }
    }

    /// Records that were refused: false ones, and those of more processes than there may be.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Time between two records of one process: with more of them, all write less often.
    #[must_use]
    pub fn period(&self) -> Duration {
        let count = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        PERIOD_MIN.max(PERIOD_EACH.saturating_mul(count))
    }

    /// Time after which a process is gone that has written nothing.
    #[must_use]
    pub fn gone_after(&self) -> Duration {
        self.period() * PERIODS
    }
}

#[cfg(test)]
mod tests;
