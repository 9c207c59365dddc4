//! Every method on a growing chain: at each of 200 blocks of mixed traffic, with every form of
//! block parameter, while the head moves and the window slides. Each answer equals the upstream's.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256, keccak256};
use nearhead_chain::dev::STORE_CONTRACT;
use serde_json::{Value, json};

use super::{
    WINDOW, check_pruned,
    comparison::{Comparison, GETH},
    driven_geth,
    driven_geth::DrivenGeth,
    follow, wait_head, ws,
};
use crate::{
    geth::random_filter,
    proofs,
    rng::Rng,
    upstreams::{Payload, quantity},
};

/// Blocks followed one by one.
const BLOCKS: u64 = 200;

/// The most slots in one proof.
const SLOTS_PROVEN: usize = 48;

/// The contents of the chain so far, from which the test makes requests.
#[derive(Debug, Default)]
struct ChainContents {
    /// Accounts and their slots.
    slots: BTreeMap<String, BTreeSet<B256>>,
    /// Block hashes and state roots, from block 1 on.
    hashes: Vec<Value>,
    state_roots: Vec<B256>,
    /// Some logs of each block.
    logs: Vec<Value>,
    /// Transactions by type.
    types: BTreeMap<u64, usize>,
    transfers: usize,
    creations: usize,
    reverted: usize,
    events: usize,
    withdrawals: usize,
}

impl ChainContents {
    /// Adds a block; returns the accounts in it.
    fn add(&mut self, block: &Value, receipts: &Value) -> BTreeSet<String> {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut accounts = BTreeSet::from([text(&block["miner"])]);
        for withdrawal in items(&block["withdrawals"]) {
            self.withdrawals += 1;
            accounts.insert(text(&withdrawal["address"]));
        }
        for transaction in items(&block["transactions"]) {
            let kind = quantity(&transaction["type"]);
            *self.types.entry(kind).or_default() += 1;
            let is_transfer = transaction["input"] == "0x" && transaction["value"] != "0x0";
            self.transfers += usize::from(is_transfer);
            for authorization in items(&transaction["authorizationList"]) {
                accounts.insert(text(&authorization["address"]));
            }
        }
        let mut logs = Vec::new();
        for receipt in receipts.as_array().unwrap() {
            let named = ["from", "to", "contractAddress"].map(|name| &receipt[name]);
            accounts.extend(
                named
                    .into_iter()
                    .filter(|value| value.is_string())
                    .map(text),
            );
            self.creations += usize::from(receipt["contractAddress"].is_string());
            self.reverted += usize::from(receipt["status"] == "0x0");
            logs.extend(items(&receipt["logs"]));
        }
        for log in &logs {
            self.events += 1;
            accounts.insert(text(&log["address"]));
            let slots = self.slots.entry(text(&log["address"])).or_default();
            slots.extend(slots_of(log));
        }
        self.logs.extend(logs.into_iter().take(8));
        self.hashes.push(block["hash"].clone());
        self.state_roots.push(proofs::state_root(block));
        accounts
    }

    /// Up to `max` slots that the account may have, then slot 0 and a random one.
    fn keys(&self, account: &str, rng: &mut Rng, max: usize) -> Vec<Value> {
        let known = self.slots.get(account).into_iter().flatten();
        let known: Vec<&B256> = known.collect();
        let first = known.len().saturating_sub(max);
        let from = if first > 0 { rng.below(first) } else { 0 };
        let chosen = known.into_iter().skip(from).take(max);
        let mut keys: Vec<Value> = chosen.map(|slot| json!(slot)).collect();
        keys.extend([json!("0x0"), json!(B256::from(rng.bytes()))]);
        keys
    }
}

