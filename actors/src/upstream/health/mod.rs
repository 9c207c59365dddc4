//! How upstreams are doing: what each may be asked, and when.
//!
//! The caller reports what upstreams say and do, and when; [`Health`] answers with the state of
//! each and the times of its polls. It does no I/O and has no clock. It does not decide which block
//! is served: `agree` does.
//!
//! - **Backoff.** After a fault, or when it asks for fewer calls, an upstream is not asked for a
//!   time that doubles with each strike. Each class of calls has a backoff of its own
//!   ([`CallClass`]), so that a refusal or a stall in one takes nothing from the others. After a
//!   call for heads or blocks that was given up, the backoff is the shortest one.
//! - **Heads.** Upstreams that come back have to be heard, or their agreement would come late. So a
//!   call for heads is given up after a block time, and a backoff after a fault lasts at most as
//!   long; both have a lower bound for fast chains.
//! - **Blocks.** How long one upstream may take for a block follows from what the others usually
//!   take. On a slow machine that is long for all of them, and none is left for another.
//! - **Lagging.** An upstream lags when its head has been below the served one for half a block
//!   time.

mod backoff;
mod block_time;
mod class;
mod fetch_times;
mod record;
mod upstream_state;

#[cfg(test)]
mod tests;

use std::time::Duration;

use alloy_primitives::B256;
#[cfg(test)]
pub(crate) use backoff::BACKOFF_MAX;
pub(crate) use class::CallClass;
pub use upstream_state::{Fault, UpstreamState};
pub(crate) use upstream_state::{FaultReport, Moment, UpstreamId, Verdict};

use super::client::HeadClaim;
use backoff::Backoff;
pub(crate) use block_time::BlockTime;
use class::BackoffPeriod;
use record::Record;

/// Block times without a head after which an upstream is [`Fault::Silent`].
const SILENT_BLOCKS: u32 = 3;

/// Lower bound of that time: on a fast chain, three block times are less than a distant upstream
/// or a busy machine needs for an answer.
const SILENT_MIN: Duration = Duration::from_secs(2);

/// Shortest time that an upstream has to answer a call for heads; usually that is a block time. On
/// a chain of one second, a call that is lost must leave time for another within three block times.
const HEADS_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Lower bound of the longest backoff of calls for heads, which is a block time.
const HEADS_BACKOFF_MIN: Duration = Duration::from_secs(1);

/// Longest pause between two polls of an upstream that announces no heads. Headers that are far
/// apart may come from a chain that makes blocks on demand.
const POLL_MAX: Duration = Duration::from_secs(3);

/// Block times after which earlier strikes are forgotten, and earlier delays.
const FORGIVEN_BLOCKS: u32 = 16;

/// Times that another upstream usually takes for a block, after which one is slow.
const PATIENCE_FETCHES: u32 = 4;

/// Lower bound of that time, and its upper bound as a share of the block time.
const PATIENCE_MIN: Duration = Duration::from_millis(50);
const PATIENCE_SHARE: u32 = 4;

/// Where the others need longer than that share, asking one of them as well gains nothing before so
/// many times what it usually takes. It is asked after a block time and [`PATIENCE_LONG`] at most.
const WORTHWHILE_FETCHES: u32 = 2;
const PATIENCE_LONG: Duration = Duration::from_secs(2);

/// Shortest time without a new block after which an upstream is stuck. A distant one may need that
/// long for one block.
const STUCK_MIN: Duration = Duration::from_secs(1);

/// What is known of all upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    upstreams: Vec<Record>,
    /// Number of the served head.
    head: Option<u64>,
    block_time: BlockTime,
    backoff: Backoff,
}

/// How long to wait for an answer to a call for heads.
pub(crate) fn heads_timeout(block_time: Duration) -> Duration {
    block_time.max(HEADS_TIMEOUT_MIN)
}

impl Health {
    /// The health of this many upstreams, of which nothing is known. Equal seeds give equal waits.
    pub(crate) fn new(upstreams: usize, seed: u64) -> Self {
        Self {
            upstreams: vec![Record::default(); upstreams],
            head: None,
            block_time: BlockTime::default(),
            backoff: Backoff::new(seed),
        }
    }

