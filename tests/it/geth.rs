//! A real geth over the same chain: every answer about every block, transaction, receipt, uncle, account, slot and log
//! filter is the same JSON, but for the differences of one table.

use std::{net::SocketAddr, path::Path, process::Command};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::{
    dice::Dice,
    harness::{Connection, Process, Server, check, json as parse, scratch, vectors},
    proofs,
};

/// A difference from geth that is on purpose: what turns our answer into geth's.
struct Difference {
    /// Methods whose answers differ.
    methods: &'static [&'static str],
    /// The section of the conformance rules that decides it, and why.
    reason: &'static str,
    /// Takes the difference out of our result; `false` where it is not there as decided.
    undo: fn(&mut Value) -> bool,
}

/// All of them.
const DIFFERENCES: &[Difference] = &[
    Difference {
        methods: &["eth_getBlockByHash", "eth_getBlockByNumber"],
        reason: "§7: totalDifficulty is part of the product's specification; geth dropped it with the merge",
        undo: |block| remove(block, "totalDifficulty", |total| total.is_string()),
    },
    Difference {
        methods: &[
            "eth_getUncleByBlockHashAndIndex",
            "eth_getUncleByBlockNumberAndIndex",
        ],
        reason: "§8: an uncle's totalDifficulty is null; geth dropped the member",
        undo: |uncle| remove(uncle, "totalDifficulty", Value::is_null),
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

/// A running geth that has imported a chain.
struct Geth {
    address: SocketAddr,
    /// Stops it when dropped.
    _process: Process,
}

impl Geth {
    /// Imports the chain into an archive below `folder` and serves it; panics unless the whole chain was taken.
    fn start(folder: &Path, genesis: &Path, chain: &Path) -> Self {
        let program = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/.tools/bin/geth"
        ));
        assert!(
            program.is_file(),
            "{} is missing: run tests/setup",
            program.display()
        );
        let geth = |arguments: &[&str]| {
            let mut command = Command::new(program);
            // By hash and archive: the state of every block. Preimages: debug_accountRange names accounts and slots.
            command.args([
                "--datadir",
                folder.to_str().unwrap(),
                "--state.scheme",
                "hash",
                "--gcmode",
                "archive",
            ]);
            command.args([
                "--syncmode",
                "full",
                "--cache",
                "64",
                "--cache.preimages",
                "--verbosity",
                "3",
            ]);
            command.args(arguments).env("HOME", folder);
            command
        };
        for step in [
            ["init", genesis.to_str().unwrap()],
            ["import", chain.to_str().unwrap()],
        ] {
            let (status, text) = Process::start(&mut geth(&step)).wait();
            assert!(status.success(), "geth {step:?}: {text}");
        }
        let process = Process::start(
            geth(&[
                "--port",
                "0",
                "--nodiscover",
                "--maxpeers",
                "0",
                "--nat",
                "none",
                "--ipcdisable",
            ])
            .args([
                "--http",
                "--http.port",
                "0",
                "--http.api",
                "eth,net,web3,debug",
            ])
            .args(["--authrpc.port", "0", "--rpc.batch-request-limit", "0"]),
        );
        let address = process.output.wait_for("geth's HTTP server", |text| {
            let line = text
                .lines()
                .find(|line| line.contains("HTTP server started") && line.contains("auth=false"))?;
            line.split_once("endpoint=")?
                .1
                .split(' ')
                .next()?
                .parse()
                .ok()
        });
        // eth_getLogs would search the blocks themselves until then, with the same result but slowly.
        process.output.wait_for("geth's log index", |text| {
            text.contains("head rendering finished").then_some(())
        });
        Self {
            address,
            _process: process,
        }
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
        self.calls.push((method, params));
        if self.calls.len() == 100 {
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
                let as_decided = (difference.undo)(&mut ours["result"]);
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

/// What the chain holds, as geth tells it.
struct Contents {
    /// First and last block whose state is compared.
    window: std::ops::RangeInclusive<u64>,
    /// Full blocks from genesis to head.
    blocks: Vec<Value>,
    /// Accounts and their slots, at any height.
    slots: Vec<(String, Vec<String>)>,
}

impl Contents {
    fn of(geth: &mut Connection) -> Self {
        let head = number(&geth.result("eth_blockNumber", &json!([])));
        let blocks: Vec<Value> = (0..=head)
            .map(|n| geth.result("eth_getBlockByNumber", &json!([quantity(n), true])))
            .collect();
        let window = head.saturating_sub(127)..=head;
        let mut slots =
            std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
        // The state at a few heights: a slot that was cleared since is in an earlier one.
        for n in window.clone().step_by(16).chain([head]) {
            let range = geth.result(
                "debug_accountRange",
                &json!([quantity(n), "0x", 4096, true, false, false]),
            );
            assert!(
                range.get("next").is_none_or(Value::is_null),
                "more accounts than one answer carries"
            );
            for (address, account) in range["accounts"].as_object().unwrap() {
                let keys = account
                    .get("storage")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten();
                slots
                    .entry(address.to_lowercase())
                    .or_default()
                    .extend(keys.map(|(key, _)| key.clone()));
            }
        }
        let slots = slots
            .into_iter()
            .map(|(address, keys)| (address, keys.into_iter().collect()))
            .collect();
        Self {
            window,
            blocks,
            slots,
        }
    }

    /// The blocks of the window.
    fn served(&self) -> &[Value] {
        &self.blocks[usize::try_from(*self.window.start()).unwrap()..]
    }
}

fn quantity(number: u64) -> Value {
    format!("{number:#x}").into()
}

fn number(quantity: &Value) -> u64 {
    u64::from_str_radix(quantity.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
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

/// Every account and slot at every height, slots that hold nothing and accounts that are not there besides.
fn compare_state(both: &mut Both, contents: &Contents, dice: &mut Dice) {
    let before = both.compared;
    for block in contents.served() {
        let height = if dice.one_in(2) {
            block["number"].clone()
        } else {
            json!({"blockHash": block["hash"]})
        };
        for (address, slots) in &contents.slots {
            for method in ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"] {
                if dice.one_in(4) {
                    both.same(method, json!([address, height]));
                }
            }
            for slot in slots {
                if slots.len() <= 8 || dice.one_in(4) {
                    both.same("eth_getStorageAt", json!([address, slot, height]));
                }
            }
            both.same("eth_getStorageAt", json!([address, "0x7fffffff", height]));
        }
        both.same(
            "eth_getStorageAt",
            json!([random_address(dice), "0x0", height]),
        );
    }
    both.flush();
    assert!(
        both.compared - before > 5_000,
        "only {} answers about the state",
        both.compared - before
    );
}

fn random_address(dice: &mut Dice) -> String {
    alloy_primitives::hex::encode_prefixed(dice.bytes::<20>())
}

/// Proofs of every account at every height: the same as geth's, and verified against the header.
fn compare_proofs(both: &mut Both, contents: &Contents, dice: &mut Dice) {
    for block in contents.served() {
        let state_root: B256 = block["stateRoot"].as_str().unwrap().parse().unwrap();
        let mut subjects: Vec<(String, Vec<Value>)> = Vec::new();
        for (address, slots) in &contents.slots {
            if !dice.one_in(4) {
                continue;
            }
            let mut keys: Vec<Value> = slots.iter().map(|slot| slot.clone().into()).collect();
            // A slot that holds nothing, one more in the short form, and one twice.
            keys.extend([json!(B256::from(dice.bytes())), json!("0x3"), json!("0x3")]);
            subjects.push((address.clone(), keys));
        }
        subjects.push((random_address(dice), vec![json!("0x0")]));
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
    let logs = all.as_array().unwrap();
    assert!(!logs.is_empty(), "the chain has no logs");
    let mut matched = 0;
    for _ in 0..500 {
        let filter = random_filter(dice, logs, contents);
        both.same("eth_getLogs", json!([filter]));
        if dice.one_in(10) {
            matched += both
                .nearhead
                .result("eth_getLogs", &json!([filter]))
                .as_array()
                .unwrap()
                .len();
        }
    }
    both.flush();
    assert!(matched > 0, "no filter matched anything");
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
    let server = Server::files(genesis, chain, &[]);
    let mut both = Both {
        nearhead: server.connect(),
        geth: Connection::open(geth.address, "/"),
        calls: Vec::new(),
        compared: 0,
    };
    let contents = Contents::of(&mut both.geth);
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
