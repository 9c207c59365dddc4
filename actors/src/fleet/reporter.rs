//! Reports to the store what this process has seen, and notes which entry is the newest one there.
//!
//! That is a task of its own: a process that receives no entries, or whose reader hangs, knows by
//! how many it is behind as long as it reaches the store.

use std::{sync::Arc, time::Duration};

use nearhead_fleet::{lag::newest_of, replica::Report, scripts::Reported};
use parking_lot::Mutex;
use tokio::{task::JoinSet, time};

use super::{status::FleetStatus, store::FleetStore};

/// Time between two reports.
const EVERY: Duration = Duration::from_secs(1);

/// How often it looks whether there is something to report.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Reports until it is dropped.
pub(super) struct Reporter {
    /// What to report; nothing as long as the process leads.
    report: Arc<Mutex<Option<Report>>>,
    _task: JoinSet<()>,
}

impl Reporter {
    /// Has nothing to report yet.
    pub(super) fn start(store: FleetStore, status: FleetStatus) -> Self {
        let report = Arc::<Mutex<Option<Report>>>::default();
        let mut task = JoinSet::new();
        task.spawn(run(store, status, Arc::clone(&report)));
        Self {
            report,
            _task: task,
        }
    }

    /// Reports this from now on. An old report says less than there is to say, and a snapshot is
    /// asked for once each time that this is called.
    pub(super) fn set(&self, report: Option<Report>) {
        *self.report.lock() = report;
    }
}

async fn run(store: FleetStore, status: FleetStatus, report: Arc<Mutex<Option<Report>>>) {
    loop {
        let taken = {
            let mut next = report.lock();
            let taken = *next;
            // A member that hangs asks for no second snapshot.
            if let Some(next) = &mut *next {
                next.wants_snapshot = false;
            }
            taken
        };
        let Some(report) = taken else {
            time::sleep(LOOK_EVERY).await;
            continue;
        };
        match store.report(report).await {
            Ok(reported) => {
                if let Reported::Raised(epoch) = reported {
                    tracing::warn!(epoch, "the store has lost entries: a new epoch begins");
                }
                status.change(|facts| facts.newest = newest_of(reported));
            }
            Err(error) => {
                tracing::debug!(%error, "the store does not say which entry is the newest");
                status.change(|facts| facts.store_failures += 1);
            }
        }
        time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use nearhead_fleet::position::Position;
    use tokio::sync::mpsc;

    use super::*;
    use crate::fleet::store::fake_server::{FakeServer, list, string};

    /// Nothing else of the process runs: it knows how far it is behind, and as a leader it is not.
    #[tokio::test]
    async fn a_process_that_hangs_knows_how_far_it_is_behind() {
        let (called, mut calls) = mpsc::channel(8);
        let server = FakeServer::start(move |call| {
            // The last call is not waited for.
            let _ = called.try_send(call);
            async { list(&[string(b"known"), b":3\r\n".to_vec(), b":7\r\n".to_vec()]) }
        });
        let status = FleetStatus::default();
        status.change(|facts| facts.applied = Position::new(3, 2));
        let reporter = Reporter::start(server.await.store(), status.clone());
        assert_eq!(status.facts().lag_entries(), 0);
        reporter.set(Some(Report {
            seen: Position::new(3, 2),
            is_forked: false,
            wants_snapshot: true,
        }));
        // The second one comes after the answer to the first.
        let [first, second] = [calls.recv().await, calls.recv().await].map(Option::unwrap);
        assert_ne!(first, second, "a snapshot is asked for once");
        assert_eq!(status.facts().lag_entries(), 5);
        status.change(|facts| facts.received = 9);
        assert_eq!(status.facts().lag_entries(), 9);
        status.change(|facts| facts.role = crate::fleet::Role::Leader);
        assert_eq!(status.facts().lag_entries(), 0);
    }
}
