//! Metrics by tenant, for `--tenant-metrics`.

use std::collections::HashMap;

use nearhead_tenants::{id::TenantId, usage::TakenCounts};

use crate::{
    access::Access,
    metrics::{Metrics, Outcome},
};

/// Most tenants that have series of their own: nine each, so some 1,800 in all. A name is a label
/// that anybody who may make a tenant chooses.
const NAMES_MAX: usize = 200;

/// In the place of a tenant's name: those that have no series of their own.
const OTHER: &str = "other";

/// Counts by tenant what workers hand over, so that requests cost nothing more.
pub(crate) struct TenantMetrics {
    metrics: Metrics,
    /// The tenants that have series of their own: the first that used something.
    names: HashMap<TenantId, Box<str>>,
}

impl TenantMetrics {
    /// No tenant has used anything yet.
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            names: HashMap::new(),
        }
    }

    /// Adds what a worker has counted. A key that is gone counts as other.
    pub(super) fn count(&mut self, taken: &TakenCounts, access: &Access) {
        for (key, outcome, counted) in taken.by_outcome() {
            let name = match access.tenant_of(key) {
                Some(tenant) => label(&mut self.names, tenant.id, &tenant.name),
                None => OTHER,
            };
            let outcome = outcome.and_then(|index| Outcome::ALL.get(usize::from(index)));
            let counted = (counted.requests(), counted.units());
            self.metrics.tenant_used(name, outcome.copied(), counted);
        }
    }

    /// Sets how many sessions each tenant has open, and drops the series of tenants that are gone
    /// or have another name now.
    pub(super) fn observe(&mut self, access: &Access) {
        let (mut other, mut seen) = (0, HashMap::with_capacity(self.names.len()));
        access.for_each_tenant(|tenant| {
            let sessions = tenant.open_sessions();
            match self.names.get(&tenant.id) {
                Some(name) if **name == *tenant.name => {
                    seen.insert(tenant.id, sessions);
                }
                _ => other += sessions,
            }
        });
        let metrics = &self.metrics;
        self.names.retain(|id, name| match seen.get(id) {
            Some(sessions) => {
                metrics.set_tenant_sessions(name, *sessions);
                true
            }
            None => {
                metrics.remove_tenant(name);
                false
            }
        });
        metrics.set_tenant_sessions(OTHER, other);
    }
}

