//! How often the chain makes a block.

use std::{collections::VecDeque, time::Duration};

/// Intervals that the estimate is the median of: few enough to follow a chain that changes its
/// pace, enough that a missed slot or a burst after one changes nothing.
const INTERVALS: usize = 15;

/// Bounds of the estimate: what follows from it, as waits and polls, is to be neither a burden nor
/// endless, whatever headers say of their time.
const MIN: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(60);

/// Estimate before there is an interval: two headers, a moment later, say more. Until then nothing
/// waits long for it, and a far upstream has the time to answer.
const UNKNOWN: Duration = Duration::from_secs(3);

/// Arrivals from which on they count for more than what headers say: the first of them may be any
/// wait.
const ARRIVALS: usize = 5;

/// The chain's block time, estimated.
///
/// Headers count whole seconds, which says little on a chain of several blocks a second: where
/// enough blocks have arrived while we watch, it is their arrivals that count.
#[derive(Clone, Debug)]
pub struct BlockTime {
    estimate: Duration,
    is_learned: bool,
    intervals: VecDeque<Duration>,
    last: Option<(u64, Duration)>,
}

impl Default for BlockTime {
    fn default() -> Self {
        Self {
            estimate: UNKNOWN,
            is_learned: false,
            intervals: VecDeque::with_capacity(INTERVALS),
            last: None,
        }
    }
}

impl BlockTime {
    /// The estimate.
    #[must_use]
    pub const fn get(&self) -> Duration {
        self.estimate
    }

    /// Tells of two blocks of the chain, by number and seconds; of use until enough have arrived.
    pub fn learn(&mut self, older: (u64, u64), newer: (u64, u64)) {
        let blocks = newer.0.saturating_sub(older.0);
        let seconds = newer.1.saturating_sub(older.1);
        // Blocks of one second say that they are fast, not how fast.
        if self.intervals.len() < ARRIVALS && blocks > 0 && seconds > 0 {
            // Seconds of a header may be anything.
            let seconds = (seconds as f64 / blocks as f64).min(MAX.as_secs_f64());
            self.estimate = Duration::from_secs_f64(seconds).clamp(MIN, MAX);
            self.is_learned = true;
        }
    }

    /// Tells that the head was of this number `now`. A lower or equal number than before is a
    /// reorg, and no interval.
    pub fn arrived(&mut self, number: u64, now: Duration) {
        let last = self.last.replace((number, now));
        let Some((last_number, last_now)) = last else {
            return;
        };
        let Some(blocks @ 1..) = number.checked_sub(last_number) else {
            return;
        };
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if self.intervals.len() == INTERVALS {
            self.intervals.pop_front();
        }
        self.intervals
            .push_back(now.saturating_sub(last_now) / blocks);
        if self.is_learned && self.intervals.len() < ARRIVALS {
            return;
        }
        let mut sorted: Vec<_> = self.intervals.iter().copied().collect();
        sorted.sort_unstable();
        self.estimate = sorted[sorted.len() / 2].clamp(MIN, MAX);
    }
}
