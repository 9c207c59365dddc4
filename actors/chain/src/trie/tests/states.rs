//! States of accounts with storage and code, in a window that moves and reverts.

use std::{collections::VecDeque, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256, map::B256Map};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY};
use proptest::prelude::*;

use super::model::StateModel;
use crate::trie::{
    AccountInfo, AccountUpdate, NodeStore, State, StateUpdate, TrieError, UnstoredState,
};

pub(super) const ACCOUNTS: u8 = 24;
pub(super) const SLOTS: u64 = 40;

pub(super) fn address(index: u8) -> Address {
    Address::repeat_byte(index)
}

pub(super) fn addresses() -> Vec<Address> {
    (0..ACCOUNTS + 2).map(address).collect()
}

pub(super) fn slots() -> Vec<U256> {
    (0..SLOTS + 2).map(U256::from).collect()
}

fn code(index: u8) -> Bytes {
    Bytes::from(vec![0x60; usize::from(index)])
}

fn any_account() -> impl Strategy<Value = AccountUpdate> {
    let balance = prop_oneof![
        Just(U256::ZERO),
        Just(U256::MAX),
        any::<u8>().prop_map(U256::from)
    ];
    let info = (0..3_u64, balance, 0..4_u8).prop_map(|(nonce, balance, index)| AccountInfo {
        nonce,
        balance,
        code_hash: keccak256(code(index)),
    });
    // Few values, so that some accounts have equal storage.
    let value = prop_oneof![2 => Just(0_u64), 3 => 1..3_u64, 1 => any::<u64>()];
    let slot = (0..SLOTS, value).prop_map(|(slot, value)| (U256::from(slot), U256::from(value)));
    let storage = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(slot, 0..12),
        (1..3_u64).prop_map(|value| (0..8)
            .map(|slot| (U256::from(slot), U256::from(value)))
            .collect()),
    ];
    (
        prop::option::weighted(0.85, info),
        prop::bool::weighted(0.15),
        storage,
    )
        .prop_map(|(info, storage_wiped, storage)| AccountUpdate {
            info,
            storage_wiped,
            storage,
        })
}

pub(super) fn any_update() -> impl Strategy<Value = StateUpdate> {
    prop::collection::btree_map((0..ACCOUNTS).prop_map(address), any_account(), 0..8).prop_map(
        |accounts| StateUpdate {
            accounts: accounts.into_iter().collect(),
            code: (1..4)
                .map(|index| (keccak256(code(index)), code(index)))
                .collect(),
        },
    )
}

#[derive(Clone, Debug)]
enum StateStep {
    /// Applies a block; the oldest one leaves a full window.
    Apply(StateUpdate),
    /// Computes a block and discards it.
    Discard(StateUpdate),
    /// Reverts up to this many blocks.
    Revert(usize),
    /// A reader takes a handle to a state and keeps it.
    Pin(prop::sample::Index),
    /// The reader drops all its handles.
    Unpin,
}

fn any_step() -> impl Strategy<Value = StateStep> {
    prop_oneof![
        12 => any_update().prop_map(StateStep::Apply),
        1 => any_update().prop_map(StateStep::Discard),
        2 => (1..6_usize).prop_map(StateStep::Revert),
        1 => any::<prop::sample::Index>().prop_map(StateStep::Pin),
        1 => Just(StateStep::Unpin),
    ]
}

