//! Permits that tenants share, so that none of them takes what the others need.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{cost::RETRY_AFTER_MAX, hold_time::HoldTime};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
};

/// How much of something each tenant has, of all that there is. It never waits.
///
/// A tenant may take as long as a quarter is left. That quarter is for tenants that come next, and
/// for those that have less than their share of the whole, by weight among those that have some:
/// what is in use cannot be taken away, so it is not all given to one that is alone.
#[derive(Debug)]
pub struct FairLimit {
    most: usize,
    used: usize,
    /// The sum of the weights of the tenants that have some.
    weights: u128,
    tenants: HashMap<u64, Holding>,
    hold: HoldTime,
}

/// A tenant's share is at least one part in so many, however low its weight is.
const LEAST_PART: usize = 64;

/// What one tenant has. One that has nothing is not here.
#[derive(Debug)]
struct Holding {
    weight: u32,
    used: usize,
}

impl FairLimit {
    /// All of `most` is free.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            used: 0,
            weights: 0,
            tenants: HashMap::new(),
            hold: HoldTime::default(),
        }
    }

    /// Gives a tenant so much more.
    ///
    /// # Errors
    /// It may not have that now: the time until enough has been given back, as it was measured.
    pub fn take(&mut self, share: Share, amount: usize, now: Instant) -> Result<(), Duration> {
        let weight = share.weight().get();
        let (own, before) = match self.tenants.get(&share.id()) {
            Some(holding) => (holding.used, holding.weight),
            None => (0, 0),
        };
        let used = self.used.saturating_add(amount);
        let weights = self.weights - u128::from(before) + u128::from(weight);
        let open = self.most - self.most / 4;
        let fair = self.most as u128 * u128::from(weight) / weights;
        let fair = fair.max((self.most / LEAST_PART) as u128);
        let is_within_share =
            weights > u128::from(weight) && own.saturating_add(amount) as u128 <= fair;
        let allowed = if is_within_share { self.most } else { open };
        self.hold.mark(self.used, now);
        if used > allowed {
            return Err(match amount > self.most {
                true => RETRY_AFTER_MAX,
                false => self.hold.time_for(used - allowed, self.used),
            });
        }
        if amount > 0 {
            self.used = used;
            self.weights = weights;
            let holding = Holding {
                weight,
                used: own + amount,
            };
            self.tenants.insert(share.id(), holding);
        }
        Ok(())
    }

    /// Takes back what a tenant was given.
    pub fn give_back(&mut self, tenant: Share, amount: usize, now: Instant) {
        if let Some(holding) = self.tenants.get_mut(&tenant.id()) {
            let amount = amount.min(holding.used);
            self.hold.mark(self.used, now);
            self.hold.released(amount);
            holding.used -= amount;
            self.used -= amount;
            if holding.used == 0 {
                self.weights -= u128::from(holding.weight);
                self.tenants.remove(&tenant.id());
            }
        }
    }

    /// How much all tenants have.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }
}

/// Permits of one kind that tenants share; clones share them too.
#[derive(Clone, Debug)]
pub struct FairPermits {
    most: usize,
    limit: Arc<Mutex<FairLimit>>,
}

/// The right of a tenant to have one request, or one account, in progress. Dropping it gives it
/// back.
#[derive(Debug)]
pub struct FairPermit {
    limit: Arc<Mutex<FairLimit>>,
    share: Share,
}

impl FairPermits {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            limit: Arc::new(Mutex::new(FairLimit::new(most))),
        }
    }

    /// Takes a permit for a tenant; never waits.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: none is free for it.
    pub(crate) fn take(&self, share: Share) -> Reply<FairPermit> {
        let taken = self.limit.lock().take(share, 1, Instant::now());
        taken.map_err(|retry_after| QueryError::Overloaded { retry_after })?;
        Ok(FairPermit {
            limit: Arc::clone(&self.limit),
            share,
        })
    }

    /// The number of permits taken.
    #[must_use]
    pub(crate) fn in_use(&self) -> usize {
        self.limit.lock().used()
    }

    /// The number of free permits.
    #[must_use]
    pub(crate) fn available(&self) -> usize {
        self.most - self.in_use()
    }
}

