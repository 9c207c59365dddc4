//! One accepted connection: whether its client is still there, and how to end it.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    mem::MaybeUninit,
    net::Shutdown,
    os::fd::{BorrowedFd, RawFd},
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::Poll,
    time::Duration,
};

use nearhead_tenants::id::TenantId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use socket2::SockRef;
use tokio::time::{Sleep, sleep};

use super::{
    clock::Tick,
    evictions::{Evictable, Eviction, Evictions},
    held_reply::HeldReply,
    new_connections::NewConnection,
    newcomers::Newcomer,
    slot::Slot,
};
use crate::{
    access::LastKey,
    limits::{BUFFERED_BYTES_MAX, HALF_CLOSED_GRACE, TLS_BUFFERED_BYTES_MAX},
};

/// A connection's socket, and its phase as the watch sees it.
///
/// It is stored in the connection's data, where its requests find it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: RawFd,
    pub(super) phase: Cell<Phase>,
    /// When the phase began, or last made progress.
    pub(super) since: Cell<Tick>,
    /// Until its first request comes; then the connection is watched.
    pub(super) new_connection: RefCell<Option<NewConnection>>,
    /// It waits while a request is answered, and before the first one.
    pub(super) newcomer: Newcomer,
    pub(super) slot: Slot<Weak<Self>>,
    evictions: Rc<Evictions>,
    end: Cell<End>,
    uses_tls: Cell<bool>,
    /// Whether the transport has written all that a session passed on.
    has_sent_all: Cell<bool>,
    /// Whether the transport has read the end of what the client sends.
    is_read_to_end: Cell<bool>,
    /// The reply whose last bytes may not be sent yet.
    unsent: RefCell<Option<HeldReply>>,
    /// The key that was presented last.
    pub(crate) last_key: LastKey,
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waiting for the headers of the next request.
    Idle,
    /// Reading or answering a request, which has its own bounds.
    Answering,
    /// Writing a reply that does not fit into the connection's buffer.
    Writing,
    /// Serving a WebSocket session, which has its own clock.
    Session,
}

/// How far the end of the sending side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may be sent.
    NotAsked,
    /// It ends once everything is sent.
    Asked,
    /// Nothing more is sent.
    Over,
}

impl Connection {
    /// A connection that has no slot.
    #[cfg(test)]
    pub(crate) fn of(socket: RawFd) -> Self {
        Self::evicted_by(socket, Rc::default())
    }

    /// The same, which these evictions end.
    #[cfg(test)]
    pub(super) fn evicted_by(socket: RawFd, evictions: Rc<Evictions>) -> Self {
        let new = (
            Rc::<super::NewConnections>::default().add(),
            super::Newcomers::default().add(),
        );
        Self::new(socket, Slot::none(), new, evictions)
    }

    /// A connection with this slot.
    pub(super) fn new(
        socket: RawFd,
        slot: Slot<Weak<Self>>,
        (new_connection, newcomer): (NewConnection, Newcomer),
        evictions: Rc<Evictions>,
    ) -> Self {
        Self {
            socket,
            phase: Cell::new(Phase::Idle),
            since: Cell::new(0),
            new_connection: RefCell::new(Some(new_connection)),
            newcomer,
            slot,
            evictions,
            end: Cell::new(End::NotAsked),
            uses_tls: Cell::default(),
            has_sent_all: Cell::new(true),
            is_read_to_end: Cell::new(false),
            unsent: RefCell::default(),
            last_key: LastKey::default(),
        }
    }

    /// Records that an operator's login or token was accepted on this connection, which is no
    /// stranger's from now on.
    pub(crate) fn accepted(&self) {
        self.slot.accepted(None, self.since.get());
    }

    /// Records that a key of this tenant was accepted on this connection, which is no stranger's
    /// from now on.
    pub(crate) fn accepted_key_of(&self, tenant: TenantId) {
        self.slot.accepted(Some(tenant), self.since.get());
    }

    /// Records that a key was refused on this connection, which is a stranger's from now on.
    pub(crate) fn refused(&self) {
        self.slot.refused(self.since.get());
    }

    /// When it became idle; `None` if a request is in progress, or a reply is not sent yet.
    pub(super) fn idle_since(&self) -> Option<Tick> {
        let is_idle = self.phase.get() == Phase::Idle && self.unsent.borrow().is_none();
        is_idle.then(|| self.since.get())
    }

    /// Keeps a reply whose last bytes were passed on, until the kernel has them.
    pub(super) fn keep_until_sent(&self, reply: HeldReply) {
        reply.was_passed_on();
        *self.unsent.borrow_mut() = Some(reply);
        self.release_if_sent();
    }

