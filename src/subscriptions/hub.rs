//! Everybody on one worker who is told at once.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash, RandomState},
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
    catch_up::{Bookmark, Part},
    notification::{Notification, Start},
};
use crate::{metrics::Metrics, rpc::SubscriptionKind, ws::Session};

/// The subscriptions of one worker that know its present view, and that view.
pub(crate) struct Hub {
    view: RefCell<Option<Arc<Snapshot>>>,
    heads: RefCell<Listeners>,
    reorgs: RefCell<Listeners>,
    logs: RefCell<FilterIndex<Filtered>>,
    by_filter: RefCell<HashMap<Rc<LogFilter>, FilterId>>,
    /// Those with subscriptions that wait for the next change.
    waiting: RefCell<Vec<Weak<Session>>>,
    /// Addresses and topics of all subscriptions, listed here or not.
    pub(super) values: Cell<usize>,
    ids: Ids,
    pub(super) metrics: Metrics,
}

/// In the order in which they subscribed, which is about the order of what their sessions hold in
/// memory: a walk over thousands of them waits for memory most of its time.
type Listeners = BTreeMap<SubscriptionId, Listener>;

/// Everybody who asked for the same logs.
struct Filtered {
    filter: Rc<LogFilter>,
    listeners: Listeners,
}

/// Names a subscription on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SubscriptionId(u64);

/// A subscription that is told.
struct Listener {
    session: Weak<Session>,
    start: Start,
    /// Its session had no room: what follows is told when it has.
    is_late: Cell<bool>,
}

/// Subscriptions whose sessions had no room, and where each goes on.
type Late = RefCell<Vec<(SubscriptionId, Rc<Session>, Bookmark)>>;

/// Where a subscription is listed.
#[derive(Debug)]
pub(super) enum Place {
    Heads,
    Reorgs,
    Logs(FilterId),
}

/// Makes up ids that nobody can guess the next of; they are valid in their own session alone.
struct Ids {
    hashers: [RandomState; 2],
    next: Cell<u64>,
}

impl Hub {
    pub(crate) fn new(metrics: Metrics) -> Rc<Self> {
        Rc::new(Self {
            view: RefCell::new(None),
            heads: RefCell::default(),
            reorgs: RefCell::default(),
            logs: RefCell::default(),
            by_filter: RefCell::default(),
            waiting: RefCell::default(),
            values: Cell::new(0),
            ids: Ids {
                hashers: [RandomState::new(), RandomState::new()],
                next: Cell::new(0),
            },
            metrics,
        })
    }

    /// The view that everybody here knows; `None` until the first one came.
    pub(crate) fn view(&self) -> Option<Arc<Snapshot>> {
        self.view.borrow().clone()
    }

    /// Goes on with this view if it has the head that is known: what was put below it, nobody is
    /// told of.
    pub(super) fn deepens_to(&self, view: &Arc<Snapshot>) -> bool {
        let mut known = self.view.borrow_mut();
        let known = known.as_mut();
        let known = known.filter(|known| known.head().hash == view.head().hash);
        known.map(|known| *known = Arc::clone(view)).is_some()
    }

    /// Begins with a view, or goes on with one after changes were missed: whoever listens catches
    /// up with it.
    pub(crate) fn begin(&self, view: Arc<Snapshot>) {
        let before = self.view.replace(Some(view));
        if let Some(before) = before {
            let bookmark = Bookmark::at(Cursor::after(before.head()));
            let late = Late::default();
            let add = |listeners: &Listeners| {
                for (id, listener) in listeners {
                    listener.falls_behind(*id, &late, || bookmark.clone());
                }
            };
            add(&self.heads.borrow());
            add(&self.reorgs.borrow());
            self.logs
                .borrow()
                .for_each(|filtered| add(&filtered.listeners));
            fall_behind(late);
        }
        self.wake_waiting();
    }

    /// Has a session looked at after the next change.
    pub(super) fn wakes_on_change(&self, session: &Rc<Session>) {
        if !session.subscriptions.waits_for_change.replace(true) {
            self.waiting.borrow_mut().push(Rc::downgrade(session));
        }
    }

    fn wake_waiting(&self) {
        for session in self.waiting.take() {
            if let Some(session) = session.upgrade() {
                session.subscriptions.waits_for_change.set(false);
                session.wake();
            }
        }
    }

    /// Whether nothing is held for anybody.
    #[cfg(test)]
    pub(super) fn is_unused(&self) -> bool {
        let is_empty = |listeners: &RefCell<Listeners>| listeners.borrow().is_empty();
        is_empty(&self.heads)
            && is_empty(&self.reorgs)
            && self.logs.borrow().is_empty()
            && self.by_filter.borrow().is_empty()
            && self.values.get() == 0
            && self.metrics.subscriptions.get() == 0
    }

    /// A new id: its number here, and its text.
    pub(super) fn new_id(&self) -> (SubscriptionId, String) {
        let number = self.ids.next.get();
        self.ids.next.set(number + 1);
        let [high, low] = self
            .ids
            .hashers
            .each_ref()
            .map(|hasher| hasher.hash_one(number));
        (SubscriptionId(number), format!("0x{high:016x}{low:016x}"))
    }

