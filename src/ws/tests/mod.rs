//! What a session reads and sends, and how it ends, tick by tick; no test waits for a clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod narrowed;
mod notifications;

use std::{
    cell::RefCell,
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::fd::AsRawFd,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use actix_web::{dev::Payload, error::PayloadError};
use bytes::Bytes;
use futures_core::Stream;
use nearhead_actors::{admission::ReplyBudget, share::Share};
use nearhead_chain::json::{Json, LazyBytes, Truncated};
use tokio::task::yield_now;

use super::{
    close_reason::CloseReason,
    frame::{self, FrameEvent, FrameKind, Reframer},
    inbound::Inbound,
    outbound::Outbound,
    session::{CLOSE_MAX, STALL_MAX, Session},
    sessions::{Sessions, VISITED_MAX},
};
use crate::{
    access::{Access, Caller, SessionCaps},
    connections::{Connection, ConnectionHandle, socket_pair},
    limits::BUFFERED_BYTES_MAX,
    metrics::Metrics,
    rpc::AnswerPermits,
    subscriptions::{Hub, SessionSubscriptions},
    tenants::UsageMeter,
};

const BUDGET: usize = 1 << 20;
const MESSAGE_MAX: Duration = Duration::from_secs(30);

fn sessions() -> Sessions {
    let metrics = Metrics::new([]).unwrap();
    Sessions::new(
        BUDGET,
        MESSAGE_MAX,
        Arc::default(),
        Access::for_tests(1_000),
        metrics,
        UsageMeter::default(),
    )
}

fn open(sessions: &Sessions) -> Rc<Session> {
    open_on(sessions, ConnectionHandle::default())
}

fn open_on(sessions: &Sessions, connection: ConnectionHandle) -> Rc<Session> {
    let admitted = sessions.open.access.admit_for_tests();
    let permit = SessionCaps::new(1).take(&admitted.key.tenant);
    let grant = admitted.into_grant(&sessions.open.access, Caller::default());
    let subscriptions = SessionSubscriptions::new(Hub::new(sessions.shared.metrics.clone()));
    sessions.open(grant, permit.unwrap(), subscriptions, connection)
}

/// Takes everything that waits.
fn taken(session: &Session) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(slice) = session.take(usize::MAX) {
        out.extend_from_slice(&slice);
    }
    out
}

fn tick(sessions: &Sessions, times: u32) {
    (0..times).for_each(|_| sessions.open.tick(&sessions.shared));
}

/// Whether the connection of the only session was cut.
fn is_cut(sessions: &Sessions) -> bool {
    sessions.open.is_empty()
}

fn message(bytes: usize) -> [Bytes; 3] {
    let empty = Bytes::new();
    [Bytes::from(vec![b'x'; bytes]), empty.clone(), empty]
}

