//! Follows the best of several upstreams.
//!
//! One task decides; what it waits for are the answers to its own questions, so that there is no
//! queue: one question an upstream for its head, one for the heads that it tells of, and as many for
//! blocks as may be under way.

mod answers;
mod backfill;
mod contract;
mod work;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use nearhead_chain::block::Block;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{self, Instant},
};

pub use contract::{FetchError, HeadSink, HeadStream, HeldChain, Upstream};

use super::{
    client::HeadClaim,
    health::{Fault, FaultReport, Health, Moment, Switch, UpstreamId, UpstreamState, Verdict},
    plan::{Ask, SyncPath},
};
use backfill::{ActiveBackfill, Genesis};
use work::{Done, Purpose, SettledClaims};

/// Calls that a block takes at once: for itself, and for its receipts.
const CALLS_A_BLOCK: usize = 2;

/// Blocks that backfill leaves to a new head, so that it does not wait for its turn.
const HEAD_RESERVE: usize = 1;

/// Shortest time without a block, on the way to a head, after which another upstream is tried: a far
/// one takes so long.
const STUCK_MIN: Duration = Duration::from_secs(1);

/// Times as long that the whole way of an upstream that is on trial may take: blocks that drop in one by
/// one keep us from the others.
const TRIAL_STUCKS: u32 = 3;

/// What is followed by.
#[derive(Clone, Copy, Debug)]
pub struct FollowConfig {
    /// The chain that all upstreams must be of.
    pub chain_id: u64,
    /// Calls to an upstream that may be under way at the same time.
    pub concurrency: usize,
    /// Decides by how much waits differ from those of other services.
    pub seed: u64,
}

/// What happened, for metrics and for whoever shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another upstream is followed, or none.
    Switched(Switch),
    /// An upstream did something wrong, and is left alone for a while.
    Failed {
        /// Which.
        upstream: UpstreamId,
        /// What it did, in one word: [`Fault::label`], or the check that a block failed; `None`: it
        /// asked to be left alone.
        reason: Option<&'static str>,
        /// For how long; zero for a false genesis, without which an upstream can be followed.
        wait: Duration,
    },
    /// The window began, or began anew, with a block of this number.
    WindowStarted(u64),
    /// The head is now the block of this number.
    Advanced {
        /// The number.
        number: u64,
        /// How long ago the followed upstream named it first.
        named: Duration,
    },
    /// So many blocks are missing below the oldest that is held.
    Missing(u64),
    /// An upstream is something else than before.
    State {
        /// Which.
        upstream: UpstreamId,
        /// What it is.
        state: UpstreamState,
    },
}

/// Where events are told; called often, and not to wait.
pub type EventHandler = Box<dyn FnMut(Event) + Send>;

/// Why following ended.
#[derive(Debug, thiserror::Error)]
pub enum FollowError<E> {
    /// Whoever holds the blocks cannot go on.
    #[error("{0}")]
    Sink(E),
    /// A defect of this program; the panic's message is on stderr.
    #[error("a question to a node panicked")]
    Panicked,
}

/// Follows the best of several upstreams, and fills the window from it.
pub struct Follower<P: Upstream, S> {
    upstreams: Vec<TrackedUpstream<P>>,
    sink: S,
    tell: EventHandler,
    config: FollowConfig,
    health: Health,
    began: Instant,
    questions: JoinSet<Done<P::Heads>>,
    sync: Option<HeadSync>,
    backfill: Option<ActiveBackfill>,
    genesis: Genesis,
    /// Whether what the followed upstream calls settled is to be told.
    is_unsettled: bool,
    /// No way is begun before: an upstream did not have what it named.
    hold_until: Moment,
}

/// One upstream as it is spoken to.
struct TrackedUpstream<P> {
    client: P,
    /// When it last answered or failed to say its head, before which it is not asked again.
    asked: Option<Moment>,
    is_asked: bool,
    /// Whether its chain is known to be ours.
    is_known: bool,
    /// Whether it tells of heads; `None`: it is to be asked to.
    tells: Option<bool>,
    settled: SettledClaims,
    settled_at: Option<Moment>,
    /// Times in a row that it did not have what it named.
    missing: u32,
    /// What was last told of it.
    state: Option<UpstreamState>,
}

/// The way to a head that an upstream named.
struct HeadSync {
    upstream: UpstreamId,
    head: HeadClaim,
    /// When the upstream named that head first.
    named: Moment,
    began: Moment,
    /// When the last block arrived on it, or when it began.
    moved: Moment,
    to: Goal,
}

enum Goal {
    /// From our head.
    Path(SyncPath<Arc<Block>>),
    /// The window begins with the head; once it was asked for, and is there.
    Reset {
        is_asked: bool,
        block: Option<Arc<Block>>,
    },
}

