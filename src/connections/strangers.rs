//! Connections without an accepted key, in the order in which they have to go.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use super::clock::Tick;

/// Where a stranger stands in the order. The smallest has been idle for longest.
pub(super) type Turn = u64;

/// The strangers of one worker: connections that have had no accepted key so far.
#[derive(Debug)]
pub(super) struct Strangers<T> {
    by_turn: BTreeMap<Turn, Stranger<T>>,
    /// The turns of each network that is counted. A network without strangers is not here.
    by_network: HashMap<IpAddr, BTreeSet<Turn>>,
    next: Turn,
}

/// One of them.
#[derive(Debug)]
struct Stranger<T> {
    connection: T,
    /// `None` if it is not counted by network.
    network: Option<IpAddr>,
    /// When its last request began, or when it connected.
    since: Tick,
}

impl<T> Default for Strangers<T> {
    fn default() -> Self {
        Self {
            by_turn: BTreeMap::new(),
            by_network: HashMap::new(),
            next: 0,
        }
    }
}

impl<T> Strangers<T> {
    /// Adds a connection behind all others.
    pub(super) fn add(&mut self, connection: T, network: Option<IpAddr>, now: Tick) -> Turn {
        let stranger = Stranger {
            connection,
            network,
            since: now,
        };
        self.push(stranger)
    }

    /// Moves a stranger behind all others, because it has sent a request. Returns its new turn;
    /// `None` if it is not here.
    pub(super) fn move_back(&mut self, turn: Turn, now: Tick) -> Option<Turn> {
        let stranger = self.take(turn)?;
        Some(self.push(Stranger {
            since: now,
            ..stranger
        }))
    }

    /// Removes a stranger; `None` if it is not here.
    pub(super) fn remove(&mut self, turn: Turn) -> Option<T> {
        Some(self.take(turn)?.connection)
    }

    /// Removes the one that has been idle for longest.
    pub(super) fn remove_first(&mut self) -> Option<T> {
        let (turn, _) = self.by_turn.first_key_value()?;
        self.remove(*turn)
    }

    /// Removes the one of this network that has been idle for longest.
    pub(super) fn remove_first_of(&mut self, network: IpAddr) -> Option<T> {
        let turn = *self.by_network.get(&network)?.first()?;
        self.remove(turn)
    }

    /// How many strangers this network has.
    pub(super) fn count_of(&self, network: IpAddr) -> usize {
        self.by_network.get(&network).map_or(0, BTreeSet::len)
    }

    /// Removes those that have been idle for longer than `ticks`, if `may_go` says so. The tick in
    /// which the time began does not count.
    pub(super) fn remove_overdue(
        &mut self,
        now: Tick,
        ticks: Tick,
        may_go: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let is_overdue =
            |stranger: &Stranger<T>| now.wrapping_sub(stranger.since).saturating_sub(1) >= ticks;
        let turns: Vec<Turn> = self
            .by_turn
            .iter()
            .take_while(|(_, stranger)| is_overdue(stranger))
            .filter(|(_, stranger)| may_go(&stranger.connection))
            .map(|(turn, _)| *turn)
            .collect();
        turns
            .into_iter()
            .filter_map(|turn| self.remove(turn))
            .collect()
    }

    fn push(&mut self, stranger: Stranger<T>) -> Turn {
        let turn = self.next;
        self.next += 1;
        if let Some(network) = stranger.network {
            self.by_network.entry(network).or_default().insert(turn);
        }
        self.by_turn.insert(turn, stranger);
        turn
    }

    fn take(&mut self, turn: Turn) -> Option<Stranger<T>> {
        let stranger = self.by_turn.remove(&turn)?;
        if let Some(network) = stranger.network
            && let Some(turns) = self.by_network.get_mut(&network)
        {
            turns.remove(&turn);
            if turns.is_empty() {
                self.by_network.remove(&network);
            }
        }
        Some(stranger)
    }
}
