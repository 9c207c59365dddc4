//! Records in the store that are no entries, such as tenants and keys: sealed, so that only
//! processes of the fleet can have written them.
//!
//! A sealed record says its own name and revision. So it cannot be copied to another name, and a
//! process that has seen a revision refuses an older one ([`Revisions`]). A record is never
//! deleted: its owner writes a revision that says that it is gone, because absence has no MAC.
//!
//! A process that has just started has seen nothing, and would believe an older revision that
//! somebody put back. All records take their revisions from one counter, and each entry of the
//! stream states the newest one ([`Content::records`](crate::entry::Content::records)). So a
//! process that has read all records sees if the newest ones are missing ([`Revisions::lacks`]).
//!
//! What is left: one record alone that was put back, while another one has a newer revision, is
//! noticed only by processes that have seen it. And a store that was put back as a whole, entries
//! too, shows only by its head, which is stale.

use std::collections::HashMap;

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header};

use crate::{
    bounds::{RECORD_BYTES_MAX, RECORD_NAME_BYTES_MAX, RECORDS_MAX},
    fleet_key::{FleetKey, Purpose},
    sealed::{self, OpenError},
};

/// A record as its owner wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key under which the store has it.
    pub name: String,
    /// Higher than that of each record that was written before it.
    pub revision: u64,
    /// What it says. This package does not know in which form.
    pub payload: Bytes,
}

/// Why bytes are not the record that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Its name or its payload is too long to be sealed.
    #[error("it has {0} bytes")]
    Length(usize),
    /// It is none of the fleet's records.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The fleet has made it for another name.
    #[error("it was written under another name")]
    Name,
    /// A newer revision was seen.
    #[error("it has revision {found}, and {seen} was seen")]
    Older {
        /// Its revision.
        found: u64,
        /// The revision that was seen.
        seen: u64,
    },
    /// Another record of the same name and revision was seen.
    #[error("another record of revision {0} was seen")]
    Forked(u64),
    /// There are more records than a process remembers.
    #[error("there are more than {RECORDS_MAX} records")]
    TooMany,
}

impl Record {
    /// Writes the record, with its MAC.
    ///
    /// # Errors
    /// Its name or its payload is too long.
    pub fn seal(&self, key: &FleetKey) -> Result<Bytes, RecordError> {
        let mut payload = Vec::new();
        self.name.encode(&mut payload);
        self.revision.encode(&mut payload);
        self.payload.encode(&mut payload);
        let (bytes, _) = sealed::seal(key, Purpose::Record, |out| {
            let header = Header {
                list: true,
                payload_length: payload.len(),
            };
            header.encode(out);
            out.extend_from_slice(&payload);
        });
        if bytes.len() > RECORD_BYTES_MAX || self.name.len() > RECORD_NAME_BYTES_MAX {
            return Err(RecordError::Length(bytes.len()));
        }
        Ok(bytes)
    }

    /// Reads the record of this name, and returns it with its digest.
    ///
    /// # Errors
    /// The bytes are no record of this fleet, or not that of this name. Whether they are its newest
    /// revision, [`Revisions::accept`] says.
    pub fn open(name: &str, bytes: &[u8], key: &FleetKey) -> Result<(Self, B256), RecordError> {
        let (record, digest) = Self::open_any(bytes, key)?;
        match record.name == name {
            true => Ok((record, digest)),
            false => Err(RecordError::Name),
        }
    }

    /// Reads a record, whatever its name is.
    ///
    /// # Errors
    /// The bytes are no record of this fleet.
    pub(crate) fn open_any(bytes: &[u8], key: &FleetKey) -> Result<(Self, B256), OpenError> {
        let (content, digest) = sealed::open(bytes, RECORD_BYTES_MAX, key, Purpose::Record, true)?;
        let record = Self::decode(content).map_err(OpenError::Malformed)?;
        Ok((record, digest))
    }

    fn decode(mut bytes: &[u8]) -> Result<Self, alloy_rlp::Error> {
        let mut rest = Header::decode_bytes(&mut bytes, true)?;
        let record = Self {
            name: String::decode(&mut rest)?,
            revision: u64::decode(&mut rest)?,
            payload: Bytes::decode(&mut rest)?,
        };
        match bytes.is_empty() && rest.is_empty() {
            true => Ok(record),
            false => Err(alloy_rlp::Error::UnexpectedLength),
        }
    }
}

/// The newest revision of each record that a process has seen.
#[derive(Debug, Default)]
pub struct Revisions {
    seen: HashMap<String, (u64, B256)>,
    newest: u64,
}

