//! One session's subscriptions.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use alloy_primitives::B256;
use nearhead_chain::window::{Cursor, Snapshot};
use tokio::sync::Semaphore;

use super::{
    catch_up::{Bookmark, CatchUp, Went},
    hub::{Hub, Place, SubscriptionId},
    notification::Start,
};
use crate::{
    limits::{
        CATCH_UP_STEPS, FILTER_VALUES_PER_WORKER, SESSION_FILTER_VALUES_MAX,
        SESSION_SUBSCRIPTIONS_MAX,
    },
    rpc::{RpcError, Subscriber, SubscriptionKind},
    ws::Session,
};

/// The subscriptions of one session.
pub(crate) struct SessionSubscriptions {
    hub: Rc<Hub>,
    by_id: RefCell<HashMap<String, Subscription>>,
    /// Those that are not told by the hub yet, or not any more; each has its turn.
    behind: RefCell<VecDeque<CatchUp>>,
    /// Addresses and topics of all of them.
    values: Cell<usize>,
    /// Listed with the hub to be looked at after the next change.
    pub(super) waits_for_change: Cell<bool>,
}

struct Subscription {
    number: SubscriptionId,
    kind: SubscriptionKind,
    start: Start,
    state: State,
}

enum State {
    /// The answer with its id was not sent yet. Where it begins, and the view that this is part of.
    Asked(Bookmark, Arc<Snapshot>),
    /// On its way to the hub's view.
    Behind,
    /// The hub tells it.
    Listed(Place),
}

impl Subscription {
    /// From now on it catches up, from this bookmark on, with this view and later ones.
    fn catches_up(&mut self, bookmark: Bookmark, began_in: Option<Arc<Snapshot>>) -> CatchUp {
        self.state = State::Behind;
        let (kind, start) = (self.kind.clone(), self.start.clone());
        CatchUp::new(self.number, kind, start, began_in, bookmark)
    }
}

/// Addresses and topics of its filter.
fn values(kind: &SubscriptionKind) -> usize {
    match kind {
        SubscriptionKind::Logs(filter) => filter.value_count(),
        SubscriptionKind::NewHeads | SubscriptionKind::Reorgs => 0,
    }
}

impl SessionSubscriptions {
    pub(crate) fn new(hub: Rc<Hub>) -> Self {
        Self {
            hub,
            by_id: RefCell::default(),
            behind: RefCell::default(),
            values: Cell::new(0),
            waits_for_change: Cell::new(false),
        }
    }

    /// Notes that the answer with this id was sent: it is told from now on.
    fn begin(&self, id: &str) {
        if let Some(subscription) = self.by_id.borrow_mut().get_mut(id)
            && let State::Asked(bookmark, began_in) = &subscription.state
        {
            let (bookmark, began_in) = (bookmark.clone(), Arc::clone(began_in));
            let catch_up = subscription.catches_up(bookmark, Some(began_in));
            self.behind.borrow_mut().push_back(catch_up);
        }
    }

    /// From now on the hub tells it no more: its session had no room, or changes were missed. It
    /// goes on at its own pace.
    pub(super) fn falls_behind(&self, number: SubscriptionId, bookmark: Bookmark) {
        self.with(number, |subscription| {
            if let State::Listed(place) = &subscription.state {
                self.hub.unlist(number, place);
                let catch_up = subscription.catches_up(bookmark, None);
                self.behind.borrow_mut().push_back(catch_up);
            }
        });
    }

    /// Does something with the subscription of this number, if there is one.
    fn with(&self, number: SubscriptionId, work: impl FnOnce(&mut Subscription)) {
        let mut by_id = self.by_id.borrow_mut();
        let mut all = by_id.values_mut();
        if let Some(subscription) = all.find(|subscription| subscription.number == number) {
            work(subscription);
        }
    }

    /// Tells what there is to tell, as far as the session has room for it.
    pub(crate) fn catch_up(&self, session: &Rc<Session>) {
        if self.behind.borrow().is_empty() || !session.takes_messages() {
            return;
        }
        let (mut steps, mut waiting) = (0, 0);
        while waiting < self.behind.borrow().len() {
            let view = self.hub.view();
            if steps == CATCH_UP_STEPS {
                // Others first.
                session.wake();
                return;
            }
            let Some(mut next) = self.behind.borrow_mut().pop_front() else {
                return;
            };
            let went = match &view {
                Some(view) => next.go_on(session, view, &self.hub),
                None => Ok(Went::Waits),
            };
            match went {
                Ok(Went::On) => {
                    (steps, waiting) = (steps + 1, 0);
                    self.behind.borrow_mut().push_back(next);
                }
                Ok(Went::ToHead) => self.join(next.id, session),
                Ok(Went::Waits) => {
                    waiting += 1;
                    self.behind.borrow_mut().push_back(next);
                }
                Ok(Went::Full) => {
                    self.behind.borrow_mut().push_front(next);
                    return;
                }
                Err(why) => {
                    session.close(why);
                    self.behind.borrow_mut().clear();
                    return;
                }
            }
        }
        if waiting > 0 {
            self.hub.wakes_on_change(session);
        }
    }