/// Runs the steps in a window of `window_states` states, and checks after each one that the store
/// holds exactly what the states reach.
///
/// The window is full before the first step, so that every block releases one.
fn check(steps: &[StateStep], window_states: usize) {
    let store = NodeStore::new();
    let mut states = VecDeque::from([(State::empty(&store), StateModel::default())]);
    for number in 1..window_states as u64 {
        let (head, model) = states.back().unwrap();
        let index = (number % u64::from(ACCOUNTS)) as u8;
        let update = update([(index, account(&[(number % SLOTS, number)]))]);
        let mut model = model.clone();
        model.apply(&update);
        let state = commit(head, &update);
        states.push_back((state, model));
    }
    let mut pinned = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (head, model) = states.back().unwrap();
        match step {
            StateStep::Apply(update) => {
                let mut model = model.clone();
                model.apply(update);
                let changes = head.update(update).unwrap();
                assert_eq!(changes.root(), model.root());
                let state = head.commit(changes);
                states.push_back((state, model));
                if states.len() > window_states {
                    states.pop_front();
                }
            }
            StateStep::Discard(update) => drop(head.update(update).unwrap()),
            StateStep::Revert(count) => states.truncate(states.len().saturating_sub(*count).max(1)),
            StateStep::Pin(index) => pinned.push(states[index.index(states.len())].clone()),
            StateStep::Unpin => pinned.clear(),
        }
        // Dropped handles count until the release.
        check_invariants(&store, states.iter().chain(&pinned));
        store.release_retired();
        check_invariants(&store, states.iter().chain(&pinned));
        let (state, model) = &states[number % states.len()];
        model.check(state, &[address(number as u8 % ACCOUNTS)], &slots());
    }
    for (state, model) in states.iter().step_by(9).chain(states.back()).chain(&pinned) {
        model.check(state, &addresses(), &slots());
    }
    drop((states, pinned));
    store.release_retired();
    assert_eq!(
        store.stats(),
        Default::default(),
        "nothing is held, so nothing is stored"
    );
}

fn check_invariants<'a>(
    store: &NodeStore,
    states: impl Iterator<Item = &'a (Arc<State>, StateModel)>,
) {
    // A clone of an Arc is the same handle.
    let mut handles = states
        .map(|(state, _)| (Arc::as_ptr(state), state.root()))
        .collect::<Vec<_>>();
    handles.sort_unstable();
    handles.dedup();
    let mut roots = handles
        .into_iter()
        .map(|(_, root)| root)
        .collect::<Vec<_>>();
    store.check_invariants(roots.iter().copied()).unwrap();
    let mut held = store.held_roots();
    roots.sort_unstable();
    held.sort_unstable();
    assert_eq!(held, roots);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_small_window_moves_and_reverts(steps in prop::collection::vec(any_step(), 1..40)) {
        check(&steps, 6);
    }

    #[test]
    fn updates_that_are_not_stored_follow_one_another(
        first in any_update(),
        updates in prop::collection::vec(any_update(), 1..12),
    ) {
        let store = NodeStore::new();
        let (state, mut model) = (State::empty(&store), StateModel::default());
        model.apply(&first);
        let state = commit(&state, &first);
        let mut unstored = UnstoredState::after(&state);
        for update in &updates {
            model.apply(update);
            prop_assert_eq!(unstored.update(update).unwrap(), model.root());
        }
        store.check_invariants(std::iter::once(state.root())).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 64, ..Default::default() })]

    #[test]
    fn a_window_of_128_moves_and_reverts(steps in prop::collection::vec(any_step(), 260..300)) {
        check(&steps, 128);
    }
}

pub(super) fn account(storage: &[(u64, u64)]) -> AccountUpdate {
    let storage = storage
        .iter()
        .map(|(slot, value)| (U256::from(*slot), U256::from(*value)));
    AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(2),
            code_hash: KECCAK_EMPTY,
        }),
        storage_wiped: false,
        storage: storage.collect(),
    }
}

pub(super) fn update(accounts: impl IntoIterator<Item = (u8, AccountUpdate)>) -> StateUpdate {
    let accounts = accounts
        .into_iter()
        .map(|(index, account)| (address(index), account));
    StateUpdate {
        accounts: accounts.collect(),
        code: B256Map::default(),
    }
}

fn commit(state: &State, update: &StateUpdate) -> Arc<State> {
    let changes = state.update(update).unwrap();
    state.commit(changes)
}

