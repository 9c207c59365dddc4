//! Which of two forks is followed.
//!
//! The one whose own finalized block is later and not ours; else the one that is followed, while it
//! moves. Whoever is followed instead of another is on trial: until it has taken us further from
//! our own head, the nodes that were on our chain are witnesses. If its way leaves our chain below
//! our head, and one of them can be followed and moves, nothing is applied, that witness is
//! followed, and the other does not count as ahead for a while. If its way begins above everything
//! that we hold, a witness has to keep pace besides: its blocks' own time goes on as time does. One
//! that is catching up, or is too slow, is left for who is far ahead. Where a node went further
//! from our head, and the one that was left for it soon has another block in the place of one of
//! ours, that one is followed again, and what the other gave is not kept.

use std::cmp::Reverse;

use alloy_primitives::B256;

use super::{Health, Lag, Moment, Node, NodeId};
use crate::upstream::Chain;

/// Block times within which a node's head has to change, for it to be moving.
const MOVING_BLOCKS: u32 = 3;

/// Block times for which a node on another fork does not count as ahead, and for which the
/// witnesses against a node that has taken us further are heard.
const APART_BLOCKS: u32 = 16;

/// What the followed node has to show.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Nodes that were on our chain when it was chosen.
    witnesses: Vec<NodeId>,
    /// The node that was left for it.
    left: Option<NodeId>,
    /// Since when that one has another block in the place of one of ours.
    contradicted_since: Option<Moment>,
    /// Until when they are heard; `None` until it has taken us further.
    until: Option<Moment>,
}

impl Node {
    /// Whether it is known to be on another fork than we are.
    pub(super) fn is_apart(&self, now: Moment) -> bool {
        self.apart_until.is_some_and(|until| now < until)
    }
}

impl Health {
    /// The way to the followed node's head leaves our chain below our head, or takes too long;
    /// `is_far` where it begins above everything that we hold. Whether nothing of it is to be
    /// applied: another node is followed then.
    pub fn refuses(&mut self, now: Moment, is_far: bool) -> bool {
        let Some(followed) = self.followed.filter(|_| self.is_on_trial()) else {
            return false;
        };
        let is_refused = self.witness(now, is_far).is_some();
        if is_refused {
            self.part(followed, now);
        } else {
            self.trial = None;
            self.nodes[followed].apart_until = None;
        }
        is_refused
    }

