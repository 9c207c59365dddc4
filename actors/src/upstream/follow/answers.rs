//! What the follower does with an answer.

use std::sync::Arc;

use alloy_primitives::B256;
use nearhead_chain::window::SettledBlocks;
use tokio::task;

use super::{
    Follower,
    fetching::{Goal, HeadSync, linked},
    interface::{FetchError, FirstBlock, HeldWindow, Upstream},
    work::{self, Answered, CallAnswer, PollAnswer, Purpose, StatedIdentity},
};
use crate::upstream::{
    agree::{HeadAuthority, Said},
    client::{CallError, HeadClaim},
    health::{CallClass, Fault, Moment, UpstreamId, Verdict},
    plan::Ask,
};

/// An upstream is at fault once it has lacked a block that it named this many times in a row.
/// Behind a URL that stands for several backends, one may lack the newest block for a while.
const MISSING_MAX: u32 = 3;

impl<U: Upstream, W: HeldWindow, A: HeadAuthority> Follower<U, W, A> {
    /// Handles one answer, that of this task.
    pub(super) fn handle(&mut self, task: task::Id, answered: Answered<U::Heads>) {
        let Answered { upstream, answer } = answered;
        match answer {
            CallAnswer::Polled(answer) => self.polled(upstream, answer),
            CallAnswer::Subscribed(Ok(heads)) => {
                self.calls.spawn(work::next(upstream, heads));
            }
            CallAnswer::Subscribed(Err(error)) => {
                // Not a fault, since heads are polled as well. An upstream without the method, or
                // with another JSON-RPC error, is not asked again.
                let never = matches!(error, CallError::UnsupportedMethod | CallError::Rpc { .. });
                self.upstreams[upstream].announces = never.then_some(false);
            }
            CallAnswer::Announced(heads, Ok(head)) => {
                // Announcements are ignored until the upstream's chain is known.
                if self.upstreams[upstream].is_identified {
                    self.head_named(upstream, head);
                }
                self.calls.spawn(work::next(upstream, heads));
            }
            CallAnswer::Announced(_, Err(_)) => {
                let upstream = &mut self.upstreams[upstream];
                // Another backend may answer on the next connection.
                (upstream.announces, upstream.is_identified) = (None, false);
            }
            CallAnswer::HashAt { number, hash } => self.hash_answered(upstream, number, hash),
            CallAnswer::Fetched {
                ask,
                purpose,
                block,
            } => {
                let alone = |block| FirstBlock {
                    block,
                    parent: None,
                };
                let is_awaited = self.sync_call_ended(task, block.is_ok());
                self.fetched(upstream, ask, purpose, block.map(alone), is_awaited);
            }
            CallAnswer::FetchedFirst { ask, first } => {
                let identity = first.as_ref().map(|(_, identity)| *identity);
                let checked = identity.map_or(Ok(()), |identity| self.check_identity(identity));
                let is_given = first.is_ok() && checked.is_ok();
                let is_awaited = self.sync_call_ended(task, is_given);
                if let Err(error) = checked {
                    self.sync.take_if(|sync| sync.upstream == upstream);
                    let verdict = Verdict::Fault(Fault::WrongChain);
                    self.failed(upstream, CallClass::Heads, verdict, &error);
                    return;
                }
                let first = first.map(|(first, _)| first);
                self.fetched(upstream, ask, Purpose::First, first, is_awaited);
            }
            CallAnswer::FetchedGenesis(block) => self.genesis_fetched(upstream, block),
        }
    }

    /// Checks that an upstream is on the followed chain; the error says how it differs.
    fn check_identity(&self, identity: StatedIdentity) -> Result<(), String> {
        let StatedIdentity { chain_id, genesis } = identity;
        let expected = self.config.chain_id;
        if chain_id != expected {
            return Err(format!("the chain id is {chain_id}, not {expected}"));
        }
        match (genesis, self.config.genesis) {
            (Some(genesis), Some(expected)) if genesis != expected => {
                Err(format!("the genesis is {genesis}, not {expected}"))
            }
            _ => Ok(()),
        }
    }

