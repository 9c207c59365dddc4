//! A real geth over the same chain: every answer about every block, transaction, receipt, uncle, account, slot and log
//! filter is the same JSON, but for the differences of one table.

mod contents;
mod node;

use std::path::Path;

use alloy_primitives::{B256, KECCAK256_EMPTY};
use alloy_trie::EMPTY_ROOT_HASH;
use serde_json::{Value, json};

use crate::{
    dice::Dice,
    harness::{Connection, Server, check, json as parse, scratch, vectors},
    proofs, window,
};
use contents::{Contents, quantity};
use node::Geth;

/// A difference from geth that is on purpose: what turns our answer into geth's.
struct Difference {
    /// Methods whose answers differ.
    methods: &'static [&'static str],
    /// The section of the conformance rules that decides it, and why.
    reason: &'static str,
    /// Takes the difference out of our answer; `false` where it is not there as decided.
    undo: fn(ours: &mut Value, theirs: &Value) -> bool,
}

/// All of them.
const DIFFERENCES: &[Difference] = &[
    Difference {
        methods: &["eth_getBlockByHash", "eth_getBlockByNumber"],
        reason: "§7: totalDifficulty is part of the product's specification; geth dropped it with the merge",
        undo: |ours, _| remove(&mut ours["result"], "totalDifficulty", Value::is_string),
    },
    Difference {
        methods: &[
            "eth_getUncleByBlockHashAndIndex",
            "eth_getUncleByBlockNumberAndIndex",
        ],
        reason: "§8: an uncle's totalDifficulty is null; geth dropped the member",
        undo: |ours, _| remove(&mut ours["result"], "totalDifficulty", Value::is_null),
    },
    Difference {
        methods: &["eth_getLogs"],
        reason: "§6: at most 10,000 results are the product's specification; geth has no bound",
        undo: |ours, theirs| {
            let count = theirs["result"].as_array().map_or(0, Vec::len);
            let is_refused = ours["error"]["code"] == -32005;
            if is_refused && count > 10_000 {
                *ours = theirs.clone();
            }
            is_refused == (count > 10_000)
        },
    },
    Difference {
        methods: &["eth_getProof"],
        reason: "§11: an absent account has the hashes of nothing, against which its proof verifies; geth has zeros",
        undo: |ours, theirs| {
            if theirs["result"]["codeHash"] != json!(B256::ZERO) {
                return true;
            }
            let ours = &mut ours["result"];
            let is_absent = ours["codeHash"] == json!(KECCAK256_EMPTY)
                && ours["storageHash"] == json!(EMPTY_ROOT_HASH);
            ours["codeHash"] = theirs["result"]["codeHash"].clone();
            ours["storageHash"] = theirs["result"]["storageHash"].clone();
            is_absent
        },
    },
];

/// Takes a member out of an object; `false` where it is missing or not as `expected`. A null has no members.
fn remove(object: &mut Value, member: &str, expected: fn(&Value) -> bool) -> bool {
    match object {
        Value::Null => true,
        Value::Object(members) => members.remove(member).is_some_and(|value| expected(&value)),
        _ => false,
    }
}

/// The two servers, and what was compared.
struct Both {
    nearhead: Connection,
    geth: Connection,
    /// Calls that wait to be sent as one batch.
    calls: Vec<(&'static str, Value)>,
    compared: usize,
}

impl Both {
    /// The same call to both; `flush` sends what is left.
    fn same(&mut self, method: &'static str, params: Value) {
        // Large answers go alone: together they would be more than a batch may carry.
        let is_alone = ["eth_getLogs", "eth_getBlockReceipts"].contains(&method);
        if is_alone {
            self.flush();
        }
        self.calls.push((method, params));
        if is_alone || self.calls.len() == 100 {
            self.flush();
        }
    }

