//! Measures how long each profile takes to fill a window, and the size of its blocks.
//!
//! `cargo bench -p nearhead-chain --bench dev_chain [-- PROFILE...]`
#![allow(missing_docs, clippy::expect_used)]

use std::{
    io,
    time::{Duration, Instant},
};

use nearhead_chain::{
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
};

/// Blocks after the genesis in a filled window.
const BLOCKS: u32 = 127;

const PROFILES: [(&str, Profile); 4] = [
    ("small", Profile::Small),
    ("mainnet", Profile::Mainnet),
    ("p99", Profile::P99),
    ("adversarial", Profile::Adversarial),
];

fn main() {
    let wanted: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    for (name, profile) in PROFILES {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            measure(name, profile);
        }
    }
}

fn measure(name: &str, profile: Profile) {
    let config = DevConfig {
        seed: 1,
        profile,
        block_time_seconds: 1,
        reorg_every: None,
        reorg_depth: 1,
    };
    let begin = Instant::now();
    let mut producer =
        Producer::new(config, EncodeOptions::default(), &mut |_, _| ()).expect("a genesis is made");
    let genesis = begin.elapsed();

    let mut window = vec![producer.head().clone()];
    let mut slowest = Duration::ZERO;
    let mut sums = [0; 5];
    let begin = Instant::now();
    for _ in 0..BLOCKS {
        let begin = Instant::now();
        let step = producer.step().expect("a block is made");
        slowest = slowest.max(begin.elapsed());
        for (raw, block) in step.applied {
            let measured = [
                raw.body.transactions.len(),
                raw.header.gas_used as usize,
                block.json().log_count(),
                block.json().receipts().len(),
                block.json().block(true).len(),
            ];
            sums.iter_mut()
                .zip(measured)
                .for_each(|(sum, measured)| *sum += measured);
            window.push(block);
        }
    }
    let blocks = begin.elapsed();
    let [transactions, gas, logs, receipts, full] = sums.map(|sum| sum / BLOCKS as usize);

    let begin = Instant::now();
    producer
        .genesis()
        .write_json(io::sink())
        .expect("a sink takes everything");
    let export = begin.elapsed();
    println!(
        "{name}: genesis of {} accounts {genesis:.2?}, {BLOCKS} blocks {blocks:.2?} (mean {:.2?}, slowest {slowest:.2?}), \
         genesis.json {export:.2?}\n  a block: {transactions} transactions, {gas} gas, {logs} logs, \
         {receipts} bytes of receipts, {full} bytes of full block\n  head {}",
        producer.genesis().account_count(),
        blocks / BLOCKS,
        producer.head().hash,
    );
}
