//! One session, as everybody on its worker knows it: what it has to send, what it is at, what it
//! follows.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
};

use bytes::Bytes;
use nearhead_actors::admission::Permit;
use nearhead_chain::json::{Json, Piece};
use tokio::sync::Semaphore;

use super::{
    Sessions,
    frame::{self, FrameKind, Opcode},
    outbox::Outbox,
};
use crate::{
    access::SessionSlot,
    connections::ConnectionHandle,
    limits::{
        CONTROL_FRAMES_PER_SECOND, JOINED_REPLY_BYTES_MAX, SESSION_REQUESTS_MAX,
        WRITE_STALL_TIMEOUT,
    },
    subscriptions::SessionSubscriptions,
};

/// Seconds since the worker began.
pub(super) type Tick = u32;

/// Seconds between two pings.
const PING_EVERY: Tick = 30;

/// Pings without an answer after which the other side is taken for gone.
const UNANSWERED_MAX: u8 = 2;

/// Seconds that a client has to close its side when everything was sent, and to go on reading if it
/// did not read.
const CLOSE_MAX: Tick = 3;

/// Seconds after the last ping that is waited for its answer: with the close, a session ends before
/// the next one.
const PONG_MAX: Tick = PING_EVERY - CLOSE_MAX - 1;

/// Seconds without a byte taken after which a client is taken for stalled.
const STALL_MAX: Tick = WRITE_STALL_TIMEOUT.as_secs() as Tick;

/// What the answers to single requests that are under way may hold together.
const SINGLE_ANSWERS_MAX: usize = SESSION_REQUESTS_MAX * JOINED_REPLY_BYTES_MAX;

/// CloseReason a session is closed (RFC 6455 §7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseReason {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

impl CloseReason {
    pub(crate) const GOING_AWAY: Self = Self::new(1001, "the service is going away");
    pub(crate) const PROTOCOL: Self = Self::new(1002, "protocol violation");
    pub(crate) const NOT_UTF8: Self = Self::new(1007, "text is not UTF-8");
    pub(crate) const TOO_SLOW: Self = Self::new(1008, "message took too long");
    pub(crate) const TOO_LARGE: Self = Self::new(1009, "message too large, send at most 32 MiB");
    pub(crate) const NOT_READING: Self = Self::new(1013, "nothing was read for 10 seconds");
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
    /// A close frame is the last that is sent; a client that does not take a byte for so long is
    /// cut off.
    Closing(Tick),
    /// Both sides are done, or nothing can be saved.
    Closed,
}

/// What is known of the client's present message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// There is none.
    Nothing,
    /// It was announced; nothing of it was let in yet.
    Announced,
    /// It is coming in since this time.
    Since(Tick),
}

/// A session's shared part; its actor and its connection's stream own it, everybody else knows it
/// weakly.
pub(crate) struct Session {
    /// The registry of its worker.
    pub(super) sessions: Rc<Sessions>,
    /// What it follows.
    pub(crate) subscriptions: SessionSubscriptions,
    /// Its connection.
    pub(super) connection: ConnectionHandle,
    outbox: RefCell<Outbox>,
    budget: usize,
    state: Cell<State>,
    waker: Cell<Option<Waker>>,
    in_flight: Cell<usize>,
    /// The right to work out an answer that may be large.
    turn: Arc<Semaphore>,
    /// Whether a frame was let in that the actor has not seen yet.
    is_handing_over: Cell<bool>,
    incoming: Cell<Incoming>,
    /// Whether nothing was read when it was looked at last.
    is_held_back: Cell<bool>,
    /// Control frames that were let in since the last tick.
    control_frames: Cell<u32>,
    pinged_at: Cell<Tick>,
    unanswered: Cell<u8>,
    taken_at: Cell<Tick>,
    _slot: SessionSlot,
}

impl Session {
    pub(super) fn new(
        sessions: Rc<Sessions>,
        slot: SessionSlot,
        subscriptions: SessionSubscriptions,
        connection: ConnectionHandle,
    ) -> Self {
        let now = sessions.now();
        sessions.metrics.sessions.inc();
        Self {
            budget: sessions.budget,
            sessions,
            subscriptions,
            connection,
            outbox: RefCell::default(),
            state: Cell::new(State::Open),
            waker: Cell::new(None),
            in_flight: Cell::new(0),
            turn: Arc::new(Semaphore::new(1)),
            is_handing_over: Cell::new(false),
            incoming: Cell::new(Incoming::Nothing),
            is_held_back: Cell::new(false),
            control_frames: Cell::new(0),
            pinged_at: Cell::new(now),
            unanswered: Cell::new(0),
            taken_at: Cell::new(now),
            _slot: slot,
        }
    }

    // --- what goes out -----------------------------------------------------------------------------------------------

