//! Tenants, keys and accounts of a fleet, in the store that all its processes share.
//!
//! A process has all of them in memory, and looks four times a second whether another one has
//! written. What it reads is sealed, and has to be what the manifest states; else it is refused,
//! and the process goes on with what it knows. If that lasts, it puts back what it knows.
//!
//! | file | what it is |
//! |---|---|
//! | `named` | tenants, keys and accounts as records with names |
//! | `audit` | the audit, read back |
//! | `usage` | what keys used, over all processes |
//! | `failures` | why a call failed |
//! | `restore` | what a process puts back, if the store has lost something |
//! | `merge` | one set of records out of two that parted |

mod audit;
mod failures;
mod merge;
mod named;
mod restore;
mod usage;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use alloy_primitives::Bytes;
use nearhead_actors::fleet::{
    FleetStatus, SharedStore,
    store::{AuditKind, FleetRecords, RecordsChange, RecordsCommit},
};
use nearhead_fleet::{
    bounds::{RECORDS_MAX, STORED_RECORD_BYTES_MAX},
    fleet_key::FleetKey,
    record::{Record, RecordError},
    record_set::{MANIFEST, Manifest, RecordSet, SetChanges},
    scripts::Committed,
    sealed::OpenError,
};
use nearhead_tenants::{
    UnixMillis,
    account::Accounts,
    audit::{AuditPage, AuditQuery},
    directory::Directory,
    id::KeyId,
    store::{Commit, Loaded, Refreshed, StoreError, TenantStore},
    usage::{KeyUse, KeyUseQuery, UsageAnswer, UsageCell, UsageQuery},
};

use self::{
    failures::{away, no_json, too_large},
    named::Named,
    usage::FleetUsage,
};
use crate::metrics::RecordRefusals;

/// How long the store has to have something else than what the fleet wrote before it is put back:
/// every process notices it meanwhile.
const RESTORE_AFTER: Duration = Duration::from_secs(2);

/// Pause before a store that failed is read again. Whoever owns it blocks meanwhile.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// Pages of one read of all records: as many as there may be, and as many again, because the store
/// may give one more than once.
const PAGES_MAX: usize = 2 * RECORDS_MAX / 64;

/// Reads in a row that end because others write meanwhile, before that is a failure.
const CONFLICTS_MAX: u32 = 8;

/// The tenants of a fleet.
pub(super) struct FleetTenants {
    records: FleetRecords,
    key: FleetKey,
    status: FleetStatus,
    refusals: RecordRefusals,
    set: RecordSet,
    /// The manifest as the store has it; empty if there is none.
    manifest: Bytes,
    directory: Directory,
    accounts: Accounts,
    /// Where the records are read that the manifest says have not changed.
    cursor: u64,
    spoiled_since: Option<Instant>,
    /// Reads in a row that ended because others wrote meanwhile.
    conflicts: u32,
    failed: Option<(Instant, StoreError)>,
    usage: FleetUsage,
}

impl FleetTenants {
    /// Reads all records.
    ///
    /// # Errors
    /// The store does not answer, or has what the fleet did not write.
    pub(super) fn open(shared: &SharedStore, refusals: RecordRefusals) -> Result<Self, StoreError> {
        let records = FleetRecords::open(&shared.options).map_err(away)?;
        let usage = FleetUsage::new(
            records.clone(),
            shared.key.clone(),
            refusals.clone(),
            shared.options.owner.clone(),
        );
        let mut this = Self {
            records,
            key: shared.key.clone(),
            status: shared.status.clone(),
            refusals,
            set: RecordSet::default(),
            manifest: Bytes::new(),
            directory: Directory::default(),
            accounts: Accounts::default(),
            cursor: 0,
            spoiled_since: None,
            conflicts: 0,
            failed: None,
            usage,
        };
        this.read_all()?;
        Ok(this)
    }

    /// Why a record is refused, which is counted.
    fn refused(&self, name: &str, error: &RecordError) -> StoreError {
        self.refusals.count(error);
        if matches!(error, RecordError::Open(OpenError::Version(_))) {
            return StoreError::NewerRecords;
        }
        let name: String = name.chars().filter(|char| !char.is_control()).collect();
        StoreError::Spoiled {
            reason: format!("{name}: {error}"),
        }
    }

