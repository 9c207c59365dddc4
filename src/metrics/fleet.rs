//! Metrics of a process in its fleet.

use nearhead_actors::fleet::{
    FleetProcesses, FleetStatus, HeadCheck, LOST_REASONS, Role, lost_label,
};
use nearhead_fleet::{
    record::RecordError,
    replica::{RefillReason, RefusalReason},
};
use prometheus::{Error, GaugeVec, IntCounterVec, IntGaugeVec};

use super::exporter::{Exporter, gauge, raise};

/// A role of a later version.
const OTHER: &str = "other";

/// The series of a process in its fleet. They have no values without `--fleet`.
#[derive(Clone, Debug)]
pub(super) struct FleetMetrics {
    /// `nearhead_fleet_role{role}`.
    role: IntGaugeVec,
    /// `nearhead_fleet_epoch`.
    epoch: IntGaugeVec,
    /// `nearhead_fleet_lag_entries`.
    lag_entries: IntGaugeVec,
    /// `nearhead_fleet_lag_seconds`.
    lag_seconds: GaugeVec,
    /// `nearhead_fleet_lease_changes_total{change}`.
    lease_changes: IntCounterVec,
    /// `nearhead_fleet_entries_applied_total`.
    applied: IntCounterVec,
    /// `nearhead_fleet_entries_refused_total{reason}`.
    refused: IntCounterVec,
    /// `nearhead_fleet_refills_total{reason}`.
    refills: IntCounterVec,
    /// `nearhead_fleet_store_failures_total`.
    store_failures: IntCounterVec,
    /// `nearhead_fleet_head_checks_total{answer}`.
    head_checks: IntCounterVec,
    /// `nearhead_fleet_state_items_total{event}`.
    state_items: IntCounterVec,
    /// `nearhead_fleet_state_wants_total{event}`.
    state_wants: IntCounterVec,
    /// `nearhead_fleet_processes{role}`.
    processes: IntGaugeVec,
    /// `nearhead_fleet_processes_refused_total`.
    processes_refused: IntCounterVec,
    /// `nearhead_fleet_records_refused_total{reason}`.
    records_refused: IntCounterVec,
    /// `nearhead_fleet_filter_calls_total{outcome}`.
    filter_calls: IntCounterVec,
}

/// Counts records of the fleet's store that were refused; clones count together.
#[derive(Clone, Debug)]
pub(crate) struct RecordRefusals(IntCounterVec);

impl RecordRefusals {
    /// Counts one.
    pub(crate) fn count(&self, error: &RecordError) {
        self.0.with_label_values(&[error.label()]).inc();
    }
}

impl FleetMetrics {
    pub(super) fn new(exporter: &Exporter) -> Result<Self, Error> {
        Ok(Self {
            role: exporter.gauges(
                "nearhead_fleet_role",
                "With --fleet, 1 for where the head comes from, 0 for the others: leader (own nodes, and each change is appended), replica (entries of the leader), own_nodes (own nodes, because entries are missing)",
                &["role"],
            )?,
            epoch: exporter.gauges(
                "nearhead_fleet_epoch",
                "With --fleet, the newest epoch that this process has met",
                &[],
            )?,
            lag_entries: exporter.gauges(
                "nearhead_fleet_lag_entries",
                "With --fleet, entries of the store that this process has not applied, as far as it knows; 0 for a leader",
                &[],
            )?,
            lag_seconds: exporter.float_gauges(
                "nearhead_fleet_lag_seconds",
                "With --fleet, seconds for which this process has lacked entries that the store has, or the store has not answered; 0 for a leader",
                &[],
            )?,
            lease_changes: exporter.counters(
                "nearhead_fleet_lease_changes_total",
                "With --fleet, how often this process began to lead (acquired), or ceased to: expired (the store did not answer in time, or the process was paused), fenced (another process leads), store (it has lost entries), released (at the end, or without nodes)",
                &["change"],
            )?,
            applied: exporter.counters(
                "nearhead_fleet_entries_applied_total",
                "With --fleet, entries that were applied; a snapshot is one",
                &[],
            )?,
            refused: exporter.counters(
                "nearhead_fleet_entries_refused_total",
                "With --fleet, entries that were refused: mac (not of this fleet), malformed, version (unknown), epoch (one that is over), misplaced, broken (does not continue the chain), false (a block is not what the entry says), too_large",
                &["reason"],
            )?,
            refills: exporter.counters(
                "nearhead_fleet_refills_total",
                "With --fleet, how often a snapshot was looked for: start, gap (entries are missing), refused (an entry was), forked (the store has lost entries), led (until then), not_applied (the window did not take an entry)",
                &["reason"],
            )?,
            store_failures: exporter.counters(
                "nearhead_fleet_store_failures_total",
                "With --fleet, calls to the store that failed",
                &[],
            )?,
            head_checks: exporter.counters(
                "nearhead_fleet_head_checks_total",
                "With --fleet, answers of nodes that are not followed to what they have in the head's place: same, other (another block), unknown (none)",
                &["answer"],
            )?,
            state_items: exporter.counters(
                "nearhead_fleet_state_items_total",
                "With --fleet, trie nodes, codes and access lists that were loaded from the store, given to it, or refused (not what their hash says, or, of what is below the window, not of this fleet)",
                &["event"],
            )?,
            state_wants: exporter.counters(
                "nearhead_fleet_state_wants_total",
                "With --fleet, wants for state or access lists that nobody has: left by this process, which has no nodes, served for others, or refused (not of this fleet)",
                &["event"],
            )?,
            processes: exporter.gauges(
                "nearhead_fleet_processes",
                "With --fleet, processes of the fleet by what they say of where their head comes from: leader, replica, own_nodes, other (a role that this version does not know); as they were if the store does not answer",
                &["role"],
            )?,
            processes_refused: exporter.counters(
                "nearhead_fleet_processes_refused_total",
                "With --fleet, descriptions of processes in the store that none of the fleet has written",
                &[],
            )?,
            records_refused: exporter.counters(
                "nearhead_fleet_records_refused_total",
                "With --fleet, records of tenants, keys, administrators, entries of the audit, usage, and filters, that were refused: mac (not of this fleet), malformed, name (written under another one), old (a newer one, or another one of the same revision, was seen), missing (they are not those that were written)",
                &["reason"],
            )?,
            filter_calls: exporter.counters(
                "nearhead_fleet_filter_calls_total",
                "With --fleet, calls to the store about filters: answered, failed, refused (not sent, because the store did not answer before, or too many calls waited), given_up (a filter was not taken back to the place before an answer that was not sent, and its client misses that)",
                &["outcome"],
            )?,
        })
    }

