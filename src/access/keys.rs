//! Look-up by secrets, of which only digests are kept.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
};

/// A map from secrets to values that holds keyed digests of 128 bits in place of the secrets.
///
/// A presented key is hashed with SipHash under keys that only this process knows, and the digest
/// is looked up. How long that takes depends on the digest alone, which a client cannot steer, so
/// the time reveals nothing about a secret. keccak256 would do as well, but it takes a tenth of the
/// CPU of a whole request.
pub(super) struct Keys<T> {
    /// std's SipHash twice, each under keys of its own.
    hashers: [RandomState; 2],
    by_digest: HashMap<[u64; 2], T>,
}

impl<T> Keys<T> {
    /// An empty map.
    pub(super) fn new() -> Self {
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            by_digest: HashMap::new(),
        }
    }

    /// Adds a key, or replaces the value of a known one.
    pub(super) fn insert(&mut self, secret: &str, value: T) {
        self.by_digest.insert(self.digest(secret), value);
    }

    /// The value of the key that a client presents; `None` if there is no such key.
    pub(super) fn get(&self, presented: &str) -> Option<&T> {
        self.by_digest.get(&self.digest(presented))
    }

    fn digest(&self, secret: &str) -> [u64; 2] {
        self.hashers
            .each_ref()
            .map(|hasher| hasher.hash_one(secret))
    }
}

impl<T> fmt::Debug for Keys<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("count", &self.by_digest.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_map_hashes_under_keys_of_its_own() {
        let [one, other] = [Keys::<()>::new(), Keys::new()].map(|keys| keys.digest("a1"));
        assert_ne!(one, other);
        assert_ne!(one[0], one[1]);
    }
}
