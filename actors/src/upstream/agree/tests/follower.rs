//! A follower in few lines: it does what decisions say, with the glue of the other rules.

use super::{
    sim_node::Mode,
    tree::{self, Id},
    world::{STEPS, World},
    *,
};
use crate::upstream::agree::{Choice, Decision, Effect, policy::Rule};

/// Blocks of the simulated window, its bytes, and the blocks that it keeps whatever their bytes.
const WINDOW: usize = 32;
pub(super) const BYTES_MAX: u64 = 64;
const BLOCKS_MIN: usize = 4;

/// How long a call takes, whatever the block time is.
const CALL_TIME: Duration = Duration::from_millis(250);

/// The longest backoff of a node that refuses to name its head: a block time, which is never less
/// than a second here. The first one is a poll's, and each is twice the one before.
const HEADS_BACKOFF: u64 = STEPS;

/// Steps without a block after which another upstream is asked, and the least time. Several liars
/// may be tried first, and still an honest quorum has to be followed within three block times.
const STUCK: u64 = STEPS / 2;
const STUCK_MIN: Duration = Duration::from_secs(1);

/// Steps without a block after which an upstream counts as slow. One that was not slow is asked
/// instead.
const PATIENCE: u64 = STEPS / 8;

/// Steps for which one upstream is asked for the blocks of a sync, if there is another one. A liar
/// may give each block just before it counts as stuck.
const SYNC_MAX: u64 = STEPS;

/// The most delays that count, and the steps after which they are forgotten.
const DELAYS_MAX: u32 = 8;
const FORGIVEN: u64 = 16 * STEPS;

/// Steps between two polls.
const POLL: u64 = STEPS / 4;

/// Steps for which a node that refuses or lies is backed off, and one that only gave no block.
const BACKOFF: u64 = 8 * STEPS;
const BACKOFF_STUCK: u64 = STEPS / 2;

/// Blocks that one step fetches.
const WIDTH: usize = 8;

/// Steps after which a head is no longer fresh.
pub(super) const STALE: u64 = 10 * STEPS;

/// The served chain, the lowest block first.
#[derive(Default)]
pub(super) struct Served {
    pub(super) ids: Vec<Id>,
    oldest: u64,
}

impl Chain for Served {
    fn head(&self) -> Point {
        let last = self.ids.len() - 1;
        (self.oldest + last as u64, tree::hash(self.ids[last]))
    }

    fn oldest(&self) -> u64 {
        self.oldest
    }

    fn hash_at(&self, number: u64) -> Option<B256> {
        let at = usize::try_from(number.checked_sub(self.oldest)?).ok()?;
        self.ids.get(at).map(|id| tree::hash(*id))
    }
}

/// A call in progress: when it was sent, and when its answer arrives, if ever.
#[derive(Clone, Copy)]
struct Call {
    sent: u64,
    arrives: Option<u64>,
}

/// How a call ended.
#[derive(PartialEq)]
enum Ended {
    Answered,
    TimedOut,
}

impl Call {
    /// How it has ended by this step, if it has.
    fn ended(self, step: u64, timeout: u64) -> Option<Ended> {
        if self.arrives.is_some_and(|at| at <= step) {
            return Some(Ended::Answered);
        }
        (step >= self.sent + timeout).then_some(Ended::TimedOut)
    }
}

/// Our side of one upstream.
#[derive(Default)]
struct Tracked {
    polled: Option<Call>,
    poll_at: u64,
    /// When the last poll that was answered was sent.
    answered_since: u64,
    /// A question for the hash at this number.
    asked: Option<(Call, u64)>,
    /// Not asked for heads, or for blocks, before these steps.
    heads_backoff: u64,
    heads_strikes: u32,
    blocks_backoff: u64,
    strikes: u32,
    /// How often it was slow, and when it was last.
    delays: u32,
    slow_at: u64,
    /// Calls for hashes.
    asks: u64,
}

