//! What one upstream has stated about its chain.

use std::{collections::VecDeque, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;

use super::links::Point;
use crate::upstream::{client::HeadClaim, health::Moment};

/// Blocks that are remembered, from the head down: upstreams whose heads differ by less need not be
/// asked where their chains meet.
const CHAIN_MAX: usize = 16;

/// Other statements that are remembered: one for each trusted block, and as many again.
const UNLINKED_MAX: usize = 2 * super::policy::TRUSTED_MAX;

/// The pause after the first answer about a hash. It doubles with each until the head changes.
const ASK_PAUSE_MIN: Duration = Duration::from_millis(25);

/// What one upstream has stated since it last failed. Its memory is bounded, whatever numbers it
/// names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stated {
    /// Number of the head.
    top: u64,
    /// The head, last, and the blocks below it, as the upstream linked them by parent hashes.
    /// Empty: it has no head.
    chain: VecDeque<B256>,
    /// Statements that nothing links to the head. They count for the lifetime of a statement.
    unlinked: Vec<Unlinked>,
    heard_at: Moment,
    head_since: Moment,
    /// Since when each head has been the child of one before.
    linked_since: Moment,
    branch_since: Moment,
    highest: u64,
    settled: SettledBlocks,
    is_syncing: bool,
    /// Answers about hashes since the head changed.
    answers: u32,
    answered_at: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Unlinked {
    point: Point,
    at: Moment,
    is_answer: bool,
}

impl Stated {
    /// Records the head that it named.
    pub(crate) fn head_named(&mut self, now: Moment, claim: &HeadClaim) {
        let head = (claim.number, claim.hash);
        if self.head() != Some(head) {
            self.move_to(now, head, claim.parent_hash);
            self.head_since = now;
            self.highest = self.highest.max(claim.number);
            self.answers = 0;
        }
        self.heard_at = now;
    }

    /// Records the answer to a question for the hash at `number`.
    pub(crate) fn hash_named(&mut self, now: Moment, number: u64, hash: Option<B256>) {
        self.answers = self.answers.saturating_add(1);
        self.answered_at = now;
        let Some(hash) = hash else {
            return;
        };
        // The answer may be older than its head. If its chain has changed, it soon names another.
        if self.in_chain(number).is_some() {
            return;
        }
        let point = (number, hash);
        if self.is_unlinked_contradicted(point) {
            self.unlinked.clear();
        }
        self.remember(point, now, true);
    }

    /// Records what it calls safe and finalized.
    pub(crate) const fn settled_named(&mut self, settled: SettledBlocks) {
        self.settled = settled;
    }

    /// Records whether it is syncing.
    pub(crate) const fn syncing_reported(&mut self, is_syncing: bool) {
        self.is_syncing = is_syncing;
    }

    /// Forgets all statements, except that it is syncing: that ends once it says so.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            is_syncing: self.is_syncing,
            answers: self.answers,
            answered_at: self.answered_at,
            ..Self::default()
        };
    }

    /// Whether it has stated nothing since its last failure, and was not syncing before.
    pub(super) fn is_mute(&self) -> bool {
        self.chain.is_empty() && !self.is_syncing
    }

    /// Number and hash of its head.
    pub(crate) fn head(&self) -> Option<Point> {
        self.chain.back().map(|hash| (self.top, *hash))
    }

    /// The lowest block that its statements link to its head.
    pub(super) fn lowest(&self) -> Option<Point> {
        let above = self.chain.len().checked_sub(1)? as u64;
        Some((self.top.checked_sub(above)?, *self.chain.front()?))
    }

    /// The hash at this number, if its statements link it to its head.
    pub(super) fn in_chain(&self, number: u64) -> Option<B256> {
        let below = usize::try_from(self.top.checked_sub(number)?).ok()?;
        let last = self.chain.len().checked_sub(1)?;
        self.chain.get(last.checked_sub(below)?).copied()
    }

    /// The statements that nothing links to its head, and whose lifetime has not ended.
    pub(super) fn unlinked(&self, now: Moment, lifetime: Duration) -> impl Iterator<Item = Point> {
        let unlinked = self.unlinked.iter();
        unlinked
            .filter(move |unlinked| now.saturating_sub(unlinked.at) < lifetime)
            .map(|unlinked| unlinked.point)
    }

    /// Its answers about the chain that its head belongs to. What it stated before it named a head
    /// that nothing links to the one before may be about another chain.
    pub(super) fn answers(&self, now: Moment, lifetime: Duration) -> impl Iterator<Item = Point> {
        let is_current =
            |unlinked: &&Unlinked| unlinked.is_answer && unlinked.at >= self.linked_since;
        let is_alive = move |unlinked: &&Unlinked| now.saturating_sub(unlinked.at) < lifetime;
        let answers = self.unlinked.iter().filter(is_current).filter(is_alive);
        answers.map(|unlinked| unlinked.point)
    }

    /// Whether it is counted: it has a head, named it lately, and is not syncing.
    pub(super) fn is_counted(&self, now: Moment, lifetime: Duration) -> bool {
        let is_silent = now.saturating_sub(self.heard_at) >= lifetime;
        !self.chain.is_empty() && !self.is_syncing && !is_silent
    }

    /// For how long it has named the same head.
    pub(super) const fn head_age(&self, now: Moment) -> Duration {
        now.saturating_sub(self.head_since)
    }

    /// For how long its heads have not gone back or to another branch.
    pub(super) const fn branch_age(&self, now: Moment) -> Duration {
        now.saturating_sub(self.branch_since)
    }

    /// Whether its head was higher before.
    pub(super) fn went_back(&self) -> bool {
        self.head().is_some_and(|(number, _)| number < self.highest)
    }

    /// What it calls safe and finalized.
    pub(super) const fn settled(&self) -> SettledBlocks {
        self.settled
    }

    /// Whether it may be asked for a hash. The pauses bound the calls that other upstreams can
    /// cause by what they state.
    pub(super) fn may_be_asked(&self, now: Moment, block_time: Duration) -> bool {
        let doublings = self.answers.saturating_sub(1).min(16);
        let pause = ASK_PAUSE_MIN.saturating_mul(1 << doublings);
        let pause = pause.min((block_time / 4).max(ASK_PAUSE_MIN));
        self.answers == 0 || now.saturating_sub(self.answered_at) >= pause
    }

    fn move_to(&mut self, now: Moment, head: Point, parent_hash: B256) {
        let (number, hash) = head;
        let parent = number.checked_sub(1).map(|below| (below, parent_hash));
        let before = self.head();
        let is_higher = before.is_none_or(|(top, _)| number > top);
        let is_linked = parent.is_some_and(|(below, hash)| self.in_chain(below) == Some(hash));
        let mut is_other = self.is_unlinked_contradicted(head);
        if is_linked {
            let above = self.top.saturating_sub(number.saturating_sub(1));
            let kept = self.chain.len().saturating_sub(above as usize);
            self.chain.truncate(kept);
        } else {
            is_other |= self.contradicts(head);
            is_other |= parent.is_some_and(|parent| self.contradicts(parent));
            if is_higher && !is_other {
                self.unlink_chain();
            }
            self.linked_since = now;
            self.chain.clear();
            self.chain.extend(parent.map(|(_, hash)| hash));
        }
        self.chain.push_back(hash);
        self.top = number;
        if self.chain.len() > CHAIN_MAX {
            self.chain.pop_front();
        }
        if is_other {
            self.unlinked.clear();
        } else if !is_higher {
            self.unlinked.retain(|unlinked| unlinked.point.0 <= number);
        }
        if is_other || !is_higher || before.is_none() {
            self.branch_since = now;
        }
    }

    /// Keeps the head and its parent as statements of their own, because the next head is too far
    /// above to show that it descends from them.
    fn unlink_chain(&mut self) {
        let at = self.heard_at;
        for back in 0..2 {
            let number = self.top.checked_sub(back);
            let point = number.and_then(|number| Some((number, self.in_chain(number)?)));
            if let Some(point) = point {
                self.remember(point, at, false);
            }
        }
    }

    fn remember(&mut self, point: Point, at: Moment, is_answer: bool) {
        self.unlinked.retain(|unlinked| unlinked.point.0 != point.0);
        if self.unlinked.len() >= UNLINKED_MAX {
            let entries = self.unlinked.iter().enumerate();
            let oldest = entries.min_by_key(|(_, unlinked)| (unlinked.is_answer, unlinked.at));
            if let Some((index, _)) = oldest {
                self.unlinked.swap_remove(index);
            }
        }
        self.unlinked.push(Unlinked {
            point,
            at,
            is_answer,
        });
    }

    /// Whether it stated another hash at this number.
    fn contradicts(&self, point: Point) -> bool {
        let linked = self.in_chain(point.0);
        linked.is_some_and(|hash| hash != point.1) || self.is_unlinked_contradicted(point)
    }

    fn is_unlinked_contradicted(&self, (number, hash): Point) -> bool {
        let mut unlinked = self.unlinked.iter().map(|unlinked| unlinked.point);
        unlinked.any(|(at, stated)| at == number && stated != hash)
    }

    /// How many statements it holds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.chain.len() + self.unlinked.len()
    }

    /// The most statements that it holds.
    #[cfg(test)]
    pub(super) const MAX: usize = CHAIN_MAX + UNLINKED_MAX;
}
