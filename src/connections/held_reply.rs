//! The charge of a reply's memory, and how its connection is ended for it.

use std::{cell::Cell, rc::Rc, time::Instant};

use nearhead_actors::admission::ReplyCharge;

use super::evictions::{Evictable, Eviction};

/// What a reply holds until its client has taken it. Dropping it gives the bytes back.
#[derive(Debug)]
pub(crate) struct HeldReply {
    charge: ReplyCharge,
    _evictable: Option<Evictable>,
    /// Whether its last bytes were passed on to the connection.
    passed_on: Rc<Cell<bool>>,
}

impl HeldReply {
    /// A reply that ends by `eviction` when others need its memory.
    pub(crate) fn new(charge: ReplyCharge, (eviction, evictable): (Eviction, Evictable)) -> Self {
        charge.evict_by(eviction);
        Self {
            charge,
            _evictable: Some(evictable),
            passed_on: Rc::default(),
        }
    }

    /// A reply on no connection: it ends by itself.
    pub(crate) fn without_connection(charge: ReplyCharge) -> Self {
        Self {
            charge,
            _evictable: None,
            passed_on: Rc::default(),
        }
    }

    /// The same reply, with this record of whether its last bytes were passed on.
    pub(super) fn recorded_by(mut self, passed_on: Rc<Cell<bool>>) -> Self {
        self.passed_on = passed_on;
        self
    }

    /// Records that its last bytes were passed on to the connection.
    pub(super) fn was_passed_on(&self) {
        self.passed_on.set(true);
    }

    /// Records that the client took a part of it.
    pub(crate) fn progressed(&self, now: Instant) {
        self.charge.progressed(now);
    }
}

impl Drop for HeldReply {
    /// The charge is given back next, and its end is a part of what is measured.
    fn drop(&mut self) {
        self.charge.progressed(Instant::now());
    }
}
