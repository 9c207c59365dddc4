//! On whose behalf a node is called.

use std::sync::Arc;

use tokio::sync::watch;

use crate::share::Share;

/// The tenants that need one call, or several that belong together. Clones are the same.
///
/// A tenant may join while the call waits for its turn: then the call has a place among the calls
/// of each of them, so that nobody waits behind the calls of another tenant for joining it.
#[derive(Clone, Debug)]
pub(crate) struct Callers(Arc<watch::Sender<Vec<Share>>>);

impl Callers {
    /// One tenant.
    pub(crate) fn of(share: Share) -> Self {
        Self(Arc::new(watch::Sender::new(vec![share])))
    }

    /// Adds a tenant. It stays one of them, also if it needs the call no more.
    pub(crate) fn add(&self, share: Share) {
        self.0.send_if_modified(|shares| {
            let is_new = shares.iter().all(|known| known.id() != share.id());
            if is_new {
                shares.push(share);
            }
            is_new
        });
    }

    /// All of them, those that joined last at the end; more may follow.
    pub(super) fn shares(&self) -> watch::Receiver<Vec<Share>> {
        self.0.subscribe()
    }
}
