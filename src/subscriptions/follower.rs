//! One session's subscriptions.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::{
    block::Block,
    log_search::FilterIndex,
    window::{Cursor, Snapshot, Step},
};
use tokio::sync::Semaphore;

use super::{
    hub::{Hub, Place, SubscriptionId},
    notice::{Notice, Start},
};
use crate::{
    limits::SESSION_SUBSCRIPTIONS_MAX,
    rpc::{RpcError, Subscriber, Topic},
    sessions::{Session, Why},
};

/// The subscriptions of one session.
pub(crate) struct Follower {
    hub: Rc<Hub>,
    by_id: RefCell<HashMap<String, Subscription>>,
    /// Those that do not know the hub's view yet.
    behind: RefCell<Vec<CatchUp>>,
    turn: Arc<Semaphore>,
}

struct Subscription {
    id: SubscriptionId,
    /// `None` while it catches up.
    place: Option<Place>,
}

/// A subscription on its way to the hub's view.
struct CatchUp {
    id: String,
    number: SubscriptionId,
    topic: Topic,
    /// The topic's filter alone.
    filter: FilterIndex<()>,
    start: Start,
    cursor: Cursor,
    /// A block that is being told of: how many of its logs were looked at.
    within: Option<(Step, usize)>,
    /// Told only when the answer with its id was sent.
    is_answered: bool,
}

