//! What a tenant or a key may still use, with the time passed in.

use std::time::{Duration, Instant};

use nearhead_tenants::{UnixMillis, limits::Quota};
use parking_lot::Mutex;

use super::bucket::{Bucket, MeterParts, UnitsOfDay};

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The present, by the clock that never goes back and by the one that people read.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By the clock that never goes back.
    pub instant: Instant,
    /// By the clock that people read.
    pub unix: UnixMillis,
}

/// A request over a quota. It has used nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Which quota.
    pub(crate) quota: QuotaKind,
    /// What the quota allows: requests or units a second, or units a day.
    pub(crate) allowed: u64,
    /// Requests in the last second, refused ones and this one included.
    pub(crate) requests_in_last_second: u64,
    /// Whole seconds after which the same request is let in if no other is sent; at least 1.
    pub(crate) retry_after_seconds: u32,
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Requests a second.
    Requests,
    /// Units a second.
    Units,
    /// Units from 00:00 to 24:00 UTC.
    UnitsOfDay,
}

/// What is left of the scarcest bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Tokens that the bucket holds when it is full.
    pub(crate) limit: u32,
    /// Tokens that it holds now.
    pub(crate) remaining: u32,
    /// Whole seconds until it is full, if nothing is taken.
    pub(crate) reset_seconds: u32,
}

impl Remaining {
    /// The scarcer of the two, by the share that is left.
    fn scarcer(self, other: Self) -> Self {
        let share = |one: Self, by: Self| u64::from(one.remaining) * u64::from(by.limit);
        match share(self, other) <= share(other, self) {
            true => self,
            false => other,
        }
    }
}

/// What is used of a quota.
///
/// A request takes one token of its quota of requests and one unit before it is answered. The rest
/// of its units is charged when they are known, and may leave a bucket in debt.
#[derive(Debug)]
pub(super) struct Meter {
    quota: Quota,
    state: Mutex<MeterState>,
}

#[derive(Debug)]
struct MeterState {
    requests: Option<Bucket>,
    units: Option<Bucket>,
    day: UnitsOfDay,
    recent: RequestsPerSecond,
}

impl Meter {
    /// A meter with full buckets, and with the units of the day used that `parts` says; `None` if
    /// nothing is limited.
    pub(super) fn new(quota: Quota, parts: &MeterParts<'_>) -> Option<Self> {
        if quota == Quota::default() {
            return None;
        }
        let bucket = |kind| move |rate| Bucket::new(rate, kind, parts);
        Some(Self {
            quota,
            state: Mutex::new(MeterState {
                requests: quota.requests.map(bucket("requests")),
                units: quota.units.map(bucket("units")),
                day: UnitsOfDay::new(day_of(parts.now), quota.units_per_day.is_some(), parts),
                recent: RequestsPerSecond::default(),
            }),
        })
    }

    /// What is limited.
    pub(super) const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Units that were used since 00:00 UTC of the last day that was asked about, and that day.
    pub(super) fn used_today(&self, today: UnixMillis) -> u64 {
        self.state.lock().day.used(day_of(today))
    }

    /// Takes this many requests, and a unit for each.
    ///
    /// # Errors
    /// A bucket does not hold that many (for a batch larger than a bucket: it is not full), or the
    /// units of the day are used up.
    pub(super) fn take(&self, requests: u32, now: Now) -> Result<(), Exceeded> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let requests_in_last_second = state.recent.count(requests, now.instant);
        let exceeded = |quota, allowed, wait: Duration| Exceeded {
            quota,
            allowed,
            requests_in_last_second,
            retry_after_seconds: seconds(wait).max(1),
        };
        if let Some(allowed) = self.quota.units_per_day
            && state.day.used(day_of(now.unix)) >= allowed.get()
        {
            let wait = until_next_day(now.unix);
            return Err(exceeded(QuotaKind::UnitsOfDay, allowed.get(), wait));
        }
        if let Some(bucket) = &mut state.requests {
            let allowed = u64::from(bucket.rate().get());
            let taken = bucket.take(requests, now.instant);
            taken.map_err(|wait| exceeded(QuotaKind::Requests, allowed, wait))?;
        }
        if let Some(bucket) = &mut state.units
            && let Err(wait) = bucket.take(requests, now.instant)
        {
            let allowed = u64::from(bucket.rate().get());
            if let Some(bucket) = &mut state.requests {
                bucket.give_back(requests);
            }
            return Err(exceeded(QuotaKind::Units, allowed, wait));
        }
        state.day.add(u64::from(requests), day_of(now.unix));
        Ok(())
    }

    /// Gives back what [`take`](Self::take) took.
    pub(super) fn give_back(&self, requests: u32) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for bucket in [&mut state.requests, &mut state.units]
            .into_iter()
            .flatten()
        {
            bucket.give_back(requests);
        }
        state.day.give_back(requests);
    }

    /// Charges units that were used beyond those that were taken.
    pub(super) fn charge(&self, units: u64, now: Now) {
        let mut state = self.state.lock();
        if let Some(bucket) = &mut state.units {
            bucket.charge(units, now.instant);
        }
        state.day.add(units, day_of(now.unix));
    }

    /// What is left of the scarcer bucket; `None` without one.
    pub(super) fn remaining(&self, now: Now) -> Option<Remaining> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let buckets = [&mut state.requests, &mut state.units];
        let left = buckets.into_iter().flatten().map(|bucket| Remaining {
            limit: bucket.burst().get(),
            remaining: bucket.tokens(now.instant),
            reset_seconds: seconds(bucket.time_until_full(now.instant)),
        });
        left.reduce(Remaining::scarcer)
    }
}

/// The scarcer of what two meters have left.
pub(super) fn scarcest(one: Option<Remaining>, other: Option<Remaining>) -> Option<Remaining> {
    [one, other]
        .into_iter()
        .flatten()
        .reduce(Remaining::scarcer)
}

const fn day_of(time: UnixMillis) -> u64 {
    time.0 / DAY_MILLIS
}

/// The time until 00:00 UTC.
const fn until_next_day(now: UnixMillis) -> Duration {
    Duration::from_millis(DAY_MILLIS - now.0 % DAY_MILLIS)
}

/// Whole seconds, rounded up.
pub(super) fn seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Requests of the current second and of the one before, from which the count of the last second is
/// interpolated.
#[derive(Debug, Default)]
struct RequestsPerSecond {
    began: Option<Instant>,
    before: u64,
    running: u64,
}

impl RequestsPerSecond {
    fn count(&mut self, requests: u32, now: Instant) -> u64 {
        const SECOND: Duration = Duration::from_secs(1);
        let began = *self.began.get_or_insert(now);
        let elapsed = now.saturating_duration_since(began);
        if elapsed >= SECOND {
            self.before = if elapsed < 2 * SECOND {
                self.running
            } else {
                0
            };
            self.running = 0;
            self.began =
                Some(began + SECOND * u32::try_from(elapsed.as_secs()).unwrap_or(u32::MAX));
        }
        self.running = self.running.saturating_add(u64::from(requests));
        let into = u64::from(elapsed.subsec_millis());
        self.running + self.before * (1000 - into) / 1000
    }
}

#[cfg(test)]
mod fleet_tests;
#[cfg(test)]
mod tests;
