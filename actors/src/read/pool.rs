//! The pool: threads for queries that are too large for a worker's own thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use nearhead_chain::log_search::Cancellation;
use tokio::sync::oneshot;

use crate::{
    admission::{
        LIGHT_WORK_MAX, Panics, QUEUE_WAIT_MAX, QueueUse, REPLY_RETRY_AFTER, Taken, Ticket,
        WorkQueue,
    },
    messages::{QueryError, Reply},
    share::Share,
};

/// The threads for large queries; clones share them.
///
/// Light and heavy queries have queues and threads of their own: no light one waits until a heavy
/// one is done.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    light: PoolClass,
    heavy: PoolClass,
    /// Set while there is no memory for heavy queries.
    is_memory_short: Arc<AtomicBool>,
}

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) struct PoolClass {
    pub(crate) threads: Addr<PoolActor>,
    queue: Arc<Queue>,
}

type Queue = WorkQueue<Box<dyn Job>>;

/// By how much the priority of a thread is lower than that of the workers. A worker that is busy on
/// the same core goes on to read requests: what is too much then waits in the queues, where it is
/// shared and refused in time, and not in sockets. Light queries run before heavy ones.
const LIGHT_NICENESS: i32 = 5;
const HEAVY_NICENESS: i32 = 10;

impl Pool {
    /// Starts `threads` threads for each of the two classes, at least one. It must be called inside
    /// an actix system.
    #[must_use]
    pub(crate) fn start(threads: usize, panics: &Panics) -> Self {
        let threads = threads.max(1);
        Self {
            light: PoolClass::start("light", threads, LIGHT_NICENESS, panics),
            heavy: PoolClass::start("heavy", threads, HEAVY_NICENESS, panics),
            is_memory_short: Arc::default(),
        }
    }

    /// Runs a query for this tenant on one of the threads, when its turn has come. `work` is an
    /// estimate of the time that it takes. Dropping the future takes the query back if it still
    /// waits.
    ///
    /// # Errors
    /// [`QueryError::Overloaded`]: the tenant has so much work in the queue that the query would
    /// wait for too long, or it has waited for too long. Or the query's own error.
    pub(crate) async fn run<Q: PoolQuery>(
        &self,
        query: Q,
        share: Share,
        work: Duration,
    ) -> Reply<Q::Output> {
        let class = match work <= LIGHT_WORK_MAX {
            true => &self.light,
            false if self.is_memory_short.load(Ordering::Relaxed) => {
                return Err(QueryError::Overloaded {
                    retry_after: REPLY_RETRY_AFTER,
                });
            }
            false => &self.heavy,
        };
        class.run(query, share, work).await
    }

    /// Refuses heavy queries, or no longer.
    pub(crate) fn set_memory_short(&self, is_short: bool) {
        self.is_memory_short.store(is_short, Ordering::Relaxed);
    }

    /// The use of each queue.
    pub(crate) fn usage(&self) -> [QueueUse; 2] {
        [self.light.queue.usage(), self.heavy.queue.usage()]
    }

    #[cfg(test)]
    pub(crate) const fn classes(&self) -> [&PoolClass; 2] {
        [&self.light, &self.heavy]
    }
}

impl PoolClass {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one pool: it has a message for each item of its queue, which has a \
                  bound, and its actor catches panics"
    )]
    fn start(class: &'static str, threads: usize, niceness: i32, panics: &Panics) -> Self {
        let queue = Arc::new(Queue::new(class, threads));
        let actor = PoolActor {
            queue: Arc::clone(&queue),
            panics: panics.clone(),
            class,
            niceness: usual_niceness() + niceness,
        };
        Self {
            threads: SyncArbiter::start(threads, move || actor.clone()),
            queue,
        }
    }

    async fn run<Q: PoolQuery>(&self, query: Q, share: Share, work: Duration) -> Reply<Q::Output> {
        let (reply, mut replied) = oneshot::channel();
        let cost = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        let job = Box::new(QueuedQuery { query, reply });
        let ticket = self.queue.push(share, cost, job, Instant::now())?;
        let _withdrawn = Withdrawn {
            queue: &self.queue,
            ticket,
        };
        self.wake();
        let waited = tokio::time::timeout(QUEUE_WAIT_MAX, &mut replied).await;
        let reply = match waited {
            Ok(reply) => reply,
            Err(_) => match self.queue.expire(share, ticket) {
                Some(refusal) => return Err(refusal),
                // It runs.
                None => replied.await,
            },
        };
        // A job that is dropped unanswered was cancelled, or the pool has stopped.
        reply.unwrap_or(Err(QueryError::Cancelled))
    }

    /// Has a thread take the next item.
    fn wake(&self) {
        // The message stays if the sender goes away: others count on it, whose items may have been
        // taken with an earlier one.
        actix::spawn(self.threads.send(RunNext));
    }
}

