//! A worker: a thread that serves connections.

use std::{
    cell::Cell,
    future, io, mem,
    net::TcpStream as StdStream,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::Arbiter;
use actix_service::{Service, ServiceFactory};
use actix_web::rt::{self, net::TcpStream};
use nearhead_actors::{admission::TURNS_OF_REQUEST, thread_priority};
use socket2::SockRef;
use tokio::{
    runtime::{self, Runtime},
    sync::{
        Notify,
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task, time,
};

use super::{
    busy_connections::{BusyConnections, RequestsBegun},
    intake::Intake,
    load::{Load, Loads, Room},
    stopping::{Ended, EndsUnexpectedly, Stopping},
};
use crate::connections::{NewConnections, Newcomers};
use crate::limits::{
    BUSY_CONNECTIONS_MAX, BUSY_CONNECTIONS_MIN, FIRST_REQUEST_GRACE, INTAKE_MAX, OVERLOAD_PATIENCE,
    TURNS_TIME_MAX, WATCHED_EVERY, WATCHED_TIME,
};

/// What the acceptor knows of a worker.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) connections: mpsc::Sender<StdStream>,
    pub(super) load: Load,
    /// Asks it how many connections it would take now: any number if it keeps up with its work.
    pub(super) questions: Questions,
}

/// Each is answered with a number of connections.
pub(super) type Questions = mpsc::Sender<oneshot::Sender<usize>>;

/// What a worker shares with the acceptor and with who stops it.
pub(super) struct WorkerParts {
    /// Connections that it may have.
    pub(super) slots: usize,
    /// By how much the niceness of its other threads exceeds its own.
    pub(super) niceness: i32,
    pub(super) load: Load,
    /// That of all workers.
    pub(super) loads: Loads,
    /// Notified when it takes connections, or is overloaded.
    pub(super) took: Arc<Notify>,
    pub(super) stopping: Stopping,
    /// Dropped at its end.
    pub(super) ended: Ended,
}

/// How long work waits that a worker is given now, besides for its turn in the event loop.
pub(super) type WorkWait = Rc<dyn Fn() -> Duration>;

/// What a worker does with its connections, besides serving them.
pub(super) struct WorkerConnections {
    pub(super) work_wait: WorkWait,
    pub(super) requests_begun: RequestsBegun,
    /// Those on which no request has come yet.
    pub(super) new_connections: Rc<NewConnections>,
    /// Those of the last moments, which wait for an answer.
    pub(super) newcomers: Rc<Newcomers>,
    /// Set when all connections are to end: after the request in progress, or at once.
    pub(super) ending: watch::Sender<bool>,
}

/// How a worker finds out whether it keeps up with its work.
#[derive(Clone)]
struct Probe(WorkWait);

/// Answers the acceptor's questions.
struct Answerer {
    load: Load,
    open: Rc<Open>,
    probe: Probe,
    /// The connections that wait for the worker.
    queued: mpsc::WeakSender<StdStream>,
    /// Whether the last answer was a promise.
    has_promised: bool,
}

/// Connections for a worker.
struct Incoming {
    connections: mpsc::Receiver<StdStream>,
    /// Those that it has taken, and does not serve yet.
    taken: Vec<StdStream>,
    load: Load,
    loads: Loads,
    took: Arc<Notify>,
}

/// The open connections of a worker.
struct Open {
    count: Cell<usize>,
    /// Those that it has taken, and does not serve yet.
    taken: Cell<usize>,
    /// How many it may have.
    slots: usize,
    one_ended: Notify,
    busy: BusyConnections,
    /// Further ones that the worker takes however busy it is, and until when.
    promised: Cell<(usize, Instant)>,
}

/// One open connection.
struct OpenGuard(Rc<Open>);

impl WorkerHandle {
    /// Gives it a connection, or gives that back if the worker has no room.
    pub(super) fn give(&self, stream: StdStream) -> Result<(), StdStream> {
        let waiting = self.connections.max_capacity() - self.connections.capacity();
        match self.load.room() {
            Room::For(room) if waiting < room => {
                let given = self.connections.try_send(stream);
                given.map_err(TrySendError::into_inner)
            }
            _ => Err(stream),
        }
    }
}

/// Waits until the worker that answers these questions would take connections. Returns how many.
pub(super) async fn would_take(questions: Questions) -> usize {
    loop {
        let (answer, answered) = oneshot::channel();
        if questions.send(answer).await.is_err() {
            // It has stopped.
            future::pending::<()>().await;
        }
        if let Ok(count @ 1..) = answered.await {
            return count;
        }
    }
}

/// Starts a worker whose service `factory` makes on its thread. `failed` is called if it ends
/// before the server stops.
///
/// # Errors
/// The system has no thread left.
pub(super) fn start<F>(
    factory: impl FnOnce() -> (F, WorkerConnections) + Send + 'static,
    parts: WorkerParts,
    failed: impl FnOnce(String) + Send + 'static,
) -> io::Result<WorkerHandle>
where
    F: ServiceFactory<TcpStream, Config = ()>,
    F::Service: 'static,
{
    let (sender, receiver) = mpsc::channel(BUSY_CONNECTIONS_MAX);
    let (questions, asked) = mpsc::channel(1);
    let queued = sender.downgrade();
    let load = parts.load.clone();
    let incoming = Incoming {
        connections: receiver,
        taken: Vec::new(),
        load: load.clone(),
        loads: parts.loads.clone(),
        took: Arc::clone(&parts.took),
    };
    let niceness = parts.niceness;
    Arbiter::try_with_tokio_rt(move || runtime(niceness))?.spawn_fn(move || {
        thread_priority::be_prompt();
        let unexpected = EndsUnexpectedly::new("a worker", failed);
        rt::spawn(async move {
            let (factory, connections) = factory();
            match factory.new_service(()).await {
                Ok(service) => {
                    let probe = Probe(Rc::clone(&connections.work_wait));
                    let requests_begun = Rc::clone(&connections.requests_begun);
                    let open = Rc::new(Open::new(parts.slots, requests_begun));
                    let answerer = Answerer {
                        load: parts.load.clone(),
                        open: Rc::clone(&open),
                        probe: probe.clone(),
                        queued,
                        has_promised: false,
                    };
                    rt::spawn(answerer.run(asked));
                    serve(service, incoming, open, parts, (probe, connections)).await;
                    unexpected.allow();
                }
                Err(_) => drop(unexpected),
            }
            Arbiter::current().stop();
        });
    });
    Ok(WorkerHandle {
        connections: sender,
        load,
        questions,
    })
}

/// The runtime of a worker. Its other threads do what would block it, such as compressing replies.
fn runtime(niceness: i32) -> io::Result<Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(move || thread_priority::lower("blocking", niceness))
        .build()
}

