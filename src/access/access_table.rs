//! All tenants and keys in force, behind one pointer that is swapped when they change.

use std::sync::Arc;

use arc_swap::ArcSwap;
use nearhead_tenants::{
    UnixMillis,
    directory::{ChangedRecords, Directory},
    id::KeyId,
    record::KeyState,
    usage::UsedToday,
};

use super::{
    active_key::ActiveKey,
    configured::ConfiguredKey,
    key_table::KeyTable,
    table_update::{AccessSource, TableUpdate},
    tenant::{ServiceLimits, Tenant},
};

/// The tenants and keys of a service; cloning shares them.
///
/// A reader takes one pointer and no lock. A writer swaps the table for one that shares with it
/// whatever has not changed.
#[derive(Clone, Debug)]
pub struct Access(Arc<ArcSwap<KeyTable>>);

impl Access {
    /// The tenants and keys of a source.
    #[must_use]
    pub fn new(source: AccessSource<'_>) -> Self {
        let table = TableUpdate::all(&KeyTable::default(), source);
        Self(Arc::new(ArcSwap::from_pointee(table)))
    }

    /// The keys that a configuration names, and no others.
    #[must_use]
    pub fn of_configured(
        configured: &[ConfiguredKey],
        limits: &ServiceLimits,
        now: UnixMillis,
    ) -> Self {
        Self::new(AccessSource {
            directory: &Directory::default(),
            configured: &configured.iter().cloned().collect(),
            limits,
            used_today: &UsedToday::default(),
            now,
            desk: None,
        })
    }

    /// The key that a client presents; `None` if it is unknown, expired or revoked, with no
    /// difference between them.
    #[must_use]
    pub fn resolve(&self, presented: &str, now: UnixMillis) -> Option<Arc<ActiveKey>> {
        let (key, _) = self.resolve_with_version(presented, now)?;
        Some(key)
    }

    /// The same, with the version of the table that has the key.
    pub(super) fn resolve_with_version(
        &self,
        presented: &str,
        now: UnixMillis,
    ) -> Option<(Arc<ActiveKey>, u64)> {
        let table = self.0.load();
        let key = table.by_digest.find(presented)?;
        let is_active = key.record.state(now) == KeyState::Active;
        is_active.then(|| (Arc::clone(key), table.version))
    }

    /// The key with this id, as it is now; `None` if it lets nobody in any more.
    #[must_use]
    pub(crate) fn key(&self, id: KeyId, now: UnixMillis) -> Option<Arc<ActiveKey>> {
        let table = self.0.load();
        let key = table.by_id.get(&id)?;
        let is_active = key.record.state(now) == KeyState::Active;
        is_active.then(|| Arc::clone(key))
    }

    /// Whether any key lets clients in.
    #[must_use]
    pub(crate) fn has_keys(&self, now: UnixMillis) -> bool {
        let table = self.0.load();
        let mut keys = table.by_id.iter();
        keys.any(|key| key.record.state(now) == KeyState::Active)
    }

    /// The tenant of a key, also of one that lets nobody in any more.
    #[must_use]
    pub(crate) fn tenant_of(&self, key: KeyId) -> Option<Arc<Tenant>> {
        let table = self.0.load();
        table.by_id.get(&key).map(|key| Arc::clone(&key.tenant))
    }

    /// Visits all tenants, in no particular order.
    pub(crate) fn for_each_tenant(&self, mut visit: impl FnMut(&Tenant)) {
        let table = self.0.load();
        table.tenants.iter().for_each(|entry| visit(&entry.tenant));
    }

    /// How often the table was changed: what was resolved under another version may have changed.
    #[must_use]
    pub(crate) fn version(&self) -> u64 {
        self.0.load().version
    }

    /// Makes the table one of everything that `source` has. The tenants and keys that stay keep
    /// their counters.
    ///
    /// Changes must not overlap: what one of them adds would be lost.
    pub fn replace(&self, source: AccessSource<'_>) {
        let table = TableUpdate::all(&self.0.load(), source);
        self.0.store(Arc::new(table));
    }

    /// The same if only these records have changed since the last time. It costs as much as they
    /// and the keys of their tenants are, however many others there are.
    pub fn update(&self, source: AccessSource<'_>, changed: &ChangedRecords) {
        let table = TableUpdate::of(&self.0.load(), source, changed);
        self.0.store(Arc::new(table));
    }
}

#[cfg(test)]
impl Access {
    /// One key, whose tenant has only its sessions limited.
    pub(crate) fn for_tests(sessions: usize) -> Self {
        let limits = ServiceLimits {
            sessions,
            ..ServiceLimits::default()
        };
        let keys: Vec<_> = ConfiguredKey::new("test", "test").into_iter().collect();
        Self::of_configured(&keys, &limits, UnixMillis(0))
    }
}

#[cfg(test)]
mod tests;
