//! The acceptor of a server: takes connections from the kernel, and gives them to workers.
//!
//! | every worker | connections |
//! |---|---|
//! | has room | are given to the workers in turn |
//! | has as many in its queue as it takes at a turn | wait in the kernel's queue |
//! | has been overloaded for [`OVERLOAD_PATIENCE`], too; or the kernel's queue was not empty for [`QUEUE_PATIENCE`] | are refused by the kernel, until a worker's queue is empty |
//!
//! To read a request and refuse it costs about as much as a cheap answer. So with ten times the
//! load, a server that reads everything has no time left to answer anything. What the kernel
//! refuses costs the server nothing, and tells the client at once.

use std::{
    future,
    io::{self, ErrorKind},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use actix::Arbiter;
use actix_web::rt;
use socket2::SockRef;
use tokio::{
    sync::{Notify, mpsc::error::TrySendError},
    task, time,
};

use super::{
    stopping::{Ended, Stopping},
    worker::WorkerHandle,
};
use crate::{
    limits::{
        ACCEPT_ERROR_PAUSE, OVERLOAD_PATIENCE, QUEUE_PATIENCE, RELAPSE_MAX, RELAPSE_PATIENCE,
    },
    metrics::ListenerMetrics,
};

/// Accepts the connections of one server.
pub(super) struct Acceptor {
    pub(super) listener: TcpListener,
    /// Connections that may wait in the kernel's queue.
    pub(super) backlog: i32,
    pub(super) workers: Workers,
    pub(super) metrics: ListenerMetrics,
}

/// The workers of a server.
pub(super) struct Workers {
    pub(super) handles: Vec<WorkerHandle>,
    /// Notified when a worker takes connections.
    pub(super) took: Arc<Notify>,
    /// Whose turn it is.
    pub(super) next: usize,
}

impl Acceptor {
    /// Accepts connections on a thread of its own, until the server stops.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(self, mut stopping: Stopping, ended: Ended) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        Arbiter::try_new()?.spawn_fn(move || {
            rt::spawn(async move {
                let _ended = ended;
                tokio::select! {
                    biased;
                    _ = stopping.wait() => {}
                    () = self.run() => {}
                }
                Arbiter::current().stop();
            });
        });
        Ok(())
    }

    async fn run(mut self) {
        let mut patience = OVERLOAD_PATIENCE;
        loop {
            match self.accept_until_overloaded(patience).await {
                Ok(accepted_for) => {
                    // An overload that goes on is told once.
                    let is_new = patience == OVERLOAD_PATIENCE || accepted_for >= RELAPSE_MAX;
                    self.refuse_until_there_is_room(is_new).await;
                    patience = RELAPSE_PATIENCE;
                }
                Err(error) => {
                    tracing::error!(%error, "connections cannot be accepted");
                    time::sleep(ACCEPT_ERROR_PAUSE).await;
                }
            }
        }
    }

    /// Gives connections to workers. Once all workers are overloaded, returns for how long
    /// connections were accepted.
    async fn accept_until_overloaded(&mut self, patience: Duration) -> io::Result<Duration> {
        // A new one each time: what is known of the old one's readiness ends with its queue.
        let listener = rt::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let began = Instant::now();
        // Since when somebody has waited in the kernel's queue.
        let mut queued_since = None;
        loop {
            let accepted = future::poll_fn(|context| {
                let accepted = listener.poll_accept(context);
                if accepted.is_pending() {
                    queued_since = None;
                }
                accepted
            });
            // Without tokio's budget, which would make a full queue look empty.
            let stream = match task::unconstrained(accepted).await {
                Ok((stream, _)) => stream.into_std()?,
                // The client has left already.
                Err(error) if is_of_client(&error) => continue,
                Err(error) => return Err(error),
            };
            let is_calm = began.elapsed() >= RELAPSE_MAX;
            let patience = if is_calm { OVERLOAD_PATIENCE } else { patience };
            let queued = queued_since.get_or_insert_with(Instant::now).elapsed();
            let is_given = self.workers.give(stream, patience).await;
            if !is_given || queued >= QUEUE_PATIENCE {
                return Ok(began.elapsed());
            }
        }
    }

    /// Closes the kernel's queue: those in it, and those who would get into it, are refused.
    async fn refuse_until_there_is_room(&self, is_new: bool) {
        let socket = SockRef::from(&self.listener);
        if let Err(error) = socket.shutdown(Shutdown::Both) {
            tracing::warn!(%error, "connections cannot be refused");
        }
        self.metrics.refusing.set(1);
        if is_new {
            tracing::warn!(
                "more is asked than the workers can answer: new connections are refused until \
                 they can"
            );
        }
        self.workers.one_is_free().await;
        while let Err(error) = socket.listen(self.backlog) {
            tracing::error!(%error, "connections cannot be accepted");
            time::sleep(ACCEPT_ERROR_PAUSE).await;
        }
        self.metrics.refusing.set(0);
    }
}

impl Workers {
    /// Gives a connection to the next worker that has room for it, once there is one. `false` if
    /// all workers have been overloaded for too long: then it is refused.
    async fn give(&mut self, mut stream: TcpStream, patience: Duration) -> bool {
        let mut overloaded_since: Option<Instant> = None;
        loop {
            for _ in 0..self.handles.len() {
                let worker = &self.handles[self.next];
                self.next = (self.next + 1) % self.handles.len();
                match worker.connections.try_send(stream) {
                    Ok(()) => return true,
                    Err(TrySendError::Full(back) | TrySendError::Closed(back)) => stream = back,
                }
            }
            let is_overloaded =
                |worker: &WorkerHandle| worker.is_overloaded.load(Ordering::Relaxed);
            let waited = match self.handles.iter().all(is_overloaded) {
                true => overloaded_since.get_or_insert_with(Instant::now).elapsed(),
                false => {
                    overloaded_since = None;
                    Duration::ZERO
                }
            };
            let Some(rest) = patience.checked_sub(waited) else {
                // With a reset, as the kernel refuses the others.
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                return false;
            };
            let _ = time::timeout(rest, self.took.notified()).await;
        }
    }

    /// Waits until nobody waits for one of the workers.
    async fn one_is_free(&self) {
        let is_free = |worker: &WorkerHandle| {
            worker.connections.capacity() == worker.connections.max_capacity()
        };
        while !self.handles.iter().any(is_free) {
            self.took.notified().await;
        }
    }
}

/// Whether accepting failed because of the client: the next one may be accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests;
