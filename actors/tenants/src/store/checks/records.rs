//! Tenants, keys, accounts and the audit, against a directory in memory.

use super::{Random, steps::Model, *};
use crate::audit::{AuditNumber, AuditQuery, Verb};

fn all_entries(store: &mut dyn TenantStore) -> Vec<AuditEntry> {
    let query = AuditQuery {
        entries_max: 100_000,
        ..AuditQuery::default()
    };
    let page = store.audit(&query).unwrap();
    page.entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Checks that stores, which have nothing yet, have what their owner has in memory, before and
/// after the end of the process.
pub fn stores_have_what_their_owner_has(stores: &mut [CheckedStore<'_>], seed: u64) {
    let mut random = Random(seed);
    let mut model = Model::default();
    let mut entries = Vec::new();
    for number in 0..120 {
        let step = model.step(seed * 1_000_000 + number);
        for store in stores.iter_mut() {
            store.get().commit(&step.commit()).unwrap();
        }
        model.make(&step);
        entries.insert(0, step.entry);
        if random.below(10) == 0 {
            stores.iter_mut().for_each(CheckedStore::reopen);
        }
        if random.below(10) == 0 {
            for store in stores.iter_mut() {
                let store = store.get();
                let loaded = store.load().unwrap();
                let at = format!("seed {seed}, step {number}");
                assert_eq!(loaded.directory, model.directory, "{at}");
                assert_eq!(loaded.accounts, model.accounts, "{at}");
                assert_eq!(all_entries(store), entries, "{at}");
            }
        }
    }
    let keys = model.directory.keys();
    let revoked = keys.filter(|key| key.revoked.is_some()).count();
    assert!(
        revoked > 0 && model.directory.keys().len() > revoked,
        "seed {seed}"
    );
}

/// Checks that a commit that does nothing, and a change that is made again, are no errors.
pub fn the_same_change_twice_is_one(store: &mut CheckedStore<'_>) {
    store.get().commit(&Commit::default()).unwrap();
    let mut model = Model::default();
    for number in 0..40 {
        let step = model.step(number);
        store.get().commit(&step.commit()).unwrap();
        store.get().commit(&step.commit()).unwrap();
        model.make(&step);
    }
    store.reopen();
    let loaded = store.get().load().unwrap();
    assert_eq!(loaded.directory, model.directory);
    assert_eq!(loaded.accounts, model.accounts);
}

/// Writes the entries of 50 steps, one a second.
pub(in crate::store) fn fill_audit(store: &mut dyn TenantStore) -> Vec<AuditEntry> {
    let mut model = Model::default();
    let mut entries = Vec::new();
    for number in 0..50 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        model.make(&step);
        entries.push(step.entry);
    }
    entries
}

/// Checks the pages of the audit of a store that has nothing yet.
pub fn pages_are_whole(store: &mut dyn TenantStore) {
    let entries = fill_audit(store);
    let logins = [Verb::LOGIN, Verb::LOGOUT, Verb::LOGIN].map(|verb| AuditEntry {
        verb,
        ..entries[0].clone()
    });
    let commit = Commit {
        entries: &logins,
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
    let entries = [&entries[..], &logins[..]].concat();
    let some = entries
        .iter()
        .rev()
        .find(|entry| entry.key.is_some())
        .unwrap();
    for (tenant, key, logins) in [
        (None, None, true),
        (None, None, false),
        (some.tenant, None, false),
        (None, some.key, false),
        (some.tenant, some.key, false),
    ] {
        let mut expected: Vec<_> = entries
            .iter()
            .filter(|entry| tenant.is_none_or(|tenant| entry.tenant == Some(tenant)))
            .filter(|entry| key.is_none_or(|key| entry.key == Some(key)))
            .filter(|entry| !logins || entry.verb == Verb::LOGIN)
            .cloned()
            .collect();
        expected.reverse();
        assert!(!expected.is_empty());
        for entries_max in [1, 7, expected.len(), 1_000] {
            let mut query = AuditQuery {
                before: None,
                tenant,
                key,
                logins,
                entries_max,
            };
            let mut found = Vec::new();
            let mut pages = 0;
            loop {
                let page = store.audit(&query).unwrap();
                assert!(page.entries.len() <= entries_max);
                found.extend(page.entries.into_iter().map(|(_, entry)| entry));
                pages += 1;
                query.before = page.next;
                if query.before.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected);
            assert_eq!(pages, expected.len().div_ceil(entries_max));
        }
    }
    let query = AuditQuery {
        before: Some(AuditNumber(u64::MAX)),
        entries_max: 0,
        ..AuditQuery::default()
    };
    assert_eq!(store.audit(&query).unwrap().entries, []);
}
