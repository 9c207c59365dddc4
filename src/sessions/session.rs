//! One session, as everybody on its worker knows it: what it has to send, what it is at, what it follows.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use bytes::Bytes;
use nearhead_actors::wiring::Permit;
use nearhead_chain::json::Json;

use super::{
    Sessions,
    frame::{self, FrameKind, Opcode},
    outbox::Outbox,
};
use crate::{
    access::SessionSlot,
    body_budget::Charge,
    connection::Line,
    limits::{CONTROL_FRAMES_PER_SECOND, SESSION_REQUESTS_MAX, WRITE_STALL_TIMEOUT},
    subscriptions::Follower,
};

/// Seconds since the worker began.
pub(super) type Tick = u32;

/// Seconds between two pings.
const PING_EVERY: Tick = 30;

/// Pings without an answer after which the other side is taken for gone.
const UNANSWERED_MAX: u8 = 2;

/// Seconds that a client has to take what is left and close its side.
const CLOSE_MAX: Tick = 3;

/// Seconds without a byte taken after which a client is taken for stalled.
const STALL_MAX: Tick = WRITE_STALL_TIMEOUT.as_secs() as Tick;

/// Why a session is closed (RFC 6455 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

impl Why {
    pub(crate) const GOING_AWAY: Self = Self::new(1001, "the service is going away");
    pub(crate) const PROTOCOL: Self = Self::new(1002, "protocol violation");
    pub(crate) const NOT_UTF8: Self = Self::new(1007, "text is not UTF-8");
    pub(crate) const TOO_SLOW: Self = Self::new(1008, "message took too long");
    pub(crate) const TOO_LARGE: Self = Self::new(1009, "message too large, send at most 32 MiB");
    pub(crate) const NOT_READING: Self = Self::new(1013, "nothing was read for 10 seconds");
    pub(crate) const BUSY: Self = Self::new(1013, "too many large messages are being read");
    pub(crate) const FELL_BEHIND: Self = Self::new(1013, "fell behind the window, subscribe again");
    pub(crate) const NO_PONG: Self = Self::new(1001, "no pong");

    const fn new(code: u16, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

/// What a session is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The service goes away: what is in flight is answered, nothing more is read.
    Draining,
    /// A close frame was sent at this time; nothing else follows.
    Closing(Tick),
    /// Both sides are done, or nothing can be saved.
    Closed,
}

/// A session's shared part; its actor and its connection's stream own it, everybody else knows it weakly.
pub(crate) struct Session {
    /// The registry of its worker.
    pub(super) sessions: Rc<Sessions>,
    /// What it follows.
    pub(crate) follower: Follower,
    /// Its connection.
    pub(super) line: Line,
    outbox: RefCell<Outbox>,
    budget: usize,
    state: Cell<State>,
    waker: Cell<Option<Waker>>,
    in_flight: Cell<usize>,
    /// A frame was let in and the actor has not seen it yet; what its message takes of the worker's memory, if it is
    /// the last one.
    handing_over: RefCell<Option<Option<Charge>>>,
    /// When the message began that is coming in.
    message_since: Cell<Option<Tick>>,
    /// Control frames that were let in since the last tick.
    control_frames: Cell<u32>,
    heard_at: Cell<Tick>,
    pinged_at: Cell<Tick>,
    unanswered: Cell<u8>,
    taken_at: Cell<Tick>,
    _slot: SessionSlot,
}

impl Session {
    pub(super) fn new(
        sessions: Rc<Sessions>,
        slot: SessionSlot,
        follower: Follower,
        line: Line,
    ) -> Self {
        let now = sessions.now();
        sessions.metrics.sessions.inc();
        Self {
            budget: sessions.budget,
            sessions,
            follower,
            line,
            outbox: RefCell::default(),
            state: Cell::new(State::Open),
            waker: Cell::new(None),
            in_flight: Cell::new(0),
            handing_over: RefCell::new(None),
            message_since: Cell::new(None),
            control_frames: Cell::new(0),
            heard_at: Cell::new(now),
            pinged_at: Cell::new(now),
            unanswered: Cell::new(0),
            taken_at: Cell::new(now),
            _slot: slot,
        }
    }

