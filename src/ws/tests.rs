//! Heartbeat, eviction and shutdown, tick by tick: no clock is waited for.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsRawFd,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, Waker},
};

use actix_web::{dev::Payload, error::PayloadError};
use bytes::Bytes;
use futures_core::Stream;
use nearhead_chain::json::{Json, LazyBytes, Truncated};

use super::{
    frame::{FrameKind, Next, Reframer},
    *,
};
use crate::{
    access::{SessionCaps, Tenant},
    connections::{Connection, ConnectionHandle},
    subscriptions::Hub,
};

const BUDGET: usize = 1 << 20;
const MESSAGE_MAX: Duration = Duration::from_secs(30);

fn registry() -> Rc<Sessions> {
    let (draining, metrics) = (Arc::default(), Metrics::new([]).unwrap());
    Rc::new(Sessions::new(BUDGET, MESSAGE_MAX, draining, metrics))
}

fn open(sessions: &Rc<Sessions>) -> Rc<Session> {
    open_on(sessions, ConnectionHandle::default())
}

fn open_on(sessions: &Rc<Sessions>, connection: ConnectionHandle) -> Rc<Session> {
    let slot = SessionCaps::new(1).take(&Tenant::for_tests(1));
    let subscriptions = SessionSubscriptions::new(Hub::new(sessions.metrics.clone()));
    sessions.open(slot.unwrap(), subscriptions, connection)
}

/// Everything that waits.
fn taken(session: &Session) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(slice) = session.take(usize::MAX) {
        out.extend_from_slice(&slice);
    }
    out
}

fn look(sessions: &Sessions, times: u32) {
    (0..times).for_each(|_| sessions.look());
}

/// Whether its connection was cut: it is looked after no more.
fn is_cut(sessions: &Sessions) -> bool {
    sessions.all.borrow().is_empty()
}

fn message(bytes: usize) -> [Bytes; 3] {
    let empty = Bytes::new();
    [Bytes::from(vec![b'x'; bytes]), empty.clone(), empty]
}

#[test]
fn two_pings_without_an_answer_end_a_session_within_90_seconds() {
    let sessions = registry();
    let session = open(&sessions);
    for ping in 1..=2 {
        look(&sessions, 29);
        assert_eq!(taken(&session), b"", "before ping {ping}");
        look(&sessions, 1);
        assert_eq!(taken(&session), b"\x89\x00", "ping {ping}");
    }
    look(&sessions, 25);
    assert!(session.takes_messages());
    look(&sessions, 1);
    assert!(!session.takes_messages() && !is_cut(&sessions));
    assert_eq!(taken(&session), frame::close(1001, "no pong"));
    look(&sessions, 3);
    assert!(!is_cut(&sessions), "the close is on its way");
    look(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn who_is_heard_of_stays_for_ever() {
    let sessions = registry();
    let session = open(&sessions);
    for _ in 0..1_000 {
        look(&sessions, 30);
        assert_eq!(taken(&session), b"\x89\x00");
        session.heard();
    }
    assert!(session.takes_messages() && !is_cut(&sessions));
}

#[test]
fn who_takes_nothing_for_ten_seconds_is_cut_off() {
    let sessions = registry();
    let session = open(&sessions);
    // A pause in which there is nothing to take is none.
    look(&sessions, 20);
    session.notify(message(100));
    for _ in 0..5 {
        look(&sessions, 10);
        assert!(session.take(1).is_some());
    }
    look(&sessions, 10);
    assert!(session.takes_messages());
    look(&sessions, 1);
    assert!(!session.takes_messages() && !is_cut(&sessions));
    let close = frame::close(1013, "nothing was read for 10 seconds");
    assert_eq!(taken(&session), [&[b'x'; 95], &close[..]].concat());
    look(&sessions, 3);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn a_turn_ends_when_the_answer_is_taken_or_the_client_is_evicted() {
    let sessions = registry();
    let session = open(&sessions);
    let large = || Json::shared(vec![b'1'; 2 * BUDGET].into());
    let turn = |session: &Session| session.turn().try_acquire_owned();
    session.answer(large(), Some(turn(&session).unwrap()));
    assert!(session.has_room(), "what is shared is not held");
    session.answer(Json::NULL, None);
    assert!(turn(&session).is_err());
    for _ in 0..2 * BUDGET {
        session.take(1);
    }
    assert!(turn(&session).is_err(), "the frame's header came first");
    taken(&session);
    session.answer(large(), Some(turn(&session).unwrap()));
    look(&sessions, 10);
    assert!(session.takes_messages() && turn(&session).is_err());
    look(&sessions, 1);
    assert!(!session.takes_messages() && turn(&session).is_ok());
}

/// An answer that ends before it should.
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
fn an_answer_that_cannot_be_ended_ends_the_connection() {
    let sessions = registry();
    let (mut client, _server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::of(&connection));
    session.answer(Json::lazy(Short(1_000)), None);
    session.notify(message(100));
    assert!(session.take(1_000).is_some(), "the frame's header");
    assert!(session.take(600).is_some());
    assert!(session.take(600).is_none());
    assert!(session.is_closed() && taken(&session).is_empty());
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

#[test]
fn a_farewell_waits_for_what_is_taken_before_it() {
    let sessions = registry();
    let session = open(&sessions);
    session.answer(Json::from(vec![b'1'; 99]), None);
    sessions.draining.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        look(&sessions, 10);
        assert!(session.take(1).is_some());
    }
    let rest = taken(&session);
    assert!(rest.ends_with(&frame::close(1001, "the service is going away")));
    look(&sessions, 3);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions), "the client does not close");

    let session = open(&sessions);
    session.answer(Json::NULL, None);
    look(&sessions, 10);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions), "the client takes nothing");
    assert!(!session.takes_messages());
}

