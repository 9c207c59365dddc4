//! Makes metrics and registers each as it is made, so that no declared metric is left unexported.

/// The value of a gauge.
pub(super) fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Raises a counter to a total that was counted elsewhere.
pub(super) fn raise(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

#[cfg(test)]
use std::sync::Arc;

use prometheus::{
    CounterVec, Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, core::Collector,
};

/// Makes metrics that are exported. Every constructor takes the name and the help text; those of
/// several series also take the names of their labels.
#[derive(Default)]
pub(super) struct Exporter {
    /// All metrics that were made; clones share it.
    pub(super) registry: Registry,
    /// Their rows in the documentation, in the order of creation.
    #[cfg(test)]
    pub(super) rows: Arc<parking_lot::Mutex<Vec<String>>>,
}

type Made<T> = Result<T, Error>;

impl Exporter {
    pub(super) fn counter(&self, name: &str, help: &str) -> Made<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Made<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Made<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Made<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn float_gauge(&self, name: &str, help: &str) -> Made<Gauge> {
        self.add(Gauge::new(name, help)?)
    }

    pub(super) fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Made<GaugeVec> {
        self.add(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn float_counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> Made<CounterVec> {
        self.add(CounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Made<Histogram> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(Histogram::with_opts(options)?)
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Made<HistogramVec> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.add(HistogramVec::new(options, labels)?)
    }

    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Made<C> {
        self.registry.register(Box::new(metric.clone()))?;
        #[cfg(test)]
        self.rows.lock().push(row(&metric));
        Ok(metric)
    }
}

/// A metric's row in the documentation.
#[cfg(test)]
fn row(metric: &impl Collector) -> String {
    use prometheus::proto::MetricType;

    let (family, labels) = (metric.collect().remove(0), metric.desc());
    let labels = labels[0].variable_labels.iter();
    let labels: Vec<_> = labels.map(|label| format!("`{label}`")).collect();
    let kind = match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        kind => panic!("a metric of type {kind:?}"),
    };
    let (name, labels, help) = (family.name(), labels.join(", "), family.help());
    format!("| `{name}` | {kind} | {labels} | {help} |")
}
