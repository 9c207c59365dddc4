//! What the metrics add up to, for people who read no series.

use prometheus::core::{Collector, Metric as _};

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

/// What is known of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCounts {
    /// The state that it is in, once it has one.
    pub(crate) state: Option<String>,
    /// Times that it contradicted the others.
    pub(crate) dissent: u64,
    /// Answers in which it asked for fewer calls.
    pub(crate) limited: u64,
    /// Its faults, by reason.
    pub(crate) faults: Vec<(String, u64)>,
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

    /// What is known of the upstream at this position.
    pub(crate) fn node(&self, node: usize) -> NodeCounts {
        let node = node.to_string();
        let count = |counts: &prometheus::IntCounterVec| {
            let series = series_of(counts, &node).into_iter();
            series.map(|(_, value)| value as u64).sum()
        };
        let states = series_of(&self.node_state, &node).into_iter();
        let mut faults: Vec<_> = series_of(&self.node_faults, &node)
            .into_iter()
            .map(|(reason, value)| (reason, value as u64))
            .collect();
        faults.sort();
        NodeCounts {
            state: states
                .into_iter()
                .find_map(|(state, value)| (value == 1.0).then_some(state)),
            dissent: count(&self.node_dissent),
            limited: count(&self.node_limited),
            faults,
        }
    }
}

/// The series of an upstream: the value of the other label, if there is one, and that of the
/// series.
fn series_of(collector: &impl Collector, node: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for family in collector.collect() {
        for metric in family.get_metric() {
            let mut other = String::new();
            let mut is_of_node = false;
            for label in metric.get_label() {
                match label.name() {
                    "node" => is_of_node = label.value() == node,
                    _ => label.value().clone_into(&mut other),
                }
            }
            if is_of_node {
                // A series is one or the other.
                let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
                found.push((other, value));
            }
        }
    }
    found
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

    #[test]
    fn a_node_has_its_own_counts() {
        let metrics = Metrics::new([]).unwrap();
        metrics.count_nodes(2);
        assert_eq!(metrics.node(0), NodeCounts::default());
        metrics.set_node_state(0, "lagging");
        metrics.set_node_state(1, "live");
        metrics.node_failed(1, "timeout");
        metrics.node_failed(1, "timeout");
        metrics.node_failed(1, "bad_block");
        metrics.node_limited(1);
        metrics.node_dissented(0);
        let node = |state: &str, dissent, limited, faults: &[(&str, u64)]| NodeCounts {
            state: Some(state.to_owned()),
            dissent,
            limited,
            faults: faults
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        };
        assert_eq!(metrics.node(0), node("lagging", 1, 0, &[]));
        assert_eq!(
            metrics.node(1),
            node("live", 0, 1, &[("bad_block", 1), ("timeout", 2)])
        );
        assert_eq!(metrics.node(2), NodeCounts::default());
    }
}