struct Sync {
    from: usize,
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
    pub(super) settled: Settled,
    pub(super) choice: Choice,
    /// The step of the last change of the head.
    pub(super) changed_at: u64,
    /// How many times a sync was dropped with its blocks, to a head that an honest quorum has.
    pub(super) dropped: u64,
    policy: Policy,
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
        Self {
            quorum: Quorum::new(policy, count, persisted, trusted.into_iter().collect()),
            call_steps: world.steps_in(CALL_TIME),
            timeout: world.steps_in(heads_timeout(world.block_time)),
            stuck: STUCK.max(world.steps_in(STUCK_MIN)),
            links: Links::default(),
            held: None,
            settled: Settled::default(),
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
        let access = self.nodes.iter().map(|node| NodeAccess {
            may_fetch: node.blocks_backoff <= world.step,
            delays: match world.step < node.slow_at + FORGIVEN {
                true => node.delays,
                false => 0,
            },
            strikes: node.strikes,
        });
        let access: Vec<_> = access.collect();
        let situation = Situation {
            now: world.now(),
            block_time: world.block_time,
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
            tracked.poll_at = step + POLL;
            if ended == Ended::TimedOut {
                self.quorum.heard(now, node, Said::Failed);
            } else if world.nodes[node].mode == Mode::Gone {
                // Calls for heads are not backed off for long: an old majority that returns has to
                // be heard.
                let backoff = POLL << tracked.heads_strikes.min(8);
                tracked.poll_at = step + backoff.min(HEADS_BACKOFF);
                tracked.heads_strikes += 1;
                // It may give blocks all the same.
                if !self.policy.holds(Rule::Classes) {
                    tracked.blocks_backoff = step + BACKOFF;
                }
                self.quorum.heard(now, node, Said::Failed);
            } else {
                (tracked.heads_strikes, tracked.answered_since) = (0, call.sent);
                self.name_head(world, node);
            }
        }
        let tracked = &mut self.nodes[node];
        let may_ask = tracked.poll_at <= step && tracked.heads_backoff <= step;
        if tracked.polled.is_none() && may_ask {
            let delay = world.delay(node);
            tracked.polled = Some(Call {
                sent: step,
                arrives: delay.map(|delay| step + self.call_steps + delay),
            });
        }
    }

    fn name_head(&mut self, world: &mut World, node: usize) {
        let now = world.now();
        let is_other = world.nodes[node].mode == Mode::OtherChain;
        if is_other && self.policy.holds(Rule::Trusted) {
            self.quorum.heard(now, node, Said::Failed);
            return;
        }
        let claim = match world.head(node) {
            Ok(id) => world.tree.claim(id),
            Err(claim) => claim,
        };
        self.quorum.heard(now, node, Said::Head(claim));
        let settled = world.settled(node);
        self.quorum.heard(now, node, Said::Settled(settled));
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
            self.quorum.heard(world.now(), node, Said::Failed);
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
        if world.nodes[node].mode == Mode::RefusesState && !self.policy.holds(Rule::Classes) {
            self.nodes[node].heads_backoff = world.step + BACKOFF;
            self.quorum.heard(world.now(), node, Said::Failed);
        }
    }

    fn follow(&mut self, world: &mut World, decision: &Decision) -> bool {
        for ask in &decision.asks {
            let tracked = &mut self.nodes[ask.node];
            if tracked.asked.is_none() {
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
                if let Some(sync) = &mut self.sync
                    && sync.from != fetch.from
                {
                    (sync.from, sync.is_slow) = (fetch.from, false);
                    (sync.progressed_at, sync.from_since) = (world.step, world.step);
                }
                false
            }
            Some(fetch) => {
                let earlier = self.sync.take();
                self.sync = Some(Sync {
                    from: fetch.from,
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
        self.change_slow_source(step);
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
                    self.fail(from, step + BACKOFF_STUCK);
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
                self.fail(from, step + BACKOFF);
                self.sync = None;
                return;
            }
            let parent = tree::hash(block.parent);
            self.links.insert(sync.next, parent);
            if step <= sync.progressed_at.max(sync.from_since) + PATIENCE {
                let tracked = &mut self.nodes[from];
                tracked.delays = tracked.delays.saturating_sub(1);
            }
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
    fn change_slow_source(&mut self, step: u64) {
        let Some(sync) = &mut self.sync else {
            return;
        };
        let asked_for = step - sync.progressed_at.max(sync.from_since);
        if sync.is_agreed && !sync.is_complete && !sync.is_slow && asked_for > PATIENCE {
            sync.is_slow = true;
            let tracked = &mut self.nodes[sync.from];
            tracked.delays = tracked.delays.saturating_add(1).min(DELAYS_MAX);
            tracked.slow_at = step;
        }
        let from = sync.from;
        let is_other = |node: usize| {
            let has_head = self.quorum.stated(node).head().is_some();
            node != from && has_head && self.nodes[node].blocks_backoff <= step
        };
        if step - sync.from_since >= SYNC_MAX && (0..self.nodes.len()).any(is_other) {
            self.fail(from, step + BACKOFF_STUCK);
        }
    }

    /// Backs off an upstream. The next one goes on with the path, as far as it was fetched.
    fn fail(&mut self, node: usize, backoff: u64) {
        let tracked = &mut self.nodes[node];
        tracked.blocks_backoff = backoff;
        tracked.strikes += 1;
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
