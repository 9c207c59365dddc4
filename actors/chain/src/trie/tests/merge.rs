//! Merges into states that are held in part, against the whole states.

use std::{collections::BTreeSet, sync::Arc};

use alloy_primitives::{Address, U256, keccak256, map::AddressMap};
use alloy_trie::TrieAccount;
use proptest::prelude::*;

use super::states::{ACCOUNTS, SLOTS, address, addresses, any_update, slots};
use crate::trie::{
    AccountChange, AccountInfo, AccountUpdate, Merge, Merged, NodeStore, State, StateChanges,
    StateUpdate, TrieError, WantedProof,
};

/// What is wrong with a report of a block's changes.
#[derive(Clone, Debug)]
enum Falsehood {
    /// Leaves out an account.
    LeftOut(Address),
    /// Leaves out a slot.
    LeftOutSlot(Address, U256),
    /// Names a slot that did not change.
    Invented(Address, U256),
    /// States another balance.
    Balance(Address),
    /// Names only the keys of an account.
    KeysAlone(Address),
    /// Calls an account deleted.
    Deleted(Address),
}

fn any_falsehood() -> impl Strategy<Value = Falsehood> {
    let account = || (0..ACCOUNTS + 2).prop_map(address);
    let slot = || (account(), (0..SLOTS + 2).prop_map(U256::from));
    prop_oneof![
        account().prop_map(Falsehood::LeftOut),
        slot().prop_map(|(address, slot)| Falsehood::LeftOutSlot(address, slot)),
        slot().prop_map(|(address, slot)| Falsehood::Invented(address, slot)),
        account().prop_map(Falsehood::Balance),
        account().prop_map(Falsehood::KeysAlone),
        account().prop_map(Falsehood::Deleted),
    ]
}

/// A key that is held before the block.
#[derive(Clone, Debug)]
struct Held(Address, Vec<U256>);

fn any_held() -> impl Strategy<Value = Held> {
    let slots = prop::collection::vec((0..SLOTS + 2).prop_map(U256::from), 0..6);
    ((0..ACCOUNTS + 2).prop_map(address), slots).prop_map(|(address, slots)| Held(address, slots))
}

/// The changes of an update, as a tracer reports them.
fn reported(update: &StateUpdate) -> StateChanges {
    let change = |update: &AccountUpdate| AccountChange {
        is_cleared: update.storage_wiped || update.info.is_none(),
        nonce: update.info.map(|info| info.nonce),
        balance: update.info.map(|info| info.balance),
        code_hash: update.info.map(|info| info.code_hash),
        storage: match update.info {
            Some(_) => update.storage.iter().copied().collect(),
            None => Default::default(),
        },
        ..AccountChange::default()
    };
    let accounts = update.accounts.iter();
    StateChanges {
        accounts: accounts
            .map(|(address, update)| (*address, change(update)))
            .collect(),
    }
}

fn falsify(changes: &mut StateChanges, falsehood: &Falsehood) {
    match *falsehood {
        Falsehood::LeftOut(address) => _ = changes.accounts.remove(&address),
        Falsehood::LeftOutSlot(address, slot) => {
            if let Some(change) = changes.accounts.get_mut(&address) {
                change.storage.remove(&slot);
            }
        }
        Falsehood::Invented(address, slot) => {
            let change = changes.accounts.entry(address).or_default();
            change.storage.entry(slot).or_insert(U256::from(77));
        }
        Falsehood::Balance(address) => {
            let change = changes.accounts.entry(address).or_default();
            change.balance = Some(U256::from(12_345));
        }
        Falsehood::KeysAlone(address) => {
            changes.accounts.entry(address).or_default().is_unknown = true;
        }
        Falsehood::Deleted(address) => {
            changes.accounts.insert(
                address,
                AccountChange {
                    is_cleared: true,
                    ..AccountChange::default()
                },
            );
        }
    }
}

/// Two states that a block connects, whole and held in part.
struct Scene {
    whole: [Arc<State>; 2],
    held: [Arc<State>; 2],
}

impl Scene {
    fn new(genesis: &StateUpdate, block: &StateUpdate, held: &[Held]) -> Self {
        let store = NodeStore::new();
        let apply = |state: &Arc<State>, update| state.commit(state.update(update).unwrap());
        let before = apply(&State::empty(&store), genesis);
        let after = apply(&before, block);
        let store = NodeStore::bounded(1 << 30);
        let scene = Self {
            held: [&before, &after].map(|state| State::hold(&store, state.root())),
            whole: [before, after],
        };
        for Held(address, slots) in held {
            scene.prove(0, &(*address, slots.clone()));
        }
        scene
    }

    fn prove(&self, at: usize, (address, slots): &WantedProof) {
        let proof = self.whole[at].prove(address, slots).unwrap();
        self.held[at].store().insert_proof(&proof);
    }

    fn merge(&self, changes: &StateChanges) -> Merge {
        let [before, after] = self.held.clone();
        Merge::new(before, after, changes)
    }

    /// Merges as the follower does: proofs first, and once more what could not be merged.
    fn run(&self, changes: &StateChanges) -> Merged {
        self.run_merge(&self.merge(changes))
    }

    fn run_merge(&self, merge: &Merge) -> Merged {
        for wanted in merge.unheld().unwrap() {
            self.prove(1, &wanted);
        }
        let merged = merge.run().unwrap();
        if merged.unmerged.is_empty() {
            return merged;
        }
        for wanted in &merged.unmerged {
            self.prove(1, wanted);
        }
        merge.run().unwrap()
    }

