//! The subscriptions of one worker that have received everything up to its current snapshot.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    hash::Hash,
    rc::{Rc, Weak},
    sync::Arc,
    time::Instant,
};

use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{
    block::Block,
    log_search::{FilterId, FilterIndex, LogFilter},
    window::{Cursor, Snapshot},
};

use super::{
    bookmark::{Bookmark, PartialBlock},
    notification::{MessagePrefix, Notification},
    sink::NotificationSink,
    subscription_number::{SubscriptionIds, SubscriptionNumber},
    wake_queue::WakeQueue,
};
use crate::{metrics::Metrics, rpc::SubscriptionKind};

/// The subscriptions of one worker that are at its current snapshot, and that snapshot.
pub(crate) struct Hub {
    snapshot: RefCell<Option<Arc<Snapshot>>>,
    heads: RefCell<LiveSubscriptions>,
    reorgs: RefCell<LiveSubscriptions>,
    logs: RefCell<FilterIndex<FilterGroup>>,
    by_filter: RefCell<HashMap<Rc<LogFilter>, FilterId>>,
    /// Sessions that have messages to send, or subscriptions that are to catch up.
    to_wake: WakeQueue,
    /// Sessions with subscriptions that wait for the next change of the head.
    waiting: RefCell<Vec<Weak<dyn NotificationSink>>>,
    /// Addresses and topics in the filters of all subscriptions, listed here or not.
    pub(super) filter_values: Cell<usize>,
    pub(super) ids: SubscriptionIds,
    pub(super) metrics: Metrics,
}

/// Subscriptions in the order in which they began. That is roughly the order of their sessions in
/// memory, and a walk over thousands of them spends most of its time waiting for memory.
type LiveSubscriptions = BTreeMap<SubscriptionNumber, LiveSubscription>;

/// All subscriptions with one filter.
struct FilterGroup {
    filter: Rc<LogFilter>,
    subscriptions: LiveSubscriptions,
}

/// A subscription as the hub lists it.
struct LiveSubscription {
    sink: Weak<dyn NotificationSink>,
    prefix: MessagePrefix,
    /// Whether its session had no room or changes were missed; the hub then skips it until it is
    /// taken off the list.
    is_behind: Cell<bool>,
}

/// Subscriptions that fell behind, and where each continues. The lists are borrowed while this is
/// filled, so the subscriptions are taken off them afterwards.
type Behind = RefCell<Vec<(SubscriptionNumber, Rc<dyn NotificationSink>, Bookmark)>>;

/// Where a subscription is listed.
#[derive(Debug)]
pub(super) enum Listing {
    Heads,
    Reorgs,
    Logs(FilterId),
}

impl Hub {
    pub(crate) fn new(metrics: Metrics) -> Rc<Self> {
        Rc::new(Self {
            snapshot: RefCell::new(None),
            heads: RefCell::default(),
            reorgs: RefCell::default(),
            logs: RefCell::default(),
            by_filter: RefCell::default(),
            to_wake: WakeQueue::default(),
            waiting: RefCell::default(),
            filter_values: Cell::new(0),
            ids: SubscriptionIds::new(),
            metrics,
        })
    }

