//! What is made of answers.

use std::sync::Arc;

use nearhead_chain::block::Block;

use super::{
    FetchError, Follower, Goal, HeadSink, Peer,
    work::{self, Answer, Done, Identity, Named, Purpose, Settled},
};
use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        client::{CallError, HeadClaim},
        follow::Event,
        health::{Fault, NodeId, Verdict},
        plan::{Ask, Found, Leaves, Outcome},
    },
};

/// Times in a row that a node may not have what it named itself, before it is a fault: a URL of
/// several nodes does so now and then, for as long as the newest block takes from one of them to
/// the others.
const MISSING_MAX: u32 = 3;

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
                // Who does not have it is not asked again; it is no fault, heads are asked for
                // anyway.
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
            Answer::Told(_, Err(_)) => {
                let node = &mut self.nodes[node];
                // Another may answer on the next connection.
                (node.tells, node.is_known) = (None, false);
            }
            Answer::Fetched {
                ask,
                purpose,
                block,
            } => self.fetched(node, ask, purpose, block),
            Answer::FetchedFirst { ask, block } => {
                if let Ok((_, identity)) = &block
                    && let Err(why) = self.check_identity(node, *identity)
                {
                    self.way.take_if(|way| way.node == node);
                    self.fails(node, Verdict::Fault(Fault::WrongChain), &why);
                    return;
                }
                let block = block.map(|(block, _)| block);
                self.fetched(node, ask, Purpose::First, block);
            }
            Answer::FetchedGenesis(block) => self.fetched_genesis(node, block),
        }
    }

    /// Whether this is the chain that is followed, in words if it is not.
    fn check_identity(&self, node: NodeId, identity: Identity) -> Result<(), String> {
        let Identity { chain_id, genesis } = identity;
        let ours = self.config.chain_id;
        if chain_id != ours {
            return Err(format!("chain id is {chain_id}, not {ours}"));
        }
        match (genesis, self.genesis_for(node)) {
            (Some(genesis), Some(known)) if genesis != known => {
                Err(format!("the genesis is {genesis}, not {known}"))
            }
            _ => Ok(()),
        }
    }

    fn polled(&mut self, id: NodeId, named: Result<Named, CallError>) {
        let now = self.now();
        let named = named.map_err(|error| (Verdict::from(&error), error.to_string()));
        let named = named.and_then(|named| match self.check_identity(id, named.identity) {
            Ok(()) => Ok(named),
            Err(why) => Err((Verdict::Fault(Fault::WrongChain), why)),
        });
        match named {
            Ok(named) => {
                let node = &mut self.nodes[id];
                node.is_known = true;
                if let Some(settled) = named.settled {
                    node.settled = settled;
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
                    FetchError::BadBlock { reason, why }
                        if purpose == Purpose::Filling && !self.health.has_other(node) =>
                    {
                        self.bad_below(node, ask, reason, why);
                    }
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
            Purpose::Way | Purpose::First => {
                let now = self.now();
                let Some(way) = &mut self.way else {
                    return;
                };
                way.moved = now;
                match (&mut way.to, purpose) {
                    (Goal::Route(route), _) => route.got(ask, found(block)),
                    (Goal::Begin { block: head, .. }, Purpose::First)
                        if block.hash == way.head.hash =>
                    {
                        *head = Some(block);
                    }
                    (Goal::Begin { is_asked, .. }, Purpose::First) => *is_asked = false,
                    // What was asked for on the way before.
                    (Goal::Begin { .. }, _) => {}
                }
            }
            Purpose::Filling => {
                if let Some(filling) = &mut self.filling {
                    filling.blocks.got(ask, found(block));
                }
            }
        }
    }

    /// A question of a way or a filling was not answered. A way ends with it, unless it was a
    /// guess: the node may name another head by now.
    fn lost(&mut self, node: NodeId, ask: Ask, purpose: Purpose) {
        match purpose {
            Purpose::Way | Purpose::First => {
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
            (_, Purpose::Filling) => self.missing_below(id, ask),
            (_, Purpose::Way | Purpose::First) => {
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
        let now = self.now();
        if let Some(way) = &mut self.way {
            match &mut way.to {
                Goal::Begin { block, .. } => {
                    if let Some(block) = block.take() {
                        self.begin(block).await?;
                    }
                }
                Goal::Route(route) => {
                    let view = self.sink.view();
                    let outcome = view.as_ref().and_then(|view| route.outcome(view));
                    let leaves = view.as_ref().and_then(|view| route.leaves(view));
                    let is_refused = |leaves| self.health.refuses(now, leaves == Leaves::Far);
                    match outcome {
                        _ if leaves.is_some_and(is_refused) => self.way = None,
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
        self.fill().await?;
        self.settle().await
    }

    async fn begin(&mut self, block: Arc<Block>) -> Result<(), S::Error> {
        let Some(way) = self.way.take() else {
            return Ok(());
        };
        let number = block.number();
        self.sink.begin(block).await?;
        self.health.advanced(way.node, self.now(), number);
        (self.filling, self.is_unsettled) = (None, true);
        (self.tell)(Event::Began(number));
        Ok(())
    }

    async fn advance(&mut self, reverted: usize, applied: Vec<Arc<Block>>) -> Result<(), S::Error> {
        let Some(way) = self.way.take() else {
            return Ok(());
        };
        let change = AdvanceHead {
            reverted,
            applied,
            safe: None,
            finalized: None,
        };
        self.sink.advance(change).await?;
        let (now, number) = (self.now(), way.head.number);
        let named = now.saturating_sub(way.named);
        (self.tell)(Event::Advanced { number, named });
        self.health.advanced(way.node, now, number);
        self.learn_block_time();
        // What is settled may be one of the new blocks.
        self.is_unsettled = true;
        Ok(())
    }

    /// Tells what the followed node calls safe and finalized, with a new head or without.
    async fn settle(&mut self) -> Result<(), S::Error> {
        let Some(view) = self.sink.view().filter(|_| self.is_unsettled) else {
            return Ok(());
        };
        let Some(followed) = self.health.settler(&view) else {
            return Ok(());
        };
        self.is_unsettled = false;
        let Settled { safe, finalized } = self.nodes[followed].settled;
        let named = |claim: HeadClaim| (claim.number, claim.hash);
        let settled = SettleHead {
            safe: safe.map(named),
            finalized: finalized.map(named),
        };
        self.sink.settle(settled).await
    }
}