impl Goal {
    const RESET: Self = Self::Reset {
        is_asked: false,
        block: None,
    };
}

impl<P: Upstream, S: HeadSink> Follower<P, S> {
    /// A follower of these upstreams, in the operator's order; `tell` is told what happens.
    pub fn new(clients: Vec<P>, sink: S, config: FollowConfig, tell: EventHandler) -> Self {
        let upstreams = clients.into_iter().map(|client| TrackedUpstream {
            client,
            asked: None,
            is_asked: false,
            is_known: false,
            tells: None,
            settled: SettledClaims::default(),
            settled_at: None,
            missing: 0,
            state: None,
        });
        let upstreams: Vec<_> = upstreams.collect();
        Self {
            health: Health::new(upstreams.len(), config.seed),
            upstreams,
            sink,
            tell,
            config,
            began: Instant::now(),
            questions: JoinSet::new(),
            sync: None,
            backfill: None,
            genesis: Genesis::default(),
            is_unsettled: false,
            hold_until: Duration::ZERO,
        }
    }

    /// Follows until `stop` is told, or its other end is dropped; hears what others complain of
    /// upstreams.
    ///
    /// # Errors
    /// Whoever holds the blocks cannot go on. No upstream can end it.
    pub async fn run(
        mut self,
        mut fault_reports: mpsc::Receiver<FaultReport>,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<(), FollowError<S::Error>> {
        loop {
            self.poll();
            self.choose();
            self.tell_states();
            self.ask_for_blocks();
            let pause = self.pause();
            tokio::select! {
                biased;
                _ = &mut stop => return Ok(()),
                Some(done) = self.questions.join_next() => {
                    self.take(done.map_err(|_| FollowError::Panicked)?);
                    self.go_on().await.map_err(FollowError::Sink)?;
                }
                Some(FaultReport { upstream, verdict, why }) = fault_reports.recv() => {
                    self.fails(upstream, verdict, &why);
                }
                () = time::sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// How long there is nothing to do if nothing is heard: until an upstream is to be asked, or a
    /// quarter of a block time, in which what is behind or silent is noticed.
    fn pause(&self) -> Duration {
        let now = self.now();
        let polls = (0..self.upstreams.len()).filter_map(|id| self.poll_at(id));
        let backfill = self.backfill.as_ref().map(|backfill| backfill.hold_until);
        let holds = [
            Some(self.hold_until),
            backfill,
            Some(self.genesis.hold_until),
        ];
        let holds = holds.into_iter().flatten().filter(|until| *until > now);
        let next = polls.chain(holds).map(|at| at.saturating_sub(now)).min();
        let look = self.health.block_time() / 4;
        // A timer that has just fired may be early by less than its own resolution.
        next.unwrap_or(look).clamp(Duration::from_millis(1), look)
    }

    /// When an upstream is to be asked for its head; `None` while it is.
    fn poll_at(&self, id: UpstreamId) -> Option<Moment> {
        let upstream = &self.upstreams[id];
        let tells = upstream.tells == Some(true);
        let at = |asked| self.health.ask_at(id, asked, tells);
        (!upstream.is_asked).then(|| upstream.asked.map_or(Duration::ZERO, at))
    }

    /// Asks upstreams for their heads, those whose time it is.
    fn poll(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        for id in 0..self.upstreams.len() {
            if self.poll_at(id).is_none_or(|at| at > now) {
                continue;
            }
            let upstream = &mut self.upstreams[id];
            upstream.is_asked = true;
            let last = upstream.settled_at;
            let with_settled = last.is_none_or(|at| now.saturating_sub(at) >= block_time);
            if with_settled {
                upstream.settled_at = Some(now);
            }
            let poll = work::poll(
                id,
                upstream.client.clone(),
                !upstream.is_known,
                with_settled,
            );
            self.questions.spawn(poll);
            if upstream.tells.is_none() && upstream.is_known {
                upstream.tells = Some(true);
                self.questions
                    .spawn(work::subscribe(id, upstream.client.clone()));
            }
        }
    }

    /// Chooses the upstream, and its head to go to.
    fn choose(&mut self) {
        self.leave_if_stuck();
        for upstream in self.health.silent(self.now()) {
            self.fails(upstream, Verdict::Fault(Fault::Silent), &Fault::Silent);
        }
        let (now, held) = (self.now(), self.sink.held());
        if let Some(switch) = self.health.choose(now, &held) {
            self.switched(switch);
        }
        if self.sync.is_none()
            && now >= self.hold_until
            && let Some((upstream, head)) = self.health.target(now, &held)
        {
            let path = |held: &S::Held| Goal::Path(SyncPath::to(head.number, head.hash, held));
            self.sync = Some(HeadSync {
                upstream,
                head,
                named: self.health.named_since(upstream),
                began: now,
                moved: now,
                to: held.as_ref().map_or(Goal::RESET, path),
            });
        }
    }

    /// Tells which upstreams have become something else, once they were heard. Faults and limits have
    /// their own log lines.
    fn tell_states(&mut self) {
        let now = self.now();
        for (id, upstream) in self.upstreams.iter_mut().enumerate() {
            let state = self.health.state(id, now);
            if upstream.asked.is_none() || upstream.state.replace(state) == Some(state) {
                continue;
            }
            if state == UpstreamState::Syncing {
                tracing::warn!(
                    node = upstream.client.name(),
                    "the node says that it is syncing"
                );
            }
            (self.tell)(Event::State {
                upstream: id,
                state,
            });
        }
    }

    /// Divergence an upstream that names heads and gives no blocks, if there is another: a call's own time
    /// may be many blocks.
    fn leave_if_stuck(&mut self) {
        let (now, patience) = (self.now(), self.health.block_time().max(STUCK_MIN));
        let sync = self.sync.as_ref();
        let stuck = sync.filter(|sync| now.saturating_sub(sync.moved) >= patience);
        if let Some(upstream) = stuck.map(|sync| sync.upstream)
            && self.health.has_other(upstream)
        {
            let why = "no block within one block time";
            self.fails(upstream, Verdict::Fault(Fault::Timeout), &why);
        }
        let sync = self.sync.as_ref();
        let is_late =
            sync.is_some_and(|sync| now.saturating_sub(sync.began) >= patience * TRIAL_STUCKS);
        if let Some(upstream) = sync.map(|sync| sync.upstream)
            && is_late
            && self.health.refuses(now, false)
        {
            let why = "its head was not reached within three block times";
            self.fails(upstream, Verdict::Fault(Fault::Timeout), &why);
        }
    }

    fn switched(&mut self, switch: Switch) {
        let name = |id: Option<UpstreamId>| Some(self.upstreams[id?].client.name());
        let (from, to) = (name(switch.from), name(switch.to));
        match to {
            Some(to) => tracing::info!(from, to, why = %switch.why, "another node is followed"),
            None => tracing::warn!(from, why = %switch.why, "no node can be followed"),
        }
        (self.tell)(Event::Switched(switch));
        self.sync = None;
        // What was asked of the one before is asked of the other.
        self.backfill = None;
        self.is_unsettled = true;
    }

    fn ask_for_blocks(&mut self) {
        let Some(followed) = self.health.followed() else {
            return;
        };
        let width = (self.config.concurrency / CALLS_A_BLOCK).max(1);
        let held = self.sink.held();
        let mut asks = Vec::new();
        if let Some(sync) = &mut self.sync {
            match (&mut sync.to, &held) {
                (Goal::Path(path), Some(held)) => {
                    asks = path.ask(width, held);
                }
                (
                    Goal::Reset {
                        is_asked: is_asked @ false,
                        ..
                    },
                    _,
                ) => {
                    *is_asked = true;
                    let HeadClaim { number, hash, .. } = sync.head;
                    let client = self.upstreams[followed].client.clone();
                    let ask = Ask::Hash { number, hash };
                    self.questions
                        .spawn(work::fetch_first(followed, client, ask));
                }
                _ => {}
            }
        }
        for ask in asks {
            self.ask(followed, ask, Purpose::Sync);
        }
        if let Some(held) = &held {
            self.ask_below(held, width.saturating_sub(HEAD_RESERVE).max(1));
        }
    }

    fn ask(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose) {
        let client = self.upstreams[upstream].client.clone();
        self.questions
            .spawn(work::fetch(upstream, client, ask, purpose));
    }

    /// A call or a check failed.
    fn fails(&mut self, upstream: UpstreamId, verdict: Verdict, why: &dyn std::fmt::Display) {
        let reason = match verdict {
            Verdict::Fault(fault) => Some(fault.label()),
            Verdict::Limited(_) | Verdict::Innocent => None,
        };
        self.fails_by(upstream, verdict, reason, why);
    }

    /// The same, for a reason that says more than the fault does.
    fn fails_by(
        &mut self,
        upstream: UpstreamId,
        verdict: Verdict,
        reason: Option<&'static str>,
        why: &dyn std::fmt::Display,
    ) {
        let now = self.now();
        let Some(wait) = self.health.failed(upstream, now, verdict) else {
            return;
        };
        let found = &mut self.upstreams[upstream];
        // Who comes back may be another; whoever only was silent has not gone.
        found.is_known &= verdict == Verdict::Fault(Fault::Silent);
        found.missing = 0;
        let name = found.client.name();
        match reason {
            Some(reason) => tracing::warn!(node = name, reason, ?wait, "{why}"),
            None => tracing::info!(node = name, ?wait, "the node asks to be asked less"),
        }
        (self.tell)(Event::Failed {
            upstream,
            reason,
            wait,
        });
    }
}
