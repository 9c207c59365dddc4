//! A seeded simulation that walks a tree of real blocks by thousands of applies and reverts. After
//! each step every method answers what a naive model answers: a plain list of canonical blocks and
//! a map of replaced ones.
//!
//! The model knows a block as the JSON that was made when the tree was built, by another importer;
//! the system under test imports each block again, on top of its current window. So the comparison
//! shows from which block an answer comes. Both sides use nearhead's own encoder, whose output
//! `geth` and `conformance` compare with geth's and with the execution-apis vectors.

mod fees;
mod filters;
mod model;
mod tree;

use std::{collections::BTreeMap, time::Instant};

use alloy_primitives::{Address, B256};
use nearhead::rpc::{METHODS, Method};
use nearhead_chain::{campaign, encode::EncodeOptions};
use serde_json::{Value, json};

use crate::{
    harness::{PATIENCE, SESSION_METHODS, check, quantity},
    in_process::InProcess,
    proofs,
    rng::Rng,
};
use filters::OpenFilters;
use model::{Answer, Model, on_the_wire};
use tree::{Account, Facts, Tree};

/// Sequences of reverts and applies in one run; each run is a different walk through the same tree.
const SEQUENCES: usize = 700;

/// Sequences between two checks of the held states; a check takes as long as many sequences.
const CHECK_STATES_EVERY: usize = 100;

/// Blocks before the first sequence: the window is full and has moved.
const START: u64 = 132;

/// Steps of the dev chain that the tree is made from; about the height of the tree.
const STEPS: usize = 420;

/// The percentiles of fee histories.
const PERCENTILES: [u64; 4] = [0, 10, 50, 100];

/// Gas of the code that returns a balance, once the account is paid for.
const BALANCE_GAS: u64 = 118;

/// The most reverts in one sequence.
const DEPTH: usize = 9;

/// One walk: the model and the system, side by side.
struct Walk<'a> {
    tree: &'a Tree,
    model: Model<'a>,
    system: InProcess,
    rng: Rng,
    filters: OpenFilters<'a>,
    /// Number of compared answers, by method.
    asked: BTreeMap<&'static str, usize>,
}

impl<'a> Walk<'a> {
    async fn start(tree: &'a Tree, seed: u64) -> Self {
        let mut walk = Self {
            tree,
            model: Model::new(tree),
            system: InProcess::start(&tree.genesis, EncodeOptions::default()),
            rng: Rng::new(seed),
            filters: OpenFilters::default(),
            asked: BTreeMap::new(),
        };
        let mut path = Vec::new();
        let mut at = walk.model.head().hash;
        for _ in 0..START {
            at = tree.highest_child(&at).expect("the tree is high enough");
            path.push(at);
        }
        for path in path.chunks(16) {
            walk.advance(0, path).await;
        }
        walk
    }

    /// Up to `blocks` hashes on top of the model's head, mostly along the highest branch, so that
    /// the walk advances.
    fn path_up(&mut self, blocks: usize) -> Vec<B256> {
        let mut at = self.model.head().hash;
        let mut path = Vec::new();
        while path.len() < blocks {
            let children = self.tree.children(&at);
            let child = match self.rng.one_in(4) {
                true if !children.is_empty() => Some(*self.rng.pick(children)),
                _ => self.tree.highest_child(&at),
            };
            let Some(child) = child else { break };
            path.push(child);
            at = child;
        }
        path
    }

    /// Reverts and applies in both. The model has done its reverts already: the path was chosen on
    /// top of them.
    async fn advance(&mut self, reverted: usize, path: &[B256]) {
        // No source reports an empty change.
        if reverted == 0 && path.is_empty() {
            return;
        }
        for hash in path {
            self.model.apply(&self.tree.block(hash).facts);
        }
        self.model.trim();
        let applied = path.iter().map(|hash| &self.tree.block(hash).raw);
        self.system.advance(reverted, applied, false).await;
    }

    /// Runs one sequence and compares everything.
    async fn sequence(&mut self) {
        let depth = if self.rng.one_in(3) {
            0
        } else {
            self.rng.below(DEPTH + 1)
        };
        let reverted = depth.min(self.model.canonical().len() - 1);
        for _ in 0..reverted {
            self.model.revert();
        }
        let blocks = reverted + self.rng.below(4);
        let path = self.path_up(blocks);
        self.advance(reverted, &path).await;
        self.compare().await;
    }

    /// Asks the system and compares with the model's answer.
    async fn compare_answer(&mut self, method: &'static str, params: Value, expected: Answer) {
        let actual = self.call(method, &params).await;
        check(
            &format!("{method} {params}"),
            &actual,
            &on_the_wire(expected),
        );
    }

