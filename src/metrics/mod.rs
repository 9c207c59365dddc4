//! Every metric: name, unit, labels.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the metrics |
//! | `exporter` | makes and registers each of them |
//! | `filters` | those of filters |
//! | `block_waits` | those of requests that wait for a block |
//! | `fleet` | those of a process in its fleet |
//! | `forwarded` | how forwarded calls end |
//! | `head` | those of the head |
//! | `nodes` | those of upstreams |
//! | `listener` | those of the connections of one listener |
//! | `state` | those of state from nodes |
//! | `saved` | those of what outlives the process |
//! | `memory` | those of memory, also of replies that are not taken yet, and of the disk |
//! | `outcome` | the outcomes of requests, as labels |
//! | `page` | the page of all metrics, with what is counted elsewhere |
//! | `spans` | those of traces |
//! | `newest_page` | the newest one, which is given for some time |
//! | `tls` | those of the certificate of the listeners |
//! | `traffic` | sums of them, for the overview |

mod block_waits;
mod exporter;
mod filters;
mod fleet;
mod forwarded;
mod head;
mod listener;
mod memory;
mod newest_page;
mod nodes;
mod outcome;
mod page;
mod saved;
mod spans;
mod state;
mod tls;
mod traffic;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_actors::admission::MemoryLevel;
use parking_lot::Mutex;
use prometheus::{
    CounterVec, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
};

pub(crate) use self::{
    block_waits::{BlockWaitMetrics, WaitOutcome},
    filters::{ForgottenReason, OpenFilter},
    fleet::RecordRefusals,
    forwarded::ForwardOutcome,
    listener::{
        EvictionReason, HandshakeOutcome, ListenerKind, ListenerMetrics, ProxyHeaderRefusal,
    },
    nodes::NodeCounts,
    outcome::Outcome,
    traffic::Traffic,
};
use self::{
    exporter::{Exporter, gauge},
    filters::FilterMetrics,
    fleet::FleetMetrics,
    head::HeadMetrics,
    listener::ListenersMetrics,
    memory::MemoryMetrics,
    newest_page::NewestPage,
    nodes::NodeMetrics,
    saved::SavedMetrics,
    spans::SpanMetrics,
    state::StateMetrics,
    tls::TlsMetrics,
};
use crate::traces::Traces;

/// Upper bounds of the latency histogram in seconds: a cheap answer takes some 10 µs, the longest
/// allowed 10 s.
const LATENCY_SECONDS: [f64; 14] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5,
    2.5, 10.0,
];

/// Upper bounds of the fan-out histogram in seconds: without sessions it takes some microseconds,
/// and each session adds half a microsecond.
const FANOUT_SECONDS: [f64; 10] = [
    0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 1.0,
];

