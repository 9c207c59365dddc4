//! A real geth over the same chain: every answer about every block, transaction, receipt, uncle,
//! account, slot and log filter is the same JSON, except for the differences in one table.
//!
//! geth cannot follow the source `dev`. What that serves is compared through its export, which both
//! import: `nearhead export` and the source run the same producer with the same configuration, and
//! one test here compares the two. Both hold a window of executed blocks and their whole states;
//! the rest of the program does not know which source it has. `reorg_sim` covers reorgs.

mod calls;
mod changes;
mod contents;
mod settled;
mod simulations;

use std::{ops::RangeInclusive, path::Path};

use alloy_primitives::{B256, KECCAK256_EMPTY};
use alloy_trie::EMPTY_ROOT_HASH;
use nearhead_chain::{campaign, dev::STORE_CONTRACT};
use serde_json::{Value, json};

use crate::{
    harness::{BATCH_CALLS_MAX, Pair, Server, check, scratch, vectors},
    node, proofs,
    rng::Rng,
    upstreams::Geth,
    window,
};
use contents::{Contents, number, quantity};

/// The chains, named after their folders.
const EXECUTION_APIS: &str = "geth-execution-apis";
const DEV: &str = "geth-dev";
const BURST: &str = "geth-burst";
const SETTLED: &str = "geth-settled";
/// Chains that nearhead follows from geth, which states no total difficulty.
pub(crate) const FOLLOWED_EXECUTION_APIS: &str = "geth-followed-execution-apis";
pub(crate) const FOLLOWED_DEV: &str = "geth-followed-dev";

/// An intended difference from geth, and the function that turns our answer into geth's.
struct Difference {
    /// Methods whose answers differ.
    methods: &'static [&'static str],
    /// Why the answers differ.
    reason: &'static str,
    /// The chains on which it must show, so that an outdated row is noticed.
    shows_on: &'static [&'static str],
    /// Removes the difference from our answer.
    undo: fn(params: &Value, ours: &mut Value, theirs: &Value) -> Undone,
}

/// The result of removing a difference from one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undone {
    /// The difference was as intended and is removed.
    Yes,
    /// The difference does not apply to this answer.
    NothingToDo,
    /// The answer differs in another way than intended.
    No,
}

/// All intended differences from geth.
const DIFFERENCES: &[Difference] = &[
    Difference {
        methods: &["eth_getBlockByHash", "eth_getBlockByNumber"],
        reason: "blocks have their totalDifficulty, which geth dropped with the merge",
        shows_on: &[EXECUTION_APIS, DEV, SETTLED],
        undo: |_, ours, _| match ours["result"]["totalDifficulty"] {
            Value::Null if ours["result"].is_object() => Undone::NothingToDo,
            _ => remove(&mut ours["result"], "totalDifficulty", Value::is_string),
        },
    },
    Difference {
        methods: &["eth_getBlockByHash", "eth_getBlockByNumber"],
        reason: "totalDifficulty is the upstream's if the chain was not executed: null, because geth dropped it",
        shows_on: &[FOLLOWED_EXECUTION_APIS, FOLLOWED_DEV],
        undo: |_, ours, _| match ours["result"].get("totalDifficulty") {
            Some(Value::Null) => remove(&mut ours["result"], "totalDifficulty", Value::is_null),
            _ => Undone::NothingToDo,
        },
    },
    Difference {
        methods: &[
            "eth_getUncleByBlockHashAndIndex",
            "eth_getUncleByBlockNumberAndIndex",
        ],
        reason: "an uncle's totalDifficulty is null; geth dropped the member",
        shows_on: &[EXECUTION_APIS, FOLLOWED_EXECUTION_APIS],
        undo: |_, ours, _| remove(&mut ours["result"], "totalDifficulty", Value::is_null),
    },
    Difference {
        methods: &["eth_getLogs"],
        reason: "eth_getLogs returns at most 10,000 results; geth has no bound",
        shows_on: &[BURST],
        undo: refused_for_size,
    },
    Difference {
        methods: &["eth_getProof"],
        reason: "an absent account has the hashes of empty code and storage, against which its proof verifies; geth has zeros",
        shows_on: &[
            EXECUTION_APIS,
            DEV,
            SETTLED,
            FOLLOWED_EXECUTION_APIS,
            FOLLOWED_DEV,
        ],
        undo: |_, ours, theirs| {
            if theirs["result"]["codeHash"] != json!(B256::ZERO) {
                return Undone::NothingToDo;
            }
            let ours = &mut ours["result"];
            let is_absent = ours["codeHash"] == json!(KECCAK256_EMPTY)
                && ours["storageHash"] == json!(EMPTY_ROOT_HASH);
            ours["codeHash"] = theirs["result"]["codeHash"].clone();
            ours["storageHash"] = theirs["result"]["storageHash"].clone();
            Undone::when(is_absent)
        },
    },
];

