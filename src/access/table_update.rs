//! How a table of tenants and keys follows a change.

use std::{collections::HashMap, sync::Arc};

use nearhead_actors::fleet::quotas::LoanDesk;
use nearhead_tenants::{
    UnixMillis,
    directory::{ChangedRecords, Directory},
    id::{KeyId, TenantId},
    limits::{Quota, TenantLimits},
    record::{KeyRecord, TenantRecord},
    secret::SecretDigest,
    usage::UsedToday,
};

use super::{
    active_key::ActiveKey,
    bucket::{MeterParts, QuotaOwner},
    configured::ConfiguredKey,
    configured_keys::{ConfiguredKeys, ConfiguredTenant},
    key_table::{KeyTable, TenantEntry},
    local_only::LocalOnly,
    meter::Meter,
    tenant::{ServiceLimits, Tenant, TenantSpec},
};

/// Everything that a table is made of.
#[derive(Clone, Copy, Debug)]
pub struct AccessSource<'a> {
    /// What is stored.
    pub directory: &'a Directory,
    /// What the configuration names.
    pub configured: &'a ConfiguredKeys,
    /// What every tenant may do.
    pub limits: &'a ServiceLimits,
    /// Units that were used today, as far as is known from before this process. They count for
    /// those that had no quota yet.
    pub used_today: &'a UsedToday,
    /// The time.
    pub now: UnixMillis,
    /// Where the fleet's quotas wait for what the store lends; `None` without a fleet.
    pub desk: Option<&'a LoanDesk>,
}

impl<'a> AccessSource<'a> {
    /// The id of the tenant that a configured key names.
    fn tenant_of(self, key: &ConfiguredKey) -> TenantId {
        let name = key.tenant.as_str();
        let stored = self.directory.tenant_named(name);
        stored.map_or_else(|| TenantId::of_configured(name), |record| record.id)
    }

    /// The name of a tenant that only the configuration names.
    fn configured_name(self, id: TenantId) -> Option<&'a str> {
        let name = self.configured.tenant_name(id)?.as_str();
        let is_stored = self.directory.tenant_named(name).is_some();
        (!is_stored).then_some(name)
    }

    /// The keys of a tenant: those that are stored, and those that the configuration names.
    fn keys_of(self, id: TenantId) -> impl Iterator<Item = KeyId> {
        let stored = self.directory.tenant(id);
        let names = [
            stored.map(|record| record.name.as_str()),
            self.configured_name(id),
        ];
        let configured = self.configured;
        let tenants = names
            .into_iter()
            .flatten()
            .filter_map(move |name| configured.tenant(name));
        let of_configured = tenants.flat_map(|tenant| &tenant.keys).copied();
        self.directory.keys_of(id).chain(of_configured)
    }
}

/// What has to be looked at again. An id may be in it twice.
#[derive(Default)]
struct Affected {
    tenants: Vec<TenantId>,
    keys: Vec<KeyId>,
}

impl Affected {
    /// All that is in the table, or should be.
    fn all(table: &KeyTable, source: AccessSource<'_>) -> Self {
        let AccessSource {
            directory,
            configured,
            ..
        } = source;
        let in_table = table.tenants.iter().map(|entry| entry.tenant.id);
        let stored = directory.tenants().map(|record| record.id);
        let tenants = in_table.chain(stored).chain(configured.tenant_ids());
        let in_table = table.by_id.iter().map(|key| key.record.id);
        let stored = directory.keys().map(|record| record.id);
        let keys = in_table
            .chain(stored)
            .chain(configured.keys().map(|key| key.id));
        Self {
            tenants: tenants.collect(),
            keys: keys.collect(),
        }
    }

    /// What these records concern. A configured key changes its tenant when a stored tenant takes
    /// or loses the name that the key has.
    fn by(changed: &ChangedRecords, table: &KeyTable, source: AccessSource<'_>) -> Self {
        let mut this = Self {
            tenants: changed.tenants.iter().copied().collect(),
            keys: changed.keys.iter().copied().collect(),
        };
        for id in &changed.tenants {
            let before = table.tenants.get(id).map(|entry| &*entry.tenant.name);
            let after = source.directory.tenant(*id);
            let after = after.map(|record| record.name.as_str());
            let named = [before, after].into_iter().flatten();
            for ConfiguredTenant { id, keys } in
                named.filter_map(|name| source.configured.tenant(name))
            {
                this.tenants.push(*id);
                this.keys.extend(keys);
            }
        }
        this
    }
}

/// A table that is being changed.
pub(super) struct TableUpdate<'a> {
    table: KeyTable,
    source: AccessSource<'a>,
    /// The meters that keys of a chain got in this update, by the first key of the chain.
    chains: HashMap<KeyId, Arc<Meter>>,
}

impl<'a> TableUpdate<'a> {
    /// The table of everything that `source` has. What is in `before` too, and is the same, stays
    /// as it is.
    pub(super) fn all(before: &KeyTable, source: AccessSource<'a>) -> KeyTable {
        Self::run(before, source, Affected::all(before, source))
    }

    /// The same if nothing but `changed` differs from what `before` was made of.
    pub(super) fn of(
        before: &KeyTable,
        source: AccessSource<'a>,
        changed: &ChangedRecords,
    ) -> KeyTable {
        Self::run(before, source, Affected::by(changed, before, source))
    }

