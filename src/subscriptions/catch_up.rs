//! One subscription that catches up with the hub's snapshot.

use std::{rc::Rc, sync::Arc};

use nearhead_chain::{
    block::Block,
    log_search::{BlockSearch, LogFilter},
    window::{Cursor, CursorLost, CursorStep, Snapshot},
};

use super::{
    bookmark::{Bookmark, PartialBlock},
    hub::Hub,
    notification::{MessagePrefix, Notification},
    sink::NotificationSink,
    subscription_number::SubscriptionNumber,
};
use crate::rpc::SubscriptionKind;

/// A subscription that advances along the chain step by step, as its session takes what is sent.
pub(super) struct CatchUp {
    pub(super) number: SubscriptionNumber,
    kind: SubscriptionKind,
    prefix: MessagePrefix,
    /// The snapshot that the client subscribed at. The subscription waits until the hub's is known
    /// to be as new.
    subscribed_at: Option<Arc<Snapshot>>,
    bookmark: Bookmark,
    /// Logs of the block at the bookmark that are still to be sent.
    pending: Option<PendingLogs>,
    /// The filter as it is matched against blocks; made when it is first needed.
    search: Option<BlockSearch>,
}

/// Logs of one block that are still to be sent.
struct PendingLogs {
    block: Arc<Block>,
    is_removed: bool,
    /// Positions of those that match, the next one last.
    positions: Vec<u32>,
}

/// How far a call of [`CatchUp::advance`] came.
pub(super) enum Advance {
    /// One step further; there may be more.
    Stepped,
    /// To the head of the snapshot.
    AtHead,
    /// Nowhere: the snapshot is older than the one that the client subscribed at.
    Waiting,
    /// Until the session had no more room.
    Full,
}

impl PendingLogs {
    fn new(block: Arc<Block>, is_removed: bool, search: &BlockSearch) -> Self {
        let mut positions = search.positions(&block.postings);
        if !is_removed {
            positions.reverse();
        }
        Self {
            block,
            is_removed,
            positions,
        }
    }

    /// The rest of a block whose logs were sent in part.
    fn rest(partial: PartialBlock, search: &BlockSearch) -> Self {
        let mut rest = Self::new(partial.block, partial.is_removed, search);
        rest.positions.retain(|position| match partial.is_removed {
            true => *position <= partial.position,
            false => *position >= partial.position,
        });
        rest
    }
}

impl CatchUp {
    pub(super) const fn new(
        number: SubscriptionNumber,
        kind: SubscriptionKind,
        prefix: MessagePrefix,
        subscribed_at: Option<Arc<Snapshot>>,
        bookmark: Bookmark,
    ) -> Self {
        Self {
            number,
            kind,
            prefix,
            subscribed_at,
            bookmark,
            pending: None,
            search: None,
        }
    }

    /// Advances by one step, or as far as the session has room.
    ///
    /// # Errors
    /// [`CursorLost`]: the subscription fell behind the window.
    pub(super) fn advance(
        &mut self,
        sink: &dyn NotificationSink,
        snapshot: &Snapshot,
        hub: &Hub,
    ) -> Result<Advance, CursorLost> {
        let newer = self.subscribed_at.take();
        if let Some(newer) = newer.filter(|newer| snapshot.version() < newer.version()) {
            // If the hub adopts the newer one, the next step uses it.
            let is_adopted = hub.adopt_if_same_head(&newer);
            self.subscribed_at = Some(newer);
            return Ok(if is_adopted {
                Advance::Stepped
            } else {
                Advance::Waiting
            });
        }
        match self.kind.clone() {
            SubscriptionKind::NewHeads => self.next_head(sink, snapshot, hub),
            SubscriptionKind::Logs(filter) => self.next_logs(&filter, sink, snapshot, hub),
            SubscriptionKind::Reorgs => self.next_reorg(sink, snapshot, hub),
        }
    }

    fn next_head(
        &mut self,
        sink: &dyn NotificationSink,
        snapshot: &Snapshot,
        hub: &Hub,
    ) -> Result<Advance, CursorLost> {
        let mut cursor = self.bookmark.cursor;
        let next = match cursor.step(snapshot)? {
            None => return Ok(Advance::AtHead),
            Some(CursorStep::Apply(block)) => Some(block),
            // No applied block follows, so nothing else would show that the chain went back to this
            // block.
            Some(CursorStep::Revert(_)) => cursor
                .is_at_head(snapshot)
                .then(|| Arc::clone(snapshot.head())),
        };
        if let Some(next) = next
            && !self.send(sink, hub, &Notification::head(&next))
        {
            return Ok(Advance::Full);
        }
        self.bookmark.cursor = cursor;
        Ok(Advance::Stepped)
    }

    fn next_logs(
        &mut self,
        filter: &Rc<LogFilter>,
        sink: &dyn NotificationSink,
        snapshot: &Snapshot,
        hub: &Hub,
    ) -> Result<Advance, CursorLost> {
        let search = self.search.get_or_insert_with(|| BlockSearch::new(filter));
        let mut pending = match (self.pending.take(), self.bookmark.partial.take()) {
            (Some(pending), _) => pending,
            (None, Some(partial)) => PendingLogs::rest(partial, search),
            (None, None) => match self.bookmark.cursor.step(snapshot)? {
                None => return Ok(Advance::AtHead),
                Some(CursorStep::Revert(block)) => PendingLogs::new(block, true, search),
                Some(CursorStep::Apply(block)) => PendingLogs::new(block, false, search),
            },
        };
        while let Some(position) = pending.positions.last() {
            let notification =
                Notification::log(&pending.block, *position as usize, pending.is_removed);
            if let Some(notification) = notification
                && !self.send(sink, hub, &notification)
            {
                self.pending = Some(pending);
                return Ok(Advance::Full);
            }
            pending.positions.pop();
        }
        Ok(Advance::Stepped)
    }

    /// Reports everything that was replaced since the bookmark as one reorg.
    fn next_reorg(
        &mut self,
        sink: &dyn NotificationSink,
        snapshot: &Snapshot,
        hub: &Hub,
    ) -> Result<Advance, CursorLost> {
        let steps = self.bookmark.cursor.path(snapshot)?;
        let reverted = steps.iter().filter_map(|step| match step {
            CursorStep::Revert(block) => Some(&**block),
            CursorStep::Apply(_) => None,
        });
        let applied = steps.iter().filter_map(|step| match step {
            CursorStep::Apply(block) => Some(&**block),
            CursorStep::Revert(_) => None,
        });
        if let Some(notification) = Notification::reorg(reverted, applied)
            && !self.send(sink, hub, &notification)
        {
            return Ok(Advance::Full);
        }
        self.bookmark.cursor = Cursor::after(snapshot.head());
        Ok(Advance::AtHead)
    }

    /// Sends a notification if the session has room; returns whether it did.
    fn send(&self, sink: &dyn NotificationSink, hub: &Hub, notification: &Notification) -> bool {
        let is_sent = sink.has_room() && sink.notify(notification.message(&self.prefix));
        hub.metrics.notified(usize::from(is_sent));
        is_sent
    }
}
