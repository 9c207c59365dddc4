//! From a presented key to the tenant it belongs to.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
};

/// The keys that are let in, as keyed digests of 128 bits: the secrets themselves are not kept.
///
/// A presented key is hashed with SipHash under keys that only this process knows, and the digest
/// is looked up. How long that takes depends on the digest alone, which nobody outside can steer,
/// so the time tells nothing about a secret. (keccak256 would do as well, at a tenth of the CPU
/// that a whole request takes.)
pub struct Keys {
    /// std's SipHash twice, each with keys of its own.
    hashers: [RandomState; 2],
    tenants: Vec<String>,
    by_digest: HashMap<[u64; 2], TenantId>,
}

/// A tenant: whoever holds one or several keys under one name. An index into the tenants in the
/// order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(u32);

impl TenantId {
    /// Position among the tenants, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Keys {
    /// Keys from (tenant name, secret) pairs. Pairs of one name are one tenant, so that a key can
    /// be replaced without a gap: both are valid until the old one is taken out.
    pub fn new<N, S>(keys: impl IntoIterator<Item = (N, S)>) -> Self
    where
        N: Into<String>,
        S: AsRef<str>,
    {
        let mut this = Self {
            hashers: [RandomState::new(), RandomState::new()],
            tenants: Vec::new(),
            by_digest: HashMap::new(),
        };
        for (name, secret) in keys {
            let tenant = this.tenant(name.into());
            let digest = this.digest(secret.as_ref());
            this.by_digest.insert(digest, tenant);
        }
        this
    }

    /// The tenant that `presented` belongs to; `None` for a key that is unknown or was taken out,
    /// without a difference.
    #[must_use]
    pub fn check(&self, presented: &str) -> Option<TenantId> {
        self.by_digest.get(&self.digest(presented)).copied()
    }

    /// The name of a tenant, for logs and metrics.
    #[must_use]
    pub fn tenant_name(&self, tenant: TenantId) -> &str {
        self.tenants.get(tenant.index()).map_or("", String::as_str)
    }

    /// Number of tenants.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.tenants.len()
    }

    fn tenant(&mut self, name: String) -> TenantId {
        let known = self.tenants.iter().position(|held| *held == name);
        let index = known.unwrap_or_else(|| {
            self.tenants.push(name);
            self.tenants.len() - 1
        });
        TenantId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn digest(&self, secret: &str) -> [u64; 2] {
        self.hashers
            .each_ref()
            .map(|hasher| hasher.hash_one(secret))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("tenants", &self.tenants)
            .field("keys", &self.by_digest.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_tenants_apart_and_lets_nobody_else_in() {
        let keys = Keys::new([("alice", "a1"), ("bob", "b1"), ("alice", "a2")]);
        let tenant = |key: &str| keys.check(key).map(|id| keys.tenant_name(id).to_owned());
        for (presented, expected) in [
            ("a1", Some("alice")),
            ("a2", Some("alice")),
            ("b1", Some("bob")),
            ("A1", None),
            ("a", None),
            ("a11", None),
            ("", None),
            ("alice", None),
            ("alice=a1", None),
        ] {
            assert_eq!(tenant(presented).as_deref(), expected, "{presented:?}");
        }
        assert_eq!(keys.tenants(), 2);
        assert_eq!(
            keys.check("a1"),
            keys.check("a2"),
            "one tenant holds both keys"
        );
        assert_ne!(keys.check("a1"), keys.check("b1"));
    }

    #[test]
    fn no_key_lets_nobody_in() {
        let keys = Keys::new(Vec::<(String, String)>::new());
        assert_eq!(keys.check(""), None);
        assert_eq!(keys.check("dev"), None);
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = Keys::new([("alice", "swordfish")]);
        let shown = format!("{keys:?}");
        assert!(shown.contains("alice"), "{shown}");
        assert!(!shown.contains("swordfish"), "{shown}");
    }

    #[test]
    fn two_processes_digest_differently() {
        let keys = [(); 2].map(|()| Keys::new([("alice", "a1")]));
        let [one, other] = keys.each_ref().map(|keys| keys.digest("a1"));
        assert_ne!(one, other);
        assert_ne!(one[0], one[1]);
    }
}