    async fn call(&mut self, method: &'static str, params: &Value) -> Value {
        *self.asked.entry(method).or_default() += 1;
        self.system.call(method, params).await
    }

    /// A block to ask about: canonical, replaced, or one that may not be held.
    fn subject(&mut self) -> &'a Facts {
        let replaced = self.model.replaced();
        match self.rng.below(4) {
            0 if !replaced.is_empty() => self.rng.pick::<&Facts>(&replaced),
            1 => {
                let all = self.tree.hashes();
                &self.tree.block(self.rng.pick(all)).facts
            }
            _ => self.rng.pick::<&Facts>(self.model.canonical()),
        }
    }

    /// Compares every method, about random blocks.
    async fn compare(&mut self) {
        let head = self.model.head().number;
        let chain_id = self.tree.genesis.config.chain_id;
        let version = concat!("nearhead/v", env!("CARGO_PKG_VERSION"));
        for (method, expected) in [
            ("eth_blockNumber", hex(head)),
            ("eth_chainId", hex(chain_id)),
            ("net_version", json!(chain_id.to_string())),
            ("net_listening", json!(true)),
            ("eth_accounts", json!([])),
            ("eth_syncing", json!(false)),
            ("web3_clientVersion", json!(version)),
            ("eth_capabilities", self.model.capabilities()),
            ("eth_config", self.model.config()),
        ] {
            self.compare_answer(method, json!([]), Ok(expected)).await;
        }
        let subject = self.subject();
        self.compare_by_hash(subject).await;
        let number = self.rng.between(head.saturating_sub(140), head + 2);
        self.compare_by_number(number).await;
        self.compare_transaction(subject).await;
        self.compare_logs(subject).await;
        self.compare_filters().await;
        self.compare_state(subject).await;
        self.compare_fees().await;
    }

    async fn compare_fees(&mut self) {
        let head = self.model.head();
        for (method, expected) in [
            ("eth_maxPriorityFeePerGas", hex(head.suggested_tip)),
            ("eth_gasPrice", fees::gas_price(head)),
            ("eth_baseFee", fees::next_base_fee(head)),
            ("eth_blobBaseFee", head.blob_gas_price.clone()),
        ] {
            self.compare_answer(method, json!([]), Ok(expected)).await;
        }
        let canonical = self.model.canonical();
        let newest = self.rng.below(canonical.len());
        let count = 1 + self.rng.below(canonical.len() + 10);
        // What blobs cost after a leaf of the tree is not known here.
        if let Some(child) = fees::child(self.tree, canonical[newest]) {
            let blocks = &canonical[(newest + 1).saturating_sub(count)..=newest];
            let expected = fees::history(blocks, child, &PERCENTILES);
            let params = json!([
                hex(count as u64),
                hex(canonical[newest].number),
                PERCENTILES
            ]);
            self.compare_answer("eth_feeHistory", params, Ok(expected))
                .await;
        }
    }

    async fn compare_by_hash(&mut self, subject: &Facts) {
        let hash = subject.hash;
        let index = self.rng.below(6);
        let place = json!([hash, hex(index as u64)]);
        let model = &self.model;
        for (method, params, expected) in [
            (
                "eth_getBlockByHash",
                json!([hash, true]),
                model.of_hash(&hash, |block| block.full.clone()),
            ),
            (
                "eth_getBlockByHash",
                json!([hash, false]),
                model.of_hash(&hash, |block| block.hashes.clone()),
            ),
            (
                "eth_getBlockReceipts",
                json!([hash]),
                model.of_hash(&hash, Facts::all_receipts),
            ),
            (
                "eth_getBlockAccessList",
                json!([hash]),
                Model::access_list(model.of_hash(&hash, |_| Value::Bool(true))),
            ),
            (
                "eth_getBlockTransactionCountByHash",
                json!([hash]),
                model.of_hash(&hash, Facts::transaction_count),
            ),
            (
                "eth_getTransactionByBlockHashAndIndex",
                place.clone(),
                model.of_hash(&hash, |block| block.transaction(index)),
            ),
            // After the merge no block has uncles.
            (
                "eth_getUncleCountByBlockHash",
                json!([hash]),
                model.of_hash(&hash, |_| hex(0)),
            ),
            (
                "eth_getUncleByBlockHashAndIndex",
                place,
                model.of_hash(&hash, |_| Value::Null),
            ),
        ] {
            self.compare_answer(method, params, expected).await;
        }
    }

    async fn compare_by_number(&mut self, number: u64) {
        let at = hex(number);
        let index = self.rng.below(6);
        let place = json!([at, hex(index as u64)]);
        let model = &self.model;
        for (method, params, expected) in [
            (
                "eth_getBlockByNumber",
                json!([at, true]),
                model.block_by_number(number, |block| block.full.clone()),
            ),
            (
                "eth_getBlockByNumber",
                json!([at, false]),
                model.block_by_number(number, |block| block.hashes.clone()),
            ),
            (
                "eth_getBlockReceipts",
                json!([at]),
                model.of_number(number, Facts::all_receipts),
            ),
            (
                "eth_getBlockAccessList",
                json!([at]),
                Model::access_list(model.of_number(number, |_| Value::Bool(true))),
            ),
            (
                "eth_getBlockTransactionCountByNumber",
                json!([at]),
                model.of_number(number, Facts::transaction_count),
            ),
            (
                "eth_getTransactionByBlockNumberAndIndex",
                place.clone(),
                model.of_number(number, |block| block.transaction(index)),
            ),
            (
                "debug_getRawBlock",
                json!([at]),
                model.raw(number, |raw| json!(raw.block)),
            ),
            (
                "debug_getRawHeader",
                json!([at]),
                model.raw(number, |raw| json!(raw.header)),
            ),
            (
                "debug_getRawReceipts",
                json!([at]),
                model.raw(number, |raw| json!(raw.receipts)),
            ),
            (
                "eth_getUncleCountByBlockNumber",
                json!([at]),
                model.of_number(number, |_| hex(0)),
            ),
            (
                "eth_getUncleByBlockNumberAndIndex",
                place,
                model.of_number(number, |_| Value::Null),
            ),
        ] {
            self.compare_answer(method, params, expected).await;
        }
    }

    async fn compare_transaction(&mut self, subject: &Facts) {
        let Some(transaction) = subject.transactions().first() else {
            return;
        };
        let hash = &transaction["hash"];
        let receipt = self.model.receipt(hash);
        self.compare_answer("eth_getTransactionReceipt", json!([hash]), receipt)
            .await;
        let expected = self.model.transaction(hash);
        let found = expected.as_ref().is_ok_and(Value::is_object);
        self.compare_answer("eth_getTransactionByHash", json!([hash]), expected.clone())
            .await;
        let raw = match found {
            true => Ok(json!(subject.raw.transactions[0])),
            false => expected.map(|_| json!("0x")),
        };
        self.compare_answer("debug_getRawTransaction", json!([hash]), raw)
            .await;
    }

    async fn compare_logs(&mut self, subject: &Facts) {
        let head = self.model.head().number;
        let hash = subject.hash;
        self.compare_answer(
            "eth_getLogs",
            json!([{"blockHash": hash}]),
            self.model.logs_by_hash(&hash),
        )
        .await;
        let from = self.rng.between(head.saturating_sub(130), head);
        let to = self.rng.between(from, head);
        let all: Vec<&Value> = subject.logs().collect();
        let mut filter = json!({"fromBlock": hex(from), "toBlock": hex(to)});
        let mut wanted: Wanted = |_, _| true;
        let example = if all.is_empty() {
            Value::Null
        } else {
            (*self.rng.pick(&all)).clone()
        };
        match self.rng.below(3) {
            0 if !example.is_null() => {
                filter["address"] = example["address"].clone();
                wanted = same_address;
            }
            1 if !example.is_null() => {
                filter["topics"] = json!([example["topics"].get(0)]);
                wanted = same_first_topic;
            }
            // The logs of the whole window may exceed the limit of one answer; those of a few
            // blocks do not.
            _ => filter["toBlock"] = hex(to.min(from + 20)),
        }
        let to = quantity(&filter["toBlock"]);
        let expected = self.model.logs(from, to, |log| wanted(log, &example));
        self.compare_answer("eth_getLogs", json!([filter]), expected)
            .await;
    }

    async fn compare_state(&mut self, subject: &Facts) {
        let id = if self.rng.one_in(2) {
            json!({"blockHash": subject.hash, "requireCanonical": self.rng.one_in(2)})
        } else {
            hex(subject.number)
        };
        let at = match id.get("requireCanonical") {
            Some(canonical) => self.model.state_by_hash(&subject.hash, canonical == true),
            None => self.model.state_by_number(subject.number),
        };
        let absent = Account::absent(Address::repeat_byte(7));
        let account = match &at {
            Ok(block) if !block.accounts.is_empty() => self.rng.pick(&block.accounts),
            _ => &absent,
        };
        let (address, (slot, value)) = (account.address, *self.rng.pick(&account.slots));
        let caller = format!("{:#x}", Address::repeat_byte(8));
        // BALANCE of the account, returned.
        let code = format!("0x73{address:x}3160005260206000f3");
        let call = [
            json!({"to": caller}),
            id.clone(),
            json!({&caller: {"code": code}}),
        ];
        let address_text = format!("{address:#x}");
        for (method, params, result) in [
            (
                "eth_getBalance",
                json!([address_text, id]),
                json!(account.balance),
            ),
            (
                "eth_getTransactionCount",
                json!([address_text, id]),
                hex(account.nonce),
            ),
            (
                "eth_getCode",
                json!([address_text, id]),
                json!(account.code),
            ),
            (
                "eth_getStorageAt",
                json!([address_text, slot, id]),
                json!(B256::from(value)),
            ),
            (
                "eth_getStorageValues",
                json!([{ address_text.as_str(): [B256::from(slot)] }, id]),
                json!({ address_text.as_str(): [B256::from(value)] }),
            ),
            ("eth_call", json!(call), json!(B256::from(account.balance))),
            (
                "eth_createAccessList",
                json!(call),
                json!({
                    "accessList": [{"address": address_text, "storageKeys": []}],
                    "gasUsed": hex(21_000 + 2_400 + BALANCE_GAS),
                }),
            ),
            ("eth_estimateGas", json!([{"to": caller}, id]), hex(21_000)),
        ] {
            let expected = at.clone().map(|_| result);
            self.compare_answer(method, params, expected).await;
        }
        let simulated =
            json!([{"blockStateCalls": [{"calls": [call[0]], "stateOverrides": call[2]}]}, id]);
        let params = json!([address_text, [slot], id]);
        match at {
            Ok(block) => {
                let answer = self.call("eth_simulateV1", &simulated).await;
                let made = &answer["result"][0];
                check(
                    &format!("eth_simulateV1 {simulated}"),
                    &[&made["parentHash"], &made["calls"][0]["returnData"]],
                    &[&json!(block.hash), &json!(B256::from(account.balance))],
                );
                let answer = self.call("eth_getProof", &params).await;
                proofs::verify(&params, &answer["result"], block.state_root);
                check(
                    &format!("eth_getProof {params}"),
                    &answer["result"]["storageProof"][0]["value"],
                    &json!(value),
                );
            }
            Err(error) => {
                self.compare_answer("eth_simulateV1", simulated, Err(error.clone()))
                    .await;
                self.compare_answer("eth_getProof", params, Err(error))
                    .await
            }
        }
    }

    /// Asserts that only the states of served blocks are held: a block that left the window keeps
    /// none, and the store has only what these states reach.
    async fn check_states(&self) {
        let store = self.system.states();
        // The state of the genesis leaves with the window; only its JSON is kept.
        let max = self.model.canonical().len() + self.model.replaced().len();
        let deadline = Instant::now() + PATIENCE;
        // Replaced snapshots are freed within a moment.
        while store.held_roots().len() > max {
            let held = store.held_roots().len();
            assert!(
                Instant::now() < deadline,
                "{held} states are held, {max} are served"
            );
            tokio::task::yield_now().await;
        }
        store.check_invariants(store.held_roots()).unwrap();
    }
}

