//! All tenants and keys in force, behind one pointer that is swapped when they change.

use std::{collections::HashMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use nearhead_tenants::{
    UnixMillis,
    directory::Directory,
    id::{KeyId, TenantId},
    limits::TenantLimits,
    record::{KeyRecord, KeyState, TenantRecord},
};

use super::{
    active_key::ActiveKey,
    configured::ConfiguredKey,
    digests::Digests,
    local_only::LocalOnly,
    tenant::{ServiceLimits, Tenant, TenantSpec},
};

/// The tenants and keys of a service; cloning shares them.
///
/// A reader takes one pointer and no lock. A writer swaps the whole table.
#[derive(Clone, Debug)]
pub struct Access(Arc<ArcSwap<AccessTable>>);

/// Everything that a table is made of.
#[derive(Clone, Copy, Debug)]
pub struct AccessSource<'a> {
    /// What is stored.
    pub directory: &'a Directory,
    /// What the configuration names.
    pub configured: &'a [ConfiguredKey],
    /// What every tenant may do.
    pub limits: &'a ServiceLimits,
    /// Units that keys have used today, as far as is known from before this process.
    pub used_today: &'a HashMap<KeyId, u64>,
    /// The time.
    pub now: UnixMillis,
}

impl Access {
    /// The tenants and keys of a source.
    #[must_use]
    pub fn new(source: AccessSource<'_>) -> Self {
        let table = AccessTable::new(source, &AccessTable::default());
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
            configured,
            limits,
            used_today: &HashMap::new(),
            now,
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
        let key = table.by_digest.get(presented)?;
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
        let mut keys = table.by_id.values();
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
        table
            .tenants
            .values()
            .for_each(|entry| visit(&entry.tenant));
    }

    /// How often the table was replaced: what was resolved under another version may have changed.
    #[must_use]
    pub(crate) fn version(&self) -> u64 {
        self.0.load().version
    }

    /// Replaces all tenants, keys and limits at once. Those that stay keep their counters.
    ///
    /// Calls must not overlap: the counters of tenants that one of them adds would be lost.
    pub fn replace(&self, source: AccessSource<'_>) {
        let table = AccessTable::new(source, &self.0.load());
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

/// An immutable table of tenants and keys.
#[derive(Default)]
struct AccessTable {
    version: u64,
    by_digest: Digests<Arc<ActiveKey>>,
    by_id: HashMap<KeyId, Arc<ActiveKey>>,
    tenants: HashMap<TenantId, Arc<TenantEntry>>,
}

/// A tenant, and what it was made of.
struct TenantEntry {
    tenant: Arc<Tenant>,
    /// `None` if only the configuration names it.
    record: Option<Arc<TenantRecord>>,
    service: ServiceLimits,
}

impl fmt::Debug for AccessTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenants = self.tenants.values().map(|entry| &entry.tenant.name);
        f.debug_struct("AccessTable")
            .field("version", &self.version)
            .field("keys", &self.by_id.len())
            .field("tenants", &tenants.collect::<Vec<_>>())
            .finish()
    }
}

impl AccessTable {
    /// A table that keeps the counters of the tenants and keys that are in `before` too, and what
    /// did not change as it is.
    fn new(source: AccessSource<'_>, before: &Self) -> Self {
        let AccessSource {
            directory,
            configured,
            ..
        } = source;
        let keys = directory.keys().len() + configured.len();
        let mut this = Self {
            version: before.version + 1,
            by_digest: Digests::with_capacity(keys),
            by_id: HashMap::with_capacity(keys),
            tenants: HashMap::with_capacity(directory.tenants().len()),
        };
        let mut used_by_tenant: HashMap<TenantId, u64> = HashMap::new();
        if !source.used_today.is_empty() {
            for key in directory.keys() {
                if let Some(used) = source.used_today.get(&key.id) {
                    *used_by_tenant.entry(key.tenant).or_default() += used;
                }
            }
        }
        for record in directory.tenants() {
            let used_today = used_by_tenant.get(&record.id).copied().unwrap_or(0);
            this.add_tenant(source, record, used_today, before);
        }
        for record in directory.keys() {
            // A directory has no key without its tenant.
            if let Some(entry) = this.tenants.get(&record.tenant) {
                let tenant = Arc::clone(&entry.tenant);
                this.add_key(source, (Arc::clone(record), None), tenant, before);
            }
        }
        // What the configuration names comes last: where a key is stored as well, it wins.
        for key in configured {
            let tenant = this.configured_tenant(source, key, before);
            let record = key.record(tenant.id);
            let key = (record, key.local_only.clone());
            this.add_key(source, key, tenant, before);
        }
        this
    }

