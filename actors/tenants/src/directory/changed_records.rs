use std::collections::BTreeSet;

use super::Directory;
use crate::{
    command::Change,
    id::{KeyId, TenantId},
};

/// The tenants and keys that have changed, come or gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRecords {
    /// The tenants. That they change is no change of their keys.
    pub tenants: BTreeSet<TenantId>,
    /// The keys, and those that go with their tenant.
    pub keys: BTreeSet<KeyId>,
}

impl ChangedRecords {
    /// Whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty() && self.keys.is_empty()
    }

    /// Adds what a change is about. It is not made in `directory` yet.
    pub fn add(&mut self, change: &Change, directory: &Directory) {
        match change {
            Change::Tenant(tenant) => {
                self.tenants.insert(tenant.id);
            }
            Change::Key(key) => {
                self.keys.insert(key.id);
            }
            Change::KeyRemoved(id) => {
                self.keys.insert(*id);
            }
            Change::TenantRemoved(id) => {
                self.tenants.insert(*id);
                self.keys.extend(directory.keys_of(*id));
            }
        }
    }
}
