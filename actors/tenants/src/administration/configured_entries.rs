use std::collections::HashMap;

use crate::{
    id::{KeyId, TenantId},
    name::Name,
    secret::KeyPrefix,
};

/// A key that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredEntry {
    /// Its tenant's name.
    pub tenant: Name,
    /// Identifies it in public.
    pub id: KeyId,
    /// Its first characters.
    pub prefix: KeyPrefix,
}

/// All keys that the configuration names.
#[derive(Debug, Default)]
pub(super) struct ConfiguredEntries {
    keys: HashMap<KeyId, ConfiguredEntry>,
    /// The ids that their tenants have unless they are stored.
    tenant_ids: HashMap<Name, TenantId>,
    tenant_names: HashMap<TenantId, Name>,
}

impl ConfiguredEntries {
    pub(super) fn new(entries: Vec<ConfiguredEntry>) -> Self {
        let mut this = Self::default();
        for entry in entries {
            let id = TenantId::of_configured(entry.tenant.as_str());
            this.tenant_ids.insert(entry.tenant.clone(), id);
            this.tenant_names.insert(id, entry.tenant.clone());
            this.keys.insert(entry.id, entry);
        }
        this
    }

    pub(super) fn key(&self, id: KeyId) -> Option<&ConfiguredEntry> {
        self.keys.get(&id)
    }

    /// All keys, in no particular order.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &ConfiguredEntry> {
        self.keys.values()
    }

    /// The keys of the tenant with this name, in no particular order.
    pub(super) fn keys_of(&self, tenant: &Name) -> impl Iterator<Item = &ConfiguredEntry> {
        let keys = self.tenant_ids.contains_key(tenant).then(|| self.keys());
        keys.into_iter()
            .flatten()
            .filter(move |entry| entry.tenant == *tenant)
    }

    /// The names of their tenants, in no particular order.
    pub(super) fn tenants(&self) -> impl Iterator<Item = &Name> {
        self.tenant_ids.keys()
    }

    /// The id of the tenant with this name, unless it is stored.
    pub(super) fn tenant_id(&self, name: &Name) -> TenantId {
        let known = self.tenant_ids.get(name).copied();
        known.unwrap_or_else(|| TenantId::of_configured(name.as_str()))
    }

    /// The name of the tenant with this id.
    pub(super) fn tenant_name(&self, id: TenantId) -> Option<&Name> {
        self.tenant_names.get(&id)
    }
}
