//! Reads the entries of the stream in their order, and says what to apply.
//!
//! An entry is applied if it has the fleet's MAC, is of the newest epoch, continues the entry
//! before it by number and digest, and its blocks continue the chain and are verified. Anything
//! else leads to a *refill*: the replica keeps what it has, and looks for a snapshot further on. It
//! never goes back to an earlier entry, and it reports each of these steps ([`ReplicaEvent`]).
//!
//! Reading and applying have places of their own. What others put into the store moves only the
//! former, and a refill that has reached the end of the stream begins again after the last entry
//! that was applied.

mod collecting;
mod event;
mod reading;

use alloy_primitives::B256;

pub use event::{Counters, RefillReason, Refusal, RefusalReason, ReplicaEvent};
pub use reading::{FalseContent, Reading, Report, Update, Verifier};

use self::collecting::Collecting;
use crate::{
    block_id::BlockId,
    chain::{BrokenChain, HeldChain},
    entry::{Content, Entry, HeadChange, OpenError, Settled, SnapshotPart},
    fleet_key::FleetKey,
    policy::{Policy, Rule},
    position::{Position, Tip},
};

/// The reader of the stream. It does no I/O: the caller reads the stream after
/// [`cursor`](Self::cursor), passes each entry to [`read`](Self::read), and calls
/// [`at_end`](Self::at_end) when there are no more.
#[derive(Debug)]
pub struct Replica<T> {
    key: FleetKey,
    policy: Policy,
    chain: HeldChain,
    /// The chain as of the entry that was applied last. The head of `chain` is the same, or above
    /// it if the process' own nodes were faster.
    published: HeldChain,
    blocks_max: usize,
    /// The entry that the next one has to continue; `None` if only a snapshot will do.
    applied: Option<Tip>,
    collecting: Option<Collecting<T>>,
    /// The newest entry that was applied or appended. Nothing up to here is applied again.
    seen: Position,
    /// The newest epoch that was met.
    epoch: u64,
    /// The newest revision of a record that a leader has stated.
    records: u64,
    cursor: Position,
    refill: Option<RefillReason>,
    forked_epoch: Option<u64>,
    /// The last entry of the fleet's own that was refused. It is not verified again.
    refused: Option<B256>,
    /// A pass over the stream has found no snapshot to begin with.
    wants_snapshot: bool,
    unknown_version: Option<u8>,
    counters: Counters,
}

impl<T> Replica<T> {
    /// A replica that has nothing, and will hold at most `blocks_max` blocks.
    #[must_use]
    pub fn new(key: FleetKey, blocks_max: usize) -> Self {
        let mut replica = Self {
            key,
            policy: Policy::default(),
            chain: HeldChain::new(blocks_max),
            published: HeldChain::new(blocks_max),
            blocks_max,
            applied: None,
            collecting: None,
            seen: Position::default(),
            epoch: 0,
            records: 0,
            cursor: Position::default(),
            refill: None,
            forked_epoch: None,
            refused: None,
            wants_snapshot: false,
            unknown_version: None,
            counters: Counters::default(),
        };
        replica.begin_refill(RefillReason::Start);
        replica
    }

    #[cfg(test)]
    pub(crate) const fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The blocks that are held.
    #[must_use]
    pub const fn chain(&self) -> &HeldChain {
        &self.chain
    }

    /// The place after which to read.
    #[must_use]
    pub const fn cursor(&self) -> Position {
        self.cursor
    }

    /// The entry that was applied last; `None` while only a snapshot will do.
    #[must_use]
    pub const fn applied(&self) -> Option<Tip> {
        self.applied
    }

    /// The newest epoch that was met: a process that acquires the lease has to exceed it.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The newest revision of a record that a leader has stated: see
    /// [`Manifest::revision`](crate::record_set::Manifest::revision).
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Why the replica looks for a snapshot; `None` if it follows.
    #[must_use]
    pub const fn refill(&self) -> Option<RefillReason> {
        self.refill
    }

