//! How many upstreams have to agree, and for how long a statement counts.

use std::time::Duration;

/// Block times for which a statement counts: a node that is silent for longer vouches for nothing.
const LIFETIME_BLOCKS: u32 = 3;

/// Lower bound of that time: on a fast chain, three block times are less than a distant upstream
/// or a busy machine needs for an answer.
const LIFETIME_MIN: Duration = Duration::from_secs(2);

/// Blocks that the operator may trust. Each costs a call to each upstream when the window starts.
pub const TRUSTED_MAX: usize = 16;

/// How many upstreams have to agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// How many have to vouch for a block.
    quorum: usize,
    /// How many there are.
    nodes: usize,
    #[cfg(test)]
    without: Option<Rule>,
}

/// The rules that a test can take out, to see that it notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// What one upstream claims to be finalized moves nothing.
    Claims,
    /// A quorum vouches for each block that is served.
    Quorum,
    /// A finalized block is never reverted.
    Finalized,
    /// The chain is the pinned one, and has the trusted blocks.
    Trusted,
    #[cfg(test)]
    Headers,
    #[cfg(test)]
    Classes,
    #[cfg(test)]
    Bytes,
    #[cfg(test)]
    Crash,
    #[cfg(test)]
    Freshness,
}

impl Policy {
    /// `quorum` of `nodes` have to agree: at least one, and at most all.
    pub(crate) fn new(quorum: usize, nodes: usize) -> Self {
        Self {
            quorum: quorum.clamp(1, nodes.max(1)),
            nodes,
            #[cfg(test)]
            without: None,
        }
    }

    /// How many have to agree if the operator does not say: more than half.
    pub(crate) const fn majority(nodes: usize) -> usize {
        nodes / 2 + 1
    }

    /// How many have to vouch for a block.
    pub(crate) const fn quorum(&self) -> usize {
        if self.holds(Rule::Quorum) {
            self.quorum
        } else {
            1
        }
    }

    /// Whether two forks cannot both have a quorum.
    pub(crate) const fn is_majority(&self) -> bool {
        self.quorum > self.nodes / 2
    }

    #[cfg(test)]
    pub(super) const fn without(mut self, rule: Option<Rule>) -> Self {
        self.without = rule;
        self
    }

    /// Whether this rule holds: always, except in a test of what it is for.
    #[cfg(test)]
    pub(super) const fn holds(&self, rule: Rule) -> bool {
        match self.without {
            Some(without) => without as u8 != rule as u8,
            None => true,
        }
    }

    #[cfg(not(test))]
    pub(super) const fn holds(&self, _: Rule) -> bool {
        true
    }
}

/// For how long a statement counts.
pub(super) fn statement_lifetime(block_time: Duration) -> Duration {
    block_time.saturating_mul(LIFETIME_BLOCKS).max(LIFETIME_MIN)
}
