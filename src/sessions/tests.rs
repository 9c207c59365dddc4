//! Heartbeat, eviction and shutdown, tick by tick: no clock is waited for.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::Ordering;

use bytes::Bytes;
use nearhead_chain::json::Json;

use super::{frame::FrameKind, *};
use crate::{
    access::{Keys, SessionCaps},
    connection::Line,
    subscriptions::Hub,
};

const BUDGET: usize = 10_000;
const MESSAGE_MAX: Duration = Duration::from_secs(30);

fn registry() -> Rc<Sessions> {
    let (draining, metrics) = (Arc::default(), Metrics::new().unwrap());
    Rc::new(Sessions::new(BUDGET, MESSAGE_MAX, draining, metrics))
}

fn open(sessions: &Rc<Sessions>) -> Rc<Session> {
    let keys = Keys::new([("test", "test")]);
    let slot = SessionCaps::new(1, 1, 1).take(keys.check("test").unwrap());
    let follower = Follower::new(Hub::new(sessions.metrics.clone()));
    sessions.open(slot.unwrap(), follower, Line::default())
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

fn message(bytes: usize) -> [Bytes; 4] {
    let empty = Bytes::new();
    [
        Bytes::from(vec![b'x'; bytes]),
        empty.clone(),
        empty.clone(),
        empty,
    ]
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
    look(&sessions, 29);
    assert!(session.takes_messages() && !is_cut(&sessions));
    look(&sessions, 1);
    assert!(!session.takes_messages());
    assert_eq!(taken(&session), frame::close(1001, "no pong"));
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
fn what_is_left_of_a_large_frame_is_not_kept_to_say_why() {
    let sessions = registry();
    let session = open(&sessions);
    let answer = Json::from(vec![b'1'; 2 * BUDGET]);
    session.answer(&answer, Vec::new());
    assert!(session.take(5).is_some());
    look(&sessions, 10);
    assert!(!is_cut(&sessions));
    look(&sessions, 1);
    assert!(is_cut(&sessions));
}

#[test]
fn what_waits_is_within_the_budget_whatever_is_told() {
    let sessions = registry();
    let session = open(&sessions);
    let all = BUDGET / 100;
    for _ in 0..all {
        session.notify(message(100));
    }
    assert!(session.takes_messages(), "the budget is not used up");
    assert!(session.take(1).is_some(), "the first message is begun");
    for _ in 0..10_000 {
        session.notify(message(100));
    }
    assert!(!session.takes_messages());
    // The message that was begun is whole, then comes the reason.
    let rest = taken(&session);
    let close = frame::close(1013, "too many bytes wait to be read");
    assert_eq!(rest, [&[b'x'; 99], &close[..]].concat());
}

#[test]
fn shutdown_waits_for_what_is_in_flight_and_reads_no_more() {
    let sessions = registry();
    let session = open(&sessions);
    session.begin_request();
    sessions.draining.store(true, Ordering::Relaxed);
    look(&sessions, 1);
    assert!(!session.reads() && session.takes_messages());
    session.answer(&Json::NULL, Vec::new());
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
fn requests_wait_unread_while_others_are_answered_or_answers_are_not_taken() {
    let sessions = registry();
    let session = open(&sessions);
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
    taken(&session);
    assert!(session.reads());
    session.hands_over(FrameKind::Part, None);
    assert!(!session.reads(), "one frame after the other");
    assert!(session.handed_over().is_none());
    assert!(session.reads());
}

#[test]
fn who_pings_without_end_is_read_a_little_every_second() {
    let sessions = registry();
    let session = open(&sessions);
    for _ in 0..3 {
        for _ in 0..crate::limits::CONTROL_FRAMES_PER_SECOND {
            assert!(session.reads());
            session.hands_over(FrameKind::Control, None);
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
    // A whole one is none that is coming in, nor are control frames part of one.
    session.message_began();
    session.hands_over(FrameKind::Last, None);
    session.handed_over();
    session.heard();
    look(&sessions, 29);
    assert_eq!(taken(&session), b"");
    session.message_began();
    for frame in [FrameKind::Part, FrameKind::Control, FrameKind::Part] {
        look(&sessions, 10);
        session.heard();
        session.hands_over(frame, None);
        session.handed_over();
        session.message_began();
        taken(&session);
    }
    assert!(session.takes_messages());
    look(&sessions, 1);
    assert_eq!(taken(&session), frame::close(1008, "message took too long"));
}
