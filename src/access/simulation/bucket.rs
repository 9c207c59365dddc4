//! A token bucket, without regard to speed.

/// A token.
pub(super) const TOKEN: i128 = 1_000_000_000;

/// A token bucket, in billionths of tokens; a debt is negative.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) rate: i128,
    burst: i128,
    pub(super) left: i128,
    at: u64,
}

impl Bucket {
    /// A full bucket, with a rate a second and a burst.
    pub(super) fn new((rate, burst): (u32, u32), now: u64) -> Self {
        let burst = i128::from(burst) * TOKEN;
        Self {
            rate: rate.into(),
            burst,
            left: burst,
            at: now,
        }
    }

    /// Adds what has come in since the last call; times are in milliseconds.
    pub(super) fn fill(&mut self, now: u64) {
        let nanos = i128::from(now - self.at) * 1_000_000;
        self.left = self.burst.min(self.left + nanos * self.rate);
        self.at = now;
    }

    /// Seconds until there are as many tokens, or until it is full; 0 if that is now.
    pub(super) fn wait(&self, tokens: u32) -> u64 {
        let wanted = self.burst.min(i128::from(tokens) * TOKEN);
        self.seconds_to(wanted)
    }

    /// Seconds until it has as much; 0 if that is now.
    fn seconds_to(&self, wanted: i128) -> u64 {
        let nanos = (wanted - self.left).max(0).div_euclid(self.rate)
            + i128::from((wanted - self.left).max(0).rem_euclid(self.rate) > 0);
        u64::try_from(nanos)
            .unwrap_or(u64::MAX)
            .div_ceil(1_000_000_000)
    }

    /// How many tokens it can hold and has, and seconds until it is full.
    pub(super) fn remaining(&self) -> (u32, u32, u64) {
        let whole = |tokens: i128| u32::try_from(tokens.max(0) / TOKEN).unwrap_or(u32::MAX);
        (
            whole(self.burst),
            whole(self.left),
            self.seconds_to(self.burst),
        )
    }
}
