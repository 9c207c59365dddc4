//! States that are loaded from a copy of the store.

use std::{cell::RefCell, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, map::B256Map};
use proptest::prelude::*;

use super::{
    model::StateModel,
    states::{addresses, any_update, slots},
};
use crate::trie::{NodeStore, State, StateUpdate};

/// A copy of a store, kept as the store says what has changed.
#[derive(Default)]
struct Copy(B256Map<Bytes>);

impl Copy {
    fn follow(&mut self, store: &NodeStore) {
        for hash in store.take_changed() {
            match store.content(&hash) {
                Some(content) => self.0.insert(hash, content),
                None => self.0.remove(&hash),
            };
        }
    }
}

/// Applies updates one after another, and keeps a copy. Of the states, the last two are held.
fn copy_of(updates: &[StateUpdate]) -> (Copy, StateModel, Arc<State>) {
    let (mut copy, mut model) = (Copy::default(), StateModel::default());
    let store = NodeStore::recorded(usize::MAX);
    let mut states = vec![State::empty(&store)];
    for update in updates {
        model.apply(update);
        let head = &states[states.len() - 1];
        states.push(head.commit(head.update(update).unwrap()));
        states.drain(..states.len().saturating_sub(2));
        store.release_retired();
        copy.follow(&store);
    }
    (copy, model, states.pop().unwrap())
}

fn load_all(state: &State, source: &mut impl FnMut(&B256) -> Option<Bytes>) -> bool {
    let mut all = addresses().into_iter();
    all.all(|address: Address| state.load(&address, &slots(), true, &mut *source))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_copy_is_what_the_store_holds(updates in prop::collection::vec(any_update(), 1..12)) {
        let (copy, _, last) = copy_of(&updates);
        let store = last.store();
        let stats = store.stats();
        prop_assert_eq!(copy.0.len(), stats.nodes + stats.codes);
        for (hash, content) in &copy.0 {
            let held = store.content(hash);
            prop_assert_eq!(held.as_ref(), Some(content));
        }
    }

    #[test]
    fn a_state_is_loaded_as_it_is_read(updates in prop::collection::vec(any_update(), 1..12)) {
        let (copy, model, last) = copy_of(&updates);
        let store = NodeStore::bounded(usize::MAX);
        let state = State::hold(&store, last.root());
        let asked = RefCell::new(Vec::new());
        let mut source = |hash: &B256| {
            asked.borrow_mut().push(*hash);
            copy.0.get(hash).cloned()
        };
        prop_assert!(load_all(&state, &mut source));
        model.check(&state, &addresses(), &slots());
        store.check_invariants([state.root()]).unwrap();
        let loads = asked.borrow().len();
        prop_assert!(load_all(&state, &mut source));
        prop_assert_eq!(asked.borrow().len(), loads, "what is held is not asked for");
        let mut asked = asked.into_inner();
        asked.sort_unstable();
        asked.dedup();
        prop_assert_eq!(asked.len(), loads, "nothing is asked for twice");
    }

    /// What one store gains is all that another one needs, and is not gained there again.
    #[test]
    fn what_was_gained_is_enough_for_others(
        updates in prop::collection::vec(any_update(), 1..12),
    ) {
        let mut model = StateModel::default();
        let store = NodeStore::bounded(usize::MAX);
        prop_assert!(store.take_gained().is_empty());
        store.record_gained();
        let mut state = State::empty(&store);
        let mut gained = B256Map::default();
        for update in &updates {
            model.apply(update);
            state = state.commit(state.update(update).unwrap());
            let hashes = store.take_gained().into_iter();
            gained.extend(hashes.filter_map(|hash| Some((hash, store.content(&hash)?))));
        }
        let other = NodeStore::bounded(usize::MAX);
        other.record_gained();
        let copy = State::hold(&other, state.root());
        prop_assert!(load_all(&copy, &mut |hash: &B256| gained.get(hash).cloned()));
        model.check(&copy, &addresses(), &slots());
        prop_assert!(other.take_gained().is_empty());
    }

    /// One item of the copy is missing, or has other bytes: what needs it is not loaded, and what
    /// is loaded is right.
    #[test]
    fn a_damaged_copy_is_not_believed(
        updates in prop::collection::vec(any_update(), 1..12),
        item in any::<prop::sample::Index>(),
        flipped in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut copy, model, last) = copy_of(&updates);
        prop_assume!(!copy.0.is_empty());
        let mut hashes: Vec<B256> = copy.0.keys().copied().collect();
        hashes.sort_unstable();
        let damaged = hashes[item.index(hashes.len())];
        let mut bytes = copy.0.remove(&damaged).unwrap().to_vec();
        if let Some(place) = flipped {
            let place = place.index(bytes.len());
            bytes[place] ^= 1;
            copy.0.insert(damaged, bytes.into());
        }
        let store = NodeStore::bounded(usize::MAX);
        let state = State::hold(&store, last.root());
        let mut source = |hash: &B256| copy.0.get(hash).cloned();
        for address in addresses() {
            for slot in slots() {
                if state.load(&address, &[slot], true, &mut source) {
                    model.check(&state, &[address], &[slot]);
                }
            }
        }
        store.check_invariants([state.root()]).unwrap();
        prop_assert!(store.content(&damaged).is_none());
    }
}

#[test]
fn what_is_evicted_leaves_the_copy() {
    let slots: Vec<_> = (1..400)
        .map(|slot| (U256::from(slot), U256::from(slot)))
        .collect();
    let mut update = super::states::update([(1, super::states::account(&[]))]);
    update
        .accounts
        .values_mut()
        .for_each(|account| account.storage.clone_from(&slots));
    let (whole, model, last) = copy_of(&[update]);
    let store = NodeStore::recorded(64 << 10);
    let mut copy = Copy::default();
    let state = State::hold(&store, last.root());
    let address = super::states::address(1);
    for (slot, _) in &slots {
        let mut source = |hash: &B256| whole.0.get(hash).cloned();
        assert!(state.load(&address, &[*slot], false, &mut source));
        model.check(&state, &[address], &[*slot]);
        copy.follow(&store);
    }
    assert!(store.evicted() > 0);
    for (hash, content) in &copy.0 {
        assert_eq!(store.content(hash).as_ref(), Some(content));
    }
    assert!(copy.0.len() < whole.0.len());
}
