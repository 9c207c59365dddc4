#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes};
use nearhead_chain::{
    block::Block,
    dev::{CHAIN_ID, DevConfig, Producer, Profile},
    encode::EncodeOptions,
    network::FeeRules,
    remote::Verifier,
    trie::{NodeStore, State},
    window::{WINDOW_BLOCKS, Window},
};
use rusqlite::{Connection, Row};
use serde_json::Value;

use super::{KeptBytes, Restored, SavedSetup, WantedState, file::NAME, writer::Writer};
use crate::{follow_threads::FollowThreads, head::Head, test_wait::wait_until};

const STATE_BYTES: usize = 64 << 20;

/// A window that moves along the dev chain, and the folder in which it is saved.
struct Scene {
    folder: PathBuf,
    producer: Producer,
    genesis: B256,
    store: Arc<NodeStore>,
    verifier: Arc<Verifier>,
    window: Window,
    head: Head,
    kept: KeptBytes,
}

impl Scene {
    fn of(name: &str) -> Self {
        let name = format!("nearhead-saved-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let config = DevConfig {
            seed: 3,
            profile: Profile::Small,
            block_time_seconds: 1,
            reorg_every: Some(3),
            reorg_depth: 2,
        };
        let producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| ()).unwrap();
        let store = NodeStore::recorded(STATE_BYTES);
        let rules = FeeRules::of_chain(CHAIN_ID);
        let verifier = Verifier::new(
            CHAIN_ID,
            rules,
            EncodeOptions::default(),
            Arc::clone(&store),
        );
        let verifier = Arc::new(verifier);
        let genesis = fetched(&verifier, producer.head());
        let window = Window::new(CHAIN_ID, Arc::clone(&genesis));
        let head = Head::default();
        head.store(window.snapshot());
        Self {
            folder,
            producer,
            genesis: genesis.hash,
            store,
            verifier,
            window,
            head,
            kept: KeptBytes::default(),
        }
    }

    /// Lets the chain grow or change its branch so many times.
    fn go_on(&mut self, steps: usize) {
        for _ in 0..steps {
            let step = self.producer.step().unwrap();
            let applied = step
                .applied
                .iter()
                .map(|(_, block)| fetched(&self.verifier, block));
            self.window
                .advance(step.reverted, applied.collect(), None, None)
                .unwrap();
            self.head.store(self.window.snapshot());
        }
    }

    /// What the next process finds, with its own store, and the writer that it starts.
    fn open(&self) -> (Restored, Writer) {
        self.open_with(&self.verifier, STATE_BYTES as u64)
    }

    fn open_with(&self, verifier: &Arc<Verifier>, items_bytes_max: u64) -> (Restored, Writer) {
        let setup = self.setup(verifier, items_bytes_max);
        let (restored, writer) = Restored::open(&setup, &Restored::default());
        (restored, Writer::new(writer))
    }

    fn setup(&self, verifier: &Arc<Verifier>, items_bytes_max: u64) -> SavedSetup {
        SavedSetup {
            folder: self.folder.clone(),
            genesis: self.genesis,
            verifier: Arc::clone(verifier),
            store: Arc::clone(&self.store),
            head: self.head.clone(),
            kept: self.kept.clone(),
            items_bytes_max,
            threads: FollowThreads::new(),
        }
    }

    fn save(&self) {
        let (_, mut writer) = self.open();
        assert!(writer.write_all(0));
    }

    /// A restart in which the process has none of the state.
    fn forget_state(&mut self) {
        self.store = NodeStore::recorded(STATE_BYTES);
    }

    /// Checks that the next process takes over all blocks of the window.
    async fn check_saved(&self) -> Restored {
        let canonical = self.canonical();
        let (restored, _) = self.open();
        assert_eq!(
            restored_blocks(&restored, &canonical).await,
            hashes(&canonical)
        );
        restored
    }

    fn canonical(&self) -> Vec<Arc<Block>> {
        self.window.snapshot().canonical().to_vec()
    }

    /// The state after the head as the chain's own store has it, in this scene's store.
    fn hold_head(&self) -> Arc<State> {
        State::hold(&self.store, self.producer.head().header.state_root)
    }

    /// Has the head's state of these accounts in the store, as if it had been fetched.
    fn fetch_state(&self, addresses: &[Address]) -> Arc<State> {
        let state = self.hold_head();
        let executed = self.producer.head().state.clone().unwrap();
        for address in addresses {
            let source = |hash: &B256| executed.store().content(hash);
            assert!(state.load(address, &[], true, source));
        }
        state
    }

    /// Waits until nobody has the file open, and moves all into it: threads close it when they end,
    /// and leave its log where they end together.
    fn close(&self) {
        wait_until("nobody has the file open", || {
            let connection = Connection::open(self.folder.join(NAME)).unwrap();
            let mode = |row: &Row<'_>| row.get::<_, String>(0);
            let set = connection.pragma_update_and_check(None, "journal_mode", "DELETE", mode);
            set.is_ok_and(|mode| mode == "delete")
        });
    }

    fn edit(&self, sql: &str) {
        Connection::open(self.folder.join(NAME))
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The block as an upstream gives it: verified, and without state.
fn fetched(verifier: &Verifier, block: &Block) -> Arc<Block> {
    verifier
        .restore(block.hash, &block.save().unwrap())
        .unwrap()
}

/// Accounts that the dev chain's blocks name.
fn addresses(blocks: &[Arc<Block>]) -> Vec<Address> {
    blocks
        .iter()
        .map(|block| block.header.beneficiary)
        .collect()
}

/// The blocks that the next process takes over, the oldest first.
async fn restored_blocks(restored: &Restored, canonical: &[Arc<Block>]) -> Vec<B256> {
    let Some(blocks) = &restored.blocks else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for block in canonical {
        found.extend(blocks.block(&block.hash).await.map(|block| block.hash));
    }
    found
}

/// Whether the next process loads the account from the file.
async fn loads(restored: &Restored, state: &Arc<State>, address: &Address) -> bool {
    let Some(items) = &restored.items else {
        return false;
    };
    let wanted = WantedState {
        address: *address,
        slots: Vec::new(),
        with_code: true,
    };
    items.load(Arc::clone(state), vec![wanted]).await
}

fn hashes(blocks: &[Arc<Block>]) -> Vec<B256> {
    blocks.iter().map(|block| block.hash).collect()
}

#[tokio::test]
async fn the_canonical_blocks_of_the_window_are_saved() {
    let mut scene = Scene::of("blocks");
    let (_, mut writer) = scene.open();
    let (mut reverted, steps) = (Vec::new(), WINDOW_BLOCKS + 30);
    for _ in 0..steps {
        let before = hashes(&scene.canonical());
        scene.go_on(1);
        let after = hashes(&scene.canonical());
        reverted.extend(
            before
                .into_iter()
                .skip(1)
                .filter(|hash| !after.contains(hash)),
        );
        assert!(writer.write_all(0));
    }
    assert!(!reverted.is_empty(), "the chain has reorgs");
    let canonical = scene.canonical();
    assert_eq!(canonical.len(), WINDOW_BLOCKS);
    let restored = scene.check_saved().await;
    let blocks = restored.blocks.unwrap();
    for block in &canonical {
        assert_eq!(blocks.hash_at(block.number()), Some(block.hash));
        let again = blocks.block(&block.hash).await.unwrap();
        wait_until("no request has to make its JSON", || again.has_json());
        assert_eq!(again.json().block(true), block.json().block(true));
        assert_eq!(again.json().receipts(), block.json().receipts());
    }
    for hash in reverted {
        assert!(!blocks.has(&hash), "{hash} has left the chain");
    }
    // The genesis too.
    let restored_count = WINDOW_BLOCKS as u64 + 1;
    wait_until("all are verified", || {
        restored.status.blocks()[0].1 == restored_count
    });
}

/// A fleet has the bytes of its blocks. To make them again takes as long as to verify a block.
#[test]
fn bytes_that_were_made_before_are_written() {
    let mut scene = Scene::of("kept");
    scene.go_on(1);
    let canonical = scene.canonical();
    let head = canonical.last().unwrap();
    let kept = Bytes::from_static(b"kept");
    scene.kept.keep(head.number(), head.hash, kept.clone());
    scene.save();
    let connection = Connection::open(scene.folder.join(NAME)).unwrap();
    let sql = "SELECT content FROM blocks WHERE hash = ?1";
    let content = |row: &Row<'_>| row.get::<_, Vec<u8>>(0);
    let written = connection.query_row(sql, [head.hash.as_slice()], content);
    assert_eq!(written.unwrap(), kept);
    assert!(!head.has_json(), "no sender was recovered");
}

/// Until the window is full again, it may still need what an earlier process saved.
#[tokio::test]
async fn a_window_that_is_being_filled_keeps_what_was_saved() {
    let mut scene = Scene::of("filling");
    scene.go_on(20);
    scene.save();
    let saved = scene.canonical();
    let newest = saved[saved.len() - 1].clone();
    scene.window = Window::new(CHAIN_ID, newest);
    scene.head.store(scene.window.snapshot());
    let (restored, mut writer) = scene.open();
    assert!(writer.write_all(0));
    assert_eq!(restored_blocks(&restored, &saved).await, hashes(&saved));
    // Once it is full, the blocks are the window's alone.
    for block in saved.iter().rev().skip(1) {
        scene.window.extend_below(Arc::clone(block)).unwrap();
    }
    scene.head.store(scene.window.snapshot());
    assert!(scene.window.snapshot().is_filled());
    assert!(writer.write_all(0));
    assert!(restored_blocks(&restored, &saved).await.is_empty());
    let (restored, _) = scene.open();
    assert_eq!(restored_blocks(&restored, &saved).await, hashes(&saved));
}

#[tokio::test]
async fn held_state_is_loaded_as_it_is_read() {
    let mut scene = Scene::of("state");
    scene.go_on(20);
    let addresses = addresses(&scene.canonical());
    let state = scene.fetch_state(&addresses);
    let expected: Vec<_> = addresses
        .iter()
        .map(|address| state.account(address).unwrap())
        .collect();
    let merged = scene.canonical()[3].hash;
    let (restored, mut writer) = scene.open();
    assert!(restored.items.is_none(), "a new file has no state");
    restored.merged.remember(merged);
    assert!(writer.write_all(0));
    drop((writer, state));
    scene.forget_state();
    let state = scene.hold_head();
    let (restored, mut writer) = scene.open();
    assert!(restored.merged.contains(&merged));
    assert!(state.account(&addresses[0]).is_err(), "it is not held");
    for (address, expected) in addresses.iter().zip(&expected) {
        assert!(loads(&restored, &state, address).await);
        assert_eq!(state.account(address).unwrap(), *expected);
    }
    // What is not saved is not made up.
    assert!(!loads(&restored, &state, &Address::repeat_byte(0x77)).await);
    // What leaves the store leaves the file.
    drop(state);
    scene.store.release_retired();
    assert!(writer.write_all(0));
    let (restored, _) = scene.open();
    assert!(restored.items.is_none());
}

#[tokio::test]
async fn what_was_changed_in_the_file_is_refused() {
    let mut scene = Scene::of("changed");
    scene.go_on(20);
    let canonical = scene.canonical();
    let addresses = addresses(&canonical);
    let state = scene.fetch_state(&addresses);
    scene.save();
    // Each block has the content of its parent, and each item one more byte.
    scene.edit(
        "UPDATE blocks SET content = (SELECT content FROM blocks AS parents
             WHERE parents.number = blocks.number - 1) WHERE number > 1;
         UPDATE items SET content = CAST(content || x'00' AS BLOB);",
    );
    drop(state);
    scene.forget_state();
    let (restored, _) = scene.open();
    assert_eq!(
        restored_blocks(&restored, &canonical).await.len(),
        2,
        "block 1 and the genesis"
    );
    let state = scene.hold_head();
    for address in &addresses {
        assert!(!loads(&restored, &state, address).await);
    }
    let refused = |counts: [(&str, u64); 2]| counts[1].1;
    assert_eq!(
        refused(restored.status.blocks()),
        canonical.len() as u64 - 2
    );
    assert_eq!(refused(restored.status.items()), addresses.len() as u64);
}

