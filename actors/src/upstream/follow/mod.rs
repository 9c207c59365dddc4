//! The follower: keeps the window at the head that a [`HeadAuthority`] decides on.
//!
//! One task loops: it polls the upstreams for their heads, reports what they say, and does what the
//! authority decides. A *sync* fetches the blocks of a sync path, from a head down to a block that
//! is held; the head advances along it once the authority adopts that head. If the path is longer
//! than the window, the window is *reset*: it starts again with the new head alone. *Backfill* then
//! fetches the blocks below, until the window is full.
//!
//! Except for fault reports, whose channel is bounded, the task receives only answers to its own
//! calls, so no queue can grow. Each upstream has at most one poll, one head subscription and one
//! question for a hash; calls for blocks are limited by [`FollowConfig::concurrency`].

mod answers;
mod backfill;
mod event;
mod fetching;
mod interface;
mod obey;
mod sync;
mod work;

#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;
use tokio::{
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};

pub(crate) use event::{Event, EventHandler};
pub(crate) use interface::{ChangeError, FetchError, FirstBlock, HeldWindow, Upstream};

use super::{
    agree::{Choice, HeadAuthority, Links, NodeSet, Said},
    health::{CallClass, Fault, FaultReport, Health, Moment, UpstreamId, UpstreamState, Verdict},
    plan::Ask,
};
use fetching::{ActiveBackfill, GenesisFetch, HeadSync, SyncCall};
use work::{Answered, Purpose};

/// Concurrent calls for one block: one for the block itself and one for its receipts.
const CALLS_PER_BLOCK: usize = 2;

/// Concurrent fetches of blocks that backfill does not use, so that a new head does not wait for
/// its turn.
const HEAD_RESERVE: usize = 1;

/// Longest pause while a fetched head waits for upstreams to agree on it.
const AGREEMENT_PAUSE: Duration = Duration::from_millis(25);

/// Shortest time between two reports of a block ahead of the clock.
const EARLY_PAUSE: Duration = Duration::from_secs(60);

/// The configuration of the follower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowConfig {
    /// The chain id that every upstream must have.
    pub(crate) chain_id: u64,
    /// The genesis that every upstream must have; `None` if it is not known.
    pub(crate) genesis: Option<B256>,
    /// Calls to one upstream that may be in progress at the same time.
    pub(crate) concurrency: usize,
    /// Seed of the random part of backoff, so that several services do not retry in step.
    pub(crate) seed: u64,
}

/// Why following ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowError<E> {
    /// There is no window any more.
    #[error("{0}")]
    Window(E),
    /// A defect of this program; the panic's message is on stderr.
    #[error("a call to a node panicked")]
    Panicked,
}

/// Fills the window from several upstreams, up to the head that an authority decides on.
pub(crate) struct Follower<U: Upstream, W, A> {
    upstreams: Vec<TrackedUpstream<U>>,
    window: W,
    authority: A,
    on_event: EventHandler,
    config: FollowConfig,
    health: Health,
    /// The parents of blocks that were verified for a sync.
    links: Links,
    started_at: Instant,
    calls: JoinSet<Answered<U::Heads>>,
    sync: Option<HeadSync>,
    /// The calls for blocks of a sync that are in progress, those for earlier syncs included.
    sync_calls: Vec<SyncCall>,
    backfill: Option<ActiveBackfill>,
    genesis: GenesisFetch,
    /// The upstream that gave the newest head.
    preferred: Option<UpstreamId>,
    /// The safe and the finalized block that were handed over last; `None`: hand them over again.
    settled: Option<SettledBlocks>,
    /// The safe and the finalized block that were reported last, to be saved.
    reported: SettledBlocks,
    /// What was last reported: what becomes of the head, and how many upstreams agree.
    decided: Option<(Choice, usize)>,
    /// When that was reported.
    decided_at: Moment,
    /// When the head last changed.
    head_since: Moment,
    /// What becomes of the head now, and since when.
    choice_since: Option<(Choice, Moment)>,
    /// Since when the head has stood, for whatever reasons.
    stands_since: Option<Moment>,
    /// The upstreams that are quarantined, as reported.
    quarantined: NodeSet,
    /// When a block ahead of the clock was reported.
    early_reported_at: Option<Moment>,
    /// Whether a block of a fork without known rules was reported.
    is_fork_reported: bool,
}

