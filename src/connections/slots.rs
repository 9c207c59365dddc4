//! The slots that one worker has for connections, and who is evicted when they run out.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{
    clock::Tick,
    holders::{Holder, HolderId, Holders},
    owners::{Owner, Owners},
    strangers::{Position, Stranger, Strangers},
};
use crate::{
    limits::{CROWDED_HEADER_TIMEOUT, FULL_HEADER_TIMEOUT, RESERVED_SLOTS_MAX},
    metrics::EvictionReason,
};

/// The bounds of one worker's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    /// Connections that may be open.
    pub(crate) slots: usize,
    /// Strangers that one network may have.
    pub(crate) strangers_per_network: usize,
}

impl SlotLimits {
    /// No bounds: for an application without a listener.
    pub(crate) const NONE: Self = Self {
        slots: usize::MAX,
        strangers_per_network: usize::MAX,
    };

    /// Strangers that may be connected while keys hold this many slots. The others leave free what
    /// the next connection takes while the one that is evicted for it is still being closed.
    fn strangers_max(&self, accepted: usize) -> usize {
        let shared = self.shared(accepted);
        shared.saturating_sub((shared / 16).clamp(1, RESERVED_SLOTS_MAX))
    }

    /// Slots that no key holds.
    const fn shared(&self, accepted: usize) -> usize {
        self.slots.saturating_sub(accepted)
    }

    /// How many strangers there may be before they have less time for the head of a request, and
    /// how much they have then: the tightest bound last.
    fn crowds(&self, accepted: usize) -> [(usize, Duration); 2] {
        let shared = self.shared(accepted);
        [
            (shared - shared / 4, CROWDED_HEADER_TIMEOUT),
            (self.strangers_max(accepted), FULL_HEADER_TIMEOUT),
        ]
    }
}

/// The slots of one worker, and those who have them.
///
/// A connection that is evicted frees its slot at once, although its socket is closed a little
/// later. So whether another one has to be evicted does not depend on how soon that is.
#[derive(Debug)]
pub(super) struct Slots<T> {
    limits: SlotLimits,
    strangers: Strangers<T>,
    /// Connections on which a key was accepted.
    holders: Holders<T>,
}

/// Connections that have lost their slots.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Evicted<T> {
    pub(super) strangers: Vec<(T, EvictionReason)>,
    /// One on which a key was accepted.
    pub(super) holder: Option<T>,
}

impl<T> Slots<T> {
    /// All slots are free. `owners` counts whoever has connections on any worker.
    pub(super) fn new(limits: SlotLimits, owners: Arc<Owners>) -> Self {
        Self {
            limits,
            strangers: Strangers::default(),
            holders: Holders::new(owners),
        }
    }

    /// Makes room for a stranger that connects from `network`; `None` if it is not counted by
    /// network. A holder's connection is evicted only if the stranger gets the last slot, and no
    /// other stranger can be evicted. `idle_since` is `None` for a connection with a request in
    /// progress.
    pub(super) fn make_room(
        &mut self,
        network: Option<IpAddr>,
        now: Tick,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Evicted<T> {
        let mut strangers = Vec::new();
        if let Some(network) = network {
            let most = self.limits.strangers_per_network.max(1);
            while self.strangers.count_of(network) >= most
                && let Some(first) = self.strangers.remove_first_of(network)
            {
                strangers.push((first, EvictionReason::Address));
            }
        }
        let most = self.limits.strangers_max(self.holders.len());
        while self.strangers.len() >= most
            && let Some(first) = self.strangers.remove_first()
        {
            strangers.push((first, EvictionReason::Slots));
        }
        let holder = if self.strangers.len() == 0 {
            self.evict_holder(1, now, idle_since)
        } else {
            None
        };
        Evicted { strangers, holder }
    }

    /// How many tenants have connections.
    pub(super) fn owners(&self) -> usize {
        self.holders.owners()
    }

    /// Gives a slot to a stranger, after room was made.
    pub(super) fn give(&mut self, stranger: Stranger<T>) -> Position {
        self.strangers.add(stranger)
    }

    /// A stranger's key was accepted. `None` if it is no stranger.
    pub(super) fn accepted(
        &mut self,
        position: Position,
        owner: Owner,
        now: Tick,
    ) -> Option<HolderId> {
        let Stranger {
            connection,
            network,
            ..
        } = self.strangers.remove(position)?;
        let holder = Holder {
            connection,
            network,
            owner,
        };
        Some(self.holders.add(holder, now))
    }

    /// A holder's key was refused: this is a stranger's connection again. `None` if it is no
    /// holder's.
    pub(super) fn refused(&mut self, id: HolderId, now: Tick) -> Option<Position> {
        let Holder {
            connection,
            network,
            ..
        } = self.holders.remove(id)?;
        Some(self.strangers.add(Stranger {
            connection,
            network,
            since: now,
        }))
    }

    /// A holder's connection has a session: it keeps its slot for as long as it is connected.
    pub(super) fn keep(&mut self, id: HolderId) {
        self.holders.keep(id);
    }

    /// A stranger's connection ended that has not been evicted.
    pub(super) fn free_stranger(&mut self, position: Position) {
        self.strangers.remove(position);
    }

    /// A holder's connection ended that has not been evicted.
    pub(super) fn free_holder(&mut self, id: HolderId) {
        self.holders.remove(id);
    }

    /// Evicts strangers that have been connected for too long, the first ones first: as many as
    /// there are too many, and no more. Then there may be no slot left for whoever connects next,
    /// and a holder's connection is evicted.
    pub(super) fn evict_overdue(
        &mut self,
        now: Tick,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Evicted<T> {
        let is_idle = |connection: &T| idle_since(connection).is_some();
        let mut strangers = Vec::new();
        for (crowd, timeout) in self.limits.crowds(self.holders.len()) {
            let ticks = Tick::try_from(timeout.as_secs()).unwrap_or(Tick::MAX);
            let surplus = (self.strangers.len() + 1).saturating_sub(crowd);
            let overdue = self
                .strangers
                .remove_overdue((now, ticks), surplus, is_idle);
            let idle = |connection| (connection, EvictionReason::Idle);
            strangers.extend(overdue.into_iter().map(idle));
        }
        let holder = self.evict_holder(0, now, idle_since);
        Evicted { strangers, holder }
    }

    /// Evicts an idle connection of a holder, if no slot is left besides those of `newcomers`.
    fn evict_holder(
        &mut self,
        newcomers: usize,
        now: Tick,
        idle_since: impl Fn(&T) -> Option<Tick>,
    ) -> Option<T> {
        let (open, slots) = (self.strangers.len() + self.holders.len(), self.limits.slots);
        if open + newcomers < slots {
            return None;
        }
        self.holders.remove_idle(now, slots, idle_since)
    }
}

#[cfg(test)]
mod tests;
