//! Everybody on one worker who is told at once.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    rc::{Rc, Weak},
    sync::Arc,
    time::Instant,
};

use nearhead_actors::messages::HeadChanged;
use nearhead_chain::{
    block::Block,
    log_search::{FilterId, FilterIndex, LogFilter},
    window::Snapshot,
};

use super::notice::{Notice, Start};
use crate::{
    metrics::Metrics,
    rpc::Topic,
    sessions::{Session, Why},
};

/// The subscriptions of one worker that know its present view, and that view.
pub(crate) struct Hub {
    view: RefCell<Option<Arc<Snapshot>>>,
    heads: RefCell<Listeners>,
    reorgs: RefCell<Listeners>,
    logs: RefCell<FilterIndex<Filtered>>,
    by_filter: RefCell<HashMap<LogFilter, FilterId>>,
    ids: Ids,
    pub(super) metrics: Metrics,
}

type Listeners = HashMap<SubscriptionId, Listener>;

/// Everybody who asked for the same logs.
struct Filtered {
    filter: LogFilter,
    listeners: Listeners,
}

/// Names a subscription on its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubscriptionId(u64);

/// A subscription that is told.
struct Listener {
    session: Weak<Session>,
    start: Start,
}

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

    /// Begins with a view.
    pub(crate) fn begin(&self, view: Arc<Snapshot>) {
        *self.view.borrow_mut() = Some(view);
    }

    /// Changes were missed: whoever listens is told to begin anew.
    pub(crate) fn give_up(&self) {
        *self.view.borrow_mut() = None;
        let mut listeners: Vec<Rc<Session>> = Vec::new();
        let mut add = |all: &Listeners| {
            listeners.extend(
                all.values()
                    .filter_map(|listener| listener.session.upgrade()),
            );
        };
        add(&self.heads.borrow());
        add(&self.reorgs.borrow());
        self.logs
            .borrow()
            .for_each(|filtered| add(&filtered.listeners));
        for session in listeners {
            session.evict(Why::FELL_BEHIND);
        }
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
        topic: &Topic,
        session: Weak<Session>,
        start: Start,
    ) -> Place {
        let listener = Listener { session, start };
        match topic {
            Topic::NewHeads => {
                self.heads.borrow_mut().insert(id, listener);
                Place::Heads
            }
            Topic::Reorgs => {
                self.reorgs.borrow_mut().insert(id, listener);
                Place::Reorgs
            }
            Topic::Logs(filter) => {
                let mut logs = self.logs.borrow_mut();
                let known = self.by_filter.borrow().get(filter).copied();
                let filter_id = known.unwrap_or_else(|| {
                    let filtered = Filtered {
                        filter: filter.clone(),
                        listeners: Listeners::new(),
                    };
                    let filter_id = logs.insert(filter, filtered);
                    self.by_filter
                        .borrow_mut()
                        .insert(filter.clone(), filter_id);
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
                    self.by_filter.borrow_mut().remove(&filtered.filter);
                }
            }
        }
    }

    /// Tells everybody of a change that builds on the present view.
    pub(crate) fn announce(&self, change: &HeadChanged) {
        let began = Instant::now();
        let reverted = change.reverted.iter().map(|block| &**block);
        let applied = change.applied.iter().map(|block| &**block);
        if !self.reorgs.borrow().is_empty()
            && let Some(notice) = Notice::reorg(reverted.clone(), applied.clone())
        {
            self.tell(&self.reorgs.borrow(), &notice);
        }
        for block in reverted {
            self.tell_logs(block, true);
        }
        for block in applied {
            if !self.heads.borrow().is_empty() {
                self.tell(&self.heads.borrow(), &Notice::head(block));
            }
            self.tell_logs(block, false);
        }
        *self.view.borrow_mut() = Some(Arc::clone(&change.snapshot));
        self.metrics.fanout.observe(began.elapsed().as_secs_f64());
    }

    /// Tells of a block's logs, in reverse order if they are removed.
    fn tell_logs(&self, block: &Block, is_removed: bool) {
        let logs = self.logs.borrow();
        if logs.is_empty() {
            return;
        }
        let count = block.json.log_count();
        for at in 0..count {
            let position = if is_removed { count - 1 - at } else { at };
            let mut notice: Option<(Notice, bytes::Bytes)> = None;
            // A block has fewer than 2^32 logs: its JSON has fewer bytes.
            logs.matches(&block.postings, position as u32, |_, filtered| {
                if notice.is_none() {
                    notice = Notice::log(block, position, is_removed).map(|notice| {
                        let frame = notice.frame();
                        (notice, frame)
                    });
                }
                if let Some((notice, frame)) = &notice {
                    self.send(&filtered.listeners, notice, frame);
                }
            });
        }
    }

    fn tell(&self, listeners: &Listeners, notice: &Notice) {
        self.send(listeners, notice, &notice.frame());
    }

    fn send(&self, listeners: &Listeners, notice: &Notice, frame: &bytes::Bytes) {
        self.metrics.notified(listeners.len());
        for listener in listeners.values() {
            if let Some(session) = listener.session.upgrade() {
                session.notify(notice.pieces(frame, &listener.start));
            }
        }
    }
}
