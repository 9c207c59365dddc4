//! One trie over 32-byte keys that are not hashes, with long common prefixes, inline nodes and
//! extensions everywhere.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use alloy_primitives::{B256, Bytes, map::B256Map};
use alloy_trie::{EMPTY_ROOT_HASH, HashBuilder, proof::verify_proof};
use nybbles::Nibbles;
use proptest::prelude::*;

use crate::trie::{
    Changes, NodeStore, TrieError,
    subtree::{LeafUpdate, TrieUpdater},
    walker::walk,
};

/// RLP of a value, `None` to delete it.
type Update = Option<Vec<u8>>;
type Values = BTreeMap<B256, Vec<u8>>;

impl LeafUpdate for Update {
    fn value(
        &self,
        _before: Option<&[u8]>,
        _updater: &mut TrieUpdater<'_>,
    ) -> Result<Option<Vec<u8>>, TrieError> {
        Ok(self.clone())
    }
}

/// A store, its held roots (oldest first), and the expected content of each.
struct TestTrie {
    store: Arc<NodeStore>,
    held: VecDeque<(B256, Values)>,
}

impl TestTrie {
    fn new() -> Self {
        let store = NodeStore::new();
        let held = VecDeque::from([(store.hold_empty(), Values::new())]);
        Self { store, held }
    }

    /// Commits a batch on the newest root and compares the root with the oracle's.
    fn apply(&mut self, batch: &BTreeMap<B256, Update>) {
        let (parent, mut values) = self.held.back().unwrap().clone();
        for (key, value) in batch {
            match value {
                Some(value) => values.insert(*key, value.clone()),
                None => values.remove(key),
            };
        }
        let updates = batch
            .iter()
            .map(|(key, value)| (*key, value.clone()))
            .collect::<Vec<_>>();
        let mut updater = TrieUpdater::new(&self.store);
        let root = updater.update_trie(parent, &updates).unwrap();
        assert_eq!(root, oracle_root(&values), "after {batch:?} on {values:?}");
        let nodes = updater.into_nodes();
        let codes = B256Map::default();
        self.store.commit(Changes {
            parent,
            root,
            nodes,
            codes,
        });
        self.held.push_back((root, values));
    }

    fn drop_oldest(&mut self) {
        let (root, _) = self.held.pop_front().unwrap();
        self.store.retire(root);
    }

    fn revert(&mut self) {
        let (root, _) = self.held.pop_back().unwrap();
        self.store.retire(root);
    }

    fn check_invariants(&self) {
        let roots = self.held.iter().map(|(root, _)| *root);
        self.store.check_invariants(roots).unwrap();
        self.store.release_retired();
        let roots = self.held.iter().map(|(root, _)| *root);
        self.store.check_invariants(roots).unwrap();
    }

    /// Checks every key at every held root: its value, and the proof of it or of its absence.
    fn check_reads<'a>(&self, keys: impl IntoIterator<Item = &'a B256> + Clone) {
        for (root, values) in &self.held {
            for key in keys.clone() {
                let mut proof = Vec::new();
                let visit = |rlp: &[u8]| proof.push(Bytes::copy_from_slice(rlp));
                let found = walk(&*self.store, *root, key, visit, |value| Ok(value.to_vec()));
                assert_eq!(
                    found.as_ref().unwrap().as_ref(),
                    values.get(key),
                    "{key} in {values:?}"
                );
                verify_proof(*root, Nibbles::unpack(key), found.unwrap(), &proof).unwrap();
            }
        }
    }
}

fn oracle_root(values: &Values) -> B256 {
    let mut builder = HashBuilder::default();
    for (key, value) in values {
        builder.add_leaf(Nibbles::unpack(key), value);
    }
    builder.root()
}

fn key(nibbles: impl IntoIterator<Item = u8>) -> B256 {
    let nibbles = Nibbles::from_nibbles(nibbles.into_iter().collect::<Vec<_>>());
    B256::from_slice(&nibbles.pack())
}

/// A key of `fill` nibbles, with `nibble` at `place`: two such keys share `place` nibbles.
fn differing_at(fill: u8, place: usize, nibble: u8) -> B256 {
    key((0..64).map(|index| if index == place { nibble } else { fill }))
}

fn any_key() -> impl Strategy<Value = B256> {
    let place = prop_oneof![0..64_usize, 60..64_usize, 0..3_usize];
    prop_oneof![
        6 => (0..2_u8, place.clone(), 0..16_u8)
            .prop_map(|(fill, place, nibble)| differing_at(fill, place, nibble)),
        3 => (place.clone(), place, 0..16_u8, 0..16_u8).prop_map(|(first, second, a, b)| {
            key((0..64).map(|index| match index {
                _ if index == first => a,
                _ if index == second => b,
                _ => 0,
            }))
        }),
        1 => any::<[u8; 32]>().prop_map(B256::from),
    ]
}

