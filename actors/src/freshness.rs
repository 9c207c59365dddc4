//! How old the head of a chain may be.

use std::time::Duration;

use nearhead_chain::window::Snapshot;

/// Block times after which a head is stale: many more than a chain that runs ever misses in a row.
const BLOCK_TIMES_MAX: u32 = 10;

/// Lower bound of that time: on a fast chain, ten block times are less than a restart of a node
/// takes.
const AGE_MIN: Duration = Duration::from_secs(30);

/// The age from which a head is stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadAgeMax {
    /// Ten block times, and at least 30 s.
    #[default]
    Auto,
    /// None: the chain does not grow, or makes blocks on demand.
    Off,
    /// This age.
    Of(Duration),
}

/// Decides whether a head is stale. It has no clock: the caller passes the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// The age from which a head is stale.
    pub age_max: HeadAgeMax,
    /// Whether the age counts from the head's timestamp if that is earlier than its arrival. Only
    /// the blocks of known networks are stamped with the time at which they are made.
    pub counts_timestamp: bool,
}

impl Freshness {
    /// The age of a head with this timestamp (seconds since 1970) that arrived this long ago. `now`
    /// is the time since 1970.
    #[must_use]
    pub fn age(self, since_arrival: Duration, timestamp: u64, now: Duration) -> Duration {
        match self.counts_timestamp {
            true => since_arrival.max(now.saturating_sub(Duration::from_secs(timestamp))),
            false => since_arrival,
        }
    }

    /// Whether the head of `chain` is stale at this age.
    #[must_use]
    pub fn is_stale(self, age: Duration, chain: &Snapshot) -> bool {
        match self.age_max {
            HeadAgeMax::Off => false,
            HeadAgeMax::Of(max) => age > max,
            // Almost every head is younger than that, whatever the block time is.
            HeadAgeMax::Auto if age <= AGE_MIN => false,
            HeadAgeMax::Auto => {
                let blocks = chain.canonical().iter();
                let timestamps = blocks.map(|block| block.header.timestamp);
                age > block_time(timestamps).saturating_mul(BLOCK_TIMES_MAX)
            }
        }
    }
}

/// The median time between two blocks of a chain with these timestamps, oldest first; zero if there
/// are fewer than two. One long pause does not change it.
fn block_time(timestamps: impl Iterator<Item = u64>) -> Duration {
    let timestamps: Vec<u64> = timestamps.collect();
    let pairs = timestamps.windows(2);
    let mut seconds: Vec<u64> = pairs.map(|pair| pair[1].saturating_sub(pair[0])).collect();
    seconds.sort_unstable();
    let median = seconds.get(seconds.len() / 2).copied();
    Duration::from_secs(median.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nearhead_chain::{test_block::TestBlock, window::Window};

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A chain of blocks with these timestamps.
    fn chain(timestamps: &[u64]) -> Arc<Snapshot> {
        let stamped = |block: Arc<_>, timestamp| {
            let mut block: nearhead_chain::block::Block = Arc::unwrap_or_clone(block);
            block.header.timestamp = timestamp;
            block.hash = block.header.hash_slow();
            Arc::new(block)
        };
        let first = stamped(TestBlock::default().genesis(), timestamps[0]);
        let mut window = Window::new(1, first);
        for timestamp in &timestamps[1..] {
            let head = Arc::clone(window.snapshot().head());
            let child = stamped(TestBlock::default().child_of(&head), *timestamp);
            assert_eq!(window.apply(child), Ok(()));
        }
        window.snapshot()
    }

    #[test]
    fn a_head_is_stale_after_ten_block_times_and_at_least_30_seconds() {
        let cases: [(&[u64], u64); 9] = [
            (&[7], 30),
            (&[7, 8, 9], 30),
            (&[0, 12, 24, 36], 120),
            // One long pause, and one missed slot.
            (&[0, 12, 24, 9_024, 9_036, 9_048], 120),
            (&[0, 12, 36, 48], 120),
            (&[0, 3_600], 36_000),
            // Timestamps that a chain with rules cannot have.
            (&[9, 9, 9], 30),
            (&[u64::MAX, 0, 5], 50),
            (&[0, u64::MAX], u64::MAX),
        ];
        let auto = Freshness {
            age_max: HeadAgeMax::Auto,
            counts_timestamp: false,
        };
        for (timestamps, max) in cases {
            let chain = chain(timestamps);
            assert!(!auto.is_stale(seconds(max), &chain), "{timestamps:?}");
            let later = seconds(max).saturating_add(Duration::from_millis(1));
            let is_stale = auto.is_stale(later, &chain);
            assert_eq!(is_stale, max < u64::MAX, "{timestamps:?}");
        }
    }

    #[test]
    fn a_given_age_replaces_the_learned_one() {
        let chain = chain(&[0, 12, 24]);
        for (age_max, age, is_stale) in [
            (HeadAgeMax::Off, u64::MAX, false),
            (HeadAgeMax::Of(seconds(5)), 5, false),
            (HeadAgeMax::Of(seconds(5)), 6, true),
            (HeadAgeMax::Of(seconds(500)), 300, false),
        ] {
            let freshness = Freshness {
                age_max,
                counts_timestamp: true,
            };
            let found = freshness.is_stale(seconds(age), &chain);
            assert_eq!(found, is_stale, "{age_max:?} {age}");
        }
    }

    #[test]
    fn the_age_counts_from_the_arrival_or_from_an_earlier_timestamp() {
        for (counts_timestamp, since_arrival, timestamp, now, age) in [
            (false, 7, 1_000, 5_000, 7),
            (true, 7, 1_000, 5_000, 4_000),
            (true, 7, 4_999, 5_000, 7),
            // A timestamp in the future is no age, and neither is one that no clock reaches.
            (true, 7, 5_010, 5_000, 7),
            (true, 7, u64::MAX, 5_000, 7),
        ] {
            let freshness = Freshness {
                age_max: HeadAgeMax::Auto,
                counts_timestamp,
            };
            let found = freshness.age(seconds(since_arrival), timestamp, seconds(now));
            assert_eq!(found, seconds(age), "{counts_timestamp} {timestamp}");
        }
    }
}
