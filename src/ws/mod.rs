//! WebSocket sessions of one worker: who they are, what they have to send, when they end.
//!
//! | file | what it is |
//! |---|---|
//! | `Sessions` | all of a worker's: admission, heartbeat, eviction, shutdown, by one clock |
//! | `session` | one of them, as everybody on its worker knows it |
//! | `outbox` | bytes that wait, within a budget |
//! | `frame` | frames: what is sent, how those that come in are cut |
//! | `message` | a message that comes in pieces, as far as it is kept |
//! | `inbound`, `outbound` | the two directions of a connection, as streams |
//!
//! The actor of a session is `session_actor`. actix runs it while its connection is polled: a
//! client that does not read stops it. Whatever has to happen all the same, happens here.

pub mod frame;
mod inbound;
mod message;
mod outbound;
mod outbox;
mod session;
pub(crate) mod session_actor;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub(crate) use self::{
    frame::{Opcode, header},
    inbound::Inbound,
    message::{Pieces, Refused},
    outbound::Outbound,
    session::{CloseReason, Session},
};
use crate::{
    access::SessionSlot,
    connections::{ConnectionHandle, every_second},
    metrics::Metrics,
    subscriptions::SessionSubscriptions,
};

/// All sessions of one worker.
pub(crate) struct Sessions {
    now: Cell<session::Tick>,
    all: RefCell<Vec<Weak<Session>>>,
    /// Bytes that may wait for one session.
    budget: usize,
    /// Longest that a message may take to come in.
    message_max: session::Tick,
    draining: Arc<AtomicBool>,
    metrics: Metrics,
}

impl Sessions {
    /// Starts to look after sessions on the present thread, for as long as somebody holds the
    /// registry.
    pub(crate) fn start(
        budget: usize,
        message_max: Duration,
        draining: Arc<AtomicBool>,
        metrics: Metrics,
    ) -> Rc<Self> {
        let this = Rc::new(Self::new(budget, message_max, draining, metrics));
        let sessions = Rc::downgrade(&this);
        every_second(sessions, Self::look);
        this
    }

    pub(crate) fn new(
        budget: usize,
        message_max: Duration,
        draining: Arc<AtomicBool>,
        metrics: Metrics,
    ) -> Self {
        Self {
            now: Cell::new(0),
            all: RefCell::default(),
            budget,
            message_max: session::Tick::try_from(message_max.as_secs())
                .unwrap_or(session::Tick::MAX),
            draining,
            metrics,
        }
    }

    fn now(&self) -> session::Tick {
        self.now.get()
    }

    /// A new session on this connection.
    pub(crate) fn open(
        self: &Rc<Self>,
        slot: SessionSlot,
        subscriptions: SessionSubscriptions,
        connection: ConnectionHandle,
    ) -> Rc<Session> {
        let session = Rc::new(Session::new(
            Rc::clone(self),
            slot,
            subscriptions,
            connection,
        ));
        self.all.borrow_mut().push(Rc::downgrade(&session));
        session
    }

    /// One tick later: heartbeats, evictions, shutdown.
    fn look(&self) {
        let now = self.now.get().wrapping_add(1);
        self.now.set(now);
        let is_draining = self.draining.load(Ordering::Relaxed);
        self.all.borrow_mut().retain(|session| {
            let Some(session) = session.upgrade() else {
                return false;
            };
            if is_draining {
                session.drain();
            }
            let stays = session.look(now);
            if !stays {
                session.connection.cut();
            }
            stays
        });
    }
}
