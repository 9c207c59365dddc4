//! What must hold, whatever happens.

use std::collections::HashMap;

use alloy_primitives::{B256, Bytes};

use super::{
    LIMITS,
    kinds::{Kind, Kinds},
    process::Process,
    world::World,
};
use crate::{
    block_id::BlockId,
    entry::Entry,
    fleet_key::FleetKey,
    leader::Append,
    policy::{Policy, Rule},
    position::{Position, Tip},
    replica::{Reading, ReplicaEvent},
    store_model::Owner,
};

/// What one replica has applied.
#[derive(Clone, Debug, Default)]
struct Progress {
    start: u32,
    tip: Option<Tip>,
    /// Blocks that it held when it had read the last entry.
    held: Vec<B256>,
    /// It has reported why the next entry need not continue the last one.
    may_jump: bool,
}

/// Sees everything that happens, and remembers the first invariant that broke.
pub(super) struct Oracle {
    key: FleetKey,
    policy: Policy,
    /// The entries of the fleet's own: where each is, the head that it leads to, and how many
    /// entries are applied with it.
    made: HashMap<B256, (Position, BlockId, u64)>,
    /// The bytes of the latest entry that was made for each place.
    bytes: HashMap<Position, Bytes>,
    progress: HashMap<usize, Progress>,
    leaders: u64,
    pub(super) kinds: Kinds,
    pub(super) applied: u64,
    pub(super) broken: Option<String>,
}

impl Oracle {
    pub(super) fn new(key: FleetKey, policy: Policy) -> Self {
        Self {
            key,
            policy,
            made: HashMap::new(),
            bytes: HashMap::new(),
            progress: HashMap::new(),
            leaders: 0,
            kinds: Kinds::default(),
            applied: 0,
            broken: None,
        }
    }

