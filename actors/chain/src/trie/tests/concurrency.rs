//! Readers walk the window's states while the writer commits, reverts and releases.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use alloy_primitives::{Address, U256};
use alloy_trie::KECCAK_EMPTY;
use parking_lot::Mutex;

use crate::trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate};

const ACCOUNTS: u8 = 32;
const WINDOW: usize = 16;
const BLOCKS: u64 = 150;

/// The update of a block: each account's balance becomes the block's number, and each gets one more
/// slot.
fn update(number: u64) -> StateUpdate {
    let account = |index: u8| AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(number),
            code_hash: KECCAK_EMPTY,
        }),
        storage_wiped: number.is_multiple_of(50),
        storage: vec![(
            U256::from(number % 7),
            U256::from(number + u64::from(index)),
        )],
    };
    let accounts = (0..ACCOUNTS).map(|index| (Address::repeat_byte(index), account(index)));
    StateUpdate {
        accounts: accounts.collect(),
        ..Default::default()
    }
}

/// Reads one account of a state in every way; every value must be that of block `number`.
fn read(state: &State, number: u64, index: u8) {
    let address = Address::repeat_byte(index);
    let balance = state
        .account(&address)
        .unwrap()
        .map(|account| account.balance);
    assert_eq!(balance, Some(U256::from(number)));
    let slot = U256::from(number % 7);
    let value = U256::from(number + u64::from(index));
    assert_eq!(state.storage(&address, slot).unwrap(), value);
    let proof = state.prove(&address, &[slot]).unwrap();
    assert_eq!(proof.storage[0].value, value);
    assert_eq!(alloy_primitives::keccak256(&proof.nodes[0]), state.root());
}

#[test]
fn readers_walk_while_the_writer_commits_and_releases() {
    let store = NodeStore::new();
    let window = Mutex::new(VecDeque::new());
    let (is_done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for reader in 0..3_usize {
            let (window, is_done, reads) = (&window, &is_done, &reads);
            scope.spawn(move || {
                let mut turn = reader;
                while !is_done.load(Ordering::Acquire) {
                    let picked = {
                        let window = window.lock();
                        let states: &VecDeque<(u64, Arc<State>)> = &window;
                        (!states.is_empty()).then(|| states[turn % states.len()].clone())
                    };
                    if let Some((number, state)) = picked {
                        // The window may have moved on, so this may be the last handle.
                        (0..4).for_each(|_| read(&state, number, (turn % 32) as u8));
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    turn += 7;
                }
            });
        }
        let mut head = State::empty(&store);
        for number in 1..=BLOCKS {
            let replaced = head.commit(head.update(&update(number + 1_000)).unwrap());
            drop(replaced);
            head = head.commit(head.update(&update(number)).unwrap());
            let mut window = window.lock();
            window.push_back((number, Arc::clone(&head)));
            if window.len() > WINDOW {
                window.pop_front();
            }
        }
        // On a busy machine the writer may finish before a reader starts.
        while reads.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        is_done.store(true, Ordering::Release);
    });
    store.release_retired();
    store
        .check_invariants(window.lock().iter().map(|(_, state)| state.root()))
        .unwrap();
    window.lock().clear();
    store.release_retired();
    assert_eq!(store.stats(), Default::default());
}
