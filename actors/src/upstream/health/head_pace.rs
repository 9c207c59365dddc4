//! Whether an upstream's blocks come as time passes.

use std::{collections::VecDeque, time::Duration};

use super::Moment;

/// Heads that it is judged by.
const HEADS: usize = 16;

/// An upstream's last heads: when each was named, and the seconds in its header.
#[derive(Clone, Debug, Default)]
pub(super) struct HeadPace {
    heads: VecDeque<(Moment, u64)>,
}

impl HeadPace {
    /// The upstream names another head.
    pub(super) fn named(&mut self, now: Moment, seconds: u64) {
        if self.heads.len() == HEADS {
            self.heads.pop_front();
        }
        self.heads.push_back((now, seconds));
    }

    /// Whether the blocks' own time has gone on about as time has: no more than twice as fast, no
    /// less than half. It is not if the upstream is catching up, or cannot keep up. Who has named few
    /// heads is given the benefit of the doubt.
    pub(super) fn is_kept(&self, block_time: Duration) -> bool {
        let (Some(first), Some(last)) = (self.heads.front(), self.heads.back()) else {
            return true;
        };
        let passed = last.0.saturating_sub(first.0);
        let told = Duration::from_secs(last.1.saturating_sub(first.1));
        // Headers have whole seconds, and a head may be heard late.
        let slack = Duration::from_secs(1) + block_time * 2;
        told <= (passed * 2).saturating_add(slack)
            && passed <= told.saturating_mul(2).saturating_add(slack)
    }
}
