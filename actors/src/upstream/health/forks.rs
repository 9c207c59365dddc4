//! Which of two forks is followed.
//!
//! **Probation.** A newly followed upstream may lead away from the served chain. So it is on
//! probation until it has advanced the head. The upstreams that were on the served chain when it
//! was chosen are its *witnesses*.
//!
//! - Its sync path leaves the served chain below the head, or takes too long: if a witness can be
//!   followed and keeps naming new heads, the path is refused and no block of it is applied. The
//!   witness is followed instead, and the refused upstream is in *cooldown*: for a while it does
//!   not count as ahead.
//! - Its sync path begins above every held block, so that nothing shows where it leaves the chain:
//!   the same, but the witness must also produce heads in real time. An upstream that is catching
//!   up or too slow is no reason to refuse one that is far ahead.
//! - It has advanced the head, and soon after its *predecessor* names a different block at the
//!   height of a served one: the predecessor is followed again, and replaces those blocks.
//!
//! **Finality.** Without a probation, an upstream is followed at once if it has finalized a later
//! block than the followed one, and that block is not on the served chain.
//!
//! Agreement among upstreams is to replace claims of finality and witnesses.

use std::cmp::Reverse;

use alloy_primitives::B256;

use super::{Health, Lag, Moment, Record, UpstreamId, probation::Probation};
use crate::upstream::chain::Chain;

/// Block times within which an upstream's head has to change for the upstream to count as moving.
const MOVING_BLOCKS: u32 = 3;

/// Length in block times of a cooldown, and of the time in which the predecessor may contradict an
/// upstream that has advanced the head.
const COOLDOWN_BLOCKS: u32 = 16;

impl Health {
    /// Decides on a sync path that leaves the served chain below its head, or takes too long;
    /// `is_far` if it begins above every held block. If the path is refused, none of it may be
    /// applied, and [`Self::choose`] then follows another upstream.
    pub(crate) fn refuses_path(&mut self, now: Moment, is_far: bool) -> bool {
        let Some(followed) = self.followed.filter(|_| self.is_on_probation()) else {
            return false;
        };
        let is_refused = self.best_witness(now, is_far).is_some();
        if is_refused {
            self.start_cooldown(followed, now);
        } else {
            self.probation = None;
            self.upstreams[followed].cooldown_until = None;
        }
        is_refused
    }

    /// Whether the followed upstream is on probation and has not advanced the head yet.
    pub(crate) fn is_on_probation(&self) -> bool {
        let probation = self.probation.as_ref();
        probation.is_some_and(|probation| probation.until.is_none())
    }

    /// The upstream whose safe and finalized blocks are used: the followed one, once it is known to
    /// be on the served chain.
    pub(crate) fn settled_source(&self, chain: &impl Chain) -> Option<UpstreamId> {
        let is_served = |upstream: &UpstreamId| {
            let head = self.upstreams[*upstream].head;
            head.is_some_and(|head| chain.has(head.number, head.hash))
        };
        self.followed
            .filter(|upstream| !self.is_on_probation() || is_served(upstream))
    }

    /// The probation of an upstream that is about to be followed.
    pub(super) fn new_probation(
        &self,
        from: Option<UpstreamId>,
        to: UpstreamId,
        chain: &impl Chain,
    ) -> Probation {
        let is_on_chain = |id: UpstreamId| {
            let head = self.upstreams[id].usable_head();
            head.is_some_and(|head| {
                chain.has(head.number, head.hash) || head.parent_hash == chain.head().1
            })
        };
        let ids = (0..self.upstreams.len()).filter(|id| *id != to);
        Probation {
            witnesses: ids
                .filter(|id| Some(*id) == from || is_on_chain(*id))
                .collect(),
            predecessor: from,
            contradicted_since: None,
            until: None,
        }
    }

    /// The upstream that was followed before the one on probation.
    pub(super) fn predecessor(&self) -> Option<UpstreamId> {
        self.probation.as_ref()?.predecessor
    }

    /// Records that the followed upstream has advanced the head.
    pub(super) fn head_advanced(&mut self, upstream: UpstreamId, now: Moment) {
        let until = now + self.block_time() * COOLDOWN_BLOCKS;
        self.upstreams[upstream].cooldown_until = None;
        if let Some(probation) = &mut self.probation {
            probation.until.get_or_insert(until);
        }
    }

