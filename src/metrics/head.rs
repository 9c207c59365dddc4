//! Metrics of the head: which it is, how old, and why it is that one.

use nearhead_actors::{readiness::Readiness, upstream::Choice};
use prometheus::{Error, Gauge, Histogram, IntGauge, IntGaugeVec};

use super::exporter::{Exporter, gauge};

/// Upper bounds of the head's delay in seconds: fetching and checking a block takes tens of
/// milliseconds, and more from a distant upstream.
const DELAY_SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The series of the head.
#[derive(Clone, Debug)]
pub(crate) struct HeadMetrics {
    /// `nearhead_ready`.
    ready: IntGauge,
    /// `nearhead_head_number`.
    number: IntGauge,
    /// `nearhead_head_age_seconds`.
    age_seconds: Gauge,
    /// `nearhead_head_delay_seconds`: from an announcement until the head is readable.
    pub(crate) delay: Histogram,
    /// `nearhead_head_choice{choice}`.
    choice: IntGaugeVec,
    /// `nearhead_quorum_nodes{kind}`.
    quorum_nodes: IntGaugeVec,
    /// `nearhead_header_rules`: without labels, and without a value unless there are upstreams.
    header_rules: IntGaugeVec,
}

impl HeadMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            ready: exporter.gauge(
                "nearhead_ready",
                "1 if the service is ready, as /ready says, 0 if not",
            )?,
            number: exporter.gauge(
                "nearhead_head_number",
                "Number of the newest block that is served",
            )?,
            age_seconds: exporter.float_gauge(
                "nearhead_head_age_seconds",
                "Seconds since the newest block became readable, or on a known network since its timestamp if that is longer",
            )?,
            delay: exporter.histogram(
                "nearhead_head_delay_seconds",
                "Time from a new head's announcement, by the node that gave it, until clients can read it",
                &DELAY_SECONDS,
            )?,
            choice: exporter.gauges(
                "nearhead_head_choice",
                "With source node, 1 for what is decided about the head now, 0 for the other choices",
                &["choice"],
            )?,
            quorum_nodes: exporter.gauges(
                "nearhead_quorum_nodes",
                "With source node, how many nodes agree about the head (agreeing), and how many have to (needed)",
                &["kind"],
            )?,
            header_rules: exporter.gauges(
                "nearhead_header_rules",
                "With source node, 1 if headers have to obey the rules of their fork, 0 if not",
                &[],
            )?,
        })
    }

    /// Copies what the readiness says now.
    pub(super) fn copy(&self, readiness: &Readiness) {
        let is_ready = readiness.report().reasons.is_empty();
        self.ready.set(i64::from(is_ready));
        if readiness.upstreams.is_some() {
            let gauge = self.header_rules.with_label_values::<&str>(&[]);
            gauge.set(i64::from(readiness.has_header_rules));
        }
        if let Some(snapshot) = readiness.head.load() {
            self.number.set(gauge(snapshot.head().number()));
        }
        if let Some(age) = readiness.head_age() {
            self.age_seconds.set(age.as_secs_f64());
        }
    }

    /// Sets what is decided about the head, and how many upstreams agree.
    pub(crate) fn set_choice(&self, choice: &str, agreeing: usize, needed: usize) {
        for other in Choice::ALL {
            let is_it = other.label() == choice;
            let gauge = self.choice.with_label_values(&[other.label()]);
            gauge.set(i64::from(is_it));
        }
        for (kind, nodes) in [("agreeing", agreeing), ("needed", needed)] {
            let gauge_of_kind = self.quorum_nodes.with_label_values(&[kind]);
            gauge_of_kind.set(gauge(nodes as u64));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn one_choice_is_1_at_a_time() {
        let metrics = HeadMetrics::new(&Exporter::default()).unwrap();
        let values = |gauges: &IntGaugeVec, labels: &[&'static str]| {
            let value = |label: &&'static str| gauges.with_label_values(&[*label]).get();
            labels.iter().map(value).collect::<Vec<_>>()
        };
        let choices = Choice::ALL.map(Choice::label);
        for (at, choice) in choices.iter().enumerate() {
            metrics.set_choice(choice, at, 3);
            let mut expected = vec![0; choices.len()];
            expected[at] = 1;
            assert_eq!(values(&metrics.choice, &choices), expected);
            let nodes = values(&metrics.quorum_nodes, &["agreeing", "needed"]);
            assert_eq!(nodes, [at as i64, 3]);
        }
    }
}
