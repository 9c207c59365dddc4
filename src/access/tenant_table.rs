//! All tenants with their keys, behind one pointer that is swapped when they change.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;

use super::{
    keys::Keys,
    tenant::{Tenant, TenantId, TenantLimits},
};

/// A tenant as it is configured. It has no `Debug`, because it holds secrets.
pub struct TenantConfig {
    /// Its name; configurations with the same name are one tenant.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) limits: TenantLimits,
    /// Its keys. With several, one can be replaced without a gap: both are valid until the old one
    /// is removed.
    pub(crate) secrets: Vec<String>,
}

impl TenantConfig {
    /// Tenants with equal limits from (name, secret) pairs; pairs with the same name are one
    /// tenant.
    pub fn from_keys<N, S>(
        keys: impl IntoIterator<Item = (N, S)>,
        limits: TenantLimits,
    ) -> impl Iterator<Item = Self>
    where
        N: Into<String>,
        S: Into<String>,
    {
        keys.into_iter().map(move |(name, secret)| Self {
            name: name.into(),
            limits,
            secrets: vec![secret.into()],
        })
    }
}

/// The tenants of a service; cloning shares them.
///
/// A reader takes one pointer and no lock. A writer swaps the whole table.
#[derive(Clone, Debug)]
pub struct Tenants(Arc<ArcSwap<TenantTable>>);

impl Tenants {
    /// A table of these tenants.
    #[must_use]
    pub fn new(tenants: impl IntoIterator<Item = TenantConfig>) -> Self {
        let table = TenantTable::new(tenants, &TenantTable::default());
        Self(Arc::new(ArcSwap::from_pointee(table)))
    }

    /// The tenant that a presented key belongs to; `None` for a key that is unknown or was removed,
    /// with no difference between the two.
    ///
    /// A request, or a WebSocket session, resolves its key once and keeps the tenant.
    #[must_use]
    pub fn resolve(&self, presented: &str) -> Option<Arc<Tenant>> {
        self.0.load().keys.get(presented).cloned()
    }

    /// Replaces all tenants, keys and limits at once. A tenant of a known name keeps its id, its
    /// open sessions and, if its rate is the same, its bucket.
    ///
    /// Calls must not overlap: the counters of tenants that one of them adds would be lost.
    pub fn replace(&self, tenants: impl IntoIterator<Item = TenantConfig>) {
        let table = TenantTable::new(tenants, &self.0.load());
        self.0.store(Arc::new(table));
    }
}

/// An immutable table of tenants.
#[derive(Debug)]
struct TenantTable {
    keys: Keys<Arc<Tenant>>,
    by_name: HashMap<Box<str>, Arc<Tenant>>,
    /// Id of the next new tenant.
    next_id: u32,
}

impl Default for TenantTable {
    fn default() -> Self {
        Self {
            keys: Keys::new(),
            by_name: HashMap::new(),
            next_id: 0,
        }
    }
}

impl TenantTable {
    /// A table that keeps the counters of the tenants that are in `previous` too.
    fn new(tenants: impl IntoIterator<Item = TenantConfig>, previous: &Self) -> Self {
        let mut this = Self {
            next_id: previous.next_id,
            ..Self::default()
        };
        for config in tenants {
            let tenant = match this.by_name.get(&*config.name) {
                Some(tenant) => Arc::clone(tenant),
                None => this.add(&config, previous),
            };
            for secret in &config.secrets {
                this.keys.insert(secret, Arc::clone(&tenant));
            }
        }
        this
    }

    fn add(&mut self, config: &TenantConfig, previous: &Self) -> Arc<Tenant> {
        let tenant = match previous.by_name.get(&*config.name) {
            Some(known) => known.with_limits(config.limits),
            None => {
                let id = TenantId(self.next_id);
                self.next_id = self.next_id.saturating_add(1);
                Tenant::new(id, &config.name, config.limits)
            }
        };
        let tenant = Arc::new(tenant);
        self.by_name
            .insert(tenant.name.clone(), Arc::clone(&tenant));
        tenant
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        num::NonZeroU32,
        time::{Duration, Instant},
    };

    use super::*;
    use crate::access::{MethodSet, SessionCaps};

    const LIMITS: TenantLimits = TenantLimits {
        methods: MethodSet::Companion,
        rate: NonZeroU32::new(2),
        sessions: 1,
        node_calls: None,
    };

    fn tenants<const N: usize>(keys: [(&str, &str); N]) -> Tenants {
        Tenants::new(TenantConfig::from_keys(keys, LIMITS))
    }

