//! Agreement among upstreams.

use nearhead_chain::window::SettledBlocks;

use super::{
    authority::{Decision, HeadAuthority, Said, Situation},
    decide::decide,
    links::Point,
    node_set::NodeSet,
    policy::{Policy, TRUSTED_MAX},
    settle::{highest, settle},
    stated::Stated,
    tally::View,
};
use crate::upstream::{
    chain::Chain,
    health::{Moment, UpstreamId},
};

/// Block times for which an upstream has to contradict a quorum before that is dissent, and to
/// agree before that is forgotten. One orphaned block is no lie.
const DISSENT_BLOCKS: u32 = 2;

/// Block times that a quarantined upstream has to spend on the served chain.
const QUARANTINE_BLOCKS: u32 = 16;

/// What agreement knows of one upstream besides its statements.
#[derive(Clone, Copy, Debug, Default)]
struct DissentRecord {
    /// Since when it has contradicted a quorum, or another upstream while no quorum agreed.
    dissents_since: Option<Moment>,
    /// Since when it has been on the served chain.
    agrees_since: Option<Moment>,
    is_quarantined: bool,
}

/// The authority that counts what upstreams state.
#[derive(Clone, Debug)]
pub(crate) struct Quorum {
    policy: Policy,
    stated: Vec<Stated>,
    records: Vec<DissentRecord>,
    settled: SettledBlocks,
    /// The block that was safe before a restart, until the window shows whether it is canonical.
    saved_safe: Option<Point>,
    trusted: Vec<Point>,
}

impl Quorum {
    /// Agreement among `nodes` upstreams. `finalized` is the block that was finalized before a
    /// restart. The first [`TRUSTED_MAX`] blocks of `trusted` are those that the operator trusts;
    /// one at the finalized block or above it takes its place.
    pub(crate) fn new(
        policy: Policy,
        nodes: usize,
        finalized: Option<Point>,
        mut trusted: Vec<Point>,
    ) -> Self {
        trusted.truncate(TRUSTED_MAX);
        let is_above = |point: &Point| trusted.iter().all(|trusted| trusted.0 < point.0);
        let settled = SettledBlocks {
            safe: None,
            finalized: finalized.filter(is_above),
        };
        Self {
            policy,
            stated: vec![Stated::default(); nodes],
            records: vec![DissentRecord::default(); nodes],
            settled,
            saved_safe: None,
            trusted,
        }
    }

    /// The same with a block that was safe before a restart. It counts once the window shows that
    /// it is on the served chain, and is dropped if another block of its number is.
    pub(crate) const fn with_saved_safe(mut self, safe: Option<Point>) -> Self {
        self.saved_safe = safe;
        self
    }

    /// What an upstream has stated.
    #[cfg(test)]
    pub(super) fn stated(&self, node: UpstreamId) -> &Stated {
        &self.stated[node]
    }

    #[cfg(test)]
    pub(super) const fn set_safe(&mut self, safe: Option<Point>) {
        self.settled.safe = safe;
    }

    #[cfg(test)]
    pub(super) const fn set_settled(&mut self, settled: SettledBlocks) {
        self.settled = settled;
    }

    /// The decision from what was stated alone.
    #[cfg(test)]
    pub(super) fn decide_now<C: Chain>(&self, at: &Situation<'_, C>) -> Decision {
        decide(&self.view(at), &self.policy)
    }

    fn view<'a, C>(&'a self, at: &'a Situation<'a, C>) -> View<'a, C> {
        View {
            at,
            stated: &self.stated,
            quarantined: self.quarantined(),
            finalized: self.settled.finalized,
            trusted: &self.trusted,
        }
    }

    fn quarantined(&self) -> NodeSet {
        let mut quarantined = NodeSet::default();
        for (node, record) in self.records.iter().enumerate() {
            if record.is_quarantined {
                quarantined.insert(node);
            }
        }
        quarantined
    }

    /// Updates who is quarantined. Where two forks can both have a quorum, or neither has one,
    /// nobody is: nothing says which of them is right.
    fn judge<C: Chain>(&mut self, at: &Situation<'_, C>, decision: &mut Decision) {
        let (now, block_time) = (at.now, at.block_time);
        for (node, record) in self.records.iter_mut().enumerate() {
            let stated = &self.stated[node];
            let mut dissent = decision.dissent.iter();
            let dissent = dissent.find(|dissent| dissent.node == node);
            let contradicts = dissent.is_some();
            let is_outvoted = dissent.is_some_and(|dissent| dissent.ours.is_some());
            let is_served = |(number, hash)| at.held.is_some_and(|held| held.has(number, hash));
            if contradicts {
                record.dissents_since.get_or_insert(now);
                record.agrees_since = None;
            } else if stated.head().is_some_and(is_served) {
                record.agrees_since.get_or_insert(now);
            } else if stated.head().is_none() {
                record.agrees_since = None;
            }
            let lasts = |since: Option<Moment>, blocks: u32| {
                let least = block_time.saturating_mul(blocks);
                since.is_some_and(|since| now.saturating_sub(since) >= least)
            };
            // A moment of agreement between two lies does not count.
            if lasts(record.agrees_since, DISSENT_BLOCKS) {
                record.dissents_since = None;
            }
            let is_dissent = contradicts && lasts(record.dissents_since, DISSENT_BLOCKS);
            if is_dissent && is_outvoted && self.policy.is_majority() {
                record.is_quarantined = true;
            } else if lasts(record.agrees_since, QUARANTINE_BLOCKS) {
                record.is_quarantined = false;
            }
            if !is_dissent {
                decision.dissent.retain(|dissent| dissent.node != node);
            }
        }
        decision.quarantined = self.quarantined();
    }
}

impl HeadAuthority for Quorum {
    fn heard(&mut self, now: Moment, node: UpstreamId, said: Said) {
        let Some(stated) = self.stated.get_mut(node) else {
            return;
        };
        match said {
            Said::Head(claim) => stated.head_named(now, &claim),
            Said::HashAt { number, hash } => stated.hash_named(now, number, hash),
            Said::Settled(settled) => stated.settled_named(settled),
            Said::Syncing(is_syncing) => stated.syncing_reported(is_syncing),
            Said::Failed => stated.forget(),
        }
    }

    fn decide<C: Chain>(&mut self, at: &Situation<'_, C>) -> Decision {
        let mut decision = decide(&self.view(at), &self.policy);
        self.judge(at, &mut decision);
        decision
    }

    fn settle<C: Chain>(&mut self, at: &Situation<'_, C>) -> SettledBlocks {
        let shown = |(number, _): Point| at.held?.hash_at(number);
        if let Some(hash) = self.saved_safe.and_then(shown) {
            let saved = self.saved_safe.take().filter(|saved| saved.1 == hash);
            self.settled.safe = highest(self.settled.safe, saved);
        }
        self.settled = settle(&self.view(at), &self.policy, self.settled);
        self.settled
    }

    fn to_save(&self) -> SettledBlocks {
        let SettledBlocks { safe, finalized } = self.settled;
        SettledBlocks {
            safe: highest(safe, self.saved_safe),
            finalized,
        }
    }
}
