use super::{Administration, StoreCall, owners::Owners};
use crate::{
    UnixMillis,
    directory::ChangedRecords,
    id::KeyId,
    store::StoreError,
    usage::{KeyUse, KeyUseQuery, Resolution, UsageOf, UsedToday},
};

impl Administration {
    /// Units that were used since 00:00 UTC.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn used_today(&mut self, now: UnixMillis) -> Result<UsedToday, StoreError> {
        let mut all = UsedToday::default();
        self.key_use_of_day(UsageOf::All, now, |owners, used| {
            all.add(used.key, owners.of_used(used), used.units);
        })?;
        Ok(all)
    }

    /// The same for the chains of these keys and for these tenants alone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn used_today_by(
        &mut self,
        records: &ChangedRecords,
        now: UnixMillis,
    ) -> Result<UsedToday, StoreError> {
        let mut all = UsedToday::default();
        let keys = records.keys.iter().filter_map(|id| self.directory.key(*id));
        let chains: Vec<KeyId> = keys.map(|key| key.chain()).collect();
        if !chains.is_empty() {
            self.key_use_of_day(UsageOf::Chains(chains), now, |owners, used| {
                let owner = owners.of_used(used);
                let chain = owner.and_then(|owner| owner.chain);
                all.add_to_chain(chain.unwrap_or(used.key), used.units);
            })?;
        }
        for id in &records.tenants {
            self.key_use_of_day(UsageOf::Tenant(*id), now, |owners, used| {
                if owners
                    .of_used(used)
                    .is_some_and(|owner| owner.tenant == *id)
                {
                    all.add_to_tenant(*id, used.units);
                }
            })?;
            // Keys that the configuration names were perhaps those of another tenant until now.
            let tenant = self.directory.tenant(*id);
            let configured = tenant.map(|tenant| self.configured.keys_of(&tenant.name));
            let configured = configured.into_iter().flatten().map(|entry| entry.id);
            let configured: Vec<KeyId> = configured.collect();
            if configured.is_empty() {
                continue;
            }
            self.key_use_of_day(UsageOf::Keys(configured), now, |owners, used| {
                let is_new = used.owner.is_none_or(|owner| owner.tenant != *id);
                if is_new && owners.of(used.key).is_some_and(|owner| owner.tenant == *id) {
                    all.add_to_tenant(*id, used.units);
                }
            })?;
        }
        Ok(all)
    }

    /// Reads what keys used today.
    fn key_use_of_day(
        &mut self,
        of: UsageOf,
        now: UnixMillis,
        mut each: impl FnMut(Owners<'_>, &KeyUse),
    ) -> Result<(), StoreError> {
        let query = KeyUseQuery {
            of,
            resolution: Resolution::Day,
            from: Resolution::Day.start(now),
            to: Resolution::Day.end(now),
        };
        let owners = Owners {
            directory: &self.directory,
            configured: &self.configured,
        };
        let read = self.store.key_use(&query, &mut |used| each(owners, &used));
        self.note(StoreCall::Read, read)
    }
}
