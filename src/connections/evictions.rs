//! Ends what holds memory for the clients of this worker, when any thread says so.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
};

use nearhead_actors::admission::Evict;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What can be ended on one worker.
#[derive(Default)]
pub(crate) struct Evictions {
    inbox: Arc<Inbox>,
    ends: RefCell<HashMap<u64, Box<dyn FnOnce()>>>,
    next_id: Cell<u64>,
}

/// What other threads want to be ended. It holds at most what is registered.
#[derive(Debug, Default)]
struct Inbox {
    due: Mutex<Vec<u64>>,
    arrived: Notify,
}

/// Ends one thing of a worker, from any thread.
#[derive(Debug)]
pub(crate) struct Eviction {
    inbox: Arc<Inbox>,
    id: u64,
}

/// One thing that can be ended, until this is dropped.
pub(crate) struct Evictable {
    evictions: Weak<Evictions>,
    id: u64,
}

impl Evictions {
    /// Starts to watch the inbox on the current thread, until the last `Rc` is dropped.
    pub(super) fn start() -> Rc<Self> {
        let this = Rc::<Self>::default();
        let (evictions, inbox) = (Rc::downgrade(&this), Arc::clone(&this.inbox));
        actix_web::rt::spawn(async move {
            loop {
                inbox.arrived.notified().await;
                match evictions.upgrade() {
                    Some(evictions) => evictions.run_due(),
                    None => return,
                }
            }
        });
        this
    }

    /// Registers how something is ended.
    pub(crate) fn register(self: &Rc<Self>, end: impl FnOnce() + 'static) -> (Eviction, Evictable) {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        self.ends.borrow_mut().insert(id, Box::new(end));
        let eviction = Eviction {
            inbox: Arc::clone(&self.inbox),
            id,
        };
        let evictable = Evictable {
            evictions: Rc::downgrade(self),
            id,
        };
        (eviction, evictable)
    }

    fn run_due(&self) {
        let due = std::mem::take(&mut *self.inbox.due.lock());
        for id in due {
            // What ends may drop its registration.
            let end = self.ends.borrow_mut().remove(&id);
            if let Some(end) = end {
                end();
            }
        }
    }
}

impl Evict for Eviction {
    fn evict(self: Box<Self>) {
        self.inbox.due.lock().push(self.id);
        self.inbox.arrived.notify_one();
    }
}

impl Drop for Evictable {
    fn drop(&mut self) {
        if let Some(evictions) = self.evictions.upgrade() {
            let end = evictions.ends.borrow_mut().remove(&self.id);
            drop(end);
        }
    }
}

impl Drop for Evictions {
    fn drop(&mut self) {
        // The task that watches the inbox ends.
        self.inbox.arrived.notify_one();
    }
}

impl std::fmt::Debug for Evictions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let registered = self.ends.borrow().len();
        f.debug_struct("Evictions")
            .field("registered", &registered)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Evictable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evictable")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[actix::test]
    async fn another_thread_ends_what_is_still_registered() {
        let evictions = Evictions::start();
        let ended = Rc::new(RefCell::new(Vec::new()));
        let register = |name| {
            let ended = Rc::clone(&ended);
            evictions.register(move || ended.borrow_mut().push(name))
        };
        let (first, _first) = register("first");
        let (gone, gone_registered) = register("gone");
        let (last, _last) = register("last");
        let (_kept, kept_registered) = register("kept");
        drop(gone_registered);
        std::thread::spawn(move || {
            for eviction in [first, gone, last] {
                Box::new(eviction).evict();
            }
        })
        .join()
        .unwrap();
        while ended.borrow().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*ended.borrow(), ["first", "last"]);
        assert_eq!(evictions.ends.borrow().len(), 1);
        drop(kept_registered);
        assert!(evictions.ends.borrow().is_empty());
    }
}
