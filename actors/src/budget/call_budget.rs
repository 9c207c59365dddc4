//! What the reads of one tenant may cause at upstreams.

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::TokenBucket;
use crate::share::Share;

/// The calls a second that the reads of one tenant may cause at upstreams, and its share of the
/// accounts whose state is awaited at once. Clones share it.
///
/// Without it, a tenant whose reads use up a provider's quota keeps the others from reading.
#[derive(Clone, Debug)]
pub struct CallBudget {
    share: Share,
    /// `None`: no limit.
    calls: Option<Arc<Mutex<TokenBucket>>>,
}

/// A read would cause more calls than its tenant may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("over the tenant's budget of calls to nodes")]
pub struct OverBudget {
    /// The time until it may, if it causes no others meanwhile.
    pub(crate) retry_after: Duration,
}

impl Default for CallBudget {
    fn default() -> Self {
        Self::new(None, NonZeroU32::MIN)
    }
}

impl CallBudget {
    /// The budget of another tenant: this many calls a second (`None` is unlimited), and its weight
    /// where tenants compete.
    #[must_use]
    pub fn new(calls_per_second: Option<NonZeroU32>, weight: NonZeroU32) -> Self {
        let bucket = |rate| Arc::new(Mutex::new(TokenBucket::new(rate)));
        Self {
            share: Share::default().with_weight(weight),
            calls: calls_per_second.map(bucket),
        }
    }

    /// The same tenant's budget with other limits. It is the same tenant in all queues, and keeps
    /// the bucket if the rate is the same.
    #[must_use]
    pub fn with_limits(&self, calls_per_second: Option<NonZeroU32>, weight: NonZeroU32) -> Self {
        let calls = match self.rate() == calls_per_second {
            true => self.calls.clone(),
            false => Self::new(calls_per_second, weight).calls,
        };
        Self {
            share: self.share.with_weight(weight),
            calls,
        }
    }

    /// The tenant's share of what all tenants use together.
    #[must_use]
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Takes this many calls. A read that needs more than a second's worth is let in when the whole
    /// second is free.
    ///
    /// # Errors
    /// [`OverBudget`]: fewer are left. Nothing is taken.
    pub(crate) fn take_calls(&self, calls: usize, now: Instant) -> Result<(), OverBudget> {
        let Some(bucket) = self.calls.as_ref().filter(|_| calls > 0) else {
            return Ok(());
        };
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let taken = bucket.lock().take(calls, now);
        taken.map_err(|retry_after| OverBudget { retry_after })
    }

    fn rate(&self) -> Option<NonZeroU32> {
        let bucket = self.calls.as_ref()?;
        Some(bucket.lock().rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Option<NonZeroU32> = NonZeroU32::new(10);
    const ONE: NonZeroU32 = NonZeroU32::MIN;

    #[test]
    fn other_limits_are_those_of_the_same_tenant() {
        let budget = CallBudget::default();
        assert_eq!(budget.with_limits(RATE, ONE).share(), budget.share());
        let three = NonZeroU32::new(3).unwrap_or(ONE);
        let weighted = budget.with_limits(None, three).share();
        assert_eq!(
            (weighted.id(), weighted.weight()),
            (budget.share().id(), three)
        );
        assert_ne!(CallBudget::default().share(), budget.share());
    }

    #[test]
    fn calls_a_second_are_bounded() {
        let (budget, now) = (CallBudget::new(RATE, ONE), Instant::now());
        assert_eq!(budget.take_calls(7, now), Ok(()));
        let after = |millis| {
            let retry_after = Duration::from_millis(millis);
            Err(OverBudget { retry_after })
        };
        assert_eq!(budget.take_calls(4, now), after(100));
        assert_eq!(budget.take_calls(3, now), Ok(()));
        let later = now + Duration::from_secs(1);
        // A read of many accounts is possible, and paid for afterwards.
        assert_eq!(budget.take_calls(1_024, later), Ok(()));
        let later = later + Duration::from_secs(100);
        assert_eq!(budget.take_calls(1, later), after(1_500));
        // The same rate keeps the bucket, another one begins with a full bucket.
        assert_eq!(
            budget.with_limits(RATE, ONE).take_calls(1, later),
            after(1_500)
        );
        let faster = budget.with_limits(NonZeroU32::new(20), ONE);
        assert_eq!(faster.take_calls(20, later), Ok(()));
        let unlimited = budget.with_limits(None, ONE);
        assert_eq!(unlimited.take_calls(usize::MAX, later), Ok(()));
    }
}