/// Serves connections until the server stops, and then until they end or the grace period does.
async fn serve<S>(
    service: S,
    mut incoming: Incoming,
    open: Rc<Open>,
    parts: WorkerParts,
    (probe, connections): (Probe, WorkerConnections),
) where
    S: Service<TcpStream> + 'static,
{
    let WorkerParts {
        mut stopping,
        ended: _ended,
        ..
    } = parts;
    let mut intake = Intake::new(Rc::clone(&connections.newcomers), Instant::now());
    let begin = |stream: StdStream| {
        // The system has no memory for its events: nothing can be sent over it.
        let Ok(stream) = TcpStream::from_std(stream) else {
            return;
        };
        let answering = service.call(stream);
        let guard = open.add();
        rt::spawn(async move {
            let _ = answering.await;
            drop(guard);
        });
    };
    let grace = loop {
        let taken = tokio::select! {
            biased;
            grace = stopping.wait() => break grace,
            taken = incoming.next(&open, &mut intake, &probe) => taken,
        };
        // The acceptor is gone, and the word that the server stops is on its way.
        let Some(taken) = taken else {
            break stopping.wait().await;
        };
        taken.into_iter().for_each(&begin);
    };
    let ends = Instant::now() + grace;
    // The clients of these believe that they are connected. They get an answer to one request.
    let new_connections = async {
        incoming.taken.drain(..).for_each(&begin);
        while let Some(stream) = incoming.connections.recv().await {
            begin(stream);
        }
        // So that each is counted, which its first poll does.
        task::yield_now().await;
        connections.new_connections.none_left().await;
    };
    let _ = time::timeout(FIRST_REQUEST_GRACE.min(grace / 2), new_connections).await;
    drop(incoming);
    connections.ending.send_replace(true);
    let _ = time::timeout_at(ends.into(), open.fewer_than(1)).await;
}

impl Answerer {
    /// Tells the acceptor how many connections the worker would take, whenever it asks.
    async fn run(mut self, mut asked: mpsc::Receiver<oneshot::Sender<usize>>) {
        while let Some(answer) = asked.recv().await {
            let count = self.count().await;
            if count > 0 {
                self.load.set_calm();
            }
            let _ = answer.send(count);
        }
    }

    /// Any number if the worker keeps up. However busy it is, it takes those that it lacks, and no
    /// more of them.
    async fn count(&mut self) -> usize {
        // One whose clients leave after each request always lacks some. So before it promises to
        // take them for a second time, it finds out whether it keeps up.
        let may_promise = !self.has_promised && self.lacking() > 0;
        if !may_promise && self.probe.keeps_up().await {
            self.has_promised = false;
            self.open.promise(0);
            return usize::MAX;
        }
        let lacking = self.lacking();
        self.has_promised = lacking > 0;
        if lacking > 0 {
            let waiting = self.open.taken.get() + self.queued();
            self.open.promise(waiting + lacking);
        }
        lacking
    }

    /// How many connections the worker lacks besides those that wait for it and those that it has
    /// just taken.
    fn lacking(&self) -> usize {
        // If other work waits, more requests would make it wait for longer: what other threads do
        // for a request is not in its cost.
        let needed = match (self.probe.0)() > TURNS_TIME_MAX {
            true => BUSY_CONNECTIONS_MIN,
            false => self.open.busy.needed(),
        };
        self.open.lacking(self.queued(), needed)
    }

    fn queued(&self) -> usize {
        let queue = self.queued.upgrade();
        queue.map_or(0, |queue| queue.max_capacity() - queue.capacity())
    }
}

