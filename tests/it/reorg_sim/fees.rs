//! What the model answers about fees, from the JSON of blocks and receipts.

use std::cmp::Ordering;

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::{
    hex,
    tree::{Facts, Tree},
};
use crate::harness::{self, quantity};

/// Most blob gas of a block: 21 blobs.
const BLOB_GAS_MAX: u64 = 21 * 131_072;

/// Blocks that a suggestion looks at.
const SUGGESTION_BLOCKS: usize = 20;

/// What a transaction paid for a unit of gas above the base fee, and its gas.
pub(super) struct Paid {
    tip: u64,
    gas: u64,
    is_proposers: bool,
}

/// What the transactions of a block paid, the lowest tip first.
fn paid(block: &Facts) -> Vec<Paid> {
    let base_fee = quantity(&block.full["baseFeePerGas"]);
    let receipts = block.receipts.iter();
    let mut paid: Vec<Paid> = receipts
        .map(|receipt| Paid {
            tip: quantity(&receipt["effectiveGasPrice"]) - base_fee,
            gas: quantity(&receipt["gasUsed"]),
            is_proposers: receipt["from"] == block.full["miner"],
        })
        .collect();
    paid.sort_by_key(|paid| paid.tip);
    paid
}

/// The tips of a block that a suggestion looks at.
fn samples(block: &Facts) -> Vec<u64> {
    let paid = paid(block).into_iter();
    let counts = paid.filter(|paid| paid.tip >= 2 && !paid.is_proposers);
    counts.map(|paid| paid.tip).take(3).collect()
}

/// The suggested priority fee at the first of these blocks, whose parents follow it; `before` was
/// suggested at its parent.
pub(super) fn suggested_tip<'a>(
    blocks: impl Iterator<Item = &'a Facts>,
    before: Option<u64>,
) -> u64 {
    let before = before.unwrap_or(1_000_000);
    let (mut tips, mut blocks_left) = (Vec::new(), SUGGESTION_BLOCKS);
    for block in blocks {
        if blocks_left == 0 {
            break;
        }
        blocks_left -= 1;
        let samples = samples(block);
        // Blocks that say little are made up for by older ones.
        if samples.len() <= 1 && tips.len() + 1 + blocks_left < 2 * SUGGESTION_BLOCKS {
            blocks_left += 1;
        }
        match samples.is_empty() {
            true => tips.push(before),
            false => tips.extend(samples),
        }
    }
    tips.sort_unstable();
    match tips.len() {
        0 => before,
        count => tips[(count - 1) * 60 / 100],
    }
}

/// What the block after this one asks for (EIP-1559).
pub(super) fn next_base_fee(block: &Facts) -> Value {
    let member = |name: &str| u128::from(quantity(&block.full[name]));
    let (fee, used) = (member("baseFeePerGas"), member("gasUsed"));
    let target = member("gasLimit") / 2;
    let change = fee * used.abs_diff(target) / target / 8;
    json!(U256::from(match used.cmp(&target) {
        Ordering::Less => fee - change,
        Ordering::Equal => fee,
        Ordering::Greater => fee + change.max(1),
    }))
}

/// The suggested tip and the base fee of a block, as one price.
pub(super) fn gas_price(head: &Facts) -> Value {
    hex(head.suggested_tip + quantity(&head.full["baseFeePerGas"]))
}

/// The history of these blocks, of which there is at least one. What the block after them asks for
/// is that of a child: all children ask for the same.
pub(super) fn history(blocks: &[&Facts], child: &Facts, percentiles: &[u64]) -> Value {
    let with_next = || blocks.iter().copied().chain([child]);
    let fees: Vec<&Value> = with_next()
        .map(|block| &block.full["baseFeePerGas"])
        .collect();
    let blob_fees: Vec<&Value> = with_next().map(|block| &block.blob_gas_price).collect();
    let of_all = |part: fn(&Facts) -> Value| blocks.iter().map(|block| part(block)).collect();
    let used: Vec<Value> = of_all(|block| {
        let used = quantity(&block.full["gasUsed"]);
        ratio(used, quantity(&block.full["gasLimit"]))
    });
    let blobs_used: Vec<Value> =
        of_all(|block| ratio(quantity(&block.full["blobGasUsed"]), BLOB_GAS_MAX));
    let rewards = blocks.iter().map(|block| rewards(block, percentiles));
    json!({
        "oldestBlock": hex(blocks[0].number),
        "reward": rewards.collect::<Vec<_>>(),
        "baseFeePerGas": fees,
        "gasUsedRatio": used,
        "baseFeePerBlobGas": blob_fees,
        "blobGasUsedRatio": blobs_used,
    })
}

/// A number from 0 to 1, as it is read from an answer.
fn ratio(used: u64, max: u64) -> Value {
    harness::json((used as f64 / max as f64).to_string().as_bytes())
}

/// The tips at these percentiles of the gas that a block used.
fn rewards(block: &Facts, percentiles: &[u64]) -> Vec<Value> {
    let (paid, used) = (paid(block), quantity(&block.full["gasUsed"]));
    let reward = |percentile: &u64| {
        let mut gas = 0;
        let reaches = |paid: &&Paid| {
            gas += paid.gas;
            gas >= used * percentile / 100
        };
        let found = paid.iter().find(reaches).or(paid.last());
        hex(found.map_or(0, |paid| paid.tip))
    };
    percentiles.iter().map(reward).collect()
}

/// A child of a block; `None` if the tree has none.
pub(super) fn child<'a>(tree: &'a Tree, block: &Facts) -> Option<&'a Facts> {
    let hash = tree.children(&block.hash).first()?;
    Some(&tree.block(hash).facts)
}
