//! Every metric: name, unit, labels.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_actors::{
    admission::PermitUse,
    head::Head,
    read::ReadResources,
    upstream::{StateSource, health::UpstreamState},
};
use parking_lot::Mutex;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, TextEncoder, core::Collector,
};

use crate::rpc::{METHODS, Outcome};

/// Upper bounds of the latency histogram in seconds: a cheap answer takes some 10 µs, the longest
/// allowed 10 s.
const LATENCY_SECONDS: [f64; 14] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5,
    2.5, 10.0,
];

/// Upper bounds of the fan-out histogram in seconds: nobody to tell is some microseconds, one
/// session more half of one.
const FANOUT_SECONDS: [f64; 10] = [
    0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 1.0,
];

/// Upper bounds of the head's delay in seconds: to fetch and check a block is tens of milliseconds,
/// from afar more.
const HEAD_DELAY_SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// All metrics; handles are resolved once, cloning shares them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    /// `nearhead_requests_total{method, outcome}`, `nearhead_request_seconds{method}`.
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    /// Their handles: one for each line of [`METHODS`], then one for everything else.
    methods: Arc<[MethodMetrics]>,
    /// `process_start_time_seconds`, as Prometheus names it.
    process_start: Gauge,
    /// `nearhead_http_requests_in_flight`: HTTP requests that are being read or answered.
    pub in_flight: IntGauge,
    /// `nearhead_sessions`: WebSocket sessions that are open.
    pub sessions: IntGauge,
    /// `nearhead_sessions_closed_total{code}`: sessions that ended, by the code of the first close.
    sessions_closed: IntCounterVec,
    /// `nearhead_subscriptions`: subscriptions of all sessions.
    pub subscriptions: IntGauge,
    /// `nearhead_notifications_total`: notifications that were handed to sessions.
    notifications: IntCounter,
    /// `nearhead_fanout_seconds`: what one change of the head takes one worker until every session
    /// has what it is to be told; to send it is not part of that.
    pub fanout: Histogram,
    /// `nearhead_slow_clients_total`: connections that were cut off because the client took too
    /// long.
    pub slow_clients: IntCounter,
    /// `nearhead_head_delay_seconds`: what fetching and checking takes until a head that a node
    /// names can be read here.
    pub head_delay: Histogram,
    /// `nearhead_node_faults_total{node, reason}`: what nodes did wrong; a node by its place in the
    /// configuration.
    node_faults: IntCounterVec,
    /// `nearhead_node_limited_total{node}`: how often nodes asked to be asked less.
    node_limited: IntCounterVec,
    /// `nearhead_node_state{node, state}`: 1 for what a node is, 0 for what it is not.
    node_state: IntGaugeVec,
    /// `nearhead_panics_total`: handlers that panicked.
    panics: IntCounter,
    /// Held while what others count is copied here: two scrapes at once would add it twice.
    copying: Arc<Mutex<()>>,
    /// `nearhead_permits_in_use{kind}`, `nearhead_permits_available{kind}`.
    permits_in_use: IntGaugeVec,
    permits_available: IntGaugeVec,
    /// `nearhead_state_reads_total{outcome}`: reads of state that is held in part, by whether
    /// something was fetched.
    state_reads: IntCounterVec,
    /// `nearhead_state_fetches_total{outcome}`: calls to nodes for state.
    state_fetches: IntCounterVec,
    /// `nearhead_head_number`, `nearhead_head_age_seconds`.
    head_number: IntGauge,
    head_age_seconds: Gauge,
}

/// Handles of one method.
#[derive(Debug)]
pub struct MethodMetrics {
    outcomes: [IntCounter; Outcome::ALL.len()],
    latency: Histogram,
}

impl MethodMetrics {
    /// Counts one request that took `elapsed`.
    pub fn answered(&self, outcome: Outcome, elapsed: Duration) {
        self.outcomes[outcome as usize].inc();
        self.latency.observe(elapsed.as_secs_f64());
    }
}

