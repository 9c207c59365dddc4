//! Which of two forks is followed.
//!
//! The one whose own finalized block is later and not ours; else the one that is followed, while it
//! moves. Whoever is followed instead of another is on trial: until it has taken us further from
//! our own head, the upstreams that were on our chain are witnesses. If its way leaves our chain below
//! our head, and one of them can be followed and moves, nothing is applied, that witness is
//! followed, and the other does not count as ahead for a while. If its way begins above everything
//! that we hold, a witness has to keep pace besides: its blocks' own time goes on as time does. One
//! that is catching up, or is too slow, is left for who is far ahead. Where an upstream went further
//! from our head, and the one that was left for it soon has another block in the place of one of
//! ours, that one is followed again, and what the other gave is not kept.

use std::cmp::Reverse;

use alloy_primitives::B256;

use super::{Health, Lag, Moment, Record, UpstreamId};
use crate::upstream::Chain;

/// Block times within which an upstream's head has to change, for it to be moving.
const MOVING_BLOCKS: u32 = 3;

/// Block times for which an upstream on another fork does not count as ahead, and for which the
/// witnesses against an upstream that has taken us further are heard.
const COOLDOWN_BLOCKS: u32 = 16;

/// What the followed upstream has to show.
#[derive(Clone, Debug)]
pub(super) struct Probation {
    /// Upstreams that were on our chain when it was chosen.
    witnesses: Vec<UpstreamId>,
    /// The upstream that was left for it.
    left: Option<UpstreamId>,
    /// Since when that one has another block in the place of one of ours.
    contradicted_since: Option<Moment>,
    /// Until when they are heard; `None` until it has taken us further.
    until: Option<Moment>,
}

impl Record {
    /// Whether it is known to be on another fork than we are.
    pub(super) fn is_in_cooldown(&self, now: Moment) -> bool {
        self.cooldown_until.is_some_and(|until| now < until)
    }
}

impl Health {
    /// The way to the followed upstream's head leaves our chain below our head, or takes too long;
    /// `is_far` where it begins above everything that we hold. Whether nothing of it is to be
    /// applied: another upstream is followed then.
    pub fn refuses(&mut self, now: Moment, is_far: bool) -> bool {
        let Some(followed) = self.followed.filter(|_| self.is_on_probation()) else {
            return false;
        };
        let is_refused = self.witness(now, is_far).is_some();
        if is_refused {
            self.part(followed, now);
        } else {
            self.probation = None;
            self.upstreams[followed].cooldown_until = None;
        }
        is_refused
    }

    /// Whether the followed upstream has yet to show that it is on our chain.
    #[must_use]
    pub fn is_on_probation(&self) -> bool {
        let probation = self.probation.as_ref();
        probation.is_some_and(|probation| probation.until.is_none())
    }

    /// The upstream whose word is taken for what is settled: the followed one, once it is known to be
    /// on our chain.
    #[must_use]
    pub fn settler(&self, chain: &impl Chain) -> Option<UpstreamId> {
        let is_ours = |upstream: &UpstreamId| {
            let head = self.upstreams[*upstream].head;
            head.is_some_and(|head| chain.has(head.number, head.hash))
        };
        self.followed
            .filter(|upstream| !self.is_on_probation() || is_ours(upstream))
    }

    /// The trial of an upstream that is followed from now on.
    pub(super) fn probation(
        &self,
        from: Option<UpstreamId>,
        to: UpstreamId,
        chain: &impl Chain,
    ) -> Probation {
        let is_ours = |id: UpstreamId| {
            let head = self.upstreams[id].usable();
            head.is_some_and(|head| {
                chain.has(head.number, head.hash) || head.parent_hash == chain.head().1
            })
        };
        let ids = (0..self.upstreams.len()).filter(|id| *id != to);
        Probation {
            witnesses: ids.filter(|id| Some(*id) == from || is_ours(*id)).collect(),
            left: from,
            contradicted_since: None,
            until: None,
        }
    }

    /// The upstream that was left for the followed one, while that is tried.
    pub(super) fn left(&self) -> Option<UpstreamId> {
        self.probation.as_ref()?.left
    }

    /// The followed upstream has taken us further.
    pub(super) fn joined(&mut self, upstream: UpstreamId, now: Moment) {
        let until = now + self.block_time() * COOLDOWN_BLOCKS;
        self.upstreams[upstream].cooldown_until = None;
        if let Some(probation) = &mut self.probation {
            probation.until.get_or_insert(until);
        }
    }

