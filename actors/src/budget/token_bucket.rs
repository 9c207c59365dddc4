//! A token bucket, with the time passed in.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

/// One token, in the units of a bucket: it gains `rate` units every nanosecond, so nothing is ever
/// rounded.
const TOKEN: i64 = 1_000_000_000;

/// A token bucket, full at the start.
///
/// More tokens than the bucket holds, which could otherwise never be taken, are given when it is
/// full. They leave it in debt, so the rate still holds over time.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Tokens per second.
    rate: NonZeroU32,
    /// Tokens that it holds when it is full.
    burst: NonZeroU32,
    /// Units taken and not yet refilled, [`TOKEN`] of them for each token; 0 is a full bucket.
    used: i64,
    refilled: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket of `rate` tokens per second, that holds one second's worth of them.
    #[must_use]
    pub const fn new(rate: NonZeroU32) -> Self {
        Self::with_burst(rate, rate)
    }

    /// A full bucket of `rate` tokens per second, that holds `burst` of them.
    #[must_use]
    pub const fn with_burst(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        Self {
            rate,
            burst,
            used: 0,
            refilled: None,
        }
    }

    /// Tokens per second.
    #[must_use]
    pub const fn rate(&self) -> NonZeroU32 {
        self.rate
    }

    /// Takes `tokens` at `now`.
    ///
    /// # Errors
    /// The bucket does not hold that many (or is not full, if it never holds that many): the time
    /// after which it will, if no others are taken. Nothing is taken.
    pub fn take(&mut self, tokens: u32, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        let capacity = self.capacity();
        let cost = i64::from(tokens) * TOKEN;
        let missing = self.used.saturating_add(cost.min(capacity)) - capacity;
        if missing > 0 {
            return Err(self.time_to_gain(missing));
        }
        self.used = self.used.saturating_add(cost);
        Ok(())
    }

    /// Takes `tokens` at `now`, even if they leave the bucket in debt: for what was used already.
    pub fn charge(&mut self, tokens: u64, now: Instant) {
        self.refill(now);
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        self.used = self.used.saturating_add(tokens.saturating_mul(TOKEN));
    }

    /// Gives back `tokens` that were taken and not used.
    pub fn give_back(&mut self, tokens: u32) {
        self.used = self.used.saturating_sub(i64::from(tokens) * TOKEN).max(0);
    }

    /// Whole tokens that it holds at `now`.
    #[must_use]
    pub fn tokens(&mut self, now: Instant) -> u32 {
        self.refill(now);
        let left = (self.capacity() - self.used).max(0) / TOKEN;
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// The time from `now` until it is full, if nothing is taken.
    #[must_use]
    pub fn time_until_full(&mut self, now: Instant) -> Duration {
        self.refill(now);
        self.time_to_gain(self.used)
    }

    /// Tokens that it holds when it is full.
    #[must_use]
    pub const fn burst(&self) -> NonZeroU32 {
        self.burst
    }

    fn capacity(&self) -> i64 {
        i64::from(self.burst.get()) * TOKEN
    }

    fn time_to_gain(&self, units: i64) -> Duration {
        let nanos = units.unsigned_abs().div_ceil(u64::from(self.rate.get()));
        Duration::from_nanos(nanos)
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.refilled.unwrap_or(now));
        let nanos = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX);
        let refilled = nanos.saturating_mul(i64::from(self.rate.get()));
        self.used = self.used.saturating_sub(refilled).max(0);
        self.refilled = self.refilled.max(Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_gives_its_rate_and_debts_are_paid_first() {
        let (rate, start) = (NonZeroU32::MIN.saturating_add(9), Instant::now());
        let mut bucket = TokenBucket::new(rate);
        assert_eq!(bucket.rate(), rate);
        for (at, tokens, expected) in [
            (Duration::ZERO, 4, Ok(())),
            (Duration::ZERO, 6, Ok(())),
            (Duration::ZERO, 1, Err(SECOND / 10)),
            (SECOND / 20, 1, Err(SECOND / 20)),
            (SECOND / 10, 1, Ok(())),
            // More than it ever holds: once it is full.
            (SECOND, 30, Err(SECOND / 10)),
            (SECOND * 2, 30, Ok(())),
            (SECOND * 2, 1, Err(SECOND * 21 / 10)),
            (SECOND * 5, 10, Ok(())),
            (SECOND * 5, 0, Ok(())),
            // A clock that goes back gives nothing.
            (SECOND * 4, 1, Err(SECOND / 10)),
        ] {
            assert_eq!(
                bucket.take(tokens, start + at),
                expected,
                "{tokens} at {at:?}"
            );
        }
        // A burst of its own, a debt, and tokens that come back.
        let mut bucket = TokenBucket::with_burst(rate, NonZeroU32::MIN.saturating_add(29));
        assert_eq!((bucket.tokens(start), bucket.burst().get()), (30, 30));
        assert_eq!(bucket.take(30, start), Ok(()));
        bucket.give_back(10);
        assert_eq!(bucket.tokens(start), 10);
        bucket.charge(40, start);
        assert_eq!(bucket.tokens(start), 0);
        assert_eq!(bucket.take(1, start), Err(SECOND * 31 / 10));
        assert_eq!(bucket.time_until_full(start), SECOND * 6);
        assert_eq!(bucket.tokens(start + SECOND * 5), 20);
        bucket.give_back(u32::MAX);
        assert_eq!(
            bucket.tokens(start + SECOND * 5),
            30,
            "never more than it holds"
        );
        // The largest numbers do not overflow.
        let mut bucket = TokenBucket::new(NonZeroU32::MAX);
        bucket.charge(u64::MAX, start);
        bucket.charge(u64::MAX, start);
        assert!(bucket.take(u32::MAX, start).is_err());
        assert_eq!(bucket.tokens(start), 0);
        let mut bucket = TokenBucket::new(NonZeroU32::MAX);
        assert_eq!(bucket.take(u32::MAX, start), Ok(()));
        assert_eq!(bucket.take(u32::MAX, start), Err(SECOND));
        assert_eq!(bucket.take(u32::MAX, start + SECOND * u32::MAX), Ok(()));
    }
}