    fn open_record(
        &self,
        name: &str,
        bytes: &[u8],
        known: &RecordSet,
    ) -> Result<(Record, Known), StoreError> {
        let opened = Record::open(name, bytes, &self.key).and_then(|(record, element)| {
            known.check(&record, element)?;
            Ok((record, element))
        });
        let (record, element) = opened.map_err(|error| self.refused(name, &error))?;
        let revision = record.revision;
        Ok((record, (revision, element)))
    }

    /// The newest revision that the store has to have: one that this process has read, or that a
    /// leader has stated. It is asked for before the store is read, which may change meanwhile.
    fn stated(&self) -> u64 {
        let known = self.set.manifest().revision;
        self.status.facts().records_stated.max(known)
    }

    /// The manifest of these bytes, which is at least of the stated revision, and none beside the
    /// known one.
    fn open_manifest(
        &self,
        bytes: &[u8],
        stated: u64,
        known: &RecordSet,
    ) -> Result<Manifest, StoreError> {
        let manifest = match bytes.is_empty() {
            true => Ok(Manifest::default()),
            false => Manifest::open(bytes, &self.key),
        };
        let manifest = manifest.map_err(|error| self.refused(MANIFEST, &error))?;
        self.check_revision(manifest.revision, stated)?;
        let known = known.manifest();
        if manifest.revision == known.revision && manifest != *known {
            // The store has lost it, and another process has written since.
            return Err(self.refused(MANIFEST, &RecordError::Forked(known.revision)));
        }
        Ok(manifest)
    }

    fn check_revision(&self, found: u64, stated: u64) -> Result<(), StoreError> {
        if found >= stated {
            return Ok(());
        }
        let seen = stated;
        Err(self.refused(MANIFEST, &RecordError::Older { found, seen }))
    }

    /// Reads all records, and returns what differs from those that are known.
    fn read_all(&mut self) -> Result<Refreshed, StoreError> {
        let Whole {
            bytes,
            manifest,
            read,
        } = self.read_whole(&self.set)?;
        self.take(&bytes, manifest, read)
    }

    /// Reads all that the store has, as it differs from these records.
    fn read_whole(&self, known: &RecordSet) -> Result<Whole, StoreError> {
        let stated = self.stated();
        let (mut cursor, mut first) = (0, None);
        let mut read = ReadRecords::default();
        for _ in 0..PAGES_MAX {
            let page = self.records.page(cursor).map_err(away)?;
            first.get_or_insert(page.manifest);
            self.open_records(page.records, known, &mut read)?;
            match page.next {
                Some(next) if read.named.len() <= RECORDS_MAX => cursor = next,
                _ => break,
            }
        }
        let mut bytes = first.unwrap_or_default();
        let mut manifest = self.open_manifest(&bytes, stated, known)?;
        // Other processes may have written since the first page.
        let change = self.records.changes(&bytes, manifest.revision);
        let change = change.map_err(away)?;
        let has_changed = change.is_some();
        if let Some(change) = change {
            bytes = change.manifest;
            manifest = self.open_manifest(&bytes, stated, known)?;
            self.open_records(change.records, known, &mut read)?;
        }
        let is_gone = |name: &&str| !read.named.contains_key(*name);
        let gone: Vec<String> = known.names().filter(is_gone).map(str::to_owned).collect();
        for name in gone {
            read.insert(name, None);
        }
        let expected = known.after(&read.changes, manifest.revision, manifest.audit);
        match expected == Ok(manifest) {
            true => Ok(Whole {
                bytes,
                manifest,
                read,
            }),
            // There are more changes than one read has: all of it is read again.
            false if has_changed => Err(StoreError::Conflict),
            // A foreign writer may have copied a record here that is none of these, such as one of
            // the audit.
            false => Err(self.refused(MANIFEST, &RecordError::Sum)),
        }
    }

    /// Opens records that were read; one without bytes is gone.
    fn open_records(
        &self,
        records: Vec<(String, Bytes)>,
        known: &RecordSet,
        read: &mut ReadRecords,
    ) -> Result<(), StoreError> {
        for (name, bytes) in records {
            if !bytes.is_empty() {
                let opened = self.open_record(&name, &bytes, known)?;
                read.insert(name, Some(opened));
            } else if known.has(&name) {
                read.insert(name, None);
            } else {
                read.forget(&name);
            }
        }
        Ok(())
    }

