//! The slots that one worker has for connections, and who has to go when they run out.

use std::{net::IpAddr, time::Duration};

use super::{
    clock::Tick,
    strangers::{Strangers, Turn},
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

    /// Slots that strangers leave free, so that the next connection need not wait until one of them
    /// is closed.
    fn reserved(&self) -> usize {
        (self.slots / 16).clamp(1, RESERVED_SLOTS_MAX)
    }

    /// Open connections from which strangers have to go.
    fn full(&self) -> usize {
        self.slots.saturating_sub(self.reserved())
    }

    /// How long a stranger may take for the head of a request while this many connections are open;
    /// `None` while there is room.
    pub(super) fn header_timeout(&self, open: usize) -> Option<Duration> {
        if open >= self.full() {
            Some(FULL_HEADER_TIMEOUT)
        } else if open >= self.slots - self.slots / 4 {
            Some(CROWDED_HEADER_TIMEOUT)
        } else {
            None
        }
    }
}

/// The slots of one worker, and the strangers among those who have them.
///
/// A stranger that has to go frees its slot at once, although its socket is closed a little later.
#[derive(Debug)]
pub(super) struct Slots<T> {
    limits: SlotLimits,
    open: usize,
    strangers: Strangers<T>,
}

impl<T> Slots<T> {
    /// All slots are free.
    pub(super) fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            open: 0,
            strangers: Strangers::default(),
        }
    }

    /// Makes room for a stranger that connects from `network`; `None` if it is not counted by
    /// network. Returns those that have to go for it.
    pub(super) fn make_room(&mut self, network: Option<IpAddr>) -> Vec<(T, EvictionReason)> {
        let mut evicted = Vec::new();
        if let Some(network) = network {
            let most = self.limits.strangers_per_network.max(1);
            while self.strangers.count_of(network) >= most
                && let Some(first) = self.strangers.remove_first_of(network)
            {
                evicted.push((first, EvictionReason::Address));
                self.open -= 1;
            }
        }
        while self.open >= self.limits.full()
            && let Some(first) = self.strangers.remove_first()
        {
            evicted.push((first, EvictionReason::Slots));
            self.open -= 1;
        }
        evicted
    }

    /// Gives a slot to a stranger, after room was made.
    pub(super) fn give(&mut self, connection: T, network: Option<IpAddr>, now: Tick) -> Turn {
        self.open += 1;
        self.strangers.add(connection, network, now)
    }

    /// A stranger sent a request: all others go before it. Returns its new turn.
    pub(super) fn requested(&mut self, turn: Turn, now: Tick) -> Option<Turn> {
        self.strangers.move_back(turn, now)
    }

    /// A stranger's key was accepted: it keeps its slot for as long as it is connected.
    pub(super) fn accepted(&mut self, turn: Turn) {
        self.strangers.remove(turn);
    }

    /// A connection ended that has not been evicted. `turn` is that of a stranger.
    pub(super) fn free(&mut self, turn: Option<Turn>) {
        if let Some(turn) = turn {
            self.strangers.remove(turn);
        }
        self.open -= 1;
    }

    /// Frees the slots of strangers that are idle for too long, as far as the slots run out.
    /// `is_idle` is whether a stranger waits for nothing but its own next request.
    pub(super) fn free_overdue(&mut self, now: Tick, is_idle: impl Fn(&T) -> bool) -> Vec<T> {
        let Some(timeout) = self.limits.header_timeout(self.open) else {
            return Vec::new();
        };
        let ticks = Tick::try_from(timeout.as_secs()).unwrap_or(Tick::MAX);
        let overdue = self.strangers.remove_overdue(now, ticks, is_idle);
        self.open -= overdue.len();
        overdue
    }
}

#[cfg(test)]
mod tests;
