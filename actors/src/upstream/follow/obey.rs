//! What the follower does with a decision about the head.

use std::time::Duration;

use nearhead_chain::{remote::Check, verify::HeaderRefusal};

use super::{
    Event, Follower,
    fetching::{Goal, HeadSync},
    interface::{ChangeError, HeldWindow, Upstream},
    work,
};
use crate::{
    messages::{AdvanceHead, SettleHead},
    upstream::{
        agree::{
            AskHash, Decision, Dissent, Effect, HeadAuthority, NodeAccess, NodeSet, Point,
            Situation,
        },
        health::{CallClass, Fault, UpstreamId, Verdict},
        plan::PathOutcome,
    },
};

/// Shortest time between two reports that the head goes on.
const REPORT_PAUSE: Duration = Duration::from_millis(100);

/// Block times without a contradiction after which another one is reported.
const DISSENT_QUIET_BLOCKS: u32 = 16;

impl<U: Upstream, W: HeldWindow, A: HeadAuthority> Follower<U, W, A> {
    /// Does what the authority decides: asks for hashes, fetches the path to a head, and changes
    /// the head.
    pub(super) async fn obey(&mut self) -> Result<(), W::Error> {
        loop {
            self.complete_path();
            let decision = self.with_situation(A::decide);
            self.report_decision(&decision);
            self.ask_hashes(&decision.asks);
            let is_staged =
                |sync: &mut HeadSync| sync.goal.is_complete() && decision.adopt == Some(sync.head);
            // Only a path to a head that is agreed on right now is applied.
            let Some(sync) = self.sync.take_if(is_staged) else {
                self.sync_to(decision.fetch);
                break;
            };
            self.adopt(sync).await?;
        }
        self.settle().await
    }