/// One upstream, and the state of our calls to it.
struct TrackedUpstream<U> {
    client: U,
    /// When its last poll ended.
    polled_at: Option<Moment>,
    /// When the poll that is in progress began.
    polled_since: Option<Moment>,
    /// When it stopped answering calls for heads, if it has not named one since.
    lost_at: Option<Moment>,
    /// The calls for old blocks in progress, and when each began.
    below_calls: Vec<(Moment, AbortHandle)>,
    /// When the last poll that it answered began.
    answered_since: Moment,
    /// Whether its chain is known to be the followed one.
    is_identified: bool,
    /// Whether it was identified and has given nothing of another chain since. It may be asked for
    /// blocks then, even if its calls for heads fail: a block is checked by its hash.
    is_on_chain: bool,
    /// Whether it announces heads; `None`: not subscribed yet.
    announces: Option<bool>,
    settled_asked_at: Option<Moment>,
    /// When the question for a hash that is in progress began.
    asked_for_hash_since: Option<Moment>,
    /// It is asked for no block before this time: it lacked one that it named, a block is ahead of
    /// the clock, or too many calls are in progress.
    fetch_hold_until: Moment,
    /// It was slow with old blocks: others are asked for those before this time.
    slow_until: Moment,
    /// When it last contradicted a quorum.
    dissented_at: Option<Moment>,
    /// How often in a row it lacked a block that it named.
    missing_in_a_row: u32,
    /// The state that was last reported.
    state: Option<UpstreamState>,
}

impl<U> TrackedUpstream<U> {
    /// Notes a call for an old block.
    fn note_below(&mut self, now: Moment, call: AbortHandle) {
        self.below_calls.retain(|(_, call)| !call.is_finished());
        self.below_calls.push((now, call));
    }
}

impl<U: Upstream, W: HeldWindow, A: HeadAuthority> Follower<U, W, A> {
    /// A follower of these upstreams, in the operator's order.
    pub(crate) fn new(
        clients: Vec<U>,
        window: W,
        authority: A,
        config: FollowConfig,
        on_event: EventHandler,
    ) -> Self {
        let upstreams = clients.into_iter().map(|client| TrackedUpstream {
            client,
            polled_at: None,
            polled_since: None,
            lost_at: None,
            below_calls: Vec::new(),
            answered_since: Duration::ZERO,
            is_identified: false,
            is_on_chain: false,
            announces: None,
            settled_asked_at: None,
            asked_for_hash_since: None,
            fetch_hold_until: Duration::ZERO,
            slow_until: Duration::ZERO,
            dissented_at: None,
            missing_in_a_row: 0,
            state: None,
        });
        let upstreams: Vec<_> = upstreams.collect();
        Self {
            health: Health::new(upstreams.len(), config.seed),
            upstreams,
            window,
            authority,
            on_event,
            config,
            links: Links::default(),
            started_at: Instant::now(),
            calls: JoinSet::new(),
            sync: None,
            sync_calls: Vec::new(),
            backfill: None,
            genesis: GenesisFetch::default(),
            preferred: None,
            settled: None,
            reported: SettledBlocks::default(),
            decided: None,
            decided_at: Duration::ZERO,
            head_since: Duration::ZERO,
            choice_since: None,
            stands_since: None,
            quarantined: NodeSet::default(),
            early_reported_at: None,
            is_fork_reported: false,
        }
    }

