//! Prints the costs of the state trie: `cargo bench -p nearhead-chain --bench trie [-- ACCOUNTS]`.
//!
//! A state of a million accounts, blocks of 1,100 changed keys (600 accounts, and 500 slots of one
//! of them), reads and proofs at the head and 127 blocks below it. Times are medians; nothing is
//! asserted.

use std::{
    collections::VecDeque,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_primitives::{Address, U256, keccak256};
use alloy_trie::KECCAK_EMPTY;
use nearhead_chain::trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate};

/// Number of blocks held, as in the window.
const WINDOW: usize = 128;
/// Number of accounts that a block changes.
const CHANGED_ACCOUNTS: u64 = 600;
/// Number of slots that a block changes, all of one contract.
const CHANGED_SLOTS: u64 = 500;
/// Number of slots of that contract.
const TOKEN_SLOTS: u64 = 200_000;
/// One account in this many has storage.
const STORAGE_EVERY: u64 = 10;
/// Number of reads that are timed together.
const READS: u64 = 200_000;

fn main() {
    let accounts = std::env::args().find_map(|argument| argument.parse().ok());
    let accounts = accounts.unwrap_or(1_000_000_u64);
    let memory_before = resident_bytes();
    let store = NodeStore::new();
    let genesis = build(&store, accounts);
    let stats = store.stats();
    let resident = resident_bytes().saturating_sub(memory_before) as u64;
    println!("{stats:?}");
    println!(
        "{:>12} bytes of RLP per account",
        stats.node_bytes as u64 / accounts
    );
    println!("{:>12} bytes resident per account", resident / accounts);

    let window = move_window(genesis, accounts);
    let (Some(oldest), Some(head)) = (window.front(), window.back()) else {
        return;
    };
    for (name, state) in [("head", head), ("head-127", oldest)] {
        read(name, state, accounts);
        prove(name, state, accounts);
    }
    let start = Instant::now();
    drop(window);
    store.release_retired();
    report("release of everything", start.elapsed(), 1);
}

fn address(index: u64) -> Address {
    Address::left_padding_from(&index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
}

/// A pseudo-random number, the same in every run.
fn scatter(seed: u64, below: u64) -> u64 {
    let hash = keccak256(seed.to_be_bytes());
    u64::from_be_bytes(*hash.first_chunk().unwrap_or(&[0; 8])) % below
}

fn account(number: u64, storage: Vec<(U256, U256)>) -> AccountUpdate {
    AccountUpdate {
        info: Some(AccountInfo {
            nonce: number,
            balance: U256::from(number) << 48,
            code_hash: KECCAK_EMPTY,
        }),
        storage_wiped: false,
        storage,
    }
}

fn slots(count: u64) -> Vec<(U256, U256)> {
    (0..count)
        .map(|slot| (U256::from(slot), U256::from(slot + 1) << 32))
        .collect()
}

/// Makes the genesis state in one update.
fn build(store: &Arc<NodeStore>, accounts: u64) -> Arc<State> {
    let storage_of = |index: u64| match index {
        0 => slots(TOKEN_SLOTS),
        _ if index.is_multiple_of(STORAGE_EVERY) => slots(3),
        _ => Vec::new(),
    };
    let update = StateUpdate {
        accounts: (0..accounts)
            .map(|index| (address(index), account(index, storage_of(index))))
            .collect(),
        ..Default::default()
    };
    let empty = State::empty(store);
    let start = Instant::now();
    let changes = empty
        .update(&update)
        .unwrap_or_else(|error| panic!("{error}"));
    report("build, computing", start.elapsed(), accounts);
    let start = Instant::now();
    let state = empty.commit(changes);
    report("build, committing", start.elapsed(), accounts);
    state
}

/// Applies two windows of blocks, so that every commit of the second one also releases a block.
fn move_window(genesis: Arc<State>, accounts: u64) -> VecDeque<Arc<State>> {
    let store = Arc::clone(genesis.store());
    let mut window = VecDeque::from([genesis]);
    let (mut computing, mut committing, mut releasing) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..2 * WINDOW as u64 {
        let update = block(number, accounts);
        let head = &window[window.len() - 1];
        let start = Instant::now();
        let changes = head
            .update(&update)
            .unwrap_or_else(|error| panic!("{error}"));
        computing.push(start.elapsed());
        let start = Instant::now();
        let state = head.commit(changes);
        committing.push(start.elapsed());
        window.push_back(state);
        if window.len() > WINDOW {
            window.pop_front();
            let start = Instant::now();
            store.release_retired();
            releasing.push(start.elapsed());
        }
    }
    let keys = CHANGED_ACCOUNTS + CHANGED_SLOTS;
    report("block, computing the root", median(computing), keys);
    report("block, committing", median(committing), keys);
    report("block, releasing the oldest", median(releasing), keys);
    window
}

fn block(number: u64, accounts: u64) -> StateUpdate {
    let seed = number << 32;
    let mut update = StateUpdate::default();
    for index in 0..CHANGED_ACCOUNTS {
        let storage = match index {
            0 => (0..CHANGED_SLOTS)
                .map(|slot| {
                    let slot = scatter(seed | slot << 16, TOKEN_SLOTS);
                    (U256::from(slot), U256::from(number + 1))
                })
                .collect(),
            _ => Vec::new(),
        };
        let changed = match index {
            0 => 0,
            _ => 1 + scatter(seed | index, accounts - 1),
        };
        update
            .accounts
            .insert(address(changed), account(number, storage));
    }
    update
}

fn read(name: &str, state: &State, accounts: u64) {
    let keys = (0..READS)
        .map(|index| address(scatter(index, accounts)))
        .collect::<Vec<_>>();
    let start = Instant::now();
    for address in &keys {
        black_box(state.account(address).ok());
    }
    report(&format!("account at {name}"), start.elapsed(), READS);
    let keys = (0..READS)
        .map(|index| U256::from(scatter(index, TOKEN_SLOTS)))
        .collect::<Vec<_>>();
    let token = address(0);
    let start = Instant::now();
    for slot in &keys {
        black_box(state.storage(&token, *slot).ok());
    }
    report(&format!("storage at {name}"), start.elapsed(), READS);
    let start = Instant::now();
    for _ in 0..READS {
        black_box(state.storage(&token, U256::ONE).ok());
    }
    report(
        &format!("storage at {name}, one slot again"),
        start.elapsed(),
        READS,
    );
}

fn prove(name: &str, state: &State, accounts: u64) {
    let count = READS / 10;
    let keys = (0..count).map(|index| {
        (
            address(scatter(index, accounts)),
            U256::from(scatter(index, TOKEN_SLOTS)),
        )
    });
    let keys = keys.collect::<Vec<(Address, U256)>>();
    let start = Instant::now();
    for (address, _) in &keys {
        black_box(state.prove(address, &[]).ok());
    }
    report(&format!("proof at {name}, account"), start.elapsed(), count);
    let token = address(0);
    let start = Instant::now();
    for (_, slot) in &keys {
        black_box(state.prove(&token, &[*slot]).ok());
    }
    report(
        &format!("proof at {name}, account and slot"),
        start.elapsed(),
        count,
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Prints one line: the total time and the time per item.
fn report(what: &str, time: Duration, count: u64) {
    let each = time.as_nanos() as u64 / count.max(1);
    println!(
        "{what:<36} {:>10.3} ms {each:>8} ns each",
        time.as_secs_f64() * 1e3
    );
}

/// Resident memory of this process; zero if /proc does not state it.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or_default() * 1024
}
