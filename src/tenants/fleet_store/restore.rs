//! What a process puts back into a store that does not have what the fleet wrote.

use alloy_primitives::Bytes;
use nearhead_actors::fleet::store::RecordsCommit;
use nearhead_fleet::{
    record_set::{Manifest, RecordSet},
    scripts::Committed,
};
use nearhead_tenants::{account::Accounts, directory::Directory, store::StoreError};

use super::{
    FleetTenants, Whole,
    failures::{away, no_json, too_large},
    merge::{Versions, merge},
    named::{self, Named},
};

/// What takes the place of all that the store has.
struct Replacement {
    /// The manifest as the store has it.
    found: Bytes,
    revision: u64,
    audit: u64,
    named: Named,
}

impl FleetTenants {
    /// Puts back what this process knows. If the store has other records than this process, and
    /// they are whole, the two have parted, and are merged. Else, a process that is behind puts
    /// nothing back: it could undo a revocation.
    pub(super) fn restore(&mut self) -> Result<(), StoreError> {
        let known = *self.set.manifest();
        let replacement = match self.read_whole(&RecordSet::default()) {
            // It is not older than what this process knows: that is read as spoiled.
            Ok(found) => self.merged(found)?,
            Err(StoreError::Spoiled { .. }) => {
                let found = self.records.page(0).map_err(away)?.manifest;
                let opened = Manifest::open(&found, &self.key);
                let found_revision = opened.map_or(0, |manifest| manifest.revision);
                let is_newest = known.revision >= found_revision.max(self.stated());
                is_newest.then_some(Replacement {
                    found,
                    revision: known.revision + 1,
                    audit: known.audit,
                    named: named::all(&self.directory, &self.accounts).map_err(no_json)?,
                })
            }
            // It is looked at again.
            Err(StoreError::Conflict) => None,
            Err(error) => return Err(error),
        };
        match replacement {
            Some(replacement) => self.replace_all(replacement),
            None => Ok(()),
        }
    }

    /// What this process knows, and what the store has; `None` if that has all of it.
    fn merged(&self, found: Whole) -> Result<Option<Replacement>, StoreError> {
        let Whole {
            bytes,
            manifest,
            read,
        } = found;
        let known = self.set.manifest();
        let mut mine = Versions::new();
        for (name, payload) in named::all(&self.directory, &self.accounts).map_err(no_json)? {
            if let (Some((revision, _)), Some(payload)) = (self.set.version(&name), payload) {
                mine.insert(name, (revision, payload));
            }
        }
        let mut theirs = Versions::new();
        for (name, payload) in read.named {
            let version = read.changes.get(&name).copied().flatten();
            if let (Some((revision, _)), Some(payload)) = (version, payload) {
                theirs.insert(name, (revision, payload));
            }
        }
        let merged = merge(&mine, known.revision, &theirs);
        let is_theirs = merged.len() == theirs.len()
            && merged
                .iter()
                .all(|(name, payload)| theirs.get(name).is_some_and(|(_, other)| other == payload));
        if is_theirs && manifest.revision > known.revision {
            return Ok(None);
        }
        // What belongs to a tenant or an account that is gone is gone too.
        let named = merged
            .into_iter()
            .map(|(name, payload)| (name, Some(payload)));
        let Some(refreshed) = named::changes(&named.collect()) else {
            return Err(StoreError::NewerRecords);
        };
        let (mut directory, mut accounts) = (Directory::default(), Accounts::default());
        refreshed
            .directory
            .into_iter()
            .for_each(|change| directory.make(change));
        refreshed
            .accounts
            .into_iter()
            .for_each(|change| accounts.make(change));
        tracing::warn!(
            known = known.revision,
            found = manifest.revision,
            "tenants and keys have parted, because the store has lost changes: they are merged"
        );
        Ok(Some(Replacement {
            found: bytes,
            revision: manifest.revision + 1,
            audit: manifest.audit.max(known.audit),
            named: named::all(&directory, &accounts).map_err(no_json)?,
        }))
    }

    /// Writes all records again. The next look reads them.
    fn replace_all(&self, replacement: Replacement) -> Result<(), StoreError> {
        let Replacement {
            found,
            revision,
            audit,
            named,
        } = replacement;
        let (records, changes) = self.seal(&named, revision)?;
        let manifest = RecordSet::default().after(&changes, revision, audit);
        let manifest = manifest.map_err(too_large)?.seal(&self.key);
        let commit = RecordsCommit {
            known: found,
            manifest: manifest.map_err(too_large)?,
            revision,
            replaces_all: true,
            records,
            entries: Vec::new(),
        };
        if self.records.commit(commit).map_err(away)? != Committed::Conflict {
            tracing::warn!(
                revision,
                "tenants and keys are put back into the fleet's store"
            );
        }
        Ok(())
    }
}
