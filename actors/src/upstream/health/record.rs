//! What is known of one upstream.

use std::time::Duration;

use super::{
    class::{BackoffPeriod, CallClass, ClassHealth},
    fetch_times::FetchTimes,
    upstream_state::Moment,
};
use crate::upstream::client::HeadClaim;

/// Everything that [`super::Health`] remembers of one upstream.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// The head that it named last.
    pub(super) head: Option<HeadClaim>,
    /// When it first named that head.
    pub(super) head_since: Moment,
    /// When it last named any head.
    pub(super) heard_at: Moment,
    /// The block time at that moment: an upstream does not become silent because blocks turn out to
    /// come faster than estimated.
    pub(super) block_time_when_heard: Duration,
    /// Whether it reports that it is syncing.
    pub(super) is_syncing: bool,
    /// Whether it is quarantined.
    pub(super) is_quarantined: bool,
    /// Since when the served head has been higher.
    pub(super) behind_since: Option<Moment>,
    /// How fast it gives blocks.
    pub(super) fetch_times: FetchTimes,
    /// The health of each class of calls.
    classes: [ClassHealth; CallClass::ALL.len()],
}

impl Record {
    pub(super) const fn class(&self, class: CallClass) -> &ClassHealth {
        &self.classes[class as usize]
    }

    pub(super) const fn class_mut(&mut self, class: CallClass) -> &mut ClassHealth {
        &mut self.classes[class as usize]
    }

    /// The head, if the upstream is heard: it is not backed off for calls for heads, and not
    /// syncing.
    pub(super) fn heard_head(&self) -> Option<&HeadClaim> {
        let is_heard = self.class(CallClass::Heads).backoff().is_none() && !self.is_syncing;
        self.head.as_ref().filter(|_| is_heard)
    }

    /// The head, if the upstream can be asked for it: it is heard, and not backed off for calls for
    /// blocks.
    pub(super) fn usable_head(&self) -> Option<&HeadClaim> {
        let gives_blocks = self.class(CallClass::Blocks).backoff().is_none();
        self.heard_head().filter(|_| gives_blocks)
    }

    /// Why it is not asked: of the backoffs for heads and for blocks, the one that ends last.
    pub(super) fn backoff(&self) -> Option<BackoffPeriod> {
        let classes = [CallClass::Heads, CallClass::Blocks];
        let backoffs = classes.map(|class| self.class(class).backoff());
        backoffs
            .into_iter()
            .flatten()
            .max_by_key(|backoff| backoff.until)
    }

    /// The strikes that count when it is compared with others.
    pub(super) fn strikes(&self, now: Moment, forgiven_after: Duration) -> u32 {
        let of = |class| self.class(class).strikes(now, forgiven_after);
        of(CallClass::Heads).saturating_add(of(CallClass::Blocks))
    }
}