impl Metrics {
    /// Metrics of one service, all at zero.
    ///
    /// # Errors
    /// Two metrics have one name: a defect of this file, found by its test.
    pub fn new() -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "nearhead_requests_total",
                "JSON-RPC requests by method and outcome",
            ),
            &["method", "outcome"],
        )?;
        let request_seconds = HistogramVec::new(
            HistogramOpts::new(
                "nearhead_request_seconds",
                "Time from a request's arrival to its answer, by method",
            )
            .buckets(LATENCY_SECONDS.to_vec()),
            &["method"],
        )?;
        let names = METHODS.iter().map(|method| method.name).chain(["other"]);
        let methods = names
            .map(|name| MethodMetrics {
                outcomes: Outcome::ALL
                    .map(|outcome| requests.with_label_values(&[name, outcome.label()])),
                latency: request_seconds.with_label_values(&[name]),
            })
            .collect();
        let process_start = Gauge::new(
            "process_start_time_seconds",
            "Start of the process, in seconds since the Unix epoch",
        )?;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        process_start.set(since_epoch.as_secs_f64());
        let this = Self {
            registry: Registry::new(),
            requests,
            request_seconds,
            methods,
            process_start,
            in_flight: IntGauge::new(
                "nearhead_http_requests_in_flight",
                "HTTP requests that are being read or answered",
            )?,
            sessions: IntGauge::new("nearhead_sessions", "WebSocket sessions that are open")?,
            sessions_closed: IntCounterVec::new(
                Opts::new(
                    "nearhead_sessions_closed_total",
                    "WebSocket sessions that ended, by the code of the first close",
                ),
                &["code"],
            )?,
            subscriptions: IntGauge::new(
                "nearhead_subscriptions",
                "Subscriptions of all WebSocket sessions",
            )?,
            notifications: IntCounter::new(
                "nearhead_notifications_total",
                "Notifications that were handed to sessions",
            )?,
            fanout: Histogram::with_opts(
                HistogramOpts::new(
                    "nearhead_fanout_seconds",
                    "Time that a worker takes to hand one change of the head to all its sessions",
                )
                .buckets(FANOUT_SECONDS.to_vec()),
            )?,
            slow_clients: IntCounter::new(
                "nearhead_slow_clients_total",
                "Connections that were cut off because the client took too long to ask or to read",
            )?,
            head_delay: Histogram::with_opts(
                HistogramOpts::new(
                    "nearhead_head_delay_seconds",
                    "Time from when the followed node names a new head until it is readable here",
                )
                .buckets(HEAD_DELAY_SECONDS.to_vec()),
            )?,
            node_faults: IntCounterVec::new(
                Opts::new(
                    "nearhead_node_faults_total",
                    "What nodes did wrong, by their place in the configuration and by reason",
                ),
                &["node", "reason"],
            )?,
            node_limited: IntCounterVec::new(
                Opts::new(
                    "nearhead_node_limited_total",
                    "How often nodes asked to be asked less, by their place in the configuration",
                ),
                &["node"],
            )?,
            node_state: IntGaugeVec::new(
                Opts::new(
                    "nearhead_node_state",
                    "1 for what a node is, 0 for the other states",
                ),
                &["node", "state"],
            )?,
            panics: IntCounter::new("nearhead_panics_total", "Handlers that panicked")?,
            copying: Arc::default(),
            permits_in_use: permits(
                "nearhead_permits_in_use",
                "Admission permits that are taken",
            )?,
            permits_available: permits(
                "nearhead_permits_available",
                "Admission permits that are free",
            )?,
            state_reads: IntCounterVec::new(
                Opts::new(
                    "nearhead_state_reads_total",
                    "Reads of state that is held in part: hit, or miss where something had to be fetched",
                ),
                &["outcome"],
            )?,
            state_fetches: IntCounterVec::new(
                Opts::new(
                    "nearhead_state_fetches_total",
                    "Calls to nodes for state: verified, refuted by a check, or failed",
                ),
                &["outcome"],
            )?,
            head_number: IntGauge::new(
                "nearhead_head_number",
                "Number of the newest block that is served",
            )?,
            head_age_seconds: Gauge::new(
                "nearhead_head_age_seconds",
                "Seconds since the newest block became readable",
            )?,
        };
        for collector in this.collectors() {
            this.registry.register(collector)?;
        }
        Ok(this)
    }

    /// Everything that is exported.
    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.requests.clone()),
            Box::new(self.request_seconds.clone()),
            Box::new(self.in_flight.clone()),
            Box::new(self.sessions.clone()),
            Box::new(self.sessions_closed.clone()),
            Box::new(self.subscriptions.clone()),
            Box::new(self.notifications.clone()),
            Box::new(self.fanout.clone()),
            Box::new(self.slow_clients.clone()),
            Box::new(self.panics.clone()),
            Box::new(self.permits_in_use.clone()),
            Box::new(self.permits_available.clone()),
            Box::new(self.head_number.clone()),
            Box::new(self.head_age_seconds.clone()),
            Box::new(self.head_delay.clone()),
            Box::new(self.node_faults.clone()),
            Box::new(self.node_limited.clone()),
            Box::new(self.node_state.clone()),
            Box::new(self.state_reads.clone()),
            Box::new(self.state_fetches.clone()),
            Box::new(self.process_start.clone()),
        ]
    }

    /// The handles of the method at this line of [`METHODS`]; of `other` for what names no method.
    #[must_use]
    pub fn method(&self, index: Option<usize>) -> &MethodMetrics {
        &self.methods[index.unwrap_or(METHODS.len())]
    }

    /// Counts a session that ends, by the code of the first close. Codes that clients make up are
    /// counted together.
    pub fn session_closed(&self, code: u16) {
        let code = match code {
            1000..=1015 => code.to_string(),
            _ => "other".to_owned(),
        };
        self.sessions_closed.with_label_values(&[&code]).inc();
    }

    /// Counts that a node asked to be asked less.
    pub fn node_limited(&self, node: usize) {
        let node = node.to_string();
        self.node_limited.with_label_values(&[&node]).inc();
    }

    /// Counts what a node did wrong.
    pub fn node_failed(&self, node: usize, reason: &'static str) {
        let node = node.to_string();
        self.node_faults.with_label_values(&[&node, reason]).inc();
    }

    /// Notes what a node is.
    pub fn node_is(&self, node: usize, state: UpstreamState) {
        let node = node.to_string();
        for (other, _) in UpstreamState::ALL {
            let is_it = other.label() == state.label();
            let gauge = self.node_state.with_label_values(&[&node, other.label()]);
            gauge.set(i64::from(is_it));
        }
    }

    /// Counts notifications.
    pub fn notified(&self, count: usize) {
        self.notifications.inc_by(count as u64);
    }

    /// Everything in Prometheus' text format, with what others hold read now.
    ///
    /// # Errors
    /// A metric cannot be written: a defect.
    pub fn render(&self, head: &Head, reads: &ReadResources) -> Result<String, prometheus::Error> {
        let _copying = self.copying.lock();
        self.panics.inc_by(
            reads
                .admission
                .panics()
                .total()
                .saturating_sub(self.panics.get()),
        );
        for PermitUse {
            kind,
            in_use,
            available,
        } in reads.admission.permits()
        {
            self.permits_in_use
                .with_label_values(&[kind])
                .set(gauge(in_use as u64));
            self.permits_available
                .with_label_values(&[kind])
                .set(gauge(available as u64));
        }
        if let Some(counts) = reads.state.as_ref().map(StateSource::counts) {
            copy(&self.state_reads, &counts.reads());
            copy(&self.state_fetches, &counts.fetches());
        }
        if let Some(snapshot) = head.load() {
            self.head_number.set(gauge(snapshot.head().number()));
        }
        if let Some(age) = head.age() {
            self.head_age_seconds.set(age.as_secs_f64());
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Brings counters to what others counted, by outcome.
fn copy(counters: &IntCounterVec, counted: &[(&str, u64)]) {
    for (outcome, total) in counted {
        let counter = counters.with_label_values(&[*outcome]);
        counter.inc_by(total.saturating_sub(counter.get()));
    }
}

fn permits(name: &str, help: &str) -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(name, help), &["kind"])
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus::proto::MetricType;

    use super::*;

    impl Metrics {
        /// A row of docs/metrics.md for each metric.
        pub(crate) fn rows(&self) -> Vec<String> {
            let row = |collector: Box<dyn Collector>| {
                let (family, labels) = (collector.collect().remove(0), collector.desc());
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
            };
            self.collectors().into_iter().map(row).collect()
        }
    }

    #[test]
    fn names_are_unique_and_labels_in_place() {
        let metrics = Metrics::new().map_err(|error| error.to_string());
        assert!(metrics.is_ok(), "{metrics:?}");
        for (position, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, position);
        }
    }
}