#[test]
fn two_pings_without_an_answer_end_a_session_within_90_seconds() {
    let sessions = sessions();
    let session = open(&sessions);
    for ping in 1..=2 {
        tick(&sessions, 29);
        assert_eq!(taken(&session), b"", "before ping {ping}");
        tick(&sessions, 1);
        assert_eq!(taken(&session), b"\x89\x00", "ping {ping}");
    }
    tick(&sessions, 25);
    assert!(session.takes_messages());
    tick(&sessions, 1);
    assert!(!session.takes_messages() && !is_cut(&sessions));
    assert_eq!(taken(&session), frame::close(1001, "no pong"));
    tick(&sessions, 3);
    assert!(!is_cut(&sessions), "the close is on its way");
    tick(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn a_client_that_answers_pings_stays_connected() {
    let sessions = sessions();
    let session = open(&sessions);
    for _ in 0..1_000 {
        tick(&sessions, 30);
        assert_eq!(taken(&session), b"\x89\x00");
        session.bytes_received();
    }
    assert!(session.takes_messages() && !is_cut(&sessions));
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let sessions = sessions();
    let session = open(&sessions);
    // Time in which there is nothing to take does not count.
    tick(&sessions, 20);
    session.queue_notification(message(100));
    for _ in 0..5 {
        tick(&sessions, STALL_MAX);
        assert!(session.take(1).is_some());
    }
    tick(&sessions, STALL_MAX);
    assert!(session.takes_messages());
    tick(&sessions, 1);
    assert!(!session.takes_messages() && !is_cut(&sessions));
    let close = frame::close(1013, "nothing was read for 8 seconds");
    assert_eq!(taken(&session), [&[b'x'; 95], &close[..]].concat());
    tick(&sessions, 3);
    assert!(!is_cut(&sessions));
    tick(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn the_permit_of_a_large_answer_lasts_until_it_is_taken_or_the_client_is_evicted() {
    let sessions = sessions();
    let session = open(&sessions);
    let large = || Json::shared(vec![b'1'; 2 * BUDGET].into());
    let permit = |session: &Session| session.large_answer().try_acquire_owned();
    let permits = |session: &Session| {
        Some(Box::new(AnswerPermits {
            large_answer: Some(permit(session).unwrap()),
            ..AnswerPermits::default()
        }))
    };
    session.answer(large(), permits(&session));
    assert!(session.has_room(), "shared bytes do not count as held");
    session.answer(Json::NULL, None);
    assert!(permit(&session).is_err());
    for _ in 0..2 * BUDGET {
        session.take(1);
    }
    assert!(permit(&session).is_err(), "the frame's header came first");
    taken(&session);
    session.answer(large(), permits(&session));
    tick(&sessions, STALL_MAX);
    assert!(session.takes_messages() && permit(&session).is_err());
    tick(&sessions, 1);
    assert!(!session.takes_messages() && permit(&session).is_ok());
}

/// An answer that cannot produce all of its bytes.
#[derive(Debug)]
struct Short(usize);

impl LazyBytes for Short {
    fn len(&self) -> usize {
        self.0
    }

    fn held(&self) -> usize {
        0
    }

    fn take(&mut self, most: usize) -> Result<Bytes, Truncated> {
        self.0 = self.0.checked_sub(most).ok_or(Truncated)?;
        Ok(vec![b'x'; most].into())
    }
}

#[test]
fn a_truncated_answer_ends_the_connection() {
    let sessions = sessions();
    let (mut client, _server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::new(&connection));
    session.answer(Json::lazy(Short(1_000)), None);
    session.queue_notification(message(100));
    assert!(session.take(1_000).is_some(), "the frame's header");
    assert!(session.take(600).is_some());
    assert!(session.take(600).is_none());
    assert!(session.is_closed() && taken(&session).is_empty());
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn the_close_frame_is_sent_after_what_waits() {
    let sessions = sessions();
    let session = open(&sessions);
    session.answer(Json::from(vec![b'1'; 99]), None);
    sessions.open.shutdown.end_sessions(Instant::now());
    for _ in 0..5 {
        tick(&sessions, STALL_MAX);
        assert!(session.take(1).is_some());
    }
    let rest = taken(&session);
    assert!(rest.ends_with(&frame::close(1001, "the service is going away")));
    tick(&sessions, 3);
    assert!(!is_cut(&sessions));
    tick(&sessions, 1);
    assert!(is_cut(&sessions), "the client does not close");

    let session = open(&sessions);
    session.answer(Json::NULL, None);
    tick(&sessions, STALL_MAX);
    assert!(!is_cut(&sessions));
    tick(&sessions, 1);
    assert!(is_cut(&sessions), "the client takes nothing");
    assert!(!session.takes_messages());
}

/// A client's socket, the server's side of it, and the connection.
fn socket() -> (TcpStream, TcpStream, Rc<Connection>) {
    let (client, server) = socket_pair();
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    (client, server, connection)
}

/// All large answers of a session go through the same buffers, which are charged once.
#[test]
fn the_buffers_of_a_session_are_charged_until_the_kernel_has_what_is_in_them() {
    let sessions = sessions();
    let (mut client, mut server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::new(&connection));
    let budget = ReplyBudget::new(1 << 20);
    let used = || budget.usage().used;
    let answer = |bytes: usize| {
        let charge = budget.charge(Share::default(), bytes, Instant::now());
        let permits = AnswerPermits {
            buffer: Some(charge.unwrap()),
            ..AnswerPermits::default()
        };
        session.answer(
            Json::shared(vec![b'1'; 1 << 20].into()),
            Some(Box::new(permits)),
        );
    };
    let bytes = session.uncharged_buffer();
    assert_eq!(bytes, BUFFERED_BYTES_MAX);
    answer(bytes);
    assert_eq!((session.uncharged_buffer(), used()), (0, bytes));
    answer(1);
    assert_eq!(used(), bytes, "another answer needs no other buffers");
    server.set_nonblocking(true).unwrap();
    let written: usize = std::iter::from_fn(|| server.write(&[0; 1 << 16]).ok()).sum();
    taken(&session);
    session.release_buffer();
    assert_eq!(
        (session.uncharged_buffer(), used()),
        (0, bytes),
        "the kernel takes no more"
    );
    client.read_exact(&mut vec![0; written]).unwrap();
    while !session.connection.is_writable() {
        std::hint::spin_loop();
    }
    session.release_buffer();
    assert_eq!((session.uncharged_buffer(), used()), (bytes, 0));
    // They go with the session.
    answer(bytes);
    drop(session);
    drop(sessions);
    assert_eq!(budget.usage().used, 0);
}

#[test]
fn a_client_that_leaves_during_a_request_is_noticed_behind_unread_bytes() {
    let sessions = sessions();
    let (mut client, _server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::new(&connection));
    session.begin_request();
    client.write_all(b"unread").unwrap();
    tick(&sessions, 5);
    assert!(session.takes_messages());
    client.shutdown(Shutdown::Write).unwrap();
    tick(&sessions, 1);
    assert!(session.is_closed() && is_cut(&sessions));
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

/// An actor that writes nothing and does not end.
struct Silent;

impl Stream for Silent {
    type Item = Result<Bytes, actix_web::Error>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

/// Bytes that were passed on may wait in the connection's buffer, although the socket takes more:
/// its transport alone knows when the last one is sent.
#[test]
fn a_session_ends_when_its_transport_has_sent_everything() {
    let sessions = sessions();
    let (mut client, _server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::new(&connection));
    let mut outbound = Outbound::new(Silent, Rc::clone(&session));
    let mut poll = || {
        let mut cx = Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut outbound).poll_next(&mut cx);
        polled.map(|bytes| bytes.transpose().unwrap())
    };
    session.close_received(Some(1000));
    let echo = frame::close(1000, "");
    assert_eq!(poll(), Poll::Ready(Some(echo)));
    client.set_nonblocking(true).unwrap();
    for _ in 0..10 {
        assert_eq!(poll(), Poll::Pending);
        let end = client.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(end, Err(std::io::ErrorKind::WouldBlock), "it was cut short");
        assert!(connection.is_to_end());
    }
    connection.ended();
    assert_eq!(poll(), Poll::Ready(None));
}

/// The bytes taken last may stay in the connection's buffer, although the socket takes more.
#[test]
fn a_session_waits_until_its_transport_has_sent_everything() {
    for (is_sent, ticks) in [(false, STALL_MAX), (true, CLOSE_MAX)] {
        let sessions = sessions();
        let (_client, _server, connection) = socket();
        let session = open_on(&sessions, ConnectionHandle::new(&connection));
        session.close(CloseReason::GOING_AWAY);
        taken(&session);
        if is_sent {
            connection.sent_all();
        }
        tick(&sessions, ticks);
        assert!(!is_cut(&sessions), "sent: {is_sent}");
        tick(&sessions, 1);
        assert!(is_cut(&sessions), "sent: {is_sent}");
    }
}

#[test]
fn a_client_that_closes_is_sent_only_the_rest_of_a_frame() {
    let sessions = sessions();
    let session = open(&sessions);
    session.queue_notification(message(100));
    session.queue_notification(message(100));
    assert!(session.take(1).is_some());
    session.close_received(Some(1000));
    let echo = frame::close(1000, "");
    assert_eq!(taken(&session), [&[b'x'; 99], &echo[..]].concat());
}

#[test]
fn what_waits_stays_within_the_budget() {
    let sessions = sessions();
    let session = open(&sessions);
    let mut queued = 0;
    while session.queue_notification(message(100)) {
        queued += 1;
    }
    assert!(
        (BUDGET / 2_000..=BUDGET / 200).contains(&queued),
        "{queued}"
    );
    assert!((0..10_000).all(|_| !session.queue_notification(message(100))));
    assert!(
        session.takes_messages(),
        "a client that reads is notified later"
    );
    assert_eq!(taken(&session).len(), 100 * queued);
    // A notification that is larger than the budget is queued alone.
    assert!(session.queue_notification(message(2 * BUDGET)));
    assert!(!session.queue_notification(message(1)));
}

#[actix::test]
async fn sessions_are_visited_in_turns() {
    const COUNT: usize = 3 * VISITED_MAX - 1;

    let sessions = sessions();
    let open: Vec<_> = (0..COUNT).map(|_| open(&sessions)).collect();
    let mut pinged = 0;
    let mut count = || {
        pinged += open.iter().filter(|it| taken(it) == b"\x89\x00").count();
        pinged
    };
    tick(&sessions, 30);
    let mut seen = vec![count()];
    sessions.open.visit_rest_in_turns();
    sessions.open.visit_rest_in_turns();
    while seen.last() < Some(&COUNT) {
        yield_now().await;
        seen.push(count());
    }
    assert_eq!(seen, [VISITED_MAX, 2 * VISITED_MAX, COUNT]);
    // Those that are left are visited before the next second begins.
    tick(&sessions, 30);
    assert_eq!(count(), COUNT + VISITED_MAX);
    tick(&sessions, 1);
    assert_eq!(count(), 2 * COUNT);
    // Again in turns, after a pause.
    tick(&sessions, 25);
    sessions.open.visit_rest_in_turns();
    for _ in 0..3 {
        yield_now().await;
    }
    let closed = open.iter().filter(|session| !session.is_open()).count();
    assert_eq!(closed, COUNT);
}

/// An equal share in each second that is left, so that not all clients come back at once.
#[test]
fn sessions_end_one_after_another() {
    let sessions = sessions();
    let open: Vec<_> = (0..100).map(|_| open(&sessions)).collect();
    let closed = || open.iter().filter(|session| !session.is_open()).count();
    sessions.open.tick(&sessions.shared);
    assert_eq!(closed(), 0);
    let last = Instant::now() + Duration::from_secs(9);
    sessions.open.shutdown.end_sessions(last);
    // Some of the nine seconds are over; the clock stands still meanwhile.
    for (ticks, expected) in [(1, 12), (1, 22), (40, 100)] {
        for _ in 0..ticks {
            sessions.open.tick(&sessions.shared);
        }
        assert!(
            closed() >= expected && closed() <= expected + 3,
            "{}",
            closed()
        );
    }
}

#[test]
fn shutdown_waits_for_requests_in_flight_and_reads_no_more() {
    let sessions = sessions();
    let session = open(&sessions);
    session.begin_request();
    sessions.open.shutdown.end_sessions(Instant::now());
    tick(&sessions, 1);
    session.message_announced();
    assert!(!session.may_read() && session.takes_messages());
    session.answer(Json::NULL, None);
    session.end_request();
    let close = frame::close(1001, "the service is going away");
    assert_eq!(taken(&session), [&b"\x81\x04null"[..], &close].concat());
    // The client has a moment to close its side.
    tick(&sessions, 3);
    assert!(!is_cut(&sessions));
    tick(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn the_next_message_waits_for_answers_in_flight_or_not_taken() {
    let sessions = sessions();
    let session = open(&sessions);
    session.message_announced();
    let most = crate::limits::SESSION_REQUESTS_MAX;
    for _ in 0..most {
        assert!(session.may_read());
        session.begin_request();
    }
    assert!(!session.may_read());
    session.end_request();
    assert!(session.may_read());
    session.queue_notification(message(BUDGET / 2 + 1));
    assert!(!session.may_read());
    session.frame_passed(FrameKind::Last);
    session.frame_handled();
    assert!(session.may_read(), "no message is announced");
    session.message_announced();
    taken(&session);
    assert!(session.may_read());
    session.frame_passed(FrameKind::Part);
    assert!(!session.may_read(), "one frame at a time");
    session.frame_handled();
    assert!(session.may_read());
}

/// Chunks that a client has sent.
#[derive(Clone, Default)]
struct Sent(Rc<RefCell<VecDeque<Result<Bytes, PayloadError>>>>);

impl Stream for Sent {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.borrow_mut().pop_front() {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None => Poll::Pending,
        }
    }
}

/// A client and the inbound stream of its session.
struct Client {
    sent: Sent,
    session: Rc<Session>,
    inbound: Inbound,
}

impl Client {
    fn of(session: &Rc<Session>) -> Self {
        let (sent, session) = (Sent::default(), Rc::clone(session));
        let payload = Box::pin(sent.clone());
        let inbound = Inbound::new(Payload::Stream { payload }, Rc::clone(&session));
        Self {
            sent,
            session,
            inbound,
        }
    }

    fn send(&self, frames: &[&[u8]]) {
        let chunk = Bytes::from(frames.concat());
        self.sent.0.borrow_mut().push_back(Ok(chunk));
    }

    /// Frames that the actor receives now, and whether the stream ended.
    fn frames(&mut self) -> (Vec<FrameKind>, bool) {
        let (mut frames, mut reframer) = (Vec::new(), Reframer::new(u32::MAX));
        loop {
            match Pin::new(&mut self.inbound).poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(bytes)) => {
                    let mut bytes = bytes.unwrap();
                    loop {
                        match reframer.next(&mut bytes) {
                            FrameEvent::NeedsInput => break,
                            FrameEvent::End(kind) => frames.push(kind),
                            FrameEvent::Announced(..) | FrameEvent::Bytes(_) => {}
                        }
                    }
                }
                Poll::Ready(None) => return (frames, true),
                Poll::Pending if self.session.is_frame_pending() => self.session.frame_handled(),
                Poll::Pending => return (frames, false),
            }
        }
    }
}

const PONG: &[u8] = b"\x8a\x80mask";
const BEGIN: &[u8] = b"\x01\x81maskx";
const END: &[u8] = b"\x80\x81maskx";

#[test]
fn a_message_that_has_begun_is_read_to_its_end_and_the_next_one_waits() {
    use FrameKind::{Control, Last, Part};
    let sessions = sessions();
    let session = open(&sessions);
    let mut client = Client::of(&session);
    client.send(&[PONG, BEGIN]);
    assert_eq!(client.frames(), (vec![Control, Part], false));
    let most = crate::limits::SESSION_REQUESTS_MAX;
    (0..most).for_each(|_| session.begin_request());
    // The time in which the server does not read does not count against the client.
    tick(&sessions, 25);
    client.send(&[END, PONG, BEGIN, END, PONG]);
    assert_eq!(client.frames(), (vec![Last, Control], false));
    for _ in 0..100 {
        tick(&sessions, 10);
        taken(&session);
    }
    assert!(
        session.takes_messages(),
        "its pongs and its messages wait unread"
    );
    session.end_request();
    assert_eq!(client.frames(), (vec![Part, Last, Control], false));
    tick(&sessions, 30);
    assert!(session.takes_messages());
}

#[test]
fn a_broken_connection_ends_the_inbound_stream() {
    let sessions = sessions();
    let mut client = Client::of(&open(&sessions));
    client.send(&[PONG, &BEGIN[..3]]);
    let broken = Err(PayloadError::Incomplete(None));
    client.sent.0.borrow_mut().push_back(broken);
    assert_eq!(client.frames(), (vec![FrameKind::Control], true));
}

#[test]
fn large_frames_are_passed_on_in_parts() {
    let sessions = sessions();
    let mut client = Client::of(&open(&sessions));
    let len = 1 << 20;
    client.send(&[b"\x82\xff\0\0\0\0\0\x10\0\0mask", &vec![b'x'; len]]);
    let pieces = len / (4 * crate::limits::FRAME_WORDS_MAX as usize);
    let mut expected = vec![FrameKind::Part; pieces];
    expected[pieces - 1] = FrameKind::Last;
    assert_eq!(client.frames(), (expected, false));
}

#[test]
fn a_client_that_floods_pings_is_read_a_little_every_second() {
    let sessions = sessions();
    let session = open(&sessions);
    for _ in 0..3 {
        for _ in 0..crate::limits::CONTROL_FRAMES_PER_SECOND {
            assert!(session.may_read());
            session.frame_passed(FrameKind::Control);
            session.frame_handled();
        }
        assert!(!session.may_read());
        tick(&sessions, 1);
    }
    assert!(session.may_read());
}

#[test]
fn a_message_must_arrive_in_time_however_it_is_cut() {
    let sessions = sessions();
    let session = open(&sessions);
    let begin = || {
        session.message_announced();
        session.bytes_passed();
    };
    // A message that has arrived no longer counts, and control frames are not part of one.
    begin();
    session.frame_passed(FrameKind::Last);
    session.frame_handled();
    session.bytes_received();
    tick(&sessions, 29);
    assert_eq!(taken(&session), b"");
    begin();
    for frame in [FrameKind::Part, FrameKind::Control, FrameKind::Part] {
        for _ in 0..2 {
            tick(&sessions, 5);
            taken(&session);
        }
        session.bytes_received();
        session.frame_passed(frame);
        session.frame_handled();
        begin();
    }
    assert!(session.takes_messages());
    tick(&sessions, 1);
    assert_eq!(taken(&session), frame::close(1008, "message took too long"));
}