    // --- what goes out -----------------------------------------------------------------------------------------------

    /// Sends an answer. An answer may be larger than the budget: it was asked for, one at a time beyond it, and its
    /// permits, kept until it is taken, bound all sessions together.
    pub(crate) fn answer(&self, json: &Json, permits: Vec<Permit>) {
        if !self.takes_messages() {
            return;
        }
        let mut outbox = self.begin_sending();
        let header = frame::header(Opcode::Text, json.len());
        outbox.push(std::iter::once(header).chain(json.pieces().iter().cloned()));
        outbox.hold(permits);
        drop(outbox);
        self.wake();
    }

    /// Sends a message in pieces, unless more would wait than the budget allows; whether it did. Never waits. A message
    /// larger than the budget goes alone.
    pub(crate) fn notify(&self, pieces: [Bytes; 4]) -> bool {
        if !self.takes_messages() {
            return true;
        }
        let waiting = self.outbox.borrow().len();
        let len: usize = pieces.iter().map(Bytes::len).sum();
        if waiting > 0 && waiting + len > self.budget {
            return false;
        }
        self.begin_sending().push(pieces);
        self.wake();
        true
    }

    /// Answers a ping.
    pub(crate) fn pong(&self, payload: &[u8]) {
        if self.takes_messages() {
            self.begin_sending()
                .push([frame::frame(Opcode::Pong, payload)]);
        }
    }

    /// The outbox; a pause in which nothing was to be sent is no stall.
    fn begin_sending(&self) -> std::cell::RefMut<'_, Outbox> {
        let outbox = self.outbox.borrow_mut();
        if outbox.len() == 0 {
            self.taken_at.set(self.sessions.now());
        }
        outbox
    }

