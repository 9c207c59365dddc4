//! The subscriptions of one session.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque},
    rc::{Rc, Weak},
    sync::Arc,
};

use alloy_primitives::B256;
use nearhead_chain::window::{Cursor, Snapshot};
use nearhead_tenants::allowlists::ListKind;

use super::{
    bookmark::Bookmark,
    catch_up::{Advance, CatchUp},
    hub::{Hub, Listing},
    notification::MessagePrefix,
    sink::NotificationSink,
    subscription_number::SubscriptionNumber,
};
use crate::{
    access::{ActiveKey, SubscriptionPermit},
    limits::{
        CATCH_UP_STEPS, FILTER_VALUES_PER_WORKER, SESSION_FILTER_VALUES_MAX,
        SESSION_SUBSCRIPTIONS_MAX,
    },
    rpc::{RpcError, SubscriptionKind},
};

/// The subscriptions of one session.
///
/// The methods that send take the session as a [`NotificationSink`].
pub(crate) struct SessionSubscriptions {
    hub: Rc<Hub>,
    by_id: RefCell<HashMap<String, Subscription>>,
    /// Subscriptions that catch up; they take turns.
    behind: RefCell<VecDeque<CatchUp>>,
    /// Addresses and topics in the filters of all its subscriptions.
    filter_values: Cell<usize>,
    /// Whether the hub wakes the session after the next change of the head.
    waits_for_change: Cell<bool>,
    /// The key that may have all of them; `None` if one was added since.
    checked_for: RefCell<Option<Arc<ActiveKey>>>,
}

struct Subscription {
    number: SubscriptionNumber,
    kind: SubscriptionKind,
    prefix: MessagePrefix,
    state: SubscriptionState,
    /// That its tenant may have it.
    permit: Option<SubscriptionPermit>,
}

enum SubscriptionState {
    /// The answer with its id was not sent yet. The subscription will start at the bookmark, which
    /// lies in this snapshot.
    Requested(Bookmark, Arc<Snapshot>),
    /// The subscription catches up with the hub.
    Behind,
    /// The hub notifies the subscription.
    Listed(Listing),
}

impl Subscription {
    /// Marks the subscription as behind. What is returned catches up from this bookmark, along
    /// `subscribed_at` or newer snapshots.
    fn begin_catch_up(
        &mut self,
        bookmark: Bookmark,
        subscribed_at: Option<Arc<Snapshot>>,
    ) -> CatchUp {
        self.state = SubscriptionState::Behind;
        let (kind, prefix) = (self.kind.clone(), self.prefix.clone());
        CatchUp::new(self.number, kind, prefix, subscribed_at, bookmark)
    }
}