impl FairPermit {
    /// Whose it is.
    pub(crate) const fn share(&self) -> Share {
        self.share
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        self.limit.lock().give_back(self.share, 1, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    fn of_weight(weight: u32) -> Share {
        let weight = NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN);
        Share::default().with_weight(weight)
    }

    /// A limit at one moment.
    struct Limit {
        limit: FairLimit,
        now: Instant,
    }

    impl Limit {
        fn new(most: usize) -> Self {
            Self {
                limit: FairLimit::new(most),
                now: Instant::now(),
            }
        }

        fn take(&mut self, share: Share, amount: usize) -> bool {
            self.limit.take(share, amount, self.now).is_ok()
        }

        fn give_back(&mut self, share: Share, amount: usize) {
            self.limit.give_back(share, amount, self.now);
        }
    }

    /// How many of 100 each tenant gets if each in turn takes all that it may.
    fn check(weights: &[u32], expected: &[usize]) {
        let mut limit = Limit::new(100);
        let taken = weights.iter().map(|weight| {
            let share = of_weight(*weight);
            std::iter::repeat_with(|| limit.take(share, 1))
                .take_while(|is_given| *is_given)
                .count()
        });
        assert_eq!(taken.collect::<Vec<_>>(), expected, "{weights:?}");
    }

    #[test]
    fn a_tenant_leaves_room_for_the_next_ones() {
        check(&[1], &[75]);
        check(&[1, 1], &[75, 25]);
        check(&[1, 1, 1], &[75, 25, 0]);
    }

    #[test]
    fn one_that_has_more_than_its_share_gets_no_more_while_little_is_left() {
        let mut limit = Limit::new(100);
        let (flood, other) = (of_weight(1), of_weight(1));
        assert!(limit.take(flood, 70));
        assert!(limit.take(other, 1));
        assert!(limit.take(flood, 4) && !limit.take(flood, 1));
        assert!(limit.take(other, 25) && !limit.take(other, 1));
        // What the flood gives back goes to the other one, up to its half.
        limit.give_back(flood, 24);
        assert!(!limit.take(flood, 1));
        assert!(limit.take(other, 24) && !limit.take(other, 1));
        assert_eq!(limit.limit.used(), 100);
    }

    #[test]
    fn weights_decide_about_shares() {
        let mut limit = Limit::new(100);
        let (heavy, light) = (of_weight(3), of_weight(1));
        assert!(limit.take(light, 25) && limit.take(heavy, 50));
        assert!(!limit.take(light, 1) && limit.take(heavy, 25));
        assert_eq!(limit.limit.used(), 100);
        let mut limit = Limit::new(128);
        let (heavy, light) = (of_weight(1_000), of_weight(1));
        assert!(limit.take(heavy, 96));
        assert!(limit.take(light, 2) && !limit.take(light, 1));
    }

    #[test]
    fn permits_are_given_back() {
        let permits = FairPermits::new(2);
        let share = Share::default();
        let (first, second) = (permits.take(share), permits.take(share));
        assert!(first.is_ok() && second.is_ok());
        let refused = permits.take(share);
        assert!(matches!(refused, Err(QueryError::Overloaded { .. })));
        assert_eq!((permits.in_use(), permits.available()), (2, 0));
        drop((first, second));
        assert_eq!((permits.in_use(), permits.available()), (0, 2));
    }

    /// A refusal says when enough will have been given back: for a tenant that is beyond its share,
    /// that is when a quarter is free.
    #[test]
    fn refusals_say_when_enough_is_given_back() {
        let mut limit = FairLimit::new(100);
        let (flood, other) = (of_weight(1), of_weight(1));
        let began = Instant::now();
        let at = |tenth: u64| began + Duration::from_millis(100 * tenth);
        assert!(limit.take(flood, 75, at(0)).is_ok());
        assert!(limit.take(other, 25, at(0)).is_ok());
        // 10 a second.
        for tenth in 1..=100 {
            limit.give_back(other, 1, at(tenth));
            assert!(limit.take(other, 1, at(tenth)).is_ok());
        }
        let waits = [(flood, 1), (flood, 11), (other, 1), (other, 101)].map(|(share, amount)| {
            let refused = limit.take(share, amount, at(100));
            refused.map_or_else(|wait| wait.as_secs_f64().ceil(), |()| 0.0)
        });
        assert_eq!(waits, [3.0, 4.0, 1.0, RETRY_AFTER_MAX.as_secs_f64()]);
    }

    proptest! {
        /// Whatever happens, no more is used than there is, and sums are those of the tenants.
        #[test]
        fn the_sums_are_right(
            steps in prop::collection::vec((0..4usize, 0..40usize, any::<bool>()), 1..200),
        ) {
            let mut limit = Limit::new(100);
            let shares = [1, 1, 2, 7].map(of_weight);
            let mut held = [0usize; 4];
            for (tenant, amount, is_taken) in steps {
                if is_taken {
                    let is_first = held.iter().sum::<usize>() == 0;
                    let is_given = limit.take(shares[tenant], amount);
                    prop_assert!(is_given || !is_first, "alone, three quarters are there");
                    held[tenant] += if is_given { amount } else { 0 };
                } else {
                    let amount = amount.min(held[tenant]);
                    limit.give_back(shares[tenant], amount);
                    held[tenant] -= amount;
                }
                prop_assert_eq!(limit.limit.used(), held.iter().sum::<usize>());
                prop_assert!(limit.limit.used() <= 100);
                let holders = held.iter().filter(|held| **held > 0).count();
                prop_assert_eq!(limit.limit.tenants.len(), holders);
                let weights = limit.limit.tenants.values().map(|one| u128::from(one.weight));
                let weights: u128 = weights.sum();
                prop_assert_eq!(limit.limit.weights, weights);
            }
        }
    }
}