    /// The keys that can be read, before or after the block: `None` is the account itself. Asserts
    /// that what is read is true.
    fn readable(&self, at: usize) -> BTreeSet<(Address, Option<U256>)> {
        let keys = addresses().into_iter().flat_map(|address| {
            let slots = slots().into_iter().map(Some);
            std::iter::once(None)
                .chain(slots)
                .map(move |slot| (address, slot))
        });
        let is_readable = |(address, slot): &(Address, Option<U256>)| {
            let read = |state: &State| match slot {
                None => state.account(address).map(alloy_rlp_of),
                Some(slot) => state.storage(address, *slot).map(alloy_rlp::encode),
            };
            match read(&self.held[at]) {
                Ok(value) => {
                    let whole = read(&self.whole[at]).unwrap();
                    assert_eq!(value, whole, "{address} {slot:?}");
                    true
                }
                Err(TrieError::MissingNode { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        };
        keys.filter(is_readable).collect()
    }

    fn check_store(&self) {
        let store = self.held[0].store();
        store.check_invariants(store.held_roots()).unwrap();
    }
}

fn alloy_rlp_of(account: Option<TrieAccount>) -> Vec<u8> {
    account.map(alloy_rlp::encode).unwrap_or_default()
}

fn check_true_changes(genesis: &StateUpdate, block: &StateUpdate, held: &[Held]) {
    let scene = Scene::new(genesis, block, held);
    let changes = reported(block);
    let readable = scene.readable(0);
    let merge = scene.merge(&changes);
    let merged = scene.run_merge(&merge);
    assert!(merged.is_complete(), "{merged:?}");
    assert_eq!(merge.not_held().unwrap(), [], "changed");
    let lost: Vec<_> = readable.difference(&scene.readable(1)).copied().collect();
    assert_eq!(lost, []);
    scene.check_store();
    // What changed can be read too.
    for (address, change) in &changes.accounts {
        scene.held[1].account(address).unwrap();
        for slot in change.storage.keys() {
            scene.held[1].storage(address, *slot).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::campaign::rounds(400, 20_000) as u32))]

    #[test]
    fn true_changes_lose_nothing(
        genesis in any_update(),
        block in any_update(),
        held in prop::collection::vec(any_held(), 0..24),
    ) {
        check_true_changes(&genesis, &block, &held);
    }

    #[test]
    fn false_changes_make_no_answer_false(
        genesis in any_update(),
        block in any_update(),
        held in prop::collection::vec(any_held(), 0..24),
        falsehoods in prop::collection::vec(any_falsehood(), 1..4),
    ) {
        let scene = Scene::new(&genesis, &block, &held);
        let mut changes = reported(&block);
        for falsehood in &falsehoods {
            falsify(&mut changes, falsehood);
        }
        let readable = scene.readable(0);
        let merged = scene.run(&changes);
        let after = scene.readable(1);
        let lost: Vec<_> = readable.difference(&after).collect();
        prop_assert!(!merged.is_complete() || lost.is_empty(), "{merged:?} {lost:?}");
        scene.check_store();
    }
}

/// A slot of an account that is read once outlives thousands of accounts that only blocks touch.
#[test]
fn what_was_read_is_evicted_after_what_blocks_touch() {
    let account = |balance: u64| AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(balance),
            code_hash: alloy_trie::KECCAK_EMPTY,
        }),
        ..AccountUpdate::default()
    };
    let payer = |number: u64| Address::from_word(keccak256(number.to_be_bytes()));
    let contract = AccountUpdate {
        storage: (0..200)
            .map(|slot| (U256::from(slot), U256::from(1)))
            .collect(),
        ..account(0)
    };
    let read = (payer(u64::MAX), U256::from(77));
    let mut accounts: AddressMap<_> = (0..2_000).map(|at| (payer(at), account(at))).collect();
    accounts.insert(read.0, contract);
    let genesis = StateUpdate {
        accounts,
        ..StateUpdate::default()
    };
    let whole = NodeStore::new();
    let mut whole = State::empty(&whole);
    whole = whole.commit(whole.update(&genesis).unwrap());
    let store = NodeStore::bounded(300_000);
    let mut held = State::hold(&store, whole.root());
    store.insert_proof(&whole.prove(&read.0, &[read.1]).unwrap());
    held.storage(&read.0, read.1).unwrap();
    for block in 0..60_u64 {
        // Another slot of the account changes too.
        let other = AccountUpdate {
            storage: vec![(U256::from(block), U256::from(block + 2))],
            ..account(block)
        };
        let touched = (0..30).map(|at| payer((block * 30 + at) % 2_000));
        let mut accounts: AddressMap<_> = touched
            .map(|payer| (payer, account(10_000 + block)))
            .collect();
        accounts.insert(read.0, other);
        let update = StateUpdate {
            accounts,
            ..StateUpdate::default()
        };
        let next = whole.commit(whole.update(&update).unwrap());
        let after = State::hold(&store, next.root());
        let merge = Merge::new(held, Arc::clone(&after), &reported(&update));
        let mut wanted = merge.unheld().unwrap();
        for _ in 0..2 {
            for (address, slots) in wanted {
                let proof = next.prove(&address, &slots).unwrap();
                let storage = slots.into_iter().zip(proof.storage);
                let storage = storage
                    .map(|(slot, proof)| (slot, proof.nodes))
                    .collect::<Vec<_>>();
                let verify = || after.verify(&address, proof.nodes.clone(), Vec::clone(&storage));
                store.insert_unread(&verify().unwrap());
                assert!(verify().unwrap().unheld.order.is_empty(), "hashed again");
            }
            wanted = merge.run().unwrap().unmerged;
        }
        (whole, held) = (next, after);
    }
    // Only now: a read dates it anew.
    assert_eq!(held.storage(&read.0, read.1), Ok(U256::from(1)));
    assert!(store.evicted() > 1_000, "{} were evicted", store.evicted());
}
