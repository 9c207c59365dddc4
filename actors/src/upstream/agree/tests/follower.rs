//! A follower in few lines: it does what decisions say, with the glue of the other rules.

use super::{
    served::Served,
    sim_call::{Call, Ended},
    sim_node::Mode,
    tree::{self, Id},
    world::{STEPS, World},
    *,
};
use crate::upstream::{
    agree::{Choice, Decision, Effect, NodeSet, policy::Rule},
    health::{CallClass, Fault, Health, Verdict},
};

/// Blocks of the simulated window, its bytes, and the blocks that it keeps whatever their bytes.
const WINDOW: usize = 32;
pub(super) const BYTES_MAX: u64 = 64;
const BLOCKS_MIN: usize = 4;

/// How long a call takes, whatever the block time is.
const CALL_TIME: Duration = Duration::from_millis(250);

/// Steps without a block after which another upstream is asked, and the least time. Several liars
/// may be tried first, and still an honest quorum has to be followed within three block times.
const STUCK: u64 = STEPS / 2;
const STUCK_MIN: Duration = Duration::from_secs(1);

/// Steps for which one upstream is asked for the blocks of a sync, if there is another one. A liar
/// may give each block just before it counts as stuck.
const SYNC_MAX: u64 = STEPS;

/// Block times for which a node that refuses proofs asks to be left alone.
const REFUSES_BLOCKS: u32 = 8;

/// Blocks that one step fetches.
const WIDTH: usize = 8;

/// Steps after which a head is no longer fresh.
pub(super) const STALE: u64 = 10 * STEPS;

/// Our side of one upstream.
#[derive(Default)]
struct Tracked {
    polled: Option<Call>,
    /// When the last poll ended.
    polled_at: Option<Moment>,
    /// Whether it has named a head of this chain.
    is_on_chain: bool,
    /// When the last poll that was answered was sent.
    answered_since: u64,
    /// A question for the hash at this number.
    asked: Option<(Call, u64)>,
    /// Calls for hashes.
    asks: u64,
}

struct Sync {
    from: usize,
    voters: NodeSet,
    to: Point,
    /// The next block to fetch.
    next: Point,
    /// The head first.
    staged: Vec<Id>,
    /// Blocks that an earlier sync has fetched.
    known: Vec<Id>,
    progressed_at: u64,
    /// Since when the upstream has been asked.
    from_since: u64,
    is_complete: bool,
    is_agreed: bool,
    /// Whether the upstream counts as slow.
    is_slow: bool,
}

impl Sync {
    fn into_blocks(self) -> Vec<Id> {
        let blocks = self.staged.into_iter().chain(self.known);
        blocks.take(WINDOW).collect()
    }

    fn stage(&mut self, id: Id, parent: B256) {
        self.staged.push(id);
        self.next = (self.next.0.saturating_sub(1), parent);
    }
}

pub(super) struct SimFollower {
    pub(super) quorum: Quorum,
    pub(super) links: Links,
    pub(super) held: Option<Served>,
    pub(super) settled: SettledBlocks,
    pub(super) choice: Choice,
    /// The step of the last change of the head.
    pub(super) changed_at: u64,
    /// How many times a sync was dropped with its blocks, to a head that an honest quorum has.
    pub(super) dropped: u64,
    policy: Policy,
    health: Health,
    /// Steps that a call takes, and those after which it is given up.
    call_steps: u64,
    timeout: u64,
    /// Steps without a block after which another upstream is asked.
    stuck: u64,
    nodes: Vec<Tracked>,
    sync: Option<Sync>,
}

impl SimFollower {
    pub(super) fn new(world: &World, rule: Option<Rule>) -> Self {
        let count = world.nodes.len();
        let policy = Policy::new(world.quorum, count).without(rule);
        let trusted = world.trusted.map(|id| world.tree.point(id));
        let persisted = world.persisted.map(|id| world.tree.point(id));
        let mut health = Health::new(count, 1);
        health.learn_block_time((0, 0), (1, world.block_time.as_secs()));
        Self {
            health,
            quorum: Quorum::new(policy, count, persisted, trusted.into_iter().collect()),
            call_steps: world.steps_in(CALL_TIME),
            timeout: world.steps_in(heads_timeout(world.block_time)),
            stuck: STUCK.max(world.steps_in(STUCK_MIN)),
            links: Links::default(),
            held: None,
            settled: SettledBlocks::default(),
            choice: Choice::TooFewNodes,
            changed_at: 0,
            dropped: 0,
            policy,
            nodes: (0..count).map(|_| Tracked::default()).collect(),
            sync: None,
        }
    }

