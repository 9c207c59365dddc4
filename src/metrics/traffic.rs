//! What the metrics add up to, for people who read no series.

use prometheus::core::Metric as _;

use super::{LATENCY_SECONDS, Metrics, Outcome};

/// JSON-RPC requests since the start, of all methods together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// By outcome, in the order of [`Outcome::ALL`].
    pub(crate) outcomes: [u64; Outcome::ALL.len()],
    /// By the bucket that their time falls into; the last one is for those that took longer than
    /// every bound.
    latencies: [u64; LATENCY_SECONDS.len() + 1],
}

impl Traffic {
    /// What came since `before`, which was read earlier.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut this = self.clone();
        let outcomes = this.outcomes.iter_mut().zip(before.outcomes);
        let latencies = this.latencies.iter_mut().zip(before.latencies);
        for (count, before) in outcomes.chain(latencies) {
            *count = count.saturating_sub(before);
        }
        this
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// The time in seconds within which this share of the requests was answered, interpolated
    /// within its bucket; `None` without requests.
    pub(crate) fn quantile_seconds(&self, share: f64) -> Option<f64> {
        let all: u64 = self.latencies.iter().sum();
        if all == 0 {
            return None;
        }
        let wanted = share * all as f64;
        let mut below = 0;
        let mut lower = 0.0;
        for (count, upper) in self.latencies.iter().zip(LATENCY_SECONDS) {
            let up_to = below + count;
            if *count > 0 && up_to as f64 >= wanted {
                let part = (wanted - below as f64) / *count as f64;
                return Some(lower + (upper - lower) * part.clamp(0.0, 1.0));
            }
            (below, lower) = (up_to, upper);
        }
        // It took longer than the largest bound, nobody knows how long.
        Some(lower)
    }
}

impl Metrics {
    /// The requests so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = Traffic::default();
        for method in self.methods.iter().chain([&*self.other]) {
            let outcomes = traffic.outcomes.iter_mut().zip(&method.outcomes);
            for (sum, counter) in outcomes {
                *sum += counter.get();
            }
            let metric = method.latency.metric();
            let histogram = metric.get_histogram();
            let mut below = 0;
            let cumulative = histogram.get_bucket().iter();
            let cumulative = cumulative.map(|bucket| bucket.cumulative_count());
            let all = cumulative.chain([histogram.get_sample_count()]);
            for (sum, up_to) in traffic.latencies.iter_mut().zip(all) {
                *sum += up_to.saturating_sub(below);
                below = up_to;
            }
        }
        traffic
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn traffic_is_the_sum_of_all_methods() {
        let metrics = Metrics::new(["a", "b"]).unwrap();
        let before = metrics.traffic();
        assert_eq!((before.requests(), before.quantile_seconds(0.5)), (0, None));
        let answers = [
            (Some(0), Outcome::Ok, 15),
            (Some(1), Outcome::Ok, 15),
            (Some(1), Outcome::Timeout, 400_000),
            (None, Outcome::Invalid, 20_000_000),
        ];
        for (method, outcome, micros) in answers {
            let elapsed = Duration::from_micros(micros);
            metrics.method(method).answered(outcome, elapsed);
        }
        let traffic = metrics.traffic();
        assert_eq!(traffic.requests(), 4);
        assert_eq!(traffic.outcomes[Outcome::Ok as usize], 2);
        assert_eq!(traffic.outcomes[Outcome::Timeout as usize], 1);
        for (share, expected) in [(0.25, 0.000_01), (0.5, 0.000_02), (0.75, 0.5), (0.99, 10.0)] {
            let found = traffic.quantile_seconds(share).unwrap();
            assert!((found - expected).abs() < 1e-9, "{share}: {found}");
        }
        assert_eq!(traffic.since(&before), traffic);
        assert_eq!(traffic.since(&traffic), Traffic::default());
    }
}
