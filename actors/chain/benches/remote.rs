//! Prints what verifying an upstream's answers about a block costs, part by part.
//!
//! `cargo bench -p nearhead-chain --bench remote [-- PROFILE...]`
//!
//! The blocks are those of the dev chain, of the sizes of mainnet. Times are of one thread: the
//! minimum of several rounds for each block, and the median over the blocks. Signatures are
//! recovered by libsecp256k1, and for comparison by k256, which is pure Rust.
#![allow(missing_docs, clippy::expect_used)]

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use alloy_consensus::{Eip658Value, Receipt as PlainReceipt};
use alloy_primitives::{Address, B256, Bytes, Log, keccak256};
use alloy_rlp::{Decodable, Encodable};
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
use nearhead_chain::{
    block::{Block, BlockParts, RawBlock, Receipt, SenderSource, Transaction, with_bloom},
    dev::{CHAIN_ID, DevConfig, Producer, Profile},
    encode::{BlockJson, EncodeOptions},
    log_search::LogPostings,
    network::{FeeRules, HeaderFees},
    raw::RawItem,
    remote::{BlockAnswers, RequestedBlock, StatedBlock, StatedReceipts, Verifier},
    trie::NodeStore,
    verify::{self, ReceiptsCommitment},
};
use serde_json::Value;

/// Blocks that are measured, after as many for warm-up.
const BLOCKS: usize = 15;
/// Times that each block is measured.
const ROUNDS: usize = 5;

const PROFILES: [(&str, Profile); 3] = [
    ("small", Profile::Small),
    ("mainnet", Profile::Mainnet),
    ("p99", Profile::P99),
];

/// The parts that are timed.
const PARTS: [&str; 6] = [
    "signatures",
    "hashes and roots",
    "encoding",
    "log postings",
    "JSON: read, compare",
    "all",
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
    let mut producer =
        Producer::new(config, EncodeOptions::default(), &mut |_, _| ()).expect("a genesis is made");
    let verifier = Verifier::new(
        CHAIN_ID,
        FeeRules::of_chain(CHAIN_ID),
        EncodeOptions::default(),
        NodeStore::new(),
    );
    let mut times = <[Vec<Duration>; 6]>::default();
    let (mut read, mut plain, mut rust) = (Vec::new(), Vec::new(), Vec::new());
    let mut rlp_times = <[Vec<Duration>; 2]>::default();
    let mut saved_times = <[Vec<Duration>; 3]>::default();
    let mut sizes = [0; 6];
    for number in 0..2 * BLOCKS {
        let step = producer.step().expect("a block is made");
        for (raw, block) in step.applied.iter().filter(|_| number >= BLOCKS) {
            for (times, time) in times.iter_mut().zip(shortest(&verifier, raw, block)) {
                times.push(time);
            }
            let full = block.json().block(true);
            read.push(time(|| StatedBlock::read(&full).expect("the answer is honest")).1);
            plain.push(time(|| values(block)).1);
            rust.push(recovered_by_k256(raw));
            for (times, time) in saved_times.iter_mut().zip(saved(&verifier, block)) {
                times.push(time);
            }
            let in_rlp = |item: RawItem, times: &mut Vec<_>| {
                let (json, time) = time(|| item.json(usize::MAX).expect("it is encoded"));
                times.push(time);
                json.len()
            };
            let size = [
                raw.body.transactions.len(),
                block.json().log_count(),
                block.json().receipts().len(),
                full.len(),
                in_rlp(RawItem::Block(Arc::clone(block)), &mut rlp_times[0]),
                in_rlp(RawItem::Receipts(Arc::clone(block)), &mut rlp_times[1]),
            ];
            sizes
                .iter_mut()
                .zip(size)
                .for_each(|(sum, one)| *sum += one);
        }
    }
    let [transactions, logs, receipts, full, block_rlp, receipts_rlp] =
        sizes.map(|sum| sum / BLOCKS);
    println!(
        "{name}: {transactions} transactions, {logs} logs, {} KB of receipts, {} KB of full block",
        receipts / 1000,
        full / 1000
    );
    let all = median(&mut times[5]);
    for (part, times) in PARTS.iter().zip(&mut times) {
        let time = median(times);
        let share = 100.0 * time.as_secs_f64() / all.as_secs_f64();
        println!("  {part:<20} {:>7} µs {share:>5.1} %", time.as_micros());
    }
    println!(
        "  for comparison: the block read from its JSON {} µs, both answers as values of serde_json {} µs, signatures by k256 {} µs",
        median(&mut read).as_micros(),
        median(&mut plain).as_micros(),
        median(&mut rust).as_micros()
    );
    let [block, receipts] = rlp_times.each_mut().map(|times| median(times).as_micros());
    println!(
        "  answers in RLP: {} KB of block in {block} µs, {} KB of receipts in {receipts} µs",
        block_rlp / 1000,
        receipts_rlp / 1000
    );
    let [save, restore, json] = saved_times
        .each_mut()
        .map(|times| median(times).as_micros());
    println!(
        "  a block as bytes: made {save} µs, verified {restore} µs, then its senders and JSON {json} µs"
    );
}

