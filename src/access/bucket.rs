//! A token bucket: this process' own, or one that the processes of a fleet share.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use nearhead_actors::{
    budget::TokenBucket,
    fleet::quotas::{LentBucket, LentUnits, LoanDesk},
};
use nearhead_tenants::{
    UnixMillis,
    id::{KeyId, TenantId},
    limits::Rate,
};

/// Whose quota it is, which names it in a fleet.
#[derive(Clone, Copy, Debug)]
pub(super) enum QuotaOwner {
    /// A tenant.
    Tenant(TenantId),
    /// The first key of a chain of keys, which share one quota.
    Chain(KeyId),
}

/// What a meter is made with, besides its quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeterParts<'a> {
    pub(super) owner: QuotaOwner,
    /// Units that were used today, as far as is known from before this process.
    pub(super) used_today: u64,
    pub(super) now: UnixMillis,
    /// Where the fleet's quotas wait for what the store lends; `None` without a fleet.
    pub(super) desk: Option<&'a LoanDesk>,
}

/// A token bucket.
#[derive(Debug)]
pub(super) enum Bucket {
    /// Of this process.
    Own(TokenBucket),
    /// Of a fleet.
    Lent(LentBucket),
}

impl Bucket {
    /// A full bucket of what `kind` names: requests or units.
    pub(super) fn new(rate: Rate, kind: &str, parts: &MeterParts<'_>) -> Self {
        let Rate { per_second, burst } = rate;
        match parts.desk {
            None => Self::Own(TokenBucket::with_burst(per_second, burst)),
            Some(desk) => {
                let name = parts.owner.quota_name(kind);
                Self::Lent(LentBucket::new(desk, &name, per_second, burst))
            }
        }
    }

    /// Tokens per second.
    pub(super) const fn rate(&self) -> NonZeroU32 {
        match self {
            Self::Own(bucket) => bucket.rate(),
            Self::Lent(bucket) => bucket.rate(),
        }
    }

    /// Tokens that it holds when it is full.
    pub(super) const fn burst(&self) -> NonZeroU32 {
        match self {
            Self::Own(bucket) => bucket.burst(),
            Self::Lent(bucket) => bucket.burst(),
        }
    }

    /// Takes tokens.
    ///
    /// # Errors
    /// There are not as many: the time after which there will be. Nothing is taken.
    pub(super) fn take(&mut self, tokens: u32, now: Instant) -> Result<(), Duration> {
        match self {
            Self::Own(bucket) => bucket.take(tokens, now),
            Self::Lent(bucket) => bucket.take(tokens, now),
        }
    }

    /// Takes tokens that were used already, even if they leave it in debt.
    pub(super) fn charge(&mut self, tokens: u64, now: Instant) {
        match self {
            Self::Own(bucket) => bucket.charge(tokens, now),
            Self::Lent(bucket) => bucket.charge(tokens, now),
        }
    }

    /// Gives back tokens that were taken and not used.
    pub(super) fn give_back(&mut self, tokens: u32) {
        match self {
            Self::Own(bucket) => bucket.give_back(tokens),
            Self::Lent(bucket) => bucket.give_back(tokens),
        }
    }

    /// Whole tokens that it holds.
    pub(super) fn tokens(&mut self, now: Instant) -> u32 {
        match self {
            Self::Own(bucket) => bucket.tokens(now),
            Self::Lent(bucket) => bucket.tokens(now),
        }
    }

    /// The time until it is full, if nothing is taken.
    pub(super) fn time_until_full(&mut self, now: Instant) -> Duration {
        match self {
            Self::Own(bucket) => bucket.time_until_full(now),
            Self::Lent(bucket) => bucket.time_until_full(now),
        }
    }
}

impl QuotaOwner {
    /// The name of a quota of this owner among all of a fleet.
    pub(super) fn quota_name(self, kind: &str) -> String {
        match self {
            Self::Tenant(id) => format!("tenant:{id}:{kind}"),
            Self::Chain(id) => format!("key:{id}:{kind}"),
        }
    }
}

/// Units that were used on one day.
#[derive(Debug)]
pub(super) enum UnitsOfDay {
    /// In this process.
    Own {
        /// Days since the epoch, UTC.
        day: u64,
        /// Units used on it.
        used: u64,
    },
    /// In a fleet.
    Lent(LentUnits),
}

impl UnitsOfDay {
    /// As many as `parts` says were used on this day. The fleet counts them if they are limited.
    pub(super) fn new(day: u64, is_limited: bool, parts: &MeterParts<'_>) -> Self {
        let used = parts.used_today;
        match parts.desk.filter(|_| is_limited) {
            None => Self::Own { day, used },
            Some(desk) => {
                let name = parts.owner.quota_name("day");
                Self::Lent(LentUnits::new(desk, &name, day, used))
            }
        }
    }

    /// Units used on this day. A clock that goes back does not bring back those of a day that is
    /// over.
    pub(super) fn used(&mut self, at: u64) -> u64 {
        match self {
            Self::Own { day, used } => {
                if at > *day {
                    (*day, *used) = (at, 0);
                }
                *used
            }
            Self::Lent(units) => units.used(at),
        }
    }

    /// Counts units.
    pub(super) fn add(&mut self, units: u64, at: u64) {
        let before = self.used(at);
        match self {
            Self::Own { used, .. } => *used = before.saturating_add(units),
            Self::Lent(lent) => lent.add(units, at),
        }
    }

    /// Gives back units that were counted and not used.
    pub(super) fn give_back(&mut self, units: u32) {
        match self {
            Self::Own { used, .. } => *used = used.saturating_sub(units.into()),
            Self::Lent(lent) => lent.give_back(units),
        }
    }
}
