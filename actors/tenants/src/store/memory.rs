use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::{
    UnixMillis,
    audit::{AUDIT_KEPT, AuditEntry, AuditNumber, AuditPage, AuditQuery},
    id::{KeyId, TenantId},
    store::{Commit, Loaded, StoreError, TenantStore},
    usage::{Label, Resolution, UsageAnswer, UsageCell, UsageOf, UsageQuery, UsageRow, Used},
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
    tenants: HashMap<KeyId, TenantId>,
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
        });
        let entries: Vec<_> = found.by_ref().take(query.entries_max).cloned().collect();
        let last = entries.last().map(|(number, _)| *number);
        let next = last.filter(|_| found.next().is_some());
        Ok(AuditPage { entries, next })
    }

    fn add_usage(&mut self, cells: &[UsageCell]) -> Result<(), StoreError> {
        for cell in cells {
            if let Some(tenant) = cell.tenant {
                self.tenants.insert(cell.key, tenant);
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
        let is_asked_for = |key: &KeyId| match &query.of {
            UsageOf::All => true,
            UsageOf::Tenant(tenant) => self.tenants.get(key) == Some(tenant),
            UsageOf::Keys(keys) => keys.contains(key),
        };
        let from = query.resolution.start(query.from);
        let sums = Resolution::ALL.into_iter().zip(&self.sums);
        let sums = sums.filter(|(resolution, _)| *resolution == query.resolution);
        let sums = sums.flat_map(|(_, sums)| sums);
        let mut groups: BTreeMap<_, Used> = BTreeMap::new();
        for ((at, key, method, outcome), used) in sums {
            if *at >= from && *at < query.to && is_asked_for(key) {
                let group = (
                    query.by.time.then_some(*at),
                    query.by.key.then_some(*key),
                    query.by.method.then(|| method.clone()),
                    query.by.outcome.then(|| outcome.clone()),
                );
                groups.entry(group).or_default().add(used);
            }
        }
        let is_truncated = groups.len() > query.rows_max;
        let rows = groups.into_iter().take(query.rows_max);
        let rows = rows.map(|((at, key, method, outcome), used)| UsageRow {
            at,
            key,
            method,
            outcome,
            used,
        });
        Ok(UsageAnswer {
            rows: rows.collect(),
            is_truncated,
        })
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