    /// Sends an answer, whose `turn` is over when it is taken. However large it is, it holds little
    /// until then.
    pub(crate) fn answer(&self, json: Json, turn: Option<Permit>) {
        if !self.takes_messages() {
            return;
        }
        let mut outbox = self.begin_sending();
        let header = frame::header(Opcode::Text, json.len());
        outbox.push(std::iter::once(Piece::Own(header)).chain(json.into_pieces()));
        if let Some(turn) = turn {
            outbox.keep(turn);
        }
        drop(outbox);
        self.wake();
    }

    /// Sends a message in pieces, unless more would wait than half of the budget, the other half
    /// being for answers; whether it did. Never waits. A message larger than that goes alone.
    pub(crate) fn notify(&self, pieces: [Bytes; 3]) -> bool {
        if !self.takes_messages() {
            return true;
        }
        let waiting = self.outbox.borrow().held();
        let len: usize = pieces.iter().map(Bytes::len).sum();
        if waiting > 0 && waiting + len > self.budget / 2 {
            return false;
        }
        self.begin_sending().push(pieces.map(Piece::Own));
        self.wake();
        true
    }

    /// Answers a ping.
    pub(crate) fn pong(&self, payload: &[u8]) {
        if self.takes_messages() {
            self.begin_sending()
                .push([Piece::Own(frame::frame(Opcode::Pong, payload))]);
        }
    }

