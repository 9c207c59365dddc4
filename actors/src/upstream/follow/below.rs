//! What is held below the head that the window began with: the window's other blocks, and the
//! genesis.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::{block::Block, window::WINDOW_BLOCKS};

use super::{
    Event, FetchError, Follower, HeadSink, Peer, View,
    work::{self, Purpose},
};
use crate::upstream::{
    Chain,
    health::{Moment, NodeId},
    plan::{Ask, Backfill},
};

/// Block times after which a node that does not have an old block is asked for it again, at most.
const FORGETFUL_BLOCKS: u32 = 8;

/// Shortest and longest wait before a genesis that was not given is asked for again.
const GENESIS_WAIT_MIN: Duration = Duration::from_secs(1);
const GENESIS_WAIT_MAX: Duration = Duration::from_secs(600);

/// The blocks below the oldest.
pub(super) struct Filling {
    pub(super) blocks: Backfill<Arc<Block>>,
    /// Number of the oldest block that is held.
    oldest: u64,
    /// Nothing is asked for before: no node has it.
    pub(super) hold_until: Moment,
    /// Times that a node did not have a block; whoever is next in turn is asked.
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
    given_by: Option<NodeId>,
    /// It is not asked for before.
    pub(super) hold_until: Moment,
    /// Times in a row that it was not given; whoever is next in turn is asked.
    failures: u32,
}

impl<P: Peer, S: HeadSink> Follower<P, S> {
    /// Asks for blocks below the oldest, up to `width` at the same time.
    pub(super) fn ask_below(&mut self, view: &S::View, width: usize) {
        let now = self.now();
        let Some(followed) = self.health.followed() else {
            return;
        };
        if self.is_genesis_wanted(view, now) {
            self.genesis.is_asked = true;
            let node = self.in_turn(followed, self.genesis.failures as usize);
            let peer = self.nodes[node].peer.clone();
            self.questions.spawn(work::fetch_genesis(node, peer));
        }
        let filling = self.filling(view);
        if let Some(filling) = filling.filter(|filling| filling.hold_until <= now) {
            let (turn, asks) = (filling.turn, filling.blocks.ask(width));
            let node = self.in_turn(followed, turn);
            for ask in asks {
                self.ask(node, ask, Purpose::Filling);
            }
        }
    }

    /// Who is asked for what is old: the followed node, and the others after it if it does not have
    /// that.
    fn in_turn(&self, followed: NodeId, turn: usize) -> NodeId {
        let node = (followed + turn) % self.nodes.len();
        let may_be_asked = self.nodes[node].is_known && self.health.may_ask(node, self.now());
        if may_be_asked { node } else { followed }
    }

    /// The genesis that a node has to be of. One that another node gave is that node's word, and no
    /// reason to do without this one.
    pub(super) fn genesis_for(&self, node: NodeId) -> Option<B256> {
        let is_of_use = self.genesis.given_by.is_none_or(|giver| giver == node);
        let view = self.sink.view().filter(|_| is_of_use);
        view.and_then(|view| view.genesis())
    }

    /// A window that is not full reaches the genesis in its turn.
    fn is_genesis_wanted(&self, view: &S::View, now: Moment) -> bool {
        let Genesis {
            is_asked,
            hold_until,
            ..
        } = self.genesis;
        let is_below = view.head().0 >= WINDOW_BLOCKS as u64 && view.oldest() > 0;
        is_below && view.genesis().is_none() && !is_asked && hold_until <= now
    }

    /// What is missing below the oldest block, whatever has made it the oldest; `None` where
    /// nothing is.
    fn filling(&mut self, view: &S::View) -> Option<&mut Filling> {
        let (oldest, (head, _)) = (view.oldest(), view.head());
        // What was gathered goes under another block.
        self.filling.take_if(|filling| filling.oldest != oldest);
        let filling = self.filling.get_or_insert_with(|| Filling {
            blocks: Backfill::below(oldest, view.below(), head),
            oldest,
            hold_until: Duration::ZERO,
            turn: 0,
            missing: 0,
        });
        filling.blocks.head_is(head);
        self.filling
            .take_if(|filling| filling.blocks.missing() == 0);
        self.filling.as_mut()
    }

