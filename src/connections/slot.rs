//! A connection's slot, which is freed when the connection ends.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::{Rc, Weak},
};

use super::{
    clock::Tick,
    slots::{SlotLimits, Slots},
    strangers::Turn,
};
use crate::metrics::{EvictionReason, ListenerMetrics};

/// The slots of one worker, which its connections share, and what they are counted by.
#[derive(Debug)]
pub(super) struct SharedSlots<T> {
    slots: RefCell<Slots<T>>,
    metrics: ListenerMetrics,
}

/// What one connection is to the slots of its worker. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot<T> {
    shared: Weak<SharedSlots<T>>,
    standing: Cell<Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has no slot, or not any more.
    NoSlot,
    /// None of its keys was accepted so far.
    Stranger(Turn),
    /// A key was accepted.
    Accepted,
}

impl<T> SharedSlots<T> {
    pub(super) fn new(limits: SlotLimits, metrics: ListenerMetrics) -> Rc<Self> {
        let slots = RefCell::new(Slots::new(limits));
        Rc::new(Self { slots, metrics })
    }

    /// Makes room for a stranger from `network`. Those that are returned have lost their slots:
    /// [`Slot::lose`].
    pub(super) fn make_room(&self, network: Option<IpAddr>) -> Vec<T> {
        let evicted = self.slots.borrow_mut().make_room(network);
        let count = |(connection, reason)| {
            self.evicted(reason);
            connection
        };
        evicted.into_iter().map(count).collect()
    }

    /// Takes the slots of strangers that are idle for too long. Those that are returned have lost
    /// them.
    pub(super) fn free_overdue(&self, now: Tick, is_idle: impl Fn(&T) -> bool) -> Vec<T> {
        let overdue = self.slots.borrow_mut().free_overdue(now, is_idle);
        overdue
            .iter()
            .for_each(|_| self.evicted(EvictionReason::Idle));
        overdue
    }

    fn evicted(&self, reason: EvictionReason) {
        self.metrics.strangers.dec();
        self.metrics.evicted(reason);
    }
}

impl<T> Slot<T> {
    /// None of these slots yet.
    pub(super) fn of(shared: &Rc<SharedSlots<T>>) -> Self {
        Self {
            shared: Rc::downgrade(shared),
            standing: Cell::new(Standing::NoSlot),
        }
    }

    /// None, for ever.
    #[cfg(test)]
    pub(super) const fn none() -> Self {
        Self {
            shared: Weak::new(),
            standing: Cell::new(Standing::NoSlot),
        }
    }

    /// Takes a slot for a stranger, after room was made.
    pub(super) fn take(&self, connection: T, network: Option<IpAddr>, now: Tick) {
        if let Some(shared) = self.shared.upgrade() {
            let turn = shared.slots.borrow_mut().give(connection, network, now);
            self.standing.set(Standing::Stranger(turn));
            shared.metrics.strangers.inc();
        }
    }

    /// A request began: all other strangers go before this one.
    pub(super) fn requested(&self, now: Tick) {
        if let Standing::Stranger(turn) = self.standing.get()
            && let Some(shared) = self.shared.upgrade()
        {
            let turn = shared.slots.borrow_mut().requested(turn, now);
            let standing = turn.map_or(Standing::NoSlot, Standing::Stranger);
            self.standing.set(standing);
        }
    }

    /// A key was accepted: this is no stranger's from now on.
    pub(super) fn accepted(&self) {
        if let Standing::Stranger(turn) = self.standing.get()
            && let Some(shared) = self.shared.upgrade()
        {
            self.standing.set(Standing::Accepted);
            shared.slots.borrow_mut().accepted(turn);
            shared.metrics.strangers.dec();
            shared.metrics.accepted.inc();
        }
    }

    /// The slot was taken away.
    pub(super) fn lose(&self) {
        self.standing.set(Standing::NoSlot);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let turn = match self.standing.get() {
            Standing::NoSlot => return,
            Standing::Stranger(turn) => Some(turn),
            Standing::Accepted => None,
        };
        if let Some(shared) = self.shared.upgrade() {
            shared.slots.borrow_mut().free(turn);
            match turn {
                Some(_) => shared.metrics.strangers.dec(),
                None => shared.metrics.accepted.dec(),
            }
        }
    }
}