    fn with_situation<T>(&mut self, act: impl FnOnce(&mut A, &Situation<'_, W::Held>) -> T) -> T {
        let (now, held) = (self.now(), self.window.held());
        let nodes = (0..self.upstreams.len()).map(|id| NodeAccess {
            may_fetch: self.may_be_chosen(id),
            delays: self.delays(id),
            strikes: self.health.strikes(id, now),
        });
        let nodes: Vec<_> = nodes.collect();
        let situation = Situation {
            now,
            block_time: self.health.block_time(),
            held: held.as_ref(),
            head_since: self.head_since,
            links: &self.links,
            syncing: self.sync.as_ref().map(|sync| (sync.upstream, sync.head)),
            nodes: &nodes,
        };
        act(&mut self.authority, &situation)
    }

    /// Notes that the path to a head is complete, once it is.
    fn complete_path(&mut self) {
        let Some(sync) = &mut self.sync else {
            return;
        };
        let Goal::Path(path) = &mut sync.goal else {
            return;
        };
        let held = self.window.held();
        match held.as_ref().and_then(|held| path.outcome(held)) {
            None => {}
            Some(PathOutcome::Advance { reverted, applied }) => {
                sync.goal = Goal::Advance { reverted, applied };
            }
            Some(PathOutcome::Reset) => sync.goal = Goal::RESET,
        }
    }

    /// Asks upstreams for hashes; none gets a second question before it has answered the first.
    fn ask_hashes(&mut self, asks: &[AskHash]) {
        for &AskHash { node, number } in asks {
            let now = self.now();
            let may_ask = self.health.may_ask(node, CallClass::Heads, now);
            let client = self.client(node);
            let upstream = &mut self.upstreams[node];
            if may_ask && upstream.asked_for_hash_since.is_none() {
                upstream.asked_for_hash_since = Some(now);
                self.calls.spawn(work::ask_hash(node, client, number));
            }
        }
    }

    /// Changes the head as a complete sync says.
    async fn adopt(&mut self, sync: HeadSync) -> Result<(), W::Error> {
        let (upstream, head, named_at) = (sync.upstream, sync.head, sync.named_at);
        match sync.goal {
            Goal::Advance { reverted, applied } => {
                let change = AdvanceHead {
                    reverted,
                    applied,
                    safe: None,
                    finalized: None,
                };
                let outcome = self.window.advance(change).await;
                if self.is_changed(upstream, outcome)? {
                    let now = self.now();
                    let named_ago = now.saturating_sub(named_at);
                    let number = head.0;
                    (self.on_event)(Event::Advanced { number, named_ago });
                    self.head_changed(upstream, number);
                    self.learn_block_time();
                }
            }
            Goal::Reset { first: Some(first) } => {
                if self.window.held().is_some() {
                    let node = self.upstreams[upstream].client.name();
                    let head = head.0;
                    tracing::warn!(
                        node,
                        head,
                        "no path leads from the window to the head: the window starts again there"
                    );
                }
                let outcome = self.window.reset(first).await;
                if self.is_changed(upstream, outcome)? {
                    self.head_changed(upstream, head.0);
                    (self.backfill, self.settled) = (None, None);
                    (self.on_event)(Event::WindowStarted(head.0));
                }
            }
            Goal::Path(_) | Goal::Reset { first: None } => {}
        }
        Ok(())
    }

    fn head_changed(&mut self, upstream: UpstreamId, number: u64) {
        let now = self.now();
        self.head_since = now;
        self.health.advanced(now, number);
        if self.preferred.replace(upstream) != Some(upstream) {
            (self.on_event)(Event::Preferred(upstream));
        }
    }

    /// Whether the window made a change with blocks of this upstream. If it refused them, the
    /// upstream is at fault, except for headers that cannot be checked yet.
    fn is_changed(
        &mut self,
        upstream: UpstreamId,
        outcome: Result<(), ChangeError<W::Error>>,
    ) -> Result<bool, W::Error> {
        match outcome {
            Ok(()) => return Ok(true),
            Err(ChangeError::Gone(error)) => return Err(error),
            Err(ChangeError::Refused(refusal)) => {
                let verdict = Verdict::Fault(Fault::Unfit);
                self.failed(upstream, CallClass::Blocks, verdict, &refusal);
            }
            Err(ChangeError::Header { number, refusal }) => {
                self.header_refused(upstream, number, &refusal);
            }
            Err(ChangeError::Early {
                number,
                timestamp,
                clock,
            }) => {
                self.hold_fetches(upstream);
                self.report_early(upstream, number, timestamp, clock);
            }
        }
        Ok(false)
    }

    /// Handles a header that breaks a rule, or that cannot be checked.
    pub(super) fn header_refused(
        &mut self,
        upstream: UpstreamId,
        number: u64,
        refusal: &HeaderRefusal,
    ) {
        match refusal {
            HeaderRefusal::Broken(error) => {
                let error = format!("block {number}: {error}");
                let (class, verdict) = (CallClass::Blocks, Verdict::Fault(Fault::BadBlock));
                let reason = Some(Check::Header.label());
                self.failed_with(upstream, class, verdict, reason, &error);
            }
            HeaderRefusal::UnknownFork { .. } => {
                if !std::mem::replace(&mut self.is_fork_reported, true) {
                    let name = self.upstreams[upstream].client.name();
                    tracing::error!(node = name, "{refusal}");
                }
                self.hold_fetches(upstream);
            }
        }
    }

    /// Asks an upstream for no block of a head for a quarter of a block time.
    pub(super) fn hold_fetches(&mut self, upstream: UpstreamId) {
        let until = self.now() + self.health.block_time() / 4;
        self.upstreams[upstream].fetch_hold_until = until;
    }

    /// Hands over which blocks are safe and finalized, if that has changed.
    async fn settle(&mut self) -> Result<(), W::Error> {
        let settled = self.with_situation(A::settle);
        if self.window.held().is_none() {
            return Ok(());
        }
        let to_save = self.authority.to_save();
        if std::mem::replace(&mut self.reported, to_save) != to_save {
            (self.on_event)(Event::Settled(to_save));
        }
        if self.settled.replace(settled) == Some(settled) {
            return Ok(());
        }
        self.window.settle(SettleHead(settled)).await
    }

    /// Reports what has changed with a decision.
    ///
    /// That the head stands is reported only once it has stood for half a block time, for whatever
    /// reasons: nodes disagree for a moment whenever one publishes first. So is another reason for
    /// it, once it has lasted as long. Other changes are reported ten times a second at most,
    /// because an upstream can cause one with each head that it names.
    fn report_decision(&mut self, decision: &Decision) {
        self.report_dissent(decision);
        self.report_quarantine(decision.quarantined);
        let (now, choice, agreeing) = (self.now(), decision.choice, decision.agreeing);
        let since = self.choice_since.filter(|(before, _)| *before == choice);
        let (_, since) = *self.choice_since.insert(since.unwrap_or((choice, now)));
        let effect_before = self.decided.map(|(before, _)| before.effect());
        let stands = choice.effect() == Effect::Stand;
        let stood = effect_before == Some(Effect::Stand);
        let stands_since = self.stands_since.unwrap_or(now);
        self.stands_since = stands.then_some(stands_since);
        let lasts = |since, least| now.saturating_sub(since) >= least;
        let patience = self.health.block_time() / 2;
        let is_due = match (stood, stands) {
            (false, true) => lasts(stands_since, patience),
            (true, true) => lasts(since, patience) && lasts(self.decided_at, REPORT_PAUSE),
            (true, false) => true,
            (false, false) => self.decided.is_none() || lasts(self.decided_at, REPORT_PAUSE),
        };
        if !is_due || self.decided == Some((choice, agreeing)) {
            return;
        }
        let before = self.decided.replace((choice, agreeing));
        self.decided_at = now;
        (self.on_event)(Event::Decided { choice, agreeing });
        if stands && before.is_none_or(|(before, _)| before != choice) {
            let (number, hash) = decision.refusal.map(|refusal| refusal.head).unzip();
            tracing::warn!(
                reason = choice.label(),
                agreeing,
                heads = self.describe(&decision.heads),
                number,
                hash = hash.map(tracing::field::display),
                by = decision.refusal.map(|refusal| self.names(refusal.by)),
                "the head stands: {choice}"
            );
        } else if stood && !stands {
            tracing::info!(agreeing, "the head goes on");
        }
    }

    /// Reports upstreams that contradict a quorum, each other while no quorum agrees, or a block
    /// that the chain has to contain, once until they have not for some time.
    fn report_dissent(&mut self, decision: &Decision) {
        let insist = |node| decision.refusal.filter(|refusal| refusal.by.has(node));
        let (now, quiet) = (self.now(), self.health.block_time() * DISSENT_QUIET_BLOCKS);
        for &Dissent { node, theirs, ours } in &decision.dissent {
            let upstream = &mut self.upstreams[node];
            let before = upstream.dissented_at.replace(now);
            if before.is_some_and(|before| now.saturating_sub(before) < quiet) {
                continue;
            }
            let (number, hash) = theirs;
            let node_name = upstream.client.name();
            match ours {
                None if let Some(refusal) = insist(node) => tracing::warn!(
                    node = node_name,
                    number,
                    %hash,
                    reason = refusal.choice.label(),
                    "the node insists on a chain that may not be served"
                ),
                Some(ours) => tracing::warn!(
                    node = node_name,
                    number,
                    %hash,
                    quorum = %ours,
                    "the node contradicts a quorum"
                ),
                None => tracing::warn!(
                    node = node_name,
                    number,
                    %hash,
                    "the node contradicts another one, and no quorum agrees"
                ),
            }
            (self.on_event)(Event::Dissent(node));
        }
    }

    fn report_quarantine(&mut self, quarantined: NodeSet) {
        let before = std::mem::replace(&mut self.quarantined, quarantined);
        for id in quarantined.without(before).iter() {
            self.health.set_quarantined(id, true);
            let name = self.upstreams[id].client.name();
            tracing::warn!(node = name, "the node is quarantined");
        }
        for id in before.without(quarantined).iter() {
            self.health.set_quarantined(id, false);
            let name = self.upstreams[id].client.name();
            tracing::info!(node = name, "the node is no longer quarantined");
        }
    }

    /// What each upstream names, for the log.
    fn describe(&self, heads: &[(UpstreamId, Point)]) -> String {
        let heads = heads.iter().map(|(id, (number, hash))| {
            let name = self.upstreams[*id].client.name();
            format!("{name} {number} {hash}")
        });
        heads.collect::<Vec<_>>().join(", ")
    }

    fn names(&self, nodes: NodeSet) -> String {
        let names = nodes.iter().map(|id| self.upstreams[id].client.name());
        names.collect::<Vec<_>>().join(", ")
    }
}
