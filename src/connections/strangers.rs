//! Connections without an accepted key, in the order in which they are evicted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use super::clock::Tick;

/// A stranger's position in the order. The smallest has been one for longest.
pub(super) type Position = u64;

/// The strangers of one worker: connections whose last key, if any, was not accepted.
#[derive(Debug)]
pub(super) struct Strangers<T> {
    by_position: BTreeMap<Position, Stranger<T>>,
    /// The positions of each network that is counted. A network without strangers is not here.
    by_network: HashMap<IpAddr, BTreeSet<Position>>,
    next: Position,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Stranger<T> {
    pub(super) connection: T,
    /// `None` if it is not counted by network.
    pub(super) network: Option<IpAddr>,
    /// When it connected, or when its key was refused.
    pub(super) since: Tick,
}

impl<T> Default for Strangers<T> {
    fn default() -> Self {
        Self {
            by_position: BTreeMap::new(),
            by_network: HashMap::new(),
            next: 0,
        }
    }
}

impl<T> Strangers<T> {
    /// Adds a stranger behind all others.
    pub(super) fn add(&mut self, stranger: Stranger<T>) -> Position {
        let position = self.next;
        self.next += 1;
        if let Some(network) = stranger.network {
            let positions = self.by_network.entry(network).or_default();
            positions.insert(position);
        }
        self.by_position.insert(position, stranger);
        position
    }

    /// Removes a stranger; `None` if it is not here.
    pub(super) fn remove(&mut self, position: Position) -> Option<Stranger<T>> {
        let stranger = self.by_position.remove(&position)?;
        if let Some(network) = stranger.network
            && let Some(positions) = self.by_network.get_mut(&network)
        {
            positions.remove(&position);
            if positions.is_empty() {
                self.by_network.remove(&network);
            }
        }
        Some(stranger)
    }

    /// Removes the one that has been here for longest.
    pub(super) fn remove_first(&mut self) -> Option<T> {
        let (position, _) = self.by_position.first_key_value()?;
        self.remove_connection(*position)
    }

    /// Removes the one of this network that has been here for longest.
    pub(super) fn remove_first_of(&mut self, network: IpAddr) -> Option<T> {
        let position = *self.by_network.get(&network)?.first()?;
        self.remove_connection(position)
    }

    /// How many strangers there are.
    pub(super) fn len(&self) -> usize {
        self.by_position.len()
    }

    /// How many strangers this network has.
    pub(super) fn count_of(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).map_or(0, BTreeSet::len)
    }

    /// Removes at most `count` of those that have been here for longer than `ticks`, if `may_go`
    /// says so. The tick in which the time began does not count.
    pub(super) fn remove_overdue(
        &mut self,
        (now, ticks): (Tick, Tick),
        count: usize,
        may_go: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let is_overdue =
            |stranger: &Stranger<T>| now.wrapping_sub(stranger.since).saturating_sub(1) >= ticks;
        let positions: Vec<Position> = self
            .by_position
            .iter()
            .take_while(|(_, stranger)| is_overdue(stranger))
            .filter(|(_, stranger)| may_go(&stranger.connection))
            .map(|(position, _)| *position)
            .take(count)
            .collect();
        positions
            .into_iter()
            .filter_map(|position| self.remove_connection(position))
            .collect()
    }

    fn remove_connection(&mut self, position: Position) -> Option<T> {
        Some(self.remove(position)?.connection)
    }
}
