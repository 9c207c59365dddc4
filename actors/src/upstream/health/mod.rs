//! Which upstream is followed.
//!
//! The caller reports what upstreams say and do, and when; [`Health`] answers with the state of
//! each, which one to follow, and which of its heads to sync to. It does no I/O and has no clock.
//!
//! - **Following.** The followed upstream is kept while it is live. When it is backed off or lags,
//!   the best other one is followed: a *switch*. An upstream lags when its head has been lower than
//!   another for half a block time. The best has the highest head; the fewest strikes and then the
//!   operator's order decide between equals.
//! - **Backoff.** After a fault, or when it asks for fewer calls, an upstream is not asked for a
//!   time that doubles with each strike. Each class of calls has a backoff of its own
//!   ([`CallClass`]). An upstream that is backed off for heads or for blocks cannot be chosen
//!   until it names a head after that. Calls for state do not matter for the choice.
//! - **Going back.** A lower head, or another block at the served height, is a reorg if the
//!   upstream that advanced the head names it; from a newly followed upstream it is lag.
//! - **Forks.** A newly followed upstream is on probation: see the module `forks`.

mod backoff;
mod block_time;
mod class;
mod forks;
mod head_pace;
mod probation;
mod record;
mod upstream_state;

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, fmt, time::Duration};

use alloy_primitives::B256;

#[cfg(test)]
pub(crate) use backoff::BACKOFF_MAX;
pub(crate) use class::CallClass;
pub use upstream_state::{Fault, UpstreamState};
pub(crate) use upstream_state::{FaultReport, Moment, UpstreamId, Verdict};

use super::{chain::Chain, client::HeadClaim};
use backoff::Backoff;
use block_time::BlockTime;
use class::BackoffPeriod;
use probation::Probation;
use record::Record;

/// Block times without a head after which an upstream is [`Fault::Silent`].
const SILENT_BLOCKS: u32 = 3;

/// Lower bound of that time: on a fast chain, three block times are less than a distant upstream
/// or a busy machine needs for an answer.
const SILENT_MIN: Duration = Duration::from_secs(2);

/// Block times for which the followed upstream must name a lower served block as its head before
/// that counts as a rollback.
const ROLLBACK_BLOCKS: u32 = 3;

/// Longest pause between two polls of the followed upstream if it announces no heads. Headers that
/// are far apart may come from a chain that makes blocks on demand.
const POLL_MAX: Duration = Duration::from_secs(3);

/// Block times without a fault after which earlier strikes are forgotten.
const FORGIVEN_BLOCKS: u32 = 16;

/// What is known of all upstreams, and which of them is followed.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    upstreams: Vec<Record>,
    followed: Option<UpstreamId>,
    /// Which heads of the followed upstream are lag.
    lag: Lag,
    /// `None`: every sync path of the followed upstream is accepted.
    probation: Option<Probation>,
    /// Number of the served head.
    head: Option<u64>,
    block_time: BlockTime,
    backoff: Backoff,
}

/// Which heads of the followed upstream, at or below the served head, are lag and not a reorg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lag {
    /// None: the followed upstream has advanced the served head.
    None,
    /// Those that are served blocks. The served head comes from an upstream that lied or failed its
    /// probation, so any other block may replace it.
    Served,
    /// All: a switch alone must not take the served head back.
    All,
}

/// Why another upstream is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchReason {
    /// No upstream was followed before.
    First,
    /// The previous one is no longer live.
    Left(UpstreamState),
    /// The new one has finalized a later block, which is not on the served chain.
    LaterFinalized,
    /// The previous one is on another fork, and the new one moves on the served chain.
    OtherFork,
}

impl fmt::Display for SwitchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("none was followed"),
            Self::Left(state) => write!(f, "the one before is {state}"),
            Self::LaterFinalized => f.write_str("it has finalized a later block, on another fork"),
            Self::OtherFork => f.write_str("the one before is on another fork"),
        }
    }
}

/// A change of the followed upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    /// The upstream followed before, if any.
    pub(crate) from: Option<UpstreamId>,
    /// The upstream followed from now on, if any.
    pub(crate) to: Option<UpstreamId>,
    /// The reason.
    pub(crate) reason: SwitchReason,
}

impl Health {
    /// The health of this many upstreams, of which nothing is known. Equal seeds give equal waits.
    pub(crate) fn new(upstreams: usize, seed: u64) -> Self {
        Self {
            upstreams: vec![Record::default(); upstreams],
            followed: None,
            lag: Lag::None,
            probation: None,
            head: None,
            block_time: BlockTime::default(),
            backoff: Backoff::new(seed),
        }
    }