    /// The version of an entry that this program cannot read, until one was read again.
    #[must_use]
    pub const fn unknown_version(&self) -> Option<u8> {
        self.unknown_version
    }

    /// How often things happened.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The newest entry that was applied or appended.
    #[must_use]
    pub const fn seen(&self) -> Position {
        self.seen
    }

    /// What to report to the store.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            // An entry of this epoch was met, and its first one has number 0.
            seen: self.last_read().max(Position::new(self.epoch, 0)),
            is_forked: self.forked_epoch == Some(self.epoch) && self.epoch > 0,
            wants_snapshot: self.wants_snapshot,
        }
    }

    /// The newest entry that was applied or collected.
    fn last_read(&self) -> Position {
        let collected = self.collecting.as_ref().map(|parts| parts.tip.position);
        collected.map_or(self.seen, |position| position.max(self.seen))
    }

    /// Takes over blocks that the process has from its own nodes, because the stream has no
    /// snapshot, or because it leads. It goes on with the next snapshot.
    pub fn hold(&mut self, chain: HeldChain) {
        self.chain = chain;
        self.published = HeldChain::new(self.blocks_max);
        self.applied = None;
        self.collecting = None;
    }

    /// Notes that this process led until now: it appended entries up to this one, and holds these
    /// blocks.
    pub fn led(&mut self, last: Position, chain: HeldChain) -> ReplicaEvent {
        self.hold(chain);
        self.seen = self.seen.max(last);
        self.epoch = self.epoch.max(last.epoch);
        self.cursor = self.seen;
        self.begin_refill(RefillReason::Led)
    }

    /// Notes that the process did not take what was to be applied last: it still holds these
    /// blocks.
    pub fn not_applied(&mut self, chain: HeldChain) -> ReplicaEvent {
        self.hold(chain);
        self.begin_refill(RefillReason::NotApplied)
    }

    /// Notes that there are no entries after the cursor now. A refill begins again after the last
    /// entry that counted: the caller waits before it reads on.
    pub fn at_end(&mut self) {
        if self.refill.is_some() {
            self.cursor = self.last_read();
            self.wants_snapshot = self.collecting.is_none();
        }
    }

    /// Reads the entry that the store has under this id.
    pub fn read<V: Verifier<Verified = T>>(
        &mut self,
        id: Position,
        bytes: &[u8],
        verifier: &mut V,
    ) -> Reading<T> {
        self.cursor = self.cursor.max(id);
        let mut reading = Reading {
            update: None,
            events: Vec::new(),
        };
        if let Err(refusal) = self.read_entry(id, bytes, verifier, &mut reading) {
            if let Refusal::Open(OpenError::Version(version)) = refusal {
                self.unknown_version = Some(version);
            }
            self.note(&mut reading, ReplicaEvent::Refused(id, refusal));
            if self.refill.is_none() {
                reading
                    .events
                    .push(self.begin_refill(RefillReason::Refused));
            }
        }
        reading
    }

    fn note(&mut self, reading: &mut Reading<T>, event: ReplicaEvent) {
        self.counters.count(&event);
        reading.events.push(event);
    }

    fn begin_refill(&mut self, reason: RefillReason) -> ReplicaEvent {
        self.refill = Some(reason);
        let event = ReplicaEvent::Refill(reason);
        self.counters.count(&event);
        event
    }

    fn read_entry<V: Verifier<Verified = T>>(
        &mut self,
        id: Position,
        bytes: &[u8],
        verifier: &mut V,
        reading: &mut Reading<T>,
    ) -> Result<(), Refusal> {
        let (entry, digest) = Entry::open_by(bytes, &self.key, self.policy)?;
        let position = entry.position;
        if self.policy.holds(Rule::Epoch) {
            self.check_place(id, position)?;
            if position <= self.last_read() {
                self.check_same(position, digest, reading);
                return Ok(());
            }
        }
        if self.refused == Some(digest) {
            return Ok(());
        }
        self.records = self.records.max(entry.content.records());
        if position.epoch > self.epoch {
            self.epoch = position.epoch;
            self.note(reading, ReplicaEvent::Epoch(position.epoch));
        }
        let tip = Tip { position, digest };
        let read = match &entry.content {
            Content::Snapshot(part) => {
                self.read_part(&entry, part, tip, bytes.len(), verifier, reading)
            }
            Content::Change(change) => self.read_change(&entry, change, tip, verifier, reading),
        };
        if read.is_err() {
            self.refused = Some(digest);
        }
        read
    }

    /// Checks that an entry is where it belongs, and of the newest epoch.
    const fn check_place(&self, id: Position, position: Position) -> Result<(), Refusal> {
        if position.epoch < self.epoch {
            let (found, seen) = (position.epoch, self.epoch);
            return Err(Refusal::Epoch { found, seen });
        }
        match position.epoch == id.epoch && position.sequence == id.sequence {
            true => Ok(()),
            false => Err(Refusal::Misplaced(position)),
        }
    }

    /// An entry was read again: it has to be the same one.
    fn check_same(&mut self, position: Position, digest: B256, reading: &mut Reading<T>) {
        let is_other = |tip: Tip| tip.position == position && tip.digest != digest;
        if self.applied.is_some_and(is_other) {
            self.fork(position.epoch, reading);
        }
    }

    fn fork(&mut self, epoch: u64, reading: &mut Reading<T>) {
        self.forked_epoch = Some(epoch);
        if self.refill != Some(RefillReason::Forked) {
            reading.events.push(self.begin_refill(RefillReason::Forked));
        }
    }

    /// Whether an entry continues the one that was applied last.
    fn continues(&self, entry: &Entry) -> bool {
        self.applied.is_some_and(|tip| {
            let is_next = entry.position == tip.position.next() && entry.previous == tip.digest;
            is_next || !self.policy.holds(Rule::Chain)
        })
    }

    /// An entry is of no use: something before it is missing.
    fn miss(&mut self, entry: &Entry, reading: &mut Reading<T>) {
        let Some(tip) = self.applied else {
            return;
        };
        if entry.position == tip.position.next() {
            self.fork(entry.position.epoch, reading);
        } else if self.refill.is_none() {
            reading.events.push(self.begin_refill(RefillReason::Gap));
        }
    }

    fn read_change<V: Verifier<Verified = T>>(
        &mut self,
        entry: &Entry,
        change: &HeadChange,
        tip: Tip,
        verifier: &mut V,
        reading: &mut Reading<T>,
    ) -> Result<(), Refusal> {
        // A snapshot ends with its last part: what comes before that is not its end.
        self.drop_collected(reading);
        if !self.continues(entry) {
            self.miss(entry, reading);
            return Ok(());
        }
        let mut chain = self.published.reverted(change.ancestor, &change.reverted)?;
        chain.extend(&change.blocks)?;
        let head = chain.head().unwrap_or(change.ancestor);
        check_settled(change.settled, head)?;
        let verified = self.verify(&entry.content, verifier)?;
        let settled = change.settled;
        self.apply(tip, chain, vec![verified], settled, Some(change), reading);
        Ok(())
    }

    fn read_part<V: Verifier<Verified = T>>(
        &mut self,
        entry: &Entry,
        part: &SnapshotPart,
        tip: Tip,
        bytes: usize,
        verifier: &mut V,
        reading: &mut Reading<T>,
    ) -> Result<(), Refusal> {
        let is_next = |parts: &Collecting<T>| parts.expects(tip.position, entry.previous, part);
        let mut parts = match self.collecting.take_if(|parts| is_next(parts)) {
            Some(parts) => parts,
            None => {
                self.drop_collected(reading);
                match self.begin_snapshot(entry, part, tip, reading)? {
                    Some(parts) => parts,
                    None => return Ok(()),
                }
            }
        };
        let chain = parts.check(part, bytes)?;
        let verified = self.verify(&entry.content, verifier)?;
        parts.add(tip, chain, part.settled, verified, bytes);
        if !parts.is_complete() {
            self.collecting = Some(parts);
            return Ok(());
        }
        let head = part.head;
        check_settled(parts.settled, head)?;
        let Collecting {
            chain,
            verified,
            settled,
            ..
        } = parts;
        // A leader may merely be behind when it begins.
        self.apply(tip, chain, verified, settled, None, reading);
        Ok(())
    }

    /// A part that continues no snapshot so far: begins one with it, unless it is of no use.
    fn begin_snapshot(
        &mut self,
        entry: &Entry,
        part: &SnapshotPart,
        tip: Tip,
        reading: &mut Reading<T>,
    ) -> Result<Option<Collecting<T>>, Refusal> {
        let begins_epoch = tip.position.sequence == 0
            && self
                .applied
                .is_none_or(|last| last.position.epoch < tip.position.epoch);
        if self.continues(entry) {
            if self.published.head() == Some(part.head) {
                // What it says is applied already.
                self.follow(tip);
                return Ok(None);
            }
            if part.part != 0 {
                return Err(BrokenChain::Head(part.head.number).into());
            }
        } else if !begins_epoch {
            self.miss(entry, reading);
        }
        Ok((part.part == 0).then(|| Collecting::new(tip, part, self.blocks_max)))
    }

    /// The parts of a snapshot so far are of no use: its next one is missing.
    fn drop_collected(&mut self, reading: &mut Reading<T>) {
        if self.collecting.take().is_some() {
            reading.events.push(self.begin_refill(RefillReason::Gap));
        }
    }

    fn verify<V: Verifier<Verified = T>>(
        &self,
        content: &Content,
        verifier: &mut V,
    ) -> Result<T, Refusal> {
        let verified = verifier.verify(content);
        verified.map_err(|FalseContent(why)| Refusal::False(why))
    }

    /// Moves to the chain that an entry leads to. Nothing is to be applied if its head is below
    /// that of this process, on the same chain: to revert blocks that come back soon helps nobody.
    /// A rollback is applied: the leader's nodes have gone back, and stayed there.
    fn apply(
        &mut self,
        tip: Tip,
        chain: HeldChain,
        verified: Vec<T>,
        settled: Settled,
        change: Option<&HeadChange>,
        reading: &mut Reading<T>,
    ) {
        let is_rollback =
            change.is_some_and(|change| change.blocks.is_empty() && !change.reverted.is_empty());
        let from = change.and_then(|_| self.published.head());
        let path = self.chain.path_to(&chain);
        let is_behind = path.applied.is_empty() && !path.reverted.is_empty() && !is_rollback;
        if let Some(head) = chain.head().filter(|_| !is_behind) {
            self.chain.clone_from(&chain);
            reading.update = Some(Update {
                ancestor: path.ancestor,
                reverted: path.reverted,
                verified,
                head,
                settled,
                from,
                is_rollback,
            });
        }
        self.published = chain;
        self.follow(tip);
        self.note(reading, ReplicaEvent::Applied(tip.position));
    }

    /// The entry counts, and the next one has to continue it.
    fn follow(&mut self, tip: Tip) {
        self.applied = Some(tip);
        self.seen = self.seen.max(tip.position);
        self.cursor = self.seen;
        self.refill = None;
        self.wants_snapshot = false;
        self.unknown_version = None;
    }
}

/// Checks that the finalized block is not above the safe one, and that not above the head.
fn check_settled(settled: Settled, head: BlockId) -> Result<(), BrokenChain> {
    let numbers = [settled.finalized, settled.safe, Some(head.number)];
    match numbers.into_iter().flatten().is_sorted() {
        true => Ok(()),
        false => Err(BrokenChain::Settled),
    }
}

#[cfg(test)]
mod tests;