    /// Releases the reply whose last bytes were passed on, if the kernel has them. Returns whether
    /// it has not.
    pub(super) fn release_if_sent(&self) -> bool {
        let mut unsent = self.unsent.borrow_mut();
        // The connection writes as soon as it can.
        if unsent.is_some() && self.is_ready_for(PollFlags::OUT).unwrap_or(true) {
            *unsent = None;
        }
        unsent.is_some()
    }

    #[cfg(test)]
    pub(super) fn unsent_reply(&self) -> Option<()> {
        self.unsent.borrow().as_ref().map(|_| ())
    }

    /// Ends a reply whose memory others need: cuts the connection, unless the client has taken the
    /// reply meanwhile.
    pub(super) fn evict_reply(&self, is_passed_on: bool) {
        if !is_passed_on || self.release_if_sent() {
            self.cut();
        }
    }

    /// Records that its transport is TLS, which has buffers of its own.
    pub(crate) fn uses_tls(&self) {
        self.uses_tls.set(true);
    }

    /// Bytes that wait in the buffers of the connection, at most, while its client reads slowly.
    pub(crate) fn buffered_max(&self) -> usize {
        match self.uses_tls.get() {
            false => BUFFERED_BYTES_MAX,
            true => BUFFERED_BYTES_MAX + TLS_BUFFERED_BYTES_MAX,
        }
    }

    /// Records that the transport has read the end of what the client sends. Under TLS, that comes
    /// before the end of the socket.
    pub(crate) fn read_to_end(&self) {
        self.is_read_to_end.set(true);
    }

    /// Records that the transport has written everything that it was given.
    pub(crate) fn sent_all(&self) {
        self.has_sent_all.set(true);
    }

    /// Whether the transport has to end the sending side, once it has written everything.
    pub(crate) fn is_to_end(&self) -> bool {
        self.end.get() == End::Asked
    }

    /// Records that the transport has ended the sending side.
    pub(crate) fn ended(&self) {
        self.end.set(End::Over);
    }

    /// Asks the transport to end the sending side once everything is sent; returns whether it has.
    fn end_when_sent(&self) -> bool {
        if self.end.get() == End::NotAsked {
            self.end.set(End::Asked);
        }
        self.end.get() == End::Over
    }

    /// Whether the client has closed its side and everything it sent was read.
    pub(super) fn is_closed(&self) -> bool {
        let is_end =
            |socket: SockRef<'_>| matches!(socket.peek(&mut [MaybeUninit::uninit()]), Ok(0));
        self.is_read_to_end.get() || self.with_socket(is_end)
    }

    /// Whether the socket is ready for any of `events` now.
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

    /// Ends the connection: the next read and the next write fail.
    pub(super) fn cut(&self) {
        // This fails if the connection has already ended.
        let _ = self.with_socket(|socket| socket.shutdown(Shutdown::Both));
    }

    /// The same for one whose client is overdue.
    ///
    /// A client that does not take what it is sent is reset. Otherwise the kernel would keep those
    /// bytes, and with them the connection, until it gives up trying; and the client would not be
    /// told.
    pub(super) fn cut_overdue(&self) {
        let takes_more = self.is_ready_for(PollFlags::OUT).unwrap_or(true);
        if !takes_more {
            // This fails if the connection has already ended.
            let _ = self.with_socket(|socket| socket.set_linger(Some(Duration::ZERO)));
        }
        self.cut();
    }

    fn with_socket<T>(&self, work: impl FnOnce(SockRef<'_>) -> T) -> T {
        #[expect(
            unsafe_code,
            reason = "actix-web lends the stream only while it is set up"
        )]
        // SAFETY: a `Connection` is held by the transport, which drops it before its socket, by the
        // data of its connection, by its requests and by their replies, all of which the connection
        // drops before the transport; the watch holds it weakly, on the same thread.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        work(SockRef::from(&socket))
    }
}

/// A weak handle to a connection, by which its session ends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionHandle(Weak<Connection>);

impl ConnectionHandle {
    pub(crate) fn new(connection: &Rc<Connection>) -> Self {
        Self(Rc::downgrade(connection))
    }

    /// Whether the client has closed its side, even if bytes that it sent before are unread.
    pub(crate) fn is_gone(&self) -> bool {
        let closed = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let is_read = self.0.upgrade().is_some_and(|it| it.is_read_to_end.get());
        is_read || self.is_ready_for(closed).unwrap_or(false)
    }

    /// As [`Connection::buffered_max`].
    pub(crate) fn buffered_max(&self) -> usize {
        let connection = self.0.upgrade();
        connection.map_or(BUFFERED_BYTES_MAX, |connection| connection.buffered_max())
    }

