//! What one worker has counted, and how it gets to the tenants' actor.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use actix::Addr;
use nearhead_tenants::{
    id::KeyId,
    usage::{RequestUse, UsageCounts},
};

use super::{messages::AddUsage, tenants_actor::TenantsActor};
use crate::{
    connections::every,
    rpc::{MINIMUM_UNITS, NOTIFICATION_UNITS},
};

/// How often a worker hands over what it has counted: often enough that this is small. A busy
/// worker uses 50,000 keys a second, and what it hands over is in memory up to three times.
const HAND_OVER: Duration = Duration::from_millis(250);

/// What one worker, or the thread of its large bodies, has counted; cloning shares it. Nobody else
/// touches it, so counting takes no
/// lock.
#[derive(Clone, Debug, Default)]
pub struct UsageMeter(Rc<MeterState>);

#[derive(Debug, Default)]
struct MeterState {
    counts: RefCell<UsageCounts>,
    /// Whether counts are on their way. Until they have arrived, the next ones wait here.
    is_sending: Cell<bool>,
}

impl UsageMeter {
    /// A meter whose counts are handed to `tenants` four times a second.
    fn start(tenants: Addr<TenantsActor>) -> Self {
        let this = Self::default();
        let state = Rc::downgrade(&this.0);
        every(HAND_OVER, state.clone(), move |_| {
            if let Some(state) = state.upgrade() {
                hand_over(&state, &tenants);
            }
        });
        this
    }

    /// A meter whose counts `tenants` gets, or nobody.
    pub(crate) fn start_for(tenants: Option<&Addr<TenantsActor>>) -> Self {
        tenants.map_or_else(Self::default, |tenants| Self::start(tenants.clone()))
    }

    /// Counts one request. It is not inlined, so that its cost can be counted as well
    /// (`load-tests/compare --only 'tenants, usage'`).
    #[inline(never)]
    pub(crate) fn request(&self, key: KeyId, request: &RequestUse) {
        self.0.counts.borrow_mut().request(key, request);
    }

    /// Counts a session that opens. Its handshake costs what a request costs at least.
    pub(crate) fn session_opened(&self, key: KeyId) {
        self.0
            .counts
            .borrow_mut()
            .session_opened(key, MINIMUM_UNITS);
    }

    /// Counts notifications, and returns what they cost in units.
    pub(crate) fn notified(&self, key: KeyId, notifications: u64, bytes: u64) -> u64 {
        let units = notifications * NOTIFICATION_UNITS;
        let mut counts = self.0.counts.borrow_mut();
        counts.notified(key, notifications, units, bytes);
        units
    }
}

fn hand_over(state: &Rc<MeterState>, tenants: &Addr<TenantsActor>) {
    let mut counts = state.counts.borrow_mut();
    if counts.is_empty() {
        return counts.rest();
    }
    if state.is_sending.replace(true) {
        return;
    }
    let taken = counts.take();
    drop(counts);
    let (state, sending) = (Rc::clone(state), tenants.send(AddUsage(taken)));
    actix::spawn(async move {
        // This fails if the service stops; its last counts are lost with it.
        let _ = sending.await;
        state.is_sending.set(false);
    });
}
