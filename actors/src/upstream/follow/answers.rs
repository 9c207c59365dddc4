//! What is made of answers.

use std::sync::Arc;

use nearhead_chain::block::Block;

use super::{
    FetchError, Follower, Goal, HeadSink, Upstream,
    work::{self, Answer, Done, Identity, Named, Purpose, SettledClaims},
};
use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        client::{CallError, HeadClaim},
        follow::Event,
        health::{Fault, UpstreamId, Verdict},
        plan::{Ask, Divergence, FetchedBlock, PathOutcome},
    },
};

/// Times in a row that an upstream may not have what it named itself, before it is a fault: a URL of
/// several upstreams does so now and then, for as long as the newest block takes from one of them to
/// the others.
const MISSING_MAX: u32 = 3;

impl<P: Upstream, S: HeadSink> Follower<P, S> {
    /// Takes an answer in.
    pub(super) fn take(&mut self, done: Done<P::Heads>) {
        let Done { upstream, answer } = done;
        match answer {
            Answer::Polled(named) => self.polled(upstream, named),
            Answer::Subscribed(Ok(heads)) => {
                self.questions.spawn(work::next(upstream, heads));
            }
            Answer::Subscribed(Err(error)) => {
                // Who does not have it is not asked again; it is no fault, heads are asked for
                // anyway.
                let never = matches!(error, CallError::MethodMissing | CallError::Rpc { .. });
                self.upstreams[upstream].tells = never.then_some(false);
            }
            Answer::Announced(heads, Ok(head)) => {
                // Until its chain is known, nobody listens.
                if self.upstreams[upstream].is_known {
                    let now = self.now();
                    self.health.heard(upstream, now, head);
                }
                self.questions.spawn(work::next(upstream, heads));
            }
            Answer::Announced(_, Err(_)) => {
                let upstream = &mut self.upstreams[upstream];
                // Another may answer on the next connection.
                (upstream.tells, upstream.is_known) = (None, false);
            }
            Answer::Fetched {
                ask,
                purpose,
                block,
            } => self.fetched(upstream, ask, purpose, block),
            Answer::FetchedFirst { ask, block } => {
                if let Ok((_, identity)) = &block
                    && let Err(why) = self.check_identity(upstream, *identity)
                {
                    self.sync.take_if(|sync| sync.upstream == upstream);
                    self.fails(upstream, Verdict::Fault(Fault::WrongChain), &why);
                    return;
                }
                let block = block.map(|(block, _)| block);
                self.fetched(upstream, ask, Purpose::First, block);
            }
            Answer::FetchedGenesis(block) => self.fetched_genesis(upstream, block),
        }
    }

    /// Whether this is the chain that is followed, in words if it is not.
    fn check_identity(&self, upstream: UpstreamId, identity: Identity) -> Result<(), String> {
        let Identity { chain_id, genesis } = identity;
        let ours = self.config.chain_id;
        if chain_id != ours {
            return Err(format!("chain id is {chain_id}, not {ours}"));
        }
        match (genesis, self.genesis_for(upstream)) {
            (Some(genesis), Some(known)) if genesis != known => {
                Err(format!("the genesis is {genesis}, not {known}"))
            }
            _ => Ok(()),
        }
    }

