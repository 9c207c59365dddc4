//! All records of a fleet, as one process knows them: what it takes, and what it refuses.
//!
//! Beside the records is a *manifest*: a record that states the newest revision, how many records
//! there are, and the sum of their elements. Each write replaces it. So a record that is missing,
//! rewritten, or an older one that somebody put back is noticed, also by a process that has just
//! started. Elements are secret, and the sum is masked: whoever knows neither cannot choose old
//! records that have the same sum (Wagner's generalized birthday attack). A store that was put
//! back as a whole has an older manifest than a leader has stated in its entries
//! ([`Content::records`](crate::entry::Content::records)).

use std::collections::{BTreeMap, HashMap};

use alloy_primitives::{B256, Bytes, U256};

use crate::{
    bounds::RECORDS_MAX,
    fleet_key::{FleetKey, Purpose, digest},
    record::{Record, RecordError},
    sealed::OpenError,
};

/// The name of the manifest among the records.
pub const MANIFEST: &str = "manifest";

const PAYLOAD_BYTES: usize = 48;

/// What a manifest states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The newest revision.
    pub revision: u64,
    /// How many records there are, without itself.
    pub count: u64,
    /// The number of the newest entry of the audit.
    pub audit: u64,
    /// The sum of the records' elements.
    pub sum: U256,
}

/// The number that hides the sum of the manifest that begins so.
fn mask(key: &FleetKey, revision: u64, head: &[u8]) -> U256 {
    let of = [&revision.to_be_bytes(), head].concat();
    U256::from_be_bytes(key.secret_of(Purpose::Mask, &digest(&of)).0)
}

impl Manifest {
    /// Writes it.
    ///
    /// # Errors
    /// None: it is short.
    pub fn seal(&self, key: &FleetKey) -> Result<Bytes, RecordError> {
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        payload.extend_from_slice(&self.count.to_be_bytes());
        payload.extend_from_slice(&self.audit.to_be_bytes());
        let sum = self.sum ^ mask(key, self.revision, &payload);
        payload.extend_from_slice(&sum.to_be_bytes::<32>());
        let record = Record {
            name: MANIFEST.to_owned(),
            revision: self.revision,
            payload: payload.into(),
        };
        record.seal(key)
    }

    /// Reads it.
    ///
    /// # Errors
    /// The bytes are no manifest of this fleet.
    pub fn open(bytes: &[u8], key: &FleetKey) -> Result<Self, RecordError> {
        let (record, _) = Record::open(MANIFEST, bytes, key)?;
        let malformed = || OpenError::Malformed(alloy_rlp::Error::UnexpectedLength);
        let payload: &[u8; PAYLOAD_BYTES] = record
            .payload
            .as_ref()
            .try_into()
            .map_err(|_| malformed())?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&payload[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        Ok(Self {
            revision: record.revision,
            count: number(0),
            audit: number(8),
            sum: U256::from_be_slice(&payload[16..]) ^ mask(key, record.revision, &payload[..16]),
        })
    }
}

/// The records that a process knows, by name: their revisions and elements.
#[derive(Clone, Debug, Default)]
pub struct RecordSet {
    known: HashMap<Box<str>, (u64, B256)>,
    manifest: Manifest,
}

/// What changes of a set: names with the revision and element of their record, or `None` if it is
/// gone.
pub type SetChanges = BTreeMap<String, Option<(u64, B256)>>;

impl RecordSet {
    /// What the set's manifest states.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The names of all records, in no particular order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.known.keys().map(|name| &**name)
    }

