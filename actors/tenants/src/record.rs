//! A tenant and a key as they are stored.

use serde::{Deserialize, Serialize};

use crate::{
    UnixMillis,
    allowlists::Allowlists,
    bounds::KEYS_KEPT,
    id::{KeyId, TenantId},
    limits::{Quota, TenantLimits},
    name::Name,
    public_key::PublicKey,
    secret::{KeyPrefix, SecretDigest},
};

/// Who pays and is limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantRecord {
    /// Identifies it.
    pub id: TenantId,
    /// Its name; no other tenant has it.
    pub name: Name,
    /// When it was made.
    pub created: UnixMillis,
    /// What it may do with all its keys together.
    pub limits: TenantLimits,
}

/// What lets a client in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRecord {
    /// Identifies it in public.
    pub id: KeyId,
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// Its name; another key may have the same.
    pub name: Name,
    /// Its first characters, for people.
    pub prefix: KeyPrefix,
    /// The digest of what a client presents.
    pub digest: SecretDigest,
    /// When it was made.
    pub created: UnixMillis,
    /// From when on it lets nobody in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<UnixMillis>,
    /// Since when it has been revoked, for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<UnixMillis>,
    /// The key that took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<KeyId>,
    /// The first key of its chain of rotations; `None` if it is the first one itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<KeyId>,
    /// What is narrower than its tenant.
    #[serde(default)]
    pub settings: KeySettings,
}

/// What can be changed of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct KeySettings {
    /// To what it is narrowed.
    pub allow: Allowlists,
    /// How fast, and how much in a day, within what its tenant may do.
    pub quota: Quota,
    /// The secret that may be presented beside it. Few keys have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Box<BesideSecret>>,
    /// Who may sign tokens for it, each with a `kid` of its own. Without an entry, no token is
    /// asked for. A key has these or a secret: both would stand in one header.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub public_keys: Vec<PublicKey>,
}

/// A secret beside a key, for servers: a key in a path is seen by more eyes than a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BesideSecret {
    /// Its digest.
    pub digest: SecretDigest,
    /// Whether a request without it is refused.
    pub is_required: bool,
    /// Whether a request with it may have any origin and any user agent.
    pub exempts: bool,
}

/// Whether a key lets clients in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyState {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
}

impl KeyRecord {
    /// Its chain of rotations, named by the first key. The keys of a chain share one quota.
    #[must_use]
    pub fn chain(&self) -> KeyId {
        self.chain.unwrap_or(self.id)
    }

    /// Whether other keys are, or were, in its chain.
    #[must_use]
    pub const fn is_in_chain(&self) -> bool {
        self.chain.is_some() || self.replaced_by.is_some()
    }

    /// When it is removed, unless it is changed before; the end of time if it has no end.
    #[must_use]
    pub fn removed_at(&self) -> UnixMillis {
        let end = self.revoked.into_iter().chain(self.expires).min();
        end.map_or(UnixMillis(u64::MAX), |end| end.after(KEYS_KEPT))
    }

    /// Whether it lets clients in at `now`.
    #[must_use]
    pub fn state(&self, now: UnixMillis) -> KeyState {
        if self.revoked.is_some() {
            KeyState::Revoked
        } else if self.expires.is_some_and(|expires| expires <= now) {
            KeyState::Expired
        } else {
            KeyState::Active
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There may be 100,000 keys, so parts that few of them have are behind a pointer.
    #[test]
    fn a_key_is_small() {
        let bytes = size_of::<KeyRecord>();
        assert!(bytes <= 240, "{bytes} bytes");
    }
}