    /// Records that bytes of a session were passed on to be sent.
    pub(crate) fn passed_on(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.has_sent_all.set(false);
        }
    }

    /// Whether the kernel has all bytes that were passed on.
    pub(crate) fn has_sent_all(&self) -> bool {
        let connection = self.0.upgrade();
        connection.is_none_or(|connection| connection.has_sent_all.get())
    }

    /// Whether the kernel takes more bytes to send.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_ready_for(PollFlags::OUT).unwrap_or(true)
    }

    /// `None` if the connection is gone or the check fails.
    fn is_ready_for(&self, events: PollFlags) -> Option<bool> {
        self.0.upgrade()?.is_ready_for(events).ok()
    }

    /// Registers how something on this connection is ended from another thread; `None` if the
    /// connection is gone.
    pub(crate) fn on_eviction(
        &self,
        end: impl FnOnce() + 'static,
    ) -> Option<(Eviction, Evictable)> {
        Some(self.0.upgrade()?.evictions.register(end))
    }

    /// Ends the connection at once.
    pub(crate) fn cut(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.cut();
        }
    }

    /// Ends the connection at once: its client is overdue.
    pub(crate) fn cut_overdue(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.cut_overdue();
        }
    }

    /// Ends the sending side once everything is sent; returns whether it has ended. Without this,
    /// the client would wait while actix keeps reading.
    pub(crate) fn end_when_sent(&self) -> bool {
        let connection = self.0.upgrade();
        connection.is_none_or(|connection| connection.end_when_sent())
    }
}

/// Waits for `answer`; `None` if the client went away meanwhile.
///
/// TCP does not distinguish a client that is gone from one that closed its side and still reads. So
/// a client that has closed its side still gets an answer within [`HALF_CLOSED_GRACE`]: a cheap
/// answer is ready in that time, and a long one is not computed for a client that is gone.
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
        // The connection polls its request whenever something happens on the socket, so that is
        // when to check it. The first poll comes with the request's own bytes; most requests are
        // answered by the second.
        let is_check_due = !std::mem::take(&mut is_first) && grace.is_none();
        if is_check_due && connection.is_some_and(Connection::is_closed) {
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
        net::{Shutdown, TcpStream},
        os::fd::AsRawFd as _,
        task::{Context, Waker},
        time::Instant,
    };

    use super::*;
    use crate::connections::socket_pair;

    /// Polls for at most `patience`; returns whether the client was found to be gone.
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
            let (client, server) = socket_pair();
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
    async fn a_client_that_waits_or_sends_more_is_not_gone() {
        let (mut client, server) = socket_pair();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
        client.write_all(b"more").unwrap();
        assert!(!finds_gone(&server, 4 * HALF_CLOSED_GRACE).await);
    }

    #[actix::test]
    async fn an_answer_that_is_ready_is_returned_even_if_the_client_is_gone() {
        let (client, server) = socket_pair();
        drop(client);
        let peer = Some(&Connection::of(server.as_raw_fd()));
        assert_eq!(unless_gone(ready(7), peer).await, Some(7));
        assert_eq!(unless_gone(ready(7), None).await, Some(7));
    }

    #[test]
    fn a_connection_under_tls_has_more_buffers() {
        let (_client, server) = socket_pair();
        let connection = Connection::of(server.as_raw_fd());
        assert_eq!(connection.buffered_max(), BUFFERED_BYTES_MAX);
        connection.uses_tls();
        let expected = BUFFERED_BYTES_MAX + TLS_BUFFERED_BYTES_MAX;
        assert_eq!(connection.buffered_max(), expected);
    }

    /// A client that does not read is told, although nothing more can be sent to it, and the kernel
    /// keeps nothing for it. One that reads gets everything it was sent.
    #[test]
    fn a_client_that_does_not_read_is_reset() {
        for (bytes, is_reset) in [(1, false), (usize::MAX, true)] {
            let (mut client, mut server) = socket_pair();
            server.set_nonblocking(true).unwrap();
            let mut left = bytes;
            while left > 0
                && let Ok(written) = server.write(&vec![0; left.min(1 << 16)])
            {
                left -= written;
            }
            let connection = Connection::of(server.as_raw_fd());
            connection.cut_overdue();
            drop((connection, server));
            let read = client.read_to_end(&mut Vec::new());
            let expected = match is_reset {
                true => Err(ErrorKind::ConnectionReset),
                false => Ok(bytes),
            };
            assert_eq!(read.map_err(|error| error.kind()), expected);
        }
    }
}
