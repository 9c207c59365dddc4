//! Records in the store that are no entries, such as tenants and keys: sealed, so that only
//! processes of the fleet can have written them.
//!
//! A sealed record says its own name and revision. So it cannot be copied to another name, and a
//! process that has seen a revision refuses an older one
//! ([`RecordSet`](crate::record_set::RecordSet)).

use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Decodable, Encodable, Header};

use crate::{
    bounds::{RECORD_BYTES_MAX, RECORD_NAME_BYTES_MAX, RECORDS_MAX},
    fleet_key::{FleetKey, Purpose},
    rlp::list,
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
    /// The records are not those that their manifest states.
    #[error("the records are not those that their manifest states")]
    Sum,
    /// There are more records than a process remembers.
    #[error("there are more than {RECORDS_MAX} records")]
    TooMany,
}

impl RecordError {
    /// Its name in metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Open(OpenError::Mac) => "mac",
            Self::Open(_) | Self::Length(_) => "malformed",
            Self::Name => "name",
            Self::Older { .. } | Self::Forked(_) => "old",
            Self::Sum | Self::TooMany => "missing",
        }
    }

    /// All names in metrics.
    pub const LABELS: [&'static str; 5] = ["mac", "malformed", "name", "old", "missing"];
}

impl Record {
    /// Writes the record, with its MAC.
    ///
    /// # Errors
    /// Its name or its payload is too long.
    pub fn seal(&self, key: &FleetKey) -> Result<Bytes, RecordError> {
        let (bytes, _) = sealed::seal(key, Purpose::Record, |out| {
            list(out, |out| {
                self.name.encode(out);
                self.revision.encode(out);
                self.payload.encode(out);
            });
        });
        if bytes.len() > RECORD_BYTES_MAX || self.name.len() > RECORD_NAME_BYTES_MAX {
            return Err(RecordError::Length(bytes.len()));
        }
        Ok(bytes)
    }

    /// Reads the record of this name, and returns it with what stands for it in the sum of a
    /// manifest: its *element*, which only who has the key can compute.
    ///
    /// # Errors
    /// The bytes are no record of this fleet, or not that of this name. Whether they are its newest
    /// revision, [`RecordSet::check`](crate::record_set::RecordSet::check) says.
    pub fn open(name: &str, bytes: &[u8], key: &FleetKey) -> Result<(Self, B256), RecordError> {
        let (record, digest) = Self::open_any(bytes, key)?;
        match record.name == name {
            true => Ok((record, key.secret_of(Purpose::Element, &digest))),
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
