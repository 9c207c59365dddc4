use std::{
    borrow::Borrow,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::{id::KeyId, record::KeyRecord, secret::SecretDigest};

/// A key in a set that is searched by id. The set has no copy of the id, only a pointer.
#[derive(Clone, Debug)]
pub(super) struct ById(pub(super) Arc<KeyRecord>);

/// A key in a set that is searched by digest.
#[derive(Clone, Debug)]
pub(super) struct ByDigest(pub(super) Arc<KeyRecord>);

impl Borrow<KeyId> for ById {
    fn borrow(&self) -> &KeyId {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl Borrow<SecretDigest> for ByDigest {
    fn borrow(&self) -> &SecretDigest {
        &self.0.digest
    }
}

impl PartialEq for ByDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl Eq for ByDigest {}

impl Hash for ByDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}
