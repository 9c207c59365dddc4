//! Permits: they bound how much is in progress.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    cost::{
        CHEAP_PER_WORKER, CostClass, FORWARDED_MAX, MEASURED_MAX, REMOTE_MAX,
        REQUESTS_PER_TENANT_MAX,
    },
    fair_permits::{FairPermit, FairPermits},
    panics::Panics,
    request_turns::RequestTurns,
    turns::{Clock, TurnQueue, Turns},
    work_queue::QueueUse,
};
use crate::{
    messages::{QueryError, Reply},
    share::Share,
};

/// The right to one of a number of things. Dropping it gives it back.
pub type Permit = OwnedSemaphorePermit;

/// Messages that wait for one actor of a worker. Every sender holds a permit, so there are never
/// more, and no sender waits for room.
pub(crate) const MAILBOX_CAPACITY: usize = CHEAP_PER_WORKER + MEASURED_MAX;

/// The classes of the workers' queues: small requests, and large bodies.
const CLASSES: [&str; 2] = ["requests", "bodies"];

/// The right to have a request in progress. Dropping it gives it back.
#[derive(Debug)]
pub enum AdmissionPermit {
    /// For a cheap one, of a worker's.
    Cheap(Permit),
    /// For a measured one, of those that tenants share.
    Measured(FairPermit),
}

/// How many permits of one kind are taken and free at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitUse {
    /// The kind, as the metrics label it.
    pub kind: &'static str,
    /// Permits taken.
    pub in_use: usize,
    /// Permits free.
    pub available: usize,
}

/// All permits of a service, and its count of panics; clones share both.
#[derive(Clone, Debug)]
pub struct Admission {
    measured: FairPermits,
    pub(crate) remote: FairPermits,
    pub(crate) forwarded: FairPermits,
    workers: Arc<Mutex<Workers>>,
    panics: Panics,
}

/// What each worker has of its own.
#[derive(Debug)]
struct Workers {
    running: Vec<WorkerParts>,
    /// What the queues of workers that have stopped have counted, by class: counters do not go back
    /// when a worker starts again.
    stopped: [QueueUse; 2],
}

/// The permits for cheap requests, and the turns, of one worker.
#[derive(Debug)]
struct WorkerParts {
    cheap: Weak<Semaphore>,
    /// By class.
    queues: [Arc<TurnQueue>; 2],
}

impl Default for Workers {
    fn default() -> Self {
        Self {
            running: Vec::new(),
            stopped: CLASSES.map(QueueUse::none),
        }
    }
}

impl Workers {
    /// Removes those that have stopped.
    fn remove_stopped(&mut self) {
        let stopped = self
            .running
            .extract_if(.., |worker| worker.cheap.strong_count() == 0)
            .map(|worker| worker.usage().map(QueueUse::counted));
        self.stopped = stopped.fold(self.stopped.clone(), and);
    }
}

impl WorkerParts {
    /// The use of its queues.
    fn usage(&self) -> [QueueUse; 2] {
        self.queues.each_ref().map(|queue| queue.usage())
    }
}

/// The use of two workers together.
fn and(
    [requests, bodies]: [QueueUse; 2],
    [more_requests, more_bodies]: [QueueUse; 2],
) -> [QueueUse; 2] {
    [requests.and(more_requests), bodies.and(more_bodies)]
}

impl Default for Admission {
    fn default() -> Self {
        Self::with_panics(Panics::default())
    }
}

impl Admission {
    /// All permits, free, and `panics` as the count of panics.
    pub(crate) fn with_panics(panics: Panics) -> Self {
        Self {
            measured: FairPermits::new(MEASURED_MAX),
            remote: FairPermits::new(REMOTE_MAX),
            forwarded: FairPermits::new(FORWARDED_MAX),
            workers: Arc::default(),
            panics,
        }
    }

    /// Adds a worker with permits of its own for cheap requests.
    pub(crate) fn add_worker(&self) -> WorkerAdmission {
        let cheap = Arc::new(Semaphore::new(CHEAP_PER_WORKER));
        let [requests, bodies] = CLASSES;
        let requests = TurnQueue::by_arrival(requests, 1, REQUESTS_PER_TENANT_MAX);
        let queues = [requests, TurnQueue::new(bodies, 1)].map(Arc::new);
        let [requests, bodies] = queues.clone();
        let mut workers = self.workers.lock();
        workers.remove_stopped();
        workers.running.push(WorkerParts {
            cheap: Arc::downgrade(&cheap),
            queues,
        });
        WorkerAdmission {
            cheap,
            measured: self.measured.clone(),
            body_turns: Turns::new(bodies, Clock::Cpu),
            requests,
        }
    }

    /// The count of panics since the start; other layers add theirs to it.
    #[must_use]
    pub const fn panics(&self) -> &Panics {
        &self.panics
    }

