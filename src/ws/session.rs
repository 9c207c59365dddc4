//! One session: what waits to be sent, what may be read, when it ends.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use nearhead_chain::json::Piece;
use nearhead_tenants::UnixMillis;
use tokio::sync::Semaphore;

use super::{
    close_reason::CloseReason,
    frame::{self, FrameKind, Opcode},
    outbox::Outbox,
    shared::SessionsShared,
};
use crate::{
    access::{Grant, Now, Refused, SessionPermit},
    connections::{ConnectionHandle, HeldReply, Tick},
    limits::{
        CONTROL_FRAMES_PER_SECOND, JOINED_REPLY_BYTES_MAX, SESSION_REQUESTS_MAX,
        WRITE_STALL_TIMEOUT,
    },
    subscriptions::SessionSubscriptions,
};

/// Seconds between two pings.
const PING_EVERY: Tick = 30;

/// Pings without an answer after which the client counts as gone.
const UNANSWERED_MAX: u8 = 2;

/// Seconds that a client has to close its side once everything is sent, or to start reading again
/// once it is evicted.
pub(super) const CLOSE_MAX: Tick = 3;

/// Seconds after the last ping within which its answer must come: a session that is closed for a
/// missing answer then ends before the next ping is due.
const PONG_MAX: Tick = PING_EVERY - CLOSE_MAX - 1;

/// Seconds after which a client that takes no byte counts as stalled.
pub(super) const STALL_MAX: Tick = WRITE_STALL_TIMEOUT.as_secs() as Tick;

/// Bytes that the answers to single requests in flight may hold together.
const SINGLE_ANSWERS_MAX: usize = SESSION_REQUESTS_MAX * JOINED_REPLY_BYTES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionState {
    Open,
    /// The service stops: requests in flight are answered, and no further message is read.
    Draining,
    /// A close frame is sent last. A client that takes no byte for this many seconds is cut off.
    Closing(Tick),
    /// Both sides have closed, or the connection is broken.
    Closed,
}

/// The client's message that is arriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// There is none.
    Nothing,
    /// Its first header was read, but none of its bytes was passed to the actor.
    Announced,
    /// Its bytes have been passed to the actor since this second.
    Since(Tick),
}

/// The state of one session. Its actor and the streams of its connection own it; everything else
/// holds it weakly.
pub(crate) struct Session {
    pub(super) shared: Rc<SessionsShared>,
    pub(crate) subscriptions: SessionSubscriptions,
    pub(super) connection: ConnectionHandle,
    outbox: RefCell<Outbox>,
    /// For the buffers of the connection, while a large answer may be in them.
    pub(super) buffer: RefCell<Option<HeldReply>>,
    state: Cell<SessionState>,
    waker: Cell<Option<Waker>>,
    /// Whether it waits for the hub to wake it.
    pub(super) is_wake_queued: Cell<bool>,
    in_flight: Cell<usize>,
    /// The permit for one large answer.
    large_answer: Arc<Semaphore>,
    /// Whether a frame was passed to the actor and is not handled yet.
    frame_pending: Cell<bool>,
    incoming: Cell<Incoming>,
    /// Whether the last call of [`may_read`](Self::may_read) returned `false`.
    is_paused: Cell<bool>,
    /// Control frames since the last tick.
    control_frames: Cell<u32>,
    pinged_at: Cell<Tick>,
    /// Pings since the client last sent anything.
    unanswered: Cell<u8>,
    /// Notifications since the last tick, and their bytes.
    notified: Cell<(u64, u64)>,
    /// When the client last took bytes, or, if none waited then, when the next ones were queued.
    taken_at: Cell<Tick>,
    /// Its right to be answered.
    pub(super) grant: Grant,
    _permit: SessionPermit,
}

