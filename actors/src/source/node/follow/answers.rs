//! What is made of answers.

use std::{sync::Arc, time::Duration};

use alloy_primitives::B256;
use nearhead_chain::block::Block;

use super::{
    FetchError, Filling, Follower, Goal, HeadSink, Peer,
    work::{self, Answer, Done, Named, Purpose},
};
use crate::{
    messages::AdvanceHead,
    source::node::{
        chain::Chain,
        client::{CallError, HeadClaim},
        follow::Event,
        health::{Fault, NodeId, Verdict},
        plan::{Ask, Backfill, Found, Outcome},
    },
};

/// Times in a row that a node may not have what it named itself, before it is a fault: a URL of several nodes does so
/// now and then, for as long as the newest block takes from one of them to the others.
const MISSING_MAX: u32 = 3;

/// Block times after which a node that does not have an old block is asked for it again.
const FORGETFUL_BLOCKS: u32 = 8;

impl<P: Peer, S: HeadSink> Follower<P, S> {
    /// Takes an answer in.
    pub(super) fn take(&mut self, done: Done<P::Heads>) {
        let Done { node, answer } = done;
        match answer {
            Answer::Polled(named) => self.polled(node, named),
            Answer::Subscribed(Ok(heads)) => {
                self.questions.spawn(work::next(node, heads));
            }
            Answer::Subscribed(Err(error)) => {
                // Who does not have it is not asked again; it is no fault, heads are asked for anyway.
                let never = matches!(error, CallError::MethodMissing | CallError::Rpc { .. });
                self.nodes[node].tells = never.then_some(false);
            }
            Answer::Told(heads, Ok(head)) => {
                // Until its chain is known, nobody listens.
                if self.nodes[node].is_known {
                    let now = self.now();
                    self.health.heard(node, now, head);
                }
                self.questions.spawn(work::next(node, heads));
            }
            Answer::Told(_, Err(_)) => self.nodes[node].tells = None,
            Answer::Fetched {
                ask,
                purpose,
                block,
            } => self.fetched(node, ask, purpose, block),
        }
    }

    fn polled(&mut self, id: NodeId, named: Result<Named, CallError>) {
        let now = self.now();
        let named = named.map_err(|error| (Verdict::from(&error), error.to_string()));
        let named = named.and_then(|named| match named.chain_id {
            Some(chain_id) if chain_id != self.config.chain_id => Err((
                Verdict::Fault(Fault::WrongChain),
                format!("chain id is {chain_id}, not {}", self.config.chain_id),
            )),
            _ => Ok(named),
        });
        match named {
            Ok(named) => {
                let node = &mut self.nodes[id];
                node.is_known |= named.chain_id.is_some();
                // What failed meanwhile has made it unknown.
                if node.is_known {
                    if let Some(settled) = named.settled {
                        node.settled = settled;
                        let finalized = settled.finalized;
                        let finalized = finalized.map(|block| (block.number, block.hash));
                        self.health.settled(id, finalized);
                        self.health.syncing(id, now, named.is_syncing);
                    }
                    self.health.heard(id, now, named.head);
                }
            }
            Err((verdict, why)) => self.fails(id, verdict, &why),
        }
        let node = &mut self.nodes[id];
        (node.asked, node.is_asked) = (Some(now), false);
    }

    fn fetched(
        &mut self,
        node: NodeId,
        ask: Ask,
        purpose: Purpose,
        block: Result<Arc<Block>, FetchError>,
    ) {
        match block {
            Ok(block) => {
                self.nodes[node].missing = 0;
                self.arrived(ask, purpose, block);
            }
            Err(error) => {
                self.lost(node, ask, purpose);
                match &error {
                    FetchError::Call(CallError::NotFound) => self.missing(node, ask, purpose),
                    FetchError::Call(error) => self.fails(node, Verdict::from(error), error),
                    FetchError::BadBlock { reason, why } => {
                        let why = format!("block {}: {why}", ask.number());
                        self.fails_by(node, Verdict::Fault(Fault::BadBlock), Some(reason), &why);
                    }
                }
            }
        }
    }

    fn arrived(&mut self, ask: Ask, purpose: Purpose, block: Arc<Block>) {
        let found = |block: Arc<Block>| Found {
            number: block.number(),
            hash: block.hash,
            parent_hash: block.header.parent_hash,
            block,
        };
        match purpose {
            Purpose::Way => {
                let now = self.now();
                if let Some(way) = &mut self.way {
                    way.moved = now;
                    match &mut way.to {
                        Goal::Route(route) => route.got(ask, found(block)),
                        Goal::Begin { block: head, .. } if block.hash == way.head.hash => {
                            *head = Some(block);
                        }
                        Goal::Begin { is_asked, .. } => *is_asked = false,
                    }
                }
            }
            Purpose::Filling => {
                if let Some(filling) = &mut self.filling {
                    filling.blocks.got(ask, found(block));
                }
            }
        }
    }

