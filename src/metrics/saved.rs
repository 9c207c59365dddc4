//! Metrics of what outlives the process: the saved window and its state.

use nearhead_actors::saved::SavedStatus;
use prometheus::{Error, IntCounterVec, IntGauge};

use super::exporter::{Exporter, gauge, raise};

/// The series of the saved window.
#[derive(Clone, Debug)]
pub(super) struct SavedMetrics {
    /// `nearhead_saved_blocks_total{outcome}`.
    blocks: IntCounterVec,
    /// `nearhead_saved_items_total{outcome}`.
    items: IntCounterVec,
    /// `nearhead_saved_writes_total{outcome}`.
    writes: IntCounterVec,
    /// `nearhead_saved_bytes`.
    bytes: IntGauge,
    /// `nearhead_unclean_shutdown`.
    pub(super) unclean_shutdown: IntGauge,
}

impl SavedMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            blocks: exporter.counters(
                "nearhead_saved_blocks_total",
                "Blocks that an earlier process had saved: restored or refused (failed a check, and fetched from a node instead)",
                &["outcome"],
            )?,
            items: exporter.counters(
                "nearhead_saved_items_total",
                "Trie nodes and codes that an earlier process had saved and a read needed: restored or refused (did not have their hash)",
                &["outcome"],
            )?,
            writes: exporter.counters(
                "nearhead_saved_writes_total",
                "Writes of the window and its state to the data folder: written or failed (what they had is written later)",
                &["outcome"],
            )?,
            bytes: exporter.gauge(
                "nearhead_saved_bytes",
                "Bytes of the data folder's window.sqlite that are in use, as of the last write",
            )?,
            unclean_shutdown: exporter.gauge(
                "nearhead_unclean_shutdown",
                "1 if the process before this one, with the same data folder, did not shut down (it was killed, it failed, or its machine did), else 0",
            )?,
        })
    }

    /// Copies what was counted.
    pub(super) fn copy(&self, status: &SavedStatus) {
        for (series, totals) in [
            (&self.blocks, status.blocks()),
            (&self.items, status.items()),
            (&self.writes, status.writes()),
        ] {
            for (outcome, total) in totals {
                raise(&series.with_label_values(&[outcome]), total);
            }
        }
        self.bytes.set(gauge(status.bytes()));
    }
}