    /// The chain's block time.
    pub(crate) const fn block_time(&self) -> Duration {
        self.block_time.get()
    }

    /// Learns from the number and timestamp of two held blocks.
    pub(crate) fn learn_block_time(&mut self, older: (u64, u64), newer: (u64, u64)) {
        self.block_time.learn(older, newer);
    }

    /// The followed upstream.
    pub(crate) const fn followed(&self) -> Option<UpstreamId> {
        self.followed
    }

    /// The state of an upstream.
    pub(crate) fn state(&self, upstream: UpstreamId, now: Moment) -> UpstreamState {
        let upstream = &self.upstreams[upstream];
        match upstream.backoff() {
            Some(BackoffPeriod { fault: None, .. }) => UpstreamState::Limited,
            Some(BackoffPeriod {
                fault: Some(fault), ..
            }) => UpstreamState::Faulty(fault),
            None if upstream.usable_head().is_none() => UpstreamState::Syncing,
            None => match upstream.behind_since {
                Some(since) if now.saturating_sub(since) >= self.patience() => {
                    UpstreamState::Lagging
                }
                _ => UpstreamState::Live,
            },
        }
    }

    /// Whether an upstream other than this one could be followed.
    pub(crate) fn has_other(&self, upstream: UpstreamId) -> bool {
        let mut others = self.upstreams.iter().enumerate();
        others.any(|(id, other)| id != upstream && other.usable_head().is_some())
    }

    /// When an upstream first named its present head.
    pub(crate) fn head_since(&self, upstream: UpstreamId) -> Moment {
        self.upstreams[upstream].head_since
    }