    /// A question of a way or a filling was not answered. A way ends with it, unless it was a guess: the node may name
    /// another head by now.
    fn lost(&mut self, node: NodeId, ask: Ask, purpose: Purpose) {
        match purpose {
            Purpose::Way => {
                let Some(way) = self.way.as_mut().filter(|way| way.node == node) else {
                    return;
                };
                match (&mut way.to, ask) {
                    (Goal::Route(route), Ask::Number(_)) => route.lost(ask),
                    _ => self.way = None,
                }
            }
            Purpose::Filling => {
                if let Some(filling) = &mut self.filling {
                    filling.blocks.lost(ask);
                }
            }
        }
    }

    /// A node does not have what it, or a block of its chain, has named. A guess says nothing.
    fn missing(&mut self, id: NodeId, ask: Ask, purpose: Purpose) {
        let (now, block_time) = (self.now(), self.health.block_time());
        let node = &mut self.nodes[id];
        match (ask, purpose) {
            (Ask::Number(_), _) => {}
            // It may have forgotten old blocks, and be as good as any for new ones.
            (_, Purpose::Filling) => {
                if let Some(filling) = &mut self.filling {
                    let (node, number) = (node.peer.name(), ask.number());
                    tracing::warn!(node, number, "the node does not have a block of the window");
                    filling.hold_until = now + block_time * FORGETFUL_BLOCKS;
                }
            }
            (_, Purpose::Way) => {
                node.missing += 1;
                if node.missing >= MISSING_MAX {
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
        if let Some(way) = &mut self.way {
            match &mut way.to {
                Goal::Begin { block, .. } => {
                    if let Some(block) = block.take() {
                        self.begin(block).await?;
                    }
                }
                Goal::Route(route) => {
                    match self.sink.view().and_then(|view| route.outcome(&view)) {
                        None => {}
                        Some(Outcome::Refill) => {
                            let (node, head) = (self.nodes[way.node].peer.name(), way.head.number);
                            tracing::warn!(
                                node,
                                head,
                                "the window cannot be joined to the node's head: it begins anew"
                            );
                            way.to = Goal::BEGIN;
                        }
                        Some(Outcome::Advance { reverted, applied }) => {
                            self.advance(reverted, applied).await?;
                        }
                    }
                }
            }
        }
        self.fill().await
    }

    async fn begin(&mut self, block: Arc<Block>) -> Result<(), S::Error> {
        let Some(way) = self.way.take() else {
            return Ok(());
        };
        let (number, parent_hash) = (block.number(), block.header.parent_hash);
        let newest = (number, block.header.timestamp);
        self.sink.begin(block).await?;
        self.health.advanced(way.node, self.now(), number);
        self.filling = Some(Filling {
            blocks: Backfill::below(number, parent_hash, number),
            oldest: (number, parent_hash),
            newest,
            hold_until: Duration::ZERO,
        });
        (self.tell)(Event::Began(number));
        Ok(())
    }

    async fn advance(&mut self, reverted: usize, applied: Vec<Arc<Block>>) -> Result<(), S::Error> {
        let Some(way) = self.way.take() else {
            return Ok(());
        };
        let settled = self.nodes[way.node].settled;
        let safe = self.canonical(settled.safe, reverted, &applied);
        let finalized = self.canonical(settled.finalized, reverted, &applied);
        let change = AdvanceHead {
            reverted,
            applied,
            safe,
            finalized,
        };
        self.sink.advance(change).await?;
        let number = way.head.number;
        self.health.advanced(way.node, self.now(), number);
        if let Some(filling) = &mut self.filling {
            filling.blocks.head_is(number);
        }
        Ok(())
    }

    /// The hash of a block that a node named, if it is one of ours after the change.
    fn canonical(
        &self,
        claim: Option<HeadClaim>,
        reverted: usize,
        applied: &[Arc<Block>],
    ) -> Option<B256> {
        let claim = claim?;
        let view = self.sink.view()?;
        let kept = view.head().0.saturating_sub(reverted as u64);
        let ours = match claim.number.checked_sub(kept + 1) {
            None => view.hash_at(claim.number),
            Some(at) => applied
                .get(usize::try_from(at).ok()?)
                .map(|block| block.hash),
        };
        ours.filter(|hash| *hash == claim.hash)
    }

    /// Puts blocks below the oldest.
    async fn fill(&mut self) -> Result<(), S::Error> {
        while let Some(filling) = &mut self.filling {
            if let Some(block) = filling.blocks.take() {
                filling.oldest = (block.number(), block.header.parent_hash);
                let older = (block.number(), block.header.timestamp);
                self.health.learn_block_time(older, filling.newest);
                (self.tell)(Event::Missing(filling.blocks.missing()));
                self.sink.extend_below(block).await?;
                continue;
            }
            if filling.blocks.missing() == 0 {
                self.filling = None;
            }
            break;
        }
        Ok(())
    }
}
