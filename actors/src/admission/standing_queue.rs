//! How long work may wait in a queue: a burst longer than a queue that stands.

use std::time::{Duration, Instant};

/// How long the items of a queue may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// The longest wait, as in a burst.
    pub(crate) longest: Duration,
    /// The longest wait once the queue stands.
    pub(crate) target: Duration,
    /// How long every wait has to be above the target before the queue is said to stand, and below
    /// half of it before the queue no longer counts as standing.
    pub(crate) interval: Duration,
}

impl WaitLimits {
    /// Items wait for as long as they have to.
    pub(super) const NONE: Self = Self {
        longest: Duration::MAX,
        target: Duration::MAX,
        interval: Duration::MAX,
    };
}

/// Whether a queue stands: more is offered than is served, so a longer wait serves nobody. It would
/// only make every answer late.
///
/// That every wait of an interval is long is the test of CoDel (RFC 8289): a burst ends within it.
/// What follows is not CoDel's: requests do not slow down when some are refused, as TCP does, so
/// all that would wait for longer than the target are refused. And long waits do not suffice:
/// thousands of clients that each wait for their answer before they send another request have long
/// waits too, yet they offer what is served. To refuse some would only add to the work.
#[derive(Clone, Copy, Debug)]
pub(super) enum StandingQueue {
    /// Short waits occur.
    No,
    /// All waits have been long since then.
    Maybe {
        since: Instant,
        /// Cost of the items that were offered since, also of those that were refused.
        offered: u64,
        /// Cost of the items whose turn came since.
        served: u64,
    },
    /// It stands. The last long wait ended then.
    Yes(Instant),
}

impl StandingQueue {
    /// Records an item that is offered.
    pub(super) const fn offer(&mut self, cost: u64) {
        if let Self::Maybe { offered, .. } = self {
            *offered = offered.saturating_add(cost);
        }
    }

    /// Records an item whose turn has come; the cost of one that is late is not served.
    pub(super) fn observe(
        &mut self,
        limits: &WaitLimits,
        waited: Duration,
        served_cost: u64,
        now: Instant,
    ) {
        let is_long = waited >= limits.target;
        *self = match *self {
            Self::No if is_long => Self::maybe(now),
            Self::Maybe {
                since,
                offered,
                served,
            } if is_long => {
                let served = served.saturating_add(served_cost);
                match limits.is_interval(since, now) {
                    true if exceeds(offered, served) => Self::Yes(now),
                    true => Self::maybe(now),
                    false => Self::Maybe {
                        since,
                        offered,
                        served,
                    },
                }
            }
            // Where items are refused at the target, the others wait for less than that.
            Self::Yes(_) if waited >= limits.target / 2 => Self::Yes(now),
            Self::Yes(last) if !limits.is_interval(last, now) => *self,
            _ => Self::No,
        };
    }

    /// The longest wait now.
    pub(super) const fn wait_max(self, limits: &WaitLimits) -> Duration {
        match self {
            Self::Yes(_) => limits.target,
            Self::No | Self::Maybe { .. } => limits.longest,
        }
    }

    const fn maybe(now: Instant) -> Self {
        Self::Maybe {
            since: now,
            offered: 0,
            served: 0,
        }
    }
}

/// Whether more was offered than served, by a tenth at least: clients that wait for their answers
/// do not send in step with them.
const fn exceeds(offered: u64, served: u64) -> bool {
    offered / 11 > served / 10
}

impl WaitLimits {
    fn is_interval(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WaitLimits = WaitLimits {
        longest: Duration::from_millis(1_000),
        target: Duration::from_millis(200),
        interval: Duration::from_millis(500),
    };

    /// The longest waits after these ones: milliseconds since the start, the wait that ends then,
    /// and the cost of what was offered since the last one, where a cost of 100 is served.
    fn check(rows: &[(u64, u64, u64, u64)]) {
        let start = Instant::now();
        let mut standing = StandingQueue::No;
        for (at, waited, offered, longest) in rows.iter().copied() {
            let now = start + Duration::from_millis(at);
            standing.offer(offered);
            standing.observe(&LIMITS, Duration::from_millis(waited), 100, now);
            let found = standing.wait_max(&LIMITS);
            assert_eq!(found, Duration::from_millis(longest), "at {at}");
        }
    }

    #[test]
    fn a_burst_may_wait_and_a_standing_queue_may_not() {
        check(&[
            (0, 10, 200, 1_000),
            (100, 300, 200, 1_000),
            (500, 700, 200, 1_000),
            // One short wait: it was a burst.
            (550, 199, 200, 1_000),
            (600, 200, 200, 1_000),
            (1_000, 900, 200, 1_000),
            (1_099, 900, 200, 1_000),
            (1_100, 900, 200, 200),
            // It stands as long as half of the target occurs in every interval.
            (1_200, 99, 0, 200),
            (1_500, 100, 0, 200),
            (1_999, 99, 0, 200),
            (2_000, 99, 0, 1_000),
        ]);
    }

    #[test]
    fn a_queue_of_clients_that_wait_for_their_answers_does_not_stand() {
        check(&[
            (0, 600, 5_000, 1_000),
            (300, 600, 100, 1_000),
            (600, 600, 109, 1_000),
            // More is offered from now on.
            (900, 600, 125, 1_000),
            (1_100, 600, 125, 200),
        ]);
    }
}
