//! What clients asked for in the last minute.

use std::{
    cell::RefCell,
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::metrics::Traffic;

/// How long a sample counts.
const WINDOW: Duration = Duration::from_secs(60);

/// How often a sample is taken.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// Most samples: those of a minute, and the one before it.
const SAMPLES_MAX: usize = 13;

/// Samples of the traffic, taken from time to time.
#[derive(Debug, Default)]
pub(super) struct RecentTraffic(RefCell<VecDeque<(Instant, Traffic)>>);

impl RecentTraffic {
    /// Adds a sample.
    pub(super) fn add(&self, now: Instant, traffic: Traffic) {
        let mut samples = self.0.borrow_mut();
        if samples.len() >= SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back((now, traffic));
    }

    /// The traffic of the last minute, or since the first sample, and how long that is.
    pub(super) fn until(&self, now: Instant, traffic: &Traffic) -> (Duration, Traffic) {
        let samples = self.0.borrow();
        // A sample that is a little too old, because a tick was late, is better than none.
        let from = samples
            .iter()
            .find(|(at, _)| now.saturating_duration_since(*at) < WINDOW + SAMPLE_EVERY);
        match from {
            Some((at, before)) => (now.saturating_duration_since(*at), traffic.since(before)),
            None => (Duration::ZERO, Traffic::default()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, Outcome};

    #[test]
    fn a_minute_counts() {
        let metrics = Metrics::new([]).unwrap();
        let recent = RecentTraffic::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let ask = |now| {
            let (period, traffic) = recent.until(now, &metrics.traffic());
            (period.as_secs(), traffic.requests())
        };
        assert_eq!(ask(at(0)), (0, 0));
        for seconds in (0..300).step_by(5) {
            recent.add(at(seconds), metrics.traffic());
            let answered = metrics.method(None);
            answered.answered(Outcome::Ok, Duration::ZERO);
            assert_eq!(ask(at(seconds)).1, (seconds / 5 + 1).min(13));
        }
        assert_eq!(ask(at(296)), (61, 13));
        assert_eq!(ask(at(900)), (0, 0), "no tick for long");
    }
}
