//! What is known of one upstream.

use std::time::Duration;

use alloy_primitives::B256;

use super::{
    head_pace::HeadPace,
    upstream_state::{Fault, Moment},
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
    /// Whether its heads come in real time.
    pub(super) pace: HeadPace,
    /// Number and hash of the block that it calls finalized.
    pub(super) finalized: Option<(u64, B256)>,
    /// Whether it reports that it is syncing.
    pub(super) is_syncing: bool,
    /// Since when another head has been higher.
    pub(super) behind_since: Option<Moment>,
    /// The end of its cooldown, after it failed a probation.
    pub(super) cooldown_until: Option<Moment>,
    /// Set from a fault or limit until it names a head after its backoff.
    pub(super) backoff: Option<BackoffPeriod>,
    /// Backoff periods in a row.
    pub(super) strikes: u32,
    /// When the last backoff period ended.
    pub(super) quiet_since: Moment,
}

/// Why an upstream is backed off, and until when. The period stays in force after its end until
/// the upstream names a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackoffPeriod {
    /// `None`: the upstream limits our rate.
    pub(super) fault: Option<Fault>,
    pub(super) until: Moment,
}

impl Record {
    /// The head, if the upstream can be followed.
    pub(super) fn usable_head(&self) -> Option<&HeadClaim> {
        let is_usable = self.backoff.is_none() && !self.is_syncing;
        self.head.as_ref().filter(|_| is_usable)
    }

    /// Whether its fork failed a probation not long ago.
    pub(super) fn is_in_cooldown(&self, now: Moment) -> bool {
        self.cooldown_until.is_some_and(|until| now < until)
    }
}
