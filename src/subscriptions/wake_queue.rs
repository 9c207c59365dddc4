//! The sessions of one worker that a change of the head has given something to do.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use tokio::task::yield_now;

use super::sink::NotificationSink;

/// Sessions that are woken in one turn of the event loop: each then sends what is queued, which
/// takes some ten microseconds.
pub(crate) const WOKEN_MAX: usize = 64;

/// After this time, all that are left are woken at once: turns are long on a busy machine.
const WAKING_TIME: Duration = Duration::from_millis(250);

/// Sessions that are to be woken, because they have messages to send, or subscriptions that are to
/// catch up.
///
/// Some are woken in each turn of the event loop, so that all other work of the thread has its
/// turns in between.
#[derive(Default)]
pub(super) struct WakeQueue {
    sinks: RefCell<VecDeque<Weak<dyn NotificationSink>>>,
    /// When the first of them was queued.
    since: Cell<Option<Instant>>,
}

impl WakeQueue {
    /// Queues a session, unless it is queued already.
    pub(super) fn push(&self, sink: &Rc<dyn NotificationSink>) {
        if sink.queue_wake() {
            let mut sinks = self.sinks.borrow_mut();
            if sinks.is_empty() {
                self.since.set(Some(Instant::now()));
            }
            sinks.push_back(Rc::downgrade(sink));
        }
    }

    /// Wakes all. Whoever drops this future goes on with another one.
    pub(super) async fn wake_in_turns(&self) {
        while self.wake_next() {
            yield_now().await;
        }
    }

    /// Wakes those of one turn. Whether others are left.
    fn wake_next(&self) -> bool {
        let mut sinks = self.sinks.borrow_mut();
        let is_late = |since: Instant| since.elapsed() >= WAKING_TIME;
        let most = match self.since.get().is_some_and(is_late) {
            true => sinks.len(),
            false => sinks.len().min(WOKEN_MAX),
        };
        for sink in sinks.drain(..most).filter_map(|sink| sink.upgrade()) {
            sink.wake_queued();
        }
        !sinks.is_empty()
    }

    /// As if all had been queued before [`WAKING_TIME`].
    #[cfg(test)]
    pub(super) fn set_late(&self) {
        self.since.set(Instant::now().checked_sub(WAKING_TIME));
    }
}
