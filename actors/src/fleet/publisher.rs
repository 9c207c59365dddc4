//! What a leader appends: its window first, then each change of it.

use std::{sync::Arc, time::Duration};

use nearhead_chain::window::Snapshot;
use nearhead_fleet::{
    block_id::BlockId,
    entry::{Content, EntryTooLarge, HeadChange, Settled, SnapshotPart},
    fleet_key::FleetKey,
    leader::{Append, Leader, LogLimits, Plan},
    position::Position,
};
use tokio::task;

use super::{
    entry_bytes::{EntryBytes, Unfit},
    status::FleetStatus,
    window_update::{chain_of, settled_of},
};
use crate::head::Head;

/// How long the first snapshot waits for the window to be filled. Blocks that come below it later
/// are in no change, so that replicas would lack them until the next snapshot.
const FILL_MAX: Duration = Duration::from_secs(60);

/// The same since the last block that was added below: the nodes may have pruned the rest.
const FILL_IDLE_MAX: Duration = Duration::from_secs(5);

/// Why an epoch cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// Replicas would refuse the entry with this block.
    #[error("{0}: {1}")]
    TooLarge(Unfit, EntryTooLarge),
    /// A block cannot be sent.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A defect of this program.
    #[error("the blocks of an entry could not be made")]
    Panicked,
}

impl PublishError {
    /// The block that does not fit an entry: an epoch may begin above it.
    pub(super) const fn unfit(&self) -> Option<BlockId> {
        match self {
            Self::TooLarge(Unfit(block), _) | Self::Unfit(Unfit(block)) => Some(*block),
            Self::Panicked => None,
        }
    }
}

/// The entries of one epoch, made of what the window has.
pub(super) struct Publisher {
    leader: Leader,
    head: Head,
    bytes: EntryBytes,
    status: FleetStatus,
    /// The window that the parts of a snapshot are from, until the last one is made.
    planned: Option<Arc<Snapshot>>,
    /// When the epoch began.
    since: Duration,
    /// The oldest block of a window that is not filled, and since when it is.
    oldest: Option<(u64, Duration)>,
    /// The newest block that does not fit an entry: what is above it is appended.
    unfit: Option<BlockId>,
}

impl Publisher {
    /// The entries of an epoch that began at `now`.
    pub(super) fn new(
        key: FleetKey,
        epoch: u64,
        head: Head,
        bytes: EntryBytes,
        status: FleetStatus,
        now: Duration,
    ) -> Self {
        let leader = Leader::new(key, epoch, LogLimits::default());
        Self::of(leader, head, bytes, status, now)
    }

    pub(super) fn of(
        leader: Leader,
        head: Head,
        bytes: EntryBytes,
        status: FleetStatus,
        now: Duration,
    ) -> Self {
        Self {
            leader,
            head,
            bytes,
            status,
            planned: None,
            since: now,
            oldest: None,
            unfit: None,
        }
    }

    /// The same, above a block that does not fit an entry.
    pub(super) const fn above(mut self, unfit: Option<BlockId>) -> Self {
        self.unfit = unfit;
        self
    }

    /// The epoch.
    pub(super) const fn epoch(&self) -> u64 {
        self.leader.epoch()
    }

    /// The newest entry that the store accepted; its epoch's first one if there is none.
    pub(super) fn last(&self) -> Position {
        let first = Position::new(self.leader.epoch(), 0);
        self.leader.last().unwrap_or(first)
    }

    /// Notes that a replica wants a snapshot.
    pub(super) const fn want_snapshot(&mut self) {
        self.leader.want_snapshot();
    }

    /// Notes that the store has accepted an entry.
    pub(super) fn appended(&mut self, position: Position, is_snapshot_wanted: bool) {
        self.leader.appended(position, is_snapshot_wanted);
    }