    /// The chain's block time.
    pub(crate) const fn block_time(&self) -> Duration {
        self.block_time.get()
    }

    /// How long to wait for an answer to a call for heads: an upstream that comes back does not
    /// answer what it was asked before, and has to be heard all the same. `None`: as long as for
    /// any call, because the block time is not known yet.
    pub(crate) fn heads_timeout(&self) -> Option<Duration> {
        self.block_time.known().map(heads_timeout)
    }

    /// Learns from the number and timestamp of two held blocks.
    pub(crate) fn learn_block_time(&mut self, older: (u64, u64), newer: (u64, u64)) {
        self.block_time.learn(older, newer);
    }

    /// The state of an upstream.
    pub(crate) fn state(&self, upstream: UpstreamId, now: Moment) -> UpstreamState {
        let upstream = &self.upstreams[upstream];
        if upstream.is_quarantined {
            return UpstreamState::Quarantined;
        }
        match upstream.backoff() {
            Some(BackoffPeriod { fault: None, .. }) => UpstreamState::Limited,
            Some(BackoffPeriod {
                fault: Some(fault), ..
            }) => UpstreamState::Faulty(fault),
            None if upstream.usable_head().is_none() => UpstreamState::Syncing,
            None => match upstream.behind_since {
                Some(since) if now.saturating_sub(since) >= self.block_time() / 2 => {
                    UpstreamState::Lagging
                }
                _ => UpstreamState::Live,
            },
        }
    }

    /// Whether an upstream other than this one names heads and can be asked for blocks.
    pub(crate) fn has_other(&self, upstream: UpstreamId) -> bool {
        let mut others = self.upstreams.iter().enumerate();
        others.any(|(id, other)| id != upstream && other.usable_head().is_some())
    }

    /// The head that an upstream named last.
    #[cfg(test)]
    pub(crate) fn head(&self, upstream: UpstreamId) -> Option<HeadClaim> {
        self.upstreams[upstream].head
    }

    /// When an upstream first named this block as its head, if that is still its head.
    pub(crate) fn named_at(&self, upstream: UpstreamId, hash: B256) -> Option<Moment> {
        let upstream = &self.upstreams[upstream];
        let head = upstream.head.filter(|head| head.hash == hash);
        head.map(|_| upstream.head_since)
    }

    /// The strikes of an upstream in calls for heads and blocks.
    pub(crate) fn strikes(&self, upstream: UpstreamId, now: Moment) -> u32 {
        self.upstreams[upstream].strikes(now, self.forgiven_after())
    }

    /// How often an upstream was lately slow to give a block.
    pub(crate) fn delays(&self, upstream: UpstreamId, now: Moment) -> u32 {
        let times = &self.upstreams[upstream].fetch_times;
        times.delays(now, self.forgiven_after())
    }

    /// How long to wait for a block until these others are asked for it as well: some times as long
    /// as the fastest of them usually takes. An upstream cannot prolong this by being slow itself.
    /// `None` if there are no others.
    pub(crate) fn patience(
        &self,
        others: impl Iterator<Item = UpstreamId>,
        now: Moment,
    ) -> Option<Duration> {
        let forgiven_after = self.forgiven_after();
        let usual = others.map(|id| {
            let times = &self.upstreams[id].fetch_times;
            times.usual_lately(now, forgiven_after)
        });
        let usual = usual.min()?;
        let block_time = self.block_time();
        let longest = usual.saturating_mul(WORTHWHILE_FETCHES);
        let longest = longest.min(block_time.max(PATIENCE_LONG));
        let longest = longest.max(block_time / PATIENCE_SHARE);
        let patience = usual.saturating_mul(PATIENCE_FETCHES);
        Some(patience.min(longest).max(PATIENCE_MIN))
    }

    /// How long an upstream may give no block while these others could be asked in its place:
    /// half a block time, and longer where they usually need longer. `None` if there are none.
    pub(crate) fn longest_silence(
        &self,
        others: impl Iterator<Item = UpstreamId>,
        now: Moment,
    ) -> Option<Duration> {
        let usual = self.fastest(others, now)?.saturating_mul(PATIENCE_FETCHES);
        Some(usual.max(self.block_time() / 2).max(STUCK_MIN))
    }

