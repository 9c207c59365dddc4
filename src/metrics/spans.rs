//! Metrics of traces.

use std::sync::{Arc, OnceLock};

use prometheus::{Error, IntCounterVec};

use super::exporter::{Exporter, raise};
use crate::traces::{SpanCounts, SpanEnd};

/// Counts of spans.
#[derive(Clone, Debug)]
pub(super) struct SpanMetrics {
    /// `nearhead_trace_spans_total{outcome}`.
    spans: IntCounterVec,
    /// Where they are counted; empty if nothing is traced.
    counts: Arc<OnceLock<SpanCounts>>,
}

impl SpanMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            spans: exporter.counters(
                "nearhead_trace_spans_total",
                "With --otlp-endpoint, spans of traced requests: exported, failed (the collector did not take them) or dropped (too many waited)",
                &["outcome"],
            )?,
            counts: Arc::default(),
        })
    }

    /// Exports these counts from now on.
    pub(super) fn follow(&self, counts: SpanCounts) {
        // It is set once, at the start.
        let _ = self.counts.set(counts);
    }

    /// Copies the counts.
    pub(super) fn copy(&self) {
        if let Some(counts) = self.counts.get() {
            for end in SpanEnd::ALL {
                raise(
                    &self.spans.with_label_values(&[end.label()]),
                    counts.of(end),
                );
            }
        }
    }
}