    /// Finds out who is on another fork, and who is no longer.
    pub(super) fn look_at_forks(&mut self, now: Moment, chain: &impl Chain) {
        let head = chain.head().1;
        let is_stuck = self.followed.is_some_and(|id| {
            let upstream = &self.upstreams[id];
            upstream.usable().is_some() && !self.is_moving(upstream, now)
        });
        let is_disowned = self.lag == Lag::Ours;
        for upstream in &mut self.upstreams {
            let has_ours = |of: B256, parent: B256| !is_disowned && (of == head || parent == head);
            let named = upstream.head.as_ref();
            if is_stuck || named.is_some_and(|named| has_ours(named.hash, named.parent_hash)) {
                upstream.cooldown_until = None;
            }
        }
        self.compare(now);
        self.hear_contradiction(now, chain);
    }

    /// Hears the upstream that was left, once the followed one has taken us further. Who is about to
    /// come after us, through a reorg or not, does so within a block time.
    fn hear_contradiction(&mut self, now: Moment, chain: &impl Chain) {
        let is_contradicted = self.is_contradicted(now, chain);
        let block_time = self.block_time();
        let Some(probation) = &mut self.probation else {
            return;
        };
        if probation.until.is_some_and(|until| until <= now) {
            self.probation = None;
        } else if !is_contradicted || probation.until.is_none() {
            probation.contradicted_since = None;
        } else if now.saturating_sub(*probation.contradicted_since.get_or_insert(now)) >= block_time
            && let Some(followed) = self.followed
        {
            self.part(followed, now);
        }
    }

    /// The upstream to go back to from one that is on another fork.
    pub(super) fn better_fork(&self, now: Moment) -> Option<UpstreamId> {
        let followed = self.followed?;
        self.witness(now, false)
            .filter(|_| self.upstreams[followed].is_in_cooldown(now))
    }

    /// An upstream that has finalized a later block than the followed one, which is not ours.
    pub(super) fn justified_rival(
        &self,
        followed: UpstreamId,
        chain: &impl Chain,
    ) -> Option<UpstreamId> {
        let number = self.upstreams[followed].finalized.map(|(number, _)| number);
        let rivals = self
            .upstreams
            .iter()
            .enumerate()
            .filter_map(|(id, upstream)| {
                let head = upstream.usable()?;
                // Whose head is one of our blocks has no fork, whatever it says of its finalized block.
                let is_ours = chain.has(head.number, head.hash);
                let finalized = upstream.finalized.filter(|_| id != followed && !is_ours)?;
                let ours = chain.hash_at(finalized.0)?;
                (Some(finalized.0) > number && ours != finalized.1).then_some((finalized.0, id))
            });
        rivals
            .max_by_key(|(number, id)| (*number, Reverse(*id)))
            .map(|(_, id)| id)
    }

    fn part(&mut self, upstream: UpstreamId, now: Moment) {
        self.upstreams[upstream].cooldown_until = Some(now + self.block_time() * COOLDOWN_BLOCKS);
        self.compare(now);
    }

    /// Whether the upstream that was left has another block in the place of one of ours.
    fn is_contradicted(&self, now: Moment, chain: &impl Chain) -> bool {
        let left = self.witnesses(now).find(|id| Some(*id) == self.left());
        let head = left.and_then(|id| self.upstreams[id].head);
        head.is_some_and(|head| {
            let ours = chain.hash_at(head.number);
            ours.is_some_and(|ours| ours != head.hash)
        })
    }

    /// A witness against the followed upstream: the one that was left for it, else the best.
    fn witness(&self, now: Moment, is_far: bool) -> Option<UpstreamId> {
        let keeps_pace = |id: &UpstreamId| self.upstreams[*id].head_pace.is_kept(self.block_time());
        let witnesses = self.witnesses(now);
        let witnesses = witnesses.filter(|id| !is_far || keeps_pace(id));
        witnesses.max_by_key(|id| (Some(*id) == self.left(), self.rank(*id, now)))
    }

    /// Witnesses that can be followed and move.
    fn witnesses(&self, now: Moment) -> impl Iterator<Item = UpstreamId> {
        let witnesses = self
            .probation
            .iter()
            .flat_map(|probation| &probation.witnesses);
        witnesses.copied().filter(move |id| {
            let upstream = &self.upstreams[*id];
            upstream.usable().is_some()
                && !upstream.is_in_cooldown(now)
                && self.is_moving(upstream, now)
        })
    }

    fn is_moving(&self, upstream: &Record, now: Moment) -> bool {
        now.saturating_sub(upstream.head_since) < self.block_time() * MOVING_BLOCKS
    }
}
