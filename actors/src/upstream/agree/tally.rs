//! Who vouches for which block, and who denies it.

use alloy_primitives::B256;

use super::{
    authority::Situation,
    links::Point,
    node_set::NodeSet,
    policy::{Policy, statement_lifetime},
    stated::Stated,
};
use crate::upstream::{
    chain::Chain,
    health::{Moment, UpstreamId},
};

/// Everything that a decision depends on.
#[derive(Debug)]
pub(crate) struct View<'a, C> {
    /// What the follower knows.
    pub(crate) at: &'a Situation<'a, C>,
    /// What each upstream has stated.
    pub(crate) stated: &'a [Stated],
    /// The upstreams that are quarantined.
    pub(crate) quarantined: NodeSet,
    /// The finalized block.
    pub(crate) finalized: Option<Point>,
    /// The blocks that the operator trusts.
    pub(crate) trusted: &'a [Point],
}

/// A block and the upstreams that vouch for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    pub(super) point: Point,
    pub(super) voters: NodeSet,
}

/// Whether a block's chain contains another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contains {
    Yes,
    No,
    Unknown,
}

/// The ancestor of a block at a lower number, as far as verified blocks show it.
enum Ancestor {
    Is(B256),
    /// It is below the served window, on the served chain.
    BelowWindow,
    Unknown,
}

/// The statements of the upstreams that count now.
pub(super) struct Tally<'a, C> {
    pub(super) view: &'a View<'a, C>,
    pub(super) quorum: usize,
    /// The upstreams that count: they name heads and are not syncing. Silence is not consent.
    pub(super) counted: NodeSet,
    /// The served head.
    pub(super) head: Option<Point>,
    lifetime: Moment,
}

impl<'a, C: Chain> Tally<'a, C> {
    pub(super) fn new(view: &'a View<'a, C>, policy: &Policy) -> Self {
        let lifetime = statement_lifetime(view.at.block_time);
        let mut counted = NodeSet::default();
        for (node, stated) in view.stated.iter().enumerate() {
            if stated.is_counted(view.at.now, lifetime) {
                counted.insert(node);
            }
        }
        Self {
            view,
            quorum: policy.quorum(),
            counted,
            head: view.at.held.map(Chain::head),
            lifetime,
        }
    }

