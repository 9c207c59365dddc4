//! Metrics of upstreams, each by its position in the configuration.

use nearhead_actors::upstream::{Fault, UpstreamState};
use nearhead_chain::remote::Check;
use prometheus::{Error, IntCounterVec, IntGaugeVec, core::Collector};

use super::exporter::Exporter;

/// The series of upstreams.
#[derive(Clone, Debug)]
pub(crate) struct NodeMetrics {
    /// `nearhead_node_dissent_total{node}`.
    dissent: IntCounterVec,
    /// `nearhead_node_faults_total{node, reason}`.
    faults: IntCounterVec,
    /// `nearhead_node_limited_total{node}`.
    limited: IntCounterVec,
    /// `nearhead_node_state{node, state}`.
    state: IntGaugeVec,
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

impl NodeMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            dissent: exporter.counters(
                "nearhead_node_dissent_total",
                "Times that a node contradicted a quorum of the nodes, or another node while no quorum agreed (each of them counts), or insisted on a chain without the finalized or a trusted block, by its position in the configuration",
                &["node"],
            )?,
            faults: exporter.counters(
                "nearhead_node_faults_total",
                "Faults of nodes, by position of the node in the configuration and by reason",
                &["node", "reason"],
            )?,
            limited: exporter.counters(
                "nearhead_node_limited_total",
                "Answers in which a node asked for fewer calls, by its position in the configuration",
                &["node"],
            )?,
            state: exporter.gauges(
                "nearhead_node_state",
                "1 for the state that a node is in, 0 for the other states",
                &["node", "state"],
            )?,
        })
    }

    /// Begins the counts of this many upstreams at zero, so that the first event of each is an
    /// increase.
    pub(crate) fn begin(&self, nodes: usize) {
        // A block that failed is counted by the check that it failed.
        let faults = Fault::ALL.iter().filter(|fault| **fault != Fault::BadBlock);
        let faults = faults.map(|fault| fault.label());
        let reasons: Vec<_> = faults
            .chain(Check::OF_BLOCKS.iter().map(|check| check.label()))
            .collect();
        for node in 0..nodes {
            let node = node.to_string();
            for counts in [&self.dissent, &self.limited] {
                let _zero = counts.with_label_values(&[&node]);
            }
            for reason in &reasons {
                let _zero = self.faults.with_label_values(&[&*node, *reason]);
            }
        }
    }

    /// Counts an answer in which an upstream asks for fewer calls.
    pub(crate) fn limited(&self, node: usize) {
        let node = node.to_string();
        self.limited.with_label_values(&[&node]).inc();
    }

    /// Counts a fault of an upstream.
    pub(crate) fn failed(&self, node: usize, reason: &'static str) {
        let node = node.to_string();
        self.faults.with_label_values(&[&node, reason]).inc();
    }

    /// Counts a contradiction between an upstream and a quorum.
    pub(crate) fn dissented(&self, node: usize) {
        let node = node.to_string();
        self.dissent.with_label_values(&[&node]).inc();
    }

    /// Sets the state of an upstream.
    pub(crate) fn set_state(&self, node: usize, state: &str) {
        let node = node.to_string();
        for (other, _) in UpstreamState::ALL {
            let is_it = other.label() == state;
            let gauge = self.state.with_label_values(&[&node, other.label()]);
            gauge.set(i64::from(is_it));
        }
    }

    /// What is known of the upstream at this position.
    pub(crate) fn of(&self, node: usize) -> NodeCounts {
        let node = node.to_string();
        let count = |counts: &IntCounterVec| {
            let series = series_of(counts, &node).into_iter();
            series.map(|(_, value)| value as u64).sum()
        };
        let states = series_of(&self.state, &node).into_iter();
        let faults = series_of(&self.faults, &node).into_iter();
        let faults = faults.map(|(reason, value)| (reason, value as u64));
        let mut faults: Vec<_> = faults.filter(|(_, count)| *count > 0).collect();
        faults.sort();
        NodeCounts {
            state: states
                .into_iter()
                .find_map(|(state, value)| (value == 1.0).then_some(state)),
            dissent: count(&self.dissent),
            limited: count(&self.limited),
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
    use super::*;

    #[test]
    fn a_node_has_its_own_counts() {
        let metrics = NodeMetrics::new(&Exporter::default()).unwrap();
        metrics.begin(2);
        assert_eq!(metrics.of(0), NodeCounts::default());
        metrics.set_state(0, "lagging");
        metrics.set_state(1, "live");
        metrics.failed(1, "timeout");
        metrics.failed(1, "timeout");
        metrics.failed(1, "block_hash");
        metrics.limited(1);
        metrics.dissented(0);
        let node = |state: &str, dissent, limited, faults: &[(&str, u64)]| NodeCounts {
            state: Some(state.to_owned()),
            dissent,
            limited,
            faults: faults
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        };
        assert_eq!(metrics.of(0), node("lagging", 1, 0, &[]));
        assert_eq!(
            metrics.of(1),
            node("live", 0, 1, &[("block_hash", 1), ("timeout", 2)])
        );
        assert_eq!(metrics.of(2), NodeCounts::default());
    }
}
