//! A process of the fleet, as `nearhead_actors::fleet` drives it.

use std::time::Duration;

use alloy_primitives::Bytes;

use super::{
    LEASE, LIMITS, STEP, TIMEOUT, WINDOW,
    message::{Answer, Request},
    oracle::Oracle,
    world::{Hashes, World},
};
use crate::{
    block_id::BlockId,
    chain::HeldChain,
    entry::{Content, HeadChange, SnapshotPart},
    fleet_key::FleetKey,
    leader::{Leader, Plan},
    lease::{Lease, LeaseEvent},
    policy::{Policy, Rule},
    position::Position,
    replica::Replica,
    scripts::Appended,
    store_model::Owner,
};

/// Time between two reads of a replica that follows.
const POLL: Duration = STEP;

/// Time before a refill begins again.
const REFILL_PAUSE: Duration = Duration::from_millis(100);

/// Time after which a refill takes blocks of the process' own nodes.
const REFILL_OWN: Duration = Duration::from_millis(1_500);

/// Time between two reports.
const REPORT: Duration = Duration::from_millis(200);

/// Time for which a leader follows nodes that are silent.
const STALE: Duration = Duration::from_millis(800);

pub(super) struct Process {
    pub(super) owner: Owner,
    pub(super) replica: Replica<Vec<(BlockId, Bytes)>>,
    pub(super) leader: Option<Leader>,
    lease: Lease,
    policy: Policy,
    key: FleetKey,
    /// Whether it has nodes of its own.
    pub(super) has_nodes: bool,
    /// Blocks by which its nodes are late.
    pub(super) late: usize,
    /// Its nodes are silent.
    pub(super) is_cut_from_nodes: bool,
    fresh_at: Duration,
    /// It has read the stream to its end.
    has_read: bool,
    /// The newest entry of the store, as it said last.
    pub(super) newest: Option<Position>,
    pub(super) own: HeldChain,
    settled: crate::entry::Settled,
    lease_asked: Option<Duration>,
    append_asked: Option<Duration>,
    read_asked: Option<Duration>,
    read_at: Duration,
    report_at: Duration,
    refill_since: Option<Duration>,
    pub(super) paused_until: Duration,
    pub(super) down_until: Duration,
    pub(super) cut_until: Duration,
    /// It still talks to the store that was deposed.
    pub(super) deposed_until: Duration,
}

impl Process {
    pub(super) fn new(process: usize, key: &FleetKey, has_nodes: bool, policy: Policy) -> Self {
        Self {
            owner: Owner { process, start: 0 },
            replica: Replica::new(key.clone(), WINDOW).with_policy(policy),
            leader: None,
            lease: Lease::new(LEASE).with_policy(policy),
            policy,
            key: key.clone(),
            has_nodes,
            late: 0,
            is_cut_from_nodes: false,
            fresh_at: Duration::ZERO,
            has_read: false,
            newest: None,
            own: HeldChain::new(WINDOW),
            settled: crate::entry::Settled::default(),
            lease_asked: None,
            append_asked: None,
            read_asked: None,
            read_at: Duration::ZERO,
            report_at: Duration::ZERO,
            refill_since: None,
            paused_until: Duration::ZERO,
            down_until: Duration::ZERO,
            cut_until: Duration::ZERO,
            deposed_until: Duration::ZERO,
        }
    }

    /// The process ends, and starts again at this time without anything that it knew.
    pub(super) fn restart(&mut self, at: Duration) {
        let start = self.owner.start + 1;
        let late = self.late;
        *self = Self::new(self.owner.process, &self.key, self.has_nodes, self.policy);
        self.owner.start = start;
        self.late = late;
        self.down_until = at;
        self.fresh_at = at;
    }

    pub(super) fn runs(&self, now: Duration) -> bool {
        now >= self.paused_until && now >= self.down_until
    }

    /// The head that it serves.
    pub(super) fn head(&self) -> Option<BlockId> {
        match self.leader {
            Some(_) => self.own.head(),
            None => self.replica.chain().head(),
        }
    }

    fn note(&mut self, event: Option<LeaseEvent>, oracle: &mut Oracle) {
        match event {
            Some(LeaseEvent::Leads(epoch)) => {
                oracle.leads(self, epoch);
                let (key, policy) = (self.key.clone(), self.policy);
                self.leader = Some(Leader::with_policy(key, epoch, LIMITS, policy));
                self.append_asked = None;
            }
            Some(LeaseEvent::Lost(_)) => {
                if let Some(leader) = self.leader.take() {
                    let first = Position::new(leader.epoch(), 0);
                    let last = leader.last().unwrap_or(first);
                    let event = self.replica.led(last, self.own.clone());
                    oracle.noticed(self.owner, &[event]);
                    self.read_asked = None;
                }
            }
            None => {}
        }
    }

    /// Follows its nodes.
    fn observe(&mut self, world: &World, now: Duration) {
        if self.has_nodes && !self.is_cut_from_nodes {
            let (chain, settled) = world.view(self.late);
            if self.own != *chain {
                self.own = chain.clone();
            }
            self.settled = *settled;
            self.fresh_at = now;
        }
    }