    fn polled(&mut self, id: UpstreamId, answer: Result<PollAnswer, CallError>) {
        let now = self.now();
        let answer = answer.map_err(|error| (Verdict::from(&error), error.to_string()));
        let answer = answer.and_then(|answer| match self.check_identity(answer.identity) {
            Ok(()) => Ok(answer),
            Err(error) => Err((Verdict::Fault(Fault::WrongChain), error)),
        });
        match answer {
            Ok(answer) => {
                let upstream = &mut self.upstreams[id];
                (upstream.is_identified, upstream.is_on_chain) = (true, true);
                if let Some(since) = upstream.polled_since {
                    upstream.answered_since = since;
                }
                if let Some(lost_at) = upstream.lost_at.take() {
                    self.ask_again(id, lost_at);
                }
                if let Some(settled) = answer.settled {
                    let point = |claim: HeadClaim| (claim.number, claim.hash);
                    let claimed = SettledBlocks {
                        safe: settled.safe.map(point),
                        finalized: settled.finalized.map(point),
                    };
                    if let Some(is_syncing) = settled.is_syncing {
                        self.health.syncing_reported(id, now, is_syncing);
                        self.authority.heard(now, id, Said::Syncing(is_syncing));
                    }
                    self.authority.heard(now, id, Said::Settled(claimed));
                }
                self.head_named(id, answer.head);
            }
            Err((verdict, error)) => self.failed(id, CallClass::Heads, verdict, &error),
        }
        let upstream = &mut self.upstreams[id];
        (upstream.polled_at, upstream.polled_since) = (Some(now), None);
    }

    /// Has the blocks asked for again that an upstream was asked for before it stopped answering:
    /// it has come back, but may not answer those calls.
    fn ask_again(&mut self, id: UpstreamId, lost_at: Moment) {
        let is_any_lost = self.lose_sync_calls(id, lost_at);
        let upstream = &mut self.upstreams[id];
        let before = upstream.below_calls.len();
        upstream.below_calls.retain(|(since, call)| {
            let is_kept = *since > lost_at || call.is_finished();
            if !is_kept {
                call.abort();
            }
            is_kept
        });
        let is_any_aborted = upstream.below_calls.len() < before;
        if is_any_aborted && let Some(backfill) = &mut self.backfill {
            backfill.give_up(id);
        }
        if is_any_lost || is_any_aborted {
            self.upstreams[id].client.reconnect();
        }
    }

    fn head_named(&mut self, upstream: UpstreamId, head: HeadClaim) {
        let now = self.now();
        if self.health.head_named(upstream, now, head) {
            self.authority.heard(now, upstream, Said::Head(head));
        }
    }

    /// Handles the answer to a question for the hash of an upstream's block.
    fn hash_answered(
        &mut self,
        id: UpstreamId,
        number: u64,
        hash: Result<Option<B256>, CallError>,
    ) {
        let upstream = &mut self.upstreams[id];
        let since = upstream.asked_for_hash_since.take();
        // It has come back since, and will not answer what it was asked before.
        let has_come_back = since < Some(upstream.answered_since);
        let now = self.now();
        let hash = hash.unwrap_or_else(|error| {
            // Some upstreams answer with an error if a block is pruned, or above their head.
            let says_nothing = match error {
                CallError::Rpc { .. } => true,
                CallError::Timeout(_) => has_come_back,
                _ => false,
            };
            if says_nothing {
                return None;
            }
            let verdict = Verdict::from(&error);
            self.failed(id, CallClass::Heads, verdict, &error);
            None
        });
        let said = Said::HashAt { number, hash };
        self.authority.heard(now, id, said);
    }