impl Session {
    pub(super) fn new(
        shared: Rc<SessionsShared>,
        grant: Grant,
        permit: SessionPermit,
        subscriptions: SessionSubscriptions,
        connection: ConnectionHandle,
    ) -> Self {
        let now = shared.now();
        shared.metrics.sessions.inc();
        shared.usage.session_opened(grant.last_key().record.id);
        Self {
            shared,
            subscriptions,
            connection,
            outbox: RefCell::default(),
            buffer: RefCell::default(),
            state: Cell::new(SessionState::Open),
            waker: Cell::new(None),
            is_wake_queued: Cell::new(false),
            in_flight: Cell::new(0),
            large_answer: Arc::new(Semaphore::new(1)),
            frame_pending: Cell::new(false),
            incoming: Cell::new(Incoming::Nothing),
            is_paused: Cell::new(false),
            control_frames: Cell::new(0),
            pinged_at: Cell::new(now),
            unanswered: Cell::new(0),
            notified: Cell::default(),
            taken_at: Cell::new(now),
            grant,
            _permit: permit,
        }
    }

    // --- sending ---

    /// Queues a notification's frame, unless more than half of the budget would then be used: the
    /// other half is for answers. Returns `false` if the frame was not queued. A frame larger than
    /// half of the budget is queued when nothing else waits.
    pub(super) fn queue_notification(&self, pieces: [Bytes; 3]) -> bool {
        if !self.takes_messages() {
            return true;
        }
        let waiting = self.outbox.borrow().held();
        let len: usize = pieces.iter().map(Bytes::len).sum();
        let (count, bytes) = self.notified.get();
        if waiting > 0 && waiting + len > self.shared.budget / 2 {
            return false;
        }
        self.notified.set((count + 1, bytes + len as u64));
        self.begin_sending().push(pieces.map(Piece::Own));
        true
    }

    /// Answers a ping.
    pub(crate) fn pong(&self, payload: &[u8]) {
        if self.takes_messages() {
            self.begin_sending()
                .push([Piece::Own(frame::frame(Opcode::Pong, payload))]);
        }
    }