    /// Ends cooldowns that have lost their reason, and checks whether the predecessor contradicts.
    pub(super) fn update_forks(&mut self, now: Moment, chain: &impl Chain) {
        let head = chain.head().1;
        let is_stuck = self.followed.is_some_and(|id| {
            let upstream = &self.upstreams[id];
            upstream.usable_head().is_some() && !self.is_moving(upstream, now)
        });
        let is_disowned = self.lag == Lag::Served;
        for upstream in &mut self.upstreams {
            let is_on_chain =
                |hash: B256, parent: B256| !is_disowned && (hash == head || parent == head);
            let named = upstream.head.as_ref();
            if is_stuck || named.is_some_and(|named| is_on_chain(named.hash, named.parent_hash)) {
                upstream.cooldown_until = None;
            }
        }
        self.update_lagging(now);
        self.check_predecessor(now, chain);
    }

    /// Starts the cooldown of the followed upstream if its predecessor has contradicted it for a
    /// block time. A predecessor that was merely late reaches the served head within that time.
    fn check_predecessor(&mut self, now: Moment, chain: &impl Chain) {
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
            self.start_cooldown(followed, now);
        }
    }

    /// The witness to follow instead of an upstream that failed its probation.
    pub(super) fn witness_to_follow(&self, now: Moment) -> Option<UpstreamId> {
        let followed = self.followed?;
        self.best_witness(now, false)
            .filter(|_| self.upstreams[followed].is_in_cooldown(now))
    }

    /// The upstream with the highest finalized block that is later than the followed upstream's and
    /// not on the served chain.
    pub(super) fn later_finalized(
        &self,
        followed: UpstreamId,
        chain: &impl Chain,
    ) -> Option<UpstreamId> {
        let number = self.upstreams[followed].finalized.map(|(number, _)| number);
        let upstreams = self.upstreams.iter().enumerate();
        let rivals = upstreams.filter_map(|(id, upstream)| {
            let head = upstream.usable_head()?;
            // An upstream whose head is served has no fork, whatever it calls finalized.
            let is_served = chain.has(head.number, head.hash);
            let finalized = upstream
                .finalized
                .filter(|_| id != followed && !is_served)?;
            let served = chain.hash_at(finalized.0)?;
            (Some(finalized.0) > number && served != finalized.1).then_some((finalized.0, id))
        });
        rivals
            .max_by_key(|(number, id)| (*number, Reverse(*id)))
            .map(|(_, id)| id)
    }

    fn start_cooldown(&mut self, upstream: UpstreamId, now: Moment) {
        self.upstreams[upstream].cooldown_until = Some(now + self.block_time() * COOLDOWN_BLOCKS);
        self.update_lagging(now);
    }

    /// Whether the predecessor names a different block at the height of a served one.
    fn is_contradicted(&self, now: Moment, chain: &impl Chain) -> bool {
        let predecessor = self
            .moving_witnesses(now)
            .find(|id| Some(*id) == self.predecessor());
        let head = predecessor.and_then(|id| self.upstreams[id].head);
        head.is_some_and(|head| {
            let served = chain.hash_at(head.number);
            served.is_some_and(|served| served != head.hash)
        })
    }

    /// A witness against the followed upstream: its predecessor, else the best of the others.
    fn best_witness(&self, now: Moment, is_far: bool) -> Option<UpstreamId> {
        let is_real_time =
            |id: &UpstreamId| self.upstreams[*id].pace.is_real_time(self.block_time());
        let witnesses = self.moving_witnesses(now);
        let witnesses = witnesses.filter(|id| !is_far || is_real_time(id));
        witnesses.max_by_key(|id| (Some(*id) == self.predecessor(), self.rank(*id, now)))
    }

    /// Witnesses that can be followed and are moving.
    fn moving_witnesses(&self, now: Moment) -> impl Iterator<Item = UpstreamId> {
        let witnesses = self.probation.iter();
        let witnesses = witnesses.flat_map(|probation| &probation.witnesses);
        witnesses.copied().filter(move |id| {
            let upstream = &self.upstreams[*id];
            upstream.usable_head().is_some()
                && !upstream.is_in_cooldown(now)
                && self.is_moving(upstream, now)
        })
    }

    fn is_moving(&self, upstream: &Record, now: Moment) -> bool {
        now.saturating_sub(upstream.head_since) < self.block_time() * MOVING_BLOCKS
    }
}