    /// Takes records that differ from those that are known.
    fn take(
        &mut self,
        bytes: &Bytes,
        manifest: Manifest,
        read: ReadRecords,
    ) -> Result<Refreshed, StoreError> {
        let Some(refreshed) = named::changes(&read.named) else {
            return Err(StoreError::NewerRecords);
        };
        let made = self.set.make(read.changes, manifest);
        made.map_err(|error| self.refused(MANIFEST, &error))?;
        self.manifest = bytes.clone();
        self.make(&refreshed);
        Ok(refreshed)
    }

    fn make(&mut self, refreshed: &Refreshed) {
        for change in &refreshed.directory {
            self.directory.make(change.clone());
        }
        for change in &refreshed.accounts {
            self.accounts.make(change.clone());
        }
        self.status.knows_records(self.set.manifest().revision);
    }

    /// Reads what has changed, or looks at some of what should not have.
    fn read_changes(&mut self) -> Result<Refreshed, StoreError> {
        let stated = self.stated();
        let revision = self.set.manifest().revision;
        let change = self.records.changes(&self.manifest, revision);
        let Some(RecordsChange { manifest, records }) = change.map_err(away)? else {
            self.check_revision(revision, stated)?;
            return self.look_at_some().map(|()| Refreshed::default());
        };
        let found = self.open_manifest(&manifest, stated, &self.set)?;
        let mut read = ReadRecords::default();
        self.open_records(records, &self.set, &mut read)?;
        let expected = self.set.after(&read.changes, found.revision, found.audit);
        if expected != Ok(found) {
            // There are more changes than one read has, or it does not know them all.
            return self.read_all();
        }
        self.take(&manifest, found, read)
    }

    /// Looks at the next few records, in turn, of a store whose manifest is the known one.
    fn look_at_some(&mut self) -> Result<(), StoreError> {
        let page = self.records.page(self.cursor).map_err(away)?;
        if page.manifest != self.manifest {
            // They have changed since: the next look reads them.
            return Ok(());
        }
        self.cursor = page.next.unwrap_or_default();
        for (name, bytes) in &page.records {
            self.open_record(name, bytes, &self.set)?;
            if !self.set.has(name) {
                return Err(self.refused(name, &RecordError::Sum));
            }
        }
        let has_manifest = u64::from(!self.manifest.is_empty());
        match page.count == self.set.manifest().count + has_manifest {
            true => Ok(()),
            false => Err(self.refused(MANIFEST, &RecordError::Sum)),
        }
    }

    /// What these records are in a revision, sealed, and how they change the set.
    fn seal(&self, named: &Named, revision: u64) -> Result<Sealed, StoreError> {
        let (mut records, mut changes) = (Vec::new(), SetChanges::new());
        for (name, payload) in named {
            let Some(payload) = payload else {
                records.push((name.clone(), Bytes::new()));
                changes.insert(name.clone(), None);
                continue;
            };
            let record = Record {
                name: name.clone(),
                revision,
                payload: payload.clone().into(),
            };
            let bytes = record.seal(&self.key).map_err(too_large)?;
            if bytes.len() > STORED_RECORD_BYTES_MAX {
                return Err(too_large(RecordError::Length(bytes.len())));
            }
            let (_, element) = Record::open(name, &bytes, &self.key).map_err(too_large)?;
            records.push((name.clone(), bytes));
            changes.insert(name.clone(), Some((revision, element)));
        }
        Ok((records, changes))
    }

    /// Whether the store has what was just written, although it has not said so in time.
    fn has_written(&self, manifest: &Bytes) -> bool {
        let found = self.records.changes(manifest, u64::MAX >> 12);
        matches!(found, Ok(None))
    }
}

type Known = (u64, alloy_primitives::B256);

/// Records that were read, and how they change the set of those that are known.
#[derive(Default)]
struct ReadRecords {
    named: Named,
    changes: SetChanges,
}

impl ReadRecords {
    /// Puts a record in place of an earlier one of its name; `None` if it is gone.
    fn insert(&mut self, name: String, opened: Option<(Record, Known)>) {
        let (record, known) = opened.unzip();
        let payload = record.map(|record| record.payload.to_vec());
        self.named.insert(name.clone(), payload);
        self.changes.insert(name, known);
    }

