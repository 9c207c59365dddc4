//! The resources that the read actors of all workers share.

use super::pool::Pool;
use crate::{
    admission::{Admission, QueueUse},
    upstream::StateSource,
};

/// Permits, the pool, and the source of missing state. A service starts them once; clones share
/// them.
#[derive(Clone, Debug)]
pub struct ReadResources {
    /// The permits, and the count of panics.
    pub admission: Admission,
    /// The threads for large queries.
    pub(crate) pool: Pool,
    /// The source of state that is not held; `None` where all of it is.
    pub state: Option<StateSource>,
}

impl ReadResources {
    /// Starts a pool of `pool_threads` threads, at least one. It must be called inside an actix
    /// system.
    #[must_use]
    pub fn start(pool_threads: usize, state: Option<StateSource>) -> Self {
        let panics = state.as_ref().map(StateSource::panics);
        let admission = Admission::with_panics(panics.cloned().unwrap_or_default());
        Self {
            pool: Pool::start(pool_threads, admission.panics()),
            admission,
            state,
        }
    }

    /// The use of each queue.
    #[must_use]
    pub fn queues(&self) -> [QueueUse; 3] {
        let [light, heavy] = self.pool.usage();
        [self.admission.turns(), light, heavy]
    }
}
