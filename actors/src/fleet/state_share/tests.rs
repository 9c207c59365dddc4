#![expect(clippy::unwrap_used, reason = "tests")]

mod access_lists;

use std::{collections::BTreeMap, sync::LazyLock};

use alloy_primitives::{Address, U256};
use futures_util::future::join_all;
use nearhead_chain::{
    block::Block,
    test_block::TestBlock,
    trie::{AccountInfo, AccountUpdate, State, StateUpdate},
};
use nearhead_fleet::scripts;
use redis::Script;

use super::*;
use crate::fleet::store::fake_server::{FakeServer, NIL, Words, list, string};

const ACCOUNT: Address = Address::repeat_byte(7);

/// Slots of the account: their nodes take many replies.
const SLOTS: u64 = 1_000;

static FULL: LazyLock<Arc<State>> = LazyLock::new(|| state(&NodeStore::new(), SLOTS));

/// A state with one account, which has so many slots.
fn state(store: &Arc<NodeStore>, count: u64) -> Arc<State> {
    let account = AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(1),
            code_hash: alloy_trie::KECCAK_EMPTY,
        }),
        storage_wiped: false,
        storage: slots(count).into_iter().map(|slot| (slot, slot)).collect(),
    };
    let update = StateUpdate {
        accounts: [(ACCOUNT, account)].into_iter().collect(),
        ..StateUpdate::default()
    };
    let empty = State::empty(store);
    empty.commit(empty.update(&update).unwrap())
}

/// All nodes of it by their hashes.
static ITEMS: LazyLock<BTreeMap<Vec<u8>, Bytes>> = LazyLock::new(|| {
    let proof = FULL.prove(&ACCOUNT, &slots(SLOTS)).unwrap();
    let nodes = proof.into_nodes();
    nodes
        .map(|node| (keccak256(&node).to_vec(), node))
        .collect()
});

fn slots(count: u64) -> Vec<U256> {
    (1..=count).map(U256::from).collect()
}

fn key() -> FleetKey {
    FleetKey::new(&[7; 32], b"test").unwrap()
}

/// A block, of whose state only the root is held.
fn block(store: &Arc<NodeStore>) -> BlockRef {
    let block = TestBlock::default().genesis();
    let block = Block {
        state: Some(State::hold(store, FULL.root())),
        ..(*block).clone()
    };
    BlockRef::of(&block).unwrap()
}

fn wanted(count: u64) -> Arc<[WantedState]> {
    let wanted = WantedState {
        address: ACCOUNT,
        slots: slots(count),
        with_code: false,
    };
    Arc::new([wanted])
}

/// What scripts are called by.
fn called(words: &Words, script: &str) -> bool {
    words[1] == Script::new(script).get_hash().as_bytes()
}

/// The items of a call for them.
fn items(words: &Words) -> Vec<u8> {
    let items = words[8..].iter().map(|hash| match ITEMS.get(hash) {
        Some(item) => string(item),
        None => NIL.to_vec(),
    });
    list(&items.collect::<Vec<_>>())
}

fn count(word: &str) -> Vec<u8> {
    list(&[string(word.as_bytes()), b":1\r\n".to_vec()])
}

fn share(server: &FakeServer, has_nodes: bool) -> StateShare {
    StateShare::new(server.store(), key(), has_nodes, Arc::default())
}

/// Each call of a slow store is in time, and all together take longer than a read may wait.
#[tokio::test]
async fn a_slow_store_delays_nobody_for_longer_than_others_are_waited_for() {
    let server = FakeServer::slow(Duration::from_millis(300), |words| items(&words));
    let share = share(&server.await, true);
    let begun = Instant::now();
    let wanted = wanted(SLOTS).to_vec();
    let got = SharedState::get(&share, &block(&NodeStore::new()), wanted).await;
    let elapsed = begun.elapsed();
    assert_eq!(got, Got::AskNodes);
    assert!(
        elapsed < STATE_WAIT_MAX + Duration::from_secs(2),
        "{elapsed:?}"
    );
}

/// Calls that wait for each other say nothing of the store.
#[tokio::test]
async fn a_busy_connection_does_not_end_sharing() {
    let none = |_| list(&[NIL.to_vec()]);
    let server = FakeServer::slow(Duration::from_millis(100), none);
    let share = share(&server.await, true);
    let calls = (0..12).map(|_| share.store.get_items(&[B256::ZERO]));
    let ends = join_all(calls).await;
    let failed = ends.into_iter().map(|end| share.unless_failed(end));
    assert!(failed.filter(Option::is_none).count() > 0);
    assert!(!share.is_away());
    let gone = FakeServer::nobody();
    let end = share.unless_failed(gone.store().get_items(&[B256::ZERO]).await);
    assert!(end.is_none() && share.is_away());
}

/// What is gained while the store is away is given once it is back.
#[tokio::test]
async fn what_is_gained_while_the_store_is_away_is_kept() {
    let server = FakeServer::start(async |_| count("put")).await;
    let share = share(&server, true);
    let store = NodeStore::new();
    store.record_gained();
    let _state = state(&store, 1);
    *share.away_until.lock() = Some(Instant::now() + STATE_WAIT_MAX);
    share.give(&store).await;
    assert_eq!(share.counts.given.get(), 0);
    *share.away_until.lock() = None;
    share.give(&store).await;
    assert_eq!(share.counts.given.get(), 1);
}

/// A store without items, in which this process and others have the turn by turns, and where the
/// others have asked their nodes in vain.
async fn unavailable(key: FleetKey) -> FakeServer {
    let turns = Arc::new(Mutex::new(0));
    FakeServer::start(move |words: Words| {
        let reply = if called(&words, scripts::TAKE_TURN) {
            let mut turns = turns.lock();
            *turns += 1;
            let digest = words[3].rsplit(|byte| *byte == b':').next().unwrap();
            let digest = std::str::from_utf8(digest).unwrap().parse().unwrap();
            match *turns % 3 {
                1 => NIL.to_vec(),
                _ => string(&seal_unavailable(&digest, &key)),
            }
        } else if called(&words, scripts::WANT) {
            count("wanted")
        } else {
            list(&[NIL.to_vec()])
        };
        async move { reply }
    })
    .await
}

/// State that two processes do not find at their nodes is unavailable, if this one has no nodes.
#[tokio::test]
async fn state_that_no_node_has_is_unavailable() {
    for (sealed_by, has_nodes, expected, wants) in [
        (key(), false, Got::StateUnavailable, 2),
        (key(), true, Got::AskNodes, 0),
        (
            FleetKey::new(&[8; 32], b"another").unwrap(),
            false,
            Got::Nothing,
            3,
        ),
    ] {
        let share = share(&unavailable(sealed_by).await, has_nodes);
        let block = block(&NodeStore::new());
        let got = SharedState::get(&share, &block, wanted(1).to_vec()).await;
        assert_eq!(got, expected);
        let left = share.counts.wanted.get();
        assert!(left == wants || left > 2 && wants > 2, "{left} wants");
    }
}
