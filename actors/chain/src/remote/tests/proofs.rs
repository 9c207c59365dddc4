//! A state that begins with its root alone and is filled from upstreams' proofs.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::{KECCAK_EMPTY, Nibbles, proof::verify_proof as alloy_verify};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{verify_code, verify_proof},
    DEV, parsed,
};
use crate::{
    encode::{ProofKey, proof},
    trie::{
        AccountInfo, AccountProof, AccountUpdate, NodeStore, ProofFlaw, State, StateUpdate,
        TrieError,
    },
};

fn slot(number: u64) -> U256 {
    U256::from(number)
}

fn address(number: u64) -> Address {
    Address::from_word(keccak256(number.to_be_bytes()))
}

/// The answer of an honest upstream.
fn honest_answer(state: &Arc<State>, address: &Address, slots: &[U256]) -> Vec<u8> {
    let keys = slots.iter().map(|slot| ProofKey::Short(*slot)).collect();
    let honest = proof(state, *address, keys, usize::MAX);
    honest.unwrap().into_bytes()
}

fn fetch(from: &Arc<State>, root: &State, address: &Address, slots: &[U256]) -> AccountProof {
    let json = honest_answer(from, address, slots);
    verify_proof(&json, root, address, slots).unwrap().proof
}

/// A state with `accounts` accounts; every third has 200 slots and a code of its own.
fn some_state(store: &Arc<NodeStore>, accounts: u64) -> Arc<State> {
    let code = |number: u64| Bytes::from(vec![0x60; 32 + number as usize]);
    let account = |number: u64| {
        let is_contract = number.is_multiple_of(3);
        let code_hash = if is_contract {
            keccak256(code(number))
        } else {
            alloy_trie::KECCAK_EMPTY
        };
        let slots = if is_contract { 200 } else { 0 };
        AccountUpdate {
            info: Some(AccountInfo {
                nonce: 1,
                balance: U256::from(number),
                code_hash,
            }),
            storage_wiped: false,
            storage: (0..slots)
                .map(|index| (slot(index), slot(number + index + 1)))
                .collect(),
        }
    };
    let update = StateUpdate {
        accounts: (0..accounts)
            .map(|number| (address(number), account(number)))
            .collect(),
        code: (0..accounts)
            .map(|number| (keccak256(code(number)), code(number)))
            .collect(),
    };
    let empty = State::empty(store);
    empty.commit(empty.update(&update).unwrap())
}

#[track_caller]
fn check_store(store: &NodeStore) {
    assert_eq!(store.check_invariants(store.held_roots()), Ok(()));
}