/// All metrics. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Handles of `nearhead_requests_total` and `nearhead_request_seconds`: one for each method,
    /// in the order that [`Metrics::new`] was given.
    methods: Arc<[MethodMetrics]>,
    /// The same for requests that name no method that is served.
    other: Arc<MethodMetrics>,
    /// `nearhead_http_requests_in_flight`: HTTP requests that are being read or answered.
    pub(crate) in_flight: IntGauge,
    /// `nearhead_sessions`: WebSocket sessions that are open.
    pub(crate) sessions: IntGauge,
    /// `nearhead_sessions_closed_total{code}`.
    sessions_closed: IntCounterVec,
    /// `nearhead_subscriptions`: subscriptions of all sessions.
    pub(crate) subscriptions: IntGauge,
    /// `nearhead_notifications_total`.
    notifications: IntCounter,
    /// `nearhead_fanout_seconds`: time until one change of the head is in the outbox of every
    /// session of a worker; sending is not included.
    pub(crate) fanout: Histogram,
    pub(crate) filters: FilterMetrics,
    pub(crate) block_waits: BlockWaitMetrics,
    /// `nearhead_slow_clients_total`: connections that were cut off because the client took too
    /// long.
    pub(crate) slow_clients: IntCounter,
    /// `nearhead_connections`, `nearhead_strangers_evicted_total`,
    /// `nearhead_idle_connections_evicted_total` and `nearhead_tls_handshakes_total`.
    listeners: ListenersMetrics,
    pub(crate) tls: TlsMetrics,
    memory: MemoryMetrics,
    /// `nearhead_key_guesses_throttled_total`.
    pub(crate) guesses_throttled: IntCounter,
    /// `nearhead_unparsable_requests_total`: connections that ended because what they sent is no
    /// HTTP.
    pub(crate) unparsable_requests: IntCounter,
    /// `nearhead_proxy_headers_refused_total{reason}`.
    proxy_headers_refused: IntCounterVec,
    /// `nearhead_metrics_gathered_total`.
    gathered: IntCounter,
    /// `nearhead_panics_total`.
    panics: IntCounter,
    /// `nearhead_permits_in_use{kind}`.
    permits_in_use: IntGaugeVec,
    /// `nearhead_permits_available{kind}`.
    permits_available: IntGaugeVec,
    /// `nearhead_queue_items{class}`.
    queue_items: IntGaugeVec,
    /// `nearhead_queue_taken_total{class}`.
    queue_taken: IntCounterVec,
    /// `nearhead_queue_wait_seconds_total{class}`.
    queue_wait_seconds: CounterVec,
    /// `nearhead_queue_refused_total{class, reason}`.
    queue_refused: IntCounterVec,
    /// `nearhead_queue_drain_rate{class}`.
    queue_drain_rate: GaugeVec,
    pub(crate) head: HeadMetrics,
    pub(crate) nodes: NodeMetrics,
    /// `nearhead_tenant_requests_total{tenant, outcome}`.
    tenant_requests: IntCounterVec,
    /// `nearhead_tenant_units_total{tenant}`.
    tenant_units: IntCounterVec,
    /// `nearhead_tenant_sessions{tenant}`.
    tenant_sessions: IntGaugeVec,
    state: StateMetrics,
    saved: SavedMetrics,
    fleet: FleetMetrics,
    /// `nearhead_forwarded_calls_total{method, outcome}`.
    forwarded_calls: IntCounterVec,
    /// `nearhead_tenant_store_failing`.
    pub(crate) tenant_store_failing: IntGauge,
    /// `nearhead_usage_dropped_total`.
    pub(crate) usage_dropped: IntCounter,
    /// Held while counts from elsewhere are copied here: two scrapes at once would add them twice.
    copying: Arc<Mutex<()>>,
    spans: SpanMetrics,
    newest: NewestPage,
    registry: Registry,
    /// A row of the documentation for each metric.
    #[cfg(test)]
    rows: Arc<Mutex<Vec<String>>>,
}

/// Handles of one method.
#[derive(Debug)]
pub(crate) struct MethodMetrics {
    outcomes: [IntCounter; Outcome::ALL.len()],
    latency: Histogram,
}

impl MethodMetrics {
    /// Counts one request that took `elapsed`.
    pub(crate) fn answered(&self, outcome: Outcome, elapsed: Duration) {
        self.outcomes[outcome as usize].inc();
        self.latency.observe(elapsed.as_secs_f64());
    }
}