    /// The snapshot that all subscriptions are at; `None` before the first one.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.borrow().clone()
    }

    /// Adopts this snapshot if it has the same head as the hub's: then blocks were only added
    /// below, of which no subscription is notified. Returns whether it was adopted.
    pub(super) fn adopt_if_same_head(&self, snapshot: &Arc<Snapshot>) -> bool {
        let mut current = self.snapshot.borrow_mut();
        let current = current.as_mut();
        let current = current.filter(|current| current.head().hash == snapshot.head().hash);
        current
            .map(|current| *current = Arc::clone(snapshot))
            .is_some()
    }

    /// Adopts a snapshot that does not build on the current one: the first, or one after missed
    /// changes or a reset. All subscriptions catch up with it when their sessions are woken.
    pub(crate) fn adopt(&self, snapshot: Arc<Snapshot>) {
        let before = self.snapshot.replace(Some(snapshot));
        if let Some(before) = before {
            let bookmark = Bookmark::at(Cursor::after(before.head()));
            let behind = Behind::default();
            let add = |subscriptions: &LiveSubscriptions| {
                for (number, subscription) in subscriptions {
                    subscription.fall_behind(*number, &behind, || bookmark.clone());
                }
            };
            add(&self.heads.borrow());
            add(&self.reorgs.borrow());
            self.logs
                .borrow()
                .for_each(|group| add(&group.subscriptions));
            self.report_behind(behind);
        }
        self.queue_waiting();
    }

    /// Has a session woken after the next change of the head.
    pub(super) fn wake_on_change(&self, sink: Weak<dyn NotificationSink>) {
        self.waiting.borrow_mut().push(sink);
    }

    fn queue_waiting(&self) {
        for sink in self.waiting.take() {
            if let Some(sink) = sink.upgrade() {
                sink.head_changed();
                self.to_wake.push(&sink);
            }
        }
    }

    /// Whether the hub holds nothing for any subscription.
    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        let is_empty =
            |subscriptions: &RefCell<LiveSubscriptions>| subscriptions.borrow().is_empty();
        is_empty(&self.heads)
            && is_empty(&self.reorgs)
            && self.logs.borrow().is_empty()
            && self.by_filter.borrow().is_empty()
            && self.filter_values.get() == 0
            && self.metrics.subscriptions.get() == 0
    }

    /// Lists a subscription, which is at the current snapshot and is notified from now on.
    pub(super) fn list(
        &self,
        number: SubscriptionNumber,
        kind: &SubscriptionKind,
        sink: Weak<dyn NotificationSink>,
        prefix: MessagePrefix,
    ) -> Listing {
        let subscription = LiveSubscription {
            sink,
            prefix,
            is_behind: Cell::new(false),
        };
        match kind {
            SubscriptionKind::NewHeads => {
                self.heads.borrow_mut().insert(number, subscription);
                Listing::Heads
            }
            SubscriptionKind::Reorgs => {
                self.reorgs.borrow_mut().insert(number, subscription);
                Listing::Reorgs
            }
            SubscriptionKind::Logs(filter) => {
                let mut logs = self.logs.borrow_mut();
                let known = self.by_filter.borrow().get(filter).copied();
                let filter_id = known.unwrap_or_else(|| {
                    let group = FilterGroup {
                        filter: Rc::clone(filter),
                        subscriptions: LiveSubscriptions::new(),
                    };
                    let filter_id = logs.insert(filter, group);
                    self.by_filter
                        .borrow_mut()
                        .insert(Rc::clone(filter), filter_id);
                    filter_id
                });
                if let Some(group) = logs.get_mut(filter_id) {
                    group.subscriptions.insert(number, subscription);
                }
                Listing::Logs(filter_id)
            }
        }
    }

    /// Takes a subscription off the list, so that it is no longer notified.
    pub(super) fn unlist(&self, number: SubscriptionNumber, listing: &Listing) {
        match listing {
            Listing::Heads => drop(self.heads.borrow_mut().remove(&number)),
            Listing::Reorgs => drop(self.reorgs.borrow_mut().remove(&number)),
            Listing::Logs(filter) => {
                let mut logs = self.logs.borrow_mut();
                let Some(group) = logs.get_mut(*filter) else {
                    return;
                };
                group.subscriptions.remove(&number);
                if group.subscriptions.is_empty()
                    && let Some(group) = logs.remove(*filter)
                {
                    remove(&mut self.by_filter.borrow_mut(), &group.filter);
                }
            }
        }
    }

    /// Queues notifications of a change that builds on the current snapshot, for all subscriptions.
    /// Their sessions send them when they are woken.
    pub(crate) fn fan_out(&self, change: &HeadChanged) {
        let began = Instant::now();
        let behind = Behind::default();
        let reverted = change.reverted.iter().map(|block| &**block);
        let applied = change.applied.iter().map(|block| &**block);
        if !self.reorgs.borrow().is_empty()
            && let Some(notification) = Notification::reorg(reverted, applied)
            && let Some(before) = self.snapshot()
        {
            let bookmark = || Bookmark::at(Cursor::after(before.head()));
            self.send(&self.reorgs.borrow(), &notification, &behind, bookmark);
        }
        for block in &change.reverted {
            self.send_logs(block, true, &behind);
        }
        // No applied block follows, so nothing else would show that the chain went back to this
        // head.
        if change.applied.is_empty()
            && !self.heads.borrow().is_empty()
            && let Some(before) = self.snapshot()
        {
            let bookmark = || Bookmark::at(Cursor::after(before.head()));
            let notification = Notification::head(change.snapshot.head());
            self.send(&self.heads.borrow(), &notification, &behind, bookmark);
        }
        for block in &change.applied {
            if !self.heads.borrow().is_empty() {
                let bookmark = || Bookmark::at(Cursor::before(block));
                let notification = Notification::head(block);
                self.send(&self.heads.borrow(), &notification, &behind, bookmark);
            }
            self.send_logs(block, false, &behind);
        }
        *self.snapshot.borrow_mut() = Some(Arc::clone(&change.snapshot));
        self.report_behind(behind);
        self.queue_waiting();
        self.metrics.fanout.observe(began.elapsed().as_secs_f64());
    }

    /// Sends a block's logs, in reverse order if they are removed.
    fn send_logs(&self, block: &Arc<Block>, is_removed: bool, behind: &Behind) {
        let logs = self.logs.borrow();
        if logs.is_empty() {
            return;
        }
        let count = block.log_count();
        for index in 0..count {
            let position = if is_removed { count - 1 - index } else { index };
            let mut notification = None;
            let bookmark = || Bookmark {
                cursor: if is_removed {
                    Cursor::before(block)
                } else {
                    Cursor::after(block)
                },
                partial: Some(PartialBlock {
                    block: Arc::clone(block),
                    is_removed,
                    position: position as u32,
                }),
            };
            // A block has fewer than 2^32 logs, because its JSON has fewer bytes.
            logs.matches(&block.postings, position as u32, |_, group| {
                if notification.is_none() {
                    notification = Notification::log(block, position, is_removed);
                }
                if let Some(notification) = &notification {
                    self.send(&group.subscriptions, notification, behind, bookmark);
                }
            });
        }
    }

    /// Sends a notification to all subscriptions that have room for it; the others continue from
    /// `bookmark` later.
    fn send(
        &self,
        subscriptions: &LiveSubscriptions,
        notification: &Notification,
        behind: &Behind,
        bookmark: impl Fn() -> Bookmark,
    ) {
        let mut sent = 0;
        for (number, subscription) in subscriptions {
            if subscription.is_behind.get() {
                continue;
            }
            let Some(sink) = subscription.sink.upgrade() else {
                continue;
            };
            if sink.notify(notification.message(&subscription.prefix)) {
                sent += 1;
                self.to_wake.push(&sink);
            } else {
                subscription.fall_behind(*number, behind, &bookmark);
            }
        }
        self.metrics.notified(sent);
    }

    fn report_behind(&self, behind: Behind) {
        for (number, sink, bookmark) in behind.into_inner() {
            sink.fall_behind(number, bookmark);
            self.to_wake.push(&sink);
        }
    }

    /// Wakes all sessions that have something to do, some in each turn of the event loop. Whoever
    /// drops this future goes on with another one.
    pub(crate) async fn wake_in_turns(&self) {
        self.to_wake.wake_in_turns().await;
    }

    /// As if it had taken long already to wake those that are to be woken.
    #[cfg(test)]
    pub(crate) fn set_late(&self) {
        self.to_wake.set_late();
    }
}

impl LiveSubscription {
    fn fall_behind(
        &self,
        number: SubscriptionNumber,
        behind: &Behind,
        bookmark: impl Fn() -> Bookmark,
    ) {
        self.is_behind.set(true);
        if let Some(sink) = self.sink.upgrade() {
            behind.borrow_mut().push((number, sink, bookmark()));
        }
    }
}

/// Removes an entry, and releases memory when the map is far larger than what it holds.
fn remove<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: &K) {
    const SMALL: usize = 64;
    map.remove(key);
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(2 * map.len());
    }
}
