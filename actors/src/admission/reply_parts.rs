//! The parts of large replies that a thread makes.

use std::{cell::Cell, rc::Rc, time::Duration};

use tokio::task::yield_now;

use super::cost::{REPLY_PARTS_TIME_MAX, TURNS_OF_REQUEST};

/// The parts that a thread makes.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The time that all of them took.
    time: Cell<Duration>,
    /// That time when the thread last looked at its sockets, and how often it did, if parts were
    /// made in between.
    time_at_look: Cell<Duration>,
    looks: Cell<u64>,
    will_look: Cell<bool>,
}

impl Parts {
    /// The time that all of them took, since the thread began.
    pub(super) fn time(&self) -> Duration {
        self.time.get()
    }

    /// How often the thread looked at its sockets after it had made parts.
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }

    /// One took this long.
    pub(super) fn add(self: &Rc<Self>, time: Duration) {
        self.time.set(self.time.get() + time);
        if !self.will_look.replace(true) {
            let this = Rc::clone(self);
            actix::spawn(async move {
                for _ in 0..TURNS_OF_REQUEST {
                    yield_now().await;
                }
                this.time_at_look.set(this.time.get());
                this.looks.set(this.looks.get() + 1);
                this.will_look.set(false);
            });
        }
    }

    /// Whether the thread has to look at its sockets before it makes another one.
    pub(super) fn are_enough(&self) -> bool {
        self.time.get() - self.time_at_look.get() >= REPLY_PARTS_TIME_MAX
    }
}
