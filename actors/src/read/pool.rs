//! The pool: threads for queries that are too large for a worker's own thread.

mod job;
#[cfg(test)]
mod occupied;
mod threads;
mod wake_plan;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

pub(crate) use self::job::PoolQuery;
#[cfg(test)]
pub(crate) use self::occupied::Occupied;
use self::{
    job::{Queue, QueuedQuery},
    threads::{PoolThreads, Priority},
    wake_plan::{Planned, plan},
};
use crate::{
    admission::{
        Entry, Expiry, LIGHT_WORK_MAX, Panics, QUEUE_WAIT_MAX, QueueUse, RETRY_AFTER_UNMEASURED,
        Ticket,
    },
    messages::{QueryError, Reply},
    share::Share,
    step, thread_priority, trace,
};

/// The threads for large queries; clones share them.
///
/// Light and heavy queries have queues and threads of their own: no light one waits until a heavy
/// one is done. So have calls of contracts, whose work nobody knows before they have run. Those
/// that turn out to take long go on to threads of their own.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    light: PoolClass,
    heavy: PoolClass,
    /// The threads for calls of contracts.
    pub(super) calls: PoolClass,
    /// The threads for those that take long.
    long_calls: PoolClass,
    /// Set while there is no memory for heavy queries.
    is_memory_short: Arc<AtomicBool>,
}

/// The threads of one class, and their queue.
#[derive(Clone, Debug)]
pub(crate) struct PoolClass {
    name: &'static str,
    pub(crate) threads: PoolThreads,
    queue: Arc<Queue>,
}

impl Pool {
    /// Starts `threads` threads for each class, at least one. It must be called inside
    /// an actix system.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn start(threads: usize, panics: &Panics) -> io::Result<Self> {
        let start = |class, priority| PoolClass::start(class, threads.max(1), priority, panics);
        Ok(Self {
            light: start("light", Priority::Later(thread_priority::LIGHT))?,
            heavy: start("heavy", Priority::Later(thread_priority::HEAVY))?,
            calls: start("calls", Priority::OfWorkers)?,
            long_calls: start("long_calls", Priority::Later(thread_priority::HEAVY))?,
            is_memory_short: Arc::default(),
        })
    }

    /// Runs a query for this tenant on one of the threads, when its turn has come. `work` is an
    /// estimate of the time that it takes. Dropping the future takes the query back if it still
    /// waits. A query whose upstream calls were paid for comes [`Entry::Again`].
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the tenant has so much work in the queue that the query would
    /// wait for too long, or it has waited for too long. Or the query's own error.
    pub(crate) async fn run<Q: PoolQuery>(
        &self,
        query: Q,
        share: Share,
        work: Duration,
        entry: Entry,
    ) -> Reply<Q::Output> {
        self.class(work)?.run(query, share, work, entry).await
    }

    /// The threads for a query of this work.
    fn class(&self, work: Duration) -> Reply<&PoolClass> {
        match work <= LIGHT_WORK_MAX {
            true => Ok(&self.light),
            false if self.is_memory_short.load(Ordering::Relaxed) => Err(QueryError::Overloaded {
                retry_after: RETRY_AFTER_UNMEASURED,
            }),
            false => Ok(&self.heavy),
        }
    }

    /// The threads for calls that take long. Each call may take much memory.
    pub(super) fn long_calls(&self) -> Reply<&PoolClass> {
        match self.is_memory_short.load(Ordering::Relaxed) {
            true => Err(QueryError::Overloaded {
                retry_after: RETRY_AFTER_UNMEASURED,
            }),
            false => Ok(&self.long_calls),
        }
    }

    /// Refuses heavy queries and calls that take long, or no longer.
    pub(crate) fn set_memory_short(&self, is_short: bool) {
        self.is_memory_short.store(is_short, Ordering::Relaxed);
    }

    /// How long a light query or a call of a contract that comes now waits.
    pub(super) fn wait_of_next(&self, now: Instant) -> Duration {
        let wait = |class: &PoolClass| class.queue.wait_of_next(now);
        wait(&self.light).max(wait(&self.calls))
    }

    /// The use of each queue.
    pub(crate) fn usage(&self) -> [QueueUse; 4] {
        self.classes().map(|class| class.queue.usage())
    }

    pub(crate) const fn classes(&self) -> [&PoolClass; 4] {
        [&self.light, &self.heavy, &self.calls, &self.long_calls]
    }
}

impl PoolClass {
    fn start(
        class: &'static str,
        threads: usize,
        priority: Priority,
        panics: &Panics,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(class, threads));
        Ok(Self {
            name: class,
            threads: PoolThreads::start(class, threads, priority, &queue, panics)?,
            queue,
        })
    }

    /// Runs a query on one of the threads, when its turn has come: see [`Pool::run`].
    pub(super) async fn run<Q: PoolQuery>(
        &self,
        query: Q,
        share: Share,
        work: Duration,
        entry: Entry,
    ) -> Reply<Q::Output> {
        let (reply, mut replied) = oneshot::channel();
        let cost = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        let request = trace::current();
        let job = Box::new(QueuedQuery {
            query,
            reply,
            queued: step!(below request, "queue", class = self.name),
            request,
            class: self.name,
        });
        let ticket = self.queue.push(share, cost, job, Instant::now(), entry)?;
        let _withdrawn = Withdrawn {
            queue: &self.queue,
            ticket,
        };
        self.wake_soon();
        let reply = loop {
            let waited = tokio::time::timeout(QUEUE_WAIT_MAX, &mut replied).await;
            if let Ok(reply) = waited {
                break reply;
            }
            match self.queue.expire(share, ticket, Instant::now()) {
                Expiry::Refused(refusal) => return Err(refusal),
                Expiry::Waits => {}
                // It runs.
                Expiry::Gone => break replied.await,
            }
        };
        // A job is dropped unanswered only by a panic outside of the query.
        reply.unwrap_or(Err(QueryError::Panicked))
    }

    /// Has a thread take the item that was pushed, when the event loop of this thread is idle, or
    /// after about 0.2 ms if it has further ones.
    ///
    /// A thread of the pool that is woken on a busy core runs at once. With one item it would sleep
    /// again after it, and each item would cost three switches between threads.
    fn wake_soon(&self) {
        match plan(Arc::as_ptr(&self.queue).addr()) {
            Planned::New(plan) => {
                let Self { threads, queue, .. } = self.clone();
                actix::spawn(async move { threads.wake(plan.due().await, &queue) });
            }
            Planned::Held(items) => self.threads.wake(items, &self.queue),
        }
    }
}

/// Takes a query back when nobody waits for it any more.
struct Withdrawn<'a> {
    queue: &'a Queue,
    ticket: Ticket,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.queue.withdraw(self.ticket, Instant::now());
    }
}

#[cfg(test)]
mod tests;