    /// When to poll an upstream again that was polled at `asked`; `announces` if it also announces
    /// heads.
    pub(crate) fn poll_at(&self, upstream: UpstreamId, asked: Moment, announces: bool) -> Moment {
        let block_time = self.block_time();
        let pause = match self.followed == Some(upstream) {
            _ if announces => block_time,
            true => (block_time / 4).min(POLL_MAX),
            false => block_time / 2,
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

    /// Records the head that an upstream named. Ignored while the upstream is backed off for heads.
    pub(crate) fn head_named(&mut self, upstream: UpstreamId, now: Moment, head: HeadClaim) {
        if !self.may_ask(upstream, CallClass::Heads, now) {
            return;
        }
        let block_time = self.block_time();
        let upstream = &mut self.upstreams[upstream];
        upstream.class_mut(CallClass::Heads).recover(now);
        upstream.class_mut(CallClass::Blocks).recover(now);
        upstream.heard_at = now;
        upstream.block_time_when_heard = block_time;
        if upstream.head.is_none_or(|before| before.hash != head.hash) {
            upstream.head_since = now;
            upstream.pace.record(now, head.timestamp);
        }
        // Its number or timestamp for the same hash may have been wrong before.
        upstream.head = Some(head);
        self.update_lagging(now);
    }

    /// Records the block that an upstream calls finalized.
    pub(crate) fn finalized_named(&mut self, upstream: UpstreamId, finalized: Option<(u64, B256)>) {
        self.upstreams[upstream].finalized = finalized;
    }

    /// Records whether an upstream reports that it is syncing.
    pub(crate) fn syncing_reported(&mut self, upstream: UpstreamId, now: Moment, is_syncing: bool) {
        self.upstreams[upstream].is_syncing = is_syncing;
        self.update_lagging(now);
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
        let wait = |strikes| {
            let wait = backoff.wait(upstream, strikes, is_grave, block_time);
            wait.max(at_least)
        };
        let record = &mut self.upstreams[upstream];
        let forgiven_after = block_time * FORGIVEN_BLOCKS;
        let health = record.class_mut(class);
        let wait = health.back_off(now, fault, forgiven_after, wait)?;
        if class != CallClass::State {
            record.behind_since = None;
            self.update_lagging(now);
        }
        Some(wait)
    }

    /// Records that blocks of this upstream have made `number` the served head.
    pub(crate) fn advanced(&mut self, upstream: UpstreamId, now: Moment, number: u64) {
        self.head = Some(number);
        self.block_time.arrived(number, now);
        if self.followed == Some(upstream) {
            self.lag = Lag::None;
            self.head_advanced(upstream, now);
        }
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

    /// Chooses the upstream to follow. To be called after every report, and every quarter of a
    /// block time.
    pub(crate) fn choose(&mut self, now: Moment, chain: &impl Chain) -> Option<Switch> {
        self.update_forks(now, chain);
        let (to, reason) = self.better(now, chain)?;
        let from = std::mem::replace(&mut self.followed, to);
        let is_disowned = match reason {
            SwitchReason::Left(UpstreamState::Faulty(fault)) => fault.is_lie(),
            reason => reason == SwitchReason::OtherFork,
        };
        self.lag = match self.lag {
            Lag::None if is_disowned => Lag::Served,
            Lag::None | Lag::All if to.is_some() && self.head.is_some() => Lag::All,
            lag => lag,
        };
        let is_return = reason == SwitchReason::OtherFork && to == self.predecessor();
        let needs_probation =
            self.lag == Lag::All && reason != SwitchReason::LaterFinalized && !is_return;
        self.probation = to
            .filter(|_| needs_probation)
            .map(|to| self.new_probation(from, to, chain));
        Some(Switch { from, to, reason })
    }

    /// The head to sync to: that of the followed upstream, unless that is lag or already served.
    pub(crate) fn target(
        &self,
        now: Moment,
        chain: &impl Chain,
    ) -> Option<(UpstreamId, HeadClaim)> {
        let followed = self.followed?;
        let upstream = &self.upstreams[followed];
        let head = upstream.usable_head()?;
        let (served, _) = chain.head();
        let is_served = chain.has(head.number, head.hash);
        let is_lag = match self.lag {
            Lag::None => false,
            Lag::Served => is_served,
            Lag::All => true,
        };
        if head.number < served {
            // One URL may stand for several replicas. A lower head is a reorg only if the upstream
            // keeps naming it. If it is a served block, that takes longer: the upstream may only
            // need time to catch up with us.
            let kept_for = now.saturating_sub(upstream.head_since);
            let patience = match is_served {
                true => self.block_time() * ROLLBACK_BLOCKS,
                false => self.patience(),
            };
            (!is_lag && kept_for >= patience).then_some((followed, *head))
        } else if head.number == served {
            (!is_lag && !is_served).then_some((followed, *head))
        } else {
            Some((followed, *head))
        }
    }

    /// How long an upstream may be behind before it lags, and how long it must name a lower head
    /// before that is a reorg.
    fn patience(&self) -> Duration {
        self.block_time() / 2
    }

    /// Updates which upstreams are behind the best head. Heads of upstreams in cooldown do not
    /// count.
    fn update_lagging(&mut self, now: Moment) {
        let others = self.upstreams.iter();
        let others = others.filter(|upstream| !upstream.is_in_cooldown(now));
        let heads = others.filter_map(Record::usable_head);
        let best = heads.map(|head| head.number).max().max(self.head);
        for upstream in &mut self.upstreams {
            let number = upstream.usable_head().map(|head| head.number);
            if number.is_some() && number < best {
                upstream.behind_since.get_or_insert(now);
            } else {
                upstream.behind_since = None;
            }
        }
    }

    /// The upstream to follow instead, and why; `None` if the present one is kept.
    fn better(
        &self,
        now: Moment,
        chain: &impl Chain,
    ) -> Option<(Option<UpstreamId>, SwitchReason)> {
        let usable =
            (0..self.upstreams.len()).filter(|id| self.upstreams[*id].usable_head().is_some());
        let best = usable.max_by_key(|id| self.rank(*id, now));
        let Some(followed) = self.followed else {
            return best.map(|id| (Some(id), SwitchReason::First));
        };
        let left = SwitchReason::Left(self.state(followed, now));
        let Some(head) = self.upstreams[followed].usable_head() else {
            return Some((best, left));
        };
        if let Some(rival) = self.later_finalized(followed, chain) {
            return Some((Some(rival), SwitchReason::LaterFinalized));
        }
        if let Some(witness) = self.witness_to_follow(now) {
            return Some((Some(witness), SwitchReason::OtherFork));
        }
        let is_lagging = self.state(followed, now) == UpstreamState::Lagging;
        let is_ahead = |id: &UpstreamId| {
            let other = self.upstreams[*id].usable_head();
            other.is_some_and(|other| other.number > head.number)
        };
        let ahead = best.filter(|id| is_lagging && is_ahead(id))?;
        Some((Some(ahead), left))
    }

    /// The order of upstreams, best last. The operator's order decides between equals.
    fn rank(&self, id: UpstreamId, now: Moment) -> impl Ord + use<> {
        let upstream = &self.upstreams[id];
        let number = upstream.usable_head().map(|head| head.number);
        (
            !upstream.is_in_cooldown(now),
            number,
            Reverse(upstream.strikes()),
            Reverse(id),
        )
    }
}