    fn polled(&mut self, id: UpstreamId, named: Result<Named, CallError>) {
        let now = self.now();
        let named = named.map_err(|error| (Verdict::from(&error), error.to_string()));
        let named = named.and_then(|named| match self.check_identity(id, named.identity) {
            Ok(()) => Ok(named),
            Err(why) => Err((Verdict::Fault(Fault::WrongChain), why)),
        });
        match named {
            Ok(named) => {
                let upstream = &mut self.upstreams[id];
                upstream.is_known = true;
                if let Some(settled) = named.settled {
                    upstream.settled = settled;
                    self.is_unsettled |= self.health.followed() == Some(id);
                    let finalized = settled.finalized;
                    let finalized = finalized.map(|block| (block.number, block.hash));
                    self.health.settled(id, finalized);
                    self.health.syncing(id, now, named.is_syncing);
                }
                self.health.heard(id, now, named.head);
            }
            Err((verdict, why)) => self.fails(id, verdict, &why),
        }
        let upstream = &mut self.upstreams[id];
        (upstream.asked, upstream.is_asked) = (Some(now), false);
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
                self.upstreams[upstream].missing = 0;
                self.arrived(ask, purpose, block);
            }
            Err(error) => {
                self.lost(upstream, ask, purpose);
                match &error {
                    FetchError::Call(CallError::NotFound) => self.missing(upstream, ask, purpose),
                    FetchError::Call(error) => self.fails(upstream, Verdict::from(error), error),
                    FetchError::BadBlock { reason, why }
                        if purpose == Purpose::Backfill && !self.health.has_other(upstream) =>
                    {
                        self.bad_below(upstream, ask, reason, why);
                    }
                    FetchError::BadBlock { reason, why } => {
                        let why = format!("block {}: {why}", ask.number());
                        self.fails_by(
                            upstream,
                            Verdict::Fault(Fault::BadBlock),
                            Some(reason),
                            &why,
                        );
                    }
                }
            }
        }
    }

    fn arrived(&mut self, ask: Ask, purpose: Purpose, block: Arc<Block>) {
        let found = |block: Arc<Block>| FetchedBlock {
            number: block.number(),
            hash: block.hash,
            parent_hash: block.header.parent_hash,
            block,
        };
        match purpose {
            Purpose::Sync | Purpose::First => {
                let now = self.now();
                let Some(sync) = &mut self.sync else {
                    return;
                };
                sync.moved = now;
                match (&mut sync.to, purpose) {
                    (Goal::Path(path), _) => path.got(ask, found(block)),
                    (Goal::Reset { block: head, .. }, Purpose::First)
                        if block.hash == sync.head.hash =>
                    {
                        *head = Some(block);
                    }
                    (Goal::Reset { is_asked, .. }, Purpose::First) => *is_asked = false,
                    // What was asked for on the way before.
                    (Goal::Reset { .. }, _) => {}
                }
            }
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill {
                    backfill.blocks.got(ask, found(block));
                }
            }
        }
    }

    /// A question of a way or a filling was not answered. A way ends with it, unless it was a
    /// guess: the upstream may name another head by now.
    fn lost(&mut self, upstream: UpstreamId, ask: Ask, purpose: Purpose) {
        match purpose {
            Purpose::Sync | Purpose::First => {
                let Some(sync) = self.sync.as_mut().filter(|sync| sync.upstream == upstream) else {
                    return;
                };
                match (&mut sync.to, ask) {
                    (Goal::Path(path), Ask::Number(_)) => path.lost(ask),
                    _ => self.sync = None,
                }
            }
            Purpose::Backfill => {
                if let Some(backfill) = &mut self.backfill {
                    backfill.blocks.lost(ask);
                }
            }
        }
    }

    /// An upstream does not have what it, or a block of its chain, has named. A guess says nothing.
    fn missing(&mut self, id: UpstreamId, ask: Ask, purpose: Purpose) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let upstream = &mut self.upstreams[id];
        match (ask, purpose) {
            (Ask::Number(_), _) => {}
            (_, Purpose::Backfill) => self.missing_below(id, ask),
            (_, Purpose::Sync | Purpose::First) => {
                upstream.missing += 1;
                if upstream.missing >= MISSING_MAX {
                    let why = "the node does not have a block that it named";
                    self.fails(id, Verdict::Fault(Fault::Missing), &why);
                } else {
                    self.hold_until = now + block_time / 16;
                }
            }
        }
    }

    /// Hands over what is complete.
    pub(super) async fn go_on(&mut self) -> Result<(), S::Error> {
        let now = self.now();
        if let Some(sync) = &mut self.sync {
            match &mut sync.to {
                Goal::Reset { block, .. } => {
                    if let Some(block) = block.take() {
                        self.begin(block).await?;
                    }
                }
                Goal::Path(path) => {
                    let held = self.sink.held();
                    let outcome = held.as_ref().and_then(|held| path.outcome(held));
                    let divergence = held.as_ref().and_then(|held| path.divergence(held));
                    let is_refused =
                        |divergence| self.health.refuses(now, divergence == Divergence::Far);
                    match outcome {
                        _ if divergence.is_some_and(is_refused) => self.sync = None,
                        None => {}
                        Some(PathOutcome::Reset) => {
                            let (upstream, head) = (
                                self.upstreams[sync.upstream].client.name(),
                                sync.head.number,
                            );
                            tracing::warn!(
                                node = upstream,
                                head,
                                "the window cannot be joined to the node's head: it begins anew"
                            );
                            sync.to = Goal::RESET;
                        }
                        Some(PathOutcome::Advance { reverted, applied }) => {
                            self.advance(reverted, applied).await?;
                        }
                    }
                }
            }
        }
        self.fill().await?;
        self.settle().await
    }

    async fn begin(&mut self, block: Arc<Block>) -> Result<(), S::Error> {
        let Some(sync) = self.sync.take() else {
            return Ok(());
        };
        let number = block.number();
        self.sink.begin(block).await?;
        self.health.advanced(sync.upstream, self.now(), number);
        (self.backfill, self.is_unsettled) = (None, true);
        (self.tell)(Event::WindowStarted(number));
        Ok(())
    }

    async fn advance(&mut self, reverted: usize, applied: Vec<Arc<Block>>) -> Result<(), S::Error> {
        let Some(sync) = self.sync.take() else {
            return Ok(());
        };
        let change = AdvanceHead {
            reverted,
            applied,
            safe: None,
            finalized: None,
        };
        self.sink.advance(change).await?;
        let (now, number) = (self.now(), sync.head.number);
        let named = now.saturating_sub(sync.named);
        (self.tell)(Event::Advanced { number, named });
        self.health.advanced(sync.upstream, now, number);
        self.learn_block_time();
        // What is settled may be one of the new blocks.
        self.is_unsettled = true;
        Ok(())
    }

    /// Tells what the followed upstream calls safe and finalized, with a new head or without.
    async fn settle(&mut self) -> Result<(), S::Error> {
        let Some(held) = self.sink.held().filter(|_| self.is_unsettled) else {
            return Ok(());
        };
        let Some(followed) = self.health.settler(&held) else {
            return Ok(());
        };
        self.is_unsettled = false;
        let SettledClaims { safe, finalized } = self.upstreams[followed].settled;
        let named = |claim: HeadClaim| (claim.number, claim.hash);
        let settled = SettleHead {
            safe: safe.map(named),
            finalized: finalized.map(named),
        };
        self.sink.settle(settled).await
    }
}