/// Takes a query back when nobody waits for it any more.
struct Withdrawn<'a> {
    queue: &'a Queue,
    ticket: Ticket,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.queue.withdraw(self.ticket);
    }
}

/// A query that can run on the pool.
pub(crate) trait PoolQuery: Send + 'static {
    /// Its answer.
    type Output: Send + 'static;

    /// Set when the answer is no longer wanted.
    fn cancellation(&self) -> &Cancellation;

    /// Computes the answer.
    fn run(&self) -> Reply<Self::Output>;
}

/// A query of any kind that waits for a thread.
trait Job: Send {
    /// Whether nobody waits for it any more.
    fn is_cancelled(&self) -> bool;

    /// Answers it with an error.
    fn refuse(self: Box<Self>, refusal: QueryError);

    /// Computes its answer.
    fn run(self: Box<Self>, panics: &Panics, ctx: &mut SyncContext<PoolActor>);
}

struct QueuedQuery<Q: PoolQuery> {
    query: Q,
    reply: oneshot::Sender<Reply<Q::Output>>,
}

// Sending fails if nobody waits for the reply any more.
impl<Q: PoolQuery> Job for QueuedQuery<Q> {
    fn is_cancelled(&self) -> bool {
        self.query.cancellation().is_cancelled()
    }

    fn refuse(self: Box<Self>, refusal: QueryError) {
        drop(self.reply.send(Err(refusal)));
    }

    fn run(self: Box<Self>, panics: &Panics, ctx: &mut SyncContext<PoolActor>) {
        let Self { query, reply } = *self;
        drop(reply.send(panics.guard(ctx, || query.run())));
    }
}

/// To a thread of the pool: run the query whose turn it is. It need not be the one with which this
/// message was sent.
#[derive(Message)]
#[rtype(result = "()")]
struct RunNext;

/// Runs queries; one on every thread of the pool. All threads of a class take from one queue.
///
/// Its work is synchronous and watches its cancellation. After a panic the pool starts a new actor
/// in its place.
#[derive(Clone, Debug)]
pub(crate) struct PoolActor {
    queue: Arc<Queue>,
    pub(super) panics: Panics,
    class: &'static str,
    /// Of its thread.
    niceness: i32,
}

/// The niceness of this thread.
fn usual_niceness() -> i32 {
    // Unknown only to a process that may not even see itself.
    rustix::process::getpriority_process(None).unwrap_or(0)
}

impl Actor for PoolActor {
    type Context = SyncContext<Self>;

    fn started(&mut self, _: &mut SyncContext<Self>) {
        // On other systems niceness belongs to the process as a whole.
        #[cfg(target_os = "linux")]
        {
            // Where this fails, only latencies are worse, or a list of threads is.
            if let Err(error) = rustix::process::setpriority_process(None, self.niceness) {
                tracing::debug!(%error, "the priority of a pool thread was not set");
            }
            let name = std::ffi::CString::new(self.class).unwrap_or_default();
            if let Err(error) = rustix::thread::set_name(&name) {
                tracing::debug!(%error, "a pool thread was not named");
            }
        }
    }
}

impl Handler<RunNext> for PoolActor {
    type Result = ();

    fn handle(&mut self, _: RunNext, ctx: &mut SyncContext<Self>) {
        while let Some(taken) = self.queue.pop(Instant::now()) {
            let Taken {
                content: job,
                share,
                cost,
                is_late,
                ..
            } = taken;
            let started = Instant::now();
            if is_late {
                job.refuse(self.queue.refusal(share));
                continue;
            }
            if job.is_cancelled() {
                job.refuse(QueryError::Cancelled);
                self.queue.skipped(share, cost);
                continue;
            }
            job.run(&self.panics, ctx);
            let now = Instant::now();
            self.queue.finished(share, cost, now - started, now);
            return;
        }
    }
}