/// Slots of the log's contract that were written: those of the sample contracts' mappings.
fn slots_of(log: &Value) -> Vec<B256> {
    let mapping = |key: B256, slot: u64| keccak256([key, B256::from(U256::from(slot))].concat());
    let topics = log["topics"].as_array().unwrap().iter();
    let topics = topics.map(|topic| text(topic).parse::<B256>().unwrap());
    match text(&log["address"]) == format!("{STORE_CONTRACT:#x}") {
        true => {
            let key: B256 = text(&log["data"]).parse().unwrap();
            vec![key, mapping(key, 1)]
        }
        // Balances of a token's sender and receiver; in other contracts these slots are empty.
        false => topics.skip(1).map(|holder| mapping(holder, 0)).collect(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn hex(number: u64) -> Value {
    format!("{number:#x}").into()
}

/// This block in one of the forms that state methods accept, chosen by chance.
fn block_id(rng: &mut Rng, contents: &ChainContents, number: u64) -> Value {
    let hash = &contents.hashes[usize::try_from(number - 1).unwrap()];
    match rng.below(5) {
        0 => hex(number),
        1 => json!({"blockNumber": hex(number)}),
        2 => json!({"blockHash": hash}),
        3 => json!({"blockHash": hash, "requireCanonical": true}),
        _ if number as usize == contents.hashes.len() => json!("latest"),
        _ => hash.clone(),
    }
}

/// Queues what is compared of an account at a block: balance, nonce, code, slots, and a proof.
fn queue_account(
    comparison: &mut Comparison,
    contents: &ChainContents,
    rng: &mut Rng,
    account: &str,
    number: u64,
) {
    let at = block_id(rng, contents, number);
    for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
        comparison.queue("state", method, json!([account, at]));
    }
    let keys = contents.keys(account, rng, SLOTS_PROVEN);
    for key in keys.iter().rev().take(3) {
        comparison.queue("state", "eth_getStorageAt", json!([account, key, at]));
    }
    let words: Vec<&Value> = keys.iter().filter(|key| *key != "0x0").collect();
    comparison.queue(
        "state",
        "eth_getStorageValues",
        json!([{account: words}, at]),
    );
    let state_root = contents.state_roots[usize::try_from(number - 1).unwrap()];
    comparison.queue_proof(json!([account, keys, at]), state_root);
}

#[test]
fn every_answer_equals_the_upstreams_while_the_chain_grows() {
    let (genesis, payloads) = driven_geth::chain("node-conformance", 59, BLOCKS);
    let mut geth = DrivenGeth::at("node-conformance-geth", &genesis, &payloads);
    geth.go_to(&payloads[0]);
    let server = follow(&[ws(geth.address())]);
    let mut comparison = Comparison::between(&server, geth.address());
    let (mut contents, mut rng) = (ChainContents::default(), Rng::new(59));
    let store = format!("{STORE_CONTRACT:#x}");
    for payload in &payloads {
        let Payload { number, .. } = *payload;
        wait_head(&server, geth.go_to(payload));
        let oldest = number.saturating_sub(WINDOW - 1);
        comparison.chain();
        let block = comparison.block(number);
        let receipts = comparison.compare("receipt", "eth_getBlockReceipts", json!(["latest"]));
        let accounts = contents.add(&block, &receipts);
        for account in accounts {
            queue_account(&mut comparison, &contents, &mut rng, &account, number);
        }
        // Older blocks are unchanged, to the end of the window.
        let older = rng.between(oldest.max(1), number);
        match number % 8 {
            0 => _ = comparison.block(oldest.max(1)),
            4 => _ = comparison.block(older),
            _ => {}
        }
        queue_account(&mut comparison, &contents, &mut rng, &store, older);
        let absent = format!("{:#x}", Address::from(rng.bytes()));
        queue_account(&mut comparison, &contents, &mut rng, &absent, older);
        comparison.flush();
        // Filters for some logs of the window.
        let first = contents
            .logs
            .iter()
            .position(|log| quantity(&log["blockNumber"]) >= oldest);
        let logs = &contents.logs[first.unwrap_or(contents.logs.len())..];
        if !logs.is_empty() {
            let hashes = &contents.hashes[usize::try_from(oldest.max(1) - 1).unwrap()..];
            for _ in 0..6 {
                let filter = random_filter(&mut rng, logs, &(oldest..=number), hashes);
                comparison.compare("log", "eth_getLogs", json!([filter]));
            }
        }
        if number % 25 == 0 {
            comparison.compare(
                "log",
                "eth_getLogs",
                json!([{"fromBlock": hex(oldest), "toBlock": "latest"}]),
            );
            compare_refusals(&mut comparison, number);
        }
        if oldest > 1 {
            check_pruned(&server, oldest - 1);
        }
    }
    println!(
        "types {:?}, {} transfers, {} creations, {} reverted, {} events, {} withdrawals, {} slots of the store",
        contents.types,
        contents.transfers,
        contents.creations,
        contents.reverted,
        contents.events,
        contents.withdrawals,
        contents.slots[&store].len()
    );
    for kind in 0..=4 {
        let count = contents.types.get(&kind).copied().unwrap_or(0);
        assert!(count >= 100, "{count} transactions of type {kind}");
    }
    for (name, count) in [
        ("transfers", contents.transfers),
        ("creations", contents.creations),
        ("reverted", contents.reverted),
        ("withdrawals", contents.withdrawals),
    ] {
        assert!(count >= 200, "{count} {name}");
    }
    let deep = contents.slots[&store].len();
    assert!(contents.events > 2_000 && deep > 1_000, "{contents:?}");
    let compared = comparison.finish(GETH);
    assert!(compared > 50_000, "{compared} answers");
}

/// Compares refusals whose code and reason geth defines too.
fn compare_refusals(comparison: &mut Comparison, head: u64) {
    let (hash, address) = (B256::repeat_byte(7), Address::repeat_byte(7));
    let beyond = hex(head + 1);
    for (method, params) in [
        ("eth_getBalance", json!([address, beyond])),
        ("eth_getStorageAt", json!([address, "0x0", beyond])),
        ("eth_getProof", json!([address, [], beyond])),
        ("eth_getBalance", json!([address, {"blockHash": hash}])),
        ("eth_getProof", json!([address, [], {"blockHash": hash}])),
        ("eth_getBalance", json!([])),
        ("eth_getBalance", json!(["0x12", "latest"])),
        ("eth_getBalance", json!([address, "latest", 1])),
        ("eth_getBalance", json!([address, "0x"])),
        ("eth_getBalance", json!([address, "0x01"])),
        (
            "eth_getBalance",
            json!([address, {"blockHash": hash, "blockNumber": "0x1"}]),
        ),
        ("eth_getBlockByNumber", json!([])),
        ("eth_getBlockByNumber", json!(["0x1"])),
        ("eth_getBlockByNumber", json!(["first", true])),
        ("eth_getBlockByNumber", json!(["0x1", "yes"])),
        ("eth_getBlockByHash", json!(["0x1", true])),
        ("eth_getTransactionByHash", json!(["0x1"])),
        ("eth_getTransactionReceipt", json!([null])),
        ("eth_getUncleByBlockHashAndIndex", json!([hash])),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["0x1", "0x01"]),
        ),
        (
            "eth_getStorageAt",
            json!([address, format!("0x{}", "00".repeat(33)), "latest"]),
        ),
        ("eth_getStorageAt", json!([address, "0xzz", "latest"])),
        ("eth_getProof", json!([address, ["0xzz"], "latest"])),
        (
            "eth_getProof",
            json!([address, vec!["0x0"; 1_025], "latest"]),
        ),
        ("eth_getLogs", json!([{"blockHash": hash}])),
        (
            "eth_getLogs",
            json!([{"blockHash": hash, "fromBlock": "0x1"}]),
        ),
        (
            "eth_getLogs",
            json!([{"fromBlock": hex(head), "toBlock": hex(head - 1)}]),
        ),
        (
            "eth_getLogs",
            json!([{"fromBlock": hex(head), "toBlock": beyond}]),
        ),
        ("eth_getLogs", json!([{"topics": [[], [], [], [], []]}])),
        ("eth_getLogs", json!([{"address": "0x12"}])),
        ("eth_getLogs", json!([{"topics": ["0x12"]}])),
        ("eth_getLogs", json!([])),
        ("eth_noSuchMethod", json!([])),
    ] {
        comparison.refusal(method, params);
    }
}
