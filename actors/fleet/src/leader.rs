//! What a leader appends: a snapshot first, then each change of its head.
//!
//! One entry is in progress at a time, and the next one is what the leader's chain differs by from
//! what it has appended. So nothing waits in a queue: a leader that is slow appends fewer and
//! larger changes. If anything is refused, the epoch is over, and a new leader of this process
//! begins with a snapshot again.

mod retention;

use std::collections::VecDeque;

use alloy_primitives::B256;

pub use retention::LogLimits;

use self::retention::Retention;
use crate::{
    block_id::BlockId,
    bounds::SNAPSHOT_PARTS_MAX,
    chain::{HeldChain, Path},
    entry::{Content, Entry, EntryTooLarge, SealedEntry, Settled},
    fleet_key::FleetKey,
    policy::{Policy, Rule},
    position::Position,
};

/// What the next entry says. The caller adds the blocks' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A part of a snapshot of the chain that was planned with its first part.
    Part {
        /// Which part, from 0.
        part: u32,
        /// How many there are.
        parts: u32,
        /// The head of the snapshot.
        head: BlockId,
        /// Its blocks.
        blocks: Vec<BlockId>,
    },
    /// A change of the head.
    Change {
        /// The newest block that stays.
        ancestor: BlockId,
        /// Hashes of the blocks above it, the newest first.
        reverted: Vec<B256>,
        /// The new blocks.
        blocks: Vec<BlockId>,
    },
}

/// An entry to append, and what the script has to know with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The entry.
    pub entry: SealedEntry,
    /// Number of the oldest entry to keep.
    pub keep_from: u64,
    /// Number of entries that the store keeps in any case.
    pub entries_max: u64,
    /// Whether a snapshot begins with it.
    pub begins_snapshot: bool,
}

/// The writer of one epoch.
#[derive(Debug)]
pub struct Leader {
    key: FleetKey,
    policy: Policy,
    position: Position,
    previous: B256,
    /// The chain as of what was appended; `None` before the first snapshot.
    published: Option<HeldChain>,
    settled: Settled,
    /// Parts of a snapshot that are not appended yet.
    parts: VecDeque<Vec<BlockId>>,
    parts_count: u32,
    snapshot_is_wanted: bool,
    retention: Retention,
    in_progress: Option<Append>,
}

impl Leader {
    /// The writer of an epoch that has just been acquired.
    #[must_use]
    pub fn new(key: FleetKey, epoch: u64, limits: LogLimits) -> Self {
        Self::with_policy(key, epoch, limits, Policy::default())
    }

    pub(crate) fn with_policy(
        key: FleetKey,
        epoch: u64,
        limits: LogLimits,
        policy: Policy,
    ) -> Self {
        Self {
            key,
            policy,
            position: Position::new(epoch, 0),
            previous: B256::ZERO,
            published: None,
            settled: Settled::default(),
            parts: VecDeque::new(),
            parts_count: 0,
            snapshot_is_wanted: false,
            retention: Retention::new(limits, policy),
            in_progress: None,
        }
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.position.epoch
    }

    /// The entry that the store accepted last.
    #[must_use]
    pub const fn last(&self) -> Option<Position> {
        match self.position.sequence.checked_sub(1) {
            Some(sequence) => Some(Position::new(self.position.epoch, sequence)),
            None => None,
        }
    }

    /// The head as of what is planned.
    #[must_use]
    pub fn published(&self) -> Option<BlockId> {
        self.published.as_ref()?.head()
    }

    /// The entry that was made and that the store has not accepted yet. It is sent again,
    /// unchanged, until the store answers.
    #[must_use]
    pub const fn in_progress(&self) -> Option<&Append> {
        self.in_progress.as_ref()
    }

    /// Notes that a replica wants a snapshot.
    pub const fn want_snapshot(&mut self) {
        self.snapshot_is_wanted = true;
    }

