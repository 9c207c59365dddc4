//! What decides about the head, what is reported to it, and what it answers.

use std::{fmt, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;

use super::{
    links::{Links, Point},
    node_set::NodeSet,
};
use crate::upstream::{
    chain::Chain,
    client::HeadClaim,
    health::{Moment, UpstreamId},
};

/// What decides about the head: agreement among upstreams, or later a beacon light client.
pub(crate) trait HeadAuthority {
    /// Records what an upstream said or did.
    fn heard(&mut self, now: Moment, node: UpstreamId, said: Said);

    /// Decides about the head. To be called after every report, every fetched block and every
    /// change of the head, and at least every quarter of a block time.
    fn decide<C: Chain>(&mut self, at: &Situation<'_, C>) -> Decision;

    /// The safe and the finalized block. To be called after a change of the head or a report of
    /// settled blocks.
    fn settle<C: Chain>(&mut self, at: &Situation<'_, C>) -> SettledBlocks;

    /// The safe and the finalized block to save. A saved safe block counts until the window shows
    /// whether it is canonical.
    fn to_save(&self) -> SettledBlocks;
}

/// What an upstream said or did.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    /// It named its head.
    Head(HeadClaim),
    /// Asked for its canonical block at this number, it named this hash, or has none.
    HashAt {
        /// The number that it was asked for.
        number: u64,
        /// `None`: it has no such block yet.
        hash: Option<B256>,
    },
    /// It named the blocks that it calls safe and finalized.
    Settled(SettledBlocks),
    /// It reported whether it is syncing.
    Syncing(bool),
    /// A call for heads failed, it was silent for too long, or it is on another chain. What it
    /// stated before no longer counts.
    Failed,
}

/// What the follower knows at the time of a decision.
#[derive(Debug)]
pub(crate) struct Situation<'a, C> {
    /// The time.
    pub(crate) now: Moment,
    /// The chain's block time.
    pub(crate) block_time: Duration,
    /// The served chain; `None` before the first block.
    pub(crate) held: Option<&'a C>,
    /// When its head last changed.
    pub(crate) head_since: Moment,
    /// Verified blocks that are not served yet.
    pub(crate) links: &'a Links,
    /// The sync in progress: which upstream is asked, and for the path to which head.
    pub(crate) syncing: Option<(UpstreamId, Point)>,
    /// One for each upstream.
    pub(crate) nodes: &'a [NodeAccess],
}

/// Whether an upstream can be asked for blocks, and how it has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeAccess {
    /// It may be asked for blocks now.
    pub(crate) may_fetch: bool,
    /// How often it was lately so slow to give a block that another one was asked as well.
    pub(crate) delays: u32,
    /// Its recent faults.
    pub(crate) strikes: u32,
}

/// What to do now.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// What becomes of the head, and why.
    pub(crate) choice: Choice,
    /// The head to advance to, once the path to it is fetched. No other path is applied.
    pub(crate) adopt: Option<Point>,
    /// The path to fetch. A sync to another head is dropped, as is every sync if there is none.
    pub(crate) fetch: Option<Fetch>,
    /// The hashes to ask for, at most one of each upstream. The follower drops a question to an
    /// upstream that has not answered the one before.
    pub(crate) asks: Vec<AskHash>,
    /// How many upstreams agree. The quorum is reached unless the head stands.
    pub(crate) agreeing: usize,
    /// The heads that the upstreams name that count.
    pub(crate) heads: Vec<(UpstreamId, Point)>,
    /// A chain that a quorum names and that is not served.
    pub(crate) refusal: Option<Refusal>,
    /// Upstreams that have contradicted a quorum for some time, or each other while no quorum
    /// agreed, and what they say.
    pub(crate) dissent: Vec<Dissent>,
    /// The upstreams in quarantine. They are asked for blocks of a new head only where no other
    /// upstream has them, and neither for older blocks nor for state.
    pub(crate) quarantined: NodeSet,
}

nearhead_chain::reasons! {
    /// What becomes of the head, and why. docs/nodes.md has the table of [`Self::ALL`].
    Choice:
    First = "first", "no block is served yet, and a quorum vouches for a block";
    Extend = "extend", "a quorum vouches for a block above the head that descends from it";
    Replace = "replace", "a quorum vouches for a block of another branch, and no quorum is left on the served one; a lower block has to be named for half a block time";
    GoBack = "go_back", "a quorum has gone back to a served block below the head and has named it for three block times, and no quorum vouches for the head";
    Keep = "keep", "a quorum is on the served chain, and none is above the head";
    Contested = "contested", "a quorum is on the served chain and another one on another branch, which is possible if a quorum is at most half of the nodes";
    Checking = "checking", "nodes are being asked whether they agree, or whether their chain contains the finalized and the trusted blocks";
    TooFewNodes = "too_few_nodes", "fewer nodes than a quorum name heads";
    Disagree = "disagree", "no quorum agrees on a block";
    Finalized = "finalized", "a quorum names a chain without the finalized block";
    Untrusted = "untrusted", "a quorum names a chain without a trusted block";
    Behind = "behind", "a quorum has not reached the finalized block or a trusted block yet";
}

/// What a [`Choice`] does to the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes.
    Adopt,
    /// It is right as it is.
    Keep,
    /// It stands, because no quorum allows another one.
    Stand,
}

/// What the head does, in one or two words.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adopt => "changes",
            Self::Keep => "is kept",
            Self::Stand => "stands",
        })
    }
}

impl Choice {
    /// What it does to the head.
    #[must_use]
    pub const fn effect(self) -> Effect {
        match self {
            Self::First | Self::Extend | Self::Replace | Self::GoBack => Effect::Adopt,
            Self::Keep | Self::Contested => Effect::Keep,
            Self::Checking
            | Self::TooFewNodes
            | Self::Disagree
            | Self::Finalized
            | Self::Untrusted
            | Self::Behind => Effect::Stand,
        }
    }
}

/// A path of blocks to fetch, from a head down to a held block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The upstream to ask, once it may be asked.
    pub(crate) from: UpstreamId,
    /// The upstreams that vouch for the head, and can be asked instead.
    pub(crate) voters: NodeSet,
    /// The head.
    pub(crate) to: Point,
    /// Whether a quorum vouches for it; if not, it is fetched while the others are asked.
    pub(crate) is_agreed: bool,
}

/// A question for the hash of an upstream's canonical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskHash {
    /// The upstream to ask.
    pub(crate) node: UpstreamId,
    /// The block's number.
    pub(crate) number: u64,
}

/// A chain that a quorum names and that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Why: [`Choice::Contested`], [`Choice::Finalized`], [`Choice::Untrusted`] or
    /// [`Choice::Behind`].
    pub(crate) choice: Choice,
    /// Its head.
    pub(crate) head: Point,
    /// Who names it.
    pub(crate) by: NodeSet,
}

/// An upstream that contradicts a quorum, another upstream while no quorum agrees, or, with a
/// quorum, a block that the chain has to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dissent {
    /// The upstream.
    pub(crate) node: UpstreamId,
    /// The block that it names.
    pub(crate) theirs: Point,
    /// The hash that a quorum names at that number. `None`: no quorum agrees with ours, and
    /// nothing shows which upstream is right.
    pub(crate) ours: Option<B256>,
}
