//! All sessions of one worker.

use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use nearhead_actors::shutdown_state::ShutdownState;

use super::{session::Session, shared::SessionsShared};
use crate::{
    access::{Access, Grant, Now, SessionPermit},
    connections::{ConnectionHandle, every, every_second},
    metrics::Metrics,
    subscriptions::SessionSubscriptions,
    tenants::UsageMeter,
};

/// How often sessions are checked after a change of keys: a revocation holds for open sessions
/// within a second.
const ACCESS_CHECK: Duration = Duration::from_millis(250);

/// All sessions of one worker.
pub(crate) struct Sessions {
    pub(super) shared: Rc<SessionsShared>,
    pub(super) open: Rc<OpenSessions>,
}

/// The sessions that the clock visits once a second.
pub(super) struct OpenSessions {
    sessions: RefCell<Vec<Weak<Session>>>,
    pub(super) shutdown: Arc<ShutdownState>,
    pub(super) access: Access,
    /// The version of `access` under which all sessions were checked.
    checked_version: Cell<u64>,
}

impl Sessions {
    /// Starts the clock on the current thread. It runs as long as this value or a session is held.
    pub(crate) fn start(
        budget: usize,
        message_max: Duration,
        shutdown: Arc<ShutdownState>,
        access: Access,
        metrics: Metrics,
        usage: UsageMeter,
    ) -> Self {
        let this = Self::new(budget, message_max, shutdown, access, metrics, usage);
        let open = Rc::clone(&this.open);
        every_second(Rc::downgrade(&this.shared), move |shared| open.tick(shared));
        let open = Rc::clone(&this.open);
        every(ACCESS_CHECK, Rc::downgrade(&this.shared), move |_| {
            open.check_access();
        });
        this
    }

    pub(super) fn new(
        budget: usize,
        message_max: Duration,
        shutdown: Arc<ShutdownState>,
        access: Access,
        metrics: Metrics,
        usage: UsageMeter,
    ) -> Self {
        Self {
            shared: Rc::new(SessionsShared::new(budget, message_max, metrics, usage)),
            open: Rc::new(OpenSessions {
                sessions: RefCell::default(),
                shutdown,
                checked_version: Cell::new(access.version()),
                access,
            }),
        }
    }

    /// A new session on this connection.
    pub(crate) fn open(
        &self,
        grant: Grant,
        permit: SessionPermit,
        subscriptions: SessionSubscriptions,
        connection: ConnectionHandle,
    ) -> Rc<Session> {
        let shared = Rc::clone(&self.shared);
        let session = Rc::new(Session::new(
            shared,
            grant,
            permit,
            subscriptions,
            connection,
        ));
        self.open
            .sessions
            .borrow_mut()
            .push(Rc::downgrade(&session));
        session
    }
}

impl OpenSessions {
    /// Closes the sessions whose keys were revoked or narrowed.
    fn check_access(&self) {
        let version = self.access.version();
        if self.checked_version.replace(version) != version {
            self.check_grants();
        }
    }

    fn check_grants(&self) {
        let now = SystemTime::now().into();
        for session in self.sessions.borrow().iter().filter_map(Weak::upgrade) {
            session.check_grant(now);
        }
    }

    /// Called once a second for heartbeats, evictions, shutdown and keys that expire.
    pub(super) fn tick(&self, shared: &SessionsShared) {
        let access_now = Now {
            instant: Instant::now(),
            unix: SystemTime::now().into(),
        };
        let now = shared.advance();
        let mut to_drain = self.to_drain(access_now.instant);
        self.sessions.borrow_mut().retain(|session| {
            let Some(session) = session.upgrade() else {
                return false;
            };
            session.charge_notifications(access_now);
            session.check_grant(access_now.unix);
            if to_drain > 0 && session.drain() {
                to_drain -= 1;
            }
            let stays = session.tick(now);
            if !stays {
                session.connection.cut_overdue();
            }
            stays
        });
    }

    /// How many sessions to ask to end in this second, once the service goes away: an equal share
    /// in each second that is left, so that their clients do not all connect elsewhere at once.
    fn to_drain(&self, now: Instant) -> usize {
        let Some(last) = self.shutdown.sessions_end() else {
            return 0;
        };
        let sessions = self.sessions.borrow();
        let sessions = sessions.iter().filter_map(Weak::upgrade);
        let open = sessions.filter(|session| session.is_open()).count();
        open.div_ceil(1 + last.saturating_duration_since(now).as_secs() as usize)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.borrow().is_empty()
    }
}
