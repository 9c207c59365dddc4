//! Whether the service is ready to serve.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nearhead_chain::window::{Snapshot, WINDOW_BLOCKS};

use crate::{
    fleet::{FleetStatus, Role},
    freshness::Freshness,
    head::Head,
    shutdown_state::ShutdownState,
    upstream::{HeadAgreement, Standing},
};

/// Decides whether the service is ready; clones read the same state.
#[derive(Clone, Debug)]
pub struct Readiness {
    /// The pointer to the current snapshot.
    pub head: Head,
    /// How old the head may be.
    pub freshness: Freshness,
    /// The standing of the upstreams, if the source has any.
    pub upstreams: Option<Arc<Standing>>,
    /// What the process is in its fleet; `None` if it is in none.
    pub fleet: Option<FleetStatus>,
    /// Whether headers have to obey the rules of their fork. Sources other than upstreams check
    /// every header.
    pub has_header_rules: bool,
    /// How far the service has shut down.
    pub shutdown: Arc<ShutdownState>,
}

/// One reason why the service is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The service shuts down.
    ShuttingDown,
    /// The head stands, because no quorum of the upstreams agrees on one that may be served.
    HeadStands(HeadAgreement),
    /// The fleet's leader writes entries of this version, which this program cannot read.
    FleetVersion(u8),
    /// The fleet's entries have not been read to their end yet.
    FleetNotRead,
    /// No block is readable.
    NoBlock,
    /// The window is being filled.
    WindowNotFilled,
    /// The head is too old.
    HeadStale,
}

/// The readiness at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessReport {
    /// The reasons why the service is not ready; empty if it is.
    pub reasons: Vec<Unready>,
    /// The head, if there is one.
    pub head: Option<HeadStatus>,
}

/// The head and the window below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadStatus {
    /// The head's number.
    pub number: u64,
    /// Canonical blocks in the window.
    pub blocks: usize,
    /// Canonical blocks in the window once it is filled.
    pub blocks_wanted: u64,
    /// How old the head is.
    pub age: Duration,
}

impl Readiness {
    /// The age of the head; `None` before the first block.
    #[must_use]
    pub fn head_age(&self) -> Option<Duration> {
        let snapshot = self.head.load()?;
        Some(self.age_of(&snapshot))
    }

    /// Whether the head is too old. `snapshot` is the current one, or one that was current a moment
    /// ago.
    #[must_use]
    pub fn is_head_stale(&self, snapshot: &Snapshot) -> bool {
        self.freshness.is_stale(self.age_of(snapshot), snapshot)
    }

    fn age_of(&self, snapshot: &Snapshot) -> Duration {
        let since_arrival = self.head.age().unwrap_or_default();
        // A clock before 1970 makes no head old.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let timestamp = snapshot.head().header.timestamp;
        self.freshness
            .age(since_arrival, timestamp, now.unwrap_or_default())
    }

    /// The readiness now.
    #[must_use]
    pub fn report(&self) -> ReadinessReport {
        let mut reasons = Vec::new();
        if self.shutdown.has_begun() {
            reasons.push(Unready::ShuttingDown);
        }
        let fleet = self.fleet.as_ref().map(FleetStatus::facts);
        if let Some(version) = fleet.and_then(|fleet| fleet.unknown_version) {
            reasons.push(Unready::FleetVersion(version));
        }
        // Replicas ask their nodes for no head.
        let replica = fleet.filter(|fleet| fleet.role == Role::Replica);
        if replica.is_some_and(|replica| !replica.has_read) {
            reasons.push(Unready::FleetNotRead);
        }
        let is_replica = replica.is_some();
        let upstreams = self.upstreams.as_ref().filter(|_| !is_replica);
        let agreement = upstreams.map(|standing| standing.agreement());
        if let Some(agreement) = agreement.filter(|agreement| !agreement.is_reached()) {
            reasons.push(Unready::HeadStands(agreement));
        }
        let Some(snapshot) = self.head.load() else {
            reasons.push(Unready::NoBlock);
            return ReadinessReport {
                reasons,
                head: None,
            };
        };
        let number = snapshot.head().number();
        let age = self.age_of(&snapshot);
        if !snapshot.is_filled() {
            reasons.push(Unready::WindowNotFilled);
        }
        if self.freshness.is_stale(age, &snapshot) {
            reasons.push(Unready::HeadStale);
        }
        let head = HeadStatus {
            number,
            blocks: snapshot.canonical().len(),
            blocks_wanted: number.saturating_add(1).min(WINDOW_BLOCKS as u64),
            age,
        };
        ReadinessReport {
            reasons,
            head: Some(head),
        }
    }
}
