//! What the follower does with an answer.

use std::{convert::identity, sync::Arc};

use nearhead_chain::block::Block;

use super::{
    Event, Follower,
    fetching::Goal,
    interface::{ChangeError, FetchError, HeldWindow, Upstream},
    work::{self, Answer, Answered, Identity, PollAnswer, Purpose, SettledClaims},
};
use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        client::{CallError, HeadClaim},
        health::{CallClass, Fault, UpstreamId, Verdict},
        plan::{Ask, Divergence, FetchedBlock, PathOutcome},
    },
};

/// An upstream is at fault once it has lacked a block that it named this many times in a row.
/// Behind a URL that stands for several replicas, one may lack the newest block for a while.
const MISSING_MAX: u32 = 3;

impl<U: Upstream, W: HeldWindow> Follower<U, W> {
    /// Handles one answer.
    pub(super) fn handle(&mut self, answered: Answered<U::Heads>) {
        let Answered { upstream, answer } = answered;
        match answer {
            Answer::Polled(answer) => self.polled(upstream, answer),
            Answer::Subscribed(Ok(heads)) => {
                self.calls.spawn(work::next(upstream, heads));
            }
            Answer::Subscribed(Err(error)) => {
                // Not a fault, since heads are polled as well. An upstream without the method, or
                // with another JSON-RPC error, is not asked again.
                let never = matches!(error, CallError::UnsupportedMethod | CallError::Rpc { .. });
                self.upstreams[upstream].announces = never.then_some(false);
            }
            Answer::Announced(heads, Ok(head)) => {
                // Announcements are ignored until the upstream's chain is known.
                if self.upstreams[upstream].is_identified {
                    let now = self.now();
                    self.health.head_named(upstream, now, head);
                }
                self.calls.spawn(work::next(upstream, heads));
            }
            Answer::Announced(_, Err(_)) => {
                let upstream = &mut self.upstreams[upstream];
                // Another replica may answer on the next connection.
                (upstream.announces, upstream.is_identified) = (None, false);
            }
            Answer::Fetched {
                ask,
                purpose,
                block,
            } => self.fetched(upstream, ask, purpose, block),
            Answer::FetchedFirst { ask, block } => {
                if let Ok((_, identity)) = &block
                    && let Err(error) = self.check_identity(upstream, *identity)
                {
                    self.sync.take_if(|sync| sync.upstream == upstream);
                    let verdict = Verdict::Fault(Fault::WrongChain);
                    self.failed(upstream, CallClass::Heads, verdict, &error);
                    return;
                }
                let block = block.map(|(block, _)| block);
                self.fetched(upstream, ask, Purpose::First, block);
            }
            Answer::FetchedGenesis(block) => self.genesis_fetched(upstream, block),
        }
    }

    /// Checks that the upstream is on the followed chain; the error says how it differs.
    fn check_identity(&self, upstream: UpstreamId, identity: Identity) -> Result<(), String> {
        let Identity { chain_id, genesis } = identity;
        let expected = self.config.chain_id;
        if chain_id != expected {
            return Err(format!("the chain id is {chain_id}, not {expected}"));
        }
        match (genesis, self.genesis_for(upstream)) {
            (Some(genesis), Some(known)) if genesis != known => {
                Err(format!("the genesis is {genesis}, not {known}"))
            }
            _ => Ok(()),
        }
    }

    fn polled(&mut self, id: UpstreamId, answer: Result<PollAnswer, CallError>) {
        let now = self.now();
        let answer = answer.map_err(|error| (Verdict::from(&error), error.to_string()));
        let answer = answer.and_then(|answer| match self.check_identity(id, answer.identity) {
            Ok(()) => Ok(answer),
            Err(error) => Err((Verdict::Fault(Fault::WrongChain), error)),
        });
        match answer {
            Ok(answer) => {
                let upstream = &mut self.upstreams[id];
                upstream.is_identified = true;
                if let Some(settled) = answer.settled {
                    upstream.settled = settled;
                    self.is_settle_due |= self.health.followed() == Some(id);
                    let finalized = settled.finalized;
                    let finalized = finalized.map(|block| (block.number, block.hash));
                    self.health.finalized_named(id, finalized);
                    self.health.syncing_reported(id, now, answer.is_syncing);
                }
                self.health.head_named(id, now, answer.head);
            }
            Err((verdict, error)) => self.failed(id, CallClass::Heads, verdict, &error),
        }
        let upstream = &mut self.upstreams[id];
        (upstream.polled_at, upstream.is_being_polled) = (Some(now), false);
    }