/// RLP strings, some short enough for inline nodes.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (1..0x80_u8).prop_map(|byte| vec![byte]),
        1 => prop::collection::vec(any::<u8>(), 2..32)
            .prop_map(|bytes| alloy_rlp::encode(&bytes[..])),
        1 => any::<[u8; 32]>().prop_map(|bytes| alloy_rlp::encode(&bytes[..])),
    ]
}

fn any_batch() -> impl Strategy<Value = BTreeMap<B256, Update>> {
    let update = prop_oneof![2 => any_value().prop_map(Some), 1 => Just(None)];
    prop::collection::btree_map(any_key(), update, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn roots_values_and_proofs_match_the_oracle(
        batches in prop::collection::vec((any_batch(), 0..4_u8), 1..10),
        deleted_at_the_end in any::<bool>(),
    ) {
        let mut trie = TestTrie::new();
        let mut keys = Vec::new();
        for (batch, after) in &batches {
            trie.apply(batch);
            keys.extend(batch.keys().copied());
            match after {
                0 if trie.held.len() > 1 => trie.revert(),
                1 if trie.held.len() > 1 => trie.drop_oldest(),
                _ => {}
            }
            trie.check_invariants();
        }
        trie.check_reads(&keys);
        if deleted_at_the_end {
            trie.apply(&keys.iter().map(|key| (*key, None)).collect());
            prop_assert_eq!(trie.held.back().unwrap().0, EMPTY_ROOT_HASH);
        }
        while !trie.held.is_empty() {
            trie.drop_oldest();
            trie.check_invariants();
        }
        prop_assert_eq!(trie.store.stats(), Default::default());
    }
}

/// Two keys that share `place` nibbles make an extension. A third key that diverges at `split`
/// splits it (or joins the branch below it), and deleting any of the three merges the rest.
#[test]
fn extensions_split_and_join_at_every_place() {
    for value in [vec![1], alloy_rlp::encode([7_u8; 32].as_slice())] {
        for place in 0..64 {
            let mut trie = TestTrie::new();
            let pair = [differing_at(0, place, 1), differing_at(0, place, 2)];
            trie.apply(&pair.iter().map(|key| (*key, Some(value.clone()))).collect());
            for split in 0..64 {
                let third = differing_at(0, split, 3);
                trie.apply(&BTreeMap::from([(third, Some(value.clone()))]));
                for deleted in [pair[0], pair[1], third] {
                    trie.apply(&BTreeMap::from([(deleted, None)]));
                    trie.revert();
                }
                trie.revert();
            }
            trie.check_reads(&pair);
            trie.check_invariants();
        }
    }
}

/// One key per depth: 64 nested branches, the most that keys of 64 nibbles allow.
#[test]
fn branches_nest_at_every_depth() {
    let mut trie = TestTrie::new();
    let keys = (0..64)
        .map(|place| differing_at(0, place, 1))
        .chain([B256::ZERO]);
    let keys = keys.collect::<Vec<_>>();
    let set = |value: u8| keys.iter().map(|key| (*key, Some(vec![value]))).collect();
    trie.apply(&set(1));
    trie.apply(&set(2));
    trie.check_reads(&keys);
    for key in &keys {
        trie.apply(&BTreeMap::from([(*key, None)]));
        trie.check_invariants();
    }
    assert_eq!(trie.held.back().unwrap().0, EMPTY_ROOT_HASH);
}

/// Equal subtrees under one branch are stored as one node, with one reference for each.
#[test]
fn equal_subtrees_are_stored_once() {
    let mut trie = TestTrie::new();
    let value = alloy_rlp::encode([7_u8; 32].as_slice());
    // Eight children of the root, each the same branch of two leaves.
    let keys = (0..16_u8).map(|index| {
        key((0..64).map(|place| match place {
            0 => index / 2,
            1 => index % 2,
            _ => 0,
        }))
    });
    let keys = keys.collect::<Vec<_>>();
    trie.apply(&keys.iter().map(|key| (*key, Some(value.clone()))).collect());
    assert_eq!(
        trie.store.stats().nodes,
        3,
        "the root, the branch, the leaf"
    );
    trie.check_invariants();
    trie.check_reads(&keys);
    trie.apply(&keys[..5].iter().map(|key| (*key, None)).collect());
    trie.check_invariants();
    trie.drop_oldest();
    trie.drop_oldest();
    trie.check_invariants();
    trie.check_reads(&keys);
}

#[test]
fn a_batch_without_effect_gives_the_same_root() {
    let mut trie = TestTrie::new();
    let keys = [
        differing_at(0, 9, 1),
        differing_at(0, 9, 2),
        differing_at(0, 63, 5),
    ];
    let set = keys.iter().map(|key| (*key, Some(vec![1]))).collect();
    trie.apply(&set);
    trie.apply(&set);
    trie.apply(
        &(0..64)
            .map(|place| (differing_at(0, place, 9), None))
            .collect(),
    );
    trie.apply(&BTreeMap::new());
    let roots = trie
        .held
        .iter()
        .skip(1)
        .map(|(root, _)| *root)
        .collect::<Vec<_>>();
    assert!(roots.windows(2).all(|pair| pair[0] == pair[1]), "{roots:?}");
    trie.check_invariants();
}
