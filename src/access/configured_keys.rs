//! All keys that the configuration names, found by what identifies them.

use std::collections::HashMap;

use nearhead_tenants::{
    id::{KeyId, TenantId},
    name::Name,
    secret::SecretDigest,
};

use super::configured::ConfiguredKey;

/// All keys that the configuration names. Of two with the same secret, the last one counts.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredKeys {
    keys: HashMap<KeyId, ConfiguredKey>,
    by_digest: HashMap<SecretDigest, KeyId>,
    tenants: HashMap<Name, ConfiguredTenant>,
    /// By the ids that they have unless they are stored.
    tenant_names: HashMap<TenantId, Name>,
}

/// A tenant that the configuration names.
#[derive(Clone, Debug)]
pub(super) struct ConfiguredTenant {
    /// Its id unless it is stored.
    pub(super) id: TenantId,
    pub(super) keys: Vec<KeyId>,
}

impl FromIterator<ConfiguredKey> for ConfiguredKeys {
    fn from_iter<T: IntoIterator<Item = ConfiguredKey>>(keys: T) -> Self {
        let mut this = Self::default();
        for key in keys {
            this.by_digest.insert(key.digest, key.id);
            this.keys.insert(key.id, key);
        }
        for (id, key) in &this.keys {
            let tenant = this.tenants.entry(key.tenant.clone());
            let tenant = tenant.or_insert_with(|| ConfiguredTenant {
                id: TenantId::of_configured(key.tenant.as_str()),
                keys: Vec::new(),
            });
            tenant.keys.push(*id);
            this.tenant_names.insert(tenant.id, key.tenant.clone());
        }
        this
    }
}

impl ConfiguredKeys {
    pub(super) fn key(&self, id: KeyId) -> Option<&ConfiguredKey> {
        self.keys.get(&id)
    }

    /// The key with this digest.
    pub(super) fn id_of(&self, digest: &SecretDigest) -> Option<KeyId> {
        self.by_digest.get(digest).copied()
    }

    /// The tenant with this name.
    pub(super) fn tenant(&self, name: &str) -> Option<&ConfiguredTenant> {
        self.tenants.get(name)
    }

    /// The name of the tenant that has this id unless it is stored.
    pub(super) fn tenant_name(&self, id: TenantId) -> Option<&Name> {
        self.tenant_names.get(&id)
    }

    /// All keys, in no particular order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConfiguredKey> {
        self.keys.values()
    }

    /// The ids that their tenants have unless they are stored, in no particular order.
    pub(super) fn tenant_ids(&self) -> impl Iterator<Item = TenantId> {
        self.tenant_names.keys().copied()
    }
}
