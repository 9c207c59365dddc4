//! Prints the cost of encoding a block: `cargo bench -p nearhead-chain --bench encode`.
//!
//! The blocks are a typical block of mainnet, one at its 99th percentile, and an adversarial one
//! with 155,000 logs. Times are medians; nothing is asserted.

use std::{hint::black_box, time::Instant};

use alloy_consensus::{BlockBody, Header, Receipt as PlainReceipt, SignableTransaction, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, Log, Signature, TxKind, U256, keccak256};
use nearhead_chain::{
    block::{BlockParts, RawBlock, Receipt, Transaction, TxType},
    encode::{BlockJson, EncodeOptions},
    network::HeaderFees,
};

/// Size of a block.
struct BlockProfile {
    name: &'static str,
    transactions: usize,
    logs: usize,
    topics: usize,
    input_bytes: usize,
    data_bytes: usize,
    rounds: usize,
}

const PROFILES: [BlockProfile; 3] = [
    BlockProfile {
        name: "typical",
        transactions: 250,
        logs: 650,
        topics: 3,
        input_bytes: 350,
        data_bytes: 64,
        rounds: 201,
    },
    BlockProfile {
        name: "p99",
        transactions: 700,
        logs: 1_800,
        topics: 3,
        input_bytes: 500,
        data_bytes: 64,
        rounds: 101,
    },
    BlockProfile {
        name: "adversarial",
        transactions: 2,
        logs: 155_000,
        topics: 0,
        input_bytes: 100,
        data_bytes: 0,
        rounds: 11,
    },
];

fn hash(seed: usize) -> B256 {
    keccak256(seed.to_be_bytes())
}

fn transaction(index: usize, profile: &BlockProfile) -> Transaction {
    let signature = Signature::new(hash(index).into(), hash(index + 1).into(), true);
    let transaction = TxEip1559 {
        chain_id: 1,
        nonce: index as u64,
        gas_limit: 100_000,
        max_fee_per_gas: 30_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::from_word(hash(index))),
        value: U256::from(index) << 60,
        input: Bytes::from(vec![0xa5; profile.input_bytes]),
        ..TxEip1559::default()
    };
    let signed: Transaction = transaction.into_signed(signature).into();
    // The hash is computed on first use; decoding a block does so before it is encoded.
    black_box(signed.tx_hash());
    signed
}

fn receipt(index: usize, profile: &BlockProfile) -> Receipt {
    let logs = profile.logs / profile.transactions
        + usize::from(index < profile.logs % profile.transactions);
    let log = |log| {
        let topics = (0..profile.topics).map(|topic| hash(log + topic)).collect();
        let data = Bytes::from(vec![0x5a; profile.data_bytes]);
        Log::new_unchecked(Address::from_word(hash(log)), topics, data)
    };
    let receipt = PlainReceipt {
        status: true.into(),
        cumulative_gas_used: 50_000 * (index as u64 + 1),
        logs: (0..logs).map(log).collect(),
    };
    Receipt::from_typed(TxType::Eip1559, receipt.with_bloom())
}

fn main() {
    println!("profile      receipts KB  block KB  held KB  median µs   GB/s");
    for profile in &PROFILES {
        let indexes = 0..profile.transactions;
        let header = Header {
            base_fee_per_gas: Some(10_000_000_000),
            ..Header::default()
        };
        let body = BlockBody {
            transactions: indexes
                .clone()
                .map(|index| transaction(index, profile))
                .collect(),
            ..BlockBody::default()
        };
        let raw = RawBlock { header, body };
        let senders: Vec<_> = indexes
            .clone()
            .map(|index| Address::from_word(hash(index)))
            .collect();
        let receipts: Vec<_> = indexes.map(|index| receipt(index, profile)).collect();
        let parts = BlockParts {
            raw: &raw,
            hash: raw.header.hash_slow(),
            rlp_length: RawBlock::rlp_length_for(&raw.header, &raw.body),
            senders: &senders,
            receipts: &receipts,
            fees: HeaderFees {
                blob_gas_price: Some(1),
                ..HeaderFees::default()
            },
            total_difficulty: Some(U256::from(1) << 73),
        };
        measure(profile, &parts);
    }
}

fn measure(profile: &BlockProfile, parts: &BlockParts<'_>) {
    let encode = || BlockJson::encode(black_box(parts), EncodeOptions::default());
    let Ok(json) = encode() else {
        return println!("{} is too large", profile.name);
    };
    let mut times: Vec<_> = (0..profile.rounds)
        .map(|_| {
            let start = Instant::now();
            let json = encode();
            let time = start.elapsed();
            drop(black_box(json));
            time
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    println!(
        "{:<12} {:>11} {:>9} {:>8} {:>10} {:>6.2}",
        profile.name,
        json.receipts().len() / 1000,
        json.block(true).len() / 1000,
        json.bytes() / 1000,
        median.as_micros(),
        json.bytes() as f64 / median.as_nanos() as f64,
    );
}
