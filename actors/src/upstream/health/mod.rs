//! Which node is followed.
//!
//! Told what nodes said and did and when, it says what each of them is, whom to follow, and which
//! head of theirs to go to. It asks nobody, and has no clock.

mod backoff;
mod block_time;
mod forks;
mod pace;
mod state;

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, fmt, time::Duration};

use alloy_primitives::B256;

pub use backoff::BACKOFF_MAX;
pub use block_time::BlockTime;
pub use state::{Complaint, Fault, NodeState, Verdict};

use super::{chain::Chain, client::HeadClaim};
use backoff::Backoff;
use forks::Trial;
use pace::Pace;

/// Block times without a word after which a node is [`Fault::Silent`].
const SILENT_BLOCKS: u32 = 3;

/// The least of such a time: on a fast chain, a far node or a busy machine takes longer than three
/// blocks to say anything.
const SILENT_MIN: Duration = Duration::from_secs(2);

/// Block times for which the followed node names one of our lower blocks as its head, before that
/// is our head too.
const ROLLBACK_BLOCKS: u32 = 3;

/// Longest pause between two questions to the followed node for its head, where it does not tell of
/// heads: headers that are far apart may be those of a chain that makes blocks on demand.
const POLL_MAX: Duration = Duration::from_secs(3);

/// Block times without a fault after which earlier ones are forgotten.
const FORGIVEN_BLOCKS: u32 = 16;

/// A node, by its place in the configuration.
pub type NodeId = usize;

/// A moment: the time since whoever tells it began. It never goes back.
pub type Moment = Duration;

/// What is known of all nodes, and whom we follow.
#[derive(Clone, Debug)]
pub struct Health {
    nodes: Vec<Node>,
    followed: Option<NodeId>,
    /// Which heads of the followed node are lag.
    lag: Lag,
    /// `None`: whatever the followed node's chain is, we go there.
    trial: Option<Trial>,
    head: Option<u64>,
    block_time: BlockTime,
    backoff: Backoff,
}

/// Which heads of the followed node that are not above ours are lag, and no reorg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lag {
    /// None: it has taken us where we are.
    None,
    /// Those that are blocks of ours: where we are, one has taken us that lied, or was
    /// contradicted.
    Ours,
    /// All: the head does not go back for another node.
    All,
}

/// What is known of one node.
#[derive(Clone, Debug, Default)]
struct Node {
    head: Option<HeadClaim>,
    /// Since when it names this head.
    head_since: Moment,
    /// When it last named a head, this one or another.
    heard: Moment,
    /// The block time as it was then: a node is not silent because blocks turn out to be faster.
    heard_at_pace: Duration,
    pace: Pace,
    finalized: Option<(u64, B256)>,
    is_syncing: bool,
    /// Since when others are ahead.
    behind_since: Option<Moment>,
    /// Until when it counts as being on another fork.
    apart_until: Option<Moment>,
    trouble: Option<Trouble>,
    /// Troubles in a row.
    strikes: u32,
    /// When the last trouble ended.
    quiet_since: Moment,
}

/// Why a node is left alone, and until when. It lasts until the node names a head after that.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// `None`: it is limited.
    fault: Option<Fault>,
    until: Moment,
}

impl Node {
    /// The head of a node that can be followed.
    fn usable(&self) -> Option<&HeadClaim> {
        let is_usable = self.trouble.is_none() && !self.is_syncing;
        self.head.as_ref().filter(|_| is_usable)
    }
}

/// Why another node is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There was none before.
    First,
    /// The one before is not what it was.
    Left(NodeState),
    /// The other has finalized a later block, and that is not one of ours.
    Justified,
    /// The one before is on another fork than we are, and the other moves on ours.
    Apart,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("none was followed"),
            Self::Left(state) => write!(f, "the one before is {state}"),
            Self::Justified => f.write_str("it has finalized a later block, of another fork"),
            Self::Apart => f.write_str("the one before is on another fork"),
        }
    }
}

/// Another node is followed from now on, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The one before.
    pub from: Option<NodeId>,
    /// The one from now on.
    pub to: Option<NodeId>,
    /// Why.
    pub why: Why,
}