    /// Whether the followed node has yet to show that it is on our chain.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        let trial = self.trial.as_ref();
        trial.is_some_and(|trial| trial.until.is_none())
    }

    /// The node whose word is taken for what is settled: the followed one, once it is known to be
    /// on our chain.
    #[must_use]
    pub fn settler(&self, chain: &impl Chain) -> Option<NodeId> {
        let is_ours = |node: &NodeId| {
            let head = self.nodes[*node].head;
            head.is_some_and(|head| chain.has(head.number, head.hash))
        };
        self.followed
            .filter(|node| !self.is_on_trial() || is_ours(node))
    }

    /// The trial of a node that is followed from now on.
    pub(super) fn trial(&self, from: Option<NodeId>, to: NodeId, chain: &impl Chain) -> Trial {
        let is_ours = |id: NodeId| {
            let head = self.nodes[id].usable();
            head.is_some_and(|head| {
                chain.has(head.number, head.hash) || head.parent_hash == chain.head().1
            })
        };
        let ids = (0..self.nodes.len()).filter(|id| *id != to);
        Trial {
            witnesses: ids.filter(|id| Some(*id) == from || is_ours(*id)).collect(),
            left: from,
            contradicted_since: None,
            until: None,
        }
    }

    /// The node that was left for the followed one, while that is tried.
    pub(super) fn left(&self) -> Option<NodeId> {
        self.trial.as_ref()?.left
    }

    /// The followed node has taken us further.
    pub(super) fn joined(&mut self, node: NodeId, now: Moment) {
        let until = now + self.block_time() * APART_BLOCKS;
        self.nodes[node].apart_until = None;
        if let Some(trial) = &mut self.trial {
            trial.until.get_or_insert(until);
        }
    }

    /// Finds out who is on another fork, and who is no longer.
    pub(super) fn look_at_forks(&mut self, now: Moment, chain: &impl Chain) {
        let head = chain.head().1;
        let is_stuck = self.followed.is_some_and(|id| {
            let node = &self.nodes[id];
            node.usable().is_some() && !self.is_moving(node, now)
        });
        let is_disowned = self.lag == Lag::Ours;
        for node in &mut self.nodes {
            let has_ours = |of: B256, parent: B256| !is_disowned && (of == head || parent == head);
            let named = node.head.as_ref();
            if is_stuck || named.is_some_and(|named| has_ours(named.hash, named.parent_hash)) {
                node.apart_until = None;
            }
        }
        self.compare(now);
        self.hear_contradiction(now, chain);
    }

    /// Hears the node that was left, once the followed one has taken us further. Who is about to
    /// come after us, through a reorg or not, does so within a block time.
    fn hear_contradiction(&mut self, now: Moment, chain: &impl Chain) {
        let is_contradicted = self.is_contradicted(now, chain);
        let block_time = self.block_time();
        let Some(trial) = &mut self.trial else {
            return;
        };
        if trial.until.is_some_and(|until| until <= now) {
            self.trial = None;
        } else if !is_contradicted || trial.until.is_none() {
            trial.contradicted_since = None;
        } else if now.saturating_sub(*trial.contradicted_since.get_or_insert(now)) >= block_time
            && let Some(followed) = self.followed
        {
            self.part(followed, now);
        }
    }

    /// The node to go back to from one that is on another fork.
    pub(super) fn better_fork(&self, now: Moment) -> Option<NodeId> {
        let followed = self.followed?;
        self.witness(now, false)
            .filter(|_| self.nodes[followed].is_apart(now))
    }

    /// A node that has finalized a later block than the followed one, which is not ours.
    pub(super) fn justified_rival(&self, followed: NodeId, chain: &impl Chain) -> Option<NodeId> {
        let number = self.nodes[followed].finalized.map(|(number, _)| number);
        let rivals = self.nodes.iter().enumerate().filter_map(|(id, node)| {
            let head = node.usable()?;
            // Whose head is one of our blocks has no fork, whatever it says of its finalized block.
            let is_ours = chain.has(head.number, head.hash);
            let finalized = node.finalized.filter(|_| id != followed && !is_ours)?;
            let ours = chain.hash_at(finalized.0)?;
            (Some(finalized.0) > number && ours != finalized.1).then_some((finalized.0, id))
        });
        rivals
            .max_by_key(|(number, id)| (*number, Reverse(*id)))
            .map(|(_, id)| id)
    }

    fn part(&mut self, node: NodeId, now: Moment) {
        self.nodes[node].apart_until = Some(now + self.block_time() * APART_BLOCKS);
        self.compare(now);
    }

    /// Whether the node that was left has another block in the place of one of ours.
    fn is_contradicted(&self, now: Moment, chain: &impl Chain) -> bool {
        let left = self.witnesses(now).find(|id| Some(*id) == self.left());
        let head = left.and_then(|id| self.nodes[id].head);
        head.is_some_and(|head| {
            let ours = chain.hash_at(head.number);
            ours.is_some_and(|ours| ours != head.hash)
        })
    }

    /// A witness against the followed node: the one that was left for it, else the best.
    fn witness(&self, now: Moment, is_far: bool) -> Option<NodeId> {
        let keeps_pace = |id: &NodeId| self.nodes[*id].pace.is_kept(self.block_time());
        let witnesses = self.witnesses(now);
        let witnesses = witnesses.filter(|id| !is_far || keeps_pace(id));
        witnesses.max_by_key(|id| (Some(*id) == self.left(), self.rank(*id, now)))
    }

    /// Witnesses that can be followed and move.
    fn witnesses(&self, now: Moment) -> impl Iterator<Item = NodeId> {
        let witnesses = self.trial.iter().flat_map(|trial| &trial.witnesses);
        witnesses.copied().filter(move |id| {
            let node = &self.nodes[*id];
            node.usable().is_some() && !node.is_apart(now) && self.is_moving(node, now)
        })
    }

    fn is_moving(&self, node: &Node, now: Moment) -> bool {
        now.saturating_sub(node.head_since) < self.block_time() * MOVING_BLOCKS
    }
}
