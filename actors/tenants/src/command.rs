//! What administrators do to tenants and keys.
//!
//! A command has everything that is random or secret in it already, as an id or a digest, so that
//! to apply it gives the same result everywhere.

use std::sync::Arc;

use crate::{
    UnixMillis, UtcTime,
    id::{KeyId, TenantId},
    limits::TenantLimits,
    name::Name,
    public_key::InvalidPublicKey,
    record::{KeyRecord, KeySettings, TenantRecord},
    secret::{KeyPrefix, SecretDigest},
};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes a tenant.
    CreateTenant {
        /// Its id.
        id: TenantId,
        /// Its name.
        name: Name,
        /// What it may do.
        limits: TenantLimits,
    },
    /// Changes a tenant.
    UpdateTenant {
        /// Which one.
        id: TenantId,
        /// Its new name.
        name: Name,
        /// What it may do from now on.
        limits: TenantLimits,
    },
    /// Removes a tenant with all its keys.
    RemoveTenant {
        /// Which one.
        id: TenantId,
    },
    /// Makes a key.
    CreateKey {
        /// The key itself.
        key: NewKey,
        /// The tenant that gets it.
        tenant: TenantId,
        /// Its name.
        name: Name,
        /// When it ends.
        expires: Option<UnixMillis>,
        /// What it is narrowed to.
        settings: KeySettings,
    },
    /// Changes a key.
    UpdateKey {
        /// Which one.
        id: KeyId,
        /// Its new name.
        name: Name,
        /// When it ends.
        expires: Option<UnixMillis>,
        /// What it is narrowed to from now on.
        settings: KeySettings,
    },
    /// Makes a key with the name and the settings of another one, which ends at a given time.
    RotateKey {
        /// The key whose place is taken.
        id: KeyId,
        /// The key itself.
        key: NewKey,
        /// When the old one ends, unless it ends before.
        old_expires: UnixMillis,
    },
    /// Revokes a key, for good.
    RevokeKey {
        /// Which one.
        id: KeyId,
    },
    /// Removes an expired or revoked key.
    RemoveKey {
        /// Which one.
        id: KeyId,
    },
}

/// What identifies a new key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Its id.
    pub id: KeyId,
    /// Its first characters.
    pub prefix: KeyPrefix,
    /// The digest of what clients present.
    pub digest: SecretDigest,
}

/// One record that a command changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A tenant is new, or was changed.
    Tenant(Arc<TenantRecord>),
    /// A key is new, or was changed.
    Key(Arc<KeyRecord>),
    /// A tenant is gone, and all its keys with it.
    TenantRemoved(TenantId),
    /// A key is gone.
    KeyRemoved(KeyId),
}

/// Why a command is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such tenant.
    #[error("there is no tenant {0}")]
    NoTenant(TenantId),
    /// There is no such key.
    #[error("there is no key {0}")]
    NoKey(KeyId),
    /// Another tenant has the name.
    #[error("another tenant has the name {0}")]
    NameTaken(Name),
    /// The key was revoked.
    #[error("the key {0} was revoked, and stays so: create another one")]
    Revoked(KeyId),
    /// The key is over.
    #[error("the key {0} has expired: let it expire later, or create another one")]
    Expired(KeyId),
    /// The key has a successor already.
    #[error("the key {key} was rotated already: rotate its successor {successor}")]
    Rotated {
        /// The key.
        key: KeyId,
        /// The one that took its place.
        successor: KeyId,
    },
    /// Another key of the same chain still lets clients in.
    #[error(
        "the key {other}, of the same chain of rotations, lets clients in {}: rotate {key} after \
         that, or have an administrator revoke {other} first",
        until(*ends)
    )]
    Overlap {
        /// The key.
        key: KeyId,
        /// The other one.
        other: KeyId,
        /// When that one ends.
        ends: Option<UnixMillis>,
    },
    /// The key is not over.
    #[error("the key {0} lets clients in: revoke it before it is removed")]
    Active(KeyId),
    /// The id or the key itself is in use.
    #[error("the key is in use already")]
    KeyTaken,
    /// The id is in use.
    #[error("the tenant's id is in use already")]
    TenantTaken,
    /// There are too many tenants.
    #[error("there are {0} tenants already, and no more are possible")]
    TooManyTenants(usize),
    /// There are too many keys.
    #[error(
        "there are {0} keys already, also expired and revoked ones, and no more are possible: \
         remove some of those, or a tenant"
    )]
    TooManyKeys(usize),
    /// The key has too many public keys.
    #[error("a key has at most {0} public keys")]
    TooManyPublicKeys(usize),
    /// A public key cannot be used.
    #[error("public key {0}: {1}")]
    PublicKey(Name, InvalidPublicKey),
    /// Two public keys have one name.
    #[error("two public keys have the kid {0}: a token could mean either")]
    SameKid(Name),
    /// The key has a secret and public keys.
    #[error("a key has a secret or public keys, not both: a request has one header Authorization")]
    SecretAndPublicKeys,
}

/// Until when a key lets clients in, in a message.
fn until(ends: Option<UnixMillis>) -> String {
    match ends {
        Some(ends) => format!("until {}", UtcTime::from(ends)),
        None => "without an end".to_owned(),
    }
}