fn check_own_invariants(store: &NodeStore) {
    store.release_retired();
    store.check_invariants(store.held_roots()).unwrap();
}

#[test]
fn the_empty_state_needs_no_nodes() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    assert_eq!(empty.root(), EMPTY_ROOT_HASH);
    StateModel::default().check(&empty, &addresses(), &slots());
    let same = commit(&empty, &StateUpdate::default());
    let deleted = commit(&same, &update([(1, AccountUpdate::default())]));
    assert_eq!(deleted.root(), EMPTY_ROOT_HASH);
    assert_eq!(store.held_roots(), [EMPTY_ROOT_HASH; 3]);
    assert_eq!(store.stats(), Default::default());
    check_own_invariants(&store);
}

#[test]
fn accounts_with_equal_storage_share_its_nodes() {
    let store = NodeStore::new();
    let storage = (1..30).map(|slot| (slot, slot)).collect::<Vec<_>>();
    let one = commit(&State::empty(&store), &update([(1, account(&storage))]));
    let nodes_of_one = store.stats().nodes;
    let two = commit(&one, &update([(2, account(&storage))]));
    // A root and two leaves instead of a root leaf.
    assert!(
        store.stats().nodes <= nodes_of_one + 3,
        "{:?}",
        store.stats()
    );
    check_own_invariants(&store);
    drop(one);
    let changed = commit(&two, &update([(2, account(&[(7, 0)]))]));
    check_own_invariants(&store);
    drop(two);
    check_own_invariants(&store);
    assert_eq!(
        changed.storage(&address(1), U256::from(7)).unwrap(),
        U256::from(7)
    );
    assert_eq!(
        changed.storage(&address(2), U256::from(7)).unwrap(),
        U256::ZERO
    );
    let neither = commit(
        &changed,
        &update([(1, AccountUpdate::default()), (2, AccountUpdate::default())]),
    );
    drop(changed);
    check_own_invariants(&store);
    assert_eq!(neither.root(), EMPTY_ROOT_HASH);
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn a_root_that_is_committed_twice_is_held_twice() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    let change = update([(1, account(&[(1, 1)])), (2, account(&[]))]);
    let (first, second) = (commit(&empty, &change), commit(&empty, &change));
    assert_eq!(first.root(), second.root());
    check_own_invariants(&store);
    drop(first);
    check_own_invariants(&store);
    assert_eq!(second.storage(&address(1), U256::ONE).unwrap(), U256::ONE);
    drop(second);
    check_own_invariants(&store);
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn a_commit_releases_what_dropped_handles_left() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    let one = commit(&empty, &update([(1, account(&[(1, 1)]))]));
    drop(one);
    assert_eq!(store.stats().retired, 1);
    let two = commit(&empty, &update([(2, account(&[(2, 2)]))]));
    assert_eq!(store.stats().retired, 0);
    store.check_invariants([two.root()]).unwrap();
}

