//! A tenant: who calls, what it may call, and how much.

use std::{num::NonZeroU32, sync::Arc, time::Instant};

use nearhead_actors::budget::CallBudget;

use super::{
    quota::{Exceeded, Quota},
    session_count::SessionCount,
};

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodSet {
    /// The seven core methods and their companions, which real clients call along with them.
    #[default]
    Companion,
    /// Only the seven core methods.
    Core,
}

impl MethodSet {
    /// Whether a method that belongs to `other` is in this set.
    #[must_use]
    pub(crate) const fn includes(self, other: Self) -> bool {
        matches!((self, other), (Self::Companion, _) | (_, Self::Core))
    }
}

/// Identifies a tenant for as long as the process runs, across changes of its keys and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TenantId(pub(super) u32);

/// What a tenant may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    /// The methods that it may call.
    pub methods: MethodSet,
    /// Requests per second; `None` is unlimited.
    pub rate: Option<NonZeroU32>,
    /// WebSocket sessions that it may have open.
    pub sessions: usize,
    /// Calls to upstreams a second that its reads may cause; `None` is unlimited.
    pub node_calls: Option<NonZeroU32>,
}

/// One tenant of a [`Tenants`](super::Tenants) table.
///
/// Name and limits are immutable: a change makes another `Tenant` with the same counters (see
/// [`Tenants::replace`](super::Tenants::replace)).
#[derive(Debug)]
pub struct Tenant {
    /// Identifies it.
    pub(crate) id: TenantId,
    /// Its name in logs.
    pub(crate) name: Box<str>,
    /// What it may do.
    pub(crate) limits: TenantLimits,
    /// Its token bucket; `None` is unlimited.
    quota: Option<Arc<Quota>>,
    /// Its open sessions.
    pub(super) open_sessions: SessionCount,
    /// What its reads may cause at upstreams.
    pub(crate) call_budget: CallBudget,
}

impl Tenant {
    /// A tenant with a full bucket and no sessions.
    pub(super) fn new(id: TenantId, name: &str, limits: TenantLimits) -> Self {
        Self {
            id,
            name: name.into(),
            limits,
            quota: limits.rate.map(|rate| Arc::new(Quota::new(rate))),
            open_sessions: SessionCount::default(),
            call_budget: CallBudget::new(limits.node_calls),
        }
    }

    /// A tenant for tests, with only its sessions limited.
    #[cfg(test)]
    pub(crate) fn for_tests(sessions: usize) -> Self {
        let limits = TenantLimits {
            methods: MethodSet::Companion,
            rate: None,
            sessions,
            node_calls: None,
        };
        Self::new(TenantId(0), "test", limits)
    }

    /// The same tenant with other limits: it keeps its id, its open sessions and the state that its
    /// reads wait for, and each bucket if its rate is the same. Under another rate it starts with a
    /// full bucket, so that a debt under a high rate does not lock it out for minutes under a low
    /// one.
    pub(super) fn with_limits(&self, limits: TenantLimits) -> Self {
        Self {
            id: self.id,
            name: self.name.clone(),
            limits,
            quota: match limits.rate == self.limits.rate {
                true => self.quota.clone(),
                false => limits.rate.map(|rate| Arc::new(Quota::new(rate))),
            },
            open_sessions: self.open_sessions.clone(),
            call_budget: self.call_budget.with_rate(limits.node_calls),
        }
    }

    /// Takes `requests` tokens from its bucket at `now`.
    ///
    /// # Errors
    /// The bucket does not hold that many; see `Quota::take`.
    pub(crate) fn take_requests(&self, requests: u32, now: Instant) -> Result<(), Exceeded> {
        self.quota
            .as_ref()
            .map_or(Ok(()), |quota| quota.take(requests, now))
    }
}
