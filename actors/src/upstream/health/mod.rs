//! Which upstream is followed.
//!
//! Told what upstreams said and did and when, it says what each of them is, whom to follow, and which
//! head of theirs to go to. It asks nobody, and has no clock.

mod backoff;
mod block_time;
mod forks;
mod head_pace;
mod state;

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, fmt, time::Duration};

use alloy_primitives::B256;

pub use backoff::BACKOFF_MAX;
pub use block_time::BlockTime;
pub use state::{Fault, FaultReport, UpstreamState, Verdict};

use super::{chain::Chain, client::HeadClaim};
use backoff::Backoff;
use forks::Probation;
use head_pace::HeadPace;

/// Block times without a word after which an upstream is [`Fault::Silent`].
const SILENT_BLOCKS: u32 = 3;

/// The least of such a time: on a fast chain, a far upstream or a busy machine takes longer than three
/// blocks to say anything.
const SILENT_MIN: Duration = Duration::from_secs(2);

/// Block times for which the followed upstream names one of our lower blocks as its head, before that
/// is our head too.
const ROLLBACK_BLOCKS: u32 = 3;

/// Longest pause between two questions to the followed upstream for its head, where it does not tell of
/// heads: headers that are far apart may be those of a chain that makes blocks on demand.
const POLL_MAX: Duration = Duration::from_secs(3);

/// Block times without a fault after which earlier ones are forgotten.
const FORGIVEN_BLOCKS: u32 = 16;

/// An upstream, by its place in the configuration.
pub type UpstreamId = usize;

/// A moment: the time since whoever tells it began. It never goes back.
pub type Moment = Duration;

/// What is known of all upstreams, and whom we follow.
#[derive(Clone, Debug)]
pub struct Health {
    upstreams: Vec<Record>,
    followed: Option<UpstreamId>,
    /// Which heads of the followed upstream are lag.
    lag: Lag,
    /// `None`: whatever the followed upstream's chain is, we go there.
    probation: Option<Probation>,
    head: Option<u64>,
    block_time: BlockTime,
    backoff: Backoff,
}

/// Which heads of the followed upstream that are not above ours are lag, and no reorg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lag {
    /// None: it has taken us where we are.
    None,
    /// Those that are blocks of ours: where we are, one has taken us that lied, or was
    /// contradicted.
    Ours,
    /// All: the head does not go back for another upstream.
    All,
}

/// What is known of one upstream.
#[derive(Clone, Debug, Default)]
struct Record {
    head: Option<HeadClaim>,
    /// Since when it names this head.
    head_since: Moment,
    /// When it last named a head, this one or another.
    heard: Moment,
    /// The block time as it was then: an upstream is not silent because blocks turn out to be faster.
    heard_at_pace: Duration,
    head_pace: HeadPace,
    finalized: Option<(u64, B256)>,
    is_syncing: bool,
    /// Since when others are ahead.
    behind_since: Option<Moment>,
    /// Until when it counts as being on another fork.
    cooldown_until: Option<Moment>,
    backoff: Option<BackoffPeriod>,
    /// Troubles in a row.
    strikes: u32,
    /// When the last trouble ended.
    quiet_since: Moment,
}

/// Why an upstream is left alone, and until when. It lasts until the upstream names a head after that.
#[derive(Clone, Copy, Debug)]
struct BackoffPeriod {
    /// `None`: it is limited.
    fault: Option<Fault>,
    until: Moment,
}

impl Record {
    /// The head of an upstream that can be followed.
    fn usable(&self) -> Option<&HeadClaim> {
        let is_usable = self.backoff.is_none() && !self.is_syncing;
        self.head.as_ref().filter(|_| is_usable)
    }
}

/// Why another upstream is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchReason {
    /// There was none before.
    First,
    /// The one before is not what it was.
    Left(UpstreamState),
    /// The other has finalized a later block, and that is not one of ours.
    LaterFinalized,
    /// The one before is on another fork than we are, and the other moves on ours.
    OtherFork,
}