#[test]
fn a_state_held_in_part_is_counted_and_completed() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    let hash = keccak256(code(3));
    let mut with_code = account(&[(1, 1), (2, 2)]);
    with_code.info.as_mut().unwrap().code_hash = hash;
    let mut change = update([(1, with_code), (2, account(&[]))]);
    change.code = [(hash, code(3))].into_iter().collect();
    let whole = empty.update(&change).unwrap();
    let mut part = empty.update(&change).unwrap();
    let account = commit(&empty, &change).account(&address(1)).unwrap();
    store.release_retired();
    // Leaves out the storage and the code of the one account that has any.
    let storage_root = account.unwrap().storage_root;
    part.nodes.remove(&storage_root).unwrap();
    part.codes.clear();
    let part = empty.commit(part);
    store.check_invariants([part.root()]).unwrap();
    assert_eq!(part.account(&address(1)).unwrap(), account);
    assert_eq!(
        part.storage(&address(1), U256::ONE),
        Err(TrieError::MissingNode { hash: storage_root })
    );
    assert_eq!(part.code(&hash), Err(TrieError::MissingCode { hash }));
    let whole = empty.commit(whole);
    store.check_invariants([part.root(), whole.root()]).unwrap();
    drop(part);
    store.release_retired();
    store.check_invariants([whole.root()]).unwrap();
    drop(whole);
    check_own_invariants(&store);
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn codes_live_as_long_as_an_account_names_them() {
    let store = NodeStore::new();
    let hash = keccak256(code(3));
    let with_code = AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::ZERO,
            code_hash: hash,
        }),
        ..Default::default()
    };
    let mut change = update([(1, with_code.clone()), (2, with_code)]);
    change.code = [(hash, code(3)), (B256::ZERO, code(1))]
        .into_iter()
        .collect();
    let both = commit(&State::empty(&store), &change);
    assert_eq!(
        store.stats().codes,
        1,
        "a code that no account references is not kept"
    );
    let one = commit(&both, &update([(1, AccountUpdate::default())]));
    drop(both);
    check_own_invariants(&store);
    assert_eq!(one.code(&hash).unwrap(), code(3));
    let none = commit(&one, &update([(2, account(&[]))]));
    drop(one);
    check_own_invariants(&store);
    assert!(none.code(&hash).is_err());
    assert_eq!(store.stats().code_bytes, 0);
}

#[test]
fn storage_is_wiped_before_its_new_slots_are_set() {
    let store = NodeStore::new();
    let before = commit(
        &State::empty(&store),
        &update([(1, account(&[(1, 1), (2, 2)]))]),
    );
    let wiped = AccountUpdate {
        storage_wiped: true,
        ..account(&[(2, 5), (3, 6)])
    };
    let after = commit(&before, &update([(1, wiped)]));
    let read = |slot: u64| after.storage(&address(1), U256::from(slot)).unwrap();
    assert_eq!([read(1), read(2), read(3)], [0, 5, 6].map(U256::from));
    let fresh = commit(
        &State::empty(&store),
        &update([(1, account(&[(2, 5), (3, 6)]))]),
    );
    assert_eq!(after.root(), fresh.root());
}

#[test]
fn the_last_of_two_values_of_a_slot_counts() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    let twice = empty
        .update(&update([(1, account(&[(1, 1), (2, 2), (1, 3), (2, 0)]))]))
        .unwrap();
    let once = empty.update(&update([(1, account(&[(1, 3)]))])).unwrap();
    assert_eq!(twice.root(), once.root());
}

#[test]
fn proofs_keep_the_order_and_the_duplicates_of_the_keys() {
    let store = NodeStore::new();
    let state = commit(
        &State::empty(&store),
        &update([(1, account(&[(1, 1), (2, 2)]))]),
    );
    let keys = [2, 9, 2, 1].map(U256::from);
    let proof = state.prove(&address(1), &keys).unwrap();
    let values = proof.storage.iter().map(|entry| entry.value);
    assert_eq!(values.collect::<Vec<_>>(), [2, 0, 2, 1].map(U256::from));
    assert_eq!(proof.storage[0].nodes, proof.storage[2].nodes);
    let absent = state.prove(&address(9), &keys).unwrap();
    assert_eq!(
        (absent.account, absent.nodes.len()),
        (None, 1),
        "the one leaf excludes all others"
    );
    assert!(
        absent
            .storage
            .iter()
            .all(|entry| entry.nodes.is_empty() && entry.value.is_zero())
    );
}

#[test]
#[should_panic(expected = "changes are committed on the state that they change")]
fn changes_of_another_state_are_refused() {
    let store = NodeStore::new();
    let empty = State::empty(&store);
    let changes = empty.update(&update([(1, account(&[]))])).unwrap();
    let other = commit(&empty, &update([(2, account(&[]))]));
    let _ = other.commit(changes);
}
