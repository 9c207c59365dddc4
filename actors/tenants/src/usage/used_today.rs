use std::collections::HashMap;

use crate::{
    id::{KeyId, TenantId},
    usage::query::KeyOwner,
};

/// Units that were used since 00:00 UTC, by those whose quotas they count for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedToday {
    tenants: HashMap<TenantId, u64>,
    /// By the first key of a chain of rotations.
    chains: HashMap<KeyId, u64>,
}

impl UsedToday {
    /// Adds what a key used, for its tenant and for its chain.
    pub fn add(&mut self, key: KeyId, owner: Option<KeyOwner>, units: u64) {
        if let Some(owner) = owner {
            self.add_to_tenant(owner.tenant, units);
        }
        let chain = owner.and_then(|owner| owner.chain);
        self.add_to_chain(chain.unwrap_or(key), units);
    }

    /// Adds what a key of a tenant used.
    pub fn add_to_tenant(&mut self, tenant: TenantId, units: u64) {
        let used = self.tenants.entry(tenant).or_default();
        *used = used.saturating_add(units);
    }

    /// Adds what a key used whose chain begins with `first`.
    pub fn add_to_chain(&mut self, first: KeyId, units: u64) {
        let used = self.chains.entry(first).or_default();
        *used = used.saturating_add(units);
    }

    /// What all keys of a tenant used, also those that were removed.
    #[must_use]
    pub fn by_tenant(&self, id: TenantId) -> u64 {
        self.tenants.get(&id).copied().unwrap_or(0)
    }

    /// What all keys of a chain used, also those that were removed.
    #[must_use]
    pub fn by_chain(&self, first: KeyId) -> u64 {
        self.chains.get(&first).copied().unwrap_or(0)
    }
}
