//! Follows the best of several nodes.
//!
//! One task decides; what it waits for are the answers to its own questions, so that there is no
//! queue: one question a node for its head, one for the heads that it tells of, and as many for
//! blocks as may be under way.

mod answers;
mod below;
mod peer;
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

pub use peer::{FetchError, HeadFeed, HeadSink, Peer, View};

use super::{
    client::HeadClaim,
    health::{Complaint, Fault, Health, Moment, NodeId, NodeState, Switch, Verdict},
    plan::{Ask, Route},
};
use below::{Filling, Genesis};
use work::{Done, Purpose, Settled};

/// Calls that a block takes at once: for itself, and for its receipts.
const CALLS_A_BLOCK: usize = 2;

/// Blocks that backfill leaves to a new head, so that it does not wait for its turn.
const HEAD_RESERVE: usize = 1;

/// Shortest time without a block, on the way to a head, after which another node is tried: a far
/// one takes so long.
const STUCK_MIN: Duration = Duration::from_secs(1);

/// Times as long that the whole way of a node that is on trial may take: blocks that drop in one by
/// one keep us from the others.
const TRIAL_STUCKS: u32 = 3;

/// What is followed by.
#[derive(Clone, Copy, Debug)]
pub struct FollowConfig {
    /// The chain that all nodes must be of.
    pub chain_id: u64,
    /// Calls to a node that may be under way at the same time.
    pub concurrency: usize,
    /// Decides by how much waits differ from those of other services.
    pub seed: u64,
}

/// What happened, for metrics and for whoever shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another node is followed, or none.
    Switched(Switch),
    /// A node did something wrong, and is left alone for a while.
    Failed {
        /// Which.
        node: NodeId,
        /// What it did, in one word: [`Fault::label`], or the check that a block failed; `None`: it
        /// asked to be left alone.
        reason: Option<&'static str>,
        /// For how long; zero for a false genesis, without which a node can be followed.
        wait: Duration,
    },
    /// The window began, or began anew, with a block of this number.
    Began(u64),
    /// The head is now the block of this number.
    Advanced {
        /// The number.
        number: u64,
        /// How long ago the followed node named it first.
        named: Duration,
    },
    /// So many blocks are missing below the oldest that is held.
    Missing(u64),
    /// A node is something else than before.
    State {
        /// Which.
        node: NodeId,
        /// What it is.
        state: NodeState,
    },
}

/// Where events are told; called often, and not to wait.
pub type Tell = Box<dyn FnMut(Event) + Send>;

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

/// Follows the best of several nodes, and fills the window from it.
pub struct Follower<P: Peer, S> {
    nodes: Vec<Node<P>>,
    sink: S,
    tell: Tell,
    config: FollowConfig,
    health: Health,
    began: Instant,
    questions: JoinSet<Done<P::Heads>>,
    way: Option<Way>,
    filling: Option<Filling>,
    genesis: Genesis,
    /// Whether what the followed node calls settled is to be told.
    is_unsettled: bool,
    /// No way is begun before: a node did not have what it named.
    hold_until: Moment,
}

/// One node as it is spoken to.
struct Node<P> {
    peer: P,
    /// When it last answered or failed to say its head, before which it is not asked again.
    asked: Option<Moment>,
    is_asked: bool,
    /// Whether its chain is known to be ours.
    is_known: bool,
    /// Whether it tells of heads; `None`: it is to be asked to.
    tells: Option<bool>,
    settled: Settled,
    settled_at: Option<Moment>,
    /// Times in a row that it did not have what it named.
    missing: u32,
    /// What was last told of it.
    state: Option<NodeState>,
}

/// The way to a head that a node named.
struct Way {
    node: NodeId,
    head: HeadClaim,
    /// When the node named that head first.
    named: Moment,
    began: Moment,
    /// When the last block arrived on it, or when it began.
    moved: Moment,
    to: Goal,
}

enum Goal {
    /// From our head.
    Route(Route<Arc<Block>>),
    /// The window begins with the head; once it was asked for, and is there.
    Begin {
        is_asked: bool,
        block: Option<Arc<Block>>,
    },
}

impl Goal {
    const BEGIN: Self = Self::Begin {
        is_asked: false,
        block: None,
    };
}

