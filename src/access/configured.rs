//! The keys that the configuration names: of flags, the environment and files. They are stored
//! nowhere, and change only where they are written.

use std::sync::Arc;

use nearhead_tenants::{
    UnixMillis,
    administration::ConfiguredEntry,
    id::{KeyId, TenantId},
    name::{InvalidName, Name},
    record::{KeyRecord, KeySettings},
    secret::{KeyPrefix, SecretDigest},
};

use super::local_only::LocalOnly;

/// A key of the configuration, without the secret itself.
#[derive(Clone, Debug)]
pub struct ConfiguredKey {
    /// The name of its tenant: one that is stored, or else one that only the configuration names.
    pub(super) tenant: Name,
    /// The same key after every start.
    pub(super) id: KeyId,
    prefix: KeyPrefix,
    pub(super) digest: SecretDigest,
    /// Whether it serves this machine alone.
    pub(super) local_only: Option<LocalOnly>,
}

impl ConfiguredKey {
    /// A key of the tenant with this name.
    ///
    /// # Errors
    /// The name is not one.
    pub fn new(tenant: &str, secret: &str) -> Result<Self, InvalidName> {
        let digest = SecretDigest::of(secret);
        Ok(Self {
            tenant: tenant.parse()?,
            // From the digest, so that the id says nothing about a short secret.
            id: KeyId::of_configured(&String::from(digest)),
            prefix: KeyPrefix::of(secret),
            digest,
            local_only: None,
        })
    }

    /// The same key, for this machine alone.
    #[must_use]
    pub fn for_this_machine(self, local_only: LocalOnly) -> Self {
        Self {
            local_only: Some(local_only),
            ..self
        }
    }

    /// The key as lists show it.
    pub(crate) fn entry(&self) -> ConfiguredEntry {
        ConfiguredEntry {
            tenant: self.tenant.clone(),
            id: self.id,
            prefix: self.prefix.clone(),
        }
    }

    /// The key as one that is stored would be, and was always there.
    pub(super) fn record(&self, tenant: TenantId) -> Arc<KeyRecord> {
        Arc::new(KeyRecord {
            id: self.id,
            tenant,
            name: self.tenant.clone(),
            prefix: self.prefix.clone(),
            digest: self.digest,
            created: UnixMillis(0),
            expires: None,
            revoked: None,
            replaced_by: None,
            chain: None,
            settings: KeySettings::default(),
        })
    }
}