/// A client's socket, and the server's side of it.
fn socket() -> (TcpStream, TcpStream, Rc<Connection>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    let connection = Rc::new(Connection::of(server.as_raw_fd()));
    (client, server, connection)
}

#[test]
fn who_leaves_while_it_is_answered_is_found_gone_whatever_it_left_unread() {
    let sessions = registry();
    let (mut client, _server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::of(&connection));
    session.begin_request();
    client.write_all(b"unread").unwrap();
    look(&sessions, 5);
    assert!(session.takes_messages());
    client.shutdown(Shutdown::Write).unwrap();
    look(&sessions, 1);
    assert!(session.is_closed() && is_cut(&sessions));
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

/// What was taken last may stand in the connection's buffer for as long as the socket takes
/// nothing.
#[test]
fn what_was_taken_is_waited_for_until_the_socket_takes_it() {
    let sessions = registry();
    let (_client, mut server, connection) = socket();
    let session = open_on(&sessions, ConnectionHandle::of(&connection));
    server.set_nonblocking(true).unwrap();
    while server.write(&[0; 1 << 20]).is_ok() {}
    session.close(CloseReason::GOING_AWAY);
    taken(&session);
    look(&sessions, 10);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn who_closes_is_sent_no_more_than_the_rest_of_a_frame() {
    let sessions = registry();
    let session = open(&sessions);
    session.notify(message(100));
    session.notify(message(100));
    assert!(session.take(1).is_some());
    session.close_came(Some(1000));
    let echo = frame::close(1000, "");
    assert_eq!(taken(&session), [&[b'x'; 99], &echo[..]].concat());
}

#[test]
fn what_waits_is_within_the_budget_whatever_is_told() {
    let sessions = registry();
    let session = open(&sessions);
    let mut told = 0;
    while session.notify(message(100)) {
        told += 1;
    }
    assert!((BUDGET / 2_000..=BUDGET / 200).contains(&told), "{told}");
    assert!((0..10_000).all(|_| !session.notify(message(100))));
    assert!(session.takes_messages(), "who reads may be told later");
    assert_eq!(taken(&session).len(), 100 * told);
    // One that is larger than all that may wait goes alone.
    assert!(session.notify(message(2 * BUDGET)));
    assert!(!session.notify(message(1)));
}

#[test]
fn shutdown_waits_for_what_is_in_flight_and_reads_no_more() {
    let sessions = registry();
    let session = open(&sessions);
    session.begin_request();
    sessions.draining.store(true, Ordering::Relaxed);
    look(&sessions, 1);
    session.message_announced();
    assert!(!session.reads() && session.takes_messages());
    session.answer(Json::NULL, None);
    session.end_request();
    let close = frame::close(1001, "the service is going away");
    assert_eq!(taken(&session), [&b"\x81\x04null"[..], &close].concat());
    // The client has a moment to close its side.
    look(&sessions, 3);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn the_next_message_waits_while_others_are_answered_or_answers_are_not_taken() {
    let sessions = registry();
    let session = open(&sessions);
    session.message_announced();
    let most = crate::limits::SESSION_REQUESTS_MAX;
    for _ in 0..most {
        assert!(session.reads());
        session.begin_request();
    }
    assert!(!session.reads());
    session.end_request();
    assert!(session.reads());
    session.notify(message(BUDGET / 2 + 1));
    assert!(!session.reads());
    session.hands_over(FrameKind::Last);
    session.handed_over();
    assert!(session.reads(), "none is announced");
    session.message_announced();
    taken(&session);
    assert!(session.reads());
    session.hands_over(FrameKind::Part);
    assert!(!session.reads(), "one frame after the other");
    session.handed_over();
    assert!(session.reads());
}

/// What a client sends, chunk by chunk; then nothing more for now.
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

/// A client and what is let in of what it sends.
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

    /// Frames that are let in now, as an actor sees them, until the end if it came.
    fn frames(&mut self) -> (Vec<FrameKind>, bool) {
        let (mut frames, mut reframer) = (Vec::new(), Reframer::new(u32::MAX));
        loop {
            match Pin::new(&mut self.inbound).poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(bytes)) => {
                    let mut bytes = bytes.unwrap();
                    loop {
                        match reframer.next(&mut bytes) {
                            Next::Nothing => break,
                            Next::End(kind) => frames.push(kind),
                            Next::Announced(..) | Next::Bytes(_) => {}
                        }
                    }
                }
                Poll::Ready(None) => return (frames, true),
                Poll::Pending if self.session.is_handing_over() => self.session.handed_over(),
                Poll::Pending => return (frames, false),
            }
        }
    }
}