    fn run(before: &KeyTable, source: AccessSource<'a>, affected: Affected) -> KeyTable {
        let Affected {
            mut tenants,
            mut keys,
        } = affected;
        let mut this = Self {
            table: before.clone(),
            source,
            chains: HashMap::new(),
        };
        this.table.version += 1;
        // Tenants first: their keys point to them.
        tenants.sort_unstable();
        tenants.dedup();
        for id in tenants {
            if this.update_tenant(id) {
                keys.extend(source.keys_of(id));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for id in keys {
            this.update_key(id);
        }
        this.table
    }

    /// Makes a tenant what it should be; returns whether it was something else.
    fn update_tenant(&mut self, id: TenantId) -> bool {
        let (source, known) = (self.source, self.table.tenants.get(&id));
        let record = source.directory.tenant(id);
        let name = match record {
            Some(record) => record.name.as_str(),
            None => match source.configured_name(id) {
                Some(name) => name,
                None => {
                    let was_there = known.is_some();
                    self.table.tenants.remove(&id);
                    return was_there;
                }
            },
        };
        if known.is_some_and(|entry| {
            entry.service == *source.limits && is_same(entry.record.as_ref(), record)
        }) {
            return false;
        }
        let no_limits = TenantLimits::default();
        let spec = TenantSpec {
            id,
            name,
            limits: record.map_or(&no_limits, |record| &record.limits),
            service: source.limits,
            used_today: source.used_today.by_tenant(id),
            desk: source.desk,
        };
        let known = known.map(|entry| &*entry.tenant);
        let entry = TenantEntry {
            tenant: Arc::new(Tenant::new(spec, known, source.now)),
            record: record.cloned(),
            service: *source.limits,
        };
        self.table.tenants.insert(Arc::new(entry));
        true
    }

    /// Makes a key what it should be. What the configuration names wins.
    fn update_key(&mut self, id: KeyId) {
        let source = self.source;
        if let Some(key) = source.configured.key(id) {
            let record = key.record(source.tenant_of(key));
            self.put_key(record, key.local_only.clone());
        } else if let Some(record) = source.directory.key(id) {
            self.put_key(Arc::clone(record), None);
        } else {
            self.remove_key(id);
        }
    }

    /// Adds a key, or replaces the one with its id unless that is the same.
    fn put_key(&mut self, record: Arc<KeyRecord>, local_only: Option<LocalOnly>) {
        let (id, digest) = (record.id, record.digest);
        // No key is without its tenant, which was updated before.
        let Some(entry) = self.table.tenants.get(&record.tenant) else {
            return self.remove_key(id);
        };
        let tenant = Arc::clone(&entry.tenant);
        let known = self.table.by_id.get(&id);
        if known.is_some_and(|key| key.is_made_of(&record, &tenant, local_only.as_ref())) {
            return;
        }
        let before = (known.map(Arc::as_ref), self.meter_of(&record));
        let parts = MeterParts {
            owner: QuotaOwner::Chain(record.chain()),
            used_today: self.source.used_today.by_chain(record.chain()),
            now: self.source.now,
            desk: self.source.desk,
        };
        let chain = record.is_in_chain().then(|| record.chain());
        let is_revoked = record.revoked.is_some();
        let key = Arc::new(ActiveKey::new(record, tenant, local_only, before, parts));
        if let (Some(chain), false, Some(meter)) = (chain, is_revoked, key.meter()) {
            self.chains.insert(chain, Arc::clone(meter));
        }
        let winner = self.source.configured.id_of(&digest);
        if winner.is_none_or(|winner| winner == id) {
            self.table.by_digest.insert(Arc::clone(&key));
        }
        self.table.by_id.insert(key);
    }

    /// The meter that a key goes on with. The keys of a chain share one, because they have one
    /// quota: so does one that is new, or that gets another quota after the others.
    fn meter_of(&self, record: &KeyRecord) -> Option<&Arc<Meter>> {
        let quota = record.settings.quota;
        if quota == Quota::default() {
            return None;
        }
        let meter = |id| self.table.by_id.get(&id)?.meter();
        let has_quota = |meter: &&Arc<Meter>| *meter.quota() == quota;
        let own = meter(record.id);
        if own.is_some_and(|own| has_quota(&own)) || record.revoked.is_some() {
            return own;
        }
        // A chain may have a thousand keys, of which the first one has looked at all.
        if let Some(of_chain) = self.chains.get(&record.chain()).filter(has_quota) {
            return Some(of_chain);
        }
        let chain = || self.source.directory.chain(record.chain());
        let of_replaced = || {
            let replaced = chain().find(|other| other.replaced_by == Some(record.id))?;
            meter(replaced.id)
        };
        let found = own.or_else(of_replaced);
        // A key that was revoked does not follow its chain any more.
        let chain = chain().filter(|other| other.revoked.is_none());
        let mut of_chain = chain.filter_map(|other| meter(other.id));
        let first = found.or_else(|| of_chain.next());
        let all = first.into_iter().chain(of_chain);
        let mut same = all.filter(has_quota);
        same.next().or(first)
    }

    fn remove_key(&mut self, id: KeyId) {
        let Some(known) = self.table.by_id.get(&id) else {
            return;
        };
        let digest = known.record.digest;
        self.table.by_id.remove(&id);
        let by_digest = self.table.by_digest.get(&digest);
        if by_digest.is_some_and(|key| key.record.id == id) {
            self.table.by_digest.remove(&digest);
            self.restore(&digest);
        }
    }

    /// Lets in the stored key that has the digest of a configured key which is gone.
    fn restore(&mut self, digest: &SecretDigest) {
        let stored = self.source.directory.key_with(digest);
        if let Some(key) = stored.and_then(|record| self.table.by_id.get(&record.id)) {
            self.table.by_digest.insert(Arc::clone(key));
        }
    }
}

fn is_same(before: Option<&Arc<TenantRecord>>, after: Option<&Arc<TenantRecord>>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after) || before == after,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
