//! Whether an upstream's heads come in real time.

use std::{collections::VecDeque, time::Duration};

use super::upstream_state::Moment;

/// Number of heads that the pace is computed from.
const HEADS: usize = 16;

/// The last heads of one upstream: when each was named, and its header's timestamp in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadPace {
    heads: VecDeque<(Moment, u64)>,
}

impl HeadPace {
    /// Records that the upstream named another head.
    pub(super) fn record(&mut self, now: Moment, seconds: u64) {
        if self.heads.len() == HEADS {
            self.heads.pop_front();
        }
        self.heads.push_back((now, seconds));
    }

    /// Whether block timestamps advanced at most twice as fast as the clock, and at least half as
    /// fast. An upstream that is catching up is faster; one that cannot keep up is slower. With few
    /// heads, it is true.
    pub(super) fn is_real_time(&self, block_time: Duration) -> bool {
        let (Some(first), Some(last)) = (self.heads.front(), self.heads.back()) else {
            return true;
        };
        let passed = last.0.saturating_sub(first.0);
        let stamped = Duration::from_secs(last.1.saturating_sub(first.1));
        // Headers have whole seconds, and a head may be heard late.
        let slack = Duration::from_secs(1) + block_time * 2;
        stamped <= (passed * 2).saturating_add(slack)
            && passed <= stamped.saturating_mul(2).saturating_add(slack)
    }
}
