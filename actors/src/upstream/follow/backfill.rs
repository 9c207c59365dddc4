//! The blocks below the one that the window started with: the rest of the window, and the genesis.

use std::{fmt, sync::Arc, time::Duration};

use nearhead_chain::{block::Block, verify::HeaderRefusal, window::WINDOW_BLOCKS};

use super::{
    Event, Follower,
    fetching::{ActiveBackfill, BackfillCall, GenesisFetch},
    interface::{ChangeError, FetchError, HeldChain, HeldWindow, Upstream},
    work::{self, Purpose},
};
use crate::upstream::{
    agree::HeadAuthority,
    chain::Chain,
    health::{CallClass, Fault, Moment, UpstreamId, Verdict},
    plan::{Ask, Backfill, BlockBelow},
};

/// Longest wait, in block times, before upstreams that lack an old block are asked for it again.
const RETRY_BLOCKS_MAX: u32 = 8;

/// Block times for which an upstream that was slow with old blocks is not asked for any.
const SLOW_BLOCKS: u32 = 16;

/// Shortest and longest wait before the genesis is asked for again.
const GENESIS_WAIT_MIN: Duration = Duration::from_secs(1);
const GENESIS_WAIT_MAX: Duration = Duration::from_secs(600);

impl<U: Upstream, W: HeldWindow, A: HeadAuthority> Follower<U, W, A> {
    /// Asks for blocks below the oldest, up to `width` at the same time.
    pub(super) fn ask_below(&mut self, held: &W::Held, width: usize) {
        let now = self.now();
        if self.is_genesis_wanted(held, now)
            && let Some(upstream) = self.in_turn(self.genesis.failures as usize)
        {
            self.genesis.is_asked = true;
            let client = self.upstreams[upstream].client.clone();
            self.calls.spawn(work::fetch_genesis(upstream, client));
        }
        let backfill = self.backfill(held);
        let due = backfill.filter(|backfill| backfill.hold_until <= now);
        if let Some(turn) = due.map(|backfill| backfill.turn)
            && let Some(upstream) = self.in_turn(turn)
        {
            let backfill = self.backfill.as_mut();
            let asks = backfill.map(|backfill| {
                let asks = backfill.blocks.ask(width);
                let call = |ask: &Ask| BackfillCall {
                    upstream,
                    ask: *ask,
                    asked_at: now,
                };
                backfill.calls.extend(asks.iter().map(call));
                asks
            });
            for ask in asks.unwrap_or_default() {
                self.ask(upstream, ask, Purpose::Backfill);
            }
        }
    }

    /// The upstream to ask for an old block: the one that gave the newest head first, then the
    /// others in turn. One that was slow is left out, unless another one has just failed to give
    /// the next block, or all were slow. None has given a head if the window was there before.
    fn in_turn(&self, turn: usize) -> Option<UpstreamId> {
        let first = self.preferred.unwrap_or_default().wrapping_add(turn);
        let count = self.upstreams.len();
        let ids = (0..count).map(|next| first.wrapping_add(next) % count);
        let mut ids = ids.filter(|id| self.may_backfill(*id));
        let backfill = self.backfill.as_ref();
        match backfill.is_some_and(|backfill| backfill.failures > 0) {
            true => ids.next(),
            false => ids.clone().find(|id| !self.is_slow(*id)).or(ids.next()),
        }
    }

    /// Whether an upstream may be asked for an old block.
    fn may_backfill(&self, id: UpstreamId) -> bool {
        self.may_fetch(id) && !self.quarantined.has(id)
    }

    fn is_slow(&self, id: UpstreamId) -> bool {
        self.upstreams[id].slow_until > self.now()
    }

    /// Asks another upstream for the old blocks of one that is slow with one of them. Otherwise it
    /// could keep the window from being filled, because a call's timeout may be many block times.
    pub(super) fn leave_slow_backfill(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let is_late = |call: &&BackfillCall| {
            let is_other = |id: &UpstreamId| {
                *id != call.upstream && self.may_backfill(*id) && !self.is_slow(*id)
            };
            let others = (0..self.upstreams.len()).filter(is_other);
            let longest = self.health.longest_for_path(others, 1, now);
            longest.is_some_and(|longest| now.saturating_sub(call.asked_at) >= longest)
        };
        let backfill = self.backfill.as_ref();
        let Some(call) = backfill.and_then(|backfill| backfill.calls.iter().find(is_late)) else {
            return;
        };
        let (slow, number) = (call.upstream, call.ask.number());
        self.upstreams[slow].slow_until = now + block_time * SLOW_BLOCKS;
        let name = self.upstreams[slow].client.name();
        tracing::warn!(
            node = name,
            number,
            "the node is slow with a block of the window: another one is asked"
        );
        self.count_fault(slow, Fault::Timeout.label());
        if let Some(backfill) = &mut self.backfill {
            backfill.give_up(slow);
        }
        self.retry_below();
    }

