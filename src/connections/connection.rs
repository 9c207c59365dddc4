//! What a worker knows of its connections: whether a client still waits, and which ones are too
//! slow to be kept.
//!
//! actix bounds the head of a connection's first request and the pause between two requests, and
//! nothing else. Here the rest is bounded: the heads of later requests, and clients that do not
//! read what they asked for.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    mem::MaybeUninit,
    net::Shutdown,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::Poll,
    time::Duration,
};

use actix_web::{dev::Extensions, rt::net::TcpStream};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use socket2::SockRef;
use tokio::time::{Sleep, sleep};

use crate::{
    connections::{Tick, every_second},
    limits::{HALF_CLOSED_GRACE, UNSENT_BYTES, WRITE_STALL_TIMEOUT},
    metrics::Metrics,
};

/// The socket that a request came by, and what is going on there; data of the connection.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: RawFd,
    doing: Cell<Doing>,
    /// When that began, or last went on.
    since: Cell<Tick>,
    is_watched: Cell<bool>,
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The next request has not arrived yet, or not whole.
    Asking,
    /// A request is read or answered, which has bounds of its own.
    Answering,
    /// The client takes a reply that does not fit into the connection's buffer.
    Taking,
    /// A WebSocket session, which is looked after elsewhere.
    Session,
}

/// Remembers a connection's socket; for `HttpServer::on_connect`, which calls it once a connection.
pub(crate) fn on_connect(io: &dyn Any, data: &mut Extensions) {
    if let Some(stream) = io.downcast_ref::<TcpStream>() {
        let socket = SockRef::from(stream);
        // The kernel ends a connection whose client takes not a byte for so long, whatever it was
        // sent. An error: those who look after it have to do.
        let _ = socket.set_tcp_user_timeout(Some(2 * WRITE_STALL_TIMEOUT));
        // An error: a slow client is taken for a stalled one sooner.
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        data.insert(Rc::new(Connection::of(stream.as_raw_fd())));
    }
}

impl Connection {
    pub(crate) const fn of(socket: RawFd) -> Self {
        Self {
            socket,
            doing: Cell::new(Doing::Asking),
            since: Cell::new(0),
            is_watched: Cell::new(false),
        }
    }

    /// Whether the client has closed its side and everything it sent was read.
    fn is_closed(&self) -> bool {
        self.with_socket(|socket| matches!(socket.peek(&mut [MaybeUninit::uninit()]), Ok(0)))
    }

    /// What of `events` the socket is ready for now.
    fn is_ready_for(&self, events: PollFlags) -> Result<bool, Errno> {
        const NOW: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.with_socket(|socket| {
            let mut sockets = [PollFd::new(&*socket, events)];
            poll(&mut sockets, Some(&NOW))?;
            Ok(sockets[0].revents().intersects(events))
        })
    }

    /// Ends the connection: whoever reads it or writes to it finds that out.
    fn cut(&self) {
        // An error: it has ended already.
        let _ = self.with_socket(|socket| socket.shutdown(Shutdown::Both));
    }

    fn with_socket<T>(&self, work: impl FnOnce(SockRef<'_>) -> T) -> T {
        #[expect(
            unsafe_code,
            reason = "actix-web lends the stream only while it is set up"
        )]
        // SAFETY: a `Connection` is held by the data of its connection, by its requests and by
        // their replies, all of which the connection drops before its socket; the watch holds it
        // weakly, on the same thread.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        work(SockRef::from(&socket))
    }
}

/// Watches the connections of one worker.
#[derive(Debug)]
pub(crate) struct Watch {
    now: Cell<Tick>,
    connections: RefCell<Vec<Weak<Connection>>>,
    /// Longest that a whole request may take from the end of the one before.
    asking_max: Tick,
    metrics: Metrics,
}

/// Longest that a client may take for a part of a reply.
const TAKING_MAX: Tick = WRITE_STALL_TIMEOUT.as_secs() as Tick;

/// A connection whose request is being answered; afterwards the next one may come.
#[derive(Debug)]
pub(crate) struct Answering {
    watch: Rc<Watch>,
    connection: Rc<Connection>,
}

