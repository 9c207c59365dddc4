//! How fast a queue is drained.

use std::time::{Duration, Instant};

/// Busy time after which the rate is measured again: some tens of items.
const WINDOW: Duration = Duration::from_millis(100);

/// The work that is done in a second while more of it waits, both as it was estimated: estimates
/// that are all wrong by the same factor thus give the right waits. It follows the machine: half
/// of a core does half of the work.
#[derive(Debug)]
pub(crate) struct DrainRate {
    /// Estimated nanoseconds of work a nanosecond.
    rate: f64,
    /// The last mark, if work has been waiting since.
    marked: Option<Instant>,
    /// Time with work waiting, since the start.
    busy: Duration,
    /// What `busy` was when this window began.
    window_start: Duration,
    /// Work done in this window.
    done: f64,
}

impl DrainRate {
    /// A rate that is taken to be `rate` until it is measured.
    pub(crate) const fn new(rate: f64) -> Self {
        Self {
            rate,
            marked: None,
            busy: Duration::ZERO,
            window_start: Duration::ZERO,
            done: 0.0,
        }
    }

    /// Records whether work waits from now on. Every change of the queue is a mark.
    pub(crate) fn mark(&mut self, is_waiting: bool, now: Instant) {
        if let Some(marked) = self.marked {
            self.busy += now.saturating_duration_since(marked);
        }
        self.marked = is_waiting.then_some(now);
    }

    /// The time with work waiting, up to the last mark. It never goes back.
    pub(crate) const fn busy(&self) -> Duration {
        self.busy
    }

    /// Records work that is done up to the last mark: its estimated cost, how long it ran, and what
    /// [`busy`](Self::busy) was when it began. Only the part that ran while other work waited
    /// counts.
    ///
    /// A window ends only here: until something is done, that nothing is done yet may say that its
    /// items are long, and not that the rate is low.
    pub(crate) fn finished(&mut self, estimated: u64, ran: Duration, began: Duration) {
        let overlap = self.busy.saturating_sub(began);
        self.done += match ran.is_zero() {
            true => estimated as f64,
            false => estimated as f64 * overlap.div_duration_f64(ran).min(1.0),
        };
        let window = self.busy.saturating_sub(self.window_start);
        if window >= WINDOW && self.done > 0.0 {
            let measured = self.done / window.as_nanos() as f64;
            // Half of what was, so that one slow item does not count too much.
            self.rate = f64::midpoint(self.rate, measured);
            (self.window_start, self.done) = (self.busy, 0.0);
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

    fn near(rate: f64, expected: f64) -> bool {
        (rate - expected).abs() < 1e-9
    }

    #[test]
    fn the_rate_is_that_of_the_time_with_work_waiting() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let millis = Duration::from_millis;
        let mut drain = DrainRate::new(2.0);
        // Nothing waits: what is done says nothing about what could be.
        drain.mark(false, at(500));
        drain.finished(MILLI, millis(1), Duration::ZERO);
        assert!(near(drain.per_second(), 2.0));
        drain.mark(true, at(1_000));
        for item in 1..=10 {
            let began = drain.busy();
            drain.mark(item < 10, at(1_000 + 10 * item));
            drain.finished(5 * MILLI, millis(10), began);
        }
        // 50 ms of work in 100 ms, and 2 before.
        assert!(near(drain.per_second(), 1.25));
        assert_eq!(drain.time_for(1_000, 0.5), Duration::from_nanos(1_600));
        let began = drain.busy();
        drain.mark(false, at(9_000));
        drain.finished(MILLI, millis(1), began);
        assert!(near(drain.per_second(), 1.25));
        let stalled = DrainRate::new(0.0);
        assert_eq!(stalled.time_for(1, 1.0), Duration::from_nanos(1_000));
    }

    #[test]
    fn items_longer_than_a_window_leave_the_rate() {
        let start = Instant::now();
        let millis = Duration::from_millis;
        let mut drain = DrainRate::new(1.0);
        drain.mark(true, start);
        for second in 0..3 {
            let began = drain.busy();
            for push in 1..20 {
                drain.mark(true, start + millis(1_000 * second + 50 * push));
                assert!(near(drain.per_second(), 1.0), "{drain:?}");
            }
            drain.mark(true, start + millis(1_000 * (second + 1)));
            drain.finished(1_000 * MILLI, millis(1_000), began);
            assert!(near(drain.per_second(), 1.0), "{drain:?}");
        }
        // Something waits only at the end of the next one: as much of it counts.
        drain.mark(false, start + millis(3_000));
        let began = drain.busy();
        drain.mark(true, start + millis(3_900));
        drain.mark(true, start + millis(4_000));
        drain.finished(1_000 * MILLI, millis(1_000), began);
        assert!(near(drain.per_second(), 1.0), "{drain:?}");
    }
}