    #[test]
    fn a_key_resolves_only_to_its_own_tenant() {
        let tenants = tenants([("alice", "a1"), ("bob", "b1"), ("alice", "a2")]);
        let name = |key: &str| tenants.resolve(key).map(|tenant| tenant.name.to_string());
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
            assert_eq!(name(presented).as_deref(), expected, "{presented:?}");
        }
        assert_eq!(tenants.0.load().by_name.len(), 2);
        let [a1, a2, b1] = ["a1", "a2", "b1"].map(|key| tenants.resolve(key).unwrap());
        assert!(Arc::ptr_eq(&a1, &a2), "one tenant has both keys");
        assert_eq!(a1.id, a2.id);
        assert_ne!(a1.id, b1.id);
    }

    #[test]
    fn without_keys_no_client_is_let_in() {
        let tenants = tenants([]);
        assert!(tenants.resolve("").is_none());
        assert!(tenants.resolve("dev").is_none());
    }

    #[test]
    fn debug_shows_no_secret() {
        let tenants = tenants([("alice", "swordfish")]);
        let shown = format!("{tenants:?} {:?}", tenants.resolve("swordfish"));
        assert!(shown.contains("alice"), "{shown}");
        assert!(!shown.contains("swordfish"), "{shown}");
    }

    #[test]
    fn tenants_do_not_share_a_bucket() {
        let tenants = tenants([("a", "a"), ("b", "b")]);
        let [a, b] = ["a", "b"].map(|key| tenants.resolve(key).unwrap());
        let now = Instant::now();
        assert_eq!(a.take_requests(2, now), Ok(()));
        let refused = crate::access::Exceeded {
            backoff_seconds: 1,
            allowed_rps: 2,
            current_rps: 3,
        };
        assert_eq!(a.take_requests(1, now), Err(refused));
        assert_eq!(b.take_requests(2, now), Ok(()));
        assert_eq!(
            a.take_requests(1, now + Duration::from_millis(500)),
            Ok(()),
            "half a second gives one back"
        );
    }

    #[test]
    fn without_a_rate_everything_is_let_in() {
        let limits = TenantLimits {
            rate: None,
            ..LIMITS
        };
        let tenants = Tenants::new(TenantConfig::from_keys([("a", "a")], limits));
        let (a, now) = (tenants.resolve("a").unwrap(), Instant::now());
        for _ in 0..1_000 {
            assert_eq!(a.take_requests(1_000, now), Ok(()));
        }
    }

    #[test]
    fn a_replaced_table_keeps_the_counters_of_tenants_that_stay() {
        let (tenants, caps) = (tenants([("a", "a1"), ("b", "b1")]), SessionCaps::new(10));
        let now = Instant::now();
        let [a, b] = ["a1", "b1"].map(|key| tenants.resolve(key).unwrap());
        let permit = caps.take(&a).unwrap();
        assert_eq!(a.take_requests(2, now), Ok(()));
        assert_eq!(b.take_requests(2, now), Ok(()));

        // a gets another key, b goes, c comes.
        let keys = [("c", "c1"), ("a", "a2")];
        tenants.replace(TenantConfig::from_keys(keys, LIMITS));
        assert!(tenants.resolve("a1").is_none() && tenants.resolve("b1").is_none());
        let [a2, c] = ["a2", "c1"].map(|key| tenants.resolve(key).unwrap());
        assert_eq!(a2.id, a.id);
        assert!(![a.id, b.id].contains(&c.id), "no id is given twice");
        assert!(a2.take_requests(1, now).is_err(), "one bucket");
        assert!(a.take_requests(1, now).is_err());
        assert!(caps.take(&a2).is_none(), "one count of sessions");
        assert_eq!(c.take_requests(2, now), Ok(()));
        drop(permit);
        let permit = caps.take(&a2).unwrap();
        assert!(caps.take(&a).is_none());
        drop(permit);

        // b comes back as another tenant.
        tenants.replace(TenantConfig::from_keys([("b", "b1")], LIMITS));
        let b2 = tenants.resolve("b1").unwrap();
        assert_ne!(b2.id, b.id);
        assert_eq!(b2.take_requests(2, now), Ok(()));
    }

    #[test]
    fn changed_limits_apply_at_once() {
        let (tenants, caps) = (tenants([("a", "a")]), SessionCaps::new(10));
        let now = Instant::now();
        let a = tenants.resolve("a").unwrap();
        let _permit = caps.take(&a).unwrap();
        assert_eq!(a.take_requests(100, now), Ok(()));
        let limits = TenantLimits {
            methods: MethodSet::Core,
            rate: NonZeroU32::new(3),
            sessions: 2,
            node_calls: NonZeroU32::new(4),
        };
        tenants.replace(TenantConfig::from_keys([("a", "a")], limits));
        let a = tenants.resolve("a").unwrap();
        assert_eq!(a.limits, limits);
        assert_eq!(a.take_requests(3, now), Ok(()), "a full bucket");
        assert_eq!(
            a.take_requests(1, now).map_err(|e| e.allowed_rps),
            Err(3),
            "of the new rate"
        );
        let _second = caps.take(&a).unwrap();
        assert!(caps.take(&a).is_none(), "the first session still counts");
    }
}
