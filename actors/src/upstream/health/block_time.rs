//! How often the chain makes a block.

use std::{collections::VecDeque, time::Duration};

/// Intervals whose median is the estimate: few enough to follow a chain that changes its block
/// time, enough to ignore a missed slot or the burst after one.
const INTERVALS: usize = 15;

/// Bounds of the estimate: waits and polling intervals derive from it, and headers may state any
/// time.
const MIN: Duration = Duration::from_millis(200);
const MAX: Duration = Duration::from_secs(60);

/// The estimate before two headers are known: short enough for a quick start, long enough for a
/// distant upstream to answer.
const UNKNOWN: Duration = Duration::from_secs(3);

/// Number of intervals between arrivals that replace the timestamps of headers. The first interval
/// may have any length, so one is not enough.
const ARRIVALS: usize = 5;

/// An estimate of the chain's block time.
///
/// Headers have whole seconds, too coarse for a chain of several blocks a second. Once enough
/// blocks have arrived, the estimate is the median interval between arrivals.
#[derive(Clone, Debug)]
pub(crate) struct BlockTime {
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
    pub(crate) const fn get(&self) -> Duration {
        self.estimate
    }

    /// The estimate, once it is more than a guess.
    pub(crate) fn known(&self) -> Option<Duration> {
        let is_known = self.is_learned || !self.intervals.is_empty();
        is_known.then_some(self.estimate)
    }

    /// Learns from the number and timestamp of two blocks, until enough blocks have arrived.
    pub(crate) fn learn(&mut self, older: (u64, u64), newer: (u64, u64)) {
        let blocks = newer.0.saturating_sub(older.0);
        let seconds = newer.1.saturating_sub(older.1);
        // Blocks within one second are fast, but nothing says how fast.
        if self.intervals.len() < ARRIVALS && blocks > 0 && seconds > 0 {
            // A header may state any timestamp.
            let seconds = (seconds as f64 / blocks as f64).min(MAX.as_secs_f64());
            self.estimate = Duration::from_secs_f64(seconds).clamp(MIN, MAX);
            self.is_learned = true;
        }
    }

    /// Records that the head had this number at `now`. A number that is not higher than the last
    /// one is a reorg and gives no interval.
    pub(crate) fn arrived(&mut self, number: u64, now: Duration) {
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
