//! The threads of one class, which take queries from its queue.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

#[cfg(test)]
use actix::ArbiterHandle;
use actix::{Actor, Addr, Arbiter, Context, Handler, Message};
use tokio::runtime;

use super::job::{Job, Queue};
use crate::{
    admission::{CpuTime, Panics, Taken},
    messages::QueryError,
    thread_priority,
};

/// The threads of one class; clones share them. They end with the last clone, or with the system.
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
pub(super) struct PoolThread {
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
    pub(super) fn wake(&self, mut items: usize, queue: &Queue) {
        for thread in self.asleep() {
            if items == 0 || queue.is_empty() {
                return;
            }
            items -= usize::from(thread.wake());
        }
    }

    /// The actors, one for each thread.
    #[cfg(test)]
    pub(super) fn actors(&self) -> impl Iterator<Item = &Addr<PoolActor>> {
        self.0.iter().map(|thread| &thread.actor)
    }

    /// Those that need a message to look at the queue.
    pub(super) fn asleep(&self) -> impl Iterator<Item = &PoolThread> {
        let asleep = |thread: &&PoolThread| thread.sleeps.load(Ordering::Acquire);
        self.0.iter().filter(asleep)
    }

    /// The arbiters, one for each thread.
    #[cfg(test)]
    pub(super) fn arbiters(&self) -> Vec<ArbiterHandle> {
        let arbiter = |thread: &PoolThread| thread.arbiter.handle();
        self.0.iter().map(arbiter).collect()
    }
}

impl PoolThread {
    /// Wakes it to look at the queue. Returns whether it slept, and has not stopped.
    fn wake(&self) -> bool {
        // There is one message in the mailbox at most, so it is never full.
        self.sleeps.swap(false, Ordering::AcqRel) && self.actor.try_send(TakeQueries).is_ok()
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
/// Its work is synchronous and watches its cancellation. A panic of a query ends that
/// query alone.
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
            if self.falls_asleep() {
                return;
            }
        }
    }
}

impl PoolActor {
    /// Whether it may sleep: no item waits, or a message is on its way.
    fn falls_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::Release);
        // Who pushed an item before this look may have seen that it does not sleep. Who pushes one
        // afterwards sees that it does: the lock of the queue orders the two.
        self.queue.is_empty() || !self.sleeps.swap(false, Ordering::AcqRel)
    }

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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::{admission::Entry, share::Share};

    struct Nothing;

    impl Job for Nothing {
        fn is_cancelled(&self) -> bool {
            true
        }

        fn refuse(self: Box<Self>, _: QueryError) {}

        fn run(self: Box<Self>, _: &Panics) {}
    }

    #[test]
    fn a_thread_does_not_fall_asleep_beside_an_item() {
        let queue = Arc::new(Queue::new("test", 1));
        let actor = PoolActor {
            queue: Arc::clone(&queue),
            panics: Panics::default(),
            sleeps: Arc::default(),
            class: "test",
            priority: Priority::OfWorkers,
            workers_niceness: 0,
        };
        let sleeps = || actor.sleeps.load(Ordering::Acquire);
        // Pushed after the last look for the next item, when no other thread slept.
        let item = Box::new(Nothing);
        let pushed = queue.push(Share::default(), 1, item, Instant::now(), Entry::New);
        pushed.unwrap();
        assert!(!actor.falls_asleep() && !sleeps());
        queue.pop(Instant::now()).unwrap();
        assert!(actor.falls_asleep() && sleeps());
    }
}
