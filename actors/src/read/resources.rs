//! The resources that the read actors of all workers share.

use std::{
    io,
    time::{Duration, Instant},
};

use super::pool::Pool;
use crate::{
    admission::{Admission, MemoryLevel, QueueUse, ReplyBudget},
    upstream::{Forwarder, StateSource},
};

/// Permits, the pool, and the source of missing state. A service starts them once; clones share
/// them.
#[derive(Clone, Debug)]
pub struct ReadResources {
    /// The permits, and the count of panics.
    pub admission: Admission,
    /// The memory of replies that clients have not taken yet.
    pub replies: ReplyBudget,
    /// The threads for large queries.
    pub(crate) pool: Pool,
    /// The source of state that is not held; `None` where all of it is.
    pub state: Option<StateSource>,
    /// Passes calls to nodes; `None` if none is forwarded.
    pub(crate) forwarder: Option<Forwarder>,
}

impl ReadResources {
    /// Starts a pool of `pool_threads` threads, at least one, with a budget of `reply_bytes` for
    /// replies. It must be called inside an actix system.
    ///
    /// # Errors
    /// The system has no more threads.
    pub fn start(
        pool_threads: usize,
        reply_bytes: usize,
        state: Option<StateSource>,
    ) -> io::Result<Self> {
        let panics = state.as_ref().map(StateSource::panics);
        let admission = Admission::with_panics(panics.cloned().unwrap_or_default());
        Ok(Self {
            pool: Pool::start(pool_threads, admission.panics())?,
            admission,
            replies: ReplyBudget::new(reply_bytes),
            state,
            forwarder: None,
        })
    }

    /// The same resources, with what passes calls to nodes.
    #[must_use]
    pub fn with_forwarder(self, forwarder: Option<Forwarder>) -> Self {
        Self { forwarder, ..self }
    }

    /// Lets in what the memory of the process allows from now on. Replies of slow clients end if it
    /// is critical.
    pub fn set_memory_level(&self, level: MemoryLevel, now: Instant) {
        let is_short = level >= MemoryLevel::Short;
        self.pool.set_memory_short(is_short);
        self.replies.set_memory_short(is_short);
        if level == MemoryLevel::Critical {
            self.replies.evict_slow(now);
        }
    }

    /// How long a light query or a call of a contract that comes now waits for the pool. Heavy ones
    /// may wait for longer.
    #[must_use]
    pub fn pool_wait(&self, now: Instant) -> Duration {
        self.pool.wait_of_next(now)
    }

    /// The use of each queue.
    #[must_use]
    pub fn queues(&self) -> [QueueUse; 6] {
        let [light, heavy, calls, long_calls] = self.pool.usage();
        let [requests, bodies] = self.admission.queue_use();
        [requests, bodies, light, heavy, calls, long_calls]
    }
}
