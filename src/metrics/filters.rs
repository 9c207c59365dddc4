//! Metrics of filters.

use prometheus::{Error, IntCounter, IntGauge};

use super::exporter::Exporter;

/// Why a filter was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForgottenReason {
    /// Nobody has asked about it for too long.
    Idle,
    /// Its key lets nobody in any more.
    Key,
}

impl ForgottenReason {
    const ALL: [Self; 2] = [Self::Idle, Self::Key];

    const fn label(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Key => "key",
        }
    }
}

/// One filter that is counted as open.
#[derive(Debug)]
pub(crate) struct OpenFilter(IntGauge);

impl Drop for OpenFilter {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The series of filters.
#[derive(Clone, Debug)]
pub(crate) struct FilterMetrics {
    /// `nearhead_filters`: open filters.
    open: IntGauge,
    /// `nearhead_filters_forgotten_total{reason}`.
    forgotten: [IntCounter; ForgottenReason::ALL.len()],
}

impl FilterMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        let open = exporter.gauge("nearhead_filters", "Open filters of all keys")?;
        let forgotten = exporter.counters(
            "nearhead_filters_forgotten_total",
            "Filters that were forgotten, by reason: idle (nobody asked about it for 5 minutes), key (its key lets nobody in any more)",
            &["reason"],
        )?;
        let of = |reason: ForgottenReason| forgotten.with_label_values(&[reason.label()]);
        Ok(Self {
            open,
            forgotten: ForgottenReason::ALL.map(of),
        })
    }

    /// Counts one more filter as open, until what is returned is dropped.
    pub(crate) fn open(&self) -> OpenFilter {
        self.open.inc();
        OpenFilter(self.open.clone())
    }

    /// The counter of filters that were forgotten for this reason.
    pub(crate) const fn forgotten(&self, reason: ForgottenReason) -> &IntCounter {
        &self.forgotten[reason as usize]
    }
}

#[cfg(test)]
impl FilterMetrics {
    /// How many filters are open.
    pub(crate) fn count(&self) -> i64 {
        self.open.get()
    }
}
