//! Prints the cost of a new head: `cargo bench -p nearhead-chain --bench window`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nearhead_chain::{block, block::Block, encode, fees, log_search, network, window::Window};
use test_block::TestBlock;

#[path = "../src/test_block.rs"]
#[allow(dead_code, unreachable_pub, clippy::expect_used)]
mod test_block;

const TRANSACTIONS: u64 = 250;
const HEADS: u64 = 512;

fn child_of(parent: &Block, salt: u64) -> Arc<Block> {
    let first = (parent.number() + 1 + salt * 10_000) * TRANSACTIONS;
    let transactions = (first..first + TRANSACTIONS)
        .map(|number| (number, Vec::new()))
        .collect();
    TestBlock { salt, transactions }.child_of(parent)
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let micros = |part: usize| times[(times.len() - 1) * part / 100].as_nanos() as f64 / 1_000.0;
    println!(
        "{name:48} median {:>8.1} µs, p99 {:>8.1} µs",
        micros(50),
        micros(99)
    );
}

fn main() {
    let mut head = TestBlock::default().genesis();
    let mut window = Window::new(1, Arc::clone(&head));
    // A reader always holds the previous snapshot, as in production, so every change starts with a
    // copy.
    let mut reader = window.snapshot();
    let [mut advances, mut indexings, mut releases, mut lookups] = [const { Vec::new() }; 4];
    for number in 0..HEADS {
        head = child_of(&head, 0);
        let applied = vec![Arc::clone(&head)];
        let begin = Instant::now();
        let advanced = window.advance(0, applied, None, None).is_ok();
        let snapshot = window.snapshot();
        let time = begin.elapsed();
        let begin = Instant::now();
        window.index_pending();
        let indexed = begin.elapsed();
        let begin = Instant::now();
        reader = snapshot;
        let released = begin.elapsed();
        let begin = Instant::now();
        let found = head
            .transaction_hashes
            .iter()
            .filter(|hash| reader.transaction(hash).is_some());
        let all_found = found.count() == TRANSACTIONS as usize;
        let looked_up = begin.elapsed() / TRANSACTIONS as u32;
        assert!(advanced && all_found);
        if number >= 128 {
            advances.push(time);
            indexings.push(indexed);
            releases.push(released);
            lookups.push(looked_up);
        }
    }
    println!("a full window, {TRANSACTIONS} transactions per block");
    report("advance by one block, with the snapshot", advances);
    report("index, once the snapshot is published", indexings);
    report("release the previous snapshot", releases);
    report("a transaction by hash", lookups);
    let reorgs = (1..=200).map(|salt| {
        let depth = 10;
        let mut parent = Arc::clone(&reader.canonical()[127 - depth]);
        let mut branch = Vec::new();
        for _ in 0..=depth {
            parent = child_of(&parent, salt);
            branch.push(Arc::clone(&parent));
        }
        let begin = Instant::now();
        let advanced = window.advance(depth, branch, None, None).is_ok();
        let snapshot = window.snapshot();
        let time = begin.elapsed();
        assert!(advanced);
        reader = snapshot;
        time
    });
    let reorgs = reorgs.collect();
    report("a reorg of 10 blocks, 11 applied", reorgs);
}
