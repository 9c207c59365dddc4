#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{fs, thread};

use nearhead_chain::{
    dev::{CHAIN_ID, DevConfig, Producer, Profile},
    encode::EncodeOptions,
    network::FeeRules,
    window::Window,
};
use rusqlite::Connection;

use super::*;
use crate::{
    saved::{file::NAME, writer::Writer},
    test_wait::wait_until,
};

/// A file with the genesis and one block.
fn save(folder: &Path) -> SavedSetup {
    let config = DevConfig {
        seed: 3,
        profile: Profile::Small,
        block_time_seconds: 1,
        reorg_every: None,
        reorg_depth: 0,
    };
    let options = EncodeOptions::default();
    let mut producer = Producer::new(config, options, &mut |_, _| ()).unwrap();
    let store = NodeStore::recorded(1 << 20);
    let rules = FeeRules::of_chain(CHAIN_ID);
    let verifier = Verifier::new(CHAIN_ID, rules, options, Arc::clone(&store));
    let fetched = |block: &nearhead_chain::block::Block| {
        let saved = block.save().unwrap();
        verifier.restore(block.hash, &saved).unwrap()
    };
    let genesis = fetched(producer.head());
    let mut window = Window::new(CHAIN_ID, Arc::clone(&genesis));
    let step = producer.step().unwrap();
    let applied = step.applied.iter().map(|(_, block)| fetched(block));
    window.advance(0, applied.collect(), None, None).unwrap();
    let head = Head::default();
    head.store(window.snapshot());
    let setup = SavedSetup {
        folder: folder.to_owned(),
        genesis: genesis.hash,
        verifier: Arc::new(verifier),
        store,
        head,
        kept: KeptBytes::default(),
        items_bytes_max: 1 << 20,
        threads: FollowThreads::new(),
    };
    let (_, writer) = Restored::open(&setup, &Restored::default());
    assert!(Writer::new(writer).write_all(0));
    setup
}

/// Nobody asks for its blocks any more, but what is false among them leaves the file.
#[test]
fn what_comes_too_late_is_dropped_and_what_is_refused_leaves_the_file() {
    let name = format!("nearhead-restored-late-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let setup = save(&folder);
    let other = B256::repeat_byte(9);
    let file = Connection::open(folder.join(NAME)).unwrap();
    let insert = format!("INSERT INTO blocks VALUES (x'{other:x}', 1000, x'00')");
    file.execute_batch(&insert).unwrap();

    let empty = Restored::default();
    let (hand_over, opened) = channel::bounded(0);
    let for_writer = empty.clone();
    let late = thread::spawn(move || Restored::open_for(&setup, &for_writer, &hand_over));
    wait_until("a block is refused", || {
        empty.status.blocks()[1] == ("refused", 1)
    });
    drop(opened);
    let writer = late.join().unwrap();
    assert!(Arc::ptr_eq(&writer.merged, &empty.merged));
    assert!(Arc::ptr_eq(&writer.status, &empty.status));
    let blocks = Arc::clone(writer.blocks.as_ref().unwrap());
    assert_eq!(blocks.newest(), None, "nobody asks for them");
    let mut writer = Writer::new(writer);
    let is_there = || {
        let mut query = file.prepare("SELECT 1 FROM blocks WHERE number = 1000");
        query.as_mut().unwrap().exists([]).unwrap()
    };
    assert!(is_there());
    wait_until("the false block leaves the file", || {
        writer.write_all(0) && !is_there()
    });
    drop(file);
    fs::remove_dir_all(folder).unwrap();
}
