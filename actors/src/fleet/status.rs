//! What a process of a fleet reports of itself, for metrics and for the readiness probe.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nearhead_fleet::{
    lag::entries_behind, lease::LostReason, position::Position, presence::Process,
    replica::Counters,
};
use parking_lot::Mutex;

use super::{node_follower::HeadCheck, state_share::StateShareCounts, store::PipeCounts};

/// Where the head of a process comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// From the entries of the leader.
    #[default]
    Replica,
    /// From its own nodes, and it appends each change.
    Leader,
    /// From its own nodes, because entries are missing for some time.
    OwnNodes,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Replica, Self::Leader, Self::OwnNodes];

    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::Leader => "leader",
            Self::OwnNodes => "own_nodes",
        }
    }
}

/// Reasons for which a process no longer leads.
pub const LOST_REASONS: [LostReason; 4] = [
    LostReason::Expired,
    LostReason::Fenced,
    LostReason::Store,
    LostReason::Released,
];

/// The name of such a reason in metrics.
#[must_use]
pub const fn lost_label(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::Fenced => "fenced",
        LostReason::Store => "store",
        LostReason::Released => "released",
    }
}

/// What a process of a fleet is, and what has happened to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FleetFacts {
    /// Where its head comes from.
    pub role: Role,
    /// The newest epoch that it has met.
    pub epoch: u64,
    /// How often it began to lead.
    pub leads: u64,
    /// How often it ceased to, by [`LOST_REASONS`].
    pub lost: [u64; LOST_REASONS.len()],
    /// What came of the entries that it read.
    pub counters: Counters,
    /// Whether it has read the stream to its end once: until then, its head is that of a snapshot,
    /// or of an entry that others have passed.
    pub has_read: bool,
    /// The newest entry that it has applied or appended.
    pub(super) applied: Position,
    /// The newest entry that the store has, as it said last.
    pub(super) newest: Option<Position>,
    /// Entries that it has received and not applied.
    pub(super) received: u64,
    /// Calls to the store that failed.
    pub store_failures: u64,
    /// What nodes that are not followed said of the head, by [`HeadCheck::ALL`].
    pub head_checks: [u64; HeadCheck::ALL.len()],
    /// The newest revision of a record that a leader has stated.
    pub records_stated: u64,
    /// The newest one that this process knows, which it states when it leads.
    pub records_known: u64,
    /// The version of entries that this program cannot read.
    pub unknown_version: Option<u8>,
    /// Since when it lacks entries that the store has or may have; `None` if it has all.
    pub(super) lags_since: Option<Instant>,
}

impl FleetFacts {
    /// Entries of the store that it has not applied: those that it has received, or those up to the
    /// newest one that the store has named. None are missing to a leader.
    #[must_use]
    pub fn lag_entries(&self) -> u64 {
        if self.role == Role::Leader {
            return 0;
        }
        let newest = self.newest.unwrap_or_default();
        self.received.max(entries_behind(newest, self.applied))
    }

    /// Notes that the store has given all that it gives: it may have more.
    pub(super) fn read_to_end(&mut self, now: Instant) {
        self.lags_since = match self.lag_entries() {
            0 => None,
            _ => Some(self.lags_since.unwrap_or(now)),
        };
    }

    /// For how long it has lacked entries, or has not heard from the store.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.lags_since.map_or(Duration::ZERO, |at| at.elapsed())
    }
}

/// The processes of a fleet, as one of them knows them.
#[derive(Debug, Default)]
pub struct FleetProcesses {
    /// The one that knows them first; empty until the store has answered once.
    pub processes: Vec<Process>,
    /// The owner of the process that knows them; empty until then.
    pub own: String,
    /// When the store said so; `None` until it has.
    pub read_at: Option<Instant>,
    /// Records in the store that were none of this fleet, so far.
    pub refused: u64,
}

/// What clones share.
#[derive(Debug, Default)]
struct Shared {
    facts: Mutex<FleetFacts>,
    processes: Mutex<Arc<FleetProcesses>>,
    shared: Arc<StateShareCounts>,
    filter_calls: Arc<PipeCounts>,
}

/// The facts of one process; clones share them.
#[derive(Clone, Debug, Default)]
pub struct FleetStatus(Arc<Shared>);

impl FleetStatus {
    /// The facts now.
    #[must_use]
    pub fn facts(&self) -> FleetFacts {
        *self.0.facts.lock()
    }

    /// What state it shared so far.
    #[must_use]
    pub fn shared(&self) -> &Arc<StateShareCounts> {
        &self.0.shared
    }

    /// What became of calls about filters.
    #[must_use]
    pub fn filter_calls(&self) -> &Arc<PipeCounts> {
        &self.0.filter_calls
    }

    /// Notes the newest revision of a record that this process knows.
    pub fn knows_records(&self, revision: u64) {
        self.0.facts.lock().records_known = revision;
    }

    /// Changes the facts.
    pub(super) fn change(&self, change: impl FnOnce(&mut FleetFacts)) {
        change(&mut self.0.facts.lock());
    }

    /// The processes of the fleet, as the store last said.
    #[must_use]
    pub fn processes(&self) -> Arc<FleetProcesses> {
        Arc::clone(&self.0.processes.lock())
    }

    /// Notes which processes there are.
    pub(super) fn set_processes(&self, own: &str, processes: Vec<Process>, refused: u64) {
        *self.0.processes.lock() = Arc::new(FleetProcesses {
            processes,
            own: own.to_owned(),
            read_at: Some(Instant::now()),
            refused,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        freshness::{Freshness, HeadAgeMax},
        head::Head,
        readiness::{Readiness, Unready},
        shutdown_state::ShutdownState,
    };

    /// A process that joins has a snapshot first, which may be a hundred blocks old.
    #[test]
    fn a_replica_is_ready_once_it_has_read_all_entries() {
        let status = FleetStatus::default();
        let readiness = Readiness {
            head: Head::default(),
            freshness: Freshness {
                age_max: HeadAgeMax::Off,
                counts_timestamp: false,
            },
            upstreams: None,
            fleet: Some(status.clone()),
            has_header_rules: true,
            shutdown: Arc::<ShutdownState>::default(),
        };
        let is_missing = || readiness.report().reasons.contains(&Unready::FleetNotRead);
        assert!(is_missing());
        for role in [Role::Leader, Role::OwnNodes] {
            status.change(|facts| facts.role = role);
            assert!(!is_missing(), "{role:?}");
        }
        status.change(|facts| (facts.role, facts.has_read) = (Role::Replica, true));
        assert!(!is_missing());
    }
}
