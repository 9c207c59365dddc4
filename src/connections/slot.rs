//! A connection's slot, which is freed when the connection ends.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::{Rc, Weak},
};

use super::{
    clock::Tick,
    slots::{SlotLimits, Slots},
    strangers::{Position, Stranger},
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
    state: Cell<SlotState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    /// It has no slot, or not any more.
    NoSlot,
    /// None of its keys was accepted so far.
    Stranger(Position),
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

    /// Takes the slots of strangers that have been connected for too long. Those that are returned
    /// have lost them.
    pub(super) fn evict_overdue(&self, now: Tick, is_idle: impl Fn(&T) -> bool) -> Vec<T> {
        let overdue = self.slots.borrow_mut().evict_overdue(now, is_idle);
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
            state: Cell::new(SlotState::NoSlot),
        }
    }

    /// None, for ever.
    #[cfg(test)]
    pub(super) const fn none() -> Self {
        Self {
            shared: Weak::new(),
            state: Cell::new(SlotState::NoSlot),
        }
    }

    /// Takes a slot for a stranger, after room was made.
    pub(super) fn take(&self, connection: T, network: Option<IpAddr>, now: Tick) {
        if let Some(shared) = self.shared.upgrade() {
            let stranger = Stranger {
                connection,
                network,
                since: now,
            };
            let position = shared.slots.borrow_mut().give(stranger);
            self.state.set(SlotState::Stranger(position));
            shared.metrics.strangers.inc();
        }
    }

    /// A key was accepted: this is no stranger's from now on.
    pub(super) fn accepted(&self) {
        if let SlotState::Stranger(position) = self.state.get()
            && let Some(shared) = self.shared.upgrade()
        {
            self.state.set(SlotState::Accepted);
            shared.slots.borrow_mut().accepted(position);
            shared.metrics.strangers.dec();
            shared.metrics.accepted.inc();
        }
    }

    /// The slot was taken away.
    pub(super) fn lose(&self) {
        self.state.set(SlotState::NoSlot);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let position = match self.state.get() {
            SlotState::NoSlot => return,
            SlotState::Stranger(position) => Some(position),
            SlotState::Accepted => None,
        };
        if let Some(shared) = self.shared.upgrade() {
            shared.slots.borrow_mut().free(position);
            match position {
                Some(_) => shared.metrics.strangers.dec(),
                None => shared.metrics.accepted.dec(),
            }
        }
    }
}
