//! A worker: a thread that serves connections.

use std::{
    cell::Cell,
    net::TcpStream as StdStream,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use actix::Arbiter;
use actix_service::{Service, ServiceFactory};
use actix_web::rt::{self, net::TcpStream};
use tokio::{
    sync::{Notify, mpsc},
    task, time,
};

use super::{
    intake::Intake,
    stopping::{Ended, Stopping},
};
use crate::limits::{INTAKE_MAX, TURNS_OF_REQUEST};

/// What the acceptor knows of a worker.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) connections: mpsc::Sender<StdStream>,
    /// Whether a connection waits because the worker's turns take too long.
    pub(super) is_overloaded: Arc<AtomicBool>,
}

/// What a worker shares with the acceptor and with who stops it.
pub(super) struct WorkerParts {
    /// Connections that it may have.
    pub(super) slots: usize,
    /// Notified when it takes connections.
    pub(super) took: Arc<Notify>,
    pub(super) stopping: Stopping,
    /// Dropped at its end.
    pub(super) ended: Ended,
}

/// Connections for a worker.
struct Incoming {
    connections: mpsc::Receiver<StdStream>,
    is_overloaded: Arc<AtomicBool>,
    took: Arc<Notify>,
}

/// The open connections of a worker.
#[derive(Default)]
struct Open {
    count: Cell<usize>,
    one_ended: Notify,
}

/// One open connection.
struct OpenGuard(Rc<Open>);

/// Starts a worker whose service `factory` makes on its thread. `failed` is called if it cannot be
/// made.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start<F>(
    factory: impl FnOnce() -> F + Send + 'static,
    parts: WorkerParts,
    failed: impl FnOnce(String) + Send + 'static,
) -> std::io::Result<WorkerHandle>
where
    F: ServiceFactory<TcpStream, Config = ()>,
    F::Service: 'static,
{
    let (sender, receiver) = mpsc::channel(INTAKE_MAX);
    let is_overloaded = Arc::new(AtomicBool::new(false));
    let incoming = Incoming {
        connections: receiver,
        is_overloaded: Arc::clone(&is_overloaded),
        took: Arc::clone(&parts.took),
    };
    Arbiter::try_new()?.spawn_fn(move || {
        rt::spawn(async move {
            match factory().new_service(()).await {
                Ok(service) => serve(service, incoming, parts).await,
                Err(_) => failed("the service of a worker cannot be made".to_owned()),
            }
            Arbiter::current().stop();
        });
    });
    Ok(WorkerHandle {
        connections: sender,
        is_overloaded,
    })
}

/// Serves connections until the server stops, and then until they end or the grace period does.
async fn serve<S>(service: S, mut incoming: Incoming, parts: WorkerParts)
where
    S: Service<TcpStream> + 'static,
{
    let WorkerParts {
        slots,
        mut stopping,
        ended: _ended,
        ..
    } = parts;
    let open = Rc::new(Open::default());
    let mut intake = Intake::new();
    let grace = loop {
        let taken = tokio::select! {
            biased;
            grace = stopping.wait() => break grace,
            taken = incoming.next(&open, slots, &mut intake) => taken,
        };
        // The acceptor is gone, and the word that the server stops is on its way.
        let Some(taken) = taken else {
            break stopping.wait().await;
        };
        for stream in taken {
            // A connection that has failed already has nobody who could be told.
            let Ok(stream) = TcpStream::from_std(stream) else {
                continue;
            };
            let answering = service.call(stream);
            let guard = open.add();
            rt::spawn(async move {
                let _ = answering.await;
                drop(guard);
            });
        }
    };
    // Who waits has sent nothing that anybody read.
    drop(incoming);
    let _ = time::timeout(grace, open.fewer_than(1)).await;
}

impl Incoming {
    /// The connections to take now, at least one; `None` if the acceptor is gone.
    async fn next(
        &mut self,
        open: &Open,
        slots: usize,
        intake: &mut Intake,
    ) -> Option<Vec<StdStream>> {
        let mut taken = vec![self.connections.recv().await?];
        open.fewer_than(slots).await;
        let most = loop {
            let began = Instant::now();
            for _ in 0..TURNS_OF_REQUEST {
                // Behind all tasks that are ready, and those that new events make ready.
                task::yield_now().await;
            }
            let most = intake.after(began.elapsed());
            // A hint for the acceptor: nothing else is read because of it.
            self.is_overloaded.store(most == 0, Ordering::Relaxed);
            if most > 0 {
                break most.min(slots - open.count.get());
            }
        };
        while taken.len() < most
            && let Ok(stream) = self.connections.try_recv()
        {
            taken.push(stream);
        }
        self.took.notify_one();
        Some(taken)
    }
}

impl Open {
    fn add(self: &Rc<Self>) -> OpenGuard {
        self.count.set(self.count.get() + 1);
        OpenGuard(Rc::clone(self))
    }

    /// Waits until fewer connections than this are open.
    async fn fewer_than(&self, count: usize) {
        while self.count.get() >= count {
            self.one_ended.notified().await;
        }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.one_ended.notify_one();
    }
}

#[cfg(test)]
mod tests;
