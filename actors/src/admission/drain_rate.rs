//! How fast a queue is worked off.

use std::time::{Duration, Instant};

/// Busy time after which the rate is measured anew: some tens of items.
const WINDOW: Duration = Duration::from_millis(100);

/// The work that is done in a second while more of it waits, both as it was estimated: estimates
/// that are all wrong by the same factor thus give the right waits. It follows the machine: half
/// of a core does half of the work.
#[derive(Debug)]
pub(crate) struct DrainRate {
    /// Estimated nanoseconds of work a nanosecond.
    rate: f64,
    /// Since when there has been work waiting, or since the last mark.
    marked: Option<Instant>,
    /// Time with work waiting in this window.
    busy: Duration,
    /// Work done in this window.
    done: u64,
}

impl DrainRate {
    /// A rate that is taken to be `rate` until it is measured.
    pub(crate) const fn new(rate: f64) -> Self {
        Self {
            rate,
            marked: None,
            busy: Duration::ZERO,
            done: 0,
        }
    }

    /// Takes note that work of this estimated cost is done, or of none that something has changed,
    /// and whether work waits from now on.
    pub(crate) fn mark(&mut self, done: u64, is_waiting: bool, now: Instant) {
        if let Some(marked) = self.marked {
            self.busy += now.saturating_duration_since(marked);
            self.done = self.done.saturating_add(done);
        }
        self.marked = is_waiting.then_some(now);
        if self.busy >= WINDOW {
            let measured = self.done as f64 / self.busy.as_nanos() as f64;
            // Half of what was, so that one slow item does not count too much.
            self.rate = f64::midpoint(self.rate, measured);
            (self.busy, self.done) = (Duration::ZERO, 0);
        }
    }

    /// Estimated seconds of work a second.
    pub(crate) const fn per_second(&self) -> f64 {
        self.rate
    }

    /// The time in which `part` of all that is done is this much work.
    pub(crate) fn time_for(&self, work: u64, part: f64) -> Duration {
        let nanos = work as f64 / (self.rate * part).max(RATE_MIN);
        Duration::from_nanos(nanos as u64)
    }
}

/// The lowest rate: a stalled machine does not make a wait infinite.
const RATE_MIN: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn the_rate_is_that_of_the_time_with_work_waiting() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut drain = DrainRate::new(2.0);
        // Nothing waits: what is done says nothing about what could be.
        drain.mark(MILLI, false, at(500));
        assert!((drain.per_second() - 2.0).abs() < 1e-9);
        drain.mark(0, true, at(1_000));
        for item in 1..=10 {
            drain.mark(5 * MILLI, item < 10, at(1_000 + 10 * item));
        }
        // 50 ms of work in 100 ms, and 2 before.
        assert!((drain.per_second() - 1.25).abs() < 1e-9);
        assert_eq!(drain.time_for(1_000, 0.5), Duration::from_nanos(1_600));
        drain.mark(MILLI, false, at(9_000));
        assert!((drain.per_second() - 1.25).abs() < 1e-9);
        let stalled = DrainRate::new(0.0);
        assert_eq!(stalled.time_for(1, 1.0), Duration::from_nanos(1_000));
    }
}
