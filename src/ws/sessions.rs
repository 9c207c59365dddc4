//! All sessions of one worker.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix_web::rt;
use nearhead_actors::shutdown_state::ShutdownState;

use super::{session::Session, shared::SessionsShared};
use crate::{
    access::{Access, Grant, Now, SessionPermit},
    connections::{ConnectionHandle, every, every_second, every_turn},
    metrics::Metrics,
    subscriptions::SessionSubscriptions,
    tenants::UsageMeter,
};

/// How often sessions are checked after a change of keys: a revocation holds for open sessions
/// within a second.
const ACCESS_CHECK: Duration = Duration::from_millis(250);

/// Sessions that the clock visits in one turn of the event loop, because those of a crowd are all
/// pinged in the same second: to ping as many takes half a millisecond, and to cut them more.
pub(super) const VISITED_MAX: usize = 64;

/// All sessions of one worker.
pub(crate) struct Sessions {
    pub(super) shared: Rc<SessionsShared>,
    pub(super) open: Rc<OpenSessions>,
}

/// The sessions that the clock visits once a second: some in each turn of the event loop, so that
/// all other work of the thread has its turns in between.
pub(super) struct OpenSessions {
    /// Those that have come or were visited in this second.
    visited: RefCell<VecDeque<Weak<Session>>>,
    /// The others.
    to_visit: RefCell<VecDeque<Weak<Session>>>,
    /// How many of those in `to_visit` are to be asked to end.
    to_drain: Cell<usize>,
    /// Whether some are visited in each turn now.
    is_visiting: Cell<bool>,
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
        every_second(Rc::downgrade(&this.shared), move |shared| {
            open.tick(shared);
            open.visit_rest_in_turns();
        });
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
                visited: RefCell::default(),
                to_visit: RefCell::default(),
                to_drain: Cell::new(0),
                is_visiting: Cell::new(false),
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
        let weak = Rc::downgrade(&session);
        self.open.visited.borrow_mut().push_back(weak);
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
        for sessions in [&self.visited, &self.to_visit] {
            for session in sessions.borrow().iter().filter_map(Weak::upgrade) {
                session.check_grant(now);
            }
        }
    }

    /// Called once a second: begins to visit all sessions.
    pub(super) fn tick(&self, shared: &SessionsShared) {
        // Turns are long on a busy machine. Those that are left of the last second wait no longer.
        self.visit(usize::MAX);
        shared.advance();
        self.to_drain.set(self.count_to_drain(Instant::now()));
        self.to_visit.swap(&self.visited);
        self.visit(VISITED_MAX);
    }

    /// Visits the rest in the next turns of the event loop.
    pub(super) fn visit_rest_in_turns(self: &Rc<Self>) {
        if self.has_more_to_visit() && !self.is_visiting.replace(true) {
            rt::spawn(every_turn(Rc::downgrade(self), |this| {
                this.visit(VISITED_MAX);
                this.is_visiting.set(this.has_more_to_visit());
                this.is_visiting.get()
            }));
        }
    }

    /// Visits the next sessions, so many at most, for heartbeats, evictions, shutdown and keys that
    /// expire. Forgets those that have ended.
    fn visit(&self, most: usize) {
        let now = Now {
            instant: Instant::now(),
            unix: SystemTime::now().into(),
        };
        for _ in 0..most {
            let Some(weak) = self.to_visit.borrow_mut().pop_front() else {
                return;
            };
            let Some(session) = weak.upgrade() else {
                continue;
            };
            session.charge_notifications(now);
            session.check_grant(now.unix);
            let to_drain = self.to_drain.get();
            if to_drain > 0 && session.drain() {
                self.to_drain.set(to_drain - 1);
            }
            if session.tick() {
                self.visited.borrow_mut().push_back(weak);
            } else {
                session.connection.cut_overdue();
            }
        }
    }

    fn has_more_to_visit(&self) -> bool {
        !self.to_visit.borrow().is_empty()
    }

    /// How many sessions to ask to end in this second, once the service goes away: an equal share
    /// in each second that is left, so that their clients do not all connect elsewhere at once.
    fn count_to_drain(&self, now: Instant) -> usize {
        let Some(last) = self.shutdown.sessions_end() else {
            return 0;
        };
        let sessions = self.visited.borrow();
        let sessions = sessions.iter().filter_map(Weak::upgrade);
        let open = sessions.filter(|session| session.is_open()).count();
        open.div_ceil(1 + last.saturating_duration_since(now).as_secs() as usize)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.visited.borrow().is_empty() && self.to_visit.borrow().is_empty()
    }
}
