use super::{steps::Model, *};
use crate::audit::AuditQuery;

fn all_entries(store: &mut dyn TenantStore) -> Vec<AuditEntry> {
    let query = AuditQuery {
        entries_max: 100_000,
        ..AuditQuery::default()
    };
    let page = store.audit(&query).unwrap();
    page.entries.into_iter().map(|(_, entry)| entry).collect()
}

/// Both stores have what their owner has in memory, before and after the end of the process.
#[test]
fn stores_have_what_their_owner_has() {
    let folder = Folder::new("model");
    for seed in 0..rounds(3, 60) {
        let mut random = Random(seed);
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir(&folder.0).unwrap();
        let mut model = Model::default();
        let mut memory = MemoryStore::default();
        let mut sqlite = folder.open().unwrap();
        let mut entries = Vec::new();
        for number in 0..120 {
            let step = model.step(seed * 1_000_000 + number);
            memory.commit(&step.commit()).unwrap();
            sqlite.commit(&step.commit()).unwrap();
            model.make(&step);
            entries.insert(0, step.entry);
            if random.below(10) == 0 {
                drop(sqlite);
                sqlite = folder.open().unwrap();
            }
            if random.below(10) == 0 {
                let stores: [&mut dyn TenantStore; 2] = [&mut memory, &mut sqlite];
                for store in stores {
                    let loaded = store.load().unwrap();
                    assert_eq!(
                        loaded.directory, model.directory,
                        "seed {seed}, step {number}"
                    );
                    assert_eq!(
                        loaded.accounts, model.accounts,
                        "seed {seed}, step {number}"
                    );
                    assert_eq!(all_entries(store), entries);
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
}

/// A commit that does nothing, and a change that is made again, are no errors.
#[test]
fn the_same_change_twice_is_one() {
    let folder = Folder::new("twice");
    let mut store = folder.open().unwrap();
    store.commit(&Commit::default()).unwrap();
    let mut model = Model::default();
    for number in 0..40 {
        let step = model.step(number);
        store.commit(&step.commit()).unwrap();
        store.commit(&step.commit()).unwrap();
        model.make(&step);
    }
    drop(store);
    let loaded = folder.open().unwrap().load().unwrap();
    assert_eq!(loaded.directory, model.directory);
    assert_eq!(loaded.accounts, model.accounts);
}
