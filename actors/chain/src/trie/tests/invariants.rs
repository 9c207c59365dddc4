//! `check_invariants` can fail: each test changes one thing in a sound store, and expects the error
//! that names it.

use std::sync::{Arc, atomic::Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};

use crate::trie::{
    AccountInfo, AccountUpdate, InvariantError, NodeStore, Reference, State, StateUpdate, bytecode,
    node_store::{CodeEntry, NodeEntry},
};

fn state_of_some_accounts(store: &Arc<NodeStore>) -> Arc<State> {
    let code = Bytes::from_static(b"code");
    let hash = keccak256(&code);
    let account = |index: u8| AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(index),
            code_hash: hash,
        }),
        storage_wiped: false,
        storage: (1..20)
            .map(|slot| (U256::from(slot), U256::from(index)))
            .collect(),
    };
    let accounts = (1..9)
        .map(|index| (Address::repeat_byte(index), account(index)))
        .collect();
    let update = StateUpdate {
        accounts,
        code: [(hash, code)].into_iter().collect(),
    };
    let empty = State::empty(store);
    empty.commit(empty.update(&update).unwrap())
}

fn check(damage: impl FnOnce(&NodeStore, &State) -> Option<InvariantError>) {
    let store = NodeStore::new();
    let state = state_of_some_accounts(&store);
    assert_eq!(store.check_invariants([state.root()]), Ok(()));
    let expected = damage(&store, &state);
    let found = store.check_invariants([state.root()]).unwrap_err();
    assert_eq!(Some(&found), expected.as_ref(), "{found}");
}

/// A node other than the root, the same in every run.
fn any_node(store: &NodeStore, state: &State) -> B256 {
    let hashes = store.nodes.iter().map(|entry| *entry.key());
    hashes.filter(|hash| *hash != state.root()).min().unwrap()
}

/// A leaf that references nothing, so that damage to it is the only error.
fn any_storage_leaf(store: &NodeStore) -> B256 {
    let is_short = |rlp: &Option<Box<[u8]>>| rlp.as_ref().is_some_and(|rlp| rlp.len() < 40);
    let leaves = store.nodes.iter().filter(|entry| is_short(&entry.rlp));
    leaves.map(|entry| *entry.key()).min().unwrap()
}

fn only_code(store: &NodeStore) -> B256 {
    *store.codes.iter().next().unwrap().key()
}

#[test]
fn a_count_too_high_or_too_low_is_found() {
    for (change, stored) in [(1_i32, 2), (-1, 0)] {
        check(|store, state| {
            let hash = any_node(store, state);
            let mut entry = store.nodes.get_mut(&hash).unwrap();
            assert_eq!(entry.refs, 1);
            entry.refs = entry.refs.checked_add_signed(change).unwrap();
            let item = Reference::Node(hash);
            Some(InvariantError::References {
                item,
                stored,
                expected: 1,
            })
        });
    }
    check(|store, _| {
        let hash = only_code(store);
        store.codes.get_mut(&hash).unwrap().refs -= 1;
        let item = Reference::Code(hash);
        Some(InvariantError::References {
            item,
            stored: 7,
            expected: 8,
        })
    });
}

#[test]
fn an_orphan_is_found() {
    check(|store, _| {
        let rlp = Box::from(alloy_rlp::encode(B256::ZERO));
        let (hash, rlp) = (keccak256(&rlp), Some(rlp));
        let (refs, used) = (1, 0.into());
        store.nodes.insert(hash, NodeEntry { refs, rlp, used });
        Some(InvariantError::Unreachable {
            item: Reference::Node(hash),
        })
    });
    check(|store, _| {
        let code = Bytes::from_static(b"orphan");
        let hash = keccak256(&code);
        store.codes.insert(
            hash,
            CodeEntry {
                refs: 1,
                code: Some(bytecode(code)),
                used: 0.into(),
            },
        );
        Some(InvariantError::Unreachable {
            item: Reference::Code(hash),
        })
    });
}

#[test]
fn a_missing_item_is_found() {
    check(|store, _| {
        let hash = any_storage_leaf(store);
        store.nodes.remove(&hash);
        Some(InvariantError::Missing {
            item: Reference::Node(hash),
        })
    });
    check(|store, _| {
        let hash = only_code(store);
        store.codes.remove(&hash);
        Some(InvariantError::Missing {
            item: Reference::Code(hash),
        })
    });
}

#[test]
fn changed_bytes_are_found() {
    check(|store, _| {
        let hash = any_storage_leaf(store);
        let mut entry = store.nodes.get_mut(&hash).unwrap();
        let rlp = entry.rlp.as_mut().unwrap();
        *rlp.last_mut().unwrap() ^= 1;
        let (item, actual) = (Reference::Node(hash), keccak256(rlp));
        Some(InvariantError::Content { item, actual })
    });
    check(|store, state| {
        let mut entry = store.nodes.get_mut(&state.root()).unwrap();
        entry.rlp.as_mut().unwrap()[0] = 0x80;
        let item = Reference::Node(state.root());
        let error = alloy_rlp::Error::UnexpectedString;
        Some(InvariantError::Malformed { item, error })
    });
}

#[test]
fn wrong_sizes_and_wrong_handles_are_found() {
    check(|store, _| {
        let stated = store.node_bytes.fetch_add(1, Ordering::Relaxed) + 1;
        let code_bytes = store.stats().code_bytes;
        Some(InvariantError::Bytes {
            stored: stated - 1 + code_bytes,
            stated: stated + code_bytes,
        })
    });
    let store = NodeStore::new();
    let state = state_of_some_accounts(&store);
    let item = Reference::Node(state.root());
    assert_eq!(
        store.check_invariants([state.root(), state.root()]),
        Err(InvariantError::References {
            item,
            stored: 1,
            expected: 2
        }),
    );
    assert!(matches!(
        store.check_invariants([]),
        Err(InvariantError::Unreachable { .. })
    ));
}
