//! What the dev chain guarantees, checked block by block.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};

use alloy_consensus::Transaction as _;
use alloy_eips::eip7685::EMPTY_REQUESTS_HASH;
use alloy_genesis::Genesis;
use alloy_primitives::U256;
use serde_json::Value;

use super::*;
use crate::{
    block::{Block, RawBlock, Transaction},
    encode::EncodeOptions,
    execute::{BlockTemplate, build_block},
    import::Importer,
    network::ChainSpec,
    verify::HeaderRules,
};

const CONFIG: DevConfig = DevConfig {
    seed: 7,
    profile: Profile::Small,
    block_time_seconds: 1,
    reorg_every: None,
    reorg_depth: 1,
};

fn producer(config: DevConfig) -> Producer {
    Producer::new(config, EncodeOptions::default(), &mut |_, _| ()).unwrap()
}

/// The next block of a chain without reorgs.
fn next(producer: &mut Producer) -> (RawBlock, std::sync::Arc<Block>) {
    let mut step = producer.step().unwrap();
    assert_eq!((step.reverted, step.applied.len()), (0, 1));
    step.applied.remove(0)
}

fn receipts(block: &Block) -> Vec<Value> {
    serde_json::from_slice(&block.json().receipts()).unwrap()
}

#[test]
fn equal_configurations_give_equal_chains() {
    let hash = |config: DevConfig| {
        let mut producer = producer(config);
        for _ in 0..10 {
            producer.step().unwrap();
        }
        producer.head().hash
    };
    let first = hash(CONFIG);
    assert_eq!(first, hash(CONFIG));
    let others = [
        hash(DevConfig { seed: 8, ..CONFIG }),
        hash(DevConfig {
            block_time_seconds: 12,
            ..CONFIG
        }),
        hash(DevConfig {
            reorg_every: Some(4),
            ..CONFIG
        }),
    ];
    assert!(!others.contains(&first));
}

/// The base fee stays near one gwei, where it began.
#[track_caller]
fn check_base_fee(raw: &RawBlock) {
    let fee = raw.header.base_fee_per_gas.unwrap();
    assert!((700_000_000..1_300_000_000).contains(&fee), "{fee} wei");
}

