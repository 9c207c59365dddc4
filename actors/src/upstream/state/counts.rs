//! How often state was held, and how often an upstream was asked for it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::messages::{Reply, is_missing};

/// What became of a call for state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// What came was verified.
    Verified,
    /// What came failed a check.
    Refuted,
    /// Nothing came.
    Failed,
}

/// Reads of state that is held in part, and calls made for them, since the start.
#[derive(Debug, Default)]
pub struct StateCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    calls: [AtomicU64; 3],
}

impl StateCounts {
    /// Reads by their outcome: `hit`, answered from what was held; `miss`, where something had to
    /// be fetched.
    #[must_use]
    pub fn reads(&self) -> [(&'static str, u64); 2] {
        [("hit", load(&self.hits)), ("miss", load(&self.misses))]
    }

    /// Calls to upstreams by their outcome.
    #[must_use]
    pub fn fetches(&self) -> [(&'static str, u64); 3] {
        let [verified, refuted, failed] = &self.calls;
        [
            ("verified", load(verified)),
            ("refuted", load(refuted)),
            ("failed", load(failed)),
        ]
    }

    /// Counts a read by its first answer. One that has another reason to fail is neither.
    pub(crate) fn read<T>(&self, reply: &Reply<T>) {
        if reply.is_ok() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else if is_missing(reply) {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn called(&self, end: CallEnd) {
        self.calls[end as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