#[tokio::test]
async fn another_genesis_is_not_restored() {
    let mut scene = Scene::of("genesis");
    scene.go_on(2);
    scene.save();
    let genesis = scene.genesis;
    scene.genesis = B256::repeat_byte(1);
    let (restored, _) = scene.open();
    let blocks = restored.blocks.unwrap();
    assert!(!blocks.has(&genesis));
    assert_eq!(blocks.hash_at(0), None);
}

/// What is done to a file, and how.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_replaced() {
    let mut scene = Scene::of("replaced");
    scene.go_on(5);
    let canonical = scene.canonical();
    let path = scene.folder.join(NAME);
    let cases: [Damage<'_>; 7] = [
        ("text", &|path| fs::write(path, "not a database").unwrap()),
        ("nothing", &|path| fs::write(path, "").unwrap()),
        ("a half", &|path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a newer format", &|_| {
            scene.edit("PRAGMA user_version = 99")
        }),
        ("of another program", &|_| {
            scene.edit("PRAGMA application_id = 7")
        }),
        ("without a table", &|_| scene.edit("DROP TABLE merged")),
        ("a short hash", &|_| {
            scene.edit("UPDATE blocks SET hash = x'00' WHERE number = 1")
        }),
    ];
    for (what, damage) in cases {
        scene.save();
        scene.close();
        damage(&path);
        let (restored, mut writer) = scene.open();
        assert!(
            restored_blocks(&restored, &canonical).await.is_empty(),
            "{what}"
        );
        assert!(writer.write_all(0), "{what}");
        drop(writer);
        let (restored, _) = scene.open();
        assert_eq!(
            restored_blocks(&restored, &canonical).await,
            hashes(&canonical),
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_delays_what_is_saved() {
    let mut scene = Scene::of("full");
    scene.go_on(3);
    let (restored, mut writer) = scene.open();
    assert!(writer.write_all(0));
    writer.setup.file.as_ref().unwrap().fill_disk(true);
    scene.go_on(20);
    let addresses = addresses(&scene.canonical());
    let _state = scene.fetch_state(&addresses);
    assert!(!writer.write_all(0));
    assert!(!writer.write_all(0));
    assert_eq!(restored.status.writes()[1], ("failed", 2));
    writer.setup.file.as_ref().unwrap().fill_disk(false);
    assert!(writer.write_all(0));
    drop(writer);
    let restored = scene.check_saved().await;
    scene.forget_state();
    let state = scene.hold_head();
    for address in &addresses {
        assert!(loads(&restored, &state, address).await);
    }
}

/// A disk that returns other bytes than were written: the file is replaced while it is in use.
#[tokio::test]
async fn a_file_that_is_damaged_while_it_is_open_is_replaced() {
    let mut scene = Scene::of("damaged");
    scene.go_on(20);
    let addresses = addresses(&scene.canonical());
    let held = scene.fetch_state(&addresses);
    scene.save();
    scene.close();
    drop(held);
    scene.forget_state();
    let (restored, mut writer) = scene.open();
    // Blocks are read at the start, and state only now.
    let canonical = scene.canonical();
    assert_eq!(
        restored_blocks(&restored, &canonical).await,
        hashes(&canonical)
    );
    let path = scene.folder.join(NAME);
    let length = fs::metadata(&path).unwrap().len() as usize;
    fs::write(&path, vec![0x5a; length]).unwrap();
    let state = scene.hold_head();
    assert!(!loads(&restored, &state, &addresses[0]).await);
    scene.go_on(1);
    assert!(writer.write_all(0));
    drop(writer);
    scene.check_saved().await;
}

#[tokio::test]
async fn the_file_has_a_bound() {
    let mut scene = Scene::of("bound");
    scene.go_on(20);
    let addresses = addresses(&scene.canonical());
    let first = scene.fetch_state(&addresses);
    scene.save();
    // Nothing of it is held by the next process, which does not learn that it is of no use.
    drop(first);
    scene.forget_state();
    let state = scene.fetch_state(&addresses[..4]);
    let (_, mut writer) = scene.open_with(&scene.verifier, 0);
    // One write finds the file too large, and further ones have nothing to write.
    for _ in 0..3 {
        assert!(writer.write_all(0));
    }
    drop(writer);
    let (restored, _) = scene.open();
    let root = state.root();
    let mut held = Vec::new();
    for address in &addresses {
        let other = State::hold(&NodeStore::bounded(STATE_BYTES), root);
        held.push(loads(&restored, &other, address).await);
    }
    assert!(
        held[..4].iter().all(|held| *held),
        "what is held stays: {held:?}"
    );
    assert!(
        !held.iter().all(|held| *held),
        "what nobody holds goes first: {held:?}"
    );
}

/// Saved blocks have a total difficulty for the process whose options ask for it.
#[tokio::test]
async fn a_file_serves_every_option() {
    let mut scene = Scene::of("options");
    scene.go_on(3);
    scene.save();
    let head = Arc::clone(scene.window.snapshot().head());
    for omit_total_difficulty in [true, false] {
        let options = EncodeOptions {
            omit_total_difficulty,
        };
        let rules = FeeRules::of_chain(CHAIN_ID);
        let verifier = Verifier::new(CHAIN_ID, rules, options, Arc::clone(&scene.store));
        let (restored, _) = scene.open_with(&Arc::new(verifier), STATE_BYTES as u64);
        let block = restored.blocks.unwrap().block(&head.hash).await.unwrap();
        let json: Value = serde_json::from_slice(&block.json().block(false)).unwrap();
        assert_eq!(json.get("totalDifficulty").is_none(), omit_total_difficulty);
    }
}

/// What cannot be opened at the start is opened later, and the failures are counted.
#[tokio::test]
async fn a_file_that_cannot_be_opened_is_tried_again() {
    let mut scene = Scene::of("later");
    scene.go_on(3);
    let path = scene.folder.join(NAME);
    fs::create_dir(&path).unwrap();
    let _state = scene.fetch_state(&addresses(&scene.canonical()));
    let (restored, mut writer) = scene.open();
    assert!(restored.blocks.is_none());
    assert!(!writer.write_all(0));
    assert_eq!(restored.status.writes(), [("written", 0), ("failed", 1)]);
    fs::remove_dir(&path).unwrap();
    assert!(writer.write_all(0));
    drop(writer);
    let restored = scene.check_saved().await;
    scene.forget_state();
    let state = scene.hold_head();
    assert!(loads(&restored, &state, &addresses(&scene.canonical())[0]).await);
}

/// A block that was refused is saved again once a node has given it, and leaves the file otherwise.
#[tokio::test]
async fn a_refused_block_is_replaced_or_removed() {
    let mut scene = Scene::of("refused");
    scene.go_on(20);
    scene.save();
    let canonical = scene.canonical();
    let other = B256::repeat_byte(9);
    scene.edit(&format!(
        "UPDATE blocks SET content = x'00' WHERE number > 1;
         INSERT INTO blocks VALUES (x'{other:x}', 1000, x'00');"
    ));
    let (restored, mut writer) = scene.open();
    assert_eq!(restored_blocks(&restored, &canonical).await.len(), 2);
    let blocks = restored.blocks.unwrap();
    assert!(blocks.block(&other).await.is_none());
    assert!(writer.write_all(0));
    drop(writer);
    let restored = scene.check_saved().await;
    assert_eq!(restored.blocks.unwrap().hash_at(1_000), None);
}

/// A node that is behind may name the newer blocks soon.
#[tokio::test]
async fn blocks_above_the_head_are_kept() {
    let mut scene = Scene::of("behind");
    scene.go_on(20);
    scene.save();
    let saved = scene.canonical();
    let kept = saved.len() - 4;
    let mut window = Window::new(CHAIN_ID, Arc::clone(&saved[0]));
    for block in &saved[1..kept] {
        window.apply(Arc::clone(block)).unwrap();
    }
    scene.head.store(window.snapshot());
    let (restored, mut writer) = scene.open();
    assert!(window.snapshot().is_filled());
    assert!(writer.write_all(0));
    assert_eq!(
        restored_blocks(&restored, &saved[kept..]).await,
        hashes(&saved[kept..])
    );
    drop(writer);
    let (restored, _) = scene.open();
    assert_eq!(restored_blocks(&restored, &saved).await, hashes(&saved));
}

/// The block whose merge is in progress may not be the one from which the next process goes on.
#[test]
fn a_merge_in_progress_is_not_saved() {
    let [first, second] = [1, 2].map(B256::repeat_byte);
    let merged = super::MergedBlocks::restored(vec![first]);
    merged.begin(second);
    assert!(merged.contains(&second));
    assert_eq!(merged.newest(16), [first]);
    merged.end();
    assert_eq!(merged.newest(16), [first, second]);
}