/// The shortest times to make the bytes of a block, to verify a block from them, and to recover its
/// senders and make its JSON.
fn saved(verifier: &Verifier, block: &Block) -> [Duration; 3] {
    let mut shortest = [Duration::MAX; 3];
    for _ in 0..ROUNDS {
        let (bytes, save) = time(|| block.save().expect("the block fits"));
        let restore = || verifier.restore(block.hash, &bytes);
        let (restored, restore) = time(|| restore().expect("the block is honest"));
        let (_, json) = time(|| restored.make_json().expect("the block is honest"));
        for (shortest, time) in shortest.iter_mut().zip([save, restore, json]) {
            *shortest = (*shortest).min(time);
        }
    }
    shortest
}

/// The shortest time of each of [`PARTS`] in several rounds, to exclude the machine's other work.
fn shortest(verifier: &Verifier, raw: &RawBlock, block: &Block) -> [Duration; 6] {
    let mut shortest = parts(verifier, raw, block);
    for _ in 1..ROUNDS {
        for (shortest, time) in shortest.iter_mut().zip(parts(verifier, raw, block)) {
            *shortest = (*shortest).min(time);
        }
    }
    let [signatures, hashing, encoding, postings, _, all] = shortest;
    shortest[4] = all.saturating_sub(signatures + hashing + encoding + postings);
    shortest
}

/// The time of each of [`PARTS`] for one block; zero for the JSON, whose time [`shortest`] derives.
fn parts(verifier: &Verifier, raw: &RawBlock, block: &Block) -> [Duration; 6] {
    let (full, receipts_json) = (block.json().block(true), block.json().receipts());
    let answers = BlockAnswers {
        block: &full,
        receipts: &receipts_json,
        ommers: &[],
    };
    let (_, all) = time(|| {
        let stated = StatedBlock::read(answers.block).expect("the answer is honest");
        let body = verifier.verify_body(RequestedBlock::Hash(block.hash), stated, answers.ommers);
        let receipts = StatedReceipts::read(answers.receipts).expect("the answer is honest");
        verifier
            .verify_receipts(body.expect("the answer is honest"), receipts, &answers)
            .expect("the answer is honest")
    });
    // Decoded again because transactions cache their hashes.
    let raw =
        RawBlock::decode(&mut alloy_rlp::encode(raw).as_slice()).expect("the block was encoded");
    let plain = receipts_of(&raw.body.transactions, &receipts_json);
    let (receipts, blooms) = time(|| -> Vec<Receipt> {
        let receipts = raw.body.transactions.iter().zip(plain);
        receipts
            .map(|(transaction, plain)| with_bloom(transaction.tx_type(), plain))
            .collect()
    });
    let ((), roots) = time(|| {
        black_box(raw.header.hash_slow());
        for transaction in &raw.body.transactions {
            black_box(transaction.tx_hash());
        }
        verify::check_roots(&raw).expect("the roots match");
        ReceiptsCommitment::of(&receipts)
            .check(&raw.header)
            .expect("the receipts match");
    });
    let (senders, signatures) = time(|| {
        verify::recover_senders_of(CHAIN_ID, &raw.body.transactions).expect("all are signed")
    });
    let parts = BlockParts {
        raw: &raw,
        hash: block.hash,
        rlp_length: raw.length(),
        senders: &senders,
        receipts: &receipts,
        fees: HeaderFees {
            blob_gas_price: Some(1),
            ..HeaderFees::default()
        },
        total_difficulty: block.total_difficulty,
    };
    let (_, encoding) = time(|| BlockJson::encode(&parts, EncodeOptions::default()));
    let logs = || receipts.iter().flat_map(|receipt| receipt.logs());
    let (_, postings) = time(|| LogPostings::new(logs()));
    let hashing = roots + blooms;
    [signatures, hashing, encoding, postings, Duration::ZERO, all]
}