    /// Whether half of the budget is free: what the session asks for itself is done only then.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.borrow().len() <= self.budget / 2
    }

    /// Takes the next bytes to send.
    pub(crate) fn take(&self, most: usize) -> Option<Bytes> {
        let slice = self.outbox.borrow_mut().pop(most)?;
        self.taken_at.set(self.sessions.now());
        Some(slice)
    }

    // --- what comes in -----------------------------------------------------------------------------------------------

    /// Whether more may be read: one frame after the other, while answers can be sent.
    pub(super) fn reads(&self) -> bool {
        if self.handing_over.borrow().is_some()
            || self.control_frames.get() >= CONTROL_FRAMES_PER_SECOND
        {
            return false;
        }
        match self.state.get() {
            State::Open => self.in_flight.get() < SESSION_REQUESTS_MAX && self.has_room(),
            // The client's close is still to come.
            State::Closing(_) => true,
            State::Draining | State::Closed => false,
        }
    }

    /// Notes that a message is coming in.
    pub(super) fn message_began(&self) {
        if self.message_since.get().is_none() {
            self.message_since.set(Some(self.sessions.now()));
        }
    }

    /// Notes that a whole frame was let in, and what its message takes of the worker's memory, if it is the last one.
    pub(super) fn hands_over(&self, kind: FrameKind, message: Option<Charge>) {
        match kind {
            FrameKind::Part => {}
            FrameKind::Last => self.message_since.set(None),
            FrameKind::Control => self.control_frames.set(self.control_frames.get() + 1),
        }
        *self.handing_over.borrow_mut() = Some(message);
    }

    /// Notes that the actor has seen what was let in.
    pub(crate) fn handed_over(&self) -> Option<Charge> {
        self.handing_over.take().flatten()
    }

    /// Notes that the other side is there.
    pub(super) fn heard(&self) {
        self.heard_at.set(self.sessions.now());
        self.unanswered.set(0);
    }

    /// Notes that a request is being answered.
    pub(crate) fn begin_request(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Notes that a request was answered.
    pub(crate) fn end_request(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        if self.state.get() == State::Draining && self.in_flight.get() == 0 {
            self.close(Why::GOING_AWAY);
        }
        // What was held back may be read now.
        self.wake();
    }

    // --- how it ends -------------------------------------------------------------------------------------------------

    /// Whether messages are still exchanged.
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(self.state.get(), State::Open | State::Draining)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.get() == State::Closed
    }

    /// Says why and closes, after what waits was sent.
    pub(crate) fn close(&self, why: Why) {
        if self.takes_messages() {
            self.sessions.metrics.session_closed(why.code);
            self.begin_sending()
                .push([frame::close(why.code, why.reason)]);
            self.state.set(State::Closing(self.sessions.now()));
            self.wake();
        }
    }

    /// Says why and closes, and throws away what waits: who does not read would not read that either.
    pub(crate) fn evict(&self, why: Why) {
        if self.takes_messages() {
            self.outbox.borrow_mut().clear();
            self.close(why);
        }
    }

    /// The client closed: its close is answered, or was the answer to ours.
    pub(crate) fn close_came(&self, code: Option<u16>) {
        if self.takes_messages() {
            self.sessions.metrics.session_closed(code.unwrap_or(1005));
            let echo = match code {
                Some(code) => frame::close(code, ""),
                None => frame::frame(Opcode::Close, &[]),
            };
            self.begin_sending().push([echo]);
            self.state.set(State::Closed);
        }
        self.end();
    }

    /// Nothing more is exchanged: what waits is sent, and the connection ends.
    pub(crate) fn end(&self) {
        self.count_as_lost();
        self.state.set(State::Closed);
        self.wake();
    }

    /// Counts a session that ends without a close from either side.
    fn count_as_lost(&self) {
        if self.takes_messages() {
            self.sessions.metrics.session_closed(1006);
        }
    }

    /// Reads no more, and closes when everything in flight is answered.
    pub(super) fn drain(&self) {
        if self.state.get() == State::Open {
            self.state.set(State::Draining);
            if self.in_flight.get() == 0 {
                self.close(Why::GOING_AWAY);
            }
        }
    }

    /// One second later: pings, closes what is silent; `false` if the connection is to be cut.
    pub(super) fn look(&self, now: Tick) -> bool {
        let since = |then: Tick| now.wrapping_sub(then);
        if self.control_frames.take() >= CONTROL_FRAMES_PER_SECOND {
            self.wake();
        }
        let is_stalled = self.outbox.borrow().len() > 0 && since(self.taken_at.get()) > STALL_MAX;
        if is_stalled && self.takes_messages() {
            self.evict(Why::NOT_READING);
            // The rest of a frame that was begun would come before the reason; a large one is not kept for that.
            return self.outbox.borrow().len() <= self.budget;
        }
        match self.state.get() {
            State::Closing(began) => return since(began) <= CLOSE_MAX,
            State::Closed => return since(self.heard_at.get()) <= CLOSE_MAX + STALL_MAX,
            State::Open | State::Draining => {}
        }
        if let Some(began) = self.message_since.get()
            && since(began) > self.sessions.message_max
        {
            self.close(Why::TOO_SLOW);
            return true;
        }
        if since(self.pinged_at.get()) >= PING_EVERY {
            self.pinged_at.set(now);
            if self.unanswered.get() >= UNANSWERED_MAX {
                self.close(Why::NO_PONG);
                return false;
            }
            self.unanswered.set(self.unanswered.get() + 1);
            self.begin_sending().push([frame::frame(Opcode::Ping, &[])]);
            self.wake();
        }
        true
    }

    // --- who waits for it --------------------------------------------------------------------------------------------

    /// Notes whom to wake when there is something to do.
    pub(super) fn wakes(&self, cx: &Context<'_>) {
        let waker = match self.waker.take() {
            Some(waker) if waker.will_wake(cx.waker()) => waker,
            _ => cx.waker().clone(),
        };
        self.waker.set(Some(waker));
    }

    /// Has the session's connection look at it.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            self.waker.set(Some(waker));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.count_as_lost();
        self.sessions.metrics.sessions.dec();
    }
}
