//! Mixed traffic on anvil: the transactions of the dev chain's blocks, sent again.
//!
//! Transfers, token transfers, creations, deep storage, reverts, and transactions of types 0, 1, 2
//! and 4: every few blocks of the dev chain have all of them, signed, and the same for equal seeds.
//! A transaction of type 3 is sent as type 2, because anvil's blocks with blobs are inconsistent
//! (`anvil_blocks`). A driven geth has all types.

use std::{collections::BTreeMap, path::Path};

use alloy_consensus::{Transaction as _, TxEip1559, Typed2718};
use alloy_eips::Encodable2718;
use alloy_primitives::{Address, Bytes};
use nearhead_chain::{
    block::{RawBlock, Transaction},
    chain_file::ChainReader,
    dev::CHAIN_ID,
};
use serde_json::{Value, json};

use super::{Anvil, Wallet, quantity};
use crate::{harness::check, window};

/// Senders of the dev chain's small profile.
const SENDERS: u64 = 32;

/// An anvil with this many blocks of the traffic of this seed. Each block holds every transaction
/// of the dev chain's block with the same number.
pub(crate) fn anvil_with_traffic(name: &str, seed: u64, blocks: u64) -> Anvil {
    let arguments = ["--seed", &seed.to_string(), "--blocks", &blocks.to_string()];
    let (genesis, chain) = window::export(name, &arguments);
    let mut anvil = Anvil::start(&[
        "--no-mining",
        "--init",
        genesis.to_str().unwrap(),
        "--chain-id",
        &CHAIN_ID.to_string(),
        // The finalized block stays the genesis, so that a reorg may be as deep as the window.
        "--slots-in-an-epoch",
        "1000",
    ]);
    let wallets = (0..SENDERS).map(|index| Wallet::of_dev_chain(seed, index));
    let wallets = wallets.map(|wallet| (wallet.address, wallet)).collect();
    for block in raw_blocks(&chain) {
        repeat(&mut anvil, &block, &wallets);
    }
    anvil
}

fn raw_blocks(chain: &Path) -> impl Iterator<Item = RawBlock> {
    let file = std::fs::File::open(chain).unwrap();
    ChainReader::new(file).unwrap().map(Result::unwrap)
}

/// Makes a block of the same transactions, with the same time and base fee.
fn repeat(anvil: &mut Anvil, block: &RawBlock, wallets: &BTreeMap<Address, Wallet>) {
    let header = &block.header;
    let fee = header.base_fee_per_gas.unwrap();
    let fee = json!([format!("{fee:#x}")]);
    anvil.call("evm_setNextBlockTimestamp", json!([header.timestamp]));
    anvil.call("anvil_setNextBlockBaseFeePerGas", fee);
    anvil.call("anvil_setCoinbase", json!([header.beneficiary]));
    let transactions = &block.body.transactions;
    for transaction in transactions {
        let sent: Bytes = match transaction {
            Transaction::Eip4844(signed) => {
                let blobs = signed.tx();
                let sender = transaction.sender_source().address().unwrap();
                wallets[&sender].sign(TxEip1559 {
                    chain_id: blobs.chain_id,
                    nonce: blobs.nonce,
                    gas_limit: blobs.gas_limit,
                    max_fee_per_gas: blobs.max_fee_per_gas,
                    max_priority_fee_per_gas: blobs.max_priority_fee_per_gas,
                    to: blobs.to.into(),
                    value: blobs.value,
                    access_list: blobs.access_list.clone(),
                    input: blobs.input.clone(),
                })
            }
            _ => transaction.encoded_2718().into(),
        };
        anvil.send(&sent);
    }
    anvil.call("evm_mine", json!([]));
    let made = anvil.call("eth_getBlockByNumber", json!(["latest", true]));
    check("number", &quantity(&made["number"]), &header.number);
    let nonces = |transaction: &Value| {
        (
            quantity(&transaction["type"]),
            quantity(&transaction["nonce"]),
        )
    };
    let included: Vec<_> = made["transactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(nonces)
        .collect();
    let sent = transactions
        .iter()
        .map(|transaction| match transaction.ty() {
            3 => (2, transaction.nonce()),
            kind => (u64::from(kind), transaction.nonce()),
        });
    check("in the block", &included, &sent.collect());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_hundred_blocks_have_every_kind_of_traffic() {
        let mut anvil = anvil_with_traffic("upstreams-traffic", 3, 200);
        check("head", &anvil.head().0, &200);
        let (mut types, mut creations, mut logs, mut reverted) = (BTreeSet::new(), 0, 0, 0);
        for number in 1..=200 {
            let params = json!([format!("{number:#x}")]);
            for receipt in anvil
                .call("eth_getBlockReceipts", params)
                .as_array()
                .unwrap()
            {
                types.insert(quantity(&receipt["type"]));
                creations += u64::from(receipt["contractAddress"].is_string());
                logs += receipt["logs"].as_array().unwrap().len();
                reverted += u64::from(receipt["status"] == "0x0");
            }
        }
        check("types", &types, &BTreeSet::from([0, 1, 2, 4]));
        println!("{creations} creations, {logs} logs, {reverted} reverted");
        assert!(creations > 20 && logs > 1_000 && reverted > 20);
        // The same seed makes the same chain.
        let hash = anvil.head().1;
        let short = anvil_with_traffic("upstreams-traffic-again", 3, 20)
            .head()
            .1;
        let params = json!(["0x14", false]);
        let twentieth = anvil.call("eth_getBlockByNumber", params)["hash"].clone();
        check("again", &json!(short), &twentieth);
        assert_ne!(short, hash);
    }
}