/// Counts of the things that 128 small blocks must contain.
#[derive(Default)]
struct SeenKinds(BTreeMap<&'static str, usize>);

impl SeenKinds {
    fn record(&mut self, what: &'static str, count: usize) {
        *self.0.entry(what).or_default() += count;
    }

    fn block(&mut self, raw: &RawBlock, block: &Block) {
        let requests = block.header.requests_hash != Some(EMPTY_REQUESTS_HASH);
        self.record("requests", requests.into());
        self.record("blocks without requests", (!requests).into());
        self.record("withdrawals", raw.body.withdrawals.as_ref().unwrap().len());
        self.record("blob gas", (block.header.blob_gas_used.unwrap() > 0).into());
        self.record(
            "excess blob gas",
            (block.header.excess_blob_gas.unwrap() > 0).into(),
        );
        for (transaction, receipt) in raw.body.transactions.iter().zip(receipts(block)) {
            self.transaction(transaction, receipt["status"] == "0x1");
            for log in receipt["logs"].as_array().unwrap() {
                self.record(
                    match log["topics"].as_array().unwrap().len() {
                        1 => "logs with 1 topic",
                        2 => "logs with 2 topics",
                        3 => "logs with 3 topics",
                        _ => "logs without topics",
                    },
                    1,
                );
            }
        }
    }

    fn transaction(&mut self, transaction: &Transaction, succeeded: bool) {
        let kind = match transaction {
            Transaction::Legacy(signed) if signed.tx().chain_id.is_none() => "before EIP-155",
            Transaction::Legacy(_) => "legacy",
            Transaction::Eip2930(signed) => {
                assert!(!signed.tx().access_list.is_empty() || signed.tx().to.is_create());
                "EIP-2930"
            }
            Transaction::Eip1559(_) => "EIP-1559",
            Transaction::Eip4844(_) => "EIP-4844",
            Transaction::Eip7702(_) => "EIP-7702",
        };
        self.record(kind, 1);
        let outcome = match (transaction.is_create(), succeeded) {
            (true, true) => "creations",
            (true, false) => "failed creations",
            (false, true) => "calls",
            (false, false) => "failed calls",
        };
        self.record(outcome, 1);
    }
}

#[test]
fn a_window_of_small_blocks_has_every_kind_of_content() {
    let mut producer = producer(CONFIG);
    let authority = producer.signers().last().unwrap();
    let mut seen = SeenKinds::default();
    let mut held = HashSet::new();
    for _ in 0..128 {
        let (raw, block) = next(&mut producer);
        seen.block(&raw, &block);
        check_base_fee(&raw);
        let state = block.state.as_ref().unwrap();
        let delegated = state.account(&authority).unwrap().unwrap();
        seen.record(
            "delegated",
            (state.code(&delegated.code_hash).unwrap().len() == 23).into(),
        );
        let child = state.storage(&contracts::FACTORY, U256::ZERO).unwrap();
        seen.record("children", (!child.is_zero()).into());
        seen.record("failed children", child.is_zero().into());
        let now: HashSet<u64> = (0..256)
            .filter(|key| {
                !state
                    .storage(&contracts::STORE, U256::from(*key))
                    .unwrap()
                    .is_zero()
            })
            .collect();
        seen.record("slots set", now.difference(&held).count());
        seen.record("slots cleared", held.difference(&now).count());
        held = now;
    }
    // What opcodes and system contracts of many forks returned in the last block.
    let state = producer.head().state.as_ref().unwrap();
    for slot in 0..16 {
        let value = state
            .storage(&contracts::RECORDER, U256::from(slot))
            .unwrap();
        // The recorder's transaction may have no blob, and there is no 256th block before this one.
        assert!(!value.is_zero() || [5, 15].contains(&slot), "slot {slot}");
    }
    for (what, times) in [
        ("before EIP-155", 128),
        ("legacy", 128),
        ("EIP-2930", 128),
        ("EIP-1559", 128),
        ("EIP-4844", 200),
        ("EIP-7702", 64),
        ("creations", 128),
        ("failed creations", 80),
        ("calls", 1_000),
        ("failed calls", 128),
        // The contracts of EIP-7002 and EIP-7251 emit them.
        ("logs without topics", 40),
        ("logs with 1 topic", 20),
        ("logs with 2 topics", 200),
        ("logs with 3 topics", 500),
        ("requests", 60),
        ("blocks without requests", 60),
        ("withdrawals", 256),
        ("blob gas", 80),
        ("excess blob gas", 30),
        ("delegated", 20),
        ("children", 50),
        ("failed children", 10),
        ("slots set", 100),
        ("slots cleared", 50),
    ] {
        let found = seen.0.get(what).copied().unwrap_or_default();
        assert!(
            found >= times,
            "{what}: {found} times, expected at least {times}; all: {:?}",
            seen.0
        );
    }
}

#[test]
fn another_importer_computes_the_same_hashes() {
    let mut producer = producer(CONFIG);
    let mut json = Vec::new();
    producer.genesis().write_json(&mut json).unwrap();
    let genesis: Genesis = serde_json::from_slice(&json).unwrap();
    assert!(genesis.alloc == producer.genesis().accounts().collect());
    assert_eq!(
        genesis.alloc.len() as u64,
        producer.genesis().account_count()
    );
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let mut head = importer.genesis(&genesis.alloc).unwrap();
    assert_eq!(head.hash, producer.head().hash);
    for _ in 0..48 {
        let (raw, block) = next(&mut producer);
        head = importer.import(raw, &head).unwrap();
        assert_eq!(head.hash, block.hash);
        assert_eq!(head.json().block(true), block.json().block(true));
        assert_eq!(head.json().receipts(), block.json().receipts());
    }
}

/// Whoever follows the chain with its genesis accepts every header.
#[test]
fn every_header_obeys_the_rules() {
    let config = DevConfig {
        reorg_every: Some(4),
        reorg_depth: 3,
        ..CONFIG
    };
    let mut producer = producer(config);
    let spec = ChainSpec::to_follow(producer.genesis().without_accounts()).unwrap();
    let rules = HeaderRules::on(spec);
    let mut chain = vec![std::sync::Arc::clone(producer.head())];
    for _ in 0..30 {
        let step = producer.step().unwrap();
        chain.truncate(chain.len() - step.reverted);
        for (raw, block) in step.applied {
            let parent = &chain[chain.len() - 1];
            let checked = rules.check_child(&parent.header, parent.hash, &raw.header);
            assert_eq!(checked, Ok(()), "block {}", block.number());
            chain.push(block);
        }
    }
}

/// A fork every second block, from the merge on.
#[test]
fn every_header_of_a_chain_with_forks_obeys_the_rules() {
    let producer = producer(CONFIG);
    let accounts: BTreeMap<_, _> = producer.genesis().accounts().collect();
    let mut genesis = producer.genesis().without_accounts().clone();
    genesis.timestamp = 1_000;
    let config = &mut genesis.config;
    let times = [
        &mut config.shanghai_time,
        &mut config.cancun_time,
        &mut config.prague_time,
        &mut config.osaka_time,
        &mut config.bpo1_time,
        &mut config.bpo2_time,
    ];
    for (time, at) in times.into_iter().zip((1_002..).step_by(2)) {
        *time = Some(at);
    }
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let rules = HeaderRules::on(ChainSpec::to_follow(&genesis).unwrap());
    let mut parent = importer.genesis(&accounts).unwrap();
    for timestamp in 1_001..1_020 {
        let template = BlockTemplate {
            timestamp,
            gas_limit: parent.header.gas_limit + 1,
            ..BlockTemplate::default()
        };
        let (raw, executed) = build_block(importer.spec(), &parent, template).unwrap();
        let block = importer.import_executed(&raw, &[], executed, &parent);
        let checked = rules.check_child(&parent.header, parent.hash, &raw.header);
        assert_eq!(checked, Ok(()), "at {timestamp}");
        parent = block.unwrap();
    }
}

#[test]
fn reorgs_replace_the_configured_number_of_blocks() {
    for (every, depth, reorgs) in [(1, 1, 20), (10, 3, 4), (5, 8, 4), (1, 127, 1)] {
        let config = DevConfig {
            reorg_every: Some(every),
            reorg_depth: depth,
            ..CONFIG
        };
        let mut producer = producer(config);
        let mut chain = vec![producer.head().hash];
        let mut done = 0;
        while done < reorgs {
            let step = producer.step().unwrap();
            if step.reverted > 0 {
                done += 1;
                assert_eq!(step.reverted as u64, depth);
                assert_eq!(step.applied.len() as u64, depth + 1);
                let replaced = &chain[chain.len() - step.reverted..];
                assert!(
                    step.applied
                        .iter()
                        .all(|(_, block)| !replaced.contains(&block.hash))
                );
            }
            chain.truncate(chain.len() - step.reverted);
            for (raw, block) in &step.applied {
                assert_eq!(Some(&raw.header.parent_hash), chain.last());
                assert_eq!(block.number() as usize, chain.len());
                chain.push(block.hash);
            }
            assert_eq!(chain.last(), Some(&producer.head().hash));
        }
    }
}

#[test]
fn a_reorg_can_be_stopped_between_two_blocks() {
    let config = DevConfig {
        reorg_every: Some(1),
        reorg_depth: 8,
        ..CONFIG
    };
    let mut producer = producer(config);
    while producer.head().number() < 8 {
        producer.step().unwrap();
    }
    let mut calls = 0;
    let outcome = producer.step_while(&mut || {
        calls += 1;
        calls < 3
    });
    assert!(matches!(outcome, Err(DevError::Stopped)), "{outcome:?}");
    assert_eq!((calls, producer.head().number()), (3, 2));
}

#[test]
fn values_out_of_bounds_are_refused() {
    for (config, reason) in [
        (
            DevConfig {
                block_time_seconds: 0,
                ..CONFIG
            },
            "at least 1 second",
        ),
        (
            DevConfig {
                reorg_every: Some(0),
                ..CONFIG
            },
            "after 1 block",
        ),
        (
            DevConfig {
                reorg_every: Some(1),
                reorg_depth: 0,
                ..CONFIG
            },
            "1 to 127 blocks",
        ),
        (
            DevConfig {
                reorg_every: Some(1),
                reorg_depth: 128,
                ..CONFIG
            },
            "1 to 127 blocks",
        ),
    ] {
        let refusal = Producer::new(config, EncodeOptions::default(), &mut |_, _| ())
            .err()
            .unwrap();
        assert!(refusal.to_string().contains(reason), "{refusal}");
    }
}

#[test]
fn progress_counts_every_account() {
    let mut last = (0, 0);
    let mut record = |done, total| {
        assert!(done >= last.0 && done <= total);
        last = (done, total);
    };
    let producer = Producer::new(CONFIG, EncodeOptions::default(), &mut record).unwrap();
    let count = producer.genesis().account_count();
    assert_eq!(last, (count, count));
}

/// Checks the mean sizes of a profile's blocks, with a small state: the content does not depend on
/// the number of accounts.
fn check_sizes(profile: Profile, bounds: [(&str, std::ops::Range<usize>); 4]) {
    const BLOCKS: usize = 12;
    let sizes = profile::Sizes {
        population: 2_000,
        holders: 500,
        senders: 300,
        ..profile.sizes()
    };
    let config = DevConfig { profile, ..CONFIG };
    let mut producer =
        Producer::with_sizes(config, sizes, EncodeOptions::default(), &mut |_, _| ()).unwrap();
    let mut sums = [0; 4];
    for _ in 0..BLOCKS {
        let (raw, block) = next(&mut producer);
        check_base_fee(&raw);
        let measured = [
            raw.body.transactions.len(),
            block.json().log_count(),
            block.json().receipts().len(),
            block.json().block(true).len(),
        ];
        for (sum, measured) in sums.iter_mut().zip(measured) {
            *sum += measured;
        }
    }
    for (sum, (what, bounds)) in sums.into_iter().zip(bounds) {
        let mean = sum / BLOCKS;
        assert!(
            bounds.contains(&mean),
            "{profile:?}: {mean} {what}, not {bounds:?}; sums {sums:?}"
        );
    }
}

#[test]
fn blocks_of_a_profile_have_its_size() {
    check_sizes(
        Profile::Mainnet,
        [
            ("transactions", 235..265),
            ("logs", 610..690),
            ("bytes of receipts", 700_000..800_000),
            ("bytes of block", 420_000..480_000),
        ],
    );
    check_sizes(
        Profile::P99,
        [
            ("transactions", 670..730),
            ("logs", 1_500..2_000),
            ("bytes of receipts", 1_850_000..2_150_000),
            ("bytes of block", 1_350_000..1_650_000),
        ],
    );
}

#[test]
fn one_adversarial_block_in_128_has_a_burst_of_logs() {
    let has_burst = |number| Profile::Adversarial.burst_logs(number) > 0;
    for oldest in 0..300 {
        assert_eq!(
            (oldest..oldest + 128)
                .filter(|number| has_burst(*number))
                .count(),
            1
        );
    }
    let mut producer = producer(DevConfig {
        profile: Profile::Adversarial,
        ..CONFIG
    });
    let block = loop {
        let (_, block) = next(&mut producer);
        if has_burst(block.number()) {
            break block;
        }
        assert!(block.json().log_count() < 100);
    };
    let receipts = receipts(&block);
    let logs = receipts
        .iter()
        .flat_map(|receipt| receipt["logs"].as_array().unwrap());
    let without_topics = logs
        .filter(|log| log["topics"] == Value::Array(Vec::new()))
        .count();
    assert_eq!(without_topics, 155_000);
}