    /// Sends the calls that wait and compares the answers.
    fn flush(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let batch: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .collect();
        if batch.is_empty() {
            return;
        }
        let body = Value::from(batch).to_string();
        let [ours, theirs] = [&mut self.nearhead, &mut self.geth].map(|connection| {
            let response = connection.post(&body);
            assert_eq!(response.status, 200, "{response:?}");
            parse(&response.body)
        });
        for (index, (method, params)) in calls.iter().enumerate() {
            let mut ours = ours[index].clone();
            for difference in DIFFERENCES
                .iter()
                .filter(|difference| difference.methods.contains(method))
            {
                let as_decided = (difference.undo)(&mut ours, &theirs[index]);
                assert!(
                    as_decided,
                    "{method} {params}: not as decided in {}: {ours}",
                    difference.reason
                );
            }
            check(&format!("{method} {params}"), &ours, &theirs[index]);
            self.compared += 1;
        }
    }
}

/// Blocks, uncles, transactions and receipts by every method that finds them.
fn compare_blocks(both: &mut Both, contents: &Contents) {
    let (oldest, head) = contents.window.clone().into_inner();
    for block in contents.served() {
        let (n, hash) = (&block["number"], &block["hash"]);
        for full in [true, false] {
            both.same("eth_getBlockByNumber", json!([n, full]));
            both.same("eth_getBlockByHash", json!([hash, full]));
        }
        both.same("eth_getBlockReceipts", json!([n]));
        both.same("eth_getBlockReceipts", json!([hash]));
        both.same("eth_getBlockTransactionCountByNumber", json!([n]));
        both.same("eth_getBlockTransactionCountByHash", json!([hash]));
        both.same("eth_getUncleCountByBlockNumber", json!([n]));
        both.same("eth_getUncleCountByBlockHash", json!([hash]));
        // One past the end besides: null.
        for index in 0..=block["uncles"].as_array().unwrap().len() as u64 {
            both.same(
                "eth_getUncleByBlockNumberAndIndex",
                json!([n, quantity(index)]),
            );
            both.same(
                "eth_getUncleByBlockHashAndIndex",
                json!([hash, quantity(index)]),
            );
        }
        let transactions = block["transactions"].as_array().unwrap();
        for index in 0..=transactions.len() as u64 {
            both.same(
                "eth_getTransactionByBlockNumberAndIndex",
                json!([n, quantity(index)]),
            );
            both.same(
                "eth_getTransactionByBlockHashAndIndex",
                json!([hash, quantity(index)]),
            );
        }
        for transaction in transactions {
            both.same("eth_getTransactionByHash", json!([transaction["hash"]]));
            both.same("eth_getTransactionReceipt", json!([transaction["hash"]]));
        }
    }
    // The genesis is readable although it may be out of the window; what is beyond the head is not.
    for full in [true, false] {
        both.same("eth_getBlockByNumber", json!(["0x0", full]));
        both.same(
            "eth_getBlockByHash",
            json!([contents.blocks[0]["hash"], full]),
        );
        both.same("eth_getBlockByNumber", json!([quantity(head + 1), full]));
        both.same("eth_getBlockByHash", json!([B256::repeat_byte(7), full]));
        both.same("eth_getBlockByNumber", json!(["latest", full]));
    }
    both.same(
        "eth_getTransactionByBlockNumberAndIndex",
        json!([quantity(head + 1), "0x0"]),
    );
    both.same("eth_getTransactionReceipt", json!([B256::repeat_byte(7)]));
    for method in [
        "eth_chainId",
        "net_version",
        "eth_blockNumber",
        "eth_syncing",
        "eth_accounts",
    ] {
        both.same(method, json!([]));
    }
    both.flush();
    assert!(
        both.compared > 10 * usize::try_from(head - oldest).unwrap(),
        "only {} answers",
        both.compared
    );
}

/// Accounts and slots that one height is asked about where the chain has more.
const ACCOUNTS_SAMPLED: usize = 24;
const SLOTS_SAMPLED: usize = 160;

/// All of them, or so many by chance.
fn sample<'a, T>(dice: &mut Dice, of: &'a [T], most: usize) -> Vec<&'a T> {
    match of.len() > 2 * most {
        true => (0..most).map(|_| dice.pick(of)).collect(),
        false => of.iter().collect(),
    }
}

/// Accounts and slots at every height, slots that hold nothing and accounts that are not there besides.
fn compare_state(both: &mut Both, contents: &Contents, dice: &mut Dice) {
    let before = both.compared;
    let all: Vec<(&String, &String)> = contents
        .slots
        .iter()
        .flat_map(|(address, slots)| slots.iter().map(move |slot| (address, slot)))
        .collect();
    for block in contents.served() {
        let height = match dice.one_in(2) {
            true => block["number"].clone(),
            false => json!({"blockHash": block["hash"]}),
        };
        for (address, slot) in sample(dice, &all, SLOTS_SAMPLED) {
            both.same("eth_getStorageAt", json!([address, slot, height]));
        }
        for (address, _) in sample(dice, &contents.slots, ACCOUNTS_SAMPLED) {
            let method = *dice.pick(&["eth_getBalance", "eth_getTransactionCount", "eth_getCode"]);
            both.same(method, json!([address, height]));
            both.same("eth_getStorageAt", json!([address, "0x7fffffff", height]));
        }
        let nobody = random_address(dice);
        both.same("eth_getStorageAt", json!([nobody, "0x0", height]));
        both.same("eth_getBalance", json!([nobody, height]));
    }
    both.flush();
    let compared = both.compared - before;
    assert!(compared > 5_000, "only {compared} answers about the state");
}

fn random_address(dice: &mut Dice) -> String {
    alloy_primitives::hex::encode_prefixed(dice.bytes::<20>())
}

