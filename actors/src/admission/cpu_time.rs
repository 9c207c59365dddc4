//! The CPU time of a thread, which tenants are charged for.

use std::{marker::PhantomData, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// A point in the CPU time of the current thread.
///
/// Tenants are charged for it instead of the time that passes: while the thread is preempted, its
/// query takes longer, and costs no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    used: Duration,
    /// It stays on its thread: another one has a clock of its own.
    thread: PhantomData<*const ()>,
}

impl CpuTime {
    /// What this thread has used so far.
    pub(crate) fn now() -> Self {
        Self {
            // This clock starts at zero, so it is never negative.
            used: Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default(),
            thread: PhantomData,
        }
    }

    /// What the thread had used by then.
    pub(crate) const fn used(self) -> Duration {
        self.used
    }

    /// What this thread has used since then.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().used.saturating_sub(self.used)
    }
}
