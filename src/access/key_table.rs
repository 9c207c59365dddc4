//! All tenants and keys that are in force at one time.

use std::{fmt, sync::Arc};

use nearhead_tenants::{
    id::{KeyId, TenantId},
    record::TenantRecord,
};

use super::{
    active_key::ActiveKey,
    digests::Digests,
    shards::{FoundBy, Shards},
    tenant::{ServiceLimits, Tenant},
};

/// An immutable table of tenants and keys; cloning shares it.
#[derive(Clone, Default)]
pub(super) struct KeyTable {
    /// How often it was changed.
    pub(super) version: u64,
    pub(super) by_digest: Digests<Arc<ActiveKey>>,
    pub(super) by_id: Shards<KeyId, Arc<ActiveKey>>,
    pub(super) tenants: Shards<TenantId, Arc<TenantEntry>>,
}

/// A tenant, and what it was made of.
pub(super) struct TenantEntry {
    pub(super) tenant: Arc<Tenant>,
    /// `None` if only the configuration names it.
    pub(super) record: Option<Arc<TenantRecord>>,
    pub(super) service: ServiceLimits,
}

impl FoundBy<TenantId> for TenantEntry {
    fn id(&self) -> &TenantId {
        &self.tenant.id
    }
}

impl fmt::Debug for KeyTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenants = self.tenants.iter().map(|entry| &entry.tenant.name);
        f.debug_struct("KeyTable")
            .field("version", &self.version)
            .field("keys", &self.by_id.len())
            .field("tenants", &tenants.collect::<Vec<_>>())
            .finish()
    }
}