/// Proofs at every height: the same as geth's, and verified against the header.
fn compare_proofs(both: &mut Both, contents: &Contents, dice: &mut Dice) {
    let contracts: Vec<&(String, Vec<String>)> = contents
        .slots
        .iter()
        .filter(|(_, slots)| !slots.is_empty())
        .collect();
    for block in contents.served() {
        let state_root: B256 = block["stateRoot"].as_str().unwrap().parse().unwrap();
        let mut subjects = vec![(random_address(dice), vec![json!("0x0")])];
        let mut chosen = sample(dice, &contracts, 12);
        chosen.truncate(12);
        let accounts: Vec<_> = (0..12).map(|_| dice.pick(&contents.slots)).collect();
        for (address, slots) in chosen.into_iter().copied().chain(accounts) {
            let keys = sample(dice, slots, 32).into_iter().map(|slot| json!(slot));
            let mut keys: Vec<Value> = keys.collect();
            // A slot that holds nothing, one more in the short form, and one twice.
            keys.extend([json!(B256::from(dice.bytes())), json!("0x3"), json!("0x3")]);
            subjects.push((address.clone(), keys));
        }
        for (address, keys) in subjects {
            let params = json!([address, keys, block["number"]]);
            proofs::verify(&both.nearhead.result("eth_getProof", &params), state_root);
            both.same("eth_getProof", params);
        }
    }
    both.flush();
}

/// Hundreds of random filters over the logs that are there.
fn compare_logs(both: &mut Both, contents: &Contents, dice: &mut Dice) {
    let (oldest, head) = contents.window.clone().into_inner();
    let all = both.geth.result(
        "eth_getLogs",
        &json!([{"fromBlock": quantity(oldest), "toBlock": quantity(head)}]),
    );
    // A few of each block, so that a block of thousands is not all that is asked about.
    let mut logs = Vec::new();
    for block in all
        .as_array()
        .unwrap()
        .chunk_by(|a, b| a["blockHash"] == b["blockHash"])
    {
        logs.extend((0..16).map(|_| dice.pick(block).clone()));
    }
    assert!(!logs.is_empty(), "the chain has no logs");
    for _ in 0..400 {
        both.same("eth_getLogs", json!([random_filter(dice, &logs, contents)]));
    }
}

/// A filter made of what some log holds, made wider or narrower by chance.
fn random_filter(dice: &mut Dice, logs: &[Value], contents: &Contents) -> Value {
    let (oldest, head) = contents.window.clone().into_inner();
    let mut filter = serde_json::Map::new();
    if dice.one_in(4) {
        let hash = if dice.one_in(2) {
            &dice.pick(logs)["blockHash"]
        } else {
            &dice.pick(contents.served())["hash"]
        };
        filter.insert("blockHash".into(), hash.clone());
    } else {
        let from = dice.between(oldest, head);
        let to = if dice.one_in(8) {
            json!("latest")
        } else {
            quantity(dice.between(from, head))
        };
        filter.insert("fromBlock".into(), quantity(from));
        filter.insert("toBlock".into(), to);
    }
    let subject = dice.pick(logs);
    match dice.below(4) {
        0 => {}
        1 => _ = filter.insert("address".into(), subject["address"].clone()),
        2 => {
            _ = filter.insert(
                "address".into(),
                json!([subject["address"], dice.pick(logs)["address"]]),
            )
        }
        _ => {
            _ = filter.insert(
                "address".into(),
                json!([random_address(dice), subject["address"]]),
            )
        }
    }
    if dice.one_in(4) {
        return filter.into();
    }
    let positions = dice.below(5);
    let topics = (0..positions).map(|position| {
        let topic = subject["topics"]
            .get(position)
            .cloned()
            .unwrap_or_else(|| json!(B256::from(dice.bytes())));
        match dice.below(6) {
            0 | 1 => Value::Null,
            2 => json!([]),
            3 => topic,
            4 => json!([topic, B256::from(dice.bytes())]),
            _ => json!([
                dice.pick(logs)["topics"]
                    .get(position)
                    .cloned()
                    .unwrap_or_else(|| topic.clone()),
                topic
            ]),
        }
    });
    let topics: Vec<Value> = topics.collect();
    filter.insert("topics".into(), topics.into());
    filter.into()
}

/// Compares all there is.
fn compare(name: &str, genesis: &Path, chain: &Path, head: u64) {
    let geth = Geth::start(&scratch(name), genesis, chain);
    let mut connection = Connection::open(geth.address, "/");
    let contents = Contents::of(&mut connection, genesis);
    let server = Server::files(genesis, chain, &[]);
    let mut both = Both {
        nearhead: server.connect(),
        geth: connection,
        calls: Vec::new(),
        compared: 0,
    };
    check("geth took the chain whole", &contents.window.end(), &&head);
    let mut dice = Dice::new(0x6e65_6172);
    compare_blocks(&mut both, &contents);
    compare_state(&mut both, &contents, &mut dice);
    compare_proofs(&mut both, &contents, &mut dice);
    compare_logs(&mut both, &contents, &mut dice);
    println!("{name}: {} answers are the same", both.compared);
}

#[test]
fn execution_apis_chain() {
    compare(
        "geth-execution-apis",
        &vectors().join("genesis.json"),
        &vectors().join("chain.rlp"),
        54,
    );
}

/// A chain that nearhead itself made: geth takes it whole, and arrives at the same head.
#[test]
fn exported_dev_chain() {
    let (genesis, chain) = window::exported_chain();
    compare("geth-dev", genesis, chain, window::BLOCKS);
}