    /// Takes out a record that nobody knew before, and that is gone.
    fn forget(&mut self, name: &str) {
        self.named.remove(name);
        self.changes.remove(name);
    }
}

/// All that the store has.
struct Whole {
    /// The manifest as the store has it.
    bytes: Bytes,
    manifest: Manifest,
    read: ReadRecords,
}

type Sealed = (Vec<(String, Bytes)>, SetChanges);

impl TenantStore for FleetTenants {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        Ok(Loaded {
            directory: self.directory.clone(),
            accounts: self.accounts.clone(),
            // If it cannot be read now, the next look at what was used lately reads it.
            last_used: self.usage.last_used().unwrap_or_default(),
        })
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        if let Some((_, error)) = &self.failed {
            return Err(error.clone());
        }
        let named = named::named(commit, &self.directory, &self.accounts).map_err(no_json)?;
        let before = *self.set.manifest();
        if named.is_empty() && commit.entries.is_empty() {
            return Ok(());
        }
        let revision = before.revision + 1;
        let (records, changes) = self.seal(&named, revision)?;
        let audit = before.audit + commit.entries.len() as u64;
        let manifest = self
            .set
            .after(&changes, revision, audit)
            .map_err(too_large)?;
        let bytes = manifest.seal(&self.key).map_err(too_large)?;
        let numbers = before.audit + 1..;
        let entries = commit.entries.iter().zip(numbers);
        let entries = entries.map(|(entry, number)| audit::seal(entry, number, &self.key));
        let write = RecordsCommit {
            known: self.manifest.clone(),
            manifest: bytes.clone(),
            revision,
            replaces_all: false,
            records,
            entries: entries.collect::<Result<_, _>>()?,
        };
        match self.records.commit(write) {
            Ok(Committed::Written { audit_begun_again }) => {
                if audit_begun_again {
                    tracing::warn!(
                        "the audit in the fleet's store was replaced or altered: it was deleted, \
                         and a new one was started"
                    );
                }
            }
            Ok(Committed::Conflict) => return Err(StoreError::Conflict),
            Err(_) if self.has_written(&bytes) => {}
            Err(error) => return Err(away(error)),
        }
        let made = self.set.make(changes, manifest);
        made.map_err(too_large)?;
        self.manifest = bytes;
        self.make(&Refreshed {
            directory: commit.directory.to_vec(),
            accounts: commit.accounts.to_vec(),
        });
        Ok(())
    }

    fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        if let Some((at, error)) = &self.failed
            && matches!(error, StoreError::Away { .. })
            && at.elapsed() < FAILED_PAUSE
        {
            return Err(error.clone());
        }
        let refreshed = match self.read_changes() {
            Err(StoreError::Conflict) if self.conflicts < CONFLICTS_MAX => {
                // It changes while it is read: the next look reads it. This does not show that the
                // store works again.
                self.conflicts += 1;
                let failure = self.failed.clone().map(|(_, error)| error);
                return failure.map_or_else(|| Ok(Refreshed::default()), Err);
            }
            refreshed => refreshed,
        };
        self.conflicts = 0;
        let now = Instant::now();
        self.failed = refreshed.as_ref().err().map(|error| (now, error.clone()));
        match &refreshed {
            // What a newer program has written is not put back: this one knows less.
            Err(StoreError::Spoiled { .. }) => {
                let since = *self.spoiled_since.get_or_insert(now);
                if now >= since + RESTORE_AFTER {
                    self.spoiled_since = None;
                    self.restore()?;
                }
            }
            Err(_) => {}
            Ok(_) => self.spoiled_since = None,
        }
        refreshed
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let read = |kind: AuditKind, before| self.records.audit(kind, before).map_err(away);
        audit::page(query, read, &self.key, &self.refusals)
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        let is_away = matches!(self.failed, Some((_, StoreError::Away { .. })));
        self.usage.add(cells, is_away)
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.usage.usage(query)
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        self.usage.key_use(query, each)
    }

    fn used_lately(&mut self, now: UnixMillis) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        self.usage.used_lately(now)
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        self.usage.expire(now)
    }
}