impl Follower {
    pub(crate) fn new(hub: Rc<Hub>) -> Self {
        Self {
            hub,
            by_id: RefCell::default(),
            behind: RefCell::default(),
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// Notes that everything that was subscribed to was answered.
    pub(crate) fn answered(&self) {
        for catch_up in self.behind.borrow_mut().iter_mut() {
            catch_up.is_answered = true;
        }
    }

    /// Tells what there is to tell, as far as the session has room for it.
    pub(crate) fn catch_up(&self, session: &Rc<Session>) {
        if self.behind.borrow().is_empty() {
            return;
        }
        let Some(view) = self.hub.view() else {
            return;
        };
        let mut behind = self.behind.take();
        behind.retain_mut(|catch_up| {
            if !catch_up.is_answered {
                return true;
            }
            match catch_up.go_on(session, &view, &self.hub) {
                Ok(false) => true,
                Ok(true) => {
                    self.join(catch_up, session);
                    false
                }
                Err(why) => {
                    session.close(why);
                    false
                }
            }
        });
        // Nothing was added meanwhile: whoever subscribes runs on this thread, and not inside this.
        *self.behind.borrow_mut() = behind;
    }

    /// From now on the hub tells it.
    fn join(&self, catch_up: &CatchUp, session: &Rc<Session>) {
        if let Some(subscription) = self.by_id.borrow_mut().get_mut(&catch_up.id) {
            let session = Rc::downgrade(session);
            let start = catch_up.start.clone();
            let place = self
                .hub
                .list(catch_up.number, &catch_up.topic, session, start);
            subscription.place = Some(place);
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        for subscription in self.by_id.get_mut().values() {
            if let Some(place) = &subscription.place {
                self.hub.unlist(subscription.id, place);
            }
        }
        let count = self.by_id.get_mut().len();
        self.hub.metrics.subscriptions.sub(count as i64);
    }
}

impl Subscriber for Follower {
    fn subscribe(&self, topic: Topic, since: Option<B256>) -> Result<String, RpcError> {
        if self.by_id.borrow().len() >= SESSION_SUBSCRIPTIONS_MAX {
            return Err(RpcError::TooManySubscriptions {
                most: SESSION_SUBSCRIPTIONS_MAX,
            });
        }
        let view = self.hub.view().ok_or(RpcError::Unavailable)?;
        let cursor = match since {
            None => Cursor::after(view.head()),
            Some(hash) => resume(&view, &hash)?,
        };
        let (number, id) = self.hub.new_id();
        let mut filter = FilterIndex::default();
        if let Topic::Logs(wanted) = &topic {
            filter.insert(wanted, ());
        }
        self.behind.borrow_mut().push(CatchUp {
            start: Start::of(&id),
            id: id.clone(),
            number,
            topic,
            filter,
            cursor,
            within: None,
            is_answered: false,
        });
        let subscription = Subscription {
            id: number,
            place: None,
        };
        self.by_id.borrow_mut().insert(id.clone(), subscription);
        self.hub.metrics.subscriptions.inc();
        Ok(id)
    }

    fn unsubscribe(&self, id: &str) -> bool {
        let Some(subscription) = self.by_id.borrow_mut().remove(id) else {
            return false;
        };
        match &subscription.place {
            Some(place) => self.hub.unlist(subscription.id, place),
            None => self.behind.borrow_mut().retain(|other| other.id != id),
        }
        self.hub.metrics.subscriptions.dec();
        true
    }

    fn turn(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turn)
    }
}

/// Where a follower is that knows the chain up to this block, if everything since is still held.
fn resume(view: &Snapshot, since: &B256) -> Result<Cursor, RpcError> {
    let oldest = &view.canonical()[0];
    let lost = || RpcError::ResumeLost {
        number: oldest.number(),
        hash: oldest.hash,
    };
    let cursor = Cursor::after(view.by_hash(since).ok_or_else(lost)?);
    cursor.path(view).map_err(|_| lost())?;
    Ok(cursor)
}

impl CatchUp {
    /// Goes on for as long as the session has room; whether it knows the whole view now.
    fn go_on(&mut self, session: &Session, view: &Snapshot, hub: &Hub) -> Result<bool, Why> {
        if self.topic == Topic::Reorgs {
            return self.tell_reorg(session, view, hub);
        }
        loop {
            if !session.takes_messages() {
                return Ok(false);
            }
            while let Some((step, done)) = &self.within {
                if !session.has_room() {
                    return Ok(false);
                }
                let (step, done) = (step.clone(), *done);
                self.within = self
                    .tell(session, hub, &step, done)
                    .then_some((step, done + 1));
            }
            match self.cursor.step(view) {
                Ok(Some(step)) => self.within = Some((step, 0)),
                Ok(None) => return Ok(true),
                Err(_) => return Err(Why::FELL_BEHIND),
            }
        }
    }

    /// Tells of one part of a step; whether there may be another.
    fn tell(&self, session: &Session, hub: &Hub, step: &Step, done: usize) -> bool {
        let (block, is_removed): (&Arc<Block>, bool) = match step {
            Step::Remove(block) => (block, true),
            Step::Add(block) => (block, false),
        };
        match &self.topic {
            Topic::NewHeads => {
                if !is_removed {
                    self.send(session, hub, &Notice::head(block));
                }
                false
            }
            Topic::Logs(_) => {
                let count = block.json.log_count();
                if done >= count {
                    return false;
                }
                let position = if is_removed { count - 1 - done } else { done };
                let mut matches = false;
                self.filter
                    .matches(&block.postings, position as u32, |_, ()| matches = true);
                if matches && let Some(notice) = Notice::log(block, position, is_removed) {
                    self.send(session, hub, &notice);
                }
                true
            }
            Topic::Reorgs => false,
        }
    }

    /// What was replaced since, as one reorg.
    fn tell_reorg(&mut self, session: &Session, view: &Snapshot, hub: &Hub) -> Result<bool, Why> {
        let steps = self.cursor.path(view).map_err(|_| Why::FELL_BEHIND)?;
        let reverted = steps.iter().filter_map(|step| match step {
            Step::Remove(block) => Some(&**block),
            Step::Add(_) => None,
        });
        let applied = steps.iter().filter_map(|step| match step {
            Step::Add(block) => Some(&**block),
            Step::Remove(_) => None,
        });
        if let Some(notice) = Notice::reorg(reverted, applied) {
            self.send(session, hub, &notice);
        }
        self.cursor = Cursor::after(view.head());
        Ok(true)
    }

    fn send(&self, session: &Session, hub: &Hub, notice: &Notice) {
        hub.metrics.notified(1);
        session.notify(notice.pieces(&notice.frame(), &self.start));
    }
}