impl Metrics {
    /// Metrics of one service with these methods, all at zero.
    ///
    /// # Errors
    /// Two metrics have the same name: a defect of this file, which a test finds.
    pub fn new(methods: impl IntoIterator<Item = &'static str>) -> Result<Self, prometheus::Error> {
        let exporter = Exporter::default();
        let requests = exporter.counters(
            "nearhead_requests_total",
            "JSON-RPC requests, by method and outcome",
            &["method", "outcome"],
        )?;
        let request_seconds = exporter.histograms(
            "nearhead_request_seconds",
            "Time from a request's arrival to its answer, by method",
            &LATENCY_SECONDS,
            &["method"],
        )?;
        let method = |name| MethodMetrics {
            outcomes: Outcome::ALL
                .map(|outcome| requests.with_label_values(&[name, outcome.label()])),
            latency: request_seconds.with_label_values(&[name]),
        };
        // Registered in the order of the documentation.
        let this = Self {
            methods: methods.into_iter().map(method).collect(),
            other: Arc::new(method("other")),
            in_flight: exporter.gauge(
                "nearhead_http_requests_in_flight",
                "HTTP requests that are being read or answered",
            )?,
            sessions: exporter.gauge("nearhead_sessions", "Open WebSocket sessions")?,
            sessions_closed: exporter.counters(
                "nearhead_sessions_closed_total",
                "WebSocket sessions that ended, by the code of the first close frame",
                &["code"],
            )?,
            subscriptions: exporter.gauge(
                "nearhead_subscriptions",
                "Active subscriptions of all WebSocket sessions",
            )?,
            notifications: exporter.counter(
                "nearhead_notifications_total",
                "Notifications passed to sessions",
            )?,
            fanout: exporter.histogram(
                "nearhead_fanout_seconds",
                "Time that a worker takes to queue one change of the head for all its sessions",
                &FANOUT_SECONDS,
            )?,
            filters: FilterMetrics::new(&exporter)?,
            block_waits: BlockWaitMetrics::new(&exporter)?,
            slow_clients: exporter.counter(
                "nearhead_slow_clients_total",
                "Connections closed because the client took too long to send or to read",
            )?,
            listeners: ListenersMetrics::new(&exporter)?,
            tls: TlsMetrics::new(&exporter)?,
            memory: MemoryMetrics::new(&exporter)?,
            guesses_throttled: exporter.counter(
                "nearhead_key_guesses_throttled_total",
                "Requests and handshakes without an accepted key that were refused with 429, because too many came from their address",
            )?,
            unparsable_requests: exporter.counter(
                "nearhead_unparsable_requests_total",
                "Connections closed because what they sent is no HTTP request",
            )?,
            proxy_headers_refused: exporter.counters(
                "nearhead_proxy_headers_refused_total",
                "With --proxy-protocol, connections that were closed, by reason: untrusted (not from a trusted proxy), malformed (no header of version 2, or the proxy went away), late (over --header-timeout)",
                &["reason"],
            )?,
            gathered: exporter.counter(
                "nearhead_metrics_gathered_total",
                "Times that the metrics were gathered: what asks for them again within --metrics-max-age gets the same answer",
            )?,
            panics: exporter.counter("nearhead_panics_total", "Handlers that panicked")?,
            permits_in_use: exporter.gauges(
                "nearhead_permits_in_use",
                "Admission permits that are taken",
                &["kind"],
            )?,
            permits_available: exporter.gauges(
                "nearhead_permits_available",
                "Admission permits that are free",
                &["kind"],
            )?,
            queue_items: exporter.gauges(
                "nearhead_queue_items",
                "Requests, large bodies and queries that wait in a queue, by class",
                &["class"],
            )?,
            queue_taken: exporter.counters(
                "nearhead_queue_taken_total",
                "Requests, large bodies and queries whose turn came, by class",
                &["class"],
            )?,
            queue_wait_seconds: exporter.float_counters(
                "nearhead_queue_wait_seconds_total",
                "Seconds that requests, large bodies and queries waited until their turn came, in sum, by class",
                &["class"],
            )?,
            queue_refused: exporter.counters(
                "nearhead_queue_refused_total",
                "Requests, large bodies and queries that were refused, by class and reason",
                &["class", "reason"],
            )?,
            queue_drain_rate: exporter.float_gauges(
                "nearhead_queue_drain_rate",
                "Seconds of work, as it is estimated, that are done in a second while more of it waits, by class",
                &["class"],
            )?,
            head: HeadMetrics::new(&exporter)?,
            nodes: NodeMetrics::new(&exporter)?,
            state: StateMetrics::new(&exporter)?,
            saved: SavedMetrics::new(&exporter)?,
            fleet: FleetMetrics::new(&exporter)?,
            forwarded_calls: exporter.counters(
                "nearhead_forwarded_calls_total",
                "Calls of clients that --forward passed to nodes: answered, refused (an error of a node), unanswered or not_admitted",
                &["method", "outcome"],
            )?,
            tenant_requests: exporter.counters(
                "nearhead_tenant_requests_total",
                "With --tenant-metrics, JSON-RPC requests, by tenant and outcome; a second later than in nearhead_requests_total",
                &["tenant", "outcome"],
            )?,
            tenant_units: exporter.counters(
                "nearhead_tenant_units_total",
                "With --tenant-metrics, units that requests and notifications cost, by tenant",
                &["tenant"],
            )?,
            tenant_sessions: exporter.gauges(
                "nearhead_tenant_sessions",
                "With --tenant-metrics, open WebSocket sessions, by tenant",
                &["tenant"],
            )?,
            tenant_store_failing: exporter.gauge(
                "nearhead_tenant_store_failing",
                "1 if the store of tenants and usage cannot be read or written, 0 if it works",
            )?,
            usage_dropped: exporter.counter(
                "nearhead_usage_dropped_total",
                "Requests, sessions and notifications that are missing in usage, because there was no room for them while the store could not be written",
            )?,
            spans: SpanMetrics::new(&exporter)?,
            copying: Arc::default(),
            newest: NewestPage::default(),
            registry: exporter.registry.clone(),
            #[cfg(test)]
            rows: Arc::clone(&exporter.rows),
        };
        // The name is Prometheus' own.
        let process_start = exporter.float_gauge(
            "process_start_time_seconds",
            "Start of the process, in seconds since the Unix epoch",
        )?;
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        process_start.set(since_epoch.as_secs_f64());
        Ok(this)
    }

