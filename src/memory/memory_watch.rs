//! Refuses heavy work and ends replies of slow clients when memory runs out.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use nearhead_actors::{admission::MemoryLevel, read::ReadResources};

use super::memory_source::{MemorySource, MemoryUse};
use crate::{
    connections::every,
    limits::{
        MEMORY_CRITICAL_PERCENT, MEMORY_SHORT_PERCENT, MEMORY_WAIT_ALL_PERCENT,
        MEMORY_WAIT_SOME_PERCENT, REPLY_BYTES_AUTO_MAX, REPLY_BYTES_AUTO_MIN, STATE_BYTES_AUTO_MAX,
    },
    metrics::Metrics,
};

/// How often memory is looked at. It costs some 30 µs.
const PERIOD: Duration = Duration::from_millis(250);

/// Watches the memory of the process, from the thread that starts it, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    source: MemorySource,
    reads: ReadResources,
    metrics: Metrics,
    level: Cell<MemoryLevel>,
}

impl MemoryWatch {
    /// Starts the watch.
    pub(crate) fn start(
        source: MemorySource,
        reads: &ReadResources,
        metrics: &Metrics,
    ) -> Rc<Self> {
        let this = Rc::new(Self {
            source,
            reads: reads.clone(),
            metrics: metrics.clone(),
            level: Cell::default(),
        });
        every(PERIOD, Rc::downgrade(&this), Self::tick);
        this
    }

    fn tick(&self) {
        let memory = self.source.read();
        let level = level(&memory);
        if self.level.replace(level) != level {
            tracing::warn!(?level, ?memory, "what the memory allows has changed");
        }
        self.metrics.memory(memory.anonymous, memory.limit, level);
        self.reads.set_memory_level(level, Instant::now());
    }
}

/// What the memory allows.
fn level(memory: &MemoryUse) -> MemoryLevel {
    let is_at = |percent: u64| {
        memory.limit.is_some_and(|limit| {
            u128::from(memory.anonymous) * 100 >= u128::from(limit) * u128::from(percent)
        })
    };
    if is_at(MEMORY_CRITICAL_PERCENT) || memory.all_waited >= MEMORY_WAIT_ALL_PERCENT {
        MemoryLevel::Critical
    } else if is_at(MEMORY_SHORT_PERCENT) || memory.some_waited >= MEMORY_WAIT_SOME_PERCENT {
        MemoryLevel::Short
    } else {
        MemoryLevel::Enough
    }
}

/// The budget for replies where none is given: a sixteenth of the memory.
pub(crate) fn auto_reply_bytes(source: &MemorySource) -> usize {
    reply_bytes(source.read().limit)
}

/// The budget for this much memory; the smallest one if it is not known.
fn reply_bytes(memory: Option<u64>) -> usize {
    let part = usize::try_from(memory.unwrap_or(0) / 16).unwrap_or(usize::MAX);
    part.clamp(REPLY_BYTES_AUTO_MIN, REPLY_BYTES_AUTO_MAX)
}

/// The bound on state from nodes where none is given: a quarter of the memory.
pub(crate) fn auto_state_bytes(source: &MemorySource) -> usize {
    state_bytes(source.read().limit)
}

/// The bound for this much memory; the largest one if it is not known.
fn state_bytes(memory: Option<u64>) -> usize {
    let part = memory.map_or(u64::MAX, |memory| memory / 4);
    usize::try_from(part).map_or(STATE_BYTES_AUTO_MAX, |part| part.min(STATE_BYTES_AUTO_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_takes_a_quarter_of_the_memory_and_a_gibibyte_at_most() {
        for (memory, expected) in [
            (Some(1 << 30), 1 << 28),
            (Some(4 << 30), 1 << 30),
            (Some(64 << 30), 1 << 30),
            (None, 1 << 30),
        ] {
            assert_eq!(state_bytes(memory), expected, "{memory:?}");
        }
    }

    #[test]
    fn replies_take_a_sixteenth_of_the_memory_within_bounds() {
        for (memory, expected) in [
            (None, REPLY_BYTES_AUTO_MIN),
            (Some(1), REPLY_BYTES_AUTO_MIN),
            (
                Some(16 * (REPLY_BYTES_AUTO_MIN as u64 + 7)),
                REPLY_BYTES_AUTO_MIN + 7,
            ),
            (Some(u64::MAX), REPLY_BYTES_AUTO_MAX),
        ] {
            assert_eq!(reply_bytes(memory), expected, "{memory:?}");
        }
    }

    #[test]
    fn memory_runs_short_before_it_runs_out() {
        for (anonymous, limit, waited, expected) in [
            (899, Some(1_000), (39.0, 19.0), MemoryLevel::Enough),
            (900, Some(1_000), (0.0, 0.0), MemoryLevel::Short),
            (949, Some(1_000), (0.0, 0.0), MemoryLevel::Short),
            (950, Some(1_000), (0.0, 0.0), MemoryLevel::Critical),
            (u64::MAX, Some(u64::MAX), (0.0, 0.0), MemoryLevel::Critical),
            (u64::MAX, None, (0.0, 0.0), MemoryLevel::Enough),
            (0, Some(1_000), (40.0, 0.0), MemoryLevel::Short),
            (0, None, (40.0, 20.0), MemoryLevel::Critical),
        ] {
            let memory = MemoryUse {
                anonymous,
                limit,
                some_waited: waited.0,
                all_waited: waited.1,
            };
            assert_eq!(level(&memory), expected, "{memory:?}");
        }
    }
}