impl Undone {
    const fn when(as_intended: bool) -> Self {
        if as_intended { Self::Yes } else { Self::No }
    }
}

/// Removes a member that has to be as `expected` from an object. null has no members.
fn remove(object: &mut Value, member: &str, expected: fn(&Value) -> bool) -> Undone {
    match object {
        Value::Null => Undone::NothingToDo,
        Value::Object(members) => {
            Undone::when(members.remove(member).is_some_and(|value| expected(&value)))
        }
        _ => Undone::No,
    }
}

/// The most results that eth_getLogs returns.
const LOGS_MAX: usize = 10_000;

/// If there are more logs than may be returned, our error names the largest range that fits, which
/// is computed here from geth's list.
fn refused_for_size(params: &Value, ours: &mut Value, theirs: &Value) -> Undone {
    let all = theirs["result"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(beyond) = all.get(LOGS_MAX) else {
        return Undone::NothingToDo;
    };
    let beyond = number(&beyond["blockNumber"]);
    let from = params[0].get("fromBlock").map_or(beyond, number);
    let to = (beyond > from).then(|| quantity(beyond - 1));
    let expected = json!({"jsonrpc": "2.0", "id": theirs["id"], "error": {
        "code": -32005,
        "message": "query returned more than 10000 results",
        "data": {"from": quantity(from), "to": to, "limit": LOGS_MAX},
    }});
    let is_as_intended = *ours == expected;
    *ours = theirs.clone();
    Undone::when(is_as_intended)
}

/// nearhead and geth over the same chain, and counts of what was compared.
struct GethComparison {
    /// The chain that both serve.
    chain: &'static str,
    /// nearhead and geth.
    pair: Pair,
    /// Stopped when this is dropped.
    server: Server,
    _geth: Geth,
    /// Calls to send in the next batch; the answer to one with a state root is a proof of it.
    calls: Vec<(&'static str, Value, Option<B256>)>,
    /// State is compared at every one of this many blocks, and so are proofs.
    state_every: usize,
    compared: usize,
    /// How many answers differed by each row of [`DIFFERENCES`].
    differed: [usize; DIFFERENCES.len()],
    /// How many answers of eth_getStorageAt were not zero.
    slots_with_value: usize,
    /// How many slots that are not zero were proven.
    slots_proven: usize,
}

impl GethComparison {
    /// Starts both servers with the chain of these files.
    fn start(name: &'static str, genesis: &Path, chain: &Path) -> Self {
        let geth = Geth::start(&scratch(name), genesis, chain);
        Self::of(name, Server::files(genesis, chain, &[]), geth)
    }

    fn of(chain: &'static str, server: Server, geth: Geth) -> Self {
        Self {
            chain,
            pair: Pair {
                ours: server.connect(),
                theirs: geth.connect(),
            },
            server,
            _geth: geth,
            calls: Vec::new(),
            state_every: match chain {
                // nearhead asks the geth for the state of each block.
                FOLLOWED_DEV => usize::try_from(campaign::rounds(2, 1)).unwrap(),
                _ => 1,
            },
            compared: 0,
            differed: [0; DIFFERENCES.len()],
            slots_with_value: 0,
            slots_proven: 0,
        }
    }

    /// Asserts that each difference showed on the chains of its row, and on no other.
    fn finish(self) {
        for (row, differed) in DIFFERENCES.iter().zip(self.differed) {
            let case = format!("{}: {differed} answers differ by it", row.reason);
            check(&case, &(differed > 0), &row.shows_on.contains(&self.chain));
        }
        println!("{}: {} answers are the same", self.chain, self.compared);
    }

    /// Queues a call to both servers; [`Self::flush`] sends the rest.
    fn compare(&mut self, method: &'static str, params: Value) {
        self.queue((method, params, None));
    }

    /// Queues an eth_getProof, whose answer is verified against the state root as well.
    fn compare_proof(&mut self, params: Value, state_root: B256) {
        self.queue(("eth_getProof", params, Some(state_root)));
    }

    fn queue(&mut self, call: (&'static str, Value, Option<B256>)) {
        // Calls with large answers are sent alone: a batch of them would exceed its limit.
        let is_alone = [
            "debug_getRawReceipts",
            "eth_getLogs",
            "eth_getBlockReceipts",
        ]
        .contains(&call.0);
        if is_alone {
            self.flush();
        }
        self.calls.push(call);
        if is_alone || self.calls.len() == BATCH_CALLS_MAX {
            self.flush();
        }
    }

    /// Sends the queued calls and compares the answers.
    fn flush(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let requests = calls.iter().map(|(method, params, _)| (*method, params));
        let answers = self.pair.batch(requests);
        for ((method, params, state_root), [mut ours, theirs]) in calls.iter().zip(answers) {
            if let Some(state_root) = state_root {
                self.slots_proven += proofs::verify(params, &ours["result"], *state_root);
            }
            let rows = DIFFERENCES.iter().zip(&mut self.differed);
            for (row, differed) in rows.filter(|(row, _)| row.methods.contains(method)) {
                let sent = ours.clone();
                let undone = (row.undo)(params, &mut ours, &theirs);
                assert!(
                    undone != Undone::No,
                    "{method} {params}: not as intended in {}: {sent}",
                    row.reason
                );
                *differed += usize::from(undone == Undone::Yes);
            }
            check(&format!("{method} {params}"), &ours, &theirs);
            self.compared += 1;
            let has_value = *method == "eth_getStorageAt" && ours["result"] != json!(B256::ZERO);
            self.slots_with_value += usize::from(has_value);
        }
    }
}

/// Blocks, uncles, transactions and receipts by every method that finds them.
fn compare_blocks(both: &mut GethComparison, contents: &Contents) {
    let (oldest, head) = contents.window.clone().into_inner();
    for block in contents.served() {
        let (n, hash) = (&block["number"], &block["hash"]);
        for full in [true, false] {
            both.compare("eth_getBlockByNumber", json!([n, full]));
            both.compare("eth_getBlockByHash", json!([hash, full]));
        }
        for method in [
            "debug_getRawBlock",
            "debug_getRawHeader",
            "debug_getRawReceipts",
        ] {
            both.compare(method, json!([n]));
        }
        both.compare("eth_getBlockReceipts", json!([n]));
        both.compare("eth_getBlockReceipts", json!([hash]));
        both.compare("eth_getBlockTransactionCountByNumber", json!([n]));
        both.compare("eth_getBlockTransactionCountByHash", json!([hash]));
        both.compare("eth_getUncleCountByBlockNumber", json!([n]));
        both.compare("eth_getUncleCountByBlockHash", json!([hash]));
        // One index past the end: null.
        for index in 0..=block["uncles"].as_array().unwrap().len() as u64 {
            both.compare(
                "eth_getUncleByBlockNumberAndIndex",
                json!([n, quantity(index)]),
            );
            both.compare(
                "eth_getUncleByBlockHashAndIndex",
                json!([hash, quantity(index)]),
            );
        }
        let transactions = block["transactions"].as_array().unwrap();
        for index in 0..=transactions.len() as u64 {
            both.compare(
                "eth_getTransactionByBlockNumberAndIndex",
                json!([n, quantity(index)]),
            );
            both.compare(
                "eth_getTransactionByBlockHashAndIndex",
                json!([hash, quantity(index)]),
            );
        }
        for transaction in transactions {
            both.compare("eth_getTransactionByHash", json!([transaction["hash"]]));
            both.compare("eth_getTransactionReceipt", json!([transaction["hash"]]));
            both.compare("debug_getRawTransaction", json!([transaction["hash"]]));
        }
    }
    // The genesis is readable even below the window; a block above the head is null.
    for full in [true, false] {
        both.compare("eth_getBlockByNumber", json!(["0x0", full]));
        both.compare(
            "eth_getBlockByHash",
            json!([contents.blocks[0]["hash"], full]),
        );
        both.compare("eth_getBlockByNumber", json!([quantity(head + 1), full]));
        both.compare("eth_getBlockByHash", json!([B256::repeat_byte(7), full]));
        both.compare("eth_getBlockByNumber", json!(["latest", full]));
    }
    both.compare(
        "eth_getTransactionByBlockNumberAndIndex",
        json!([quantity(head + 1), "0x0"]),
    );
    both.compare("eth_getTransactionReceipt", json!([B256::repeat_byte(7)]));
    both.compare("debug_getRawTransaction", json!([B256::repeat_byte(7)]));
    for method in [
        "eth_chainId",
        "eth_config",
        "net_version",
        "eth_blockNumber",
        "eth_syncing",
        "eth_accounts",
    ] {
        both.compare(method, json!([]));
    }
    both.flush();
    assert!(
        both.compared > 10 * usize::try_from(head - oldest).unwrap(),
        "only {} answers",
        both.compared
    );
}

/// The most accounts and slots to ask about at one block.
const ACCOUNTS_SAMPLED: usize = 24;
const SLOTS_SAMPLED: usize = 160;

/// All items, or `max` random ones if there are more than twice as many.
fn sample<'a, T>(rng: &mut Rng, of: &'a [T], max: usize) -> Vec<&'a T> {
    match of.len() > 2 * max {
        true => (0..max).map(|_| rng.pick(of)).collect(),
        false => of.iter().collect(),
    }
}

/// Compares accounts and slots at every `state_every`th block, including empty slots and absent
/// accounts.
fn compare_state(both: &mut GethComparison, contents: &Contents, rng: &mut Rng) {
    let before = both.compared;
    // The newest block is one of them.
    let blocks = contents.served().iter().rev().step_by(both.state_every);
    let all: Vec<(&String, &String)> = contents
        .slots
        .iter()
        .flat_map(|(address, slots)| slots.iter().map(move |slot| (address, slot)))
        .collect();
    for block in blocks {
        let height = match rng.one_in(2) {
            true => block["number"].clone(),
            false => json!({"blockHash": block["hash"]}),
        };
        for (address, slot) in sample(rng, &all, SLOTS_SAMPLED) {
            both.compare("eth_getStorageAt", json!([address, slot, height]));
        }
        for (address, _) in sample(rng, &contents.slots, ACCOUNTS_SAMPLED) {
            let method = *rng.pick(&["eth_getBalance", "eth_getTransactionCount", "eth_getCode"]);
            both.compare(method, json!([address, height]));
            both.compare("eth_getStorageAt", json!([address, "0x7fffffff", height]));
        }
        let absent = random_address(rng);
        both.compare("eth_getStorageAt", json!([absent, "0x0", height]));
        both.compare("eth_getBalance", json!([absent, height]));
    }
    both.flush();
    let compared = both.compared - before;
    assert!(compared > 5_000, "only {compared} answers about the state");
    let with_value = both.slots_with_value;
    assert!(with_value > 1_000, "only {with_value} slots are not zero");
}

fn random_address(rng: &mut Rng) -> String {
    alloy_primitives::hex::encode_prefixed(rng.bytes::<20>())
}

/// Compares proofs at every `state_every`th block with geth's, and verifies them against the
/// header.
fn compare_proofs(both: &mut GethComparison, contents: &Contents, rng: &mut Rng) {
    let before = both.compared;
    // The oldest block is one of them: together with those of `compare_state`, all blocks.
    let blocks = contents.served().iter().step_by(both.state_every);
    let contracts: Vec<&(String, Vec<String>)> = contents
        .slots
        .iter()
        .filter(|(_, slots)| !slots.is_empty())
        .collect();
    for block in blocks {
        let state_root: B256 = block["stateRoot"].as_str().unwrap().parse().unwrap();
        let mut subjects = vec![(random_address(rng), vec![json!("0x0")])];
        let mut chosen = sample(rng, &contracts, 12);
        chosen.truncate(12);
        let accounts: Vec<_> = (0..12).map(|_| rng.pick(&contents.slots)).collect();
        for (address, slots) in chosen.into_iter().copied().chain(accounts) {
            let keys = sample(rng, slots, 32).into_iter().map(|slot| json!(slot));
            let mut keys: Vec<Value> = keys.collect();
            // An empty slot, one key in the short form, and one key twice.
            keys.extend([json!(B256::from(rng.bytes())), json!("0x3"), json!("0x3")]);
            subjects.push((address.clone(), keys));
        }
        for (address, keys) in subjects {
            let params = json!([address, keys, block["number"]]);
            both.compare_proof(params, state_root);
        }
    }
    both.flush();
    let (compared, proven) = (both.compared - before, both.slots_proven);
    assert!(
        compared > 500 && proven > 1_000,
        "only {compared} proofs, only {proven} slots that are not zero"
    );
}

/// Compares hundreds of random filters over the logs of the window.
fn compare_logs(both: &mut GethComparison, contents: &Contents, rng: &mut Rng) {
    let (oldest, head) = contents.window.clone().into_inner();
    let whole = json!([{"fromBlock": quantity(oldest), "toBlock": quantity(head)}]);
    let all = both.pair.theirs.result("eth_getLogs", &whole);
    both.compare("eth_getLogs", whole);
    // A few logs of each block, so that a block of thousands does not dominate.
    let mut logs = Vec::new();
    for block in all
        .as_array()
        .unwrap()
        .chunk_by(|a, b| a["blockHash"] == b["blockHash"])
    {
        logs.extend((0..16).map(|_| rng.pick(block).clone()));
    }
    assert!(!logs.is_empty(), "the chain has no logs");
    let hashes = contents.served().iter().map(|block| block["hash"].clone());
    let hashes: Vec<Value> = hashes.collect();
    for _ in 0..400 {
        let filter = random_filter(rng, &logs, &contents.window, &hashes);
        both.compare("eth_getLogs", json!([filter]));
    }
}

/// A filter made from a random log of these blocks, widened or narrowed by chance.
pub(crate) fn random_filter(
    rng: &mut Rng,
    logs: &[Value],
    blocks: &RangeInclusive<u64>,
    hashes: &[Value],
) -> Value {
    let (oldest, head) = blocks.clone().into_inner();
    let mut filter = serde_json::Map::new();
    if rng.one_in(4) {
        let hash = if rng.one_in(2) {
            &rng.pick(logs)["blockHash"]
        } else {
            rng.pick(hashes)
        };
        filter.insert("blockHash".into(), hash.clone());
    } else {
        let from = rng.between(oldest, head);
        let to = if rng.one_in(8) {
            json!("latest")
        } else {
            quantity(rng.between(from, head))
        };
        filter.insert("fromBlock".into(), quantity(from));
        filter.insert("toBlock".into(), to);
    }
    let subject = rng.pick(logs);
    match rng.below(4) {
        0 => {}
        1 => _ = filter.insert("address".into(), subject["address"].clone()),
        2 => {
            _ = filter.insert(
                "address".into(),
                json!([subject["address"], rng.pick(logs)["address"]]),
            )
        }
        _ => {
            _ = filter.insert(
                "address".into(),
                json!([random_address(rng), subject["address"]]),
            )
        }
    }
    if rng.one_in(4) {
        return filter.into();
    }
    let positions = rng.below(5);
    let topics = (0..positions).map(|position| {
        let topic = subject["topics"]
            .get(position)
            .cloned()
            .unwrap_or_else(|| json!(B256::from(rng.bytes())));
        match rng.below(6) {
            0 | 1 => Value::Null,
            2 => json!([]),
            3 => topic,
            4 => json!([topic, B256::from(rng.bytes())]),
            _ => json!([
                rng.pick(logs)["topics"]
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

/// Compares everything over the chain of these files.
fn compare(name: &'static str, genesis: &Path, chain: &Path, head: u64) {
    compare_all(GethComparison::start(name, genesis, chain), genesis, head);
}

/// Compares everything with a nearhead that follows the geth.
pub(crate) fn compare_followed(chain: &'static str, genesis: &Path, server: Server, geth: Geth) {
    let (head, _) = node::head(&mut geth.connect());
    compare_all(GethComparison::of(chain, server, geth), genesis, head);
}

fn compare_all(mut both: GethComparison, genesis: &Path, head: u64) {
    let contents = Contents::of(&mut both.pair.theirs, genesis);
    // nearhead closes connections that are idle for long.
    both.pair.ours = both.server.connect();
    check(
        "geth imported the whole chain",
        &contents.window.end(),
        &&head,
    );
    let mut rng = Rng::new(0x6e65_6172);
    compare_blocks(&mut both, &contents);
    compare_state(&mut both, &contents, &mut rng);
    compare_proofs(&mut both, &contents, &mut rng);
    // `node::state_follow` does so while nearhead follows.
    if [EXECUTION_APIS, DEV].contains(&both.chain) {
        changes::compare(&mut both, &contents);
    }
    compare_logs(&mut both, &contents, &mut rng);
    both.flush();
    calls::compare(&mut both, &contents, &mut rng);
    simulations::compare(&mut both, &contents, &mut Rng::new(0x7369_6d75));
    both.finish();
}

#[test]
fn every_answer_about_the_execution_apis_chain_is_geths() {
    compare(
        EXECUTION_APIS,
        &vectors().join("genesis.json"),
        &vectors().join("chain.rlp"),
        54,
    );
}

/// A chain that nearhead itself made: geth imports all of it, and has the same head.
#[test]
fn every_answer_about_a_dev_chain_is_geths() {
    let (genesis, chain) = window::exported_chain();
    compare(DEV, genesis, chain, window::BLOCKS);
}

/// What the source dev makes is what an export of it writes, so that the comparison above is one of
/// both sources.
#[test]
fn the_dev_source_serves_the_chain_of_its_export() {
    let (genesis, chain) = window::exported_chain();
    let files = Server::files(genesis, chain, &[]);
    let dev = Server::start(&["--source", "dev", "--seed", "7", "--block-time", "0"]);
    let mut pair = Pair {
        ours: dev.connect(),
        theirs: files.connect(),
    };
    // The first 128 blocks, as far as the window of all 200 reaches.
    for at in (window::BLOCKS - 127..128).map(quantity) {
        let state = json!([STORE_CONTRACT, ["0x0", "0x1"], at]);
        let call = json!([{"to": STORE_CONTRACT, "input": B256::ZERO}, at]);
        for (method, params) in [
            ("eth_getBlockByNumber", &json!([at, true])),
            ("eth_getBlockReceipts", &json!([at])),
            ("eth_getProof", &state),
            ("eth_estimateGas", &call),
        ] {
            let [ours, theirs] = pair.call(method, params);
            assert!(!ours["result"].is_null(), "{method} {params}: {ours}");
            check(&format!("{method} {params}"), &ours, &theirs);
        }
    }
}

/// The bound of eth_getLogs, which the other chains do not reach: block 64 has 155,000 logs.
#[test]
fn ranges_with_too_many_logs_are_refused() {
    let arguments = ["--profile", "adversarial", "--blocks", "65"];
    let (genesis, chain) = window::export(BURST, &arguments);
    let mut both = GethComparison::start(BURST, &genesis, &chain);
    let block = both
        .pair
        .theirs
        .result("eth_getBlockByNumber", &json!(["0x40", false]));
    for filter in [
        json!({"fromBlock": "0x1", "toBlock": "0x3f"}),
        json!({"fromBlock": "0x30", "toBlock": "0x41"}),
        json!({"fromBlock": "0x40", "toBlock": "0x40"}),
        json!({"blockHash": block["hash"]}),
        json!({"fromBlock": "0x41", "toBlock": "0x41"}),
    ] {
        both.compare("eth_getLogs", json!([filter]));
    }
    both.finish();
}

#[test]
fn every_difference_shows_on_some_chain() {
    let unseen = DIFFERENCES.iter().find(|row| row.shows_on.is_empty());
    check(
        "a difference that shows on no chain",
        &unseen.map(|row| row.reason),
        &None,
    );
}
