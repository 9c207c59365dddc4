use super::configured_entries::ConfiguredEntries;
use crate::{
    directory::Directory,
    id::{KeyId, TenantId},
    name::Name,
    usage::{KeyOwner, KeyUse},
};

/// Looks up for whom the usage of a key counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners<'a> {
    pub(super) directory: &'a Directory,
    pub(super) configured: &'a ConfiguredEntries,
}

impl Owners<'_> {
    /// The owner of a key; `None` if it is neither stored nor configured.
    pub(super) fn of(self, key: KeyId) -> Option<KeyOwner> {
        if let Some(key) = self.directory.key(key) {
            return Some(KeyOwner {
                tenant: key.tenant,
                chain: key.chain,
            });
        }
        Some(KeyOwner {
            tenant: self.tenant_named(&self.configured.key(key)?.tenant),
            chain: None,
        })
    }

    /// The same for a key that was used, and perhaps removed since.
    pub(super) fn of_used(self, used: &KeyUse) -> Option<KeyOwner> {
        self.of(used.key).or(used.owner)
    }

    /// The id of the tenant with a name that the configuration has.
    pub(super) fn tenant_named(self, name: &Name) -> TenantId {
        let stored = self.directory.tenant_named(name.as_str());
        stored.map_or_else(
            || TenantId::of_configured(name.as_str()),
            |tenant| tenant.id,
        )
    }
}