impl Health {
    /// So many nodes, of which nothing is known; equal seeds give equal waits.
    #[must_use]
    pub fn new(nodes: usize, seed: u64) -> Self {
        Self {
            nodes: vec![Node::default(); nodes],
            followed: None,
            lag: Lag::None,
            trial: None,
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

    /// The node that is followed.
    #[must_use]
    pub const fn followed(&self) -> Option<NodeId> {
        self.followed
    }

    /// What a node is.
    #[must_use]
    pub fn state(&self, node: NodeId, now: Moment) -> NodeState {
        let node = &self.nodes[node];
        match node.trouble {
            Some(Trouble { fault: None, .. }) => NodeState::Limited,
            Some(Trouble {
                fault: Some(fault), ..
            }) => NodeState::Faulty(fault),
            None if node.usable().is_none() => NodeState::Syncing,
            None => match node.behind_since {
                Some(since) if now.saturating_sub(since) >= self.patience() => NodeState::Lagging,
                _ => NodeState::Live,
            },
        }
    }

    /// Whether another node than this one could be followed.
    #[must_use]
    pub fn has_other(&self, node: NodeId) -> bool {
        let mut others = self.nodes.iter().enumerate();
        others.any(|(id, other)| id != node && other.usable().is_some())
    }

    /// The head that a node last named.
    #[must_use]
    pub fn named(&self, node: NodeId) -> Option<&HeadClaim> {
        self.nodes[node].head.as_ref()
    }

    /// Since when a node names that head.
    #[must_use]
    pub fn named_since(&self, node: NodeId) -> Moment {
        self.nodes[node].head_since
    }

    /// When a node that was asked for its head at `asked` is to be asked again; `tells` where it
    /// also tells of heads by itself.
    #[must_use]
    pub fn ask_at(&self, node: NodeId, asked: Moment, tells: bool) -> Moment {
        let block_time = self.block_time();
        let pause = match self.followed == Some(node) {
            _ if tells => block_time,
            true => (block_time / 4).min(POLL_MAX),
            false => block_time / 2,
        };
        match self.nodes[node].trouble {
            Some(trouble) if trouble.until > asked => trouble.until,
            _ => asked + pause,
        }
    }

    /// Whether a node may be asked anything.
    #[must_use]
    pub fn may_ask(&self, node: NodeId, now: Moment) -> bool {
        self.nodes[node]
            .trouble
            .is_none_or(|trouble| trouble.until <= now)
    }

    /// A node named its head. What it says while it is left alone is not heard.
    pub fn heard(&mut self, node: NodeId, now: Moment, head: HeadClaim) {
        if !self.may_ask(node, now) {
            return;
        }
        let block_time = self.block_time();
        let node = &mut self.nodes[node];
        node.trouble = None;
        node.heard = now;
        node.heard_at_pace = block_time;
        if node.head.is_none_or(|before| before.hash != head.hash) {
            node.head_since = now;
            node.pace.named(now, head.timestamp);
        }
        // What it says of the same block may have been wrong before.
        node.head = Some(head);
        self.compare(now);
    }

    /// A node named the newest block that it takes for final.
    pub fn settled(&mut self, node: NodeId, finalized: Option<(u64, B256)>) {
        self.nodes[node].finalized = finalized;
    }

    /// A node said whether it is syncing.
    pub fn syncing(&mut self, node: NodeId, now: Moment, is_syncing: bool) {
        self.nodes[node].is_syncing = is_syncing;
        self.compare(now);
    }

    /// A call failed, or what it answered failed a check; how long the node is left alone for it.
    pub fn failed(&mut self, node: NodeId, now: Moment, verdict: Verdict) -> Option<Duration> {
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
        let is_grave = is_lie && self.has_other(node);
        let found = &mut self.nodes[node];
        if let Some(trouble) = found.trouble
            && trouble.until > now
            && (!is_lie || trouble.fault.is_some_and(Fault::is_lie))
        {
            return None;
        }
        if now.saturating_sub(found.quiet_since) >= block_time * FORGIVEN_BLOCKS {
            found.strikes = 0;
        }
        found.strikes = found.strikes.saturating_add(1);
        let wait = self.backoff.wait(node, found.strikes, is_grave, block_time);
        let wait = wait.max(at_least);
        let until = now + wait;
        found.trouble = Some(Trouble { fault, until });
        found.quiet_since = until;
        found.behind_since = None;
        self.compare(now);
        Some(wait)
    }

    /// Our head is this now, by what this node gave.
    pub fn advanced(&mut self, node: NodeId, now: Moment, number: u64) {
        self.head = Some(number);
        self.block_time.arrived(number, now);
        if self.followed == Some(node) {
            self.lag = Lag::None;
            self.joined(node, now);
        }
        self.compare(now);
    }

    /// Nodes that have become silent, each of which has failed by that: [`Fault::Silent`].
    #[must_use]
    pub fn silent(&self, now: Moment) -> Vec<NodeId> {
        let is_silent = |node: &Node| {
            let block_time = self.block_time().max(node.heard_at_pace);
            let silent_for = now.saturating_sub(node.heard);
            let patience = (block_time * SILENT_BLOCKS).max(SILENT_MIN);
            node.usable().is_some() && silent_for >= patience
        };
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter_map(|(id, node)| is_silent(node).then_some(id))
            .collect()
    }

    /// Chooses whom to follow. To be called after whatever was told, and every quarter of a block
    /// time.
    pub fn choose(&mut self, now: Moment, chain: &impl Chain) -> Option<Switch> {
        self.look_at_forks(now, chain);
        let (to, why) = self.better(now, chain)?;
        let from = std::mem::replace(&mut self.followed, to);
        let is_disowned = match why {
            Why::Left(NodeState::Faulty(fault)) => fault.is_lie(),
            why => why == Why::Apart,
        };
        self.lag = match self.lag {
            Lag::None if is_disowned => Lag::Ours,
            Lag::None | Lag::All if to.is_some() && self.head.is_some() => Lag::All,
            lag => lag,
        };
        let is_back = why == Why::Apart && to == self.left();
        let is_tried = self.lag == Lag::All && why != Why::Justified && !is_back;
        self.trial = to
            .filter(|_| is_tried)
            .map(|to| self.trial(from, to, chain));
        Some(Switch { from, to, why })
    }

    /// The head to go to: that of the followed node, unless it only is behind.
    #[must_use]
    pub fn target(&self, now: Moment, chain: &impl Chain) -> Option<(NodeId, HeadClaim)> {
        let followed = self.followed?;
        let node = &self.nodes[followed];
        let head = node.usable()?;
        let (ours, _) = chain.head();
        let is_ours = chain.has(head.number, head.hash);
        let is_lag = match self.lag {
            Lag::None => false,
            Lag::Ours => is_ours,
            Lag::All => true,
        };
        if head.number < ours {
            // One URL may be several nodes: a lower head is a reorg if it is still the head after a
            // while; one of our own blocks is a rollback if its node has had the time to come after
            // us.
            let is_kept_for = now.saturating_sub(node.head_since);
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

    /// How long a node may be behind, and how long a lower head has to be named.
    fn patience(&self) -> Duration {
        self.block_time() / 2
    }

    /// Notes who is behind others, those on another fork aside.
    fn compare(&mut self, now: Moment) {
        let others = self.nodes.iter().filter(|node| !node.is_apart(now));
        let heads = others.filter_map(Node::usable);
        let best = heads.map(|head| head.number).max().max(self.head);
        for node in &mut self.nodes {
            let number = node.usable().map(|head| head.number);
            if number.is_some() && number < best {
                node.behind_since.get_or_insert(now);
            } else {
                node.behind_since = None;
            }
        }
    }

    /// Whom to follow instead, if anybody, and why.
    fn better(&self, now: Moment, chain: &impl Chain) -> Option<(Option<NodeId>, Why)> {
        let usable = (0..self.nodes.len()).filter(|id| self.nodes[*id].usable().is_some());
        let best = usable.max_by_key(|id| self.rank(*id, now));
        let Some(followed) = self.followed else {
            return best.map(|id| (Some(id), Why::First));
        };
        let left = Why::Left(self.state(followed, now));
        let Some(head) = self.nodes[followed].usable() else {
            return Some((best, left));
        };
        if let Some(rival) = self.justified_rival(followed, chain) {
            return Some((Some(rival), Why::Justified));
        }
        if let Some(witness) = self.better_fork(now) {
            return Some((Some(witness), Why::Apart));
        }
        let is_lagging = self.state(followed, now) == NodeState::Lagging;
        let is_ahead = |id: &NodeId| {
            let other = self.nodes[*id].usable();
            other.is_some_and(|other| other.number > head.number)
        };
        let ahead = best.filter(|id| is_lagging && is_ahead(id))?;
        Some((Some(ahead), left))
    }

    /// What makes a node better than others. The operator's order decides between equals.
    fn rank(&self, id: NodeId, now: Moment) -> impl Ord + use<> {
        let node = &self.nodes[id];
        let number = node.usable().map(|head| head.number);
        (
            !node.is_apart(now),
            number,
            Reverse(node.strikes),
            Reverse(id),
        )
    }
}