    /// Whether some are not told by the hub.
    #[cfg(test)]
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.borrow().is_empty()
    }

    /// Whether there is more to tell now.
    #[cfg(test)]
    pub(super) fn goes_on(&self) -> bool {
        self.is_behind() && !self.waits_for_change.get()
    }

    /// From now on the hub tells it.
    fn join(&self, number: SubscriptionId, session: &Rc<Session>) {
        self.with(number, |subscription| {
            let (kind, start) = (&subscription.kind, subscription.start.clone());
            let place = self.hub.list(number, kind, Rc::downgrade(session), start);
            subscription.state = State::Listed(place);
        });
    }

    fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        view: &Arc<Snapshot>,
    ) -> Result<String, RpcError> {
        if self.by_id.borrow().len() >= SESSION_SUBSCRIPTIONS_MAX {
            let most = SESSION_SUBSCRIPTIONS_MAX;
            return Err(RpcError::TooManySubscriptions { most });
        }
        let values = values(&kind);
        if self.values.get() + values > SESSION_FILTER_VALUES_MAX {
            let most = SESSION_FILTER_VALUES_MAX;
            return Err(RpcError::TooManyFilterValues { most });
        }
        if self.hub.values.get() + values > FILTER_VALUES_PER_WORKER {
            return Err(RpcError::Unavailable);
        }
        let cursor = match since {
            None => Cursor::after(view.head()),
            Some(hash) => resume(view, &hash)?,
        };
        self.count(|values_before| values_before + values);
        let (number, id) = self.hub.new_id();
        let subscription = Subscription {
            number,
            kind,
            start: Start::of(&id),
            state: State::Asked(Bookmark::at(cursor), Arc::clone(view)),
        };
        self.by_id.borrow_mut().insert(id.clone(), subscription);
        self.hub.metrics.subscriptions.inc();
        Ok(id)
    }

    fn unsubscribe(&self, id: &str) -> bool {
        let Some(subscription) = self.by_id.borrow_mut().remove(id) else {
            return false;
        };
        self.forget(&subscription);
        true
    }

    fn forget(&self, subscription: &Subscription) {
        match &subscription.state {
            State::Asked(..) => {}
            State::Behind => {
                let mut behind = self.behind.borrow_mut();
                behind.retain(|other| other.id != subscription.number);
            }
            State::Listed(place) => self.hub.unlist(subscription.number, place),
        }
        let values = values(&subscription.kind);
        self.count(|values_before| values_before - values);
        self.hub.metrics.subscriptions.dec();
    }

    /// Changes the number of values, here and on the worker.
    fn count(&self, change: impl Fn(usize) -> usize) {
        self.values.set(change(self.values.get()));
        self.hub.values.set(change(self.hub.values.get()));
    }
}

impl Drop for SessionSubscriptions {
    fn drop(&mut self) {
        for subscription in self.by_id.take().values() {
            self.forget(subscription);
        }
    }
}

/// Where a subscriptions is that knows the chain up to this block, if everything since is still held.
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

/// What one request of a session subscribes to: told of once it was answered, and forgotten if it
/// never is.
pub(crate) struct Asking {
    session: Rc<Session>,
    ids: RefCell<Vec<String>>,
}

impl Asking {
    pub(crate) const fn new(session: Rc<Session>) -> Self {
        Self {
            session,
            ids: RefCell::new(Vec::new()),
        }
    }

    /// Notes that the answer with the ids was sent.
    pub(crate) fn answered(self) {
        for id in self.ids.take() {
            self.session.subscriptions.begin(&id);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        for id in self.ids.take() {
            self.session.subscriptions.unsubscribe(&id);
        }
    }
}

impl Subscriber for Asking {
    fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        view: &Arc<Snapshot>,
    ) -> Result<String, RpcError> {
        let id = self.session.subscriptions.subscribe(kind, since, view)?;
        self.ids.borrow_mut().push(id.clone());
        Ok(id)
    }

    fn unsubscribe(&self, id: &str) -> bool {
        self.session.subscriptions.unsubscribe(id)
    }

    fn turn(&self) -> Arc<Semaphore> {
        self.session.turn()
    }

    fn room(&self) -> usize {
        self.session.room()
    }
}