    /// Tells a subscription from the present view on.
    pub(super) fn list(
        &self,
        id: SubscriptionId,
        kind: &SubscriptionKind,
        session: Weak<Session>,
        start: Start,
    ) -> Place {
        let listener = Listener {
            session,
            start,
            is_late: Cell::new(false),
        };
        match kind {
            SubscriptionKind::NewHeads => {
                self.heads.borrow_mut().insert(id, listener);
                Place::Heads
            }
            SubscriptionKind::Reorgs => {
                self.reorgs.borrow_mut().insert(id, listener);
                Place::Reorgs
            }
            SubscriptionKind::Logs(filter) => {
                let mut logs = self.logs.borrow_mut();
                let known = self.by_filter.borrow().get(filter).copied();
                let filter_id = known.unwrap_or_else(|| {
                    let filtered = Filtered {
                        filter: Rc::clone(filter),
                        listeners: Listeners::new(),
                    };
                    let filter_id = logs.insert(filter, filtered);
                    self.by_filter
                        .borrow_mut()
                        .insert(Rc::clone(filter), filter_id);
                    filter_id
                });
                if let Some(filtered) = logs.get_mut(filter_id) {
                    filtered.listeners.insert(id, listener);
                }
                Place::Logs(filter_id)
            }
        }
    }

    /// Tells a subscription no more.
    pub(super) fn unlist(&self, id: SubscriptionId, place: &Place) {
        match place {
            Place::Heads => drop(self.heads.borrow_mut().remove(&id)),
            Place::Reorgs => drop(self.reorgs.borrow_mut().remove(&id)),
            Place::Logs(filter) => {
                let mut logs = self.logs.borrow_mut();
                let Some(filtered) = logs.get_mut(*filter) else {
                    return;
                };
                filtered.listeners.remove(&id);
                if filtered.listeners.is_empty()
                    && let Some(filtered) = logs.remove(*filter)
                {
                    remove(&mut self.by_filter.borrow_mut(), &filtered.filter);
                }
            }
        }
    }

    /// Tells everybody of a change that builds on the present view.
    pub(crate) fn announce(&self, change: &HeadChanged) {
        let began = Instant::now();
        let late = Late::default();
        let reverted = change.reverted.iter().map(|block| &**block);
        let applied = change.applied.iter().map(|block| &**block);
        if !self.reorgs.borrow().is_empty()
            && let Some(notification) = Notification::reorg(reverted, applied)
            && let Some(before) = self.view()
        {
            let bookmark = || Bookmark::at(Cursor::after(before.head()));
            self.tell(&self.reorgs.borrow(), &notification, &late, bookmark);
        }
        for block in &change.reverted {
            self.tell_logs(block, true, &late);
        }
        // Nothing else would say that the chain went back to a block that was told already.
        if change.applied.is_empty()
            && !self.heads.borrow().is_empty()
            && let Some(before) = self.view()
        {
            let bookmark = || Bookmark::at(Cursor::after(before.head()));
            let notification = Notification::head(change.snapshot.head());
            self.tell(&self.heads.borrow(), &notification, &late, bookmark);
        }
        for block in &change.applied {
            if !self.heads.borrow().is_empty() {
                let bookmark = || Bookmark::at(Cursor::before(block));
                self.tell(
                    &self.heads.borrow(),
                    &Notification::head(block),
                    &late,
                    bookmark,
                );
            }
            self.tell_logs(block, false, &late);
        }
        *self.view.borrow_mut() = Some(Arc::clone(&change.snapshot));
        fall_behind(late);
        self.wake_waiting();
        self.metrics.fanout.observe(began.elapsed().as_secs_f64());
    }

    /// Tells of a block's logs, in reverse order if they are removed.
    fn tell_logs(&self, block: &Arc<Block>, is_removed: bool, late: &Late) {
        let logs = self.logs.borrow();
        if logs.is_empty() {
            return;
        }
        let count = block.json.log_count();
        for at in 0..count {
            let position = if is_removed { count - 1 - at } else { at };
            let mut notification = None;
            let bookmark = || Bookmark {
                cursor: if is_removed {
                    Cursor::before(block)
                } else {
                    Cursor::after(block)
                },
                part: Some(Part {
                    block: Arc::clone(block),
                    is_removed,
                    position: position as u32,
                }),
            };
            // A block has fewer than 2^32 logs: its JSON has fewer bytes.
            logs.matches(&block.postings, position as u32, |_, filtered| {
                if notification.is_none() {
                    notification = Notification::log(block, position, is_removed);
                }
                if let Some(notification) = &notification {
                    self.tell(&filtered.listeners, notification, late, bookmark);
                }
            });
        }
    }

    /// Sends a notification to everybody who has room for it; the others go on from `bookmark` later.
    fn tell(
        &self,
        listeners: &Listeners,
        notification: &Notification,
        late: &Late,
        bookmark: impl Fn() -> Bookmark,
    ) {
        let mut told = 0;
        for (id, listener) in listeners {
            if listener.is_late.get() {
                continue;
            }
            let Some(session) = listener.session.upgrade() else {
                continue;
            };
            if session.notify(notification.pieces(&listener.start)) {
                told += 1;
            } else {
                listener.falls_behind(*id, late, &bookmark);
            }
        }
        self.metrics.notified(told);
    }
}

impl Listener {
    fn falls_behind(&self, id: SubscriptionId, late: &Late, bookmark: impl Fn() -> Bookmark) {
        self.is_late.set(true);
        if let Some(session) = self.session.upgrade() {
            late.borrow_mut().push((id, session, bookmark()));
        }
    }
}

fn fall_behind(late: Late) {
    for (id, session, bookmark) in late.into_inner() {
        session.subscriptions.falls_behind(id, bookmark);
        session.wake();
    }
}

/// Removes an entry; what many once took is given back when few are left.
fn remove<K: Eq + Hash, V>(map: &mut HashMap<K, V>, key: &K) {
    const SMALL: usize = 64;
    map.remove(key);
    if map.capacity() > SMALL && map.len() < map.capacity() / 4 {
        map.shrink_to(2 * map.len());
    }
}