    /// The outbox; a pause in which nothing was to be sent is no stall.
    fn begin_sending(&self) -> std::cell::RefMut<'_, Outbox> {
        let outbox = self.outbox.borrow_mut();
        if outbox.is_empty() {
            self.taken_at.set(self.sessions.now());
        }
        outbox
    }

    /// Whether half of the budget is free: what the session asks for itself is done only then.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.borrow().held() <= self.budget / 2
    }

    /// Bytes that the answer to a batch may hold: with what waits when it is read, half of the
    /// budget, and with the answers beside it, it is within the budget.
    pub(crate) fn room(&self) -> usize {
        (self.budget / 2).saturating_sub(SINGLE_ANSWERS_MAX)
    }

    /// What waits, before it is put together.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<Bytes> {
        self.outbox.borrow().pieces()
    }

    /// Takes the next bytes to send.
    pub(crate) fn take(&self, most: usize) -> Option<Bytes> {
        let popped = self.outbox.borrow_mut().pop(most);
        let Ok(bytes) = popped else {
            // What follows would be taken for a part of the message that is torn.
            self.count_as_lost();
            self.state.set(State::Closed);
            self.outbox.take();
            self.connection.cut();
            return None;
        };
        let bytes = bytes?;
        self.taken_at.set(self.sessions.now());
        Some(bytes)
    }

    // --- what comes in -----------------------------------------------------------------------------------------------

    /// Whether more may be read: one frame after the other, and the next message when it can be
    /// answered.
    pub(super) fn reads(&self) -> bool {
        let reads = !self.is_handing_over.get()
            && self.control_frames.get() < CONTROL_FRAMES_PER_SECOND
            && self.state.get() != State::Closed
            && !self.holds_back();
        self.is_held_back.set(!reads);
        reads
    }

    /// Whether something was not read when it was looked at last, that may be read now.
    pub(super) fn was_held_back(&self) -> bool {
        self.is_held_back.take()
    }

    /// Whether the client's next message waits until it can be answered. One that was begun is read
    /// to its end.
    fn holds_back(&self) -> bool {
        self.incoming.get() == Incoming::Announced
            && match self.state.get() {
                State::Open => self.in_flight.get() >= SESSION_REQUESTS_MAX || !self.has_room(),
                // The client's close may come behind it.
                State::Closing(_) => false,
                State::Draining | State::Closed => true,
            }
    }

    /// Notes that the next message is there to be read.
    pub(super) fn message_announced(&self) {
        if self.incoming.get() == Incoming::Nothing {
            self.incoming.set(Incoming::Announced);
        }
    }

    /// Notes that bytes are let in.
    pub(super) fn lets_in(&self) {
        if self.incoming.get() == Incoming::Announced {
            self.incoming.set(Incoming::Since(self.sessions.now()));
        }
    }

    /// Notes that a whole frame was let in.
    pub(super) fn hands_over(&self, kind: FrameKind) {
        match kind {
            FrameKind::Part => {}
            FrameKind::Last => self.incoming.set(Incoming::Nothing),
            FrameKind::Control => self.control_frames.set(self.control_frames.get() + 1),
        }
        self.is_handing_over.set(true);
    }

    /// Whether there is something that the actor has not seen yet.
    #[cfg(test)]
    pub(super) fn is_handing_over(&self) -> bool {
        self.is_handing_over.get()
    }

    /// Notes that the actor has seen what was let in.
    pub(crate) fn handed_over(&self) {
        self.is_handing_over.set(false);
    }

    /// Notes that the other side is there.
    pub(super) fn heard(&self) {
        self.unanswered.set(0);
    }

    /// One permit, kept until an answer that may be large is taken.
    pub(crate) fn turn(&self) -> Arc<Semaphore> {
        Arc::clone(&self.turn)
    }

    /// Notes that a request is being answered.
    pub(crate) fn begin_request(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Notes that a request was answered.
    pub(crate) fn end_request(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        if self.state.get() == State::Draining && self.in_flight.get() == 0 {
            self.close(CloseReason::GOING_AWAY);
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
    pub(crate) fn close(&self, why: CloseReason) {
        self.close_unless_stalled(why, STALL_MAX);
    }

    /// Says why and closes, and throws away what waits: who does not read would not read that
    /// either.
    pub(crate) fn evict(&self, why: CloseReason) {
        if self.takes_messages() {
            self.outbox.borrow_mut().clear();
            self.taken_at.set(self.sessions.now());
            self.close_unless_stalled(why, CLOSE_MAX);
        }
    }

    fn close_unless_stalled(&self, why: CloseReason, stall_max: Tick) {
        if self.takes_messages() {
            self.sessions.metrics.session_closed(why.code);
            self.begin_sending()
                .push([Piece::Own(frame::close(why.code, why.reason))]);
            self.state.set(State::Closing(stall_max));
            self.wake();
        }
    }

    /// The client closed: its close is answered, or was the answer to ours. What it was still to be
    /// sent is not, but for the rest of a frame.
    pub(crate) fn close_came(&self, code: Option<u16>) {
        if self.takes_messages() {
            self.sessions.metrics.session_closed(code.unwrap_or(1005));
            let echo = match code {
                Some(code) => frame::close(code, ""),
                None => frame::frame(Opcode::Close, &[]),
            };
            self.outbox.borrow_mut().clear();
            self.begin_sending().push([Piece::Own(echo)]);
            self.state.set(State::Closed);
        }
        self.end();
    }

    /// Nothing more is exchanged: what waits is sent, and the connection ends.
    pub(crate) fn end(&self) {
        self.count_as_lost();
        self.state.set(State::Closed);
        self.taken_at.set(self.sessions.now());
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
                self.close(CloseReason::GOING_AWAY);
            }
        }
    }

    /// One second later: pings, closes what is silent; `false` if the connection is to be cut.
    pub(super) fn look(&self, now: Tick) -> bool {
        if self.control_frames.take() >= CONTROL_FRAMES_PER_SECOND {
            self.wake();
        }
        if self.in_flight.get() > 0 && self.connection.is_gone() {
            // What it left unread may hide that from whoever reads.
            self.end();
            return false;
        }
        let pause = self.pause(now);
        match self.state.get() {
            State::Closing(stall_max) => return self.still_ends(pause, stall_max),
            State::Closed => return self.still_ends(pause, STALL_MAX),
            State::Open | State::Draining => {}
        }
        if pause > STALL_MAX && !self.outbox.borrow().is_empty() {
            self.evict(CloseReason::NOT_READING);
        } else if let Incoming::Since(began) = self.incoming.get()
            && now.wrapping_sub(began) > self.sessions.message_max
        {
            self.close(CloseReason::TOO_SLOW);
        } else {
            self.beat(now);
        }
        true
    }

    /// Seconds since the client took something, or there was something to take.
    fn pause(&self, now: Tick) -> Tick {
        now.wrapping_sub(self.taken_at.get())
    }

    /// Whether an end is waited for: everything is sent to whoever takes it, then the client closes
    /// its side.
    fn still_ends(&self, pause: Tick, stall_max: Tick) -> bool {
        // No event tells that the last bytes were given to the kernel.
        self.wake();
        let is_sent = self.outbox.borrow().is_empty() && self.connection.is_writable();
        pause <= if is_sent { CLOSE_MAX } else { stall_max }
    }

    /// Pings when it is time, and closes when nobody answers. What is not read cannot be held
    /// against the client.
    fn beat(&self, now: Tick) {
        let since_ping = now.wrapping_sub(self.pinged_at.get());
        if since_ping >= PONG_MAX && self.unanswered.get() >= UNANSWERED_MAX && !self.holds_back() {
            self.evict(CloseReason::NO_PONG);
        } else if since_ping >= PING_EVERY {
            self.pinged_at.set(now);
            if !self.holds_back() {
                self.unanswered.set(self.unanswered.get() + 1);
            }
            self.begin_sending()
                .push([Piece::Own(frame::frame(Opcode::Ping, &[]))]);
            self.wake();
        }
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