impl fmt::Display for SwitchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("none was followed"),
            Self::Left(state) => write!(f, "the one before is {state}"),
            Self::LaterFinalized => f.write_str("it has finalized a later block, of another fork"),
            Self::OtherFork => f.write_str("the one before is on another fork"),
        }
    }
}

/// Another upstream is followed from now on, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The one before.
    pub from: Option<UpstreamId>,
    /// The one from now on.
    pub to: Option<UpstreamId>,
    /// Why.
    pub why: SwitchReason,
}

impl Health {
    /// So many upstreams, of which nothing is known; equal seeds give equal waits.
    #[must_use]
    pub fn new(upstreams: usize, seed: u64) -> Self {
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
    #[must_use]
    pub const fn block_time(&self) -> Duration {
        self.block_time.get()
    }

    /// Tells of two of our blocks, by number and seconds.
    pub fn learn_block_time(&mut self, older: (u64, u64), newer: (u64, u64)) {
        self.block_time.learn(older, newer);
    }

    /// The upstream that is followed.
    #[must_use]
    pub const fn followed(&self) -> Option<UpstreamId> {
        self.followed
    }

    /// What an upstream is.
    #[must_use]
    pub fn state(&self, upstream: UpstreamId, now: Moment) -> UpstreamState {
        let upstream = &self.upstreams[upstream];
        match upstream.backoff {
            Some(BackoffPeriod { fault: None, .. }) => UpstreamState::Limited,
            Some(BackoffPeriod {
                fault: Some(fault), ..
            }) => UpstreamState::Faulty(fault),
            None if upstream.usable().is_none() => UpstreamState::Syncing,
            None => match upstream.behind_since {
                Some(since) if now.saturating_sub(since) >= self.patience() => {
                    UpstreamState::Lagging
                }
                _ => UpstreamState::Live,
            },
        }
    }

    /// Whether another upstream than this one could be followed.
    #[must_use]
    pub fn has_other(&self, upstream: UpstreamId) -> bool {
        let mut others = self.upstreams.iter().enumerate();
        others.any(|(id, other)| id != upstream && other.usable().is_some())
    }

    /// The head that an upstream last named.
    #[must_use]
    pub fn named(&self, upstream: UpstreamId) -> Option<&HeadClaim> {
        self.upstreams[upstream].head.as_ref()
    }

    /// Since when an upstream names that head.
    #[must_use]
    pub fn named_since(&self, upstream: UpstreamId) -> Moment {
        self.upstreams[upstream].head_since
    }

    /// When an upstream that was asked for its head at `asked` is to be asked again; `tells` where it
    /// also tells of heads by itself.
    #[must_use]
    pub fn ask_at(&self, upstream: UpstreamId, asked: Moment, tells: bool) -> Moment {
        let block_time = self.block_time();
        let pause = match self.followed == Some(upstream) {
            _ if tells => block_time,
            true => (block_time / 4).min(POLL_MAX),
            false => block_time / 2,
        };
        match self.upstreams[upstream].backoff {
            Some(backoff) if backoff.until > asked => backoff.until,
            _ => asked + pause,
        }
    }

    /// Whether an upstream may be asked anything.
    #[must_use]
    pub fn may_ask(&self, upstream: UpstreamId, now: Moment) -> bool {
        self.upstreams[upstream]
            .backoff
            .is_none_or(|backoff| backoff.until <= now)
    }

    /// An upstream named its head. What it says while it is left alone is not heard.
    pub fn heard(&mut self, upstream: UpstreamId, now: Moment, head: HeadClaim) {
        if !self.may_ask(upstream, now) {
            return;
        }
        let block_time = self.block_time();
        let upstream = &mut self.upstreams[upstream];
        upstream.backoff = None;
        upstream.heard = now;
        upstream.heard_at_pace = block_time;
        if upstream.head.is_none_or(|before| before.hash != head.hash) {
            upstream.head_since = now;
            upstream.head_pace.named(now, head.timestamp);
        }
        // What it says of the same block may have been wrong before.
        upstream.head = Some(head);
        self.compare(now);
    }

    /// An upstream named the newest block that it takes for final.
    pub fn settled(&mut self, upstream: UpstreamId, finalized: Option<(u64, B256)>) {
        self.upstreams[upstream].finalized = finalized;
    }

    /// An upstream said whether it is syncing.
    pub fn syncing(&mut self, upstream: UpstreamId, now: Moment, is_syncing: bool) {
        self.upstreams[upstream].is_syncing = is_syncing;
        self.compare(now);
    }

    /// A call failed, or what it answered failed a check; how long the upstream is left alone for it.
    pub fn failed(
        &mut self,
        upstream: UpstreamId,
        now: Moment,
        verdict: Verdict,
    ) -> Option<Duration> {
        let (fault, at_least) = match verdict {
            Verdict::Innocent => return None,
            Verdict::Limited(wait) => (None, wait.unwrap_or_default()),
            Verdict::Fault(fault) => (Some(fault), Duration::ZERO),
        };
        // Calls that were under way fail together: that is one trouble, named by the worst of it.
        let is_lie = fault.is_some_and(Fault::is_lie);
        let block_time = self.block_time();
        // Without another there is nobody to be protected from it: what it gives is checked each
        // time.
        let is_grave = is_lie && self.has_other(upstream);
        let found = &mut self.upstreams[upstream];
        if let Some(backoff) = found.backoff
            && backoff.until > now
            && (!is_lie || backoff.fault.is_some_and(Fault::is_lie))
        {
            return None;
        }
        if now.saturating_sub(found.quiet_since) >= block_time * FORGIVEN_BLOCKS {
            found.strikes = 0;
        }
        found.strikes = found.strikes.saturating_add(1);
        let wait = self
            .backoff
            .wait(upstream, found.strikes, is_grave, block_time);
        let wait = wait.max(at_least);
        let until = now + wait;
        found.backoff = Some(BackoffPeriod { fault, until });
        found.quiet_since = until;
        found.behind_since = None;
        self.compare(now);
        Some(wait)
    }

    /// Our head is this now, by what this upstream gave.
    pub fn advanced(&mut self, upstream: UpstreamId, now: Moment, number: u64) {
        self.head = Some(number);
        self.block_time.arrived(number, now);
        if self.followed == Some(upstream) {
            self.lag = Lag::None;
            self.joined(upstream, now);
        }
        self.compare(now);
    }

    /// Upstreams that have become silent, each of which has failed by that: [`Fault::Silent`].
    #[must_use]
    pub fn silent(&self, now: Moment) -> Vec<UpstreamId> {
        let is_silent = |upstream: &Record| {
            let block_time = self.block_time().max(upstream.heard_at_pace);
            let silent_for = now.saturating_sub(upstream.heard);
            let patience = (block_time * SILENT_BLOCKS).max(SILENT_MIN);
            upstream.usable().is_some() && silent_for >= patience
        };
        let upstreams = self.upstreams.iter().enumerate();
        upstreams
            .filter_map(|(id, upstream)| is_silent(upstream).then_some(id))
            .collect()
    }

    /// Chooses whom to follow. To be called after whatever was told, and every quarter of a block
    /// time.
    pub fn choose(&mut self, now: Moment, chain: &impl Chain) -> Option<Switch> {
        self.look_at_forks(now, chain);
        let (to, why) = self.better(now, chain)?;
        let from = std::mem::replace(&mut self.followed, to);
        let is_disowned = match why {
            SwitchReason::Left(UpstreamState::Faulty(fault)) => fault.is_lie(),
            why => why == SwitchReason::OtherFork,
        };
        self.lag = match self.lag {
            Lag::None if is_disowned => Lag::Ours,
            Lag::None | Lag::All if to.is_some() && self.head.is_some() => Lag::All,
            lag => lag,
        };
        let is_back = why == SwitchReason::OtherFork && to == self.left();
        let is_tried = self.lag == Lag::All && why != SwitchReason::LaterFinalized && !is_back;
        self.probation = to
            .filter(|_| is_tried)
            .map(|to| self.probation(from, to, chain));
        Some(Switch { from, to, why })
    }

    /// The head to go to: that of the followed upstream, unless it only is behind.
    #[must_use]
    pub fn target(&self, now: Moment, chain: &impl Chain) -> Option<(UpstreamId, HeadClaim)> {
        let followed = self.followed?;
        let upstream = &self.upstreams[followed];
        let head = upstream.usable()?;
        let (ours, _) = chain.head();
        let is_ours = chain.has(head.number, head.hash);
        let is_lag = match self.lag {
            Lag::None => false,
            Lag::Ours => is_ours,
            Lag::All => true,
        };
        if head.number < ours {
            // One URL may be several upstreams: a lower head is a reorg if it is still the head after a
            // while; one of our own blocks is a rollback if its upstream has had the time to come after
            // us.
            let is_kept_for = now.saturating_sub(upstream.head_since);
            let patience = match is_ours {
                true => self.block_time() * ROLLBACK_BLOCKS,
                false => self.patience(),
            };
            (!is_lag && is_kept_for >= patience).then_some((followed, *head))
        } else if head.number == ours {
            (!is_lag && !is_ours).then_some((followed, *head))
        } else {
            Some((followed, *head))
        }
    }

    /// How long an upstream may be behind, and how long a lower head has to be named.
    fn patience(&self) -> Duration {
        self.block_time() / 2
    }

    /// Notes who is behind others, those on another fork aside.
    fn compare(&mut self, now: Moment) {
        let others = self
            .upstreams
            .iter()
            .filter(|upstream| !upstream.is_in_cooldown(now));
        let heads = others.filter_map(Record::usable);
        let best = heads.map(|head| head.number).max().max(self.head);
        for upstream in &mut self.upstreams {
            let number = upstream.usable().map(|head| head.number);
            if number.is_some() && number < best {
                upstream.behind_since.get_or_insert(now);
            } else {
                upstream.behind_since = None;
            }
        }
    }

    /// Whom to follow instead, if anybody, and why.
    fn better(
        &self,
        now: Moment,
        chain: &impl Chain,
    ) -> Option<(Option<UpstreamId>, SwitchReason)> {
        let usable = (0..self.upstreams.len()).filter(|id| self.upstreams[*id].usable().is_some());
        let best = usable.max_by_key(|id| self.rank(*id, now));
        let Some(followed) = self.followed else {
            return best.map(|id| (Some(id), SwitchReason::First));
        };
        let left = SwitchReason::Left(self.state(followed, now));
        let Some(head) = self.upstreams[followed].usable() else {
            return Some((best, left));
        };
        if let Some(rival) = self.justified_rival(followed, chain) {
            return Some((Some(rival), SwitchReason::LaterFinalized));
        }
        if let Some(witness) = self.better_fork(now) {
            return Some((Some(witness), SwitchReason::OtherFork));
        }
        let is_lagging = self.state(followed, now) == UpstreamState::Lagging;
        let is_ahead = |id: &UpstreamId| {
            let other = self.upstreams[*id].usable();
            other.is_some_and(|other| other.number > head.number)
        };
        let ahead = best.filter(|id| is_lagging && is_ahead(id))?;
        Some((Some(ahead), left))
    }

    /// What makes an upstream better than others. The operator's order decides between equals.
    fn rank(&self, id: UpstreamId, now: Moment) -> impl Ord + use<> {
        let upstream = &self.upstreams[id];
        let number = upstream.usable().map(|head| head.number);
        (
            !upstream.is_in_cooldown(now),
            number,
            Reverse(upstream.strikes),
            Reverse(id),
        )
    }
}
