//! What the follower does with a decision about the head.

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
            AskHash, Decision, Dissent, Effect, Fetch, HeadAuthority, NodeAccess, NodeSet,
            Situation,
        },
        chain::Chain,
        client::HeadClaim,
        health::{CallClass, Fault, UpstreamId, Verdict},
        plan::{PathOutcome, SyncPath},
    },
};

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
        let held = self.window.held();
        let nodes = (0..self.upstreams.len()).map(|id| NodeAccess {
            may_fetch: self.may_fetch(id),
            strikes: self.health.strikes(id),
        });
        let nodes: Vec<_> = nodes.collect();
        let situation = Situation {
            now: self.now(),
            block_time: self.health.block_time(),
            held: held.as_ref(),
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
            Some(PathOutcome::Reset) => {
                tracing::warn!(
                    node = self.upstreams[sync.upstream].client.name(),
                    head = sync.head.0,
                    "no path leads from the window to the head: the window starts again there"
                );
                sync.goal = Goal::RESET;
            }
        }
    }

    /// Begins or keeps the sync to this head; drops any other.
    fn sync_to(&mut self, fetch: Option<Fetch>) {
        let Some(Fetch { from, to, .. }) = fetch else {
            self.sync = None;
            return;
        };
        let is_kept = |sync: &HeadSync| (sync.upstream, sync.head) == (from, to);
        if self.sync.as_ref().is_some_and(is_kept) {
            return;
        }
        let (now, held) = (self.now(), self.window.held());
        let path = |held: &W::Held| Goal::Path(SyncPath::to(to.0, to.1, held));
        self.sync = Some(HeadSync {
            upstream: from,
            head: to,
            named_at: self.health.named_at(from, to.1).unwrap_or(now),
            progressed_at: now,
            goal: held.as_ref().map_or(Goal::RESET, path),
        });
    }

    /// Asks upstreams for hashes; none gets a second question before it has answered the first.
    fn ask_hashes(&mut self, asks: &[AskHash]) {
        for &AskHash { node, number } in asks {
            let may_ask = self.health.may_ask(node, CallClass::Heads, self.now());
            let upstream = &mut self.upstreams[node];
            if may_ask && !upstream.is_asked_for_hash {
                upstream.is_asked_for_hash = true;
                let client = upstream.client.clone();
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
            Goal::Reset {
                block: Some(block), ..
            } => {
                let outcome = self.window.reset(block).await;
                if self.is_changed(upstream, outcome)? {
                    self.head_changed(upstream, head.0);
                    (self.backfill, self.settled) = (None, None);
                    (self.on_event)(Event::WindowStarted(head.0));
                }
            }
            Goal::Path(_) | Goal::Reset { block: None, .. } => {}
        }
        Ok(())
    }

    fn head_changed(&mut self, upstream: UpstreamId, number: u64) {
        let now = self.now();
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
            Err(ChangeError::Early) => self.hold_fetches(upstream),
        }
        Ok(false)
    }

    /// Handles a header that breaks a rule, or that cannot be checked.
    fn header_refused(&mut self, upstream: UpstreamId, number: u64, refusal: &HeaderRefusal) {
        match refusal {
            HeaderRefusal::Broken(error) => {
                let error = format!("block {number}: {error}");
                let (class, verdict) = (CallClass::Blocks, Verdict::Fault(Fault::BadBlock));
                let reason = Some(Check::Header.label());
                self.failed_with(upstream, class, verdict, reason, &error);
            }
            HeaderRefusal::UnknownFork { .. } => {
                let name = self.upstreams[upstream].client.name();
                tracing::error!(node = name, "{refusal}");
                self.hold_fetches(upstream);
            }
        }
    }

    /// Asks an upstream for no block of a head for a quarter of a block time.
    fn hold_fetches(&mut self, upstream: UpstreamId) {
        let until = self.now() + self.health.block_time() / 4;
        self.upstreams[upstream].fetch_hold_until = until;
    }

    /// Hands over which blocks are safe and finalized, if that has changed.
    async fn settle(&mut self) -> Result<(), W::Error> {
        let settled = self.with_situation(A::settle);
        if self.window.held().is_none() || self.settled == Some(settled) {
            return Ok(());
        }
        let before = self.settled.replace(settled);
        let finalized = settled.finalized;
        if let Some(point) = finalized
            && before.and_then(|before| before.finalized) != finalized
        {
            (self.on_event)(Event::Finalized(point));
        }
        let safe = settled.safe;
        self.window.settle(SettleHead { safe, finalized }).await
    }

    /// Reports what has changed with a decision. That the head stands is reported only once it has
    /// stood for half a block time: nodes disagree for a moment whenever one publishes first.
    fn report_decision(&mut self, decision: &Decision) {
        self.report_dissent(&decision.dissent);
        self.report_quarantine(decision.quarantined);
        let (now, choice) = (self.now(), decision.choice);
        if choice.effect() == Effect::Stand {
            let stands_since = *self.stands_since.get_or_insert(now);
            let is_new = self
                .decided
                .is_none_or(|(before, _)| before.effect() != Effect::Stand);
            if is_new && now.saturating_sub(stands_since) < self.health.block_time() / 2 {
                return;
            }
        } else {
            self.stands_since = None;
        }
        let agreeing = decision.have;
        let before = self.decided.replace((choice, agreeing));
        if before == Some((choice, agreeing)) {
            return;
        }
        (self.on_event)(Event::Decided { choice, agreeing });
        let effect_before = before.map(|(before, _)| before.effect());
        match choice.effect() {
            Effect::Stand if before.is_none_or(|(before, _)| before != choice) => {
                let refused = decision.refusal.map(|refusal| refusal.head);
                let by = decision.refusal.map(|refusal| self.names(refusal.by));
                tracing::warn!(
                    reason = choice.label(),
                    agreeing,
                    head = ?refused,
                    by,
                    "the head stands: {choice}"
                );
            }
            Effect::Adopt | Effect::Keep if effect_before == Some(Effect::Stand) => {
                tracing::info!(agreeing, "the head goes on");
            }
            _ => {}
        }
    }

    /// Reports upstreams that contradict a quorum, once until they name a served head again.
    fn report_dissent(&mut self, dissent: &[Dissent]) {
        if let Some(held) = self.window.held() {
            let is_served = |head: HeadClaim| held.has(head.number, head.hash);
            let health = &self.health;
            self.dissenting = self
                .dissenting
                .filter(|id| !health.head(id).is_some_and(is_served));
        }
        for &Dissent { node, theirs, ours } in dissent {
            if self.dissenting.has(node) {
                continue;
            }
            self.dissenting.insert(node);
            let name = self.upstreams[node].client.name();
            let (number, hash) = theirs;
            tracing::warn!(
                node = name,
                number,
                %hash,
                quorum = %ours,
                "the upstream contradicts a quorum"
            );
            (self.on_event)(Event::Dissent(node));
        }
    }

    fn report_quarantine(&mut self, quarantined: NodeSet) {
        let before = std::mem::replace(&mut self.quarantined, quarantined);
        for id in quarantined.without(before).iter() {
            self.health.set_quarantined(id, true);
            let name = self.upstreams[id].client.name();
            tracing::warn!(node = name, "the upstream is quarantined");
        }
        for id in before.without(quarantined).iter() {
            self.health.set_quarantined(id, false);
            let name = self.upstreams[id].client.name();
            tracing::info!(node = name, "the upstream is no longer quarantined");
        }
    }

    fn names(&self, nodes: NodeSet) -> String {
        let names = nodes.iter().map(|id| self.upstreams[id].client.name());
        names.collect::<Vec<_>>().join(", ")
    }
}
