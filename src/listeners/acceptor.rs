//! The acceptor of a server: takes connections from the kernel, and gives them to workers.
//!
//! | the workers | connections |
//! |---|---|
//! | have room | are given to them in turn |
//! | have no room, or have just taken many whose answers have not begun | wait in the kernel's queue |
//! | have been overloaded for [`OVERLOAD_PATIENCE`], or that queue has not been empty for [`QUEUE_PATIENCE`] | are refused by the kernel |
//! | have been overloaded for [`SHORT_PATIENCE`] while that queue is more than half full, or within [`RELAPSE_WITHIN`] after the last overload | are refused by the kernel |
//! | keep up with their work for [`WATCHED_TIME`](crate::limits::WATCHED_TIME) | are let in by growing numbers, until so few come that they are accepted as before |
//! | have few connections | are let in until they have [enough](super::busy_connections) |
//!
//! To read a request and refuse it costs about as much as a cheap answer. So with ten times the
//! load, a server that reads everything has no time left to answer anything. What the kernel
//! refuses costs the server next to nothing, and tells the client at once.
//!
//! A socket that is inherited stays open for the next process. Its queue is refused connection by
//! connection.

use std::{
    convert::Infallible,
    future, io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use actix::Arbiter;
use actix_web::rt;
use socket2::SockRef;
use tokio::{
    sync::Notify,
    task::{self, JoinSet},
    time,
};

use super::{
    kernel_queue::KernelQueue,
    load::Loads,
    stopping::{Ended, EndsUnexpectedly, Stopping},
    worker::{self, WorkerHandle},
};
use crate::{
    limits::{
        ACCEPT_ERROR_PAUSE, INTAKE_GROWTH, INTAKE_MAX, KEEPING_UP_MAX, OVERLOAD_PATIENCE,
        QUEUE_PATIENCE, RELAPSE_WITHIN, SHORT_PATIENCE, TRIAL_CONNECTIONS_MAX, TRIAL_TIME,
        WATCHED_EVERY,
    },
    metrics::ListenerMetrics,
};

/// Accepts the connections of one server.
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    /// Connections that may wait in the kernel's queue.
    pub(super) backlog: i32,
    /// Whether the next process will accept connections from it: its queue is never closed.
    pub(super) is_inherited: bool,
    pub(super) workers: Workers,
    pub(super) metrics: ListenerMetrics,
}

/// The workers of a server.
pub(super) struct Workers {
    pub(super) handles: Vec<WorkerHandle>,
    pub(super) loads: Loads,
    /// Notified when a worker takes connections, or is overloaded.
    pub(super) took: Arc<Notify>,
    /// Whose turn it is.
    pub(super) next: usize,
}

/// To whom a connection was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    /// To a worker.
    Soon,
    /// To a worker, after all slots were taken.
    AfterASlot,
    /// It was refused.
    ToNobody,
}

