//! Writes what this process is, and reads which others the fleet has.

use std::time::{Duration, Instant};

use nearhead_fleet::{
    fleet_key::FleetKey,
    presence::{Presence, Process, plain},
    sealed,
};
use tokio::time;

use super::{
    FleetStatus,
    quotas::LoanDesk,
    store::{FleetStore, since_epoch},
    window_update::id_of,
};
use crate::head::Head;

/// Longest wait for the store at the end, to say that the process ends.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Where Linux has the name of the machine.
const HOST_FILE: &str = "/proc/sys/kernel/hostname";

/// What this process writes about itself, again and again.
pub(super) struct PresenceWriter {
    store: FleetStore,
    key: FleetKey,
    status: FleetStatus,
    head: Head,
    desk: LoanDesk,
    own: Process,
}

impl PresenceWriter {
    pub(super) fn new(
        store: FleetStore,
        key: FleetKey,
        status: FleetStatus,
        head: Head,
        desk: LoanDesk,
    ) -> Self {
        let started = since_epoch().as_millis();
        let own = Process {
            owner: store.owner().to_owned(),
            host: host(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            entries_version: sealed::VERSION,
            started_millis: u64::try_from(started).unwrap_or(u64::MAX),
            ..Process::default()
        };
        Self {
            store,
            key,
            status,
            head,
            desk,
            own,
        }
    }

    /// What this process is now.
    fn now(&self) -> Process {
        let facts = self.status.facts();
        let head = self.head.load().map(|snapshot| id_of(snapshot.head()));
        Process {
            role: facts.role.label().to_owned(),
            epoch: facts.epoch,
            lag_entries: facts.lag_entries(),
            lag_millis: u64::try_from(facts.lag().as_millis()).unwrap_or(u64::MAX),
            head,
            ..self.own.clone()
        }
    }

    /// Writes and reads until it is dropped. A store that does not answer is asked again after the
    /// same time; until then, the processes stay as they were.
    pub(super) async fn run(&self) {
        let mut presence = Presence::new(self.key.clone(), self.own.owner.clone());
        let started = Instant::now();
        let mut revision = 0;
        loop {
            let next = time::Instant::now() + presence.period();
            revision += 1;
            if let Some(record) = self.now().seal(revision, &self.key) {
                match self.store.present(&record, presence.gone_after()).await {
                    Ok(records) => {
                        let processes = presence.read(&records, started.elapsed());
                        self.desk.share_with(processes.len());
                        let own = &self.own.owner;
                        let refused = presence.refused();
                        self.status.set_processes(own, processes, refused);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "this process is not noted");
                        self.status.change(|facts| facts.store_failures += 1);
                    }
                }
            }
            time::sleep_until(next).await;
        }
    }

    /// Says that this process ends. If that fails, the others notice by themselves.
    pub(super) async fn leave(&self) {
        let leave = self.store.present(&[], Duration::ZERO);
        if let Ok(Err(error)) = time::timeout(LEAVE_MAX, leave).await {
            tracing::debug!(%error, "this process is noted for some seconds more");
        }
    }
}

/// The name of this machine; empty where that is not known.
fn host() -> String {
    let name = std::fs::read_to_string(HOST_FILE).unwrap_or_default();
    plain(name.trim())
}
