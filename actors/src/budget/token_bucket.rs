//! A token bucket, with the time passed in.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

/// One token, in the units of a bucket: it gains `rate` units every nanosecond, so nothing is ever
/// rounded.
const TOKEN: i64 = 1_000_000_000;

/// A token bucket of one second's worth of tokens, full at the start.
///
/// More tokens than the bucket holds, which could otherwise never be taken, are given when it is
/// full. They leave it in debt, so the rate still holds over time.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Tokens per second.
    rate: NonZeroU32,
    /// Units taken and not yet refilled, [`TOKEN`] of them for each token; 0 is a full bucket.
    used: i64,
    refilled: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket of `rate` tokens per second.
    #[must_use]
    pub const fn new(rate: NonZeroU32) -> Self {
        Self {
            rate,
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
        let rate = self.rate.get();
        let capacity = i64::from(rate) * TOKEN;
        let cost = i64::from(tokens) * TOKEN;
        let missing = self.used + cost.min(capacity) - capacity;
        if missing > 0 {
            let nanos = missing.unsigned_abs().div_ceil(u64::from(rate));
            return Err(Duration::from_nanos(nanos));
        }
        self.used += cost;
        Ok(())
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
        // The largest numbers do not overflow.
        let mut bucket = TokenBucket::new(NonZeroU32::MAX);
        assert_eq!(bucket.take(u32::MAX, start), Ok(()));
        assert_eq!(bucket.take(u32::MAX, start), Err(SECOND));
        assert_eq!(bucket.take(u32::MAX, start + SECOND * u32::MAX), Ok(()));
    }
}