impl Watch {
    /// Starts to watch on the present thread, for as long as somebody holds the watch.
    pub(crate) fn start(asking_max: Duration, metrics: Metrics) -> Rc<Self> {
        let this = Rc::new(Self::new(asking_max, metrics));
        let watch = Rc::downgrade(&this);
        every_second(watch, Self::look);
        this
    }

    fn new(asking_max: Duration, metrics: Metrics) -> Self {
        Self {
            now: Cell::new(0),
            connections: RefCell::default(),
            asking_max: Tick::try_from(asking_max.as_secs()).unwrap_or(Tick::MAX),
            metrics,
        }
    }

    /// Notes that a request began, and watches its connection from the first one on.
    pub(crate) fn answering(self: &Rc<Self>, connection: &Rc<Connection>) -> Answering {
        if !connection.is_watched.replace(true) {
            self.connections
                .borrow_mut()
                .push(Rc::downgrade(connection));
        }
        self.note(connection, Doing::Answering);
        Answering {
            watch: Rc::clone(self),
            connection: Rc::clone(connection),
        }
    }

    fn note(&self, connection: &Connection, doing: Doing) {
        connection.doing.set(doing);
        connection.since.set(self.now.get());
    }

    /// One tick later: cuts what is overdue and forgets what is gone.
    fn look(&self) {
        let now = self.now.get().wrapping_add(1);
        self.now.set(now);
        self.connections.borrow_mut().retain(|connection| {
            let Some(connection) = connection.upgrade() else {
                return false;
            };
            // Whole ticks, the one that it began in left out.
            let passed = now.wrapping_sub(connection.since.get()).saturating_sub(1);
            let is_overdue = match connection.doing.get() {
                Doing::Asking => passed >= self.asking_max,
                Doing::Taking => passed >= TAKING_MAX,
                // A client that closed with its request is not told of by the socket again.
                Doing::Answering => passed >= 1 && connection.is_closed(),
                Doing::Session => false,
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
    /// Notes that the client took a part of the reply.
    pub(crate) fn took(&self) {
        self.watch.note(&self.connection, Doing::Taking);
    }

    /// Notes that the connection is a session from now on, which looks after itself.
    pub(crate) fn becomes_session(&self) -> ConnectionHandle {
        self.watch.note(&self.connection, Doing::Session);
        ConnectionHandle(Rc::downgrade(&self.connection))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.connection.doing.get() != Doing::Session {
            self.watch.note(&self.connection, Doing::Asking);
        }
    }
}

/// A session's connection, as far as the session can end it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionHandle(Weak<Connection>);

impl ConnectionHandle {
    /// The line of a connection that nobody watches.
    #[cfg(test)]
    pub(crate) fn of(connection: &Rc<Connection>) -> Self {
        Self(Rc::downgrade(connection))
    }

    /// Whether the client has closed its side, whatever it sent before is read or not.
    pub(crate) fn is_gone(&self) -> bool {
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        self.is_ready_for(closed).unwrap_or(false)
    }

    /// Whether the kernel takes more to send.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_ready_for(PollFlags::OUT).unwrap_or(true)
    }

    /// `None` if it cannot be told.
    fn is_ready_for(&self, events: PollFlags) -> Option<bool> {
        self.0.upgrade()?.is_ready_for(events).ok()
    }

    /// Ends it at once, whatever is still to be sent.
    pub(crate) fn cut(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.cut();
        }
    }

    /// Ends it when what the kernel was given is sent: the client need not wait for the time that
    /// actix keeps reading.
    pub(crate) fn finish(&self) {
        if let Some(connection) = self.0.upgrade() {
            // An error: it has ended already.
            let _ = connection.with_socket(|socket| socket.shutdown(Shutdown::Write));
        }
    }
}

/// Waits for `answer`; `None` if the client went away meanwhile.
///
/// TCP cannot tell a client that is gone from one that has said everything and still reads, so one
/// whose side is closed has [`HALF_CLOSED_GRACE`] for its answer: enough for what is cheap, while
/// what is long is not worked out for nobody.
pub(crate) async fn unless_gone<T>(
    answer: impl Future<Output = T>,
    connection: Option<&Connection>,
) -> Option<T> {
    let mut answer = pin!(answer);
    let mut is_first = true;
    let mut grace: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        // The connection polls its request whenever something happens on the socket, so it is
        // looked at then: not for the request itself, which most often is answered by the next
        // poll.
        let looks = !std::mem::take(&mut is_first) && grace.is_none();
        if looks && connection.is_some_and(Connection::is_closed) {
            grace = Some(Box::pin(sleep(HALF_CLOSED_GRACE)));
        }
        match &mut grace {
            Some(grace) => grace.as_mut().poll(cx).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::{
        future::{pending, ready},
        io::{ErrorKind, Read as _, Write as _},
        net::{Shutdown, TcpListener, TcpStream},
        task::{Context, Waker},
        time::{Duration, Instant},
    };

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        (client, server)
    }

    /// Polls until the client is found gone, or `patience` is over.
    async fn finds_gone(server: &TcpStream, patience: Duration) -> bool {
        let connection = Connection::of(server.as_raw_fd());
        let mut waiting = pin!(unless_gone(pending::<()>(), Some(&connection)));
        let began = Instant::now();
        while began.elapsed() < patience {
            if let Poll::Ready(answer) = waiting
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                return answer.is_none();
            }
            tokio::task::yield_now().await;
        }
        false
    }

    #[actix::test]
    async fn a_client_that_closes_is_gone_after_the_grace() {
        for close in [true, false] {
            let (client, server) = connection();
            let client = if close {
                drop(client);
                None
            } else {
                client.shutdown(Shutdown::Write).map(|()| client).ok()
            };
            let began = Instant::now();
            assert!(finds_gone(&server, Duration::from_secs(10)).await);
            assert!(began.elapsed() >= HALF_CLOSED_GRACE);
            drop(client);
        }
    }

    #[actix::test]
    async fn a_client_that_waits_or_sends_more_is_there() {
        let (mut client, server) = connection();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
        client.write_all(b"more").unwrap();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
    }

    #[actix::test]
    async fn an_answer_that_is_there_is_given_to_whoever_it_is() {
        let (client, server) = connection();
        drop(client);
        let peer = Some(&Connection::of(server.as_raw_fd()));
        assert_eq!(unless_gone(ready(7), peer).await, Some(7));
        assert_eq!(unless_gone(ready(7), None).await, Some(7));
    }

    /// Looks so many times; whether the client found its connection cut at the last one, and not
    /// before.
    fn is_cut_after(ticks: Tick, watch: &Watch, client: &mut TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        let mut is_open =
            || matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        for _ in 1..ticks {
            watch.look();
            assert!(is_open(), "cut too early");
        }
        watch.look();
        !is_open()
    }

    fn watch(asking_max: Tick) -> Rc<Watch> {
        let metrics = Metrics::new([]).unwrap();
        Rc::new(Watch::new(Duration::from_secs(asking_max.into()), metrics))
    }

    #[test]
    fn who_is_too_slow_is_cut() {
        let (mut client, server) = connection();
        let connection = Rc::new(Connection::of(server.as_raw_fd()));
        let watch = watch(3);
        let answering = watch.answering(&connection);
        (0..100).for_each(|_| watch.look());
        // Every part that is taken is a new beginning; the tick that it falls into is not counted.
        for _ in 0..3 {
            answering.took();
            (0..TAKING_MAX).for_each(|_| watch.look());
        }
        drop(answering);
        assert!(is_cut_after(3 + 1, &watch, &mut client), "asks too slowly");

        let (mut client, server) = self::connection();
        let connection = Rc::new(Connection::of(server.as_raw_fd()));
        watch.answering(&connection).took();
        let answering = watch.answering(&connection);
        answering.took();
        assert!(
            is_cut_after(TAKING_MAX + 1, &watch, &mut client),
            "reads too slowly"
        );
        assert_eq!(watch.metrics.slow_clients.get(), 2);
    }

    #[test]
    fn who_left_is_cut_while_it_is_answered_and_who_is_gone_is_forgotten() {
        let (client, server) = connection();
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
        watch.look();
        assert!(watch.connections.borrow().is_empty());
    }
}
