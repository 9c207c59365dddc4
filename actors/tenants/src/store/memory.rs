use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{
    UnixMillis,
    audit::{AUDIT_KEPT, AuditEntry, AuditNumber, AuditPage, AuditQuery, Verb},
    id::KeyId,
    store::{Commit, Loaded, StoreError, TenantStore},
    usage::{
        KeyOwner, KeyUse, KeyUseQuery, Label, OK_LABEL, Resolution, UsageAnswer, UsageCell,
        UsageGroups, UsageOf, UsageQuery, Used,
    },
};

/// Most sums of one resolution: some 15 MB. The oldest are dropped.
const SUMS_MAX: usize = 100_000;

/// Most entries of changes in the audit: some 5 MB. The oldest are dropped.
const CHANGES_MAX: usize = 10_000;

/// Most entries of logins, so that no number of them takes the place of a change.
const LOGINS_MAX: usize = 1_000;

/// Most entries of wrong passwords, so that no number of them takes the place of a login.
const REFUSALS_MAX: usize = 1_000;

/// A store that ends with the process. It is smaller than others, so that it fits in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    loaded: Loaded,
    owners: HashMap<KeyId, KeyOwner>,
    /// By resolution, from the finest to the coarsest.
    sums: [BTreeMap<SumId, Used>; Resolution::ALL.len()],
    changes: Entries,
    logins: Entries,
    refusals: Entries,
    /// The number of the newest entry.
    last_entry: u64,
}

/// Entries of the audit, the oldest first.
type Entries = VecDeque<(AuditNumber, AuditEntry)>;

type SumId = (UnixMillis, KeyId, Label, Label);

impl TenantStore for MemoryStore {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        Ok(self.loaded.clone())
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StoreError> {
        for change in commit.directory {
            self.loaded.directory.make(change.clone());
        }
        for change in commit.accounts {
            self.loaded.accounts.make(change.clone());
        }
        for entry in commit.entries {
            self.last_entry += 1;
            let (entries, most) = if entry.verb.is_of_login() {
                (&mut self.logins, LOGINS_MAX)
            } else if entry.verb.is_refusal() {
                (&mut self.refusals, REFUSALS_MAX)
            } else {
                (&mut self.changes, CHANGES_MAX)
            };
            entries.push_back((AuditNumber(self.last_entry), entry.clone()));
            if entries.len() > most {
                entries.pop_front();
            }
        }
        Ok(())
    }

    fn audit(&mut self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let all = [&self.changes, &self.logins, &self.refusals];
        let mut numbered: Vec<_> = all.into_iter().flatten().collect();
        numbered.sort_by_key(|(number, _)| *number);
        let mut found = numbered.into_iter().rev().filter(|(number, entry)| {
            query.before.is_none_or(|before| *number < before)
                && query
                    .tenant
                    .is_none_or(|tenant| entry.tenant == Some(tenant))
                && query.key.is_none_or(|key| entry.key == Some(key))
                && (!query.logins || entry.verb == Verb::LOGIN)
        });
        let entries: Vec<_> = found.by_ref().take(query.entries_max).cloned().collect();
        let last = entries.last().map(|(number, _)| *number);
        let next = last.filter(|_| found.next().is_some());
        Ok(AuditPage { entries, next })
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        for cell in cells {
            if let Some(owner) = cell.owner {
                self.owners.insert(cell.key, owner);
            }
            let last = self.loaded.last_used.entry(cell.key).or_default();
            *last = cell.last.max(*last);
            for (resolution, sums) in Resolution::ALL.into_iter().zip(&mut self.sums) {
                let at = resolution.start(cell.minute);
                let id = (at, cell.key, cell.method.clone(), cell.outcome.clone());
                sums.entry(id).or_default().add(&cell.used);
                if sums.len() > SUMS_MAX {
                    sums.pop_first();
                }
            }
        }
        Ok(())
    }

    fn usage(&mut self, query: &UsageQuery) -> Result<UsageAnswer, StoreError> {
        let range = (query.from, query.to);
        let sums = self.sums_of(&query.of, query.resolution, range);
        let mut groups = UsageGroups::new(query.rows_max);
        for ((at, key, method, outcome), used) in sums {
            groups.add(query.by.group(*at, *key, method, outcome), used);
        }
        Ok(groups.into_answer())
    }

    fn key_use(
        &mut self,
        query: &KeyUseQuery,
        each: &mut dyn FnMut(KeyUse),
    ) -> Result<(), StoreError> {
        let range = (query.from, query.to);
        for ((_, key, _, outcome), used) in self.sums_of(&query.of, query.resolution, range) {
            let owner = self.owners.get(key).copied();
            each(KeyUse::new(*key, owner, **outcome == *OK_LABEL, used));
        }
        Ok(())
    }

    fn expire(&mut self, now: UnixMillis) -> Result<bool, StoreError> {
        for (resolution, sums) in Resolution::ALL.into_iter().zip(&mut self.sums) {
            let oldest = resolution.oldest(now);
            while sums
                .first_key_value()
                .is_some_and(|((at, ..), _)| *at < oldest)
            {
                sums.pop_first();
            }
        }
        for entries in [&mut self.changes, &mut self.logins, &mut self.refusals] {
            let is_over = |(_, entry): &(AuditNumber, AuditEntry)| entry.at.after(AUDIT_KEPT) < now;
            while entries.front().is_some_and(is_over) {
                entries.pop_front();
            }
        }
        Ok(false)
    }
}

impl MemoryStore {
    /// The sums of a range.
    fn sums_of(
        &self,
        of: &UsageOf,
        resolution: Resolution,
        (from, to): (UnixMillis, UnixMillis),
    ) -> impl Iterator<Item = (&SumId, &Used)> {
        let is_asked_for = move |key: &KeyId| match of {
            UsageOf::All => true,
            UsageOf::Tenant(tenant) => {
                let owner = self.owners.get(key);
                owner.is_some_and(|owner| owner.tenant == *tenant)
            }
            UsageOf::Keys(keys) => keys.contains(key),
            UsageOf::Chains(first) => {
                let chain = self.owners.get(key).and_then(|owner| owner.chain);
                first.contains(&chain.unwrap_or(*key))
            }
        };
        let from = resolution.start(from);
        let sums = Resolution::ALL.into_iter().zip(&self.sums);
        let sums = sums.filter(move |(one, _)| *one == resolution);
        let sums = sums.flat_map(|(_, sums)| sums);
        sums.filter(move |((at, key, ..), _)| *at >= from && *at < to && is_asked_for(key))
    }
}
