//! Metrics of memory: of the process, and of replies that clients have not taken yet; and of the
//! disk.

use nearhead_actors::admission::{MemoryLevel, ReplyUse};
use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::exporter::{Exporter, gauge, raise};

/// The series of memory, and of the disk.
#[derive(Clone, Debug)]
pub(super) struct MemoryMetrics {
    /// `nearhead_memory_bytes{kind}`.
    memory: IntGaugeVec,
    /// `nearhead_memory_level`.
    level: IntGauge,
    /// `nearhead_disk_bytes{kind}`.
    disk: IntGaugeVec,
    /// `nearhead_reply_bytes{kind}`.
    reply_bytes: IntGaugeVec,
    /// `nearhead_replies_held`.
    replies: IntGauge,
    /// `nearhead_replies_refused_total`.
    refused: IntCounter,
    /// `nearhead_replies_evicted_total{reason}`.
    evicted: IntCounterVec,
}

impl MemoryMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            memory: exporter.gauges(
                "nearhead_memory_bytes",
                "Anonymous memory of the process or its cgroup, and the limit of it (the machine's memory if there is none): anonymous or limit",
                &["kind"],
            )?,
            level: exporter.gauge(
                "nearhead_memory_level",
                "What memory allows: 0 everything, 1 no heavy queries and large replies, 2 replies of slow clients end as well",
            )?,
            disk: exporter.gauges(
                "nearhead_disk_bytes",
                "With a data folder, the size of its file system, and what the process may still write: size or free",
                &["kind"],
            )?,
            reply_bytes: exporter.gauges(
                "nearhead_reply_bytes",
                "Memory of large replies until their clients have taken them, and --reply-bytes: used or max",
                &["kind"],
            )?,
            replies: exporter.gauge(
                "nearhead_replies_held",
                "Large replies that their clients have not taken yet; the buffers of a session count as one",
            )?,
            refused: exporter.counter(
                "nearhead_replies_refused_total",
                "Large replies that were refused because clients have not taken others, or the process is short of memory",
            )?,
            evicted: exporter.counters(
                "nearhead_replies_evicted_total",
                "Large replies of slow clients that were ended, with their connections, by reason: room (another reply needed the bytes), memory (the process ran out of memory)",
                &["reason"],
            )?,
        })
    }

    /// Copies what the budget for replies holds and has counted.
    pub(super) fn copy_replies(&self, usage: &ReplyUse) {
        let bytes = |kind, bytes: usize| {
            self.reply_bytes
                .with_label_values(&[kind])
                .set(gauge(bytes as u64));
        };
        bytes("used", usage.used);
        bytes("max", usage.max);
        self.replies.set(gauge(usage.replies as u64));
        raise(&self.refused, usage.refused);
        let evicted = |reason| self.evicted.with_label_values(&[reason]);
        raise(&evicted("room"), usage.evicted_for_room);
        raise(&evicted("memory"), usage.evicted_for_memory);
    }

    /// Reports the file system of the data folder.
    pub(super) fn report_disk(&self, free: u64, size: u64) {
        for (kind, bytes) in [("free", free), ("size", size)] {
            self.disk.with_label_values(&[kind]).set(gauge(bytes));
        }
    }

    /// Reports the memory of the process, and what it allows.
    pub(super) fn report(&self, anonymous: u64, limit: Option<u64>, level: MemoryLevel) {
        let bytes = |kind, bytes| self.memory.with_label_values(&[kind]).set(gauge(bytes));
        bytes("anonymous", anonymous);
        if let Some(limit) = limit {
            bytes("limit", limit);
        }
        self.level.set(level as i64);
    }
}
