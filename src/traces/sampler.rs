//! Which requests are traced. The time is passed in.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
    num::NonZeroU32,
    time::Instant,
};

use nearhead_actors::budget::TokenBucket;
use parking_lot::Mutex;

use crate::limits::PARENT_TRACES_PER_SECOND;

/// Decides by the flag of a client, as long as clients leave it at that, and else by chance.
pub(super) struct Sampler {
    /// The share of requests that are traced by chance.
    ratio: f64,
    /// Traces that clients may still demand.
    demanded: Mutex<TokenBucket>,
}

impl Sampler {
    pub(super) fn new(ratio: f64) -> Self {
        let demanded = NonZeroU32::new(PARENT_TRACES_PER_SECOND).unwrap_or(NonZeroU32::MIN);
        Self {
            ratio,
            demanded: Mutex::new(TokenBucket::new(demanded)),
        }
    }

    /// Whether a request is traced whose client does or does not record its own span, or says
    /// nothing about that. A client that demands more than its share is one that says nothing.
    pub(super) fn decide(
        &self,
        is_parent_sampled: Option<bool>,
        now: impl Fn() -> Instant,
    ) -> bool {
        match is_parent_sampled {
            Some(false) => false,
            Some(true) if self.demanded.lock().take(1, now()).is_ok() => true,
            Some(true) | None => random() < self.ratio,
        }
    }
}

/// A number from 0 to below 1 (splitmix64, one sequence a thread). Nothing has to be secret here.
fn random() -> f64 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
    }
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_share_of_requests_is_traced() {
        let now = Instant::now();
        for (ratio, expected) in [(0.0, 0..=0), (0.01, 800..=1_200), (1.0, 100_000..=100_000)] {
            let sampler = Sampler::new(ratio);
            let traced = (0..100_000)
                .filter(|_| sampler.decide(None, || now))
                .count();
            assert!(expected.contains(&traced), "{ratio}: {traced}");
        }
    }

    #[test]
    fn what_clients_demand_is_bounded() {
        let (sampler, now) = (Sampler::new(0.0), Instant::now());
        let most = PARENT_TRACES_PER_SECOND as usize;
        let demanded = |now| {
            let demands = (0..10 * most).filter(|_| sampler.decide(Some(true), || now));
            demands.count()
        };
        assert_eq!((demanded(now), demanded(now)), (most, 0));
        assert_eq!(demanded(now + Duration::from_secs(1)), most);
        let all = Sampler::new(1.0);
        assert!(
            !all.decide(Some(false), || now),
            "a client that records nothing"
        );
    }
}
