use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{AdminError, Administration, Operation, Requester, requester::detail};
use crate::{
    UnixMillis,
    audit::{AuditEntry, Author, Detail, Verb},
    bounds::{KEY_REMOVAL, KEYS_REMOVED_MAX},
    command::{Change, Command},
    id::KeyId,
    record::KeyRecord,
    store::StoreError,
};

/// Removes an expired or revoked key. What it used still counts for its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveKey {
    /// Which one.
    pub id: KeyId,
}

impl Operation for RemoveKey {
    type Answer = ();

    fn run(self, administration: &mut Administration, by: &Requester) -> Result<(), AdminError> {
        by.check_admin()?;
        let key = administration.stored_key(self.id, by)?;
        let command = Command::RemoveKey { id: self.id };
        administration.run_command(command, removed(&key), by)
    }
}

/// What the audit says of a key that is removed.
fn removed(key: &KeyRecord) -> Detail {
    detail(&[("name", json!(key.name)), ("prefix", json!(key.prefix))])
}

impl Administration {
    /// Removes a bounded number of the keys that have been over for so long that they are no
    /// longer kept. Says whether there are more.
    pub(super) fn remove_old_keys(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        let next = self.keys_checked.after(KEY_REMOVAL);
        if (self.keys_checked..next).contains(&now) {
            return Ok(false);
        }
        if now < self.removal_due {
            // No key needs to be read to know that none is due.
            self.keys_checked = now;
            return Ok(false);
        }
        let old = self.directory.keys().filter(|key| key.removed_at() <= now);
        let (changes, entries): (Vec<_>, Vec<_>) = old
            .take(KEYS_REMOVED_MAX)
            .map(|key| {
                let entry = AuditEntry {
                    at: now,
                    author: Author::Service,
                    from: None,
                    verb: Verb::KEY_REMOVE,
                    tenant: Some(key.tenant),
                    key: Some(key.id),
                    detail: removed(key),
                };
                (Change::KeyRemoved(key.id), entry)
            })
            .unzip();
        let is_more = changes.len() == KEYS_REMOVED_MAX;
        if !changes.is_empty() {
            self.commit(changes, Vec::new(), &entries)?;
        }
        if !is_more {
            self.keys_checked = now;
            self.removal_due = self.directory.first_removal();
        }
        Ok(is_more)
    }
}