impl<P: Peer, S: HeadSink> Follower<P, S> {
    /// A follower of these nodes, in the operator's order; `tell` is told what happens.
    pub fn new(peers: Vec<P>, sink: S, config: FollowConfig, tell: Tell) -> Self {
        let nodes = peers.into_iter().map(|peer| Node {
            peer,
            asked: None,
            is_asked: false,
            is_known: false,
            tells: None,
            settled: Settled::default(),
            settled_at: None,
            missing: 0,
            state: None,
        });
        let nodes: Vec<_> = nodes.collect();
        Self {
            health: Health::new(nodes.len(), config.seed),
            nodes,
            sink,
            tell,
            config,
            began: Instant::now(),
            questions: JoinSet::new(),
            way: None,
            filling: None,
            genesis: Genesis::default(),
            is_unsettled: false,
            hold_until: Duration::ZERO,
        }
    }

    /// Follows until `stop` is told, or its other end is dropped; hears what others complain of
    /// nodes.
    ///
    /// # Errors
    /// Whoever holds the blocks cannot go on. No node can end it.
    pub async fn run(
        mut self,
        mut complaints: mpsc::Receiver<Complaint>,
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
                Some(Complaint { node, verdict, why }) = complaints.recv() => {
                    self.fails(node, verdict, &why);
                }
                () = time::sleep(pause) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// How long there is nothing to do if nothing is heard: until a node is to be asked, or a
    /// quarter of a block time, in which what is behind or silent is noticed.
    fn pause(&self) -> Duration {
        let now = self.now();
        let polls = (0..self.nodes.len()).filter_map(|id| self.poll_at(id));
        let filling = self.filling.as_ref().map(|filling| filling.hold_until);
        let holds = [
            Some(self.hold_until),
            filling,
            Some(self.genesis.hold_until),
        ];
        let holds = holds.into_iter().flatten().filter(|until| *until > now);
        let next = polls.chain(holds).map(|at| at.saturating_sub(now)).min();
        let look = self.health.block_time() / 4;
        // A timer that has just fired may be early by less than its own resolution.
        next.unwrap_or(look).clamp(Duration::from_millis(1), look)
    }

    /// When a node is to be asked for its head; `None` while it is.
    fn poll_at(&self, id: NodeId) -> Option<Moment> {
        let node = &self.nodes[id];
        let tells = node.tells == Some(true);
        let at = |asked| self.health.ask_at(id, asked, tells);
        (!node.is_asked).then(|| node.asked.map_or(Duration::ZERO, at))
    }

    /// Asks nodes for their heads, those whose time it is.
    fn poll(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        for id in 0..self.nodes.len() {
            if self.poll_at(id).is_none_or(|at| at > now) {
                continue;
            }
            let node = &mut self.nodes[id];
            node.is_asked = true;
            let last = node.settled_at;
            let with_settled = last.is_none_or(|at| now.saturating_sub(at) >= block_time);
            if with_settled {
                node.settled_at = Some(now);
            }
            let poll = work::poll(id, node.peer.clone(), !node.is_known, with_settled);
            self.questions.spawn(poll);
            if node.tells.is_none() && node.is_known {
                node.tells = Some(true);
                self.questions.spawn(work::subscribe(id, node.peer.clone()));
            }
        }
    }

    /// Chooses the node, and its head to go to.
    fn choose(&mut self) {
        self.leave_if_stuck();
        for node in self.health.silent(self.now()) {
            self.fails(node, Verdict::Fault(Fault::Silent), &Fault::Silent);
        }
        let (now, view) = (self.now(), self.sink.view());
        if let Some(switch) = self.health.choose(now, &view) {
            self.switched(switch);
        }
        if self.way.is_none()
            && now >= self.hold_until
            && let Some((node, head)) = self.health.target(now, &view)
        {
            let route = |view: &S::View| Goal::Route(Route::to(head.number, head.hash, view));
            self.way = Some(Way {
                node,
                head,
                named: self.health.named_since(node),
                began: now,
                moved: now,
                to: view.as_ref().map_or(Goal::BEGIN, route),
            });
        }
    }

    /// Tells which nodes have become something else, once they were heard. Faults and limits have
    /// their own log lines.
    fn tell_states(&mut self) {
        let now = self.now();
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let state = self.health.state(id, now);
            if node.asked.is_none() || node.state.replace(state) == Some(state) {
                continue;
            }
            if state == NodeState::Syncing {
                tracing::warn!(node = node.peer.name(), "the node says that it is syncing");
            }
            (self.tell)(Event::State { node: id, state });
        }
    }

