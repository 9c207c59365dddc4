//! Whether all workers still run.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use parking_lot::Mutex;

/// Looks in which a worker has not ticked until it is thought to hang. There is one look and one
/// tick a second; while the whole process is stopped, there is neither.
const SILENT_LOOKS_MAX: u32 = 5;

/// The liveness of the workers of all listeners; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness(Arc<Mutex<Vec<Arc<WorkerLiveness>>>>);

/// The liveness of one worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerLiveness(AtomicU32);

/// Watches whether all workers still run.
#[derive(Debug)]
pub struct LivenessWatch {
    liveness: Liveness,
    /// The last tick of each worker, and the looks since.
    seen: Vec<(u32, u32)>,
}

impl Liveness {
    /// The liveness of a worker that starts.
    pub(super) fn add(&self) -> Arc<WorkerLiveness> {
        let worker = Arc::<WorkerLiveness>::default();
        self.0.lock().push(Arc::clone(&worker));
        worker
    }

    /// Watches them from now on.
    pub(crate) const fn watch(self) -> LivenessWatch {
        LivenessWatch {
            liveness: self,
            seen: Vec::new(),
        }
    }
}

impl WorkerLiveness {
    /// The worker runs.
    pub(super) fn tick(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl LivenessWatch {
    /// Looks at each worker; to be called once a second.
    pub fn look(&mut self) {
        let workers = self.liveness.0.lock();
        self.seen.resize(workers.len(), (0, 0));
        for (worker, (tick, silent_looks)) in workers.iter().zip(&mut self.seen) {
            let latest = worker.0.load(Ordering::Relaxed);
            *silent_looks = match latest == *tick {
                true => *silent_looks + 1,
                false => 0,
            };
            *tick = latest;
        }
    }

    /// Whether each worker has ticked before one of the last looks.
    #[must_use]
    pub fn all_live(&self) -> bool {
        let is_alive = |(_, silent_looks): &(u32, u32)| *silent_looks < SILENT_LOOKS_MAX;
        self.seen.iter().all(is_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_hangs_is_noticed() {
        let liveness = Liveness::default();
        let mut watch = liveness.clone().watch();
        let mut look = || {
            watch.look();
            watch.all_live()
        };
        assert!(look(), "there is none");
        let [first, second] = [(); 2].map(|()| liveness.add());
        for looks in 1..10 {
            first.tick();
            assert_eq!(look(), looks < SILENT_LOOKS_MAX, "{looks}");
        }
        first.tick();
        second.tick();
        assert!(look());
        for looks in 1..10 {
            assert_eq!(look(), looks < SILENT_LOOKS_MAX, "both, {looks}");
        }
    }
}