    fn fetched(
        &mut self,
        upstream: UpstreamId,
        ask: Ask,
        purpose: Purpose,
        fetched: Result<FirstBlock, FetchError>,
        is_awaited: bool,
    ) {
        match fetched.and_then(|fetched| self.check_genesis(fetched)) {
            Ok(fetched) => {
                self.upstreams[upstream].missing_in_a_row = 0;
                self.arrived(upstream, ask, purpose, fetched);
            }
            Err(error) => {
                self.fetch_failed(upstream, ask, purpose);
                match &error {
                    FetchError::Call(CallError::NotFound) => self.missing(upstream, ask, purpose),
                    FetchError::Call(CallError::Busy) => self.hold_fetches(upstream),
                    // That was a fault before, or the upstream has come back since.
                    FetchError::Call(CallError::Timeout(_)) if !is_awaited => {}
                    FetchError::Call(error) => {
                        let verdict = Verdict::from(error);
                        self.failed(upstream, CallClass::Blocks, verdict, error);
                    }
                    FetchError::BadBlock { reason, error }
                        if purpose == Purpose::Backfill && !self.health.has_other(upstream) =>
                    {
                        self.bad_below(upstream, ask.number(), reason, error);
                    }
                    FetchError::BadBlock { reason, error } => {
                        let error = format!("block {}: {error}", ask.number());
                        let verdict = Verdict::Fault(Fault::BadBlock);
                        let class = CallClass::Blocks;
                        self.failed_with(upstream, class, verdict, Some(reason), &error);
                    }
                }
            }
        }
    }

    /// Checks that a block 0 is the chain's: no parent shows it.
    fn check_genesis(&self, fetched: FirstBlock) -> Result<FirstBlock, FetchError> {
        let (number, hash) = (fetched.block.number(), fetched.block.hash);
        match self.config.genesis.filter(|_| number == 0) {
            Some(expected) if expected != hash => Err(FetchError::BadBlock {
                reason: Fault::WrongChain.label(),
                error: format!("the genesis is {hash}, not {expected}").into(),
            }),
            _ => Ok(fetched),
        }
    }

    fn arrived(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose, fetched: FirstBlock) {
        let block = Arc::clone(&fetched.block);
        match purpose {
            Purpose::Sync | Purpose::First => {
                let now = self.now();
                let point = (block.number(), block.hash);
                self.links.insert(point, block.header.parent_hash);
                let Some(sync) = &mut self.sync else {
                    return;
                };
                let is_progress = match (&mut sync.goal, purpose) {
                    (Goal::Path(path), _) => path.got(ask, linked(block, |block| block)),
                    (Goal::Reset { first }, Purpose::First) if block.hash == sync.head.1 => {
                        *first = Some(fetched);
                        true
                    }
                    // A block for an earlier sync, or one that was guessed.
                    (Goal::Reset { .. } | Goal::Advance { .. }, _) => false,
                };
                if is_progress {
                    (sync.progressed_at, sync.is_slow) = (now, false);
                }
            }
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill {
                    backfill.answered(upstream, ask);
                    let fetched = linked(block, |block| (upstream, block));
                    backfill.blocks.got(ask, fetched);
                }
            }
        }
    }

    /// Handles a failed call for a block.
    fn fetch_failed(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose) {
        match purpose {
            Purpose::Sync | Purpose::First => self.sync_fetch_failed(ask),
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill
                    && backfill.answered(upstream, ask)
                {
                    backfill.blocks.failed(ask);
                }
            }
        }
    }

    /// Handles the answer that an upstream does not have a block. That matters if the upstream
    /// named the block as its head or as a parent; a guessed number may not exist.
    fn missing(&mut self, id: UpstreamId, ask: Ask, purpose: Purpose) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let upstream = &mut self.upstreams[id];
        match (ask, purpose) {
            (Ask::Number(_), _) => {}
            (_, Purpose::Backfill) => self.missing_below(id, ask),
            (_, Purpose::Sync | Purpose::First) => {
                // One whose calls for heads fail has not named it.
                let is_named = |sync: &HeadSync| sync.voters.has(id);
                upstream.missing_in_a_row += u32::from(self.sync.as_ref().is_none_or(is_named));
                if upstream.missing_in_a_row >= MISSING_MAX {
                    let error = "the node does not have a block that it named";
                    let verdict = Verdict::Fault(Fault::Missing);
                    self.failed(id, CallClass::Blocks, verdict, &error);
                } else {
                    upstream.fetch_hold_until = now + block_time / 16;
                }
            }
        }
    }
}