    /// The use of the turns of all workers, by class, with what those have counted that have
    /// stopped.
    #[must_use]
    pub fn queue_use(&self) -> [QueueUse; 2] {
        let mut workers = self.workers.lock();
        workers.remove_stopped();
        let usage = workers.running.iter().map(WorkerParts::usage);
        usage.fold(workers.stopped.clone(), and)
    }

    /// The use of every kind of permit.
    #[must_use]
    pub fn permits(&self) -> [PermitUse; 4] {
        let cheap_free: Vec<usize> = self
            .workers
            .lock()
            .running
            .iter()
            .filter_map(|worker| Some(worker.cheap.upgrade()?.available_permits()))
            .collect();
        let available = cheap_free.iter().sum();
        let of = |kind, permits: &FairPermits| PermitUse {
            kind,
            in_use: permits.in_use(),
            available: permits.available(),
        };
        [
            PermitUse {
                kind: "cheap",
                in_use: (cheap_free.len() * CHEAP_PER_WORKER).saturating_sub(available),
                available,
            },
            of("measured", &self.measured),
            of("remote_accounts", &self.remote),
            of("forwarded_calls", &self.forwarded),
        ]
    }
}

/// The admission of requests on one worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerAdmission {
    cheap: Arc<Semaphore>,
    measured: FairPermits,
    pub(crate) body_turns: Turns,
    requests: Arc<TurnQueue>,
}

impl WorkerAdmission {
    /// The turns of its small requests. `is_alone` says whether one tenant has all its connections.
    pub(crate) fn request_turns(&self, is_alone: Box<dyn Fn() -> bool>) -> RequestTurns {
        RequestTurns::new(Arc::clone(&self.requests), is_alone)
    }

    /// Admits a request: a cheap one waits for its turn, a measured one is refused when too many
    /// are in progress.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: not admitted. [`QueryError::Unavailable`]: the worker stops.
    pub(crate) async fn admit(&self, class: CostClass, share: Share) -> Reply<AdmissionPermit> {
        match class {
            CostClass::Cheap => match Arc::clone(&self.cheap).try_acquire_owned() {
                Ok(permit) => Ok(AdmissionPermit::Cheap(permit)),
                // Boxed, so that a request that need not wait does not carry the future's state.
                Err(_) => Box::pin(Arc::clone(&self.cheap).acquire_owned())
                    .await
                    .map(AdmissionPermit::Cheap)
                    .map_err(|_| QueryError::Unavailable),
            },
            CostClass::Measured => self.measured.take(share).map(AdmissionPermit::Measured),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_permits_is_known() {
        let admission = Admission::default();
        let permit = admission.remote.take(Share::default()).unwrap();
        let expected = PermitUse {
            kind: "remote_accounts",
            in_use: 1,
            available: REMOTE_MAX - 1,
        };
        assert!(admission.permits().contains(&expected));
        drop(permit);
        assert_eq!(admission.remote.in_use(), 0);
    }

    #[actix::test]
    async fn what_a_worker_has_counted_stays() {
        let admission = Admission::default();
        let share = Share::default();
        for taken in 1..4 {
            let worker = admission.add_worker();
            worker.body_turns.next(share, 1).await.unwrap();
            let counted = || admission.queue_use().map(|queue| queue.taken);
            assert_eq!(counted(), [0, taken]);
            drop(worker);
            assert_eq!(counted(), [0, taken]);
            assert!(admission.workers.lock().running.is_empty());
        }
    }

    #[actix::test]
    async fn measured_requests_are_refused_and_cheap_ones_wait() {
        let admission = Admission::default();
        let worker = admission.add_worker();
        let (share, other) = (Share::default(), Share::default());
        let mut measured = Vec::new();
        let refused = loop {
            match worker.admit(CostClass::Measured, share).await {
                Ok(permit) => measured.push(permit),
                Err(refused) => break refused,
            }
        };
        assert!(matches!(refused, QueryError::Overloaded { .. }));
        assert!(worker.admit(CostClass::Measured, other).await.is_ok());
        measured.pop();
        assert!(worker.admit(CostClass::Measured, share).await.is_ok());

        let mut cheap = Vec::new();
        for _ in 0..CHEAP_PER_WORKER {
            cheap.push(worker.admit(CostClass::Cheap, share).await.unwrap());
        }
        let mut waiting = Box::pin(worker.admit(CostClass::Cheap, share));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        cheap.pop();
        assert!(waiting.await.is_ok());
        // A worker that has stopped no longer counts.
        drop((cheap, worker));
        let cheap = admission.permits()[0];
        assert_eq!(cheap.kind, "cheap");
        assert_eq!(cheap.available, 0);
    }
}