impl Probe {
    /// How long a request waits now: as many turns of the event loop as a cheap one takes, or as
    /// long as other work does if that is longer.
    async fn wait(&self) -> Duration {
        let began = Instant::now();
        for _ in 0..TURNS_OF_REQUEST {
            // Behind all tasks that are ready, and those that new events make ready.
            task::yield_now().await;
        }
        began.elapsed().max((self.0)())
    }

    /// Whether no request waits for too long, for [`WATCHED_TIME`].
    async fn keeps_up(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < WATCHED_TIME {
            let step = Instant::now();
            time::sleep(WATCHED_EVERY).await;
            let late = step.elapsed().saturating_sub(WATCHED_EVERY);
            if late + self.wait().await > TURNS_TIME_MAX {
                return false;
            }
        }
        true
    }
}

impl Incoming {
    /// The connections to take now, at least one; `None` if the acceptor is gone.
    async fn next(
        &mut self,
        open: &Open,
        intake: &mut Intake,
        probe: &Probe,
    ) -> Option<Vec<StdStream>> {
        self.receive(open).await?;
        if open.count.get() >= open.slots {
            self.load.set_no_slot();
            open.fewer_than(open.slots).await;
        }
        let (most, lacked) = loop {
            let began = Instant::now();
            let wait = probe.wait().await;
            let now = Instant::now();
            let lacked = open.missing();
            let most = intake.after(wait, now).max(lacked);
            if most > 0 {
                break (most.min(open.slots - open.count.get()), lacked);
            }
            if wait <= TURNS_TIME_MAX {
                // Those who have just come show what they ask for first.
                self.make_room(intake, open);
                time::sleep(WATCHED_EVERY).await;
                continue;
            }
            self.load.set_overloaded(began, now);
            self.took.notify_one();
            if self.loads.overloaded_for(now) >= Some(OVERLOAD_PATIENCE) {
                // Those who come later are refused, and these have waited for long enough.
                self.taken.drain(..).for_each(refuse);
                open.taken.set(0);
                while let Ok(stream) = self.connections.try_recv() {
                    refuse(stream);
                }
                self.make_room(intake, open);
                self.receive(open).await?;
            } else if self.load.overloaded_for(now) >= OVERLOAD_PATIENCE {
                // Others keep up, and nobody refuses those who wait here.
                break (1, 0);
            } else {
                // Turns may be short while other work waits.
                time::sleep(WATCHED_EVERY).await;
            }
        };
        while self.taken.len() < most
            && let Ok(stream) = self.connections.try_recv()
        {
            self.taken.push(stream);
        }
        intake.took(self.taken.len(), lacked);
        self.make_room(intake, open);
        open.taken.set(0);
        Some(mem::take(&mut self.taken))
    }

    /// Takes the next connection; `None` if the acceptor is gone.
    async fn receive(&mut self, open: &Open) -> Option<()> {
        self.taken.push(self.connections.recv().await?);
        open.taken.set(self.taken.len());
        Some(())
    }

    /// Lets the acceptor give as many connections as the worker would take, one at least: that one
    /// finds out what hinders it.
    fn make_room(&self, intake: &Intake, open: &Open) {
        let most = intake.next().max(open.missing());
        let free = open
            .slots
            .saturating_sub(open.count.get() + self.taken.len());
        self.load.set_room(most.min(free).max(1));
        self.took.notify_one();
    }
}

/// Refuses a connection as the kernel does: with a reset.
pub(super) fn refuse(stream: StdStream) {
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

impl Open {
    fn new(slots: usize, requests_begun: RequestsBegun) -> Self {
        Self {
            count: Cell::new(0),
            taken: Cell::new(0),
            slots,
            one_ended: Notify::new(),
            busy: BusyConnections::new(requests_begun),
            promised: Cell::new((0, Instant::now())),
        }
    }

    fn add(self: &Rc<Self>) -> OpenGuard {
        self.count.set(self.count.get() + 1);
        self.promise(self.promised().saturating_sub(1));
        OpenGuard(Rc::clone(self))
    }

    /// How many connections to take however busy the worker is, at a time.
    fn missing(&self) -> usize {
        let missing = BUSY_CONNECTIONS_MIN.saturating_sub(self.count.get());
        missing.min(INTAKE_MAX).max(self.promised())
    }

    fn promised(&self) -> usize {
        let (promised, until) = self.promised.get();
        if Instant::now() < until { promised } else { 0 }
    }

    /// Promises to take so many connections if each comes within [`OVERLOAD_PATIENCE`] after the
    /// one before.
    fn promise(&self, count: usize) {
        self.promised
            .set((count, Instant::now() + OVERLOAD_PATIENCE));
    }

    /// How many of the needed connections a worker lacks for which so many wait; 0 if these are
    /// few, because to let them in costs nearly as much as to let in many.
    fn lacking(&self, queued: usize, needed: usize) -> usize {
        let count = self.count.get() + self.taken.get() + queued;
        let needed = needed.min(self.slots);
        match 4 * count < 3 * needed {
            true => needed - count,
            false => 0,
        }
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
