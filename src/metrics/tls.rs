//! Metrics of the certificate of the listeners.

use nearhead_tenants::UnixMillis;
use prometheus::{Error, Gauge, IntCounter, IntCounterVec};

use super::exporter::Exporter;

/// The certificate of the listeners.
#[derive(Clone, Debug)]
pub(crate) struct TlsMetrics {
    /// `nearhead_tls_certificate_expiry_seconds`.
    expiry: Gauge,
    /// `nearhead_tls_reloads_total{outcome="ok"}`.
    read: IntCounter,
    /// `nearhead_tls_reloads_total{outcome="failed"}`.
    failed: IntCounter,
}

impl TlsMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        let expiry = exporter.float_gauge(
            "nearhead_tls_certificate_expiry_seconds",
            "End of the validity of --tls-cert, in seconds since the Unix epoch; +Inf without one",
        )?;
        expiry.set(f64::INFINITY);
        let reloads: IntCounterVec = exporter.counters(
            "nearhead_tls_reloads_total",
            "Times that --tls-cert and its key were read again, by outcome: ok, or failed, and the pair before stays",
            &["outcome"],
        )?;
        let reloads = |outcome| reloads.with_label_values(&[outcome]);
        Ok(Self {
            expiry,
            read: reloads("ok"),
            failed: reloads("failed"),
        })
    }

    /// Reports when the certificate ends.
    pub(crate) fn ends(&self, at: UnixMillis) {
        self.expiry.set((at.0 / 1_000) as f64);
    }

    /// Counts that the files were read again, and whether they could be used.
    pub(crate) fn reloaded(&self, is_read: bool) {
        match is_read {
            true => self.read.inc(),
            false => self.failed.inc(),
        }
    }
}
