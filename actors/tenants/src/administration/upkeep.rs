//! What happens although nobody asks: what is over is removed, and what other processes have
//! written is read.

use super::{Administration, ROWS_KEPT, StoreCall};
use crate::{
    UnixMillis,
    account::AccountChange,
    command::Change,
    store::{Commit, Refreshed, StoreError},
};

impl Administration {
    /// Removes a bounded part of what is over at `now`: old usage and audit, logins and API tokens,
    /// and keys that have been over for long. Notes which keys other processes have used. Frees
    /// what only lists need if none is asked for. Says whether there is more to remove.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        if !(self.listed_at..self.listed_at.after(ROWS_KEPT)).contains(&now) {
            self.rows = None;
        }
        let over = self.accounts.plan_expiry(now);
        let written = if !over.is_empty() {
            self.commit(Vec::new(), over, &[])
        } else if self.failures.contains_key(&StoreCall::Commit) {
            self.write_again()
        } else {
            Ok(())
        };
        let removed = written.and_then(|()| self.remove_old_keys(now));
        // In any case, because this makes room.
        let is_more = self.store(StoreCall::Expire, |store| store.expire(now))?;
        for (key, at) in self.store(StoreCall::Read, |store| store.used_lately(now))? {
            self.mark_used(key, at);
        }
        removed.map(|are_more| are_more || is_more)
    }

    /// Writes one record as it is, so that a failure ends although nobody changes anything.
    fn write_again(&mut self) -> Result<(), StoreError> {
        let tenant = self.directory.tenants().next().cloned().map(Change::Tenant);
        let account = self.accounts.accounts().next().cloned();
        let account = account.map(AccountChange::Account);
        let commit = Commit {
            directory: tenant.as_slice(),
            accounts: account.as_slice(),
            entries: &[],
        };
        self.store(StoreCall::Commit, |store| store.commit(&commit))
    }

    /// Makes what other processes have changed, if the store is shared.
    ///
    /// # Errors
    /// The store cannot be read. Nothing has changed then.
    pub fn refresh(&mut self) -> Result<(), StoreError> {
        let Refreshed {
            directory,
            accounts,
        } = self.store(StoreCall::Refresh, |store| store.refresh())?;
        self.make(directory, accounts);
        if self.failures.contains_key(&StoreCall::Commit) {
            // The store works again. If it does not, that is noted.
            let _ = self.write_again();
        }
        Ok(())
    }
}