    /// How long an upstream may take for all blocks of a path, of which it is asked for so many
    /// rounds one after the other, while these others could be asked in its place: a block time,
    /// and longer where they usually need longer. `None` if there are none.
    pub(crate) fn longest_for_path(
        &self,
        others: impl Iterator<Item = UpstreamId>,
        rounds: u32,
        now: Moment,
    ) -> Option<Duration> {
        let usual = self.fastest(others, now)?.saturating_mul(PATIENCE_FETCHES);
        let least = self.block_time().max(STUCK_MIN * 2);
        Some(usual.saturating_mul(rounds).max(least))
    }

    /// How long the fastest of these usually takes for a block.
    fn fastest(
        &self,
        upstreams: impl Iterator<Item = UpstreamId>,
        now: Moment,
    ) -> Option<Duration> {
        let forgiven_after = self.forgiven_after();
        let usual = upstreams.map(|id| {
            let times = &self.upstreams[id].fetch_times;
            times.usual(now, forgiven_after)
        });
        usual.min()
    }

    /// How long an upstream has for a block before it is asked once more: the call may have been
    /// lost. How long it was asked in vain does not count.
    pub(crate) fn lost_after(&self, upstream: UpstreamId) -> Duration {
        let median = self.upstreams[upstream].fetch_times.median();
        let least = heads_timeout(self.block_time());
        median.saturating_mul(PATIENCE_FETCHES).max(least)
    }

    /// Records that a call for a block of a new head ended after this time, and whether the
    /// upstream gave the block.
    pub(crate) fn fetch_ended(
        &mut self,
        upstream: UpstreamId,
        now: Moment,
        took: Duration,
        is_given: bool,
    ) {
        let others = (0..self.upstreams.len()).filter(|other| *other != upstream);
        let patience = self.patience(others, now).unwrap_or(Duration::MAX);
        let forgiven_after = self.forgiven_after();
        let times = &mut self.upstreams[upstream].fetch_times;
        match is_given {
            true => times.gave(now, took, patience, forgiven_after),
            false => times.failed(now, took, forgiven_after),
        }
    }

    /// Records that an upstream was slow to give a block, so that another one is asked as well.
    pub(crate) fn was_slow(&mut self, upstream: UpstreamId, now: Moment) {
        self.upstreams[upstream].fetch_times.was_slow(now);
    }

    fn forgiven_after(&self) -> Duration {
        self.block_time() * FORGIVEN_BLOCKS
    }

    /// When to poll an upstream again that was polled at `asked`; `announces` if it also announces
    /// heads.
    pub(crate) fn poll_at(&self, upstream: UpstreamId, asked: Moment, announces: bool) -> Moment {
        let block_time = self.block_time();
        let pause = match announces {
            true => block_time,
            false => (block_time / 4).min(POLL_MAX),
        };
        let later = |class| {
            let backoff = self.upstreams[upstream].class(class).backoff()?;
            Some(backoff.until).filter(|until| *until > asked)
        };
        let at = asked + pause;
        // The head that it names at the end of its backoff for blocks makes it usable again.
        let with_blocks = later(CallClass::Blocks).map_or(at, |until| at.min(until));
        later(CallClass::Heads).unwrap_or(with_blocks)
    }

    /// Whether an upstream may be asked with calls of this class.
    pub(crate) fn may_ask(&self, upstream: UpstreamId, class: CallClass, now: Moment) -> bool {
        self.upstreams[upstream].class(class).may_ask(now)
    }

    /// Records the head that an upstream named, and returns whether it counts: not while the
    /// upstream is backed off for heads.
    pub(crate) fn head_named(
        &mut self,
        upstream: UpstreamId,
        now: Moment,
        head: HeadClaim,
    ) -> bool {
        if !self.may_ask(upstream, CallClass::Heads, now) {
            return false;
        }
        let block_time = self.block_time();
        let upstream = &mut self.upstreams[upstream];
        upstream.class_mut(CallClass::Heads).recover(now);
        upstream.class_mut(CallClass::Blocks).recover(now);
        upstream.heard_at = now;
        upstream.block_time_when_heard = block_time;
        if upstream.head.is_none_or(|before| before.hash != head.hash) {
            upstream.head_since = now;
        }
        // Its number for the same hash may have been wrong before.
        upstream.head = Some(head);
        self.update_lagging(now);
        true
    }

