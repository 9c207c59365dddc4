use super::{steps::Model, *};
use crate::audit::{AUDIT_KEPT, AuditNumber, Author, Detail, Verb};

/// Stores with the entries of 50 steps, one a second.
fn with_stores(test: &str, check: impl Fn(&mut dyn TenantStore, &[AuditEntry])) {
    let folder = Folder::new(test);
    let stores: [Box<dyn TenantStore>; 2] = [
        Box::new(MemoryStore::default()),
        Box::new(folder.open().unwrap()),
    ];
    for mut store in stores {
        let mut model = Model::default();
        let mut entries = Vec::new();
        for number in 0..50 {
            let step = model.step(number);
            store.commit(&step.commit()).unwrap();
            model.make(&step);
            entries.push(step.entry);
        }
        check(&mut *store, &entries);
    }
}

/// Those of logins alone are read by an index, or not at all: the question names it.
#[test]
fn pages_are_whole() {
    with_stores("pages", |store, entries| {
        let logins = [Verb::LOGIN, Verb::LOGOUT, Verb::LOGIN].map(|verb| AuditEntry {
            verb,
            ..entries[0].clone()
        });
        let commit = Commit {
            entries: &logins,
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        let entries = [entries, &logins[..]].concat();
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
    });
}

#[test]
fn old_entries_expire() {
    with_stores("expire", |store, entries| {
        let all = AuditQuery {
            entries_max: 1_000,
            ..AuditQuery::default()
        };
        let oldest = entries[20].at;
        while store.expire(oldest.after(AUDIT_KEPT)).unwrap() {}
        let left = store.audit(&all).unwrap();
        assert_eq!(left.entries.len(), 30);
        assert_eq!(left.entries[29].0, AuditNumber(21), "numbers stay");
        while store.expire(UnixMillis(u64::MAX)).unwrap() {}
        assert_eq!(store.audit(&all).unwrap(), AuditPage::default());
        // The next number was never used.
        let entries = &entries[..1];
        store
            .commit(&Commit {
                entries,
                ..Commit::default()
            })
            .unwrap();
        assert_eq!(store.audit(&all).unwrap().entries[0].0, AuditNumber(51));
    });
}

/// However often somebody logs in, what was changed is still there.
#[test]
fn logins_take_no_place_of_changes() {
    let folder = Folder::new("logins");
    let (changes_max, logins_max) = (20, 10);
    let bounds = (changes_max as u64, logins_max as u64);
    let disk = SqliteStore::open_with_audit(&folder.0, bounds).unwrap();
    let stores: [(Box<dyn TenantStore>, usize, usize); 2] = [
        (Box::new(disk), changes_max, logins_max),
        (Box::new(MemoryStore::default()), 10_000, 1_000),
    ];
    for (mut store, changes_max, logins_max) in stores {
        let mut add = |verb: &Verb, times: usize| {
            for _ in 0..times {
                let entry = AuditEntry {
                    at: UnixMillis(1_000),
                    author: Author::Unknown,
                    from: None,
                    verb: verb.clone(),
                    tenant: None,
                    key: None,
                    detail: Detail::default(),
                };
                let commit = Commit {
                    entries: std::slice::from_ref(&entry),
                    ..Commit::default()
                };
                store.commit(&commit).unwrap();
            }
            while store.expire(UnixMillis(2_000)).unwrap() {}
            let query = AuditQuery {
                entries_max: 100_000,
                ..AuditQuery::default()
            };
            let page = store.audit(&query).unwrap();
            let numbers = page.entries.iter().map(|(number, _)| number.0);
            assert!(numbers.rev().is_sorted());
            let (logins, changes): (Vec<_>, Vec<_>) = page
                .entries
                .into_iter()
                .partition(|(_, entry)| entry.verb.is_of_login() || entry.verb.is_refusal());
            (changes, logins)
        };
        let (first, _) = add(&Verb::KEY_REVOKE, 3);
        for verb in [Verb::LOGIN, Verb::LOGOUT] {
            let (changes, logins) = add(&verb, 3 * logins_max);
            assert_eq!(changes, first, "{verb}");
            assert_eq!(logins.len(), logins_max);
            assert!(
                logins.iter().all(|(_, entry)| entry.verb == verb),
                "the newest stay"
            );
        }
        // Wrong passwords take no place of logins: they would hide one.
        let (changes, logins) = add(&Verb::LOGIN_REFUSED, 3 * logins_max);
        assert_eq!(changes, first);
        let (refused, logins): (Vec<_>, Vec<_>) = logins
            .into_iter()
            .partition(|(_, entry)| entry.verb.is_refusal());
        assert_eq!((refused.len(), logins.len()), (logins_max, logins_max));
        // Changes have a bound of their own, and take no place of logins.
        let (changes, logins) = add(&Verb::KEY_UPDATE, 2 * changes_max);
        let expected = (changes_max, 2 * logins_max);
        assert_eq!((changes.len(), logins.len()), expected);
        let last = Some(AuditNumber((3 + 9 * logins_max + 2 * changes_max) as u64));
        assert_eq!(changes.first().map(|(number, _)| *number), last);
    }
}
