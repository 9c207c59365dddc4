//! The charge of a reply's memory, and how its connection is ended for it.

use std::time::Instant;

use nearhead_actors::admission::ReplyCharge;

use super::evictions::{Evictable, Eviction};

/// What a reply holds until its client has taken it. Dropping it gives the bytes back.
#[derive(Debug)]
pub(crate) struct HeldReply {
    charge: ReplyCharge,
    _evictable: Option<Evictable>,
}

impl HeldReply {
    /// A reply that ends by `eviction` when others need its memory.
    pub(crate) fn new(charge: ReplyCharge, (eviction, evictable): (Eviction, Evictable)) -> Self {
        charge.evict_by(eviction);
        Self {
            charge,
            _evictable: Some(evictable),
        }
    }

    /// A reply on no connection: it ends by itself.
    pub(crate) const fn without_connection(charge: ReplyCharge) -> Self {
        Self {
            charge,
            _evictable: None,
        }
    }

    /// Records that the client took a part of it.
    pub(crate) fn progressed(&self, now: Instant) {
        self.charge.progressed(now);
    }
}