    pub(super) fn stated(&self, node: UpstreamId) -> &'a Stated {
        &self.view.stated[node]
    }

    /// The hash of an upstream's canonical block at this number, if its statements show it.
    pub(super) fn hash_at(&self, node: UpstreamId, number: u64) -> Option<B256> {
        let unlinked = || self.stated(node).unlinked(self.view.at.now, self.lifetime);
        let known = self.chain_at(node, number);
        known.or_else(|| self.reached(unlinked, number))
    }

    /// The hash at this number of the chain that its head belongs to. A statement from before it
    /// went on to a head that is not known to be on the same chain does not show it.
    pub(super) fn chain_at(&self, node: UpstreamId, number: u64) -> Option<B256> {
        let stated = self.stated(node);
        let lowest = || self.ancestor(stated.lowest()?, number);
        let answers = || stated.answers(self.view.at.now, self.lifetime);
        let linked = stated.in_chain(number).or_else(lowest);
        linked.or_else(|| self.reached(answers, number))
    }

    /// The hash at this number that statements show: exactly, else by verified links.
    fn reached<I: Iterator<Item = Point>>(
        &self,
        stated: impl Fn() -> I,
        number: u64,
    ) -> Option<B256> {
        let exact = stated().find(|(at, _)| *at == number);
        let traced = || stated().find_map(|point| self.ancestor(point, number));
        exact.map(|(_, hash)| hash).or_else(traced)
    }

    /// The upstreams that vouch for a block.
    pub(super) fn voters(&self, (number, hash): Point) -> NodeSet {
        self.counted
            .filter(|node| self.hash_at(node, number) == Some(hash))
    }

    /// The upstreams of `among` that name another block at that number.
    pub(super) fn deniers(&self, among: NodeSet, (number, hash): Point) -> NodeSet {
        let denies = |stated: B256| stated != hash;
        among.filter(|node| self.hash_at(node, number).is_some_and(denies))
    }

    /// The upstreams of `among` of which no block at this number is known.
    pub(super) fn unknown(&self, among: NodeSet, number: u64) -> NodeSet {
        among.filter(|node| self.hash_at(node, number).is_none())
    }

    /// The upstreams on the served chain: at its head or above it, or behind on it.
    pub(super) fn supporters(&self) -> NodeSet {
        let (Some(held), Some(head)) = (self.view.at.held, self.head) else {
            return NodeSet::default();
        };
        self.counted.filter(|node| {
            let is_behind = |(number, hash)| number < head.0 && held.has(number, hash);
            self.hash_at(node, head.0) == Some(head.1)
                || self.stated(node).head().is_some_and(is_behind)
        })
    }

    /// Whether the chain of a block contains another one: by verified links, else by what a quorum
    /// of its voters states.
    pub(super) fn contains(&self, block: Agreed, other: Point) -> Contains {
        let (number, hash) = other;
        if block.point.0 < number {
            return Contains::No;
        }
        match self.trace(block.point, number) {
            Ancestor::Is(found) if found == hash => return Contains::Yes,
            Ancestor::Is(_) => return Contains::No,
            // The served chain was checked when the window started.
            Ancestor::BelowWindow => return Contains::Yes,
            Ancestor::Unknown => {}
        }
        let stated = |node| self.chain_at(node, number);
        let agreeing = block.voters.filter(|node| stated(node) == Some(hash));
        let silent = block.voters.filter(|node| stated(node).is_none());
        if agreeing.len() >= self.quorum {
            Contains::Yes
        } else if block.voters.without(agreeing).without(silent).len() >= self.quorum {
            Contains::No
        } else {
            Contains::Unknown
        }
    }

    /// The highest number at which a quorum may name a block.
    pub(super) fn ceiling(&self) -> Option<u64> {
        let mut heads: Vec<u64> = self.counted.iter().map(|node| self.reach(node)).collect();
        heads.sort_unstable_by(|a, b| b.cmp(a));
        heads.get(self.quorum.checked_sub(1)?).copied()
    }

    /// The highest number below `number` at which an upstream has stated a block.
    pub(super) fn next_below(&self, number: u64) -> Option<u64> {
        let nodes = self.counted.iter();
        nodes
            .filter_map(|node| self.stated_below(node, number))
            .max()
    }

    /// The blocks at this number that a quorum vouches for: first one that descends from the head,
    /// then the one with the most voters.
    pub(super) fn agreed_at(&self, number: u64) -> Vec<Agreed> {
        let mut blocks: Vec<Agreed> = Vec::new();
        for node in self.counted.iter() {
            let Some(hash) = self.hash_at(node, number) else {
                continue;
            };
            let point = (number, hash);
            if let Some(block) = blocks.iter_mut().find(|block| block.point == point) {
                block.voters.insert(node);
            } else {
                let mut voters = NodeSet::default();
                voters.insert(node);
                blocks.push(Agreed { point, voters });
            }
        }
        blocks.retain(|block| block.voters.len() >= self.quorum);
        if blocks.len() > 1 {
            blocks.sort_by_key(|block| {
                let contains = |head| self.contains(*block, head) == Contains::Yes;
                let is_on_served = self.is_held(block.point) || self.head.is_some_and(contains);
                std::cmp::Reverse((is_on_served, block.voters.len()))
            });
        }
        blocks
    }

    /// Whether a block is on the served chain, in the window.
    pub(super) fn is_held(&self, (number, hash): Point) -> bool {
        let held = self.view.at.held;
        held.is_some_and(|held| held.has(number, hash))
    }

    /// The number of the first block on the path from this one down to the served chain that is not
    /// verified yet.
    pub(super) fn first_missing(&self, mut block: Point) -> Option<u64> {
        while !self.is_held(block) {
            let Some(parent) = self.view.at.links.parent(block) else {
                return Some(block.0);
            };
            block = parent;
        }
        None
    }

    /// For how long a statement counts.
    pub(super) const fn lifetime(&self) -> Moment {
        self.lifetime
    }

    /// The highest number at which an upstream has stated a block.
    fn reach(&self, node: UpstreamId) -> u64 {
        let stated = self.stated(node);
        let unlinked = stated.unlinked(self.view.at.now, self.lifetime);
        let numbers = unlinked.chain(stated.head()).map(|(number, _)| number);
        numbers.max().unwrap_or(0)
    }

    fn stated_below(&self, node: UpstreamId, number: u64) -> Option<u64> {
        let stated = self.stated(node);
        let below = number.checked_sub(1)?;
        let linked = match (stated.lowest(), stated.head()) {
            (Some((lowest, _)), Some((head, _))) if lowest <= below => Some(head.min(below)),
            _ => None,
        };
        let unlinked = stated.unlinked(self.view.at.now, self.lifetime);
        let unlinked = unlinked.map(|(at, _)| at).filter(|at| *at <= below);
        unlinked.chain(linked).max()
    }

    fn ancestor(&self, block: Point, number: u64) -> Option<B256> {
        match self.trace(block, number) {
            Ancestor::Is(hash) => Some(hash),
            Ancestor::BelowWindow | Ancestor::Unknown => None,
        }
    }

    /// Follows verified links down from a block. Each step is one number lower, so it ends.
    fn trace(&self, block: Point, number: u64) -> Ancestor {
        let mut block = block;
        loop {
            if block.0 <= number {
                return match block.0 == number {
                    true => Ancestor::Is(block.1),
                    false => Ancestor::Unknown,
                };
            }
            if let Some(held) = self.view.at.held
                && held.has(block.0, block.1)
            {
                let hash = held.hash_at(number);
                return hash.map_or(Ancestor::BelowWindow, Ancestor::Is);
            }
            let Some(parent) = self.view.at.links.parent(block) else {
                return Ancestor::Unknown;
            };
            block = parent;
        }
    }
}
