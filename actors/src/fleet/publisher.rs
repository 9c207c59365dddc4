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
    window_update::{chain_of, settled_of},
};
use crate::head::Head;

/// How long the first snapshot waits for the window to be filled. Blocks that come below it later
/// are in no change, so that replicas would lack them until the next snapshot.
const FILL_MAX: Duration = Duration::from_secs(60);

/// Why an epoch cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// Replicas would refuse the entry.
    #[error(transparent)]
    TooLarge(#[from] EntryTooLarge),
    /// A block cannot be sent.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A defect of this program.
    #[error("the blocks of an entry could not be made")]
    Panicked,
}

/// The entries of one epoch, made of what the window has.
pub(super) struct Publisher {
    leader: Leader,
    head: Head,
    bytes: EntryBytes,
    /// The window that the parts of a snapshot are from, until the last one is made.
    planned: Option<Arc<Snapshot>>,
    /// When the epoch began.
    since: Duration,
}

impl Publisher {
    /// The entries of an epoch that began at `now`.
    pub(super) fn new(
        key: FleetKey,
        epoch: u64,
        head: Head,
        bytes: EntryBytes,
        now: Duration,
    ) -> Self {
        Self {
            leader: Leader::new(key, epoch, LogLimits::default()),
            head,
            bytes,
            planned: None,
            since: now,
        }
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
        if is_first && !held.is_filled() && now < self.since + FILL_MAX {
            return Ok(None);
        }
        let (own, settled) = (chain_of(Some(&held)), settled_of(&held));
        let bytes = &self.bytes;
        let Some(plan) = self
            .leader
            .plan(&own, settled, |id| bytes.length(id, &held))
        else {
            return Ok(None);
        };
        let content = self.content(plan, held).await?;
        Ok(Some(self.leader.seal(content)?.clone()))
    }

    async fn content(&mut self, plan: Plan, held: Arc<Snapshot>) -> Result<Content, PublishError> {
        let settled = self.leader.settled();
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
                    records: 0,
                    nodes: Vec::new(),
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
                    records: 0,
                    nodes: Vec::new(),
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
