//! A connection's slot, which is freed when the connection ends.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    rc::{Rc, Weak},
    sync::Arc,
};

use super::{
    clock::Tick,
    holders::HolderId,
    owners::{Owner, Owners},
    slots::{Evicted, SlotLimits, Slots},
    strangers::{Position, Stranger},
};
use crate::metrics::ListenerMetrics;

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
    /// No key was accepted, or the last one was refused.
    Stranger(Position),
    /// A key was accepted.
    Holder(HolderId),
}

impl<T> SharedSlots<T> {
    pub(super) fn new(
        limits: SlotLimits,
        owners: Arc<Owners>,
        metrics: ListenerMetrics,
    ) -> Rc<Self> {
        let slots = RefCell::new(Slots::new(limits, owners));
        Rc::new(Self { slots, metrics })
    }

    /// Makes room for a stranger from `network`. Those that are returned have lost their slots:
    /// [`Slot::lose`].
    pub(super) fn make_room(
        &self,
        network: Option<IpAddr>,
        now: Tick,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Vec<T> {
        let evicted = self.slots.borrow_mut().make_room(network, now, idle_since);
        self.count(evicted)
    }

    /// Takes the slots of strangers that have been connected for too long, and of a holder if all
    /// are taken. Those that are returned have lost them.
    pub(super) fn evict_overdue(
        &self,
        now: Tick,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Vec<T> {
        let evicted = self.slots.borrow_mut().evict_overdue(now, idle_since);
        self.count(evicted)
    }

    /// Whether all connections on which a key was accepted are one tenant's.
    pub(super) fn have_one_owner(&self) -> bool {
        self.slots.borrow().owners() <= 1
    }

    fn count(&self, evicted: Evicted<T>) -> Vec<T> {
        let mut connections = Vec::new();
        for (connection, reason) in evicted.strangers {
            self.metrics.strangers.dec();
            self.metrics.evicted(reason);
            connections.push(connection);
        }
        if let Some(connection) = evicted.holder {
            self.metrics.accepted.dec();
            self.metrics.idle_evicted.inc();
            connections.push(connection);
        }
        connections
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

    /// Gives up the slot of a stranger; whether it was one.
    pub(super) fn leave(&self) -> bool {
        let SlotState::Stranger(position) = self.state.get() else {
            return false;
        };
        self.state.set(SlotState::NoSlot);
        if let Some(shared) = self.shared.upgrade() {
            shared.slots.borrow_mut().free_stranger(position);
            shared.metrics.strangers.dec();
        }
        true
    }

    /// A key of this owner was accepted: this is no stranger's from now on.
    pub(super) fn accepted(&self, owner: Owner, now: Tick) {
        if let SlotState::Stranger(position) = self.state.get()
            && let Some(shared) = self.shared.upgrade()
            && let Some(id) = shared.slots.borrow_mut().accepted(position, owner, now)
        {
            self.state.set(SlotState::Holder(id));
            shared.metrics.strangers.dec();
            shared.metrics.accepted.inc();
        }
    }

    /// A key was refused: this is a stranger's from now on.
    pub(super) fn refused(&self, now: Tick) {
        if let SlotState::Holder(id) = self.state.get()
            && let Some(shared) = self.shared.upgrade()
            && let Some(position) = shared.slots.borrow_mut().refused(id, now)
        {
            self.state.set(SlotState::Stranger(position));
            shared.metrics.accepted.dec();
            shared.metrics.strangers.inc();
        }
    }

    /// The connection has a session, and is not evicted any more if a key was accepted.
    pub(super) fn keep(&self) {
        if let SlotState::Holder(id) = self.state.get()
            && let Some(shared) = self.shared.upgrade()
        {
            shared.slots.borrow_mut().keep(id);
        }
    }

    /// The slot was taken away.
    pub(super) fn lose(&self) {
        self.state.set(SlotState::NoSlot);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        match self.state.get() {
            SlotState::NoSlot => {}
            SlotState::Stranger(position) => {
                shared.slots.borrow_mut().free_stranger(position);
                shared.metrics.strangers.dec();
            }
            SlotState::Holder(id) => {
                shared.slots.borrow_mut().free_holder(id);
                shared.metrics.accepted.dec();
            }
        }
    }
}