    /// The handles of the method at this position, or of `other` for a request that names no method
    /// that is served.
    #[must_use]
    pub(crate) fn method(&self, index: Option<usize>) -> &MethodMetrics {
        index
            .and_then(|index| self.methods.get(index))
            .unwrap_or(&self.other)
    }

    /// Counts a session that ends, by the code of the first close. Codes that clients invent are
    /// counted together.
    pub(crate) fn session_closed(&self, code: u16) {
        let code = match code {
            1000..=1015 => code.to_string(),
            _ => "other".to_owned(),
        };
        self.sessions_closed.with_label_values(&[&code]).inc();
    }

    /// Counts requests of a tenant with one outcome, or what its sessions did besides, and the
    /// units.
    pub(crate) fn tenant_used(
        &self,
        tenant: &str,
        outcome: Option<Outcome>,
        (requests, units): (u64, u64),
    ) {
        if let Some(outcome) = outcome {
            let labels = [tenant, outcome.label()];
            self.tenant_requests
                .with_label_values(&labels)
                .inc_by(requests);
        }
        self.tenant_units.with_label_values(&[tenant]).inc_by(units);
    }

    /// Sets how many sessions a tenant has open.
    pub(crate) fn set_tenant_sessions(&self, tenant: &str, sessions: usize) {
        let gauge_of_tenant = self.tenant_sessions.with_label_values(&[tenant]);
        gauge_of_tenant.set(gauge(sessions as u64));
    }

    /// Removes the series of a tenant.
    pub(crate) fn remove_tenant(&self, tenant: &str) {
        for outcome in Outcome::ALL {
            // There is no series of an outcome that no request had.
            let _ = self
                .tenant_requests
                .remove_label_values(&[tenant, outcome.label()]);
        }
        let _ = self.tenant_units.remove_label_values(&[tenant]);
        let _ = self.tenant_sessions.remove_label_values(&[tenant]);
    }

    /// Counts a connection that is closed for want of a header of the PROXY protocol.
    pub(crate) fn refuse_proxy_header(&self, reason: ProxyHeaderRefusal) {
        let labels = [reason.label()];
        self.proxy_headers_refused.with_label_values(&labels).inc();
    }

    /// Counts notifications.
    pub(crate) fn notified(&self, count: usize) {
        self.notifications.inc_by(count as u64);
    }

    /// Counts records of the fleet's store that are refused.
    pub(crate) fn record_refusals(&self) -> RecordRefusals {
        self.fleet.record_refusals()
    }

    /// Records that a block was merged into the held state, this long after it was readable.
    pub(crate) fn state_merged(&self, took: Duration) {
        self.state.merged(took.as_secs_f64());
    }

    /// Reports the memory of the process, and what it allows.
    pub(crate) fn memory(&self, anonymous: u64, limit: Option<u64>, level: MemoryLevel) {
        self.memory.report(anonymous, limit, level);
    }

    /// Reports the file system of the data folder, in bytes.
    pub(crate) fn disk(&self, free: u64, size: u64) {
        self.memory.report_disk(free, size);
    }

    /// Reports that the process before this one did not shut down.
    pub(crate) fn found_unclean_shutdown(&self) {
        self.saved.unclean_shutdown.set(1);
    }

    /// Exports how many spans are sent, if any are.
    pub(crate) fn count_spans(&self, traces: &Traces) {
        if let Some(counts) = traces.counts() {
            self.spans.follow(counts);
        }
    }

    /// Handles of the series of one listener's connections.
    pub(crate) fn of_listener(&self, listener: ListenerKind) -> ListenerMetrics {
        self.listeners.of(listener)
    }
}

#[cfg(test)]
impl Metrics {
    /// A row of docs/metrics.md for each metric.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.rows.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let metrics = Metrics::new(["a", "b"]).map_err(|error| error.to_string());
        assert!(metrics.is_ok(), "{metrics:?}");
    }
}
