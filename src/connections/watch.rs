//! Cuts connections whose clients are too slow, and strangers whose slots others need.
//!
//! actix limits only the time for the headers of a connection's first request and the pause between
//! two requests. The watch limits the rest: the time for the headers of later requests, and for the
//! client to read a reply; and when the slots run out, how long strangers may stay.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::VecDeque,
    fmt,
    net::IpAddr,
    os::fd::AsRawFd as _,
    rc::{Rc, Weak},
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::rt::net::TcpStream;
use nearhead_actors::admission::{ReplyCharge, ReplyTurns, RequestWaits};
use socket2::SockRef;

use super::{
    clock::{Tick, every_second, every_turn},
    connection::{Connection, ConnectionHandle, Phase},
    evictions::Evictions,
    held_reply::HeldReply,
    liveness::{Liveness, WorkerLiveness},
    new_connections::NewConnections,
    newcomers::Newcomers,
    owners::Owners,
    slot::{SharedSlots, Slot},
    slots::SlotLimits,
};
use crate::{
    limits::{CUT_MAX, UNSENT_BYTES, WRITE_STALL_TIMEOUT},
    metrics::{ListenerKind, Metrics},
};

/// Watches the connections of one worker.
#[derive(Debug)]
pub(crate) struct Watch {
    now: Cell<Tick>,
    /// Requests that have begun since the start.
    requests_begun: Cell<u64>,
    /// Those that are watched, without those of `to_cut`.
    connections: RefCell<Vec<Weak<Connection>>>,
    /// Those whose clients are too slow. They are cut in the next turns of the event loop.
    to_cut: RefCell<VecDeque<Weak<Connection>>>,
    /// Longest time from the end of one request until the headers of the next have arrived.
    idle_max: Tick,
    slots: Rc<SharedSlots<Weak<Connection>>>,
    evictions: Rc<Evictions>,
    reply_turns: ReplyTurns,
    /// Of small requests; none before the worker has them.
    request_waits: OnceCell<RequestWaits>,
    shared: SharedWatch,
    liveness: Arc<WorkerLiveness>,
    new_connections: Rc<NewConnections>,
    newcomers: Rc<Newcomers>,
    metrics: Metrics,
}

/// Tells how long a query that comes then waits for the pool.
#[derive(Clone)]
pub(crate) struct PoolWait(Arc<dyn Fn(Instant) -> Duration + Send + Sync>);

/// What the watches of a listener's workers share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedWatch {
    owners: Arc<Owners>,
    /// All workers have the same pool.
    pool_wait: PoolWait,
    liveness: Liveness,
}

/// What a watch allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchLimits {
    /// Longest time from the end of one request until the headers of the next have arrived.
    pub(crate) idle_max: Duration,
    /// The slots for connections.
    pub(crate) slots: SlotLimits,
}

/// Longest time that a client may take for a part of a reply.
const WRITING_MAX: Tick = WRITE_STALL_TIMEOUT.as_secs() as Tick;

/// A connection whose request is being answered. Dropping it ends the request: the connection is
/// idle again.
#[derive(Debug)]
pub(crate) struct Answering {
    watch: Rc<Watch>,
    connection: Rc<Connection>,
}

impl PoolWait {
    pub(crate) fn new(wait: impl Fn(Instant) -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait))
    }
}

impl Default for PoolWait {
    /// Nothing waits.
    fn default() -> Self {
        Self::new(|_| Duration::ZERO)
    }
}

impl fmt::Debug for PoolWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PoolWait").finish_non_exhaustive()
    }
}

impl SharedWatch {
    /// For workers whose liveness is watched.
    pub(crate) fn with_liveness(liveness: &Liveness) -> Self {
        Self {
            liveness: liveness.clone(),
            ..Self::default()
        }
    }

    /// The same, for workers whose queries run on this pool.
    pub(crate) fn with_pool(self, pool_wait: PoolWait) -> Self {
        Self { pool_wait, ..self }
    }
}

impl Watch {
    /// Starts a watch on the current thread. It runs until the last `Rc` is dropped.
    pub(crate) fn start(
        limits: WatchLimits,
        listener: ListenerKind,
        shared: SharedWatch,
        metrics: &Metrics,
    ) -> Rc<Self> {
        let evictions = Evictions::start();
        let this = Rc::new(Self::new(limits, listener, shared, metrics, evictions));
        let weak = Rc::downgrade(&this);
        every_second(Weak::clone(&weak), move |watch| {
            let is_cutting = watch.has_more_to_cut();
            watch.tick();
            if !is_cutting && watch.has_more_to_cut() {
                actix_web::rt::spawn(Self::cut_rest(Weak::clone(&weak)));
            }
        });
        this
    }