    /// Whether to fetch the genesis. Backfill reaches it by itself while the chain is shorter than
    /// the window.
    fn is_genesis_wanted(&self, held: &W::Held, now: Moment) -> bool {
        let GenesisFetch {
            is_asked,
            hold_until,
            ..
        } = self.genesis;
        let is_below = held.head().0 >= WINDOW_BLOCKS as u64 && held.oldest() > 0;
        // Nothing else shows that a block 0 is the chain's.
        let is_known = self.config.genesis.is_some();
        is_known && is_below && held.genesis().is_none() && !is_asked && hold_until <= now
    }

    /// The backfill below the present oldest block; `None` if nothing is missing.
    fn backfill(&mut self, held: &W::Held) -> Option<&mut ActiveBackfill> {
        if held.is_filled() {
            self.backfill = None;
            return None;
        }
        let (oldest, (head, _)) = (held.oldest(), held.head());
        let with_parents = self.window.needs_parent();
        // The lower end of the window has changed: the blocks fetched so far do not fit.
        self.backfill.take_if(|backfill| backfill.oldest != oldest);
        let backfill = self.backfill.get_or_insert_with(|| ActiveBackfill {
            blocks: Backfill::below(oldest, held.below(), head, with_parents),
            calls: Vec::new(),
            oldest,
            hold_until: Duration::ZERO,
            turn: 0,
            failures: 0,
        });
        backfill.blocks.set_head(head);
        self.backfill
            .take_if(|backfill| backfill.blocks.remaining() == 0);
        self.backfill.as_mut()
    }

    /// Handles the answer that an upstream does not have a block of the window. It may have pruned
    /// the block, and can still be used for new ones.
    pub(super) fn missing_below(&mut self, upstream: UpstreamId, ask: Ask) {
        if self
            .backfill
            .as_ref()
            .is_some_and(|backfill| backfill.failures == 0)
        {
            let (name, number) = (self.upstreams[upstream].client.name(), ask.number());
            tracing::warn!(
                node = name,
                number,
                "the node does not have a block of the window"
            );
        }
        self.retry_below();
    }

    /// Handles a block of the window that failed a check while no other upstream can be asked.
    /// New heads do not wait for old blocks, so the upstream is not backed off.
    pub(super) fn bad_below(
        &mut self,
        upstream: UpstreamId,
        number: u64,
        reason: &'static str,
        error: &dyn fmt::Display,
    ) {
        let name = self.upstreams[upstream].client.name();
        tracing::warn!(node = name, reason, "block {number} of the window: {error}");
        self.count_fault(upstream, reason);
        self.retry_below();
    }

    /// Handles a block that the window refused. Like one that failed a check, it does not keep the
    /// only upstream from being asked for new heads.
    fn refused_below(
        &mut self,
        held: &W::Held,
        upstream: UpstreamId,
        number: u64,
        refusal: &ChangeError<W::Error>,
    ) {
        if let Some(backfill) = &mut self.backfill {
            // It counts as fetched there.
            let (oldest, below, (head, _)) = (held.oldest(), held.below(), held.head());
            backfill.blocks = Backfill::below(oldest, below, head, self.window.needs_parent());
            backfill.calls.clear();
        }
        if let ChangeError::Header { number, refusal } = refusal
            && matches!(refusal, HeaderRefusal::UnknownFork { .. })
        {
            self.header_refused(upstream, *number, refusal);
            return self.retry_below();
        }
        // Another upstream has the same headers: a quorum vouches for a block that fixes both.
        let is_header = matches!(refusal, ChangeError::Header { .. });
        if self.health.has_other(upstream) && !is_header {
            let verdict = Verdict::Fault(Fault::Unfit);
            self.failed(upstream, CallClass::Blocks, verdict, refusal);
            self.retry_below();
        } else {
            self.bad_below(upstream, number, refusal.reason(), refusal);
        }
    }

