//! The slots that one worker has for connections, and who is evicted when they run out.

use std::{net::IpAddr, time::Duration};

use super::{
    clock::Tick,
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

/// The slots of one worker, and the strangers among those who have them.
///
/// A stranger that is evicted frees its slot at once, although its socket is closed a little later.
/// So whether another one has to be evicted does not depend on how soon that is.
#[derive(Debug)]
pub(super) struct Slots<T> {
    limits: SlotLimits,
    /// Connections on which a key was accepted.
    accepted: usize,
    strangers: Strangers<T>,
}

impl<T> Slots<T> {
    /// All slots are free.
    pub(super) fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            accepted: 0,
            strangers: Strangers::default(),
        }
    }

    /// Makes room for a stranger that connects from `network`; `None` if it is not counted by
    /// network. Returns those evicted.
    pub(super) fn make_room(&mut self, network: Option<IpAddr>) -> Vec<(T, EvictionReason)> {
        let mut evicted = Vec::new();
        if let Some(network) = network {
            let most = self.limits.strangers_per_network.max(1);
            while self.strangers.count_of(network) >= most
                && let Some(first) = self.strangers.remove_first_of(network)
            {
                evicted.push((first, EvictionReason::Address));
            }
        }
        while self.strangers.len() >= self.limits.strangers_max(self.accepted)
            && let Some(first) = self.strangers.remove_first()
        {
            evicted.push((first, EvictionReason::Slots));
        }
        evicted
    }

    /// Gives a slot to a stranger, after room was made.
    pub(super) fn give(&mut self, stranger: Stranger<T>) -> Position {
        self.strangers.add(stranger)
    }

    /// A stranger's key was accepted: it keeps its slot for as long as it is connected.
    pub(super) fn accepted(&mut self, position: Position) {
        if self.strangers.remove(position).is_some() {
            self.accepted += 1;
        }
    }

    /// A connection ended that has not been evicted. `position` is that of a stranger.
    pub(super) fn free(&mut self, position: Option<Position>) {
        match position {
            Some(position) => drop(self.strangers.remove(position)),
            None => self.accepted -= 1,
        }
    }

    /// Evicts strangers that have been connected for too long, the first ones first: as many as
    /// there are too many, and no more. `is_idle` is whether a stranger waits for nothing but its
    /// own next request.
    pub(super) fn evict_overdue(&mut self, now: Tick, is_idle: impl Fn(&T) -> bool) -> Vec<T> {
        let mut evicted = Vec::new();
        for (crowd, timeout) in self.limits.crowds(self.accepted) {
            let ticks = Tick::try_from(timeout.as_secs()).unwrap_or(Tick::MAX);
            let surplus = (self.strangers.len() + 1).saturating_sub(crowd);
            let overdue = self
                .strangers
                .remove_overdue((now, ticks), surplus, &is_idle);
            evicted.extend(overdue);
        }
        evicted
    }
}

#[cfg(test)]
mod tests;
