//! Metrics of state from nodes: what is read, fetched, merged and held.

use nearhead_actors::upstream::{MergeCounts, StateSource};
use prometheus::{Error, Histogram, IntCounter, IntCounterVec, IntGaugeVec};

use super::exporter::{Exporter, gauge, raise};

/// Bounds of the time until a block is merged, in seconds: half a block time at most.
const MERGE_SECONDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The series of state from nodes.
#[derive(Clone, Debug)]
pub(super) struct StateMetrics {
    /// `nearhead_state_reads_total{outcome}`.
    reads: IntCounterVec,
    /// `nearhead_state_fetches_total{outcome}`.
    fetches: IntCounterVec,
    /// `nearhead_state_merges_total{source, outcome}`.
    merges: IntCounterVec,
    /// `nearhead_state_merge_seconds`.
    merge_seconds: Histogram,
    /// `nearhead_state_merged_keys_total{how}`.
    merged_keys: IntCounterVec,
    /// `nearhead_state_merge_requests_total`.
    merge_requests: IntCounter,
    /// `nearhead_state_merge_keys_asked_total`.
    merge_keys_asked: IntCounter,
    /// `nearhead_state_merge_bytes_total`.
    merge_bytes: IntCounter,
    /// `nearhead_state_held{kind}`.
    held: IntGaugeVec,
    /// `nearhead_state_evicted_total`.
    evicted: IntCounter,
}

impl StateMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            reads: exporter.counters(
                "nearhead_state_reads_total",
                "Reads of state from nodes: hit if all of it was in memory, miss if some had to be fetched",
                &["outcome"],
            )?,
            fetches: exporter.counters(
                "nearhead_state_fetches_total",
                "Calls to nodes for state or an access list that a read missed: verified, refuted (failed a check) or failed (gave no proof, code or list)",
                &["outcome"],
            )?,
            merges: exporter.counters(
                "nearhead_state_merges_total",
                "Blocks merged into the state that is held, by the source of their changes and by outcome: whole (held as far as before, with all that changed), part (the rest is fetched when it is read), late (half a block time was over) or failed (no node gave what was needed)",
                &["source", "outcome"],
            )?,
            merge_seconds: exporter.histogram(
                "nearhead_state_merge_seconds",
                "Time from the moment that a head is readable until its changes are merged",
                MERGE_SECONDS,
            )?,
            merged_keys: exporter.counters(
                "nearhead_state_merged_keys_total",
                "Changed accounts and slots by how their new values were found: computed or proven",
                &["how"],
            )?,
            merge_requests: exporter.counter(
                "nearhead_state_merge_requests_total",
                "Requests to nodes for merges: an access list, a trace, a witness or a batch of proofs",
            )?,
            merge_keys_asked: exporter.counter(
                "nearhead_state_merge_keys_asked_total",
                "Accounts and slots that nodes were asked to prove for merges",
            )?,
            merge_bytes: exporter.counter(
                "nearhead_state_merge_bytes_total",
                "Bytes of JSON in the answers to the requests for merges",
            )?,
            held: exporter.gauges(
                "nearhead_state_held",
                "State from nodes that is held: values (of accounts and slots, each version once), nodes (of tries, with those that are named and not held) or bytes (of memory)",
                &["kind"],
            )?,
            evicted: exporter.counter(
                "nearhead_state_evicted_total",
                "Trie nodes and codes that were dropped to stay below --state-bytes",
            )?,
        })
    }

    /// Records a merge.
    pub(super) fn merged(&self, seconds: f64) {
        self.merge_seconds.observe(seconds);
    }

    /// Copies what the source of state has counted, and what it holds.
    pub(super) fn copy(&self, source: &StateSource) {
        let counts = source.counts();
        for (outcome, total) in counts.reads() {
            raise(&self.reads.with_label_values(&[outcome]), total);
        }
        for (outcome, total) in counts.calls() {
            raise(&self.fetches.with_label_values(&[outcome]), total);
        }
        self.copy_merges(source.merges());
        let store = source.store();
        let held = |kind, value: usize| {
            let series = self.held.with_label_values(&[kind]);
            series.set(gauge(value as u64));
        };
        let stats = store.stats();
        held("values", stats.values);
        held("nodes", stats.nodes);
        held("bytes", store.held_bytes());
        raise(&self.evicted, store.evicted());
    }

    fn copy_merges(&self, merges: &MergeCounts) {
        for (labels, total) in merges.merges() {
            raise(&self.merges.with_label_values(&labels), total);
        }
        for (how, total) in merges.keys() {
            raise(&self.merged_keys.with_label_values(&[how]), total);
        }
        raise(&self.merge_requests, merges.requests());
        raise(&self.merge_keys_asked, merges.keys_asked());
        raise(&self.merge_bytes, merges.bytes());
    }
}