    /// Whether readers are told that the head is good.
    pub(super) fn is_ready(&self, step: u64) -> bool {
        let is_fresh = step - self.changed_at < STALE || !self.policy.holds(Rule::Freshness);
        self.held.is_some() && self.choice.effect() != Effect::Stand && is_fresh
    }

    /// The most calls for hashes that an upstream got.
    pub(super) fn most_asks(&self) -> u64 {
        self.nodes.iter().map(|node| node.asks).max().unwrap_or(0)
    }

    pub(super) fn bytes(&self, world: &World) -> u64 {
        let held = self.held.iter().flat_map(|held| &held.ids);
        held.map(|id| world.tree.get(*id).bytes).sum()
    }

    /// One step: answers arrive, decisions are made and followed.
    pub(super) fn step(&mut self, world: &mut World) {
        for node in 0..self.nodes.len() {
            self.poll(world, node);
            self.answer(world, node);
            self.read_state(world, node);
        }
        self.fetch(world);
        // Each turn changes the head, begins a fetch or ends.
        for _ in 0..4 {
            let decision = self.decide(world);
            self.choice = decision.choice;
            if !self.follow(world, &decision) {
                break;
            }
        }
        let settled = self.with_situation(world, |quorum, at| quorum.settle(at));
        self.settled = settled;
    }

    fn decide(&mut self, world: &World) -> Decision {
        self.with_situation(world, |quorum, at| quorum.decide(at))
    }

