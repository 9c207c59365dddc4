//! How often state was resident, and how often an upstream was asked for it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::messages::{Reply, is_missing};

/// How a call for state ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The answer was verified.
    Verified,
    /// The answer failed a check.
    Refuted,
    /// The call failed.
    Failed,
}

/// Counts of reads of partly resident state, and of the calls for them, since the start.
#[derive(Debug, Default)]
pub struct StateCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    calls: [AtomicU64; 3],
}

impl StateCounts {
    /// Reads by outcome: `hit` if all state was resident, `miss` if some had to be fetched.
    #[must_use]
    pub fn reads(&self) -> [(&'static str, u64); 2] {
        [("hit", load(&self.hits)), ("miss", load(&self.misses))]
    }

    /// Calls to upstreams by outcome.
    #[must_use]
    pub fn calls(&self) -> [(&'static str, u64); 3] {
        let [verified, refuted, failed] = &self.calls;
        [
            ("verified", load(verified)),
            ("refuted", load(refuted)),
            ("failed", load(failed)),
        ]
    }

    /// Counts a read by its first attempt: a hit if it succeeded, a miss if state was missing. A
    /// read that failed for another reason is not counted.
    pub(crate) fn count_read<T>(&self, reply: &Reply<T>) {
        if reply.is_ok() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        } else if is_missing(reply) {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_call(&self, end: CallEnd) {
        self.calls[end as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
