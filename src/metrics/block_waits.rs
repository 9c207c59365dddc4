//! Metrics of requests that wait for a block that their clients have seen elsewhere.

use std::time::Duration;

use prometheus::{Error, Histogram, IntCounter};

use super::exporter::Exporter;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// The block was reached.
    Reached,
    /// It was not reached in time.
    Late,
    /// Too many requests waited already.
    Full,
}

impl WaitOutcome {
    const ALL: [Self; 3] = [Self::Reached, Self::Late, Self::Full];

    const fn label(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Late => "late",
            Self::Full => "full",
        }
    }
}

/// Upper bounds in seconds: a block takes some 50 ms from one process to the next, and the longest
/// wait is 10 s.
const WAIT_SECONDS: [f64; 8] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0];

/// The series of such waits.
#[derive(Clone, Debug)]
pub(crate) struct BlockWaitMetrics {
    /// `nearhead_min_block_waits_total{outcome}`.
    outcomes: [IntCounter; WaitOutcome::ALL.len()],
    /// `nearhead_min_block_wait_seconds`.
    reached: Histogram,
}

impl BlockWaitMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        let outcomes = exporter.counters(
            "nearhead_min_block_waits_total",
            "Requests that named a block that was not reached yet (X-Nearhead-Min-Block, minBlock), by outcome: reached, late (not within --min-block-wait, or too far above the head), full (too many waited already)",
            &["outcome"],
        )?;
        let reached = exporter.histogram(
            "nearhead_min_block_wait_seconds",
            "Time that requests waited for a block that was then reached",
            &WAIT_SECONDS,
        )?;
        let of = |outcome: WaitOutcome| outcomes.with_label_values(&[outcome.label()]);
        Ok(Self {
            outcomes: WaitOutcome::ALL.map(of),
            reached,
        })
    }

    /// Counts a wait that ended after this time.
    pub(crate) fn ended(&self, outcome: WaitOutcome, waited: Duration) {
        self.outcomes[outcome as usize].inc();
        if outcome == WaitOutcome::Reached {
            self.reached.observe(waited.as_secs_f64());
        }
    }
}