    /// The entry to append next, or again; `None` if the store has all.
    ///
    /// # Errors
    /// The epoch cannot go on.
    pub(super) async fn next(&mut self, now: Duration) -> Result<Option<Append>, PublishError> {
        if let Some(append) = self.leader.in_progress() {
            return Ok(Some(append.clone()));
        }
        let Some(held) = self.head.load() else {
            return Ok(None);
        };
        let is_first = self.leader.published().is_none();
        if is_first && self.is_filling(&held, now) {
            return Ok(None);
        }
        let (mut own, settled) = (chain_of(Some(&held)), settled_of(&held));
        if let Some(unfit) = self.unfit {
            own.drop_up_to(unfit);
        }
        let bytes = &self.bytes;
        let Some(plan) = self
            .leader
            .plan(&own, settled, |id| bytes.length(id, &held))
        else {
            return Ok(None);
        };
        let content = self.content(plan, held).await?;
        let last = content.blocks().last().map(|block| block.id);
        match self.leader.seal(content) {
            Ok(append) => Ok(Some(append.clone())),
            Err(error) => {
                let block = Unfit(last.unwrap_or_default());
                Err(PublishError::TooLarge(block, error))
            }
        }
    }

    /// Whether blocks below the window are still coming.
    fn is_filling(&mut self, held: &Snapshot, now: Duration) -> bool {
        let oldest = held.oldest();
        let (_, since) = *match &mut self.oldest {
            Some(known) if known.0 == oldest => known,
            known => known.insert((oldest, now)),
        };
        let is_idle = now >= since + FILL_IDLE_MAX;
        !held.is_filled() && !is_idle && now < self.since + FILL_MAX
    }

    async fn content(&mut self, plan: Plan, held: Arc<Snapshot>) -> Result<Content, PublishError> {
        let settled = self.leader.settled();
        let facts = self.status.facts();
        let records = facts.records_known.max(facts.records_stated);
        match plan {
            Plan::Part {
                part,
                parts,
                head,
                blocks: ids,
            } => {
                let planned = match part {
                    0 => held,
                    _ => self.planned.take().unwrap_or(held),
                };
                self.planned = (part + 1 < parts).then(|| Arc::clone(&planned));
                let blocks = self.blocks(ids, planned).await?;
                Ok(Content::Snapshot(SnapshotPart {
                    part,
                    parts,
                    head,
                    blocks,
                    settled: up_to(settled, head.number),
                    records,
                }))
            }
            Plan::Change {
                ancestor,
                reverted,
                blocks: ids,
            } => {
                let head = ids.last().map_or(ancestor.number, |head| head.number);
                let blocks = self.blocks(ids, held).await?;
                Ok(Content::Change(HeadChange {
                    ancestor,
                    reverted,
                    blocks,
                    settled: up_to(settled, head),
                    records,
                }))
            }
        }
    }

    /// These blocks as entries have them. It takes milliseconds for each that was not sent before.
    async fn blocks(
        &self,
        ids: Vec<BlockId>,
        held: Arc<Snapshot>,
    ) -> Result<Vec<nearhead_fleet::block_id::EntryBlock>, PublishError> {
        let bytes = self.bytes.clone();
        let made = task::spawn_blocking(move || bytes.blocks(&ids, &held)).await;
        Ok(made.map_err(|_| PublishError::Panicked)??)
    }
}

/// The settled blocks as of a head: a change may lead to one below the newest.
fn up_to(settled: Settled, head: u64) -> Settled {
    let below = |number: Option<u64>| number.map(|number| number.min(head));
    Settled {
        safe: below(settled.safe),
        finalized: below(settled.finalized),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replicas refuse a settled block above the head.
    #[test]
    fn no_settled_block_is_above_the_head_of_its_entry() {
        let settled = Settled {
            safe: Some(12),
            finalized: Some(7),
        };
        for (head, safe, finalized) in [(20, 12, 7), (10, 10, 7), (3, 3, 3)] {
            let expected = Settled {
                safe: Some(safe),
                finalized: Some(finalized),
            };
            assert_eq!(up_to(settled, head), expected, "head {head}");
        }
        assert_eq!(up_to(Settled::default(), 3), Settled::default());
    }
}