    /// Follows until `stop` receives a message or its sender is dropped. Faults of calls for state,
    /// which other tasks make, arrive through `fault_reports`.
    ///
    /// # Errors
    /// There is no window any more, or a call panicked. No upstream can cause either: if the window
    /// refuses its blocks, that is the upstream's fault.
    pub(crate) async fn run(
        mut self,
        fault_reports: &mut mpsc::Receiver<FaultReport>,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<(), FollowError<W::Error>> {
        loop {
            self.poll();
            self.fail_silent();
            self.fail_stuck_sync();
            self.leave_slow_backfill();
            self.note_delay();
            self.obey().await.map_err(FollowError::Window)?;
            self.report_states();
            self.ask_for_blocks();
            let pause = self.pause();
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                Some(answered) = self.calls.join_next_with_id() => {
                    match answered {
                        Ok((task, answered)) => self.handle(task, answered),
                        // It was given up.
                        Err(error) if error.is_cancelled() => {}
                        Err(_) => return Err(FollowError::Panicked),
                    }
                    self.apply_below().await.map_err(FollowError::Window)?;
                }
                Some(FaultReport { upstream, verdict, error }) = fault_reports.recv() => {
                    self.failed(upstream, CallClass::State, verdict, &error);
                }
                () = time::sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.started_at.elapsed()
    }

    /// How long to wait if nothing arrives: until the next poll or retry, and at most a quarter of
    /// a block time, so that lagging and silent upstreams are noticed.
    fn pause(&self) -> Duration {
        let now = self.now();
        let polls = (0..self.upstreams.len()).filter_map(|id| self.poll_at(id));
        let backfill = self.backfill.as_ref().map(|backfill| backfill.hold_until);
        let fetches = self
            .upstreams
            .iter()
            .map(|upstream| upstream.fetch_hold_until);
        let holds = backfill.into_iter().chain([self.genesis.hold_until]);
        let holds = holds
            .chain(fetches)
            .chain(self.delayed_at())
            .filter(|until| *until > now);
        let next = polls.chain(holds).map(|at| at.saturating_sub(now)).min();
        let is_waiting = self
            .sync
            .as_ref()
            .is_some_and(|sync| sync.goal.is_complete());
        let longest = self.health.block_time() / 4;
        let longest = match is_waiting {
            true => longest.min(AGREEMENT_PAUSE),
            false => longest,
        };
        // A timer that has just fired may be early by less than its own resolution.
        next.unwrap_or(longest)
            .clamp(Duration::from_millis(1), longest)
    }

    /// The client for a call, which is given up in time if it is about heads.
    fn client(&self, id: UpstreamId) -> U {
        let client = &self.upstreams[id].client;
        match self.health.heads_timeout() {
            Some(longest) => client.within(longest),
            None => client.clone(),
        }
    }

    /// When to poll an upstream; `None` while a poll is in progress.
    fn poll_at(&self, id: UpstreamId) -> Option<Moment> {
        let upstream = &self.upstreams[id];
        let announces = upstream.announces == Some(true);
        let at = |polled_at| self.health.poll_at(id, polled_at, announces);
        let is_idle = upstream.polled_since.is_none();
        is_idle.then(|| upstream.polled_at.map_or(Duration::ZERO, at))
    }

    /// Polls the upstreams whose turn it is.
    fn poll(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        for id in 0..self.upstreams.len() {
            if self.poll_at(id).is_none_or(|at| at > now) {
                continue;
            }
            let client = self.client(id);
            let upstream = &mut self.upstreams[id];
            upstream.polled_since = Some(now);
            let last = upstream.settled_asked_at;
            let with_settled = last.is_none_or(|at| now.saturating_sub(at) >= block_time);
            if with_settled {
                upstream.settled_asked_at = Some(now);
            }
            let with_genesis = !upstream.is_identified;
            if upstream.announces.is_none() && upstream.is_identified {
                upstream.announces = Some(true);
                self.calls.spawn(work::subscribe(id, client.clone()));
            }
            self.calls
                .spawn(work::poll(id, client, with_genesis, with_settled));
        }
    }

    /// Whether an upstream may be asked for blocks.
    fn may_fetch(&self, id: UpstreamId) -> bool {
        let (now, upstream) = (self.now(), &self.upstreams[id]);
        let may_ask = self.health.may_ask(id, CallClass::Blocks, now);
        upstream.is_on_chain && may_ask && upstream.fetch_hold_until <= now
    }

    fn fail_silent(&mut self) {
        for upstream in self.health.silent(self.now()) {
            let verdict = Verdict::Fault(Fault::Silent);
            self.failed(upstream, CallClass::Heads, verdict, &Fault::Silent);
        }
    }

    /// Reports changed states of upstreams that were polled at least once. Faults and limits have
    /// their own log lines.
    fn report_states(&mut self) {
        let now = self.now();
        for (id, upstream) in self.upstreams.iter_mut().enumerate() {
            let state = self.health.state(id, now);
            if upstream.polled_at.is_none() || upstream.state.replace(state) == Some(state) {
                continue;
            }
            if state == UpstreamState::Syncing {
                tracing::warn!(
                    node = upstream.client.name(),
                    "the node reports that it is syncing"
                );
            }
            (self.on_event)(Event::State {
                upstream: id,
                state,
            });
        }
    }

    /// How many blocks an upstream is asked for at the same time.
    fn width(&self) -> usize {
        (self.config.concurrency / CALLS_PER_BLOCK).max(1)
    }

    fn ask_for_blocks(&mut self) {
        let held = self.window.held();
        self.ask_for_sync(held.as_ref());
        if let Some(held) = &held {
            self.ask_below(held, self.width().saturating_sub(HEAD_RESERVE).max(1));
        }
    }

    fn ask(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose) {
        let (now, client) = (self.now(), self.client(upstream));
        let call = self
            .calls
            .spawn(work::fetch(upstream, client, ask, purpose));
        self.upstreams[upstream].note_below(now, call);
    }

    /// Reports that a block is ahead of the clock: if that is behind, every head is late.
    fn report_early(&mut self, upstream: UpstreamId, number: u64, timestamp: u64, clock: u64) {
        let now = self.now();
        let last = self.early_reported_at;
        if last.is_some_and(|last| now.saturating_sub(last) < EARLY_PAUSE) {
            return;
        }
        self.early_reported_at = Some(now);
        let name = self.upstreams[upstream].client.name();
        tracing::warn!(
            node = name,
            number,
            timestamp,
            clock,
            "the block waits because it is ahead of our clock: if every head does, the clock is \
             probably behind"
        );
    }

    /// Handles a call that failed, or an answer that failed a check.
    fn failed(
        &mut self,
        upstream: UpstreamId,
        class: CallClass,
        verdict: Verdict,
        error: &dyn fmt::Display,
    ) {
        let reason = match verdict {
            Verdict::Fault(fault) => Some(fault.label()),
            Verdict::Limited(_) | Verdict::NotAtFault => None,
        };
        self.failed_with(upstream, class, verdict, reason, error);
    }

    /// Handles a failure like [`Self::failed`], with a more precise reason than the fault's label.
    fn failed_with(
        &mut self,
        upstream: UpstreamId,
        class: CallClass,
        verdict: Verdict,
        reason: Option<&'static str>,
        error: &dyn fmt::Display,
    ) {
        let now = self.now();
        if class == CallClass::Heads && verdict != Verdict::NotAtFault {
            self.authority.heard(now, upstream, Said::Failed);
        }
        let Some(wait) = self.health.failed(upstream, class, now, verdict) else {
            return;
        };
        let tracked = &mut self.upstreams[upstream];
        let is_lie = matches!(verdict, Verdict::Fault(fault) if fault.is_lie());
        // Another backend may answer behind the URL; mere silence changes nothing.
        let is_same = match class {
            CallClass::Heads => verdict == Verdict::Fault(Fault::Silent),
            CallClass::Blocks | CallClass::State => true,
        };
        // A lie about heads or blocks may come from another chain. Any other fault in one class
        // changes nothing for the other.
        let is_on_chain = class == CallClass::State || !is_lie;
        if class == CallClass::Heads
            && let Verdict::Fault(Fault::Timeout | Fault::Silent) = verdict
        {
            tracked.lost_at.get_or_insert(now);
        }
        tracked.is_identified &= is_same && is_on_chain;
        tracked.is_on_chain &= is_on_chain;
        if class != CallClass::State {
            tracked.missing_in_a_row = 0;
        }
        let (name, calls) = (tracked.client.name(), class.label());
        match reason {
            Some(reason) => tracing::warn!(node = name, calls, reason, ?wait, "{error}"),
            None => {
                tracing::info!(node = name, calls, ?wait, "the node asks for fewer calls");
            }
        }
        (self.on_event)(Event::Failed {
            upstream,
            class,
            reason,
            wait,
        });
    }
}
