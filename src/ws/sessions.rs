//! All sessions of one worker.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{session::Session, shared::SessionsShared};
use crate::{
    access::SessionPermit,
    connections::{ConnectionHandle, every_second},
    metrics::Metrics,
    subscriptions::SessionSubscriptions,
};

/// All sessions of one worker.
pub(crate) struct Sessions {
    pub(super) shared: Rc<SessionsShared>,
    pub(super) open: Rc<OpenSessions>,
}

/// The sessions that the clock visits once a second.
pub(super) struct OpenSessions {
    sessions: RefCell<Vec<Weak<Session>>>,
    /// Set when the service stops.
    pub(super) draining: Arc<AtomicBool>,
}

impl Sessions {
    /// Starts the clock on the current thread. It runs as long as this value or a session is held.
    pub(crate) fn start(
        budget: usize,
        message_max: Duration,
        draining: Arc<AtomicBool>,
        metrics: Metrics,
    ) -> Self {
        let this = Self::new(budget, message_max, draining, metrics);
        let open = Rc::clone(&this.open);
        every_second(Rc::downgrade(&this.shared), move |shared| open.tick(shared));
        this
    }

    pub(super) fn new(
        budget: usize,
        message_max: Duration,
        draining: Arc<AtomicBool>,
        metrics: Metrics,
    ) -> Self {
        Self {
            shared: Rc::new(SessionsShared::new(budget, message_max, metrics)),
            open: Rc::new(OpenSessions {
                sessions: RefCell::default(),
                draining,
            }),
        }
    }

    /// A new session on this connection.
    pub(crate) fn open(
        &self,
        permit: SessionPermit,
        subscriptions: SessionSubscriptions,
        connection: ConnectionHandle,
    ) -> Rc<Session> {
        let shared = Rc::clone(&self.shared);
        let session = Rc::new(Session::new(shared, permit, subscriptions, connection));
        self.open
            .sessions
            .borrow_mut()
            .push(Rc::downgrade(&session));
        session
    }
}

impl OpenSessions {
    /// Called once a second for heartbeats, evictions and shutdown.
    pub(super) fn tick(&self, shared: &SessionsShared) {
        let now = shared.advance();
        let is_draining = self.draining.load(Ordering::Relaxed);
        self.sessions.borrow_mut().retain(|session| {
            let Some(session) = session.upgrade() else {
                return false;
            };
            if is_draining {
                session.drain();
            }
            let stays = session.tick(now);
            if !stays {
                session.connection.cut();
            }
            stays
        });
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.borrow().is_empty()
    }
}
