//! How much a tenant may ask: a token bucket for each, with the time passed in.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::TenantId;

/// Fractions of a token: a bucket gains `rate` of them every nanosecond, so that nothing is ever
/// rounded.
const TOKEN: i64 = 1_000_000_000;

/// One token bucket a tenant. A bucket holds one second's worth of requests and is filled at the
/// start.
///
/// A batch larger than the bucket is let in when the bucket is full and leaves it in debt: it can
/// be served at all, and the rate holds over time.
#[derive(Debug)]
pub struct Quota {
    /// Requests per second of a tenant; `None`: everything is let in.
    rate: Option<u32>,
    buckets: Box<[Mutex<Bucket>]>,
}

/// A request over the quota. A refused request takes nothing from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("over {allowed_rps} requests per second, retry in {backoff_seconds} s")]
pub struct Exceeded {
    /// Whole seconds after which the same request is let in if nothing else is asked, at least 1.
    pub backoff_seconds: u64,
    /// Requests per second that are allowed.
    pub allowed_rps: u64,
    /// Requests asked for during the last second, refused ones and this one included.
    pub current_rps: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Taken and not yet given back, in fractions of a token: 0 is a full bucket.
    used: i64,
    refilled: Option<Instant>,
    asked: AskedPerSecond,
}

impl Quota {
    /// A quota that lets everything in.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(None, 0)
    }

    /// A quota of `rate` requests per second for each of `tenants` tenants; `None` lets everything
    /// in.
    #[must_use]
    pub fn new(rate: Option<u32>, tenants: usize) -> Self {
        let held = if rate.is_some() { tenants } else { 0 };
        Self {
            rate,
            buckets: (0..held).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes `requests` tokens of `tenant` at `now`.
    ///
    /// # Errors
    /// The bucket does not hold that many (a batch larger than a bucket: the bucket is not full).
    pub fn take(&self, tenant: TenantId, requests: u32, now: Instant) -> Result<(), Exceeded> {
        let Some(rate) = self.rate else { return Ok(()) };
        match self.buckets.get(tenant.index()) {
            Some(bucket) => bucket.lock().take(rate, requests, now),
            None => Ok(()),
        }
    }
}

impl Bucket {
    fn take(&mut self, rate: u32, requests: u32, now: Instant) -> Result<(), Exceeded> {
        let current_rps = self.asked.count(requests, now);
        self.refill(rate, now);
        let capacity = i64::from(rate) * TOKEN;
        let cost = i64::from(requests) * TOKEN;
        let missing = self.used + cost.min(capacity) - capacity;
        if missing > 0 {
            let nanos = missing.unsigned_abs().div_ceil(u64::from(rate));
            return Err(Exceeded {
                backoff_seconds: nanos.div_ceil(1_000_000_000).max(1),
                allowed_rps: u64::from(rate),
                current_rps,
            });
        }
        self.used += cost;
        Ok(())
    }

    fn refill(&mut self, rate: u32, now: Instant) {
        let elapsed = now.saturating_duration_since(self.refilled.unwrap_or(now));
        let nanos = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
        self.used = self
            .used
            .saturating_sub(nanos.saturating_mul(i64::from(rate)))
            .max(0);
        self.refilled = self.refilled.max(Some(now));
    }
}

/// Requests of the running second and of the one before: enough to say about how many came during
/// the last second.
#[derive(Debug, Default)]
struct AskedPerSecond {
    began: Option<Instant>,
    before: u64,
    running: u64,
}

impl AskedPerSecond {
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::access::Keys;

    fn tenant(keys: &Keys, key: &str) -> TenantId {
        keys.check(key).unwrap_or_else(|| panic!("{key} is known"))
    }

    /// The quota as a list of what was let in: the level is found by going through it from the
    /// start.
    fn model_allows(admitted: &[(u64, u32)], rate: u32, requests: u32, at_nanos: u64) -> bool {
        let capacity = i128::from(rate) * 1_000_000_000;
        let (mut level, mut then) = (capacity, 0_u64);
        for (at, cost) in admitted.iter().copied().chain([(at_nanos, 0)]) {
            level = capacity.min(level + i128::from(at - then) * i128::from(rate));
            level -= i128::from(cost) * 1_000_000_000;
            then = at;
        }
        level >= capacity.min(i128::from(requests) * 1_000_000_000)
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(
            rate in 1_u32..200,
            asks in prop::collection::vec((0_u64..400_000_000, 1_u32..300), 1..100),
        ) {
            let keys = Keys::new([("a", "a")]);
            let quota = Quota::new(Some(rate), 1);
            let start = Instant::now();
            let (mut at, mut admitted) = (0, Vec::new());
            for (pause, requests) in asks {
                at += pause;
                let expected = model_allows(&admitted, rate, requests, at);
                let now = start + Duration::from_nanos(at);
                let taken = quota.take(tenant(&keys, "a"), requests, now);
                prop_assert_eq!(taken.is_ok(), expected, "{} requests at {} ns: {:?}", requests, at, taken);
                match taken {
                    Ok(()) => admitted.push((at, requests)),
                    Err(refused) => {
                        let later = at + refused.backoff_seconds * 1_000_000_000;
                        prop_assert!(model_allows(&admitted, rate, requests, later), "the backoff was enough");
                        prop_assert!(refused.current_rps >= u64::from(requests));
                    }
                }
            }
        }
    }

    #[test]
    fn no_limit_lets_everything_in() {
        let keys = Keys::new([("a", "a")]);
        let quota = Quota::unlimited();
        let now = Instant::now();
        for _ in 0..1_000 {
            assert_eq!(quota.take(tenant(&keys, "a"), 1_000, now), Ok(()));
        }
    }

    #[test]
    fn tenants_do_not_share() {
        let keys = Keys::new([("a", "a"), ("b", "b")]);
        let quota = Quota::new(Some(2), 2);
        let now = Instant::now();
        let (a, b) = (tenant(&keys, "a"), tenant(&keys, "b"));
        assert_eq!(quota.take(a, 2, now), Ok(()));
        let refused = Exceeded {
            backoff_seconds: 1,
            allowed_rps: 2,
            current_rps: 3,
        };
        assert_eq!(quota.take(a, 1, now), Err(refused));
        assert_eq!(quota.take(b, 2, now), Ok(()));
        assert_eq!(
            quota.take(a, 1, now + Duration::from_millis(500)),
            Ok(()),
            "half a second gives one back"
        );
    }

    #[test]
    fn a_batch_larger_than_the_bucket_is_served_and_paid_for() {
        let keys = Keys::new([("a", "a")]);
        let quota = Quota::new(Some(10), 1);
        let (a, now) = (tenant(&keys, "a"), Instant::now());
        assert_eq!(quota.take(a, 100, now), Ok(()));
        let refused = quota.take(a, 1, now).map_err(|e| e.backoff_seconds);
        assert_eq!(refused, Err(10), "90 in debt: 9.1 s until one is free");
        assert_eq!(quota.take(a, 1, now + Duration::from_millis(9_100)), Ok(()));
    }

    #[test]
    fn the_rate_that_is_told_forgets_what_is_older_than_two_seconds() {
        let mut asked = AskedPerSecond::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(asked.count(10, at(0)), 10);
        assert_eq!(asked.count(10, at(900)), 20);
        assert_eq!(
            asked.count(1, at(1_500)),
            11,
            "half of the second before counts"
        );
        assert_eq!(asked.count(1, at(3_600)), 1);
    }
}
