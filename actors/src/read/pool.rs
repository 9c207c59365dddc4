//! The pool: threads for queries that are too large for a worker's own thread.

mod wake_plan;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Handler, Message, SyncArbiter, SyncContext};
use nearhead_chain::log_search::Cancellation;
use tokio::sync::oneshot;
use tracing::Span;

use self::wake_plan::{Planned, plan};
use crate::{
    admission::{
        CpuTime, Entry, Expiry, LIGHT_WORK_MAX, Panics, QUEUE_WAIT_MAX, QueueUse,
        RETRY_AFTER_UNMEASURED, Refuse, Taken, Ticket, WorkQueue,
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
    pub(crate) threads: Addr<PoolActor>,
    queue: Arc<Queue>,
    wakings: Wakings,
}

/// How soon the threads of a class run.
#[derive(Clone, Copy, Debug)]
enum Priority {
    /// Like workers. Half of all requests are calls, and most are short: they must not wait behind
    /// a worker that makes large replies.
    OfWorkers,
    /// After workers: by how much their niceness exceeds a worker's.
    Later(i32),
}

type Queue = WorkQueue<Box<dyn Job>>;

impl Refuse for Box<dyn Job> {
    fn refuse(self, refusal: QueryError) {
        Job::refuse(self, refusal);
    }
}

impl Pool {
    /// Starts `threads` threads for each class, at least one. It must be called inside
    /// an actix system.
    #[must_use]
    pub(crate) fn start(threads: usize, panics: &Panics) -> Self {
        let start = |class, priority| PoolClass::start(class, threads.max(1), priority, panics);
        Self {
            light: start("light", Priority::Later(thread_priority::LIGHT)),
            heavy: start("heavy", Priority::Later(thread_priority::HEAVY)),
            calls: start("calls", Priority::OfWorkers),
            long_calls: start("long_calls", Priority::Later(thread_priority::HEAVY)),
            is_memory_short: Arc::default(),
        }
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

    /// The use of each queue.
    pub(crate) fn usage(&self) -> [QueueUse; 4] {
        self.classes().map(|class| class.queue.usage())
    }

    pub(crate) const fn classes(&self) -> [&PoolClass; 4] {
        [&self.light, &self.heavy, &self.calls, &self.long_calls]
    }
}

impl PoolClass {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one pool: it has at most one message waiting for each thread, and \
                  its actor catches panics"
    )]
    fn start(class: &'static str, threads: usize, priority: Priority, panics: &Panics) -> Self {
        let queue = Arc::new(Queue::new(class, threads));
        let actor = PoolActor {
            queue: Arc::clone(&queue),
            panics: panics.clone(),
            class,
            priority,
            workers_niceness: thread_priority::niceness(),
        };
        Self {
            name: class,
            threads: SyncArbiter::start(threads, move || actor.clone()),
            queue,
            wakings: Wakings {
                waiting: Arc::default(),
                most: threads,
            },
        }
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
        // A job that is dropped unanswered was cancelled, or the pool has stopped.
        reply.unwrap_or(Err(QueryError::Cancelled))
    }

    /// Has a thread take the item that was pushed, when the event loop of this thread is idle, or
    /// after about 0.2 ms if it has further ones.
    ///
    /// A thread of the pool that is woken on a busy core runs at once. With one item it would sleep
    /// again after it, and each item would cost five switches between threads.
    fn wake_soon(&self) {
        match plan(Arc::as_ptr(&self.queue).addr()) {
            Planned::New(plan) => {
                let class = self.clone();
                actix::spawn(async move { class.wake(plan.due().await) });
            }
            Planned::Held(items) => self.wake(items),
        }
    }

    /// Wakes as many threads as there are items, but no more once the queue is empty: on a busy
    /// core, the first one that is woken runs at once, and takes all items.
    fn wake(&self, items: usize) {
        for _ in 0..items.min(self.wakings.most) {
            if self.queue.is_empty() {
                return;
            }
            let Some(waking) = self.wakings.next() else {
                return;
            };
            // Their mailbox has no bound of its own: it takes what is counted here.
            let _ = self.threads.try_send(RunNext(waking));
        }
    }
}

/// Counts the messages that wait for a thread of the pool; clones share the count.
///
/// One for each thread suffices, however many items come and are withdrawn meanwhile: a thread that
/// has received one takes items until there are none.
#[derive(Clone, Debug)]
struct Wakings {
    waiting: Arc<AtomicUsize>,
    most: usize,
}

/// One of these messages, until a thread has received it, or nobody can any more.
#[derive(Debug)]
struct Waking(Arc<AtomicUsize>);

impl Wakings {
    /// The next one; `None` if there are enough.
    fn next(&self) -> Option<Waking> {
        let next = |waiting| (waiting < self.most).then_some(waiting + 1);
        let counted = self
            .waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        counted.ok().map(|_| Waking(Arc::clone(&self.waiting)))
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
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
    /// The span of the message that the query came with, and that of its wait.
    request: Span,
    queued: Span,
    class: &'static str,
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
        let Self {
            query,
            reply,
            request,
            queued,
            class,
        } = *self;
        drop(queued);
        let run = step!(below request, "run", class);
        let answer = run.in_scope(|| panics.guard(ctx, || query.run()));
        // They end before the request goes on.
        drop((run, request));
        drop(reply.send(answer));
    }
}

/// To a thread of the pool: run the queries whose turn it is, until none waits.
#[derive(Message)]
#[rtype(result = "()")]
struct RunNext(Waking);

/// Runs queries; one on every thread of the pool. All threads of a class take from one queue.
///
/// Its work is synchronous and watches its cancellation. After a panic the pool starts a new actor
/// in its place.
#[derive(Clone, Debug)]
pub(crate) struct PoolActor {
    queue: Arc<Queue>,
    pub(super) panics: Panics,
    class: &'static str,
    priority: Priority,
    workers_niceness: i32,
}

impl Actor for PoolActor {
    type Context = SyncContext<Self>;

    fn started(&mut self, _: &mut SyncContext<Self>) {
        match self.priority {
            Priority::OfWorkers => thread_priority::set_prompt(self.class, self.workers_niceness),
            Priority::Later(by) => thread_priority::set(self.class, self.workers_niceness + by),
        }
    }
}

impl Handler<RunNext> for PoolActor {
    type Result = ();

    fn handle(&mut self, RunNext(waking): RunNext, ctx: &mut SyncContext<Self>) {
        // Before the first look at the queue: an item that comes afterwards sends another message.
        drop(waking);
        while let Some(taken) = self.queue.pop(Instant::now()) {
            let Taken {
                content: job,
                run,
                share,
                ..
            } = taken;
            let Some(run) = run else {
                job.refuse(self.queue.refusal(share, Instant::now()));
                continue;
            };
            if job.is_cancelled() {
                job.refuse(QueryError::Cancelled);
                self.queue.skipped(run);
                continue;
            }
            // This actor has no state that a panic could damage, so it takes the next one, too. The
            // tenant is charged for CPU time alone: a query waits for short locks at most. What it
            // reads is in memory, and calls to upstreams are awaited outside of the pool.
            let began = CpuTime::now();
            job.run(&self.panics, ctx);
            self.queue.finished(run, began.elapsed(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
