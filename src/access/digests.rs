//! The look-up by digests of secrets.

use std::collections::HashMap;

use nearhead_tenants::secret::SecretDigest;

/// A map from digests to values.
///
/// How long a look-up takes depends on the digest alone, which a client cannot steer: SHA-256 of
/// what it presents is either a known digest or one that shares nothing with any, however much of a
/// key it has guessed. So the time reveals nothing about a secret.
#[derive(Clone, Debug)]
pub(super) struct Digests<T>(HashMap<SecretDigest, T>);

impl<T> Default for Digests<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Digests<T> {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(HashMap::with_capacity(capacity))
    }

    /// Adds a value, or replaces that of a known digest.
    pub(super) fn insert(&mut self, digest: SecretDigest, value: T) {
        self.0.insert(digest, value);
    }

    /// The value of what a client presents; `None` if it is unknown.
    pub(super) fn get(&self, presented: &str) -> Option<&T> {
        self.0.get(&SecretDigest::of(presented))
    }
}