    fn fetched(
        &mut self,
        upstream: UpstreamId,
        ask: Ask,
        purpose: Purpose,
        block: Result<Arc<Block>, FetchError>,
    ) {
        match block {
            Ok(block) => {
                self.upstreams[upstream].missing_in_a_row = 0;
                self.arrived(upstream, ask, purpose, block);
            }
            Err(error) => {
                self.fetch_failed(upstream, ask, purpose);
                match &error {
                    FetchError::Call(CallError::NotFound) => self.missing(upstream, ask, purpose),
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

    fn arrived(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose, block: Arc<Block>) {
        match purpose {
            Purpose::Sync | Purpose::First => {
                let now = self.now();
                let Some(sync) = &mut self.sync else {
                    return;
                };
                sync.progressed_at = now;
                match (&mut sync.goal, purpose) {
                    (Goal::Path(path), _) => path.got(ask, linked(block, identity)),
                    (Goal::Reset { block: head, .. }, Purpose::First)
                        if block.hash == sync.head.hash =>
                    {
                        *head = Some(block);
                    }
                    (Goal::Reset { is_asked, .. }, Purpose::First) => *is_asked = false,
                    // A block for an earlier sync.
                    (Goal::Reset { .. }, _) => {}
                }
            }
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill {
                    let fetched = linked(block, |block| (upstream, block));
                    backfill.blocks.got(ask, fetched);
                }
            }
        }
    }

    /// Handles a failed call for a block. A sync ends with it, because the upstream may name
    /// another head by now; a guessed number is merely asked for again by hash.
    fn fetch_failed(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose) {
        match purpose {
            Purpose::Sync | Purpose::First => {
                let Some(sync) = self.sync.as_mut().filter(|sync| sync.upstream == upstream) else {
                    return;
                };
                match (&mut sync.goal, ask) {
                    (Goal::Path(path), Ask::Number(_)) => path.failed(ask),
                    _ => self.sync = None,
                }
            }
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill {
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
                upstream.missing_in_a_row += 1;
                if upstream.missing_in_a_row >= MISSING_MAX {
                    let error = "the upstream does not have a block that it named";
                    let verdict = Verdict::Fault(Fault::Missing);
                    self.failed(id, CallClass::Blocks, verdict, &error);
                } else {
                    self.sync_hold_until = now + block_time / 16;
                }
            }
        }
    }

    /// Hands complete results to the window.
    pub(super) async fn apply(&mut self) -> Result<(), W::Error> {
        let now = self.now();
        if let Some(sync) = &mut self.sync {
            match &mut sync.goal {
                Goal::Reset { block, .. } => {
                    if let Some(block) = block.take() {
                        self.reset(block).await?;
                    }
                }
                Goal::Path(path) => {
                    let held = self.window.held();
                    let outcome = held.as_ref().and_then(|held| path.outcome(held));
                    let divergence = held.as_ref().and_then(|held| path.divergence(held));
                    let is_refused =
                        |divergence| self.health.refuses_path(now, divergence == Divergence::Far);
                    match outcome {
                        _ if divergence.is_some_and(is_refused) => self.sync = None,
                        None => {}
                        Some(PathOutcome::Reset) => {
                            let name = self.upstreams[sync.upstream].client.name();
                            tracing::warn!(
                                node = name,
                                head = sync.head.number,
                                "the window is reset: no sync path leads to the upstream's head"
                            );
                            sync.goal = Goal::RESET;
                        }
                        Some(PathOutcome::Advance { reverted, applied }) => {
                            self.advance(reverted, applied).await?;
                        }
                    }
                }
            }
        }
        self.apply_below().await?;
        self.settle().await
    }

    async fn reset(&mut self, block: Arc<Block>) -> Result<(), W::Error> {
        let Some(sync) = self.sync.take() else {
            return Ok(());
        };
        let number = block.number();
        let outcome = self.window.reset(block).await;
        if !self.is_changed(sync.upstream, outcome)? {
            return Ok(());
        }
        self.health.advanced(sync.upstream, self.now(), number);
        (self.backfill, self.is_settle_due) = (None, true);
        (self.on_event)(Event::WindowStarted(number));
        Ok(())
    }

    async fn advance(&mut self, reverted: usize, applied: Vec<Arc<Block>>) -> Result<(), W::Error> {
        let Some(sync) = self.sync.take() else {
            return Ok(());
        };
        let change = AdvanceHead {
            reverted,
            applied,
            safe: None,
            finalized: None,
        };
        let outcome = self.window.advance(change).await;
        if !self.is_changed(sync.upstream, outcome)? {
            return Ok(());
        }
        let (now, number) = (self.now(), sync.head.number);
        let named_ago = now.saturating_sub(sync.named_at);
        (self.on_event)(Event::Advanced { number, named_ago });
        self.health.advanced(sync.upstream, now, number);
        self.learn_block_time();
        // One of the new blocks may be settled.
        self.is_settle_due = true;
        Ok(())
    }

    /// Whether a change that blocks of this upstream lead to was made. If the window refused them,
    /// the upstream is at fault.
    fn is_changed(
        &mut self,
        upstream: UpstreamId,
        outcome: Result<(), ChangeError<W::Error>>,
    ) -> Result<bool, W::Error> {
        match outcome {
            Ok(()) => Ok(true),
            Err(ChangeError::Gone(error)) => Err(error),
            Err(ChangeError::Refused(refusal)) => {
                let verdict = Verdict::Fault(Fault::Unfit);
                self.failed(upstream, CallClass::Blocks, verdict, &refusal);
                Ok(false)
            }
        }
    }

    /// Hands over what the followed upstream calls safe and finalized.
    async fn settle(&mut self) -> Result<(), W::Error> {
        let Some(held) = self.window.held().filter(|_| self.is_settle_due) else {
            return Ok(());
        };
        let Some(source) = self.health.settled_source(&held) else {
            return Ok(());
        };
        self.is_settle_due = false;
        let SettledClaims { safe, finalized } = self.upstreams[source].settled;
        let claimed = |claim: HeadClaim| (claim.number, claim.hash);
        let settled = SettleHead {
            safe: safe.map(claimed),
            finalized: finalized.map(claimed),
        };
        self.window.settle(settled).await
    }
}

/// A block as the plan knows it; the plan returns what `returned` makes of it.
fn linked<T>(block: Arc<Block>, returned: impl FnOnce(Arc<Block>) -> T) -> FetchedBlock<T> {
    FetchedBlock {
        number: block.number(),
        hash: block.hash,
        parent_hash: block.header.parent_hash,
        block: returned(block),
    }
}
