//! Cuts connections whose clients are too slow.
//!
//! actix limits only the time for the headers of a connection's first request and the pause between
//! two requests. The watch limits the rest: the time for the headers of later requests, and for the
//! client to read a reply.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    time::Duration,
};

use super::{
    clock::{Tick, every_second},
    connection::{Connection, ConnectionHandle, Phase},
};
use crate::{limits::WRITE_STALL_TIMEOUT, metrics::Metrics};

/// Watches the connections of one worker.
#[derive(Debug)]
pub(crate) struct Watch {
    now: Cell<Tick>,
    connections: RefCell<Vec<Weak<Connection>>>,
    /// Longest time from the end of one request until the headers of the next have arrived.
    idle_max: Tick,
    metrics: Metrics,
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

impl Watch {
    /// Starts a watch on the current thread. It runs until the last `Rc` is dropped.
    pub(crate) fn start(idle_max: Duration, metrics: Metrics) -> Rc<Self> {
        let this = Rc::new(Self::new(idle_max, metrics));
        let watch = Rc::downgrade(&this);
        every_second(watch, Self::tick);
        this
    }

    fn new(idle_max: Duration, metrics: Metrics) -> Self {
        Self {
            now: Cell::new(0),
            connections: RefCell::default(),
            idle_max: Tick::try_from(idle_max.as_secs()).unwrap_or(Tick::MAX),
            metrics,
        }
    }

    /// Records that a request began. A connection is watched from its first request on.
    pub(crate) fn answering(self: &Rc<Self>, connection: &Rc<Connection>) -> Answering {
        if !connection.is_watched.replace(true) {
            self.connections
                .borrow_mut()
                .push(Rc::downgrade(connection));
        }
        self.set_phase(connection, Phase::Answering);
        Answering {
            watch: Rc::clone(self),
            connection: Rc::clone(connection),
        }
    }

    fn set_phase(&self, connection: &Connection, phase: Phase) {
        connection.phase.set(phase);
        connection.since.set(self.now.get());
    }

    /// Called once a second: cuts connections that are overdue, and forgets those that are gone.
    fn tick(&self) {
        let now = self.now.get().wrapping_add(1);
        self.now.set(now);
        self.connections.borrow_mut().retain(|connection| {
            let Some(connection) = connection.upgrade() else {
                return false;
            };
            // The second in which the phase began does not count.
            let passed = now.wrapping_sub(connection.since.get()).saturating_sub(1);
            let is_overdue = match connection.phase.get() {
                Phase::Idle => passed >= self.idle_max,
                Phase::Writing => passed >= WRITING_MAX,
                // The socket reports no event for a close that came with the request.
                Phase::Answering => passed >= 1 && connection.is_closed(),
                Phase::Session => false,
            };
            if is_overdue {
                self.metrics.slow_clients.inc();
                connection.cut();
            }
            !is_overdue
        });
    }
}

impl Answering {
    /// The connection.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Records that the client took a part of the reply; the time for the next one begins.
    pub(crate) fn took(&self) {
        self.watch.set_phase(&self.connection, Phase::Writing);
    }

    /// Hands the connection over to a session, which has its own clock.
    pub(crate) fn becomes_session(&self) -> ConnectionHandle {
        self.watch.set_phase(&self.connection, Phase::Session);
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
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        io::{ErrorKind, Read as _},
        net::{Shutdown, TcpStream},
        os::fd::AsRawFd as _,
    };

    use super::*;
    use crate::connections::socket_pair;

    /// Ticks `ticks` times, and returns whether the last tick, and none before it, cut the
    /// connection.
    fn is_cut_after(ticks: Tick, watch: &Watch, client: &mut TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        let mut is_open =
            || matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        for _ in 1..ticks {
            watch.tick();
            assert!(is_open(), "cut too early");
        }
        watch.tick();
        !is_open()
    }

    fn watch(idle_max: Tick) -> Rc<Watch> {
        let metrics = Metrics::new([]).unwrap();
        Rc::new(Watch::new(Duration::from_secs(idle_max.into()), metrics))
    }

    #[test]
    fn slow_clients_are_cut_off() {
        let (mut client, server) = socket_pair();
        let connection = Rc::new(Connection::of(server.as_raw_fd()));
        let watch = watch(3);
        let answering = watch.answering(&connection);
        (0..100).for_each(|_| watch.tick());
        // Each part that is taken starts the time again; the second in which it was taken does not
        // count.
        for _ in 0..3 {
            answering.took();
            (0..WRITING_MAX).for_each(|_| watch.tick());
        }
        drop(answering);
        assert!(
            is_cut_after(3 + 1, &watch, &mut client),
            "sends its request too slowly"
        );

        let (mut client, server) = socket_pair();
        let connection = Rc::new(Connection::of(server.as_raw_fd()));
        watch.answering(&connection).took();
        let answering = watch.answering(&connection);
        answering.took();
        assert!(
            is_cut_after(WRITING_MAX + 1, &watch, &mut client),
            "reads too slowly"
        );
        assert_eq!(watch.metrics.slow_clients.get(), 2);
    }

    #[test]
    fn a_client_that_left_is_cut_off_and_a_dropped_connection_is_forgotten() {
        let (client, server) = socket_pair();
        let connection = Rc::new(Connection::of(server.as_raw_fd()));
        let watch = watch(3);
        let _answering = watch.answering(&connection);
        client.shutdown(Shutdown::Write).unwrap();
        let mut client = client;
        assert!(is_cut_after(2, &watch, &mut client));
        let other = Rc::new(Connection::of(server.as_raw_fd()));
        drop(watch.answering(&other));
        assert_eq!(watch.connections.borrow().len(), 1);
        drop(other);
        watch.tick();
        assert!(watch.connections.borrow().is_empty());
    }
}
