//! What is held below the head that the window began with: the window's other blocks, and the
//! genesis.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::{block::Block, window::WINDOW_BLOCKS};

use super::{
    Event, FetchError, Follower, HeadSink, HeldChain, Upstream,
    work::{self, Purpose},
};
use crate::upstream::{
    Chain,
    health::{Moment, UpstreamId},
    plan::{Ask, Backfill},
};

/// Block times after which an upstream that does not have an old block is asked for it again, at most.
const FORGETFUL_BLOCKS: u32 = 8;

/// Shortest and longest wait before a genesis that was not given is asked for again.
const GENESIS_WAIT_MIN: Duration = Duration::from_secs(1);
const GENESIS_WAIT_MAX: Duration = Duration::from_secs(600);

/// The blocks below the oldest.
pub(super) struct ActiveBackfill {
    pub(super) blocks: Backfill<Arc<Block>>,
    /// Number of the oldest block that is held.
    oldest: u64,
    /// Nothing is asked for before: no upstream has it.
    pub(super) hold_until: Moment,
    /// Times that an upstream did not have a block; whoever is next in turn is asked.
    turn: usize,
    /// Times in a row.
    missing: u32,
}

/// The way to the genesis, which stays readable below the window.
#[derive(Default)]
pub(super) struct Genesis {
    is_asked: bool,
    found: Option<Arc<Block>>,
    /// Whose word it is; `None`: the window has reached it, or it is not known.
    given_by: Option<UpstreamId>,
    /// It is not asked for before.
    pub(super) hold_until: Moment,
    /// Times in a row that it was not given; whoever is next in turn is asked.
    failures: u32,
}

impl<P: Upstream, S: HeadSink> Follower<P, S> {
    /// Asks for blocks below the oldest, up to `width` at the same time.
    pub(super) fn ask_below(&mut self, held: &S::Held, width: usize) {
        let now = self.now();
        let Some(followed) = self.health.followed() else {
            return;
        };
        if self.is_genesis_wanted(held, now) {
            self.genesis.is_asked = true;
            let upstream = self.in_turn(followed, self.genesis.failures as usize);
            let client = self.upstreams[upstream].client.clone();
            self.questions.spawn(work::fetch_genesis(upstream, client));
        }
        let backfill = self.backfill(held);
        if let Some(backfill) = backfill.filter(|backfill| backfill.hold_until <= now) {
            let (turn, asks) = (backfill.turn, backfill.blocks.ask(width));
            let upstream = self.in_turn(followed, turn);
            for ask in asks {
                self.ask(upstream, ask, Purpose::Backfill);
            }
        }
    }

    /// Who is asked for what is old: the followed upstream, and the others after it if it does not have
    /// that.
    fn in_turn(&self, followed: UpstreamId, turn: usize) -> UpstreamId {
        let upstream = (followed + turn) % self.upstreams.len();
        let may_be_asked =
            self.upstreams[upstream].is_known && self.health.may_ask(upstream, self.now());
        if may_be_asked { upstream } else { followed }
    }

    /// The genesis that an upstream has to be of. One that another upstream gave is that upstream's word, and no
    /// reason to do without this one.
    pub(super) fn genesis_for(&self, upstream: UpstreamId) -> Option<B256> {
        let is_of_use = self.genesis.given_by.is_none_or(|giver| giver == upstream);
        let held = self.sink.held().filter(|_| is_of_use);
        held.and_then(|held| held.genesis())
    }

    /// A window that is not full reaches the genesis in its turn.
    fn is_genesis_wanted(&self, held: &S::Held, now: Moment) -> bool {
        let Genesis {
            is_asked,
            hold_until,
            ..
        } = self.genesis;
        let is_below = held.head().0 >= WINDOW_BLOCKS as u64 && held.oldest() > 0;
        is_below && held.genesis().is_none() && !is_asked && hold_until <= now
    }

    /// What is missing below the oldest block, whatever has made it the oldest; `None` where
    /// nothing is.
    fn backfill(&mut self, held: &S::Held) -> Option<&mut ActiveBackfill> {
        let (oldest, (head, _)) = (held.oldest(), held.head());
        // What was gathered goes under another block.
        self.backfill.take_if(|backfill| backfill.oldest != oldest);
        let backfill = self.backfill.get_or_insert_with(|| ActiveBackfill {
            blocks: Backfill::below(oldest, held.below(), head),
            oldest,
            hold_until: Duration::ZERO,
            turn: 0,
            missing: 0,
        });
        backfill.blocks.head_is(head);
        self.backfill
            .take_if(|backfill| backfill.blocks.missing() == 0);
        self.backfill.as_mut()
    }