const PONG: &[u8] = b"\x8a\x80mask";
const BEGIN: &[u8] = b"\x01\x81maskx";
const END: &[u8] = b"\x80\x81maskx";

#[test]
fn a_message_that_was_begun_is_read_to_its_end_and_the_next_one_waits() {
    use FrameKind::{Control, Last, Part};
    let sessions = registry();
    let session = open(&sessions);
    let mut client = Client::of(&session);
    client.send(&[PONG, BEGIN]);
    assert_eq!(client.frames(), (vec![Control, Part], false));
    let most = crate::limits::SESSION_REQUESTS_MAX;
    (0..most).for_each(|_| session.begin_request());
    // Whatever is going on, the server's own pause is none of the client's.
    look(&sessions, 25);
    client.send(&[END, PONG, BEGIN, END, PONG]);
    assert_eq!(client.frames(), (vec![Last, Control], false));
    for _ in 0..100 {
        look(&sessions, 10);
        taken(&session);
    }
    assert!(
        session.takes_messages(),
        "its pongs and its messages wait unread"
    );
    session.end_request();
    assert_eq!(client.frames(), (vec![Part, Last, Control], false));
    look(&sessions, 30);
    assert!(session.takes_messages());
}

#[test]
fn a_connection_that_breaks_is_the_end_of_what_comes() {
    let sessions = registry();
    let mut client = Client::of(&open(&sessions));
    client.send(&[PONG, &BEGIN[..3]]);
    let broken = Err(PayloadError::Incomplete(None));
    client.sent.0.borrow_mut().push_back(broken);
    assert_eq!(client.frames(), (vec![FrameKind::Control], true));
}

#[test]
fn large_frames_are_let_in_as_small_ones() {
    let sessions = registry();
    let mut client = Client::of(&open(&sessions));
    let len = 1 << 20;
    client.send(&[b"\x82\xff\0\0\0\0\0\x10\0\0mask", &vec![b'x'; len]]);
    let pieces = len / (4 * crate::limits::FRAME_WORDS_MAX as usize);
    let mut expected = vec![FrameKind::Part; pieces];
    expected[pieces - 1] = FrameKind::Last;
    assert_eq!(client.frames(), (expected, false));
}

#[test]
fn who_pings_without_end_is_read_a_little_every_second() {
    let sessions = registry();
    let session = open(&sessions);
    for _ in 0..3 {
        for _ in 0..crate::limits::CONTROL_FRAMES_PER_SECOND {
            assert!(session.reads());
            session.hands_over(FrameKind::Control);
            session.handed_over();
        }
        assert!(!session.reads());
        look(&sessions, 1);
    }
    assert!(session.reads());
}

#[test]
fn a_message_has_its_time_however_it_comes() {
    let sessions = registry();
    let session = open(&sessions);
    let begin = || {
        session.message_announced();
        session.lets_in();
    };
    // A whole one is none that is coming in, nor are control frames part of one.
    begin();
    session.hands_over(FrameKind::Last);
    session.handed_over();
    session.heard();
    look(&sessions, 29);
    assert_eq!(taken(&session), b"");
    begin();
    for frame in [FrameKind::Part, FrameKind::Control, FrameKind::Part] {
        look(&sessions, 10);
        session.heard();
        session.hands_over(frame);
        session.handed_over();
        begin();
        taken(&session);
    }
    assert!(session.takes_messages());
    look(&sessions, 1);
    assert_eq!(taken(&session), frame::close(1008, "message took too long"));
}
