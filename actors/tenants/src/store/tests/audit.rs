use super::*;
use crate::audit::{AUDIT_KEPT, AuditNumber, AuditQuery, Author, Detail, Verb};

/// Checks both stores.
fn with_stores(test: &str, check: impl Fn(&mut dyn TenantStore)) {
    let folder = Folder::new(test);
    let stores: [Box<dyn TenantStore>; 2] = [
        Box::new(MemoryStore::default()),
        Box::new(folder.open().unwrap()),
    ];
    for mut store in stores {
        check(&mut *store);
    }
}

/// Those of logins alone are read by an index, or not at all: the question names it.
#[test]
fn pages_are_whole() {
    with_stores("pages", records::pages_are_whole);
}

#[test]
fn old_entries_expire() {
    with_stores("expire", |store| {
        let entries = records::fill_audit(store);
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
