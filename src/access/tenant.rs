//! A tenant: what it may do with all its keys, and what it has left.

use std::{num::NonZeroU32, sync::Arc};

use nearhead_actors::{budget::CallBudget, fleet::quotas::LoanDesk};
use nearhead_tenants::{
    UnixMillis,
    id::TenantId,
    limits::{Quota, TenantLimits},
};

use super::{
    bucket::{MeterParts, QuotaOwner},
    filter_counts::FilterCounts,
    meter::Meter,
    shared_count::SharedCount,
};

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodSet {
    /// The seven core methods and their companions, which real clients call along with them.
    #[default]
    Companion,
    /// Only the seven core methods.
    Core,
    /// What nodes answer. No tenant has this set: a service names each of its methods.
    Forwarded,
}

impl MethodSet {
    /// Whether a method that belongs to `other` is in this set.
    #[must_use]
    pub(crate) const fn includes(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Companion, Self::Companion | Self::Core) | (Self::Core, Self::Core)
        )
    }
}

/// What every tenant may do, unless its own limits say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceLimits {
    /// The methods that it may call.
    pub methods: MethodSet,
    /// How fast, and how much in a day.
    pub quota: Quota,
    /// WebSocket sessions that it may have open.
    pub sessions: usize,
    /// Calls to upstreams a second that its reads may cause; `None` is unlimited.
    pub node_calls: Option<NonZeroU32>,
}

impl ServiceLimits {
    /// With the limits of one tenant.
    fn with(&self, limits: &TenantLimits) -> Self {
        let Quota {
            requests,
            units,
            units_per_day,
        } = limits.quota;
        let sessions = limits.sessions.map(|sessions| sessions as usize);
        Self {
            quota: Quota {
                requests: requests.or(self.quota.requests),
                units: units.or(self.quota.units),
                units_per_day: units_per_day.or(self.quota.units_per_day),
            },
            sessions: sessions.unwrap_or(self.sessions),
            ..*self
        }
    }
}

/// One tenant.
///
/// Name and limits are immutable: a change makes another `Tenant` with the same counters.
#[derive(Debug)]
pub struct Tenant {
    /// Identifies it.
    pub(crate) id: TenantId,
    /// Its name in logs.
    pub(crate) name: Box<str>,
    /// What it may do.
    pub(crate) limits: ServiceLimits,
    /// Subscriptions of all its sessions; `None` is unlimited.
    pub(crate) subscriptions_max: Option<usize>,
    /// What it has used; `None` is unlimited.
    pub(super) meter: Option<Arc<Meter>>,
    /// Its open sessions.
    pub(super) open_sessions: SharedCount,
    /// Its subscriptions.
    pub(crate) subscriptions: SharedCount,
    /// Its filters.
    pub(super) filters: FilterCounts,
    /// Its requests that wait for a block.
    pub(super) block_waits: SharedCount,
    /// What its reads may cause at upstreams.
    pub(crate) call_budget: CallBudget,
}

/// What makes a tenant in force.
pub(super) struct TenantSpec<'a> {
    pub(super) id: TenantId,
    pub(super) name: &'a str,
    pub(super) limits: &'a TenantLimits,
    pub(super) service: &'a ServiceLimits,
    /// Units that it has used today, as far as is known from before this process.
    pub(super) used_today: u64,
    /// Where the fleet's quotas wait for what the store lends; `None` without a fleet.
    pub(super) desk: Option<&'a LoanDesk>,
}

impl Tenant {
    /// The tenant at `now`. If it was in force `before`, it keeps its sessions, its filters, the
    /// state that its reads wait for, and its buckets if its quota is the same. Under another one
    /// it starts with full buckets, so that a debt under a high rate does not lock it out for
    /// minutes under a low one. The units of the day are kept in any case.
    pub(super) fn new(spec: TenantSpec<'_>, before: Option<&Self>, now: UnixMillis) -> Self {
        let TenantSpec {
            id,
            name,
            limits: own,
            service,
            used_today,
            desk,
        } = spec;
        let limits = service.with(own);
        let subscriptions_max = own.subscriptions.map(|most| most as usize);
        let (open_sessions, subscriptions, filters, block_waits) = match before {
            Some(before) => (
                before.open_sessions.clone(),
                before.subscriptions.clone(),
                before.filters.clone(),
                before.block_waits.clone(),
            ),
            None => Default::default(),
        };
        Self {
            id,
            name: name.into(),
            limits,
            subscriptions_max,
            meter: kept_meter(
                limits.quota,
                before.and_then(|before| before.meter.as_ref()),
                MeterParts {
                    owner: QuotaOwner::Tenant(id),
                    used_today,
                    now,
                    desk,
                },
            ),
            open_sessions,
            subscriptions,
            filters,
            block_waits,
            call_budget: match before {
                Some(before) => before
                    .call_budget
                    .with_limits(limits.node_calls, own.weight),
                None => CallBudget::new(limits.node_calls, own.weight),
            },
        }
    }

    /// Its open sessions.
    pub(crate) fn open_sessions(&self) -> usize {
        self.open_sessions.get()
    }

    /// A tenant for tests, with only its sessions limited.
    #[cfg(test)]
    pub(crate) fn for_tests(sessions: usize) -> Self {
        let service = ServiceLimits {
            sessions,
            ..ServiceLimits::default()
        };
        let spec = TenantSpec {
            id: TenantId::of_configured("test"),
            name: "test",
            limits: &TenantLimits::default(),
            service: &service,
            used_today: 0,
            desk: None,
        };
        Self::new(spec, None, UnixMillis(0))
    }
}

/// The meter of a quota: the one from before if the quota is the same.
pub(super) fn kept_meter(
    quota: Quota,
    before: Option<&Arc<Meter>>,
    mut parts: MeterParts<'_>,
) -> Option<Arc<Meter>> {
    let same = before.filter(|before| *before.quota() == quota);
    if let Some(meter) = same {
        return Some(Arc::clone(meter));
    }
    if let Some(before) = before {
        parts.used_today = before.used_today(parts.now);
    }
    Meter::new(quota, &parts).map(Arc::new)
}