/// The label of a tenant, which gets series of its own if there is room.
fn label<'a>(names: &'a mut HashMap<TenantId, Box<str>>, id: TenantId, name: &str) -> &'a str {
    let is_full = names.len() >= NAMES_MAX && !names.contains_key(&id);
    if name == OTHER || is_full {
        return OTHER;
    }
    // One with another name gets its new one once the old one is dropped.
    names.entry(id).or_insert_with(|| name.into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::{Duration, Instant};

    use nearhead_tenants::{
        UnixMillis,
        id::KeyId,
        usage::{RequestUse, UsageCounts},
    };

    use super::*;
    use crate::access::{
        Caller, ConfiguredKey, Now, Presented, ServiceLimits, SessionCaps, TokenCache,
    };

    const NOW: UnixMillis = UnixMillis(0);

    /// Tenants with these names, each with a key that has the same.
    fn access(names: &[String]) -> Access {
        let key = |name: &String| ConfiguredKey::new(name, name).unwrap();
        let keys: Vec<_> = names.iter().map(key).collect();
        let limits = ServiceLimits {
            sessions: 10,
            ..ServiceLimits::default()
        };
        Access::of_configured(&keys, &limits, NOW)
    }

    fn key(access: &Access, name: &str) -> KeyId {
        access.resolve(name, NOW).unwrap().record.id
    }

    fn request(outcome: Outcome) -> RequestUse {
        RequestUse {
            method: 0,
            outcome: outcome as u8,
            units: 7,
            bytes_in: 0,
            bytes_out: 0,
            took: Duration::ZERO,
        }
    }

    /// The lines of `text` about tenants.
    fn lines(metrics: &Metrics) -> Vec<String> {
        let text = metrics.gather().unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("nearhead_tenant_") && line.contains("tenant=\""));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn what_a_tenant_uses_is_counted_by_its_name() {
        let metrics = Metrics::new([]).unwrap();
        let access = access(&["alice".to_owned(), "other".to_owned(), "idle".to_owned()]);
        let [alice, other] = ["alice", "other"].map(|name| key(&access, name));
        let mut of_tenants = TenantMetrics::new(metrics.clone());
        assert!(lines(&metrics).is_empty(), "{:?}", lines(&metrics));
        for _ in 0..2 {
            let mut counts = UsageCounts::default();
            counts.request(alice, &request(Outcome::Ok));
            counts.request(alice, &request(Outcome::Ok));
            counts.request(alice, &request(Outcome::Denied));
            counts.notified(alice, 3, 5, 100);
            counts.request(other, &request(Outcome::Ok));
            counts.request(KeyId::of_configured("gone"), &request(Outcome::Ok));
            of_tenants.count(&counts.take(), &access);
        }
        let caps = SessionCaps::new(10);
        let admit = |name: &str| {
            let (presented, tokens) = (Presented::new(name, None), TokenCache::default());
            let now = Now {
                instant: Instant::now(),
                unix: NOW,
            };
            let admitted = access.admit(&presented, Caller::default, &tokens, now);
            caps.take(&admitted.unwrap().key.tenant).unwrap()
        };
        let _sessions = ["alice", "alice", "other", "idle"].map(admit);
        of_tenants.observe(&access);
        let expected = [
            r#"nearhead_tenant_requests_total{outcome="denied",tenant="alice"} 2"#,
            r#"nearhead_tenant_requests_total{outcome="ok",tenant="alice"} 4"#,
            r#"nearhead_tenant_requests_total{outcome="ok",tenant="other"} 4"#,
            r#"nearhead_tenant_sessions{tenant="alice"} 2"#,
            r#"nearhead_tenant_sessions{tenant="other"} 2"#,
            r#"nearhead_tenant_units_total{tenant="alice"} 52"#,
            r#"nearhead_tenant_units_total{tenant="other"} 28"#,
        ];
        assert_eq!(lines(&metrics), expected);
    }

    #[test]
    fn so_many_tenants_have_series_of_their_own() {
        let metrics = Metrics::new([]).unwrap();
        let names: Vec<String> = (0..NAMES_MAX + 50)
            .map(|at| format!("tenant-{at}"))
            .collect();
        let all = access(&names);
        let mut of_tenants = TenantMetrics::new(metrics.clone());
        let count = |of_tenants: &mut TenantMetrics, access: &Access, names: &[String]| {
            for name in names {
                let mut counts = UsageCounts::default();
                counts.request(key(access, name), &request(Outcome::Ok));
                of_tenants.count(&counts.take(), access);
            }
            of_tenants.observe(access);
        };
        let units = |metrics: &Metrics| {
            let lines = lines(metrics).into_iter();
            let lines = lines.filter(|line| line.starts_with("nearhead_tenant_units_total"));
            lines.collect::<Vec<_>>()
        };
        count(&mut of_tenants, &all, &names);
        let other = format!("nearhead_tenant_units_total{{tenant=\"other\"}} {}", 50 * 7);
        assert_eq!(units(&metrics).len(), NAMES_MAX + 1);
        assert!(units(&metrics).contains(&other), "{:?}", units(&metrics));

        // Those that go make room for those that stay.
        let stay = access(&names[NAMES_MAX - 10..]);
        count(&mut of_tenants, &stay, &[]);
        assert_eq!(units(&metrics).len(), 10 + 1);
        count(&mut of_tenants, &stay, &names[NAMES_MAX..]);
        assert_eq!(units(&metrics).len(), 60 + 1);
    }
}
