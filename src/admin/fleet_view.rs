//! The processes of the fleet: for the page that shows them, and for the API.

use serde::Serialize;

use crate::http::ServerState;

/// The fleet, as this process knows it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FleetView {
    /// Whether this process is in a fleet.
    pub(super) in_fleet: bool,
    /// How long ago the store said who is there; it never has at first.
    pub(super) read_seconds_ago: Option<f64>,
    /// Descriptions in the store that none of the fleet has written, since the start.
    pub(super) refused: u64,
    /// The processes, this one first.
    pub(super) processes: Vec<ProcessView>,
}

/// A process, as it describes itself.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessView {
    /// Another text at each start.
    pub(super) id: String,
    /// Whether it is the one that answers.
    pub(super) is_this: bool,
    /// The name of its machine; empty where that is not known.
    pub(super) host: String,
    /// Where its head comes from, as `nearhead_fleet_role` names it.
    pub(super) role: String,
    /// The newest epoch that it has met.
    pub(super) epoch: u64,
    /// The newest block that it serves; there is none at first.
    pub(super) head: Option<ProcessHeadView>,
    /// Entries of the store that it has not applied.
    pub(super) lag_entries: u64,
    /// For how long it has lacked entries, in milliseconds.
    pub(super) lag_millis: u64,
    /// The version of its program.
    pub(super) version: String,
    /// The version of entries that it reads.
    pub(super) entries_version: u8,
    /// When it started, by its clock.
    pub(super) started: u64,
}

/// The newest block that a process serves.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProcessHeadView {
    /// Its number.
    pub(super) number: u64,
    /// Its hash.
    pub(super) hash: String,
}

impl FleetView {
    /// The fleet now; without one, there are no processes.
    pub(super) fn of(server: &ServerState) -> Self {
        let Some(status) = &server.readiness.fleet else {
            return Self {
                in_fleet: false,
                read_seconds_ago: None,
                refused: 0,
                processes: Vec::new(),
            };
        };
        let fleet = status.processes();
        let processes = fleet.processes.iter().map(|process| ProcessView {
            id: process.owner.clone(),
            is_this: process.owner == fleet.own,
            host: process.host.clone(),
            role: process.role.clone(),
            epoch: process.epoch,
            head: process.head.map(|head| ProcessHeadView {
                number: head.number,
                hash: head.hash.to_string(),
            }),
            lag_entries: process.lag_entries,
            lag_millis: process.lag_millis,
            version: process.version.clone(),
            entries_version: process.entries_version,
            started: process.started_millis,
        });
        Self {
            in_fleet: true,
            read_seconds_ago: fleet.read_at.map(|at| at.elapsed().as_secs_f64()),
            refused: fleet.refused,
            processes: processes.collect(),
        }
    }
}