    fn new(
        limits: WatchLimits,
        listener: ListenerKind,
        shared: SharedWatch,
        metrics: &Metrics,
        evictions: Rc<Evictions>,
    ) -> Self {
        let owners = Arc::clone(&shared.owners);
        Self {
            now: Cell::new(0),
            requests_begun: Cell::new(0),
            connections: RefCell::default(),
            to_cut: RefCell::default(),
            idle_max: Tick::try_from(limits.idle_max.as_secs()).unwrap_or(Tick::MAX),
            slots: SharedSlots::new(limits.slots, owners, metrics.of_listener(listener)),
            evictions,
            reply_turns: ReplyTurns::default(),
            request_waits: OnceCell::new(),
            liveness: shared.liveness.add(),
            shared,
            new_connections: Rc::default(),
            newcomers: Rc::default(),
            metrics: metrics.clone(),
        }
    }

    /// The turns of the large replies of its connections.
    pub(crate) const fn reply_turns(&self) -> &ReplyTurns {
        &self.reply_turns
    }

    /// From now on, the waits of small requests are among those that show an overload.
    pub(crate) fn watch_requests(&self, waits: RequestWaits) {
        // There is one queue of them.
        let _ = self.request_waits.set(waits);
    }

    /// Whether all its connections on which a key was accepted are one tenant's.
    pub(crate) fn has_one_owner(&self) -> bool {
        self.slots.have_one_owner()
    }

    /// How long large replies of this worker wait for their first turn, light queries and calls of
    /// contracts for the pool, or small requests for their turn: the longest of these.
    ///
    /// Tenants share the turns, so a flood of one delays that one alone. What has connections of
    /// several waits unseen, but for small requests: [`RequestWaits::waited`] says which. A worker
    /// makes its own replies, and all have the pool.
    pub(crate) fn work_wait(&self) -> Duration {
        let now = Instant::now();
        let replies = self
            .has_one_owner()
            .then(|| self.reply_turns.wait_of_next(now));
        let requests = self.request_waits.get().map(|waits| waits.waited(now));
        let SharedWatch {
            owners, pool_wait, ..
        } = &self.shared;
        let queries = owners.are_one().then(|| (pool_wait.0)(now));
        let longest = replies.max(requests).max(queries);
        longest.unwrap_or_default()
    }

    /// Prepares the socket of a new connection, and gives it a slot. If too few are left, others
    /// are evicted.
    ///
    /// `network` is what its client's connections are counted by; `None` if they are not.
    pub(crate) fn connect(&self, stream: &TcpStream, network: Option<IpAddr>) -> Rc<Connection> {
        let socket = SockRef::from(stream);
        // The kernel ends a connection whose client takes no byte for this long. If this fails, the
        // bounds above the socket still apply.
        let _ = socket.set_tcp_user_timeout(Some(2 * WRITE_STALL_TIMEOUT));
        // If this fails, a slow client may be mistaken for a stalled one.
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        let now = self.now.get();
        evict(&self.slots.make_room(network, now, idle_since));
        let slot = Slot::of(&self.slots);
        let evictions = Rc::clone(&self.evictions);
        let (socket, new) = (
            stream.as_raw_fd(),
            (self.new_connections.add(), self.newcomers.add()),
        );
        let connection = Rc::new(Connection::new(socket, slot, new, evictions));
        let stranger = Rc::downgrade(&connection);
        connection.slot.take(stranger, network, now);
        connection
    }

    /// Counts a stranger's connection by this network from now on, as a proxy has named its client.
    /// If that has too many, others of it are evicted. One that was evicted itself stays so.
    pub(crate) fn count_by(&self, connection: &Rc<Connection>, network: Option<IpAddr>) {
        let now = self.now.get();
        if connection.slot.leave() {
            evict(&self.slots.make_room(network, now, idle_since));
            let stranger = Rc::downgrade(connection);
            connection.slot.take(stranger, network, now);
        }
    }

    /// Requests that have begun since the start; those of sessions do not count.
    pub(crate) fn requests_begun(&self) -> u64 {
        self.requests_begun.get()
    }

    /// Records that a request began. A connection is watched from its first request on.
    pub(crate) fn answering(self: &Rc<Self>, connection: &Rc<Connection>) -> Answering {
        if connection.new_connection.take().is_some() {
            self.connections
                .borrow_mut()
                .push(Rc::downgrade(connection));
        }
        connection.release_if_sent();
        self.requests_begun.set(self.requests_begun() + 1);
        self.set_phase(connection, Phase::Answering);
        Answering {
            watch: Rc::clone(self),
            connection: Rc::clone(connection),
        }
    }

    fn set_phase(&self, connection: &Connection, phase: Phase) {
        connection.phase.set(phase);
        connection.since.set(self.now.get());
        connection.newcomer.set_waits(phase == Phase::Answering);
    }

