//! How many requests a tenant may send: a token bucket, with the time passed in.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use nearhead_actors::budget::TokenBucket;
use parking_lot::Mutex;

/// A token bucket of one second's worth of requests. A batch larger than that is let in when the
/// bucket is full.
#[derive(Debug)]
pub(super) struct Quota(Mutex<Bucket>);

/// A request over the quota. A refused request takes nothing from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("over {allowed_rps} requests per second, retry in {backoff_seconds} s")]
pub struct Exceeded {
    /// Whole seconds after which the same request is let in if the tenant sends no other; at least
    /// 1.
    pub(crate) backoff_seconds: u64,
    /// Requests per second that are allowed.
    pub(crate) allowed_rps: u64,
    /// Requests in the last second, refused ones and this one included.
    pub(crate) current_rps: u64,
}

#[derive(Debug)]
struct Bucket {
    tokens: TokenBucket,
    requests: RequestsPerSecond,
}

impl Quota {
    /// A full bucket of `rate` requests per second.
    pub(super) fn new(rate: NonZeroU32) -> Self {
        Self(Mutex::new(Bucket {
            tokens: TokenBucket::new(rate),
            requests: RequestsPerSecond::default(),
        }))
    }

    /// Takes `requests` tokens at `now`.
    ///
    /// # Errors
    /// The bucket does not hold that many (for a batch larger than a bucket: the bucket is not
    /// full).
    pub(super) fn take(&self, requests: u32, now: Instant) -> Result<(), Exceeded> {
        let mut bucket = self.0.lock();
        let current_rps = bucket.requests.count(requests, now);
        let taken = bucket.tokens.take(requests, now);
        taken.map_err(|wait| Exceeded {
            backoff_seconds: (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1),
            allowed_rps: u64::from(bucket.tokens.rate().get()),
            current_rps,
        })
    }
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
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The quota as a list of admitted requests: the level is recomputed from the start.
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
            requests in prop::collection::vec((0_u64..400_000_000, 1_u32..300), 1..100),
        ) {
            let quota = Quota::new(NonZeroU32::new(rate).unwrap());
            let start = Instant::now();
            let (mut at, mut admitted) = (0, Vec::new());
            for (pause, requests) in requests {
                at += pause;
                let expected = model_allows(&admitted, rate, requests, at);
                let now = start + Duration::from_nanos(at);
                let taken = quota.take(requests, now);
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
    fn a_batch_larger_than_the_bucket_is_served_and_leaves_a_debt() {
        let (quota, now) = (Quota::new(NonZeroU32::new(10).unwrap()), Instant::now());
        assert_eq!(quota.take(100, now), Ok(()));
        let refused = quota.take(1, now).map_err(|e| e.backoff_seconds);
        assert_eq!(refused, Err(10), "90 in debt: 9.1 s until one is free");
        assert_eq!(quota.take(1, now + Duration::from_millis(9_100)), Ok(()));
    }

    #[test]
    fn the_reported_rate_forgets_requests_older_than_two_seconds() {
        let mut requests = RequestsPerSecond::default();
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(requests.count(10, at(0)), 10);
        assert_eq!(requests.count(10, at(900)), 20);
        assert_eq!(
            requests.count(1, at(1_500)),
            11,
            "half of the second before counts"
        );
        assert_eq!(requests.count(1, at(3_600)), 1);
    }
}