    fn with_situation<T>(
        &mut self,
        world: &World,
        act: impl FnOnce(&mut Quorum, &Situation<'_, Served>) -> T,
    ) -> T {
        let now = world.now();
        let access = (0..self.nodes.len()).map(|node| NodeAccess {
            may_fetch: self.may_fetch(node, now),
            delays: self.health.delays(node, now),
            strikes: self.health.strikes(node, now),
        });
        let access: Vec<_> = access.collect();
        let situation = Situation {
            now,
            block_time: self.health.block_time(),
            held: self.held.as_ref(),
            head_since: world.time_of(self.changed_at),
            links: &self.links,
            syncing: self.sync.as_ref().map(|sync| (sync.from, sync.to)),
            nodes: &access,
        };
        act(&mut self.quorum, &situation)
    }

    fn poll(&mut self, world: &mut World, node: usize) {
        let (step, now) = (world.step, world.now());
        let tracked = &mut self.nodes[node];
        if let Some(call) = tracked.polled
            && let Some(ended) = call.ended(step, self.timeout)
        {
            tracked.polled = None;
            tracked.polled_at = Some(now);
            if ended == Ended::TimedOut {
                self.fail(
                    world,
                    node,
                    CallClass::Heads,
                    Verdict::Fault(Fault::Timeout),
                );
            } else if world.nodes[node].mode == Mode::Gone {
                let verdict = Verdict::Fault(Fault::Connection);
                self.fail(world, node, CallClass::Heads, verdict);
                // It may give blocks all the same.
                if !self.policy.holds(Rule::Classes) {
                    self.fail(world, node, CallClass::Blocks, verdict);
                }
            } else {
                tracked.answered_since = call.sent;
                self.name_head(world, node);
            }
        }
        let tracked = &mut self.nodes[node];
        let at = |polled_at| self.health.poll_at(node, polled_at, false);
        if tracked.polled.is_none()
            && tracked
                .polled_at
                .is_none_or(|polled_at| at(polled_at) <= now)
        {
            let delay = world.delay(node);
            tracked.polled = Some(Call {
                sent: step,
                arrives: delay.map(|delay| step + self.call_steps + delay),
            });
        }
    }

    fn may_fetch(&self, node: usize, now: Moment) -> bool {
        self.nodes[node].is_on_chain && self.health.may_ask(node, CallClass::Blocks, now)
    }

    fn name_head(&mut self, world: &mut World, node: usize) {
        let now = world.now();
        let is_other = world.nodes[node].mode == Mode::OtherChain;
        if is_other && self.policy.holds(Rule::Trusted) {
            self.nodes[node].is_on_chain = false;
            let verdict = Verdict::Fault(Fault::WrongChain);
            return self.fail(world, node, CallClass::Heads, verdict);
        }
        self.nodes[node].is_on_chain = true;
        let claim = match world.head(node) {
            Ok(id) => world.tree.claim(id),
            Err(claim) => claim,
        };
        let settled = world.settled(node);
        self.quorum.heard(now, node, Said::Settled(settled));
        if self.health.head_named(node, now, claim) {
            self.quorum.heard(now, node, Said::Head(claim));
        }
    }

    fn answer(&mut self, world: &mut World, node: usize) {
        let tracked = &mut self.nodes[node];
        let Some((call, number)) = tracked.asked else {
            return;
        };
        let Some(ended) = call.ended(world.step, self.timeout) else {
            return;
        };
        tracked.asked = None;
        let is_gone = world.nodes[node].mode == Mode::Gone;
        // A node that has come back will not answer what it was asked before.
        if is_gone || ended == Ended::TimedOut && call.sent >= tracked.answered_since {
            let fault = if is_gone {
                Fault::Connection
            } else {
                Fault::Timeout
            };
            self.fail(world, node, CallClass::Heads, Verdict::Fault(fault));
        }
        let hash = match ended {
            Ended::Answered if !is_gone => world.hash_at(node, number),
            _ => None,
        };
        let said = Said::HashAt { number, hash };
        self.quorum.heard(world.now(), node, said);
    }

    /// A client reads state, which a node refuses. That must not cost it its vote.
    fn read_state(&mut self, world: &World, node: usize) {
        if world.nodes[node].mode == Mode::RefusesState {
            let class = match self.policy.holds(Rule::Classes) {
                true => CallClass::State,
                false => CallClass::Heads,
            };
            let wait = world.block_time * REFUSES_BLOCKS;
            self.fail(world, node, class, Verdict::Limited(Some(wait)));
        }
    }

    fn follow(&mut self, world: &mut World, decision: &Decision) -> bool {
        for ask in &decision.asks {
            let may_ask = self.health.may_ask(ask.node, CallClass::Heads, world.now());
            let tracked = &mut self.nodes[ask.node];
            if may_ask && tracked.asked.is_none() {
                let delay = world.hash_delay(ask.node);
                let call = Call {
                    sent: world.step,
                    arrives: delay.map(|delay| world.step + self.call_steps + delay),
                };
                tracked.asked = Some((call, ask.number));
                tracked.asks += 1;
            }
        }
        let is_staged = |sync: &Sync| sync.is_complete && decision.adopt == Some(sync.to);
        if self.sync.as_ref().is_some_and(is_staged) {
            self.apply(world);
            return true;
        }
        let target = self.sync.as_ref().map(|sync| sync.to);
        if let Some(sync) = &mut self.sync {
            match decision.fetch.filter(|fetch| fetch.to == sync.to) {
                Some(fetch) => sync.is_agreed |= fetch.is_agreed,
                // A sync to another head takes the blocks over.
                None if decision.fetch.is_some() => {}
                None => self.dropped += u64::from(sync.is_agreed && world.is_agreed(sync.to)),
            }
        }
        match decision.fetch {
            None => {
                self.sync = None;
                false
            }
            Some(fetch) if target == Some(fetch.to) => {
                if let Some(sync) = &mut self.sync {
                    sync.voters = fetch.voters;
                    if sync.from != fetch.from {
                        (sync.from, sync.is_slow) = (fetch.from, false);
                        (sync.progressed_at, sync.from_since) = (world.step, world.step);
                    }
                }
                false
            }
            Some(fetch) => {
                let earlier = self.sync.take();
                self.sync = Some(Sync {
                    from: fetch.from,
                    voters: fetch.voters,
                    to: fetch.to,
                    next: fetch.to,
                    staged: Vec::new(),
                    known: earlier.map_or_else(Vec::new, Sync::into_blocks),
                    progressed_at: world.step,
                    from_since: world.step,
                    is_complete: false,
                    is_agreed: fetch.is_agreed,
                    is_slow: false,
                });
                self.check_complete();
                true
            }
        }
    }

    /// A path is complete at a served block, at the lowest one, or if it is too far above.
    fn check_complete(&mut self) {
        let Some(sync) = &mut self.sync else {
            return;
        };
        sync.is_complete = match &self.held {
            None => !sync.staged.is_empty(),
            Some(held) => {
                let far = held.head().0.saturating_add(WINDOW as u64);
                let is_reset = sync.to.0 >= far || sync.next.0 <= held.oldest();
                let is_linked = held.has(sync.next.0, sync.next.1);
                is_linked || is_reset && !sync.staged.is_empty()
            }
        };
    }

    fn fetch(&mut self, world: &mut World) {
        let step = world.step;
        self.change_slow_source(world);
        for _ in 0..WIDTH {
            self.stage_known(world);
            let Some(sync) = &mut self.sync else {
                return;
            };
            if sync.is_complete {
                return;
            }
            let from = sync.from;
            let id = world.tree.find(sync.next.1);
            let Some(id) = id.filter(|id| world.gives(from, *id)) else {
                if step - sync.progressed_at >= self.stuck {
                    self.fail_slow(world, from);
                }
                return;
            };
            let block = world.tree.get(id);
            let is_another = block.number != sync.next.0;
            assert!(
                !is_another || self.policy.holds(Rule::Crash),
                "the window refused a block"
            );
            let is_broken = !block.is_valid && self.policy.holds(Rule::Headers);
            if is_another || is_broken {
                let verdict = Verdict::Fault(Fault::BadBlock);
                self.fail(world, from, CallClass::Blocks, verdict);
                self.sync = None;
                return;
            }
            let parent = tree::hash(block.parent);
            self.links.insert(sync.next, parent);
            let since = world.time_of(sync.progressed_at.max(sync.from_since));
            let (now, took) = (world.now(), world.now() - since);
            self.health.fetch_ended(from, now, took, true);
            (sync.progressed_at, sync.is_slow) = (step, false);
            sync.stage(id, parent);
            self.check_complete();
        }
    }

    /// Goes on with the blocks that an earlier sync has fetched.
    fn stage_known(&mut self, world: &World) {
        while let Some(sync) = self.sync.as_mut().filter(|sync| !sync.is_complete)
            && let Some(id) = world.tree.find(sync.next.1)
            && let Some(at) = sync.known.iter().position(|known| *known == id)
        {
            sync.known.swap_remove(at);
            sync.stage(id, tree::hash(world.tree.get(id).parent));
            self.check_complete();
        }
    }

    /// Notes that an upstream is slow, and backs off one that was asked for too long.
    fn change_slow_source(&mut self, world: &World) {
        let (step, now) = (world.step, world.now());
        let Some(sync) = &self.sync else {
            return;
        };
        let (from, from_since) = (sync.from, sync.from_since);
        let others = sync.voters.iter();
        let others = others.filter(|node| *node != from && self.may_fetch(*node, now));
        let since = world.time_of(sync.progressed_at.max(from_since));
        let is_late = self
            .health
            .patience(others, world.now())
            .is_some_and(|patience| now - since > patience);
        if let Some(sync) = &mut self.sync
            && sync.is_agreed
            && !sync.is_complete
            && !sync.is_slow
            && is_late
        {
            sync.is_slow = true;
            self.health.was_slow(from, now);
        }
        if step - from_since >= SYNC_MAX {
            self.fail_slow(world, from);
        }
    }

    /// Backs off an upstream that gives no block, if another voter can be asked. That one goes on
    /// with the path, as far as it was fetched.
    fn fail_slow(&mut self, world: &World, node: usize) {
        let now = world.now();
        let is_other = |other: usize| other != node && self.may_fetch(other, now);
        let voters = self.sync.as_ref().map(|sync| sync.voters);
        if voters.is_some_and(|voters| voters.iter().any(is_other)) {
            let verdict = Verdict::Fault(Fault::Timeout);
            self.fail(world, node, CallClass::Blocks, verdict);
        }
    }

    fn fail(&mut self, world: &World, node: usize, class: CallClass, verdict: Verdict) {
        let now = world.now();
        if class == CallClass::Heads {
            self.quorum.heard(now, node, Said::Failed);
        }
        self.health.failed(node, class, now, verdict);
    }

    fn apply(&mut self, world: &World) {
        let Some(sync) = self.sync.take() else {
            return;
        };
        let applied = sync.staged.into_iter().rev();
        match &mut self.held {
            Some(held) if held.has(sync.next.0, sync.next.1) => {
                let kept = (sync.next.0 - held.oldest) as usize + 1;
                held.ids.truncate(kept);
                held.ids.extend(applied);
            }
            _ => {
                // Backfill takes no time here.
                let head = world.tree.find(sync.to.1).unwrap();
                let oldest = sync.to.0.saturating_sub(WINDOW as u64 - 1);
                let ids =
                    (oldest..=sync.to.0).filter_map(|number| world.tree.ancestor(head, number));
                self.held = Some(Served {
                    ids: ids.collect(),
                    oldest,
                });
            }
        }
        let mut bytes = self.bytes(world);
        let is_bounded = self.policy.holds(Rule::Bytes);
        if let Some(held) = &mut self.held {
            while held.ids.len() > WINDOW
                || is_bounded && bytes > BYTES_MAX && held.ids.len() > BLOCKS_MIN
            {
                bytes -= world.tree.get(held.ids.remove(0)).bytes;
                held.oldest += 1;
            }
        }
        self.changed_at = world.step;
    }
}
