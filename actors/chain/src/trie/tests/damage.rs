//! Missing and malformed nodes: errors name the missing item, malformed bytes are errors, nothing
//! panics.

use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_trie::KECCAK_EMPTY;
use proptest::prelude::*;

use crate::trie::{
    AccountInfo, AccountUpdate, NodeStore, State, StateUpdate, TrieError, node::Node, references,
};

const ACCOUNTS: u8 = 40;

fn account(index: u8) -> AccountUpdate {
    AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(index),
            code_hash: KECCAK_EMPTY,
        }),
        storage_wiped: false,
        storage: (0..40)
            .map(|slot| (U256::from(slot), U256::from(slot + 1)))
            .collect(),
    }
}

fn state() -> (Arc<NodeStore>, Arc<State>) {
    let store = NodeStore::new();
    let accounts = (0..ACCOUNTS).map(|index| (Address::repeat_byte(index), account(index)));
    let update = StateUpdate {
        accounts: accounts.collect(),
        ..Default::default()
    };
    let empty = State::empty(&store);
    let state = empty.commit(empty.update(&update).unwrap());
    (store, state)
}

/// Reads, proves and updates everything in the state, one after the other.
fn touch_all(state: &State) -> Vec<TrieError> {
    let slots = (0..42).map(U256::from).collect::<Vec<_>>();
    let mut errors = Vec::new();
    for index in 0..ACCOUNTS + 1 {
        let address = Address::repeat_byte(index);
        errors.extend(state.account(&address).err());
        errors.extend(
            slots
                .iter()
                .find_map(|slot| state.storage(&address, *slot).err()),
        );
        errors.extend(state.prove(&address, &slots).err());
        let zeroes = slots.iter().map(|slot| (*slot, U256::ZERO)).collect();
        for account in [
            AccountUpdate::default(),
            AccountUpdate {
                storage: zeroes,
                ..account(index)
            },
        ] {
            let accounts = [(address, account)].into_iter().collect();
            errors.extend(
                state
                    .update(&StateUpdate {
                        accounts,
                        ..Default::default()
                    })
                    .err(),
            );
        }
    }
    errors
}

#[test]
fn a_missing_node_is_named() {
    let (store, state) = state();
    assert_eq!(touch_all(&state), []);
    let hashes = store
        .nodes
        .iter()
        .map(|entry| *entry.key())
        .collect::<Vec<_>>();
    for hash in hashes {
        let (_, entry) = store.nodes.remove(&hash).unwrap();
        let errors = touch_all(&state);
        assert!(!errors.is_empty(), "no error for missing {hash}");
        assert!(
            errors
                .iter()
                .all(|error| *error == TrieError::MissingNode { hash }),
            "{errors:?}"
        );
        store.nodes.insert(hash, entry);
    }
}

#[test]
fn a_missing_code_is_named() {
    let (_store, state) = state();
    let hash = B256::repeat_byte(7);
    assert_eq!(state.code(&hash), Err(TrieError::MissingCode { hash }));
    assert_eq!(state.code(&KECCAK_EMPTY), Ok(Default::default()));
}

#[test]
fn malformed_nodes_are_refused() {
    let list = |items: &[&[u8]]| {
        let payload = items.concat();
        let mut rlp = Vec::new();
        alloy_rlp::Header {
            list: true,
            payload_length: payload.len(),
        }
        .encode(&mut rlp);
        [rlp, payload].concat()
    };
    let hash = [&[0xa0][..], &[7; 32]].concat();
    let (empty, leaf_path, extension_path) = (&[0x80][..], &[0x82, 0x20, 0x11][..], &[0x11][..]);
    let branch = |length: usize, end: &[u8]| list(&[vec![empty; length].concat().as_slice(), end]);
    let cases = [
        ("nothing", vec![]),
        ("a string", vec![0x80]),
        ("an empty list", vec![0xc0]),
        ("one item", list(&[leaf_path])),
        ("three items", list(&[leaf_path, empty, empty])),
        ("sixteen items", branch(15, empty)),
        ("eighteen items", branch(17, empty)),
        ("a branch with a value", branch(16, &[0x01])),
        (
            "a branch with a short hash",
            list(&[&[0x81, 0x80], &[empty; 16].concat()]),
        ),
        (
            "bytes after the node",
            [list(&[leaf_path, empty]), vec![0]].concat(),
        ),
        ("a length beyond the end", vec![0xf8, 0x60, 0x80]),
        ("no path", list(&[empty, empty])),
        ("a path without a prefix", list(&[&[0x40], empty])),
        ("a padded prefix", list(&[&[0x21], empty])),
        (
            "a path beyond 64 nibbles",
            list(&[&[&[0xa2, 0x20][..], &[0; 33]].concat(), empty]),
        ),
        ("a path that is a list", list(&[&[0xc0], empty])),
        ("a leaf whose value is a list", list(&[leaf_path, &[0xc0]])),
        ("an extension to nothing", list(&[extension_path, empty])),
        ("an extension to a string", list(&[extension_path, &[0x01]])),
        (
            "an inline child of 32 bytes",
            list(&[extension_path, &[&[0xdf][..], &[0; 31]].concat()]),
        ),
    ];
    for (name, rlp) in cases {
        assert!(references(&rlp).is_err(), "{name}");
    }
    // Nodes that are well-formed, but not at every depth.
    let leaf = list(&[&[&[0xa1, 0x20][..], &[0; 32]].concat(), &[0x01]]);
    let extension = list(&[extension_path, &hash]);
    let cases = [
        (leaf, 0..1),
        (extension, 0..63),
        (branch(16, empty), 0..64),
        (list(&[&[0x00], &hash]), 0..0),
    ];
    for (rlp, depths) in cases {
        for depth in 0..=64 {
            assert_eq!(
                Node::decode_at(&rlp, depth).is_ok(),
                depths.contains(&depth),
                "{depth}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Changes random bytes in random nodes of a state: every read succeeds or names the malformed
    /// bytes.
    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()),
            1..8,
        ),
        truncated in any::<bool>(),
    ) {
        let (store, state) = state();
        let mut hashes = store.nodes.iter().map(|entry| *entry.key()).collect::<Vec<_>>();
        hashes.sort_unstable();
        hashes.push(state.root());
        for (node, place, byte) in &changes {
            let mut entry = store.nodes.get_mut(node.get(&hashes)).unwrap();
            let rlp = entry.rlp.as_mut().unwrap();
            let place = place.index(rlp.len());
            rlp[place] = *byte;
            if truncated && place > 0 {
                *rlp = rlp[..place].into();
            }
        }
        for error in touch_all(&state) {
            let (TrieError::Malformed { hash, .. } | TrieError::MissingNode { hash }) = error else {
                panic!("{error}");
            };
            prop_assert_ne!(hash, keccak256([]));
        }
        drop(state);
        store.release_retired();
    }

    #[test]
    fn random_bytes_never_panic(
        rlp in prop::collection::vec(any::<u8>(), 0..80),
        depth in 0..65_usize,
    ) {
        if let Ok(Node::Branch(branch)) = Node::decode_at(&rlp, depth) {
            let all = branch.children();
            for nibble in 0..16_u8 {
                prop_assert!(all.is_err() || branch.child(nibble).is_ok());
            }
        }
        let _ = references(&rlp);
    }
}
