//! One subscription on its way to the present view.

use std::{rc::Rc, sync::Arc};

use nearhead_chain::{
    block::Block,
    log_search::{BlockSearch, LogFilter},
    window::{Cursor, CursorStep, Snapshot},
};

use super::{
    hub::{Hub, SubscriptionId},
    notification::{Notification, Start},
};
use crate::{
    rpc::SubscriptionKind,
    ws::{CloseReason, Session},
};

/// A subscription that is told step by step, as its session takes it.
pub(super) struct CatchUp {
    pub(super) id: SubscriptionId,
    kind: SubscriptionKind,
    start: Start,
    /// The view that it began with, until the hub's is as new: an older one is not gone along.
    began_in: Option<Arc<Snapshot>>,
    bookmark: Bookmark,
    /// What is left to tell of the block at the bookmark.
    telling: Option<Telling>,
    /// The kind's filter, made when it is first needed.
    search: Option<BlockSearch>,
}

/// Where in the chain a subscription goes on.
#[derive(Clone, Debug)]
pub(super) struct Bookmark {
    pub(super) cursor: Cursor,
    /// A block that is told of in part.
    pub(super) part: Option<Part>,
}

/// A block, and the position of the log that is told next.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) block: Arc<Block>,
    pub(super) is_removed: bool,
    pub(super) position: u32,
}

/// Logs of one block.
struct Telling {
    block: Arc<Block>,
    is_removed: bool,
    /// Those that match and are still to be told, the next one last.
    positions: Vec<u32>,
}

/// How far it went.
pub(super) enum Went {
    /// A step further; there may be more.
    On,
    /// To the head of the view.
    ToHead,
    /// Nowhere: the view is older than what it knows.
    Waits,
    /// Until the session had no more room.
    Full,
}

impl Bookmark {
    /// Everything up to where the cursor is was told.
    pub(super) const fn at(cursor: Cursor) -> Self {
        Self { cursor, part: None }
    }
}

impl Telling {
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

    /// What is left of a block that is told of in part.
    fn rest(part: Part, search: &BlockSearch) -> Self {
        let mut rest = Self::new(part.block, part.is_removed, search);
        rest.positions.retain(|at| match part.is_removed {
            true => *at <= part.position,
            false => *at >= part.position,
        });
        rest
    }
}

impl CatchUp {
    pub(super) const fn new(
        id: SubscriptionId,
        kind: SubscriptionKind,
        start: Start,
        began_in: Option<Arc<Snapshot>>,
        bookmark: Bookmark,
    ) -> Self {
        Self {
            id,
            kind,
            start,
            began_in,
            bookmark,
            telling: None,
            search: None,
        }
    }

    /// Goes one step further, or as far as the session has room.
    pub(super) fn go_on(
        &mut self,
        session: &Session,
        view: &Snapshot,
        hub: &Hub,
    ) -> Result<Went, CloseReason> {
        let newer = self.began_in.take();
        if let Some(newer) = newer.filter(|newer| view.version() < newer.version()) {
            // The next step goes along it.
            let is_deeper = hub.deepens_to(&newer);
            self.began_in = Some(newer);
            return Ok(if is_deeper { Went::On } else { Went::Waits });
        }
        match self.kind.clone() {
            SubscriptionKind::NewHeads => self.next_head(session, view, hub),
            SubscriptionKind::Logs(filter) => self.next_logs(&filter, session, view, hub),
            SubscriptionKind::Reorgs => self.next_reorg(session, view, hub),
        }
    }

    fn next_head(
        &mut self,
        session: &Session,
        view: &Snapshot,
        hub: &Hub,
    ) -> Result<Went, CloseReason> {
        let mut cursor = self.bookmark.cursor;
        let next = match cursor.step(view).map_err(|_| CloseReason::FELL_BEHIND)? {
            None => return Ok(Went::ToHead),
            Some(CursorStep::Add(block)) => Some(block),
            // Nothing else would say that the chain went back to a block that was told already.
            Some(CursorStep::Remove(_)) => cursor.is_at_head(view).then(|| Arc::clone(view.head())),
        };
        if let Some(next) = next
            && !self.tell(session, hub, &Notification::head(&next))
        {
            return Ok(Went::Full);
        }
        self.bookmark.cursor = cursor;
        Ok(Went::On)
    }

    fn next_logs(
        &mut self,
        filter: &Rc<LogFilter>,
        session: &Session,
        view: &Snapshot,
        hub: &Hub,
    ) -> Result<Went, CloseReason> {
        let search = self.search.get_or_insert_with(|| BlockSearch::new(filter));
        let mut telling = match (self.telling.take(), self.bookmark.part.take()) {
            (Some(telling), _) => telling,
            (None, Some(part)) => Telling::rest(part, search),
            (None, None) => {
                let step = self.bookmark.cursor.step(view);
                match step.map_err(|_| CloseReason::FELL_BEHIND)? {
                    None => return Ok(Went::ToHead),
                    Some(CursorStep::Remove(block)) => Telling::new(block, true, search),
                    Some(CursorStep::Add(block)) => Telling::new(block, false, search),
                }
            }
        };
        while let Some(position) = telling.positions.last() {
            let notification =
                Notification::log(&telling.block, *position as usize, telling.is_removed);
            if let Some(notification) = notification
                && !self.tell(session, hub, &notification)
            {
                self.telling = Some(telling);
                return Ok(Went::Full);
            }
            telling.positions.pop();
        }
        Ok(Went::On)
    }

    /// What was replaced since, as one reorg.
    fn next_reorg(
        &mut self,
        session: &Session,
        view: &Snapshot,
        hub: &Hub,
    ) -> Result<Went, CloseReason> {
        let steps = self.bookmark.cursor.path(view);
        let steps = steps.map_err(|_| CloseReason::FELL_BEHIND)?;
        let reverted = steps.iter().filter_map(|step| match step {
            CursorStep::Remove(block) => Some(&**block),
            CursorStep::Add(_) => None,
        });
        let applied = steps.iter().filter_map(|step| match step {
            CursorStep::Add(block) => Some(&**block),
            CursorStep::Remove(_) => None,
        });
        if let Some(notification) = Notification::reorg(reverted, applied)
            && !self.tell(session, hub, &notification)
        {
            return Ok(Went::Full);
        }
        self.bookmark.cursor = Cursor::after(view.head());
        Ok(Went::ToHead)
    }

    /// Whether it was told: where it would fill more than a half of what may wait, it waits itself.
    fn tell(&self, session: &Session, hub: &Hub, notification: &Notification) -> bool {
        let is_told = session.has_room() && session.notify(notification.pieces(&self.start));
        hub.metrics.notified(usize::from(is_told));
        is_told
    }
}