/// The shortest time that k256 takes to recover the senders that the service recovers.
fn recovered_by_k256(raw: &RawBlock) -> Duration {
    let transactions = &raw.body.transactions;
    let signed: Vec<_> = transactions
        .iter()
        .map(|one| match one.sender_source() {
            SenderSource::Signature { signature, hash } => (hash, signature),
            SenderSource::Stated(_) => panic!("the dev chain's transactions are signed"),
        })
        .collect();
    let recover = || -> Vec<Address> {
        let signed = signed.iter();
        signed
            .map(|(hash, signature)| {
                let (r, s) = (signature.r().to_be_bytes(), signature.s().to_be_bytes());
                let rs = Signature::from_scalars(r, s).expect("the signature is valid");
                let id = RecoveryId::new(signature.v(), false);
                let key = VerifyingKey::recover_from_prehash(hash.as_slice(), &rs, id);
                let point = key.expect("the signature is valid").to_encoded_point(false);
                Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..])
            })
            .collect()
    };
    let senders = verify::recover_senders_of(CHAIN_ID, transactions).expect("all are signed");
    assert_eq!(recover(), senders);
    let rounds = (0..ROUNDS).map(|_| time(recover).1);
    rounds.min().unwrap_or_default()
}

/// The receipts that the JSON states, without their blooms.
fn receipts_of(transactions: &[Transaction], json: &[u8]) -> Vec<PlainReceipt> {
    let stated: Vec<Value> = serde_json::from_slice(json).expect("valid JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let log = |log: &Value| {
        let topics = log["topics"].as_array().expect("an array");
        let topics: Vec<B256> = topics
            .iter()
            .map(|topic| text(topic).parse().expect("a hash"))
            .collect();
        let data: Bytes = text(&log["data"]).parse().expect("DATA");
        let address = text(&log["address"]).parse().expect("an address");
        Log::new_unchecked(address, topics, data)
    };
    let receipt = |stated: &Value| {
        let gas = text(&stated["cumulativeGasUsed"]);
        let logs = stated["logs"].as_array().expect("an array");
        PlainReceipt {
            status: Eip658Value::Eip658(stated["status"] == "0x1"),
            cumulative_gas_used: u64::from_str_radix(&gas[2..], 16).expect("a QUANTITY"),
            logs: logs.iter().map(log).collect(),
        }
    };
    assert_eq!(stated.len(), transactions.len());
    stated.iter().map(receipt).collect()
}

fn values(block: &Block) -> [Value; 2] {
    let answers = [block.json().block(true), block.json().receipts()];
    answers.map(|json| serde_json::from_slice(&json).expect("valid JSON"))
}

fn time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = black_box(work());
    (result, begin.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