    /// What counts refused records, each reason of which has a series from now on.
    pub(super) fn record_refusals(&self) -> RecordRefusals {
        for label in RecordError::LABELS {
            self.records_refused.with_label_values(&[label]).inc_by(0);
        }
        RecordRefusals(self.records_refused.clone())
    }

    /// Copies what the process says of itself.
    pub(super) fn copy(&self, status: &FleetStatus) {
        let facts = &status.facts();
        self.copy_processes(&status.processes());
        for role in Role::ALL {
            let gauge = self.role.with_label_values(&[role.label()]);
            gauge.set(i64::from(role == facts.role));
        }
        let none: [&str; 0] = [];
        self.epoch.with_label_values(&none).set(gauge(facts.epoch));
        let lag_entries = self.lag_entries.with_label_values(&none);
        lag_entries.set(gauge(facts.lag_entries()));
        let lag_seconds = self.lag_seconds.with_label_values(&none);
        lag_seconds.set(facts.lag().as_secs_f64());
        let lost = LOST_REASONS.map(lost_label).into_iter().zip(facts.lost);
        for (change, total) in [("acquired", facts.leads)].into_iter().chain(lost) {
            raise(&self.lease_changes.with_label_values(&[change]), total);
        }
        let counters = &facts.counters;
        raise(&self.applied.with_label_values(&none), counters.applied());
        for reason in RefusalReason::ALL {
            let refused = self.refused.with_label_values(&[reason.label()]);
            raise(&refused, counters.refused(reason));
        }
        for reason in RefillReason::ALL {
            let refills = self.refills.with_label_values(&[reason.label()]);
            raise(&refills, counters.refills(reason));
        }
        let failures = self.store_failures.with_label_values(&none);
        raise(&failures, facts.store_failures);
        for (check, total) in HeadCheck::ALL.into_iter().zip(facts.head_checks) {
            let checks = self.head_checks.with_label_values(&[check.label()]);
            raise(&checks, total);
        }
        for (outcome, total) in status.filter_calls().by_outcome() {
            raise(&self.filter_calls.with_label_values(&[outcome]), total);
        }
        let shared = status.shared();
        for (event, count) in [
            ("loaded", &shared.loaded),
            ("given", &shared.given),
            ("refused", &shared.refused),
        ] {
            let items = self.state_items.with_label_values(&[event]);
            raise(&items, count.get());
        }
        for (event, count) in [
            ("left", &shared.wanted),
            ("served", &shared.served),
            ("refused", &shared.refused_wants),
        ] {
            let wants = self.state_wants.with_label_values(&[event]);
            raise(&wants, count.get());
        }
    }

    /// Copies which processes there are, this one among them.
    fn copy_processes(&self, fleet: &FleetProcesses) {
        let label = |name: &str| Role::ALL.map(Role::label).into_iter().find(|l| *l == name);
        let roles = fleet.processes.iter().map(|one| label(&one.role));
        let roles: Vec<_> = roles.map(|role| role.unwrap_or(OTHER)).collect();
        for role in Role::ALL.map(Role::label).into_iter().chain([OTHER]) {
            let count = roles.iter().filter(|one| **one == role).count();
            let gauge = self.processes.with_label_values(&[role]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let none: [&str; 0] = [];
        let refused = self.processes_refused.with_label_values(&none);
        raise(&refused, fleet.refused);
    }
}