    /// Leaves a node that names heads and gives no blocks, if there is another: a call's own time
    /// may be many blocks.
    fn leave_if_stuck(&mut self) {
        let (now, patience) = (self.now(), self.health.block_time().max(STUCK_MIN));
        let way = self.way.as_ref();
        let stuck = way.filter(|way| now.saturating_sub(way.moved) >= patience);
        if let Some(node) = stuck.map(|way| way.node)
            && self.health.has_other(node)
        {
            let why = "no block within one block time";
            self.fails(node, Verdict::Fault(Fault::Timeout), &why);
        }
        let way = self.way.as_ref();
        let is_late =
            way.is_some_and(|way| now.saturating_sub(way.began) >= patience * TRIAL_STUCKS);
        if let Some(node) = way.map(|way| way.node)
            && is_late
            && self.health.refuses(now, false)
        {
            let why = "its head was not reached within three block times";
            self.fails(node, Verdict::Fault(Fault::Timeout), &why);
        }
    }

    fn switched(&mut self, switch: Switch) {
        let name = |id: Option<NodeId>| Some(self.nodes[id?].peer.name());
        let (from, to) = (name(switch.from), name(switch.to));
        match to {
            Some(to) => tracing::info!(from, to, why = %switch.why, "another node is followed"),
            None => tracing::warn!(from, why = %switch.why, "no node can be followed"),
        }
        (self.tell)(Event::Switched(switch));
        self.way = None;
        // What was asked of the one before is asked of the other.
        self.filling = None;
        self.is_unsettled = true;
    }

    fn ask_for_blocks(&mut self) {
        let Some(followed) = self.health.followed() else {
            return;
        };
        let width = (self.config.concurrency / CALLS_A_BLOCK).max(1);
        let view = self.sink.view();
        let mut asks = Vec::new();
        if let Some(way) = &mut self.way {
            match (&mut way.to, &view) {
                (Goal::Route(route), Some(view)) => {
                    asks = route.ask(width, view);
                }
                (
                    Goal::Begin {
                        is_asked: is_asked @ false,
                        ..
                    },
                    _,
                ) => {
                    *is_asked = true;
                    let HeadClaim { number, hash, .. } = way.head;
                    let peer = self.nodes[followed].peer.clone();
                    let ask = Ask::Hash { number, hash };
                    self.questions.spawn(work::fetch_first(followed, peer, ask));
                }
                _ => {}
            }
        }
        for ask in asks {
            self.ask(followed, ask, Purpose::Way);
        }
        if let Some(view) = &view {
            self.ask_below(view, width.saturating_sub(HEAD_RESERVE).max(1));
        }
    }

    fn ask(&mut self, node: NodeId, ask: Ask, purpose: Purpose) {
        let peer = self.nodes[node].peer.clone();
        self.questions.spawn(work::fetch(node, peer, ask, purpose));
    }

    /// A call or a check failed.
    fn fails(&mut self, node: NodeId, verdict: Verdict, why: &dyn std::fmt::Display) {
        let reason = match verdict {
            Verdict::Fault(fault) => Some(fault.label()),
            Verdict::Limited(_) | Verdict::Innocent => None,
        };
        self.fails_by(node, verdict, reason, why);
    }

    /// The same, for a reason that says more than the fault does.
    fn fails_by(
        &mut self,
        node: NodeId,
        verdict: Verdict,
        reason: Option<&'static str>,
        why: &dyn std::fmt::Display,
    ) {
        let now = self.now();
        let Some(wait) = self.health.failed(node, now, verdict) else {
            return;
        };
        let found = &mut self.nodes[node];
        // Who comes back may be another; whoever only was silent has not gone.
        found.is_known &= verdict == Verdict::Fault(Fault::Silent);
        found.missing = 0;
        let name = found.peer.name();
        match reason {
            Some(reason) => tracing::warn!(node = name, reason, ?wait, "{why}"),
            None => tracing::info!(node = name, ?wait, "the node asks to be asked less"),
        }
        (self.tell)(Event::Failed { node, reason, wait });
    }
}