#[test]
fn missing_state_is_fetched_once() {
    let full = some_state(&NodeStore::new(), 60);
    let store = NodeStore::new();
    let held = State::hold(&store, full.root());
    check_store(&store);
    let missing = TrieError::MissingNode { hash: full.root() };
    assert_eq!(held.account(&address(3)), Err(missing));
    let slots = [slot(0), slot(7), slot(999)];
    let mut fetched = 0;
    for round in 0..2 {
        for number in 0..70 {
            let address = address(number);
            if held.prove(&address, &slots).is_err() {
                fetched += 1;
                let proof = fetch(&full, &held, &address, &slots);
                store.insert_proof(&proof);
                check_store(&store);
                assert_eq!(round, 0, "all state is held in the second round");
            }
            assert_eq!(held.account(&address), full.account(&address));
            for slot in slots {
                assert_eq!(held.storage(&address, slot), full.storage(&address, slot));
            }
            assert_eq!(
                honest_answer(&held, &address, &slots),
                honest_answer(&full, &address, &slots)
            );
            let Some(account) = held.account(&address).unwrap() else {
                continue;
            };
            if let Err(error) = held.code(&account.code_hash) {
                let hash = account.code_hash;
                assert_eq!(error, TrieError::MissingCode { hash });
                let code = full.code(&hash).unwrap();
                let code = verify_code(json!(code).to_string().as_bytes(), hash).unwrap();
                assert!(store.insert_code(code));
            }
            assert_eq!(held.code(&account.code_hash), full.code(&account.code_hash));
        }
    }
    // The nodes fetched for other accounts already exclude some of the absent ones.
    assert!((50..=70).contains(&fetched), "{fetched}");
    check_store(&store);
    assert!(!store.insert_code(Bytes::from_static(b"no account has it")));
    drop(held);
    store.release_retired();
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn an_absent_account_may_be_stated_with_zero_hashes() {
    let empty = State::empty(&NodeStore::new());
    let mut update = StateUpdate::default();
    update.accounts.insert(address(1), AccountUpdate::default());
    let info = AccountInfo {
        nonce: 1,
        balance: slot(1),
        code_hash: KECCAK_EMPTY,
    };
    let present = AccountUpdate {
        info: Some(info),
        ..AccountUpdate::default()
    };
    update.accounts.insert(address(2), present);
    let state = empty.commit(empty.update(&update).unwrap());
    for (account, is_valid) in [(address(1), true), (address(2), false)] {
        let mut altered: Value =
            serde_json::from_slice(&honest_answer(&state, &account, &[])).unwrap();
        for member in ["codeHash", "storageHash"] {
            altered[member] = json!(B256::ZERO);
        }
        let verified = verify_proof(altered.to_string().as_bytes(), &state, &account, &[]);
        assert_eq!(verified.is_ok(), is_valid, "{account}");
    }
}

/// States of the dev chain: nodes from the proof of one block serve the others.
#[test]
fn neighboring_blocks_share_unchanged_nodes() {
    let store = NodeStore::new();
    let states: Vec<_> = DEV
        .blocks
        .iter()
        .map(|block| block.state.clone().unwrap())
        .collect();
    let held: Vec<_> = states
        .iter()
        .map(|state| State::hold(&store, state.root()))
        .collect();
    let receipts = parsed(&DEV.blocks[1].json().receipts());
    let of_log = |receipt: &serde_json::Value| receipt["logs"][0]["address"].as_str()?.parse().ok();
    let token: Address = receipts
        .as_array()
        .unwrap()
        .iter()
        .find_map(of_log)
        .unwrap();
    let slots: Vec<_> = (0..8).map(slot).collect();
    let mut new_bytes = Vec::new();
    for (state, held) in states.iter().zip(&held) {
        let before = store.stats().node_bytes;
        store.insert_proof(&fetch(state, held, &token, &slots));
        check_store(&store);
        new_bytes.push(store.stats().node_bytes - before);
        assert_eq!(
            honest_answer(held, &token, &slots),
            honest_answer(state, &token, &slots)
        );
    }
    assert!(
        new_bytes[1..].iter().all(|bytes| *bytes <= new_bytes[0]),
        "{new_bytes:?}"
    );
    // The older states are dropped one by one; the nodes that the newest reaches stay.
    let mut held = held;
    while held.len() > 1 {
        drop(held.remove(0));
        store.release_retired();
        check_store(&store);
        let (state, newest) = (states.last().unwrap(), held.last().unwrap());
        assert_eq!(
            honest_answer(newest, &token, &slots),
            honest_answer(state, &token, &slots)
        );
    }
    drop(held);
    store.release_retired();
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn nodes_that_no_held_root_reaches_are_not_stored() {
    let full = some_state(&NodeStore::new(), 60);
    let other = some_state(&NodeStore::new(), 61);
    let store = NodeStore::new();
    let proof = full.prove(&address(3), &[slot(1)]).unwrap();
    store.insert_proof(&proof);
    assert_eq!(store.stats(), Default::default(), "no root is held");
    let held = State::hold(&store, other.root());
    store.insert_proof(&proof);
    check_store(&store);
    assert_eq!(store.stats().node_bytes, 0, "another root is held");
    let again = State::hold(&store, full.root());
    // A proof without its root node adds nothing.
    let rootless = AccountProof {
        nodes: proof.nodes[1..].to_vec(),
        ..proof.clone()
    };
    store.insert_proof(&rootless);
    assert_eq!(store.stats().node_bytes, 0);
    store.insert_proof(&proof);
    check_store(&store);
    assert_eq!(again.storage(&address(3), slot(1)), Ok(slot(5)));
    // A proof against the other root makes its slot readable.
    store.insert_proof(&other.prove(&address(3), &[slot(1)]).unwrap());
    check_store(&store);
    assert_eq!(held.storage(&address(3), slot(1)), Ok(slot(5)));
    drop((held, again));
    store.release_retired();
    assert_eq!(store.stats(), Default::default());
}

#[test]
fn a_partially_held_state_can_be_empty() {
    let store = NodeStore::new();
    let held = State::hold(&store, alloy_trie::EMPTY_ROOT_HASH);
    assert_eq!(held.account(&address(1)), Ok(None));
    for nodes in [json!([]), json!(["0x80"])] {
        let stated = json!({
            "address": address(1), "nonce": "0x0", "balance": "0x0",
            "codeHash": alloy_trie::KECCAK_EMPTY, "storageHash": alloy_trie::EMPTY_ROOT_HASH,
            "accountProof": nodes, "storageProof": [{"key": "0x1", "value": "0x0", "proof": nodes}],
        });
        let stated = stated.to_string();
        let proof = verify_proof(stated.as_bytes(), &held, &address(1), &[slot(1)]);
        let verified = proof.unwrap();
        let proof = &verified.proof;
        assert!(proof.account.is_none() && proof.nodes.is_empty());
        assert!(proof.storage[0].nodes.is_empty());
        store.insert_verified(&verified);
    }
    drop(held);
    check_store(&store);
}

#[test]
fn each_flaw_of_a_proof_is_named() {
    let full = some_state(&NodeStore::new(), 60);
    let (root, address) = (full.root(), address(3));
    let honest = full.prove(&address, &[slot(1)]).unwrap();
    // Its nodes are not hashed again where they are held, and no flaw may pass for that.
    let held = State::hold(&NodeStore::new(), root);
    held.store().insert_proof(&honest);
    let verify = |nodes: Vec<Bytes>, storage: Vec<Bytes>| {
        let storage = vec![(slot(1), storage)];
        let verified = AccountProof::verify(root, &address, nodes.clone(), storage.clone());
        let where_held = held.verify(&address, nodes, storage);
        assert_eq!(where_held.err(), verified.clone().err());
        verified
    };
    let (nodes, storage) = (honest.nodes.clone(), honest.storage[0].nodes.clone());
    let again = verify(nodes.clone(), storage.clone()).unwrap();
    assert_eq!((again.account, &again.nodes), (honest.account, &nodes));
    let flaw = |nodes: &[Bytes], storage: &[Bytes]| {
        let error = verify(nodes.to_vec(), storage.to_vec()).unwrap_err();
        (error.part.to_string(), error.flaw)
    };
    let (account, of_slot) = (
        "account proof".to_owned(),
        "storage proof of 0x1".to_owned(),
    );
    let expected = keccak256(&nodes[1]);
    let (part, found) = flaw(&nodes[..1], &storage);
    assert_eq!(
        (part, found),
        (account.clone(), ProofFlaw::Short { expected, found: 1 })
    );
    let longer = [nodes.as_slice(), &nodes[..1]].concat();
    let (part, found) = flaw(&longer, &storage);
    let want = ProofFlaw::Long {
        expected: nodes.len(),
        found: nodes.len() + 1,
    };
    assert_eq!((part, found), (account, want));
    let expected = keccak256(&storage[0]);
    let (part, found) = flaw(&nodes, &nodes);
    assert_eq!(
        (part, found),
        (
            of_slot.clone(),
            ProofFlaw::Node {
                expected,
                found: root
            }
        )
    );
    let (part, found) = flaw(&nodes, &[]);
    assert_eq!(
        (part, found),
        (of_slot, ProofFlaw::Short { expected, found: 0 })
    );
    let garbage = Bytes::from_static(b"not a node, although its hash is the requested one");
    let malformed = AccountProof::verify(keccak256(&garbage), &address, vec![garbage], vec![]);
    assert!(matches!(
        malformed.unwrap_err().flaw,
        ProofFlaw::Malformed { .. }
    ));
}

/// A bounded store stays within its bound, answers reads, and evicts state that is not read.
#[test]
fn a_bounded_store_keeps_state_that_is_read() {
    let full = some_state(&NodeStore::new(), 600);
    const MAX: usize = 400_000;
    let store = NodeStore::bounded(MAX);
    let held = State::hold(&store, full.root());
    let slots: Vec<_> = (0..40).map(slot).collect();
    let hot = [address(3), address(6)];
    let mut fetched = [0, 0];
    for number in 0..600 {
        for (which, address) in [(0, hot[0]), (0, hot[1]), (1, address(number))] {
            if held.prove(&address, &slots).is_err() {
                fetched[which] += 1;
                store.insert_proof(&fetch(&full, &held, &address, &slots));
                // State that was just fetched is held.
                assert_eq!(
                    honest_answer(&held, &address, &slots),
                    honest_answer(&full, &address, &slots)
                );
            }
            let account = full.account(&address).unwrap().unwrap();
            if held.code(&account.code_hash).is_err() {
                assert!(store.insert_code(full.code(&account.code_hash).unwrap()));
            }
        }
        let stats = store.stats();
        let bytes = stats.node_bytes + stats.code_bytes + 100 * (stats.nodes + stats.codes);
        assert!(bytes <= MAX, "{bytes}");
        if number % 20 == 0 {
            check_store(&store);
        }
    }
    check_store(&store);
    assert_eq!(fetched[0], 2, "state that is read in every round stays");
    assert!(fetched[1] >= 590);
    let evicted = (0..600).filter(|number| held.prove(&address(*number), &slots).is_err());
    assert!(evicted.count() > 300, "most do not fit");
    drop(held);
    store.release_retired();
    assert_eq!(store.stats(), Default::default());
}

/// However small the bound, proofs verify, and the store keeps its invariants.
#[test]
fn a_bound_may_be_too_small_for_anything() {
    let full = some_state(&NodeStore::new(), 60);
    let store = NodeStore::bounded(1);
    let held = State::hold(&store, full.root());
    for number in 0..60 {
        let proof = fetch(&full, &held, &address(number), &[slot(1)]);
        store.insert_proof(&proof);
        check_store(&store);
        assert_eq!(store.stats().node_bytes, 0);
        assert_eq!(store.stats().nodes, 1, "the held root has an entry");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random states, with some nodes changed: alloy-trie accepts and refuses the same proofs.
    #[test]
    fn proofs_are_accepted_exactly_if_alloy_trie_accepts_them(
        accounts in 1..80_u64,
        asked in 0..90_u64,
        of_slot in 0..300_u64,
        change in proptest::option::of((
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            0..8_u8,
        )),
    ) {
        let full = some_state(&NodeStore::new(), accounts);
        let (address, of_slot) = (address(asked), slot(of_slot));
        let honest = full.prove(&address, &[of_slot]).unwrap();
        let mut lists = [honest.nodes.clone(), honest.storage[0].nodes.clone()];
        if let Some((node, byte, bit)) = &change {
            let of_account = lists[0].len();
            let node = node.index(of_account + lists[1].len());
            let node = match node.checked_sub(of_account) {
                None => &mut lists[0][node],
                Some(node) => &mut lists[1][node],
            };
            let mut bytes = node.to_vec();
            let byte = byte.index(bytes.len());
            bytes[byte] ^= 1 << bit;
            *node = bytes.into();
        }
        let [nodes, storage] = &lists;
        let key = |key| Nibbles::unpack(keccak256(key));
        let account = honest.account.map(alloy_rlp::encode);
        let root = honest
            .account
            .map_or(alloy_trie::EMPTY_ROOT_HASH, |account| account.storage_root);
        let value = honest.storage[0].value;
        let value = (!value.is_zero()).then(|| alloy_rlp::encode(value));
        let is_empty = root == alloy_trie::EMPTY_ROOT_HASH;
        let slot_key = key(of_slot.to_be_bytes::<32>().to_vec());
        let alloy = alloy_verify(full.root(), key(address.to_vec()), account, nodes).is_ok()
            && ((is_empty && storage.is_empty())
                || alloy_verify(root, slot_key, value, storage).is_ok());
        let slots = vec![(of_slot, storage.clone())];
        let ours = AccountProof::verify(full.root(), &address, nodes.clone(), slots);
        prop_assert_eq!(ours.is_ok(), alloy);
        prop_assert_eq!(alloy, change.is_none());
        if let Ok(ours) = ours {
            prop_assert_eq!(ours.account, honest.account);
            prop_assert_eq!(ours.storage[0].value, honest.storage[0].value);
        }
    }

    /// States are held and dropped, proofs arrive in any order, and nodes are evicted: the
    /// reference counts are right after every step.
    #[test]
    fn reference_counts_stay_right_after_random_steps(
        bounded: bool,
        steps in prop::collection::vec((0..4_u8, 0..3_usize, 0..40_u64, 0..200_u64), 1..60),
    ) {
        let fulls = [30, 31, 40].map(|accounts| some_state(&NodeStore::new(), accounts));
        let store = if bounded { NodeStore::bounded(30_000) } else { NodeStore::new() };
        let mut held: Vec<(usize, Arc<State>)> = Vec::new();
        for (action, which, number, index) in steps {
            let full = &fulls[which];
            match action {
                0 => held.push((which, State::hold(&store, full.root()))),
                1 => {
                    let pick = number as usize;
                    if pick < held.len() {
                        held.swap_remove(pick);
                    }
                }
                _ => {
                    let proof = full.prove(&address(number), &[slot(index)]).unwrap();
                    store.insert_proof(&proof);
                    if let Some(account) = proof.account {
                        store.insert_code(full.code(&account.code_hash).unwrap());
                    }
                }
            }
            prop_assert_eq!(store.check_invariants(store.held_roots()), Ok(()));
            for (which, held) in &held {
                if let Ok(value) = held.storage(&address(number), slot(index)) {
                    let stored = fulls[*which].storage(&address(number), slot(index));
                    prop_assert_eq!(Ok(value), stored);
                }
            }
        }
        held.clear();
        store.release_retired();
        prop_assert_eq!(store.stats(), Default::default());
    }
}
