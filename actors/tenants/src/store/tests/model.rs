use super::*;

#[test]
fn stores_have_what_their_owner_has() {
    let folder = Folder::new("model");
    for seed in 0..rounds(3, 60) {
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir(&folder.0).unwrap();
        let memory = CheckedStore::kept(Box::new(MemoryStore::default()));
        let sqlite = CheckedStore::reopened(|| Box::new(folder.open().unwrap()));
        records::stores_have_what_their_owner_has(&mut [memory, sqlite], seed);
    }
}

#[test]
fn the_same_change_twice_is_one() {
    let folder = Folder::new("twice");
    let mut store = CheckedStore::reopened(|| Box::new(folder.open().unwrap()));
    records::the_same_change_twice_is_one(&mut store);
}