    /// What to append next, given this process' own chain and settled blocks, and how many bytes
    /// each block has. `None` if nothing has changed, or if an entry is in progress.
    ///
    /// What is planned counts as appended: the caller makes it an entry by [`seal`](Self::seal).
    /// Blocks of a snapshot's later parts have to be available as long as they are planned.
    pub fn plan(
        &mut self,
        own: &HeldChain,
        settled: Settled,
        bytes: impl Fn(BlockId) -> usize,
    ) -> Option<Plan> {
        own.head()?;
        if self.in_progress.is_some() {
            return None;
        }
        if let Some(part) = self.next_part() {
            return Some(part);
        }
        let path = self.published.as_ref().map(|chain| chain.path_to(own));
        let change = path.and_then(|path| Some((path.ancestor?, path)));
        let is_wanted = self.snapshot_is_wanted && self.retention.may_write_snapshot();
        let Some((ancestor, path)) = change.filter(|(_, path)| {
            // Also without a common block: what is held below does not matter any more.
            !is_wanted && !self.retention.needs_snapshot() && !self.leads_back(path, &bytes)
        }) else {
            self.begin_snapshot(own, settled, bytes);
            return self.next_part();
        };
        if path.reverted.is_empty() && path.applied.is_empty() && settled == self.settled {
            return None;
        }
        let blocks = self.retention.first_part(&path.applied, &bytes);
        let mut published = own.clone();
        published.truncate_after(blocks.last().copied().unwrap_or(ancestor));
        self.settled = settled;
        self.published = Some(published);
        Some(Plan::Change {
            ancestor,
            reverted: path.reverted,
            blocks,
        })
    }

    /// Whether an entry has no room for a change, and its first part alone would lead replicas to a
    /// lower head than they have. They apply a snapshot at once, when its last part is there.
    fn leads_back(&self, path: &Path, bytes: impl Fn(BlockId) -> usize) -> bool {
        if path.reverted.is_empty() || !self.policy.holds(Rule::Split) {
            return false;
        }
        let part = self.retention.first_part(&path.applied, bytes);
        let number = |id: &BlockId| id.number;
        let head = self.published().as_ref().map(number);
        part.len() < path.applied.len() && part.last().map(number) < head
    }

    fn begin_snapshot(
        &mut self,
        own: &HeldChain,
        settled: Settled,
        bytes: impl Fn(BlockId) -> usize,
    ) {
        let mut left: Vec<BlockId> = own.ids().collect();
        while !left.is_empty() {
            let part = self.retention.first_part(&left, &bytes);
            left.drain(..part.len());
            self.parts.push_back(part);
        }
        // Replicas accept no more parts: the oldest blocks are left out.
        while self.parts.len() > SNAPSHOT_PARTS_MAX as usize {
            self.parts.pop_front();
        }
        self.parts_count = u32::try_from(self.parts.len()).unwrap_or(SNAPSHOT_PARTS_MAX);
        self.snapshot_is_wanted = false;
        // Replicas that follow pass over a snapshot: they are notified of settled blocks by a
        // change.
        if self.published.is_none() {
            self.settled = settled;
        }
        self.published = Some(own.clone());
    }

    fn next_part(&mut self) -> Option<Plan> {
        let left = u32::try_from(self.parts.len()).ok()?;
        let head = self.published()?;
        let blocks = self.parts.pop_front()?;
        Some(Plan::Part {
            part: self.parts_count - left,
            parts: self.parts_count,
            head,
            blocks,
        })
    }

    /// Settled blocks as of what is planned: those that its entry names.
    #[must_use]
    pub const fn settled(&self) -> Settled {
        self.settled
    }

    /// Makes an entry of what was planned.
    ///
    /// # Errors
    /// It is too large for replicas: the epoch cannot go on.
    pub fn seal(&mut self, content: Content) -> Result<&Append, EntryTooLarge> {
        let is_last = match &content {
            Content::Snapshot(part) => Some((part.part == 0, part.part + 1 == part.parts)),
            Content::Change(_) => None,
        };
        let entry = Entry {
            position: self.position,
            previous: self.previous,
            content,
        };
        let entry = entry.seal(&self.key)?;
        let bytes = entry.bytes.len();
        match is_last {
            Some((is_first, is_last)) => {
                self.retention
                    .add_part(self.position.sequence, bytes, is_first, is_last);
            }
            None => self.retention.add_change(self.position.sequence, bytes),
        }
        Ok(self.in_progress.insert(Append {
            entry,
            keep_from: self.retention.keep_from(),
            entries_max: self.retention.limits().store_entries,
            begins_snapshot: is_last.is_some_and(|(is_first, _)| is_first),
        }))
    }

    /// Notes that the store has accepted the entry of this position, and whether a replica wants a
    /// snapshot. An answer for an earlier entry is ignored.
    pub fn appended(&mut self, position: Position, snapshot_is_wanted: bool) {
        if let Some(append) = self
            .in_progress
            .take_if(|append| append.entry.position == position)
        {
            self.previous = append.entry.digest;
            self.position = position.next();
            self.snapshot_is_wanted |= snapshot_is_wanted;
        }
    }
}

#[cfg(test)]
mod tests;