impl Acceptor {
    /// Accepts connections on a thread of its own, until the server stops. `failed` is called if
    /// it ends before.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        self,
        mut stopping: Stopping,
        ended: Ended,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        Arbiter::try_new()?.spawn_fn(move || {
            let unexpected = EndsUnexpectedly::new("the acceptor", failed);
            rt::spawn(async move {
                let _ended = ended;
                tokio::select! {
                    biased;
                    _ = stopping.wait() => {}
                    () = self.run() => {}
                }
                unexpected.allow();
                Arbiter::current().stop();
            });
        });
        Ok(())
    }

    async fn run(mut self) {
        // Ended long ago.
        let mut overload_ended = None;
        loop {
            match self.accept_until_overloaded(overload_ended).await {
                Ok(()) => {
                    self.refuse();
                    // An overload that goes on is told once.
                    if !is_recent(overload_ended) {
                        tracing::warn!(
                            "more is asked than the workers can answer: new connections are \
                             refused until they can"
                        );
                    }
                    self.recover().await;
                    overload_ended = Some(Instant::now());
                }
                Err(error) => {
                    tracing::error!(%error, "connections cannot be accepted");
                    time::sleep(ACCEPT_ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Gives connections to workers until all of these are overloaded.
    async fn accept_until_overloaded(&mut self, overload_ended: Option<Instant>) -> io::Result<()> {
        let mut queue = self.queue()?;
        loop {
            let Some(stream) = queue.next().await? else {
                continue;
            };
            let patience = || match is_recent(overload_ended) || queue.is_more_than_half_full() {
                true => SHORT_PATIENCE,
                false => OVERLOAD_PATIENCE,
            };
            match self.workers.give(stream, patience).await {
                Given::Soon if queue.occupied_for() < QUEUE_PATIENCE => {}
                // Who waits for a slot is not refused.
                Given::AfterASlot => queue.restart_wait(),
                Given::Soon | Given::ToNobody => return Ok(()),
            }
        }
    }

    /// Refuses connections until a trial succeeds.
    async fn recover(&mut self) {
        self.metrics.refusing.set(1);
        let mut count = INTAKE_MAX;
        loop {
            let began = Instant::now();
            let most = self.refusing(self.workers.would_take()).await;
            // A worker that does not keep up gets all that it lacks at once: whatever is in the
            // kernel's queue when it is closed has to be refused, which takes long.
            let (keeps_up, tried, crowd) = match most {
                usize::MAX => (true, count, count),
                lacking => {
                    let tried = lacking.min(TRIAL_CONNECTIONS_MAX);
                    (false, tried, tried.min(INTAKE_MAX))
                }
            };
            match self.trial(tried, crowd).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, "connections cannot be accepted");
                    time::sleep(ACCEPT_ERROR_PAUSE).await;
                }
            }
            // More each time, for as long as the workers keep up.
            count = match keeps_up && began.elapsed() < KEEPING_UP_MAX {
                true => (count * INTAKE_GROWTH).min(TRIAL_CONNECTIONS_MAX),
                false => INTAKE_MAX,
            };
        }
        self.metrics.refusing.set(0);
    }

    /// Waits for this, and refuses those who connect meanwhile where the kernel does not.
    async fn refusing<T>(&self, awaited: impl Future<Output = T>) -> T {
        let refused = async {
            if !self.is_inherited {
                return future::pending::<Infallible>().await;
            }
            loop {
                let Err(error) = self.refuse_queue().await;
                tracing::error!(%error, "connections cannot be refused");
                time::sleep(ACCEPT_ERROR_PAUSE).await;
            }
        };
        tokio::select! {
            biased;
            value = awaited => value,
            never = refused => match never {},
        }
    }

    /// Refuses everybody in the kernel's queue; never ends without an error.
    async fn refuse_queue(&self) -> io::Result<Infallible> {
        let mut queue = self.queue()?;
        loop {
            if let Some(stream) = queue.next().await? {
                worker::refuse(stream);
            }
            // Those who are refused may come again at once, and nothing else would have a turn.
            task::yield_now().await;
        }
    }

    /// Lets in so many connections at most, for [`TRIAL_TIME`]. Whether the overload is over: fewer
    /// than `crowd` came, or they wait for slots and not for the workers.
    async fn trial(&mut self, most: usize, crowd: usize) -> io::Result<bool> {
        self.listen()?;
        let taken = self.take(most).await;
        let mut is_over = taken.as_ref().is_ok_and(|taken| taken.len() < crowd);
        if !is_over {
            // Before they are given, which may take long, while others would come.
            self.refuse();
        }
        for stream in taken? {
            if !is_over && self.workers.loads.overloaded_for(Instant::now()).is_none() {
                is_over = self.listen().is_ok();
            }
            self.workers.give(stream, || SHORT_PATIENCE).await;
        }
        Ok(is_over)
    }

    /// Takes so many connections at most from the kernel's queue, for [`TRIAL_TIME`].
    async fn take(&self, most: usize) -> io::Result<Vec<TcpStream>> {
        let mut queue = self.queue()?;
        let mut taken = Vec::new();
        let ends = time::Instant::now() + TRIAL_TIME;
        // At its end, a queue that is not empty is looked at first.
        while taken.len() < most
            && let Ok(stream) = time::timeout_at(ends, queue.next()).await
        {
            match stream {
                Ok(stream) => taken.extend(stream),
                Err(error) if taken.is_empty() => return Err(error),
                // Those who are there are served; the next trial finds it again.
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    /// Closes the kernel's queue: those in it, and those who would get into it, are refused.
    fn refuse(&self) {
        if self.is_inherited {
            return;
        }
        let socket = SockRef::from(&self.listener);
        // Nobody else may listen on the address meanwhile.
        let closed = socket.shutdown(Shutdown::Both);
        if let Err(error) = closed.and_then(|()| socket.set_reuse_address(false)) {
            tracing::warn!(%error, "connections cannot be refused");
        }
    }

    /// Opens the kernel's queue again.
    fn listen(&self) -> io::Result<()> {
        if self.is_inherited {
            return Ok(());
        }
        let socket = SockRef::from(&self.listener);
        // As before: the connections that were accepted use the address.
        socket.set_reuse_address(true)?;
        socket.listen(self.backlog)
    }

    /// The kernel's queue. A new one each time that it was closed: what was known of its readiness
    /// ended with it.
    fn queue(&self) -> io::Result<KernelQueue> {
        KernelQueue::of(self.listener.try_clone()?)
    }
}

impl Workers {
    /// Gives a connection to the next worker that has room for it, once there is one. It is refused
    /// if all that have slots have been overloaded for longer than `patience`, which may change
    /// meanwhile.
    async fn give(&mut self, mut stream: TcpStream, patience: impl Fn() -> Duration) -> Given {
        let mut given = Given::Soon;
        loop {
            for _ in 0..self.handles.len() {
                let worker = &self.handles[self.next];
                self.next = (self.next + 1) % self.handles.len();
                match worker.give(stream) {
                    Ok(()) => return given,
                    Err(back) => stream = back,
                }
            }
            let Some(overloaded_for) = self.loads.overloaded_for(Instant::now()) else {
                given = Given::AfterASlot;
                self.took.notified().await;
                continue;
            };
            let patience = match given {
                // Who waits for a slot is not refused for how many do.
                Given::AfterASlot => OVERLOAD_PATIENCE,
                Given::Soon | Given::ToNobody => patience(),
            };
            if overloaded_for >= patience {
                worker::refuse(stream);
                return Given::ToNobody;
            }
            let _ = time::timeout(WATCHED_EVERY, self.took.notified()).await;
        }
    }

    /// Waits until one of them would take connections, and returns how many.
    async fn would_take(&self) -> usize {
        let mut waiting = JoinSet::new();
        for worker in &self.handles {
            let questions = worker.questions.clone();
            waiting.spawn_local(worker::would_take(questions));
        }
        match waiting.join_next().await {
            Some(Ok(count)) => count,
            // The task has panicked, or there is no worker.
            Some(Err(_)) | None => 1,
        }
    }
}

/// Whether an overload ended so recently that the next one is part of it.
fn is_recent(overload_ended: Option<Instant>) -> bool {
    overload_ended.is_some_and(|ended| ended.elapsed() < RELAPSE_WITHIN)
}

#[cfg(test)]
mod tests;