    fn add_tenant(
        &mut self,
        source: AccessSource<'_>,
        record: &Arc<TenantRecord>,
        used_today: u64,
        before: &Self,
    ) {
        let known = before.tenants.get(&record.id);
        let same = known.filter(|entry| {
            entry.service == *source.limits
                && entry
                    .record
                    .as_ref()
                    .is_some_and(|before| Arc::ptr_eq(before, record))
        });
        let entry = match same {
            Some(entry) => Arc::clone(entry),
            None => {
                let spec = TenantSpec {
                    id: record.id,
                    name: record.name.as_str(),
                    limits: &record.limits,
                    service: source.limits,
                    used_today,
                };
                let known = known.map(|entry| &*entry.tenant);
                Arc::new(TenantEntry {
                    tenant: Arc::new(Tenant::new(spec, known, source.now)),
                    record: Some(Arc::clone(record)),
                    service: *source.limits,
                })
            }
        };
        self.tenants.insert(record.id, entry);
    }

    /// The tenant of a key that the configuration names.
    fn configured_tenant(
        &mut self,
        source: AccessSource<'_>,
        key: &ConfiguredKey,
        before: &Self,
    ) -> Arc<Tenant> {
        let name = key.tenant.as_str();
        let stored = source.directory.tenant_named(name).map(|record| record.id);
        let id = stored.unwrap_or_else(|| TenantId::of_configured(name));
        if let Some(entry) = self.tenants.get(&id) {
            return Arc::clone(&entry.tenant);
        }
        let known = before.tenants.get(&id);
        let same = known.filter(|entry| entry.service == *source.limits && entry.record.is_none());
        let entry = match same {
            Some(entry) => Arc::clone(entry),
            None => {
                let spec = TenantSpec {
                    id,
                    name,
                    limits: &TenantLimits::default(),
                    service: source.limits,
                    used_today: 0,
                };
                let known = known.map(|entry| &*entry.tenant);
                Arc::new(TenantEntry {
                    tenant: Arc::new(Tenant::new(spec, known, source.now)),
                    record: None,
                    service: *source.limits,
                })
            }
        };
        let tenant = Arc::clone(&entry.tenant);
        self.tenants.insert(id, entry);
        tenant
    }

    fn add_key(
        &mut self,
        source: AccessSource<'_>,
        (record, local_only): (Arc<KeyRecord>, Option<LocalOnly>),
        tenant: Arc<Tenant>,
        before: &Self,
    ) {
        let known = before.by_id.get(&record.id);
        let same = known.filter(|key| {
            Arc::ptr_eq(&key.tenant, &tenant)
                && key.local_only == local_only
                && (Arc::ptr_eq(&key.record, &record) || key.record == record)
        });
        let (id, digest) = (record.id, record.digest);
        let key = match same {
            Some(key) => Arc::clone(key),
            None => {
                let used_today = source.used_today.get(&id).copied().unwrap_or(0);
                let known = known.map(Arc::as_ref);
                let key = ActiveKey::new(record, tenant, known, used_today, source.now);
                Arc::new(key.with_local_only(local_only))
            }
        };
        self.by_digest.insert(digest, Arc::clone(&key));
        self.by_id.insert(id, key);
    }
}

#[cfg(test)]
mod tests;
