//! How fast an upstream gives blocks.

use std::{collections::VecDeque, time::Duration};

use super::upstream_state::Moment;

/// Fetches whose median is the usual time.
const FETCHES: usize = 9;

/// The most delays that are counted: a slow upstream that is fast again is soon trusted.
const DELAYS_MAX: u32 = 8;

/// The times of an upstream's last fetches, and how often it was slow.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchTimes {
    recent: VecDeque<Duration>,
    /// When the last of these ended.
    gave_at: Moment,
    /// When it did not give a block, and how long it was asked for it. `None`: it has given one
    /// since.
    failed: Option<(Moment, Duration)>,
    delays: u32,
    slow_at: Moment,
}

impl FetchTimes {
    /// Records that it gave a block. In less than `patience`, that makes up for a delay. What is
    /// `forgiven_after` old says nothing any more.
    pub(super) fn gave(
        &mut self,
        now: Moment,
        took: Duration,
        patience: Duration,
        forgiven_after: Duration,
    ) {
        if self.is_old(now, forgiven_after) {
            self.recent.clear();
        }
        if self.recent.len() == FETCHES {
            self.recent.pop_front();
        }
        self.recent.push_back(took);
        (self.gave_at, self.failed) = (now, None);
        if took < patience {
            self.delays = self.delays.saturating_sub(1);
        }
    }

    /// Whether it has given no block lately.
    fn is_old(&self, now: Moment, forgiven_after: Duration) -> bool {
        now.saturating_sub(self.gave_at) >= forgiven_after
    }

    /// Records that it was asked this long for a block that it did not give. That says nothing if
    /// it has given another one meanwhile.
    pub(super) fn failed(&mut self, now: Moment, took: Duration, forgiven_after: Duration) {
        let has_given_since = now.saturating_sub(took) < self.gave_at;
        if !has_given_since && took >= self.in_vain(now, forgiven_after) {
            self.failed = Some((now, took));
        }
    }

    /// How long it was asked in vain lately.
    fn in_vain(&self, now: Moment, forgiven_after: Duration) -> Duration {
        let is_recent = |at: Moment| now.saturating_sub(at) < forgiven_after;
        let failed = self.failed.filter(|(at, _)| is_recent(*at));
        failed.map_or(Duration::ZERO, |(_, took)| took)
    }

    /// Records that it was slow.
    pub(super) fn was_slow(&mut self, now: Moment) {
        self.delays = self.delays.saturating_add(1).min(DELAYS_MAX);
        self.slow_at = now;
    }

    /// How often it was slow; forgotten after `forgiven_after` without a delay.
    pub(super) fn delays(&self, now: Moment, forgiven_after: Duration) -> u32 {
        match now.saturating_sub(self.slow_at) < forgiven_after {
            true => self.delays,
            false => 0,
        }
    }

    /// The median of its last fetches, zero if there was none, or how long it was asked in vain
    /// lately, if that is longer.
    pub(super) fn usual(&self, now: Moment, forgiven_after: Duration) -> Duration {
        self.median().max(self.in_vain(now, forgiven_after))
    }

    /// The median of its last fetches; zero if there was none.
    pub(super) fn median(&self) -> Duration {
        let mut sorted: Vec<_> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// The same without those fetches if it has given no block lately, so that it is soon tried.
    pub(super) fn usual_lately(&self, now: Moment, forgiven_after: Duration) -> Duration {
        match self.is_old(now, forgiven_after) {
            true => self.in_vain(now, forgiven_after),
            false => self.usual(now, forgiven_after),
        }
    }
}