    /// An upstream does not have a block of the window: it may have forgotten it, and be as good as any
    /// for new ones.
    pub(super) fn missing_below(&mut self, upstream: UpstreamId, ask: Ask) {
        if self
            .backfill
            .as_ref()
            .is_some_and(|backfill| backfill.missing == 0)
        {
            let (upstream, number) = (self.upstreams[upstream].client.name(), ask.number());
            tracing::warn!(
                node = upstream,
                number,
                "the node does not have a block of the window"
            );
        }
        self.waits_below();
    }

    /// A block of the window failed a check, and nobody else has it: new heads do not wait for old
    /// blocks.
    pub(super) fn bad_below(
        &mut self,
        upstream: UpstreamId,
        ask: Ask,
        reason: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        let (name, number) = (self.upstreams[upstream].client.name(), ask.number());
        tracing::warn!(node = name, reason, "block {number} of the window: {why}");
        self.counts(upstream, reason);
        self.waits_below();
    }

    /// Tells what an upstream did wrong that is not left for it.
    fn counts(&mut self, upstream: UpstreamId, reason: &'static str) {
        let (reason, wait) = (Some(reason), Duration::ZERO);
        (self.tell)(Event::Failed {
            upstream,
            reason,
            wait,
        });
    }

    /// Another upstream is asked, if there is one; all of them again after a wait that doubles.
    fn waits_below(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let Some(backfill) = &mut self.backfill else {
            return;
        };
        let rounds = backfill.missing / self.upstreams.len() as u32;
        backfill.missing = backfill.missing.saturating_add(1);
        backfill.turn = backfill.turn.wrapping_add(1);
        if backfill.turn.is_multiple_of(self.upstreams.len()) {
            let wait = block_time / 4 * (1 << rounds.min(8));
            backfill.hold_until = now + wait.min(block_time * FORGETFUL_BLOCKS);
        }
    }

    /// Takes in what an upstream gave for the genesis. It can be followed without: not every chain
    /// hashes its first block as it does the others, so that a false one is counted, and the upstream
    /// is not left for it.
    pub(super) fn fetched_genesis(
        &mut self,
        upstream: UpstreamId,
        block: Result<Arc<Block>, FetchError>,
    ) {
        self.genesis.is_asked = false;
        let error = match block {
            Ok(block) => {
                self.genesis.found = Some(block);
                self.genesis.given_by = Some(upstream);
                return;
            }
            Err(error) => error,
        };
        let wait = GENESIS_WAIT_MIN * (1 << self.genesis.failures.min(16));
        let wait = wait.min(GENESIS_WAIT_MAX);
        self.genesis.failures = self.genesis.failures.saturating_add(1);
        self.genesis.hold_until = self.now() + wait;
        let name = self.upstreams[upstream].client.name();
        tracing::warn!(node = name, ?wait, "the genesis was not given: {error}");
        if let FetchError::BadBlock { reason, .. } = error {
            self.counts(upstream, reason);
        }
    }

    /// Hands over what is there.
    pub(super) async fn fill(&mut self) -> Result<(), S::Error> {
        if let Some(block) = self.genesis.found.take() {
            self.sink.keep_genesis(block).await?;
        }
        while let Some(held) = self.sink.held() {
            let Some(backfill) = self.backfill(&held) else {
                break;
            };
            let Some(block) = backfill.blocks.take() else {
                break;
            };
            (backfill.oldest, backfill.missing) = (block.number(), 0);
            let missing = backfill.blocks.missing();
            (self.tell)(Event::Missing(missing));
            self.sink.extend_below(block).await?;
            self.learn_block_time();
        }
        Ok(())
    }

    /// The chain's pace, by the headers that are held.
    pub(super) fn learn_block_time(&mut self) {
        if let Some(held) = self.sink.held() {
            let [oldest, head] = held.span();
            self.health.learn_block_time(oldest, head);
        }
    }
}
