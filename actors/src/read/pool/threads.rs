//! The threads of one class, which take queries from its queue.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use actix::{Actor, Addr, Arbiter, Context, Handler, Message};
use tokio::runtime;

use super::job::{Job, Queue};
use crate::{
    admission::{CpuTime, Panics, Taken},
    messages::QueryError,
    thread_priority,
};

/// The threads of one class; clones share them. They end with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct PoolThreads(Arc<[PoolThread]>);

/// How soon the threads of a class run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Priority {
    /// Like workers. Half of all requests are calls, and most are short: they must not wait behind
    /// a worker that makes large replies.
    OfWorkers,
    /// After workers: by how much their niceness exceeds a worker's.
    Later(i32),
}

#[derive(Debug)]
struct PoolThread {
    arbiter: Arbiter,
    actor: Addr<PoolActor>,
    /// Whether it needs a message to look at the queue.
    sleeps: Arc<AtomicBool>,
}

impl PoolThreads {
    /// Starts `count` threads, which take queries from `queue`.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(super) fn start(
        class: &'static str,
        count: usize,
        priority: Priority,
        queue: &Arc<Queue>,
        panics: &Panics,
    ) -> io::Result<Self> {
        let workers_niceness = thread_priority::niceness();
        let start = |_| {
            let sleeps = Arc::new(AtomicBool::new(true));
            let actor = PoolActor {
                queue: Arc::clone(queue),
                panics: panics.clone(),
                sleeps: Arc::clone(&sleeps),
                class,
                priority,
                workers_niceness,
            };
            // Its work does no I/O and has no timers.
            let runtime = || runtime::Builder::new_current_thread().build();
            let arbiter = Arbiter::try_with_tokio_rt(runtime)?;
            let actor = PoolActor::start_in_arbiter(&arbiter.handle(), move |_| actor);
            Ok(PoolThread {
                arbiter,
                actor,
                sleeps,
            })
        };
        (0..count).map(start).collect::<io::Result<_>>().map(Self)
    }

    /// Wakes as many threads as items were pushed into the queue, if so many sleep, but no more
    /// once it is empty: on a busy core, the first one that is woken runs at once, and takes all
    /// items.
    pub(super) fn wake(&self, items: usize, queue: &Queue) {
        let mut items = items;
        for thread in &*self.0 {
            if items == 0 || queue.is_empty() {
                return;
            }
            if thread.wake() {
                items -= 1;
            }
        }
    }

    /// The actors, one for each thread.
    #[cfg(test)]
    pub(crate) fn actors(&self) -> impl Iterator<Item = &Addr<PoolActor>> {
        self.0.iter().map(|thread| &thread.actor)
    }

    /// How many of them have nothing to do.
    #[cfg(test)]
    pub(super) fn asleep(&self) -> usize {
        let asleep = |thread: &&PoolThread| thread.sleeps.load(Ordering::Acquire);
        self.0.iter().filter(asleep).count()
    }
}

impl PoolThread {
    /// Whether it sleeps; then it looks at the queue.
    fn wake(&self) -> bool {
        let sleeps = self.sleeps.load(Ordering::Acquire);
        let wakes = sleeps && self.sleeps.swap(false, Ordering::AcqRel);
        if wakes {
            // This is the one message in the mailbox. It is lost only if the thread has stopped.
            let _ = self.actor.try_send(TakeQueries);
        }
        wakes
    }
}

impl Drop for PoolThread {
    fn drop(&mut self) {
        self.arbiter.stop();
    }
}

/// To a thread that sleeps: run queries until none waits.
#[derive(Message)]
#[rtype(result = "()")]
struct TakeQueries;

/// Runs queries; one on every thread of the pool. All threads of a class take from one queue.
///
/// Its work is synchronous and watches its cancellation. A panic ends its query alone.
#[derive(Debug)]
pub(crate) struct PoolActor {
    queue: Arc<Queue>,
    panics: Panics,
    /// Whether it needs a message to look at the queue.
    sleeps: Arc<AtomicBool>,
    class: &'static str,
    priority: Priority,
    workers_niceness: i32,
}

impl Actor for PoolActor {
    type Context = Context<Self>;

    fn started(&mut self, _: &mut Context<Self>) {
        match self.priority {
            Priority::OfWorkers => thread_priority::set_prompt(self.class, self.workers_niceness),
            Priority::Later(by) => thread_priority::set(self.class, self.workers_niceness + by),
        }
    }
}

impl Handler<TakeQueries> for PoolActor {
    type Result = ();

    fn handle(&mut self, _: TakeQueries, _: &mut Context<Self>) {
        loop {
            while let Some(taken) = self.queue.pop(Instant::now()) {
                self.run(taken);
            }
            self.sleeps.store(true, Ordering::Release);
            // Whoever pushed an item before this look may have seen that it does not sleep. Who
            // pushes one afterwards sees that it does.
            if self.queue.is_empty() || !self.sleeps.swap(false, Ordering::AcqRel) {
                return;
            }
        }
    }
}

impl PoolActor {
    fn run(&self, taken: Taken<Box<dyn Job>>) {
        let Taken {
            content: job,
            run,
            share,
            ..
        } = taken;
        let Some(run) = run else {
            return job.refuse(self.queue.refusal(share, Instant::now()));
        };
        if job.is_cancelled() {
            job.refuse(QueryError::Cancelled);
            return self.queue.skipped(run);
        }
        // The tenant is charged for CPU time alone: a query waits for short locks at most. What it
        // reads is in memory, and calls to upstreams are awaited outside of the pool.
        let began = CpuTime::now();
        job.run(&self.panics);
        self.queue.finished(run, began.elapsed(), Instant::now());
    }
}