impl Revisions {
    /// Accepts a record with its digest, unless a newer one of its name was seen. It is remembered.
    ///
    /// # Errors
    /// It is older than one that was seen, or differs from one of the same revision.
    pub fn accept(&mut self, record: &Record, digest: B256) -> Result<(), RecordError> {
        if let Some((seen, before)) = self.seen.get_mut(&record.name) {
            if record.revision < *seen {
                let (found, seen) = (record.revision, *seen);
                return Err(RecordError::Older { found, seen });
            }
            if record.revision == *seen && digest != *before {
                return Err(RecordError::Forked(*seen));
            }
            (*seen, *before) = (record.revision, digest);
        } else {
            if self.seen.len() == RECORDS_MAX {
                return Err(RecordError::TooMany);
            }
            let seen = (record.revision, digest);
            self.seen.insert(record.name.clone(), seen);
        }
        self.newest = self.newest.max(record.revision);
        Ok(())
    }

    /// The highest revision of all records: what a leader states in its entries.
    #[must_use]
    pub const fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether records are missing, after every one was read: a leader has stated a newer revision.
    /// Then the store has lost some, or somebody has put older ones back.
    #[must_use]
    pub const fn lacks(&self, stated: u64) -> bool {
        self.newest < stated
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn key() -> FleetKey {
        FleetKey::new(&[7; 32], b"chain").unwrap()
    }

    fn record(name: &str, revision: u64, payload: &'static [u8]) -> Record {
        Record {
            name: name.to_owned(),
            revision,
            payload: Bytes::from_static(payload),
        }
    }

    #[test]
    fn a_record_is_read_under_its_name_alone() {
        let alice = record("tenant:alice", 3, b"100 units");
        let sealed = alice.seal(&key()).unwrap();
        let (read, _) = Record::open("tenant:alice", &sealed, &key()).unwrap();
        assert_eq!(read, alice);
        assert_eq!(
            Record::open("tenant:bob", &sealed, &key()),
            Err(RecordError::Name)
        );
        for at in 0..sealed.len() {
            let mut bytes = sealed.to_vec();
            bytes[at] ^= 1;
            assert_eq!(
                Record::open("tenant:alice", &bytes, &key()),
                Err(OpenError::Mac.into())
            );
        }
    }

    #[test]
    fn an_older_revision_is_refused_by_who_has_seen_a_newer_one() {
        let mut revisions = Revisions::default();
        let mut accept = |record: &Record| {
            let sealed = record.seal(&key()).unwrap();
            let (record, digest) = Record::open(&record.name, &sealed, &key()).unwrap();
            revisions.accept(&record, digest)
        };
        let (older, newer) = (record("a", 1, b"admitted"), record("a", 4, b"revoked"));
        accept(&older).unwrap();
        accept(&newer).unwrap();
        accept(&newer).unwrap();
        accept(&record("b", 2, b"")).unwrap();
        let refused = RecordError::Older { found: 1, seen: 4 };
        assert_eq!(accept(&older), Err(refused));
        assert_eq!(
            accept(&record("a", 4, b"admitted")),
            Err(RecordError::Forked(4))
        );
        assert_eq!(revisions.newest(), 4);
        assert!(revisions.lacks(5) && !revisions.lacks(4));
    }

    #[test]
    fn records_and_entries_do_not_pass_for_each_other() {
        let entry = crate::entry::Entry {
            position: crate::position::Position::new(1, 0),
            previous: B256::ZERO,
            content: crate::entry::Content::Snapshot(crate::entry::SnapshotPart {
                part: 0,
                parts: 1,
                head: crate::block_id::BlockId::default(),
                blocks: Vec::new(),
                settled: crate::entry::Settled::default(),
                records: 0,
                nodes: Vec::new(),
            }),
        };
        let entry = entry.seal(&key()).unwrap().bytes;
        assert_eq!(
            Record::open("a", &entry, &key()),
            Err(OpenError::Mac.into())
        );
        let sealed = record("a", 1, b"").seal(&key()).unwrap();
        let opened = crate::entry::Entry::open(&sealed, &key());
        assert_eq!(opened, Err(crate::entry::OpenError::Mac));
    }

    #[test]
    fn lengths_are_bounded() {
        let mut long = record("a", 1, b"");
        long.payload = vec![0; RECORD_BYTES_MAX].into();
        assert!(matches!(long.seal(&key()), Err(RecordError::Length(_))));
        let mut long = record("a", 1, b"");
        long.name = "a".repeat(RECORD_NAME_BYTES_MAX + 1);
        assert!(matches!(long.seal(&key()), Err(RecordError::Length(_))));
        assert_eq!(
            Record::open("a", &[1; 20], &key()),
            Err(OpenError::Length(20).into())
        );
    }
}