    /// The revision and the element of the record of this name.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<(u64, B256)> {
        self.known.get(name).copied()
    }

    /// Whether there is a record of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Checks a record with its element against the one of its name that is known.
    ///
    /// # Errors
    /// It is older than the known one, or differs from it in spite of its revision; or none is
    /// known, and it is not newer than the set, so that it was removed.
    pub fn check(&self, record: &Record, element: B256) -> Result<(), RecordError> {
        match self.known.get(&*record.name) {
            Some((seen, _)) if record.revision < *seen => Err(RecordError::Older {
                found: record.revision,
                seen: *seen,
            }),
            Some((seen, before)) if record.revision == *seen && element != *before => {
                Err(RecordError::Forked(*seen))
            }
            None if record.revision <= self.manifest.revision => Err(RecordError::Older {
                found: record.revision,
                seen: self.manifest.revision,
            }),
            _ => Ok(()),
        }
    }

    /// What the manifest states after these changes, in a revision and with a number of the audit.
    ///
    /// # Errors
    /// There would be too many records.
    pub fn after(
        &self,
        changes: &SetChanges,
        revision: u64,
        audit: u64,
    ) -> Result<Manifest, RecordError> {
        let (mut count, mut sum) = (self.known.len(), self.manifest.sum);
        for (name, change) in changes {
            if let Some((_, before)) = self.known.get(&**name) {
                sum = sum.wrapping_sub(U256::from_be_bytes(before.0));
                count -= 1;
            }
            if let Some((_, element)) = change {
                sum = sum.wrapping_add(U256::from_be_bytes(element.0));
                count += 1;
            }
        }
        if count > RECORDS_MAX {
            return Err(RecordError::TooMany);
        }
        Ok(Manifest {
            revision,
            count: count as u64,
            audit,
            sum,
        })
    }

    /// Makes changes, if the set is then what a manifest states.
    ///
    /// # Errors
    /// It is not: a record is missing, or there is one that the manifest does not know.
    pub fn make(&mut self, changes: SetChanges, manifest: Manifest) -> Result<(), RecordError> {
        if self.after(&changes, manifest.revision, manifest.audit)? != manifest {
            return Err(RecordError::Sum);
        }
        for (name, change) in changes {
            match change {
                Some(known) => drop(self.known.insert(name.into(), known)),
                None => drop(self.known.remove(&*name)),
            }
        }
        self.manifest = manifest;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn key() -> FleetKey {
        FleetKey::new(&[7; 32], b"chain").unwrap()
    }

    fn sealed(name: &str, revision: u64, payload: &'static [u8]) -> (Record, B256) {
        let record = Record {
            name: name.to_owned(),
            revision,
            payload: Bytes::from_static(payload),
        };
        let bytes = record.seal(&key()).unwrap();
        Record::open(name, &bytes, &key()).unwrap()
    }

    fn changes(records: &[&(Record, B256)]) -> SetChanges {
        let changes = records.iter().map(|(record, digest)| {
            let known = Some((record.revision, *digest));
            (record.name.clone(), known)
        });
        changes.collect()
    }

    /// Any set but the one that was written is refused, also by a process that has seen none.
    #[test]
    fn a_manifest_is_for_one_set_of_records() {
        let (alice, bob) = (sealed("a", 1, b"admitted"), sealed("b", 2, b"bob"));
        let revoked = sealed("a", 3, b"revoked");
        let mut writer = RecordSet::default();
        for (record, revision) in [(&alice, 1), (&bob, 2), (&revoked, 3)] {
            let changes = changes(&[record]);
            let manifest = writer.after(&changes, revision, 0).unwrap();
            writer.make(changes, manifest).unwrap();
        }
        let manifest = *writer.manifest();
        assert_eq!((manifest.revision, manifest.count), (3, 2));
        for (found, is_taken) in [
            (vec![&revoked, &bob], true),
            (vec![&alice, &bob], false),
            (vec![&revoked], false),
            (vec![], false),
        ] {
            let made = RecordSet::default().make(changes(&found), manifest);
            assert_eq!(made.is_ok(), is_taken, "{found:?}");
        }
        // One that has seen the newer record says which one is old.
        let refused = RecordError::Older { found: 1, seen: 3 };
        assert_eq!(writer.check(&alice.0, alice.1), Err(refused));
        let forked = sealed("a", 3, b"admitted");
        assert_eq!(
            writer.check(&forked.0, forked.1),
            Err(RecordError::Forked(3))
        );
        assert_eq!(writer.check(&revoked.0, revoked.1), Ok(()));
        // What is refused changes nothing, and what goes is gone.
        let gone = SetChanges::from([("a".to_owned(), None)]);
        assert_eq!(writer.make(gone.clone(), manifest), Err(RecordError::Sum));
        assert!(writer.has("a"));
        let after = writer.after(&gone, 4, 0).unwrap();
        writer.make(gone, after).unwrap();
        assert_eq!(writer.names().collect::<Vec<_>>(), ["b"]);
        // One that was removed does not come back.
        let refused = RecordError::Older { found: 3, seen: 4 };
        assert_eq!(writer.check(&revoked.0, revoked.1), Err(refused));
        let again = sealed("a", 5, b"another one");
        assert_eq!(writer.check(&again.0, again.1), Ok(()));
    }

    /// Who writes into the store sees sealed records and manifests: neither shows an element or a
    /// sum, by which old records could be chosen that have the sum of a newer set.
    #[test]
    fn elements_and_sums_are_secret() {
        let (record, element) = sealed("a", 1, b"admitted");
        let bytes = record.seal(&key()).unwrap();
        let visible = digest(&bytes[..bytes.len() - 32]);
        assert_ne!(element, visible);
        let changes = changes(&[&(record, element)]);
        let manifest = RecordSet::default().after(&changes, 1, 0).unwrap();
        assert_eq!(manifest.sum, U256::from_be_bytes(element.0));
        let next = Manifest {
            revision: 2,
            ..manifest
        };
        let shown = [manifest, next].map(|manifest| {
            let bytes = manifest.seal(&key()).unwrap();
            U256::from_be_slice(&bytes[bytes.len() - 64..bytes.len() - 32])
        });
        assert_ne!(shown[0], manifest.sum);
        assert_ne!(shown[0], shown[1], "each revision has another mask");
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let manifest = Manifest {
            revision: 7,
            count: 3,
            audit: 9,
            sum: U256::MAX,
        };
        let bytes = manifest.seal(&key()).unwrap();
        assert_eq!(Manifest::open(&bytes, &key()), Ok(manifest));
        let other = FleetKey::new(&[8; 32], b"chain").unwrap();
        assert!(Manifest::open(&bytes, &other).is_err());
        let short = Record {
            name: MANIFEST.to_owned(),
            revision: 7,
            payload: Bytes::from_static(b"short"),
        };
        let short = short.seal(&key()).unwrap();
        assert!(Manifest::open(&short, &key()).is_err());
    }
}