    /// Records whether an upstream reports that it is syncing.
    pub(crate) fn syncing_reported(&mut self, upstream: UpstreamId, now: Moment, is_syncing: bool) {
        self.upstreams[upstream].is_syncing = is_syncing;
        self.update_lagging(now);
    }

    /// Records whether an upstream is quarantined.
    pub(crate) fn set_quarantined(&mut self, upstream: UpstreamId, is_quarantined: bool) {
        self.upstreams[upstream].is_quarantined = is_quarantined;
    }

    /// Records that a call failed, or that its answer failed a check. Returns how long the upstream
    /// is backed off for calls of this class; `None` if this changes nothing.
    pub(crate) fn failed(
        &mut self,
        upstream: UpstreamId,
        class: CallClass,
        now: Moment,
        verdict: Verdict,
    ) -> Option<Duration> {
        let (fault, at_least) = match verdict {
            Verdict::NotAtFault => return None,
            Verdict::Limited(wait) => (None, wait.unwrap_or_default()),
            Verdict::Fault(fault) => (Some(fault), Duration::ZERO),
        };
        let is_lie = fault.is_some_and(Fault::is_lie);
        let (backoff, block_time) = (self.backoff, self.block_time());
        // If there is no other upstream to ask, a long wait protects nobody: every answer is
        // checked.
        let is_grave = is_lie
            && match class {
                CallClass::Heads | CallClass::Blocks => self.has_other(upstream),
                CallClass::State => (0..self.upstreams.len())
                    .any(|other| other != upstream && self.may_ask(other, class, now)),
            };
        let longest = match class {
            CallClass::Heads if fault.is_some() => block_time.max(HEADS_BACKOFF_MIN),
            _ => Duration::MAX,
        };
        // The call has lasted as long as a longer wait would.
        let is_late = class != CallClass::State && fault == Some(Fault::Timeout);
        let wait = |strikes| {
            let strikes = if is_late { 1 } else { strikes };
            let wait = backoff.wait(upstream, strikes, is_grave, block_time);
            wait.min(longest).max(at_least)
        };
        let forgiven_after = self.forgiven_after();
        let record = &mut self.upstreams[upstream];
        let health = record.class_mut(class);
        let wait = health.back_off(now, fault, forgiven_after, wait)?;
        if class != CallClass::State {
            record.behind_since = None;
            self.update_lagging(now);
        }
        Some(wait)
    }

    /// Records that the served head has this number now.
    pub(crate) fn advanced(&mut self, now: Moment, number: u64) {
        self.head = Some(number);
        self.block_time.arrived(number, now);
        self.update_lagging(now);
    }

    /// Upstreams that have become silent. The caller reports each as [`Fault::Silent`].
    pub(crate) fn silent(&self, now: Moment) -> Vec<UpstreamId> {
        let is_silent = |upstream: &Record| {
            let block_time = self.block_time().max(upstream.block_time_when_heard);
            let silent_for = now.saturating_sub(upstream.heard_at);
            let patience = (block_time * SILENT_BLOCKS).max(SILENT_MIN);
            upstream.heard_head().is_some() && silent_for >= patience
        };
        let upstreams = self.upstreams.iter().enumerate();
        upstreams
            .filter_map(|(id, upstream)| is_silent(upstream).then_some(id))
            .collect()
    }

    /// Updates which upstreams are behind the served head.
    fn update_lagging(&mut self, now: Moment) {
        for upstream in &mut self.upstreams {
            let number = upstream.usable_head().map(|head| head.number);
            if number.is_some() && number < self.head {
                upstream.behind_since.get_or_insert(now);
            } else {
                upstream.behind_since = None;
            }
        }
    }
}
