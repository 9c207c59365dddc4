//! Where tenants, keys, accounts, usage and the audit are kept.
//!
//! One thread owns the store, and calls it; nothing of it is on the path of a request. Reads at the
//! start are whole: what is asked for later is in memory, in a [`Directory`] and in [`Accounts`].
//!
//! | file | content |
//! |---|---|
//! | `store.rs` | what every store does |
//! | `memory` | a store in memory |
//! | `sqlite` | a store in a folder |
//! | `error` | why a store cannot be used |
//! | `checks` | what every store has to do, for tests |

#[cfg(any(test, feature = "testing"))]
pub mod checks;
mod error;
mod memory;
mod sqlite;

use std::collections::HashMap;

pub use self::{error::StoreError, memory::MemoryStore, sqlite::SqliteStore};
use crate::{
    UnixMillis,
    account::{AccountChange, Accounts},
    audit::{AuditEntry, AuditPage, AuditQuery},
    command::Change,
    directory::Directory,
    id::KeyId,
    usage::{KeyUse, KeyUseQuery, UsageAnswer, UsageCell, UsageQuery},
};

/// A store. After an error it is as it was before the call, and can be called again.
pub trait TenantStore: Send {
    /// Reads what is kept in memory: once, at the start.
    ///
    /// # Errors
    /// The store cannot be read, or is damaged.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Writes what one command changes, all of it or nothing. When this returns, it outlives a
    /// power failure. The owner makes the changes in memory after that.
    ///
    /// # Errors
    /// The store cannot be written.
    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError>;

    /// Reads what other processes have changed since the last call, for a store that several share.
    ///
    /// # Errors
    /// The store cannot be read, or has what none of them wrote. Nothing has changed then.
    fn refresh(&mut self) -> Result<Refreshed, StoreError> {
        Ok(Refreshed::default())
    }

    /// Reads a page of the audit.
    ///
    /// # Errors
    /// The store cannot be read.
    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError>;

    /// Adds usage, all of it or nothing. What was added outlives the process, but not always a
    /// power failure.
    ///
    /// # Errors
    /// The store cannot be written. If it is full, [`Self::expire`] may make room for the next
    /// call.
    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError>;

    /// Reads usage.
    ///
    /// # Errors
    /// The store cannot be read.
    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError>;

    /// Reads what keys used: calls `each` for every sum, in no particular order. A key has one for
    /// each period, method and outcome.
    ///
    /// # Errors
    /// The store cannot be read. `each` may have been called before.
    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError>;

    /// When keys were last used, also by other processes, of those that were used since the last
    /// call: for a store that several share.
    ///
    /// # Errors
    /// The store cannot be read.
    fn used_lately(&mut self, _now: UnixMillis) -> Result<HashMap<KeyId, UnixMillis>, StoreError> {
        Ok(HashMap::new())
    }

    /// Removes a bounded part of what is no longer kept at `now`: old usage, old entries of the
    /// audit. Says whether there is more to remove. To be called every minute, and again, between
    /// other calls, while there is more.
    ///
    /// # Errors
    /// The store cannot be written.
    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError>;
}

/// What is kept in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Tenants and keys.
    pub directory: Directory,
    /// Who may administer.
    pub accounts: Accounts,
    /// When keys were last used, also those that the configuration names.
    pub last_used: HashMap<KeyId, UnixMillis>,
}

/// What others have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Of tenants and keys.
    pub directory: Vec<Change>,
    /// Of accounts.
    pub accounts: Vec<AccountChange>,
}

/// What is written at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Commit<'a> {
    /// Of tenants and keys.
    pub directory: &'a [Change],
    /// Of accounts.
    pub accounts: &'a [AccountChange],
    /// The entries that say who did it. There are none if nobody did: a login expired, or was seen.
    pub entries: &'a [AuditEntry],
}

#[cfg(test)]
mod tests;
