//! A store in a folder.
//!
//! | file | what is in it |
//! |---|---|
//! | `tenants.sqlite` | tenants, keys, accounts and the audit: few writes, each one durable |
//! | `usage.sqlite` | usage, of bounded size: many writes, the last of which a power failure may undo |
//!
//! They are two files so that usage can neither damage keys nor take their space, and so that the
//! check at the start reads little.
//!
//! | module | content |
//! |---|---|
//! | `database` | a file: opens and checks it, brings it to the newest format |
//! | `records`, `records_1.sql`, `records_2.sql` | tenants, keys and accounts, each with a checksum |
//! | `audit` | the audit, in the same file |
//! | `usage` and its folder, `usage_1.sql`, `usage_2.sql` | usage |

mod audit;
mod database;
mod records;
mod usage;

use std::path::Path;

use self::{audit::AuditBounds, records::RecordsFile, usage::UsageFile};
use crate::{
    UnixMillis,
    audit::{AuditPage, AuditQuery},
    store::{Commit, Loaded, StoreError, TenantStore},
    usage::{KeyUse, KeyUseQuery, UsageAnswer, UsageCell, UsageQuery},
};

/// A store in a folder that the caller has locked. The files belong to this process until it is
/// dropped.
#[derive(Debug)]
pub struct SqliteStore {
    records: RecordsFile,
    usage: UsageFile,
}

impl SqliteStore {
    /// Opens the store in `folder`, which exists, or makes it.
    ///
    /// # Errors
    /// A file cannot be read or written, is held by another process, is damaged, or was made by a
    /// newer version or by another program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            records: RecordsFile::open(folder, AuditBounds::default())?,
            usage: UsageFile::open(folder)?,
        })
    }
}

#[cfg(test)]
impl SqliteStore {
    /// Opens a store whose usage has less space.
    pub(super) fn open_bounded(folder: &Path, usage_bytes_max: u64) -> Result<Self, StoreError> {
        Ok(Self {
            records: RecordsFile::open(folder, AuditBounds::default())?,
            usage: UsageFile::open_bounded(folder, usage_bytes_max)?,
        })
    }

    /// Opens a store that keeps fewer entries of the audit: this many of changes, and as
    /// many of logins as of wrong passwords.
    pub(super) fn open_with_audit(
        folder: &Path,
        (changes, logins): (u64, u64),
    ) -> Result<Self, StoreError> {
        let bounds = AuditBounds {
            changes,
            logins,
            refusals: logins,
        };
        Ok(Self {
            records: RecordsFile::open(folder, bounds)?,
            usage: UsageFile::open(folder)?,
        })
    }

    /// Behaves as if the disk were full, or no longer.
    pub(super) fn fill_disk(&self, is_full: bool) {
        self.records.database().fill_disk(is_full);
        self.usage.database().fill_disk(is_full);
    }
}

impl TenantStore for SqliteStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        let (directory, accounts) = self.records.load()?;
        let last_used = self.usage.last_used()?;
        Ok(Loaded {
            directory,
            accounts,
            last_used,
        })
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        self.records.commit(commit)
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        self.records.audit(query)
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        self.usage.add(cells)
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        self.usage.answer(query)
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        self.usage.key_use(query, each)
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let is_more_usage = self.usage.expire(now)?;
        Ok(self.records.expire(now)? || is_more_usage)
    }
}