    fn fail(&mut self, text: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(text());
        }
    }

    /// A process begins to lead.
    pub(super) fn leads(&mut self, process: &Process, epoch: u64) {
        let seen = process.replica.epoch();
        self.leaders += 1;
        if self.leaders > 1 {
            self.kinds.note(Kind::LeaderChanged);
        }
        if epoch <= seen {
            self.fail(|| format!("epoch {epoch} was begun by who has seen {seen}"));
        }
    }

    /// Checks a planned change `from` one head `to` another; later parts lead to the leader's
    /// `own`.
    pub(super) fn changed(&mut self, [from, to, own]: [Option<BlockId>; 3]) {
        let number = |id: Option<BlockId>| id.map(|id| id.number);
        if to != own && number(to) < number(from) {
            self.fail(|| format!("a part of a change leads back from {from:?} to {to:?}"));
        }
    }

    /// A leader has made an entry.
    pub(super) fn made(&mut self, append: &Append, head: BlockId, entries: u64) {
        if append.begins_snapshot && append.entry.position.sequence > 0 {
            self.kinds.note(Kind::Snapshot);
        }
        let entry = &append.entry;
        self.bytes.insert(entry.position, entry.bytes.clone());
        let made = (entry.position, head, entries);
        self.made.insert(append.entry.digest, made);
    }

    fn of(&mut self, owner: Owner) -> &mut Progress {
        let progress = self.progress.entry(owner.process).or_default();
        if progress.start != owner.start {
            *progress = Progress {
                start: owner.start,
                ..Progress::default()
            };
        }
        progress
    }

    /// A process reported these events.
    pub(super) fn noticed(&mut self, owner: Owner, events: &[ReplicaEvent]) {
        for event in events {
            match event {
                ReplicaEvent::Refill(_) => {
                    self.kinds.note(Kind::Refilled);
                    self.of(owner).may_jump = true;
                }
                ReplicaEvent::Epoch(_) => self.of(owner).may_jump = true,
                ReplicaEvent::Refused(..) => self.kinds.note(Kind::Refused),
                ReplicaEvent::Applied(_) => self.applied += 1,
            }
        }
    }

    /// A process took blocks of its own nodes.
    pub(super) fn held(&mut self, owner: Owner) {
        self.kinds.note(Kind::RefilledFromNodes);
        self.of(owner).may_jump = true;
    }

    /// A process read this entry.
    pub(super) fn read(
        &mut self,
        process: &Process,
        entry: (Position, &Bytes),
        reading: &Reading<Vec<(BlockId, Bytes)>>,
        world: &World,
    ) {
        let name = process.owner.process;
        self.noticed(process.owner, &reading.events);
        self.check_refused(process, entry, &reading.events);
        if let Some(update) = &reading.update {
            let held = std::mem::take(&mut self.of(process.owner).held);
            if !update.reverted.is_empty() && held.contains(&update.head.hash) {
                self.fail(|| format!("process {name} reverted to a block that it had"));
            }
            let is_true = |(id, bytes): &(BlockId, Bytes)| {
                let block = world.get(&id.hash);
                block.is_some_and(|block| block.bytes == *bytes && block.id == *id)
            };
            if !update.verified.iter().flatten().all(is_true) {
                self.fail(|| format!("process {name} applied a false block"));
            }
            if Some(update.head) != process.replica.chain().head() {
                self.fail(|| format!("process {name} has another head than it says"));
            }
        }
        let ids = process.replica.chain().ids();
        self.of(process.owner).held = ids.map(|id| id.hash).collect();
        let Some(tip) = process.replica.applied() else {
            return;
        };
        let progress = self.of(process.owner);
        let before = progress.tip;
        if before == Some(tip) {
            return;
        }
        progress.tip = Some(tip);
        let may_jump = std::mem::take(&mut progress.may_jump) || before.is_none();
        let position = tip.position;
        let made = self.made.get(&tip.digest).copied();
        if let Some(before) = before.map(|tip| tip.position) {
            let is_next = position.epoch == before.epoch
                && made
                    .is_some_and(|(_, _, entries)| position.sequence == before.sequence + entries);
            if position <= before {
                self.fail(|| format!("process {name} went back from {before} to {position}"));
            }
            if position != before.next() && !is_next && !may_jump {
                self.fail(|| format!("process {name} jumped from {before} to {position}"));
            }
        }
        let chain = process.replica.chain();
        match made {
            None => self.fail(|| format!("process {name} applied an entry that nobody made")),
            Some((at, _, _)) if at != position => {
                self.fail(|| format!("process {name} applied an entry at another place"));
            }
            // Its own nodes may have been faster.
            Some((_, made, _)) if !chain.holds(made) => {
                let (head, made) = (chain.head(), made.number);
                self.fail(|| format!("process {name} is at {head:?}, and {position} is at {made}"));
            }
            Some(_) => {}
        }
        self.check_chain(process, world);
    }

    /// What the fleet has not written, or not there, is refused and reported.
    fn check_refused(
        &mut self,
        process: &Process,
        (id, bytes): (Position, &Bytes),
        events: &[ReplicaEvent],
    ) {
        if !self.policy.holds(Rule::Mac) || !self.policy.holds(Rule::Epoch) {
            return;
        }
        if self.bytes.get(&id) == Some(bytes) {
            return;
        }
        let is_own = Entry::open(bytes, &self.key).is_ok_and(|(entry, _)| entry.position == id);
        let is_refused = |event: &ReplicaEvent| matches!(event, ReplicaEvent::Refused(..));
        if !is_own && !events.iter().any(is_refused) {
            let name = process.owner.process;
            self.fail(|| format!("process {name} passed over a false entry at {id}"));
        }
    }

    /// What a replica holds is a part of the true chain, or of one that was the true chain.
    fn check_chain(&mut self, process: &Process, world: &World) {
        let mut parent = None;
        for id in process.replica.chain().ids() {
            let Some(block) = world.get(&id.hash) else {
                self.fail(|| format!("block {} is invented", id.number));
                return;
            };
            if parent.is_some_and(|parent| parent != block.parent) || block.id != id {
                self.fail(|| format!("block {} is no child of the one before it", id.number));
            }
            parent = Some(id.hash);
        }
    }

    /// Entries were removed when this one was appended.
    pub(super) fn trimmed(&mut self, tail: Position, trimmed: &[Position], processes: &[Process]) {
        for process in processes {
            let Some(tip) = process.replica.applied() else {
                continue;
            };
            let position = tip.position;
            let is_near = position.epoch == tail.epoch
                && tail.sequence.saturating_sub(position.sequence) <= LIMITS.margin_entries;
            if is_near && process.leader.is_none() && trimmed.contains(&position.next()) {
                let name = process.owner.process;
                self.fail(|| {
                    format!("{tail} trimmed what process {name} reads next, after {position}")
                });
            }
        }
    }
}
