//! Ids of subscriptions.

use std::{
    cell::Cell,
    hash::{BuildHasher, RandomState},
};

/// A subscription's number on its worker, in the order of subscribing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubscriptionNumber(u64);

/// Makes ids for one worker. A client cannot guess the next one; an id is valid only in its own
/// session.
pub(super) struct SubscriptionIds {
    hashers: [RandomState; 2],
    next: Cell<u64>,
}

impl SubscriptionIds {
    pub(super) fn new() -> Self {
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            next: Cell::new(0),
        }
    }

    /// A new id: its number, and the text that the client sees (`0x` and 32 digits).
    pub(super) fn next(&self) -> (SubscriptionNumber, String) {
        let number = self.next.get();
        self.next.set(number + 1);
        let [high, low] = self
            .hashers
            .each_ref()
            .map(|hasher| hasher.hash_one(number));
        (
            SubscriptionNumber(number),
            format!("0x{high:016x}{low:016x}"),
        )
    }
}