    /// The outbox, to add to. If it is empty, the client has time to take the bytes from now on.
    pub(super) fn begin_sending(&self) -> std::cell::RefMut<'_, Outbox> {
        let outbox = self.outbox.borrow_mut();
        if outbox.is_empty() {
            self.taken_at.set(self.shared.now());
        }
        outbox
    }

    /// Whether half of the budget is free. Otherwise the session neither reads a new message nor
    /// catches up.
    pub(crate) fn has_room(&self) -> bool {
        self.outbox.borrow().held() <= self.shared.budget / 2
    }

    /// Bytes that the answer to a batch may hold: half of the budget, less the share of
    /// answers to single requests. The other half may be in use when the batch is read.
    pub(crate) fn batch_held_max(&self) -> usize {
        (self.shared.budget / 2).saturating_sub(SINGLE_ANSWERS_MAX)
    }

    /// The pieces that wait, before they are joined.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<Bytes> {
        self.outbox.borrow().pieces()
    }

    /// Whether a frame is sent in part.
    pub(super) fn is_within_frame(&self) -> bool {
        self.outbox.borrow().is_within_frame()
    }

    /// Takes the next bytes to send.
    pub(super) fn take(&self, most: usize) -> Option<Bytes> {
        let popped = self.outbox.borrow_mut().pop(most);
        let Ok(bytes) = popped else {
            // The client would read whatever follows as the rest of the truncated message.
            self.count_as_lost();
            self.state.set(SessionState::Closed);
            self.outbox.take();
            self.connection.cut();
            return None;
        };
        let bytes = bytes?;
        self.connection.passed_on();
        self.taken_at.set(self.shared.now());
        if let Some(buffer) = &*self.buffer.borrow() {
            buffer.progressed(Instant::now());
        }
        Some(bytes)
    }

    // --- receiving ---

    /// Whether more may be read: one frame at a time, and the next message once it can be answered.
    pub(super) fn may_read(&self) -> bool {
        let may_read = !self.frame_pending.get()
            && self.control_frames.get() < CONTROL_FRAMES_PER_SECOND
            && self.state.get() != SessionState::Closed
            && !self.defers_message();
        self.is_paused.set(!may_read);
        may_read
    }

    /// Whether reading was paused and must be tried again.
    pub(super) fn take_paused(&self) -> bool {
        self.is_paused.take()
    }

    /// Whether the client's next message waits until it can be answered. A message that was passed
    /// on in part is read to its end.
    fn defers_message(&self) -> bool {
        self.incoming.get() == Incoming::Announced
            && match self.state.get() {
                SessionState::Open => {
                    self.in_flight.get() >= SESSION_REQUESTS_MAX || !self.has_room()
                }
                // The client's close frame may follow it.
                SessionState::Closing(_) => false,
                SessionState::Draining | SessionState::Closed => true,
            }
    }

    /// Records that the first header of a message was read.
    pub(super) fn message_announced(&self) {
        if self.incoming.get() == Incoming::Nothing {
            self.incoming.set(Incoming::Announced);
        }
    }

    /// Records that bytes are passed to the actor.
    pub(super) fn bytes_passed(&self) {
        if self.incoming.get() == Incoming::Announced {
            self.incoming.set(Incoming::Since(self.shared.now()));
        }
    }

    /// Records that a whole frame was passed to the actor.
    pub(super) fn frame_passed(&self, kind: FrameKind) {
        match kind {
            FrameKind::Part => {}
            FrameKind::Last => self.incoming.set(Incoming::Nothing),
            FrameKind::Control => self.control_frames.set(self.control_frames.get() + 1),
        }
        self.frame_pending.set(true);
    }

    /// Records that the actor has handled the frame that was passed to it.
    pub(super) fn frame_handled(&self) {
        self.frame_pending.set(false);
    }

    #[cfg(test)]
    pub(super) fn is_frame_pending(&self) -> bool {
        self.frame_pending.get()
    }

    /// Records that the client sent something, which shows that it is alive.
    pub(super) fn bytes_received(&self) {
        self.unanswered.set(0);
    }

    /// One permit, kept until an answer that may be large is taken.
    pub(crate) fn large_answer(&self) -> Arc<Semaphore> {
        Arc::clone(&self.large_answer)
    }

    /// Records that a request is in flight.
    pub(crate) fn begin_request(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Records that a request was answered.
    pub(crate) fn end_request(&self) {
        self.in_flight.set(self.in_flight.get().saturating_sub(1));
        if self.state.get() == SessionState::Draining && self.in_flight.get() == 0 {
            self.close(CloseReason::GOING_AWAY);
        }
        // The next message may be read now.
        self.wake();
    }

    // --- ending ---

    /// Whether messages are still exchanged.
    pub(crate) fn takes_messages(&self) -> bool {
        matches!(
            self.state.get(),
            SessionState::Open | SessionState::Draining
        )
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.get() == SessionState::Closed
    }

    /// Closes the session once everything that waits is sent.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.begin_closing(reason, STALL_MAX);
    }

    /// Closes the session and discards what waits, which a client that does not read would not read
    /// either.
    pub(crate) fn evict(&self, reason: CloseReason) {
        if self.takes_messages() {
            self.outbox.borrow_mut().clear();
            self.taken_at.set(self.shared.now());
            self.begin_closing(reason, CLOSE_MAX);
        }
    }

    fn begin_closing(&self, reason: CloseReason, stall_max: Tick) {
        if self.takes_messages() {
            self.shared.metrics.session_closed(reason.code);
            self.begin_sending()
                .push([Piece::Own(frame::close(reason.code, reason.text))]);
            self.state.set(SessionState::Closing(stall_max));
            self.wake();
        }
    }

    /// Handles the client's close frame: echoes it, unless it answers ours. Of what waits, only the
    /// rest of a frame that is sent in part is still sent.
    pub(crate) fn close_received(&self, code: Option<u16>) {
        if self.takes_messages() {
            self.shared.metrics.session_closed(code.unwrap_or(1005));
            let echo = match code {
                Some(code) => frame::close(code, ""),
                None => frame::frame(Opcode::Close, &[]),
            };
            self.outbox.borrow_mut().clear();
            self.begin_sending().push([Piece::Own(echo)]);
            self.state.set(SessionState::Closed);
        }
        self.end();
    }

    /// Ends the exchange: the connection ends once what waits is sent.
    pub(crate) fn end(&self) {
        self.count_as_lost();
        self.state.set(SessionState::Closed);
        self.taken_at.set(self.shared.now());
        self.wake();
    }

    /// Counts a session that ends without a close from either side.
    fn count_as_lost(&self) {
        if self.takes_messages() {
            self.shared.metrics.session_closed(1006);
        }
    }

    /// Counts and charges the notifications since the last call.
    pub(super) fn charge_notifications(&self, now: Now) {
        let (count, bytes) = self.notified.take();
        if count > 0 {
            let key = self.grant.last_key();
            let units = self.shared.usage.notified(key.record.id, count, bytes);
            key.charge(units, now);
        }
    }

    /// Closes the session if it is no longer let in, or has a subscription that its key may no
    /// longer have.
    pub(super) fn check_grant(&self, now: UnixMillis) {
        if !self.takes_messages() {
            return;
        }
        let checked = self.grant.key(now).and_then(|key| {
            let checked = self.subscriptions.check(key);
            checked.map_err(Refused::NotListed)
        });
        if let Err(refused) = checked {
            self.close(CloseReason::of(refused));
        }
    }

    /// Whether nothing ends it yet.
    pub(super) fn is_open(&self) -> bool {
        self.state.get() == SessionState::Open
    }

    /// Stops reading new messages, and closes once all requests in flight are answered. Returns
    /// whether it was open.
    pub(super) fn drain(&self) -> bool {
        let was_open = self.is_open();
        if was_open {
            self.state.set(SessionState::Draining);
            if self.in_flight.get() == 0 {
                self.close(CloseReason::GOING_AWAY);
            }
        }
        was_open
    }

    /// Called once a second: pings, or closes a session whose client is silent or too slow. Returns
    /// `false` if the connection must be cut.
    pub(super) fn tick(&self) -> bool {
        let now = self.shared.now();
        if self.control_frames.take() >= CONTROL_FRAMES_PER_SECOND {
            self.wake();
        }
        if self.in_flight.get() > 0 && self.connection.is_gone() {
            // Reading does not show this while unread bytes from the client come first.
            self.end();
            return false;
        }
        let stalled = self.stalled_for(now);
        match self.state.get() {
            SessionState::Closing(stall_max) => return self.has_time_left(stalled, stall_max),
            SessionState::Closed => return self.has_time_left(stalled, STALL_MAX),
            SessionState::Open | SessionState::Draining => {}
        }
        if stalled > STALL_MAX && !self.outbox.borrow().is_empty() {
            self.evict(CloseReason::NOT_READING);
        } else if let Incoming::Since(began) = self.incoming.get()
            && now.wrapping_sub(began) > self.shared.message_max
        {
            self.close(CloseReason::TOO_SLOW);
        } else {
            self.heartbeat(now);
        }
        true
    }

    /// Seconds since the client last took bytes, or, if none waited then, since the next ones were
    /// queued.
    fn stalled_for(&self, now: Tick) -> Tick {
        now.wrapping_sub(self.taken_at.get())
    }

    /// Whether a session that is ending has time left: a client that reads gets everything, and
    /// then a moment to close its side.
    fn has_time_left(&self, stalled: Tick, stall_max: Tick) -> bool {
        let is_sent = self.outbox.borrow().is_empty() && self.connection.has_sent_all();
        stalled <= if is_sent { CLOSE_MAX } else { stall_max }
    }

    /// Pings when it is time, and evicts a client that answers no ping. While reading is deferred,
    /// its pongs may wait unread, so unanswered pings do not count.
    fn heartbeat(&self, now: Tick) {
        let since_ping = now.wrapping_sub(self.pinged_at.get());
        if since_ping >= PONG_MAX
            && self.unanswered.get() >= UNANSWERED_MAX
            && !self.defers_message()
        {
            self.evict(CloseReason::NO_PONG);
        } else if since_ping >= PING_EVERY {
            self.pinged_at.set(now);
            if !self.defers_message() {
                self.unanswered.set(self.unanswered.get() + 1);
            }
            self.begin_sending()
                .push([Piece::Own(frame::frame(Opcode::Ping, &[]))]);
            self.wake();
        }
    }

    // --- waking ---

    /// Sets the task that [`wake`](Self::wake) wakes.
    pub(super) fn set_waker(&self, cx: &Context<'_>) {
        let waker = match self.waker.take() {
            Some(waker) if waker.will_wake(cx.waker()) => waker,
            _ => cx.waker().clone(),
        };
        self.waker.set(Some(waker));
    }

    /// Wakes the session's connection to be polled.
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
        self.charge_notifications(Now {
            instant: Instant::now(),
            unix: SystemTime::now().into(),
        });
        self.shared.metrics.sessions.dec();
    }
}