/// Addresses and topics in the filter of a subscription.
fn filter_values(kind: &SubscriptionKind) -> usize {
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
            filter_values: Cell::new(0),
            waits_for_change: Cell::new(false),
            checked_for: RefCell::new(None),
        }
    }

    /// Adds a subscription that starts after the head of `snapshot`, or after the block `since`,
    /// and returns its id. It sends nothing before [`start`](Self::start).
    ///
    /// # Errors
    /// As [`crate::rpc::RequestSession::subscribe`].
    pub(crate) fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<String, RpcError> {
        if self.by_id.borrow().len() >= SESSION_SUBSCRIPTIONS_MAX {
            let most = SESSION_SUBSCRIPTIONS_MAX;
            return Err(RpcError::TooManySubscriptions { most });
        }
        let values = filter_values(&kind);
        if self.filter_values.get() + values > SESSION_FILTER_VALUES_MAX {
            let most = SESSION_FILTER_VALUES_MAX;
            return Err(RpcError::TooManyFilterValues { most });
        }
        if self.hub.filter_values.get() + values > FILTER_VALUES_PER_WORKER {
            return Err(RpcError::Unavailable);
        }
        let cursor = match since {
            None => Cursor::after(snapshot.head()),
            Some(hash) => resume(snapshot, &hash)?,
        };
        self.count_values(|before| before + values);
        let (number, id) = self.hub.ids.next();
        let subscription = Subscription {
            number,
            kind,
            prefix: MessagePrefix::new(&id),
            state: SubscriptionState::Requested(Bookmark::at(cursor), Arc::clone(snapshot)),
            permit: None,
        };
        self.by_id.borrow_mut().insert(id.clone(), subscription);
        // Its request may have been let in by lists that have changed since.
        self.checked_for.take();
        self.hub.metrics.subscriptions.inc();
        Ok(id)
    }

    /// Keeps a permit for as long as the subscription lasts.
    pub(crate) fn keep(&self, id: &str, permit: SubscriptionPermit) {
        if let Some(subscription) = self.by_id.borrow_mut().get_mut(id) {
            subscription.permit = Some(permit);
        }
    }

    /// Starts a subscription: the answer with its id was sent.
    pub(crate) fn start(&self, id: &str) {
        if let Some(subscription) = self.by_id.borrow_mut().get_mut(id)
            && let SubscriptionState::Requested(bookmark, subscribed_at) = &subscription.state
        {
            let (bookmark, subscribed_at) = (bookmark.clone(), Arc::clone(subscribed_at));
            let catch_up = subscription.begin_catch_up(bookmark, Some(subscribed_at));
            self.behind.borrow_mut().push_back(catch_up);
        }
    }

    /// Ends a subscription; `false` if there is none with this id.
    pub(crate) fn unsubscribe(&self, id: &str) -> bool {
        let Some(subscription) = self.by_id.borrow_mut().remove(id) else {
            return false;
        };
        self.forget(&subscription);
        true
    }

    /// Checks that a key may have all of them, unless that was checked before.
    ///
    /// # Errors
    /// A list that does not allow one.
    pub(crate) fn check(&self, key: Arc<ActiveKey>) -> Result<(), ListKind> {
        let mut checked_for = self.checked_for.borrow_mut();
        if checked_for.as_ref().is_some_and(|of| Arc::ptr_eq(of, &key)) {
            return Ok(());
        }
        let (by_id, allow) = (self.by_id.borrow(), &key.record.settings.allow);
        let mut all = by_id.values();
        all.try_for_each(|subscription| subscription.kind.check(allow))?;
        *checked_for = Some(key);
        Ok(())
    }

    /// Takes a subscription off the hub's lists, because its session had no room or changes were
    /// missed. It catches up from the bookmark at its own pace.
    pub(crate) fn fall_behind(&self, number: SubscriptionNumber, bookmark: Bookmark) {
        self.with(number, |subscription| {
            if let SubscriptionState::Listed(listing) = &subscription.state {
                self.hub.unlist(number, listing);
                let catch_up = subscription.begin_catch_up(bookmark, None);
                self.behind.borrow_mut().push_back(catch_up);
            }
        });
    }

    /// Records that the head changed, which a subscription was waiting for.
    pub(crate) fn head_changed(&self) {
        self.waits_for_change.set(false);
    }

    /// Calls `work` with the subscription of this number, if there is one.
    fn with(&self, number: SubscriptionNumber, work: impl FnOnce(&mut Subscription)) {
        let mut by_id = self.by_id.borrow_mut();
        let mut all = by_id.values_mut();
        if let Some(subscription) = all.find(|subscription| subscription.number == number) {
            work(subscription);
        }
    }

    /// Sends what the subscriptions missed, as far as the session has room for it.
    pub(crate) fn catch_up(&self, sink: &Rc<impl NotificationSink + 'static>) {
        if self.behind.borrow().is_empty() || !sink.takes_messages() {
            return;
        }
        let (mut steps, mut waiting) = (0, 0);
        while waiting < self.behind.borrow().len() {
            let snapshot = self.hub.snapshot();
            if steps == CATCH_UP_STEPS {
                // Other sessions take their turn first.
                sink.wake();
                return;
            }
            let Some(mut next) = self.behind.borrow_mut().pop_front() else {
                return;
            };
            let advance = match &snapshot {
                Some(snapshot) => next.advance(&**sink, snapshot, &self.hub),
                None => Ok(Advance::Waiting),
            };
            match advance {
                Ok(Advance::Stepped) => {
                    (steps, waiting) = (steps + 1, 0);
                    self.behind.borrow_mut().push_back(next);
                }
                Ok(Advance::AtHead) => self.list(next.number, weak(sink)),
                Ok(Advance::Waiting) => {
                    waiting += 1;
                    self.behind.borrow_mut().push_back(next);
                }
                Ok(Advance::Full) => {
                    self.behind.borrow_mut().push_front(next);
                    return;
                }
                Err(_) => {
                    sink.close_behind_window();
                    self.behind.borrow_mut().clear();
                    return;
                }
            }
        }
        if waiting > 0 && !self.waits_for_change.replace(true) {
            self.hub.wake_on_change(weak(sink));
        }
    }

    /// Whether a subscription still catches up.
    #[cfg(test)]
    pub(crate) fn is_behind(&self) -> bool {
        !self.behind.borrow().is_empty()
    }

    /// Whether there is more to send before the head changes.
    #[cfg(test)]
    pub(crate) fn has_more(&self) -> bool {
        self.is_behind() && !self.waits_for_change.get()
    }

    /// Lists a subscription that caught up with the hub.
    fn list(&self, number: SubscriptionNumber, sink: Weak<dyn NotificationSink>) {
        self.with(number, |subscription| {
            let (kind, prefix) = (&subscription.kind, subscription.prefix.clone());
            subscription.state =
                SubscriptionState::Listed(self.hub.list(number, kind, sink, prefix));
        });
    }

    fn forget(&self, subscription: &Subscription) {
        match &subscription.state {
            SubscriptionState::Requested(..) => {}
            SubscriptionState::Behind => {
                let mut behind = self.behind.borrow_mut();
                behind.retain(|other| other.number != subscription.number);
            }
            SubscriptionState::Listed(listing) => self.hub.unlist(subscription.number, listing),
        }
        let values = filter_values(&subscription.kind);
        self.count_values(|before| before - values);
        self.hub.metrics.subscriptions.dec();
    }

    /// Changes the number of filter values of the session and of the worker.
    fn count_values(&self, change: impl Fn(usize) -> usize) {
        self.filter_values.set(change(self.filter_values.get()));
        let of_worker = &self.hub.filter_values;
        of_worker.set(change(of_worker.get()));
    }
}

impl Drop for SessionSubscriptions {
    fn drop(&mut self) {
        for subscription in self.by_id.take().values() {
            self.forget(subscription);
        }
    }
}

fn weak(sink: &Rc<impl NotificationSink + 'static>) -> Weak<dyn NotificationSink> {
    let weak: Weak<_> = Rc::downgrade(sink);
    weak
}

/// A cursor after the block `since`, if every block from there to the head is still held.
fn resume(snapshot: &Snapshot, since: &B256) -> Result<Cursor, RpcError> {
    let oldest = &snapshot.canonical()[0];
    let lost = || RpcError::ResumeLost {
        number: oldest.number(),
        hash: oldest.hash,
    };
    let cursor = Cursor::after(snapshot.by_hash(since).ok_or_else(lost)?);
    cursor.path(snapshot).map_err(|_| lost())?;
    Ok(cursor)
}