/// Whether a filter made from an example log matches a log.
type Wanted = fn(log: &Value, example: &Value) -> bool;

fn same_address(log: &Value, example: &Value) -> bool {
    log["address"] == example["address"]
}

fn same_first_topic(log: &Value, example: &Value) -> bool {
    // A position that matches any topic still requires one.
    log["topics"].get(0).is_some()
        && example["topics"]
            .get(0)
            .is_none_or(|topic| log["topics"][0] == *topic)
}

fn hex(number: u64) -> Value {
    format!("{number:#x}").into()
}

#[test]
fn every_answer_equals_the_models() {
    let tree = Tree::grow(11, STEPS);
    for seed in 1..=campaign::rounds(1, 10) {
        actix::System::new().block_on(async {
            let mut walk = Walk::start(&tree, seed).await;
            for sequence in 0..SEQUENCES {
                walk.sequence().await;
                if sequence % CHECK_STATES_EVERY == 0 {
                    walk.check_states().await;
                }
            }
            walk.check_states().await;
            // The OpenRPC document is large and no matter of blocks.
            let answered = |method: &&Method| {
                !SESSION_METHODS.contains(&method.name) && method.name != "rpc.discover"
            };
            for method in METHODS.iter().filter(answered) {
                let asked = walk.asked.get(method.name).copied().unwrap_or_default();
                assert!(asked >= SEQUENCES / 2, "{}: {asked} answers", method.name);
            }
        });
    }
}