    /// Reports a fault for which the upstream is not backed off.
    fn count_fault(&mut self, upstream: UpstreamId, reason: &'static str) {
        (self.on_event)(Event::Failed {
            upstream,
            class: CallClass::Blocks,
            reason: Some(reason),
            wait: Duration::ZERO,
        });
    }

    /// Moves on to the next upstream. After each round of all upstreams, waits twice as long.
    fn retry_below(&mut self) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let Some(backfill) = &mut self.backfill else {
            return;
        };
        let rounds = backfill.failures / self.upstreams.len() as u32;
        backfill.failures = backfill.failures.saturating_add(1);
        backfill.turn = backfill.turn.wrapping_add(1);
        if backfill.turn.is_multiple_of(self.upstreams.len()) {
            let wait = block_time / 4 * (1 << rounds.min(8));
            backfill.hold_until = now + wait.min(block_time * RETRY_BLOCKS_MAX);
        }
    }

    /// Handles an answer for the genesis. A false genesis is counted, but the upstream is still
    /// asked: some chains hash their genesis in a different way.
    pub(super) fn genesis_fetched(
        &mut self,
        upstream: UpstreamId,
        block: Result<Arc<Block>, FetchError>,
    ) {
        self.genesis.is_asked = false;
        let error = match block {
            Ok(block)
                if self
                    .config
                    .genesis
                    .is_none_or(|genesis| genesis == block.hash) =>
            {
                self.genesis.block = Some(block);
                self.genesis.given_by = Some(upstream);
                return;
            }
            Ok(block) => {
                let error = format!("it is {}", block.hash);
                let reason = Some(Fault::WrongChain.label());
                return self.genesis_failed(upstream, reason, &error);
            }
            Err(error) => error,
        };
        let reason = match &error {
            FetchError::BadBlock { reason, .. } => Some(*reason),
            FetchError::Call(_) => None,
        };
        self.genesis_failed(upstream, reason, &error);
    }

    /// Has the genesis asked for again later. A fault is counted if there is a reason.
    fn genesis_failed(
        &mut self,
        upstream: UpstreamId,
        reason: Option<&'static str>,
        error: &dyn fmt::Display,
    ) {
        let wait = GENESIS_WAIT_MIN * (1 << self.genesis.failures.min(16));
        let wait = wait.min(GENESIS_WAIT_MAX);
        self.genesis.failures = self.genesis.failures.saturating_add(1);
        self.genesis.hold_until = self.now() + wait;
        let name = self.upstreams[upstream].client.name();
        tracing::warn!(node = name, ?wait, "cannot fetch the genesis: {error}");
        if let Some(reason) = reason {
            self.count_fault(upstream, reason);
        }
    }

    /// Hands the genesis and backfilled blocks to the window.
    pub(super) async fn apply_below(&mut self) -> Result<(), W::Error> {
        if let Some(block) = self.genesis.block.take() {
            match self.window.keep_genesis(block).await {
                Ok(()) => {}
                Err(ChangeError::Gone(error)) => return Err(error),
                Err(refusal) => {
                    if let Some(upstream) = self.genesis.given_by.take() {
                        let reason = Some(refusal.reason());
                        self.genesis_failed(upstream, reason, &refusal);
                    }
                }
            }
        }
        while let Some(held) = self.window.held() {
            let Some(backfill) = self.backfill(&held) else {
                break;
            };
            let Some(BlockBelow { block, parent }) = backfill.blocks.take() else {
                break;
            };
            let (upstream, block) = block;
            let parent = parent.map(|(_, parent)| parent);
            let number = block.number();
            match self.window.extend_below(BlockBelow { block, parent }).await {
                Ok(()) => {}
                Err(ChangeError::Gone(error)) => return Err(error),
                Err(refusal) => {
                    self.refused_below(&held, upstream, number, &refusal);
                    break;
                }
            }
            let is_filled = |held: &W::Held| held.is_filled();
            let is_filled = self.window.held().as_ref().is_some_and(is_filled);
            if let Some(backfill) = &mut self.backfill {
                (backfill.oldest, backfill.failures) = (number, 0);
                let remaining = match is_filled {
                    true => 0,
                    false => backfill.blocks.remaining(),
                };
                (self.on_event)(Event::BackfillRemaining(remaining));
            }
            self.learn_block_time();
        }
        Ok(())
    }

    /// Learns the block time from the headers that are held.
    pub(super) fn learn_block_time(&mut self) {
        if let Some(held) = self.window.held() {
            let [oldest, head] = held.span();
            self.health.learn_block_time(oldest, head);
        }
    }
}
