//! Which tenants have connections to a listener.

use std::collections::HashMap;

use nearhead_tenants::id::TenantId;
use parking_lot::Mutex;

/// Whose key was accepted; `None` on the listeners for operators.
pub(super) type Owner = Option<TenantId>;

/// Those who have connections to a listener, each with the number of workers that serve them.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<HashMap<Owner, usize>>);

impl Owners {
    /// One has a first connection on a worker.
    pub(super) fn add(&self, owner: Owner) {
        *self.0.lock().entry(owner).or_default() += 1;
    }

    /// One has no connection on a worker any more.
    pub(super) fn remove(&self, owner: Owner) {
        let mut owners = self.0.lock();
        if let Some(workers) = owners.get_mut(&owner) {
            *workers -= 1;
            if *workers == 0 {
                owners.remove(&owner);
            }
        }
    }

    /// Whether nobody has connections, or one tenant alone.
    pub(super) fn are_one(&self) -> bool {
        self.0.lock().len() <= 1
    }
}