    /// A node does not have a block of the window: it may have forgotten it, and be as good as any
    /// for new ones.
    pub(super) fn missing_below(&mut self, node: NodeId, ask: Ask) {
        if self
            .filling
            .as_ref()
            .is_some_and(|filling| filling.missing == 0)
        {
            let (node, number) = (self.nodes[node].peer.name(), ask.number());
            tracing::warn!(node, number, "the node does not have a block of the window");
        }
        self.waits_below();
    }

    /// A block of the window failed a check, and nobody else has it: new heads do not wait for old
    /// blocks.
    pub(super) fn bad_below(
        &mut self,
        node: NodeId,
        ask: Ask,
        reason: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        let (name, number) = (self.nodes[node].peer.name(), ask.number());
        tracing::warn!(node = name, reason, "block {number} of the window: {why}");
        self.counts(node, reason);
        self.waits_below();
    }

    /// Tells what a node did wrong that is not left for it.
    fn counts(&mut self, node: NodeId, reason: &'static str) {
        let (reason, wait) = (Some(reason), Duration::ZERO);
        (self.tell)(Event::Failed { node, reason, wait });
    }

    /// Another node is asked, if there is one; all of them again after a wait that doubles.
    fn waits_below(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let Some(filling) = &mut self.filling else {
            return;
        };
        let rounds = filling.missing / self.nodes.len() as u32;
        filling.missing = filling.missing.saturating_add(1);
        filling.turn = filling.turn.wrapping_add(1);
        if filling.turn.is_multiple_of(self.nodes.len()) {
            let wait = block_time / 4 * (1 << rounds.min(8));
            filling.hold_until = now + wait.min(block_time * FORGETFUL_BLOCKS);
        }
    }

    /// Takes in what a node gave for the genesis. It can be followed without: not every chain
    /// hashes its first block as it does the others, so that a false one is counted, and the node
    /// is not left for it.
    pub(super) fn fetched_genesis(&mut self, node: NodeId, block: Result<Arc<Block>, FetchError>) {
        self.genesis.is_asked = false;
        let error = match block {
            Ok(block) => {
                self.genesis.found = Some(block);
                self.genesis.given_by = Some(node);
                return;
            }
            Err(error) => error,
        };
        let wait = GENESIS_WAIT_MIN * (1 << self.genesis.failures.min(16));
        let wait = wait.min(GENESIS_WAIT_MAX);
        self.genesis.failures = self.genesis.failures.saturating_add(1);
        self.genesis.hold_until = self.now() + wait;
        let name = self.nodes[node].peer.name();
        tracing::warn!(node = name, ?wait, "the genesis was not given: {error}");
        if let FetchError::BadBlock { reason, .. } = error {
            self.counts(node, reason);
        }
    }

    /// Hands over what is there.
    pub(super) async fn fill(&mut self) -> Result<(), S::Error> {
        if let Some(block) = self.genesis.found.take() {
            self.sink.keep_genesis(block).await?;
        }
        while let Some(view) = self.sink.view() {
            let Some(filling) = self.filling(&view) else {
                break;
            };
            let Some(block) = filling.blocks.take() else {
                break;
            };
            (filling.oldest, filling.missing) = (block.number(), 0);
            let missing = filling.blocks.missing();
            (self.tell)(Event::Missing(missing));
            self.sink.extend_below(block).await?;
            self.learn_block_time();
        }
        Ok(())
    }

    /// The chain's pace, by the headers that are held.
    pub(super) fn learn_block_time(&mut self) {
        if let Some(view) = self.sink.view() {
            let [oldest, head] = view.span();
            self.health.learn_block_time(oldest, head);
        }
    }
}
