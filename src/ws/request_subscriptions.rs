//! The subscriptions that one request of a session makes.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use alloy_primitives::B256;
use nearhead_chain::window::Snapshot;
use tokio::sync::Semaphore;

use super::session::Session;
use crate::rpc::{RequestSession, RpcError, SubscriptionKind};

/// What one request of a session subscribes to. The subscriptions start once the request is
/// answered, and are dropped if it is never answered.
pub(crate) struct RequestSubscriptions {
    session: Rc<Session>,
    ids: RefCell<Vec<String>>,
}

impl RequestSubscriptions {
    pub(crate) const fn new(session: Rc<Session>) -> Self {
        Self {
            session,
            ids: RefCell::new(Vec::new()),
        }
    }

    /// Starts the subscriptions: the answer with their ids was sent.
    pub(crate) fn answered(self) {
        for id in self.ids.take() {
            self.session.subscriptions.start(&id);
        }
    }
}

impl Drop for RequestSubscriptions {
    fn drop(&mut self) {
        for id in self.ids.take() {
            self.session.subscriptions.unsubscribe(&id);
        }
    }
}

impl RequestSession for RequestSubscriptions {
    fn subscribe(
        &self,
        kind: SubscriptionKind,
        since: Option<B256>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<String, RpcError> {
        let permit = self.session.grant.take_subscription();
        let permit = permit.map_err(|most| RpcError::TooManySubscriptionsOfTenant { most })?;
        let subscriptions = &self.session.subscriptions;
        let id = subscriptions.subscribe(kind, since, snapshot)?;
        subscriptions.keep(&id, permit);
        self.ids.borrow_mut().push(id.clone());
        Ok(id)
    }

    fn unsubscribe(&self, id: &str) -> bool {
        self.session.subscriptions.unsubscribe(id)
    }

    fn large_answer(&self) -> Arc<Semaphore> {
        self.session.large_answer()
    }

    fn batch_held_max(&self) -> usize {
        self.session.batch_held_max()
    }

    fn uncharged_buffer(&self) -> usize {
        self.session.uncharged_buffer()
    }
}