    /// The connections on which no request has come yet.
    pub(crate) const fn new_connections(&self) -> &Rc<NewConnections> {
        &self.new_connections
    }

    /// The clients that have come lately, and wait for an answer.
    pub(crate) const fn newcomers(&self) -> &Rc<Newcomers> {
        &self.newcomers
    }

    /// Called once a second: finds the connections that are overdue, and cuts the first ones.
    /// Forgets those that are gone.
    fn tick(&self) {
        self.liveness.tick();
        // Turns are long on a busy machine. Those that are left of the last second wait no longer.
        self.cut(usize::MAX);
        let now = self.now.get().wrapping_add(1);
        self.now.set(now);
        evict(&self.slots.evict_overdue(now, idle_since));
        let mut to_cut = self.to_cut.borrow_mut();
        self.connections.borrow_mut().retain(|weak| {
            let Some(connection) = weak.upgrade() else {
                return false;
            };
            let is_overdue = self.is_overdue(&connection);
            if is_overdue {
                to_cut.push_back(Weak::clone(weak));
            }
            !is_overdue
        });
        drop(to_cut);
        self.cut(CUT_MAX);
    }

    fn is_overdue(&self, connection: &Connection) -> bool {
        // The second in which the phase began does not count.
        let passed = self.now.get().wrapping_sub(connection.since.get());
        let passed = passed.saturating_sub(1);
        match connection.phase.get() {
            Phase::Idle if connection.release_if_sent() => passed >= WRITING_MAX,
            Phase::Idle => passed >= self.idle_max,
            Phase::Writing => passed >= WRITING_MAX,
            // The socket reports no event for a close that came with the request.
            Phase::Answering => passed >= 1 && connection.is_closed(),
            Phase::Session => false,
        }
    }

    fn has_more_to_cut(&self) -> bool {
        !self.to_cut.borrow().is_empty()
    }

    /// Cuts the first connections of those to cut, so many at most.
    fn cut(&self, most: usize) {
        let mut to_cut = self.to_cut.borrow_mut();
        let next = to_cut.len().min(most);
        for weak in to_cut.drain(..next) {
            let Some(connection) = weak.upgrade() else {
                continue;
            };
            if self.is_overdue(&connection) {
                self.metrics.slow_clients.inc();
                connection.cut_overdue();
            } else {
                // Meanwhile, its client has made progress.
                self.connections.borrow_mut().push(weak);
            }
        }
    }

    /// Cuts the rest, and lets all other work of the thread have its turns in between: to end a
    /// thousand connections takes long.
    async fn cut_rest(watch: Weak<Self>) {
        every_turn(watch, |watch| {
            let has_more = watch.has_more_to_cut();
            watch.cut(CUT_MAX);
            has_more
        })
        .await;
    }
}

fn idle_since(connection: &Weak<Connection>) -> Option<Tick> {
    connection.upgrade()?.idle_since()
}

/// Closes connections that have lost their slots.
fn evict(connections: &[Weak<Connection>]) {
    for connection in connections.iter().filter_map(Weak::upgrade) {
        connection.slot.lose();
        connection.cut();
    }
}

impl Answering {
    /// The connection.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Records that the client took a part of the reply; the time for the next one begins.
    pub(crate) fn took(&self) {
        // The reply before this one has been sent.
        self.connection.release_if_sent();
        self.watch.set_phase(&self.connection, Phase::Writing);
    }

    /// A reply that holds memory. Its connection is cut when others need that.
    pub(crate) fn holds(&self, charge: ReplyCharge) -> HeldReply {
        let connection = Rc::downgrade(&self.connection);
        let passed_on = Rc::new(Cell::new(false));
        let is_passed_on = Rc::clone(&passed_on);
        let end = move || {
            if let Some(connection) = connection.upgrade() {
                connection.evict_reply(is_passed_on.get());
            }
        };
        let eviction = self.watch.evictions.register(end);
        HeldReply::new(charge, eviction).recorded_by(passed_on)
    }

    /// Keeps a reply whose last bytes were passed on, until the kernel has them.
    pub(crate) fn keep_until_sent(&self, reply: HeldReply) {
        self.connection.keep_until_sent(reply);
    }

    /// Hands the connection over to a session, which has its own clock.
    pub(crate) fn becomes_session(&self) -> ConnectionHandle {
        self.watch.set_phase(&self.connection, Phase::Session);
        self.connection.slot.keep();
        ConnectionHandle::new(&self.connection)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.connection.phase.get() != Phase::Session {
            self.watch.set_phase(&self.connection, Phase::Idle);
        }
    }
}

#[cfg(test)]
mod tests;