    /// One step: what it sends to the store.
    pub(super) fn step(
        &mut self,
        world: &World,
        oracle: &mut Oracle,
        now: Duration,
    ) -> Vec<Request> {
        let mut requests = Vec::new();
        self.observe(world, now);
        let event = self.lease.check(now);
        self.note(event, oracle);
        let is_late = |asked: Option<Duration>| asked.is_some_and(|at| now >= at + TIMEOUT);
        if is_late(self.lease_asked) {
            self.lease_asked = None;
            let event = self.lease.failed(now);
            self.note(event, oracle);
        }
        self.lease.saw(self.replica.epoch());
        let is_fresh = self.has_nodes && now < self.fresh_at + STALE;
        if !is_fresh && let Some(epoch) = self.lease.epoch() {
            requests.push(Request::Release { epoch });
            let event = self.lease.released(now, LEASE);
            self.note(event, oracle);
        }
        if let Some(call) = self.lease.call(now, is_fresh && self.has_read) {
            self.lease_asked = Some(now);
            requests.push(Request::Lease(call));
        }
        if self.leader.is_some() {
            requests.extend(self.append(world, oracle, is_late(self.append_asked), now));
            return requests;
        }
        if is_late(self.read_asked) {
            self.read_asked = None;
        }
        if self.read_asked.is_none() && now >= self.read_at {
            self.read_asked = Some(now);
            let after = self.replica.cursor();
            requests.push(Request::Read { after });
        }
        if now >= self.report_at {
            self.report_at = now + REPORT;
            let mut report = self.replica.report();
            if !self.policy.holds(Rule::Report) {
                report.seen = Position::default();
                report.is_forked = false;
            }
            requests.push(Request::Report(report));
        }
        self.refill_from_nodes(oracle, now);
        requests
    }

    fn refill_from_nodes(&mut self, oracle: &mut Oracle, now: Duration) {
        if self.replica.refill().is_none() {
            self.refill_since = None;
            return;
        }
        let since = *self.refill_since.get_or_insert(now);
        if now >= since + REFILL_OWN && self.own.head().is_some() {
            self.replica.hold(self.own.clone());
            self.refill_since = None;
            oracle.held(self.owner);
        }
    }

    /// The next entry to append, or the one in progress again.
    fn append(
        &mut self,
        world: &World,
        oracle: &mut Oracle,
        is_late: bool,
        now: Duration,
    ) -> Option<Request> {
        let leader = self.leader.as_mut()?;
        if self.append_asked.is_some() && !is_late {
            return None;
        }
        if let Some(append) = leader.in_progress() {
            self.append_asked = Some(now);
            return Some(Request::Append(append.clone()));
        }
        let bytes = |_| super::world::BLOCK_BYTES;
        let before = leader.published();
        let plan = leader.plan(&self.own, self.settled, bytes)?;
        if matches!(plan, Plan::Change { .. }) {
            oracle.changed([before, leader.published(), self.own.head()]);
        }
        let settled = leader.settled();
        let entries = match &plan {
            Plan::Part { part, .. } => u64::from(part + 1),
            Plan::Change { .. } => 1,
        };
        let content = match plan {
            Plan::Part {
                part,
                parts,
                head,
                blocks,
            } => Content::Snapshot(SnapshotPart {
                part,
                parts,
                head,
                blocks: world.blocks(&blocks),
                settled,
                records: 0,
            }),
            Plan::Change {
                ancestor,
                reverted,
                blocks,
            } => Content::Change(HeadChange {
                ancestor,
                reverted,
                blocks: world.blocks(&blocks),
                settled,
                records: 0,
            }),
        };
        let head = leader.published().unwrap();
        let append = leader.seal(content).unwrap().clone();
        oracle.made(&append, head, entries);
        self.append_asked = Some(now);
        Some(Request::Append(append))
    }

    /// The store has answered.
    pub(super) fn receive(
        &mut self,
        asked_at: Duration,
        answer: Answer,
        world: &World,
        oracle: &mut Oracle,
        now: Duration,
    ) {
        match answer {
            Answer::Acquired(answer) => {
                self.answered(asked_at);
                self.lease.saw(self.replica.epoch());
                let event = self.lease.acquired(asked_at, answer, now);
                self.note(event, oracle);
            }
            Answer::Renewed(answer) => {
                self.answered(asked_at);
                let (event, is_wanted) = self.lease.renewed(asked_at, answer, now);
                if let Some(leader) = self.leader.as_mut().filter(|_| is_wanted) {
                    leader.want_snapshot();
                }
                self.note(event, oracle);
            }
            Answer::Appended(position, answer) => self.appended(position, answer, oracle, now),
            Answer::Entries(entries) => {
                if self.read_asked == Some(asked_at) {
                    self.read_asked = None;
                    self.read_at = now + POLL;
                }
                if self.leader.is_none() {
                    self.read(&entries, world, oracle, now);
                }
            }
        }
    }

    fn answered(&mut self, asked_at: Duration) {
        if self.lease_asked == Some(asked_at) {
            self.lease_asked = None;
        }
    }

    fn appended(
        &mut self,
        position: Position,
        answer: Appended,
        oracle: &mut Oracle,
        now: Duration,
    ) {
        let Some(leader) = self.leader.as_mut() else {
            return;
        };
        let newest = match answer {
            Appended::Appended(is_wanted) => {
                if leader
                    .in_progress()
                    .is_some_and(|append| append.entry.position == position)
                {
                    self.append_asked = None;
                }
                leader.appended(position, is_wanted);
                return;
            }
            Appended::Fenced(newest) => Some(newest),
            Appended::Gap | Appended::Blocked => None,
        };
        let event = self.lease.refused(position.epoch, newest, now);
        if event.is_some() {
            self.lease_asked = None;
        }
        self.note(event, oracle);
    }

    fn read(
        &mut self,
        entries: &[(Position, Bytes)],
        world: &World,
        oracle: &mut Oracle,
        now: Duration,
    ) {
        if entries.is_empty() {
            self.replica.at_end();
            self.has_read = true;
            if self.replica.refill().is_some() {
                self.read_at = now + REFILL_PAUSE;
            }
        }
        let mut verifier = Hashes(self.policy);
        for (id, bytes) in entries {
            let reading = self.replica.read(*id, bytes, &mut verifier);
            oracle.read(self, (*id, bytes), &reading, world);
        }
    }
}
