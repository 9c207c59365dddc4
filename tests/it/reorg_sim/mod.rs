//! Seeded simulation: a tree of real blocks is walked by thousands of applies and reverts, and after each every method
//! answers what a naive model says: a plain list of canonical blocks and a map of replaced ones.
//!
//! The model knows a block as the JSON that was made of it when the tree was built, by an importer of its own; the
//! system under test imports each block again, over the window that it has at that moment.

mod model;
mod tree;

use alloy_primitives::{Address, B256, U256};
use nearhead_chain::encode::EncodeOptions;
use serde_json::{Value, json};

use crate::{dice::Dice, harness::check, in_process::InProcess, proofs};
use model::{Answer, Model, on_the_wire};
use tree::{Facts, Tree};

/// Sequences of reverts and applies in one run; each is a different walk through the same tree.
const SEQUENCES: usize = 700;

/// Blocks that stand before the first sequence: the window is full and has moved.
const START: u64 = 132;

/// Blocks on the way from the genesis to the top of the tree, about.
const STEPS: usize = 420;

/// Reverts of one sequence at most.
const DEPTH: usize = 9;

/// One walk: the model and the system, side by side.
struct Walk<'a> {
    tree: &'a Tree,
    model: Model<'a>,
    system: InProcess,
    dice: Dice,
    /// Answers that were compared.
    compared: usize,
}

impl<'a> Walk<'a> {
    async fn start(tree: &'a Tree, seed: u64) -> Self {
        let mut walk = Self {
            tree,
            model: Model::new(tree),
            system: InProcess::start(&tree.genesis, EncodeOptions::default()),
            dice: Dice::new(seed),
            compared: 0,
        };
        let mut way = Vec::new();
        let mut at = walk.model.head().hash;
        for _ in 0..START {
            at = tree.highest_child(&at).expect("the tree is high enough");
            way.push(at);
        }
        for way in way.chunks(16) {
            walk.advance(0, way).await;
        }
        walk
    }

    /// Hashes of up to `blocks` blocks on top of the model's head: mostly the way that leads highest, so that the walk
    /// gets ahead.
    fn way_up(&mut self, blocks: usize) -> Vec<B256> {
        let mut at = self.model.head().hash;
        let mut way = Vec::new();
        while way.len() < blocks {
            let children = self.tree.children(&at);
            let child = match self.dice.one_in(4) {
                true if !children.is_empty() => Some(*self.dice.pick(children)),
                _ => self.tree.highest_child(&at),
            };
            let Some(child) = child else { break };
            way.push(child);
            at = child;
        }
        way
    }

    /// Reverts and applies in both; the model has done the reverts when the way up was chosen.
    async fn advance(&mut self, reverted: usize, way: &[B256]) {
        for hash in way {
            self.model.apply(&self.tree.node(hash).facts);
        }
        self.model.trim();
        let applied = way.iter().map(|hash| &self.tree.node(hash).raw);
        self.system.advance(reverted, applied, false).await;
    }

    /// One sequence, and a look at all there is.
    async fn sequence(&mut self) {
        let depth = if self.dice.one_in(3) {
            0
        } else {
            self.dice.below(DEPTH + 1)
        };
        let reverted = depth.min(self.model.canonical().len() - 1);
        for _ in 0..reverted {
            self.model.revert();
        }
        let blocks = reverted + self.dice.below(4);
        let way = self.way_up(blocks);
        self.advance(reverted, &way).await;
        self.compare().await;
    }

    /// Asks the system and compares with what the model says.
    async fn same(&mut self, method: &str, params: Value, expected: Answer) {
        let actual = self.system.ask(method, &params).await;
        check(
            &format!("{method} {params}"),
            &actual,
            &on_the_wire(expected),
        );
        self.compared += 1;
    }

    /// A block to ask about: canonical, replaced, or one that may not be held.
    fn subject(&mut self) -> &'a Facts {
        let replaced = self.model.replaced();
        match self.dice.below(4) {
            0 if !replaced.is_empty() => self.dice.pick::<&Facts>(&replaced),
            1 => {
                let all = self.tree.hashes();
                &self.tree.node(self.dice.pick(all)).facts
            }
            _ => self.dice.pick::<&Facts>(self.model.canonical()),
        }
    }

    /// Every method, about blocks that chance names.
    async fn compare(&mut self) {
        let head = self.model.head().number;
        self.same("eth_blockNumber", json!([]), Ok(hex(head))).await;
        let subject = self.subject();
        let (hash, number) = (
            subject.hash,
            self.dice.between(head.saturating_sub(140), head + 2),
        );
        self.same(
            "eth_getBlockByHash",
            json!([hash, true]),
            self.model.block_by_hash(&hash, true),
        )
        .await;
        self.same(
            "eth_getBlockByHash",
            json!([hash, false]),
            self.model.block_by_hash(&hash, false),
        )
        .await;
        self.same(
            "eth_getBlockByNumber",
            json!([hex(number), true]),
            self.model.block_by_number(number, true),
        )
        .await;
        self.same(
            "eth_getBlockReceipts",
            json!([hash]),
            self.model.receipts_by_hash(&hash),
        )
        .await;
        self.same(
            "eth_getUncleByBlockHashAndIndex",
            json!([hash, "0x0"]),
            Ok(Value::Null),
        )
        .await;
        let index = self.dice.below(6);
        let expected = self.model.transaction_by_number(number, index);
        let place = json!([hex(number), hex(index as u64)]);
        self.same("eth_getTransactionByBlockNumberAndIndex", place, expected)
            .await;
        if let Some(transaction) = subject
            .transactions()
            .first()
            .map(|transaction| &transaction["hash"])
        {
            let receipt = self.model.receipt(transaction);
            self.same("eth_getTransactionReceipt", json!([transaction]), receipt)
                .await;
            let expected = self.model.transaction(transaction);
            self.same("eth_getTransactionByHash", json!([transaction]), expected)
                .await;
        }
        self.compare_logs(subject).await;
        self.compare_state(subject).await;
    }

    async fn compare_logs(&mut self, subject: &Facts) {
        let head = self.model.head().number;
        let hash = subject.hash;
        self.same(
            "eth_getLogs",
            json!([{"blockHash": hash}]),
            self.model.logs_by_hash(&hash),
        )
        .await;
        let from = self.dice.between(head.saturating_sub(130), head);
        let to = self.dice.between(from, head);
        let all: Vec<&Value> = subject.logs().collect();
        let mut filter = json!({"fromBlock": hex(from), "toBlock": hex(to)});
        let mut wanted: Wanted = |_, _| true;
        let example = if all.is_empty() {
            Value::Null
        } else {
            (*self.dice.pick(&all)).clone()
        };
        match self.dice.below(3) {
            0 if !example.is_null() => {
                filter["address"] = example["address"].clone();
                wanted = same_address;
            }
            1 if !example.is_null() => {
                filter["topics"] = json!([example["topics"].get(0)]);
                wanted = same_first_topic;
            }
            // All logs of the window may be more than one answer carries; those of a few blocks are not.
            _ => filter["toBlock"] = hex(to.min(from + 20)),
        }
        let to = u64::from_str_radix(&filter["toBlock"].as_str().unwrap()[2..], 16).unwrap();
        let expected = self.model.logs(from, to, |log| wanted(log, &example));
        self.same("eth_getLogs", json!([filter]), expected).await;
    }

    async fn compare_state(&mut self, subject: &Facts) {
        let id = if self.dice.one_in(2) {
            json!({"blockHash": subject.hash, "requireCanonical": self.dice.one_in(2)})
        } else {
            hex(subject.number)
        };
        let at = match id.get("requireCanonical") {
            Some(canonical) => self.model.state_by_hash(&subject.hash, canonical == true),
            None => self.model.state_by_number(subject.number),
        };
        let (address, slot, value) = match at.as_ref().ok().filter(|block| !block.slots.is_empty())
        {
            Some(block) => *self.dice.pick(&block.slots),
            None => (Address::repeat_byte(7), U256::ZERO, U256::ZERO),
        };
        let expected = at.clone().map(|_| json!(B256::from(value)));
        self.same("eth_getStorageAt", json!([address, slot, id]), expected)
            .await;
        let params = json!([address, [slot], id]);
        match at {
            Ok(block) => {
                let answer = self.system.ask("eth_getProof", &params).await;
                proofs::verify(&params, &answer["result"], block.state_root);
                check(
                    &format!("eth_getProof {params}"),
                    &answer["result"]["storageProof"][0]["value"],
                    &json!(value),
                );
                self.compared += 1;
            }
            Err(error) => self.same("eth_getProof", params, Err(error)).await,
        }
    }
}

/// Whether a filter that was made of an example wants a log.
type Wanted = fn(log: &Value, example: &Value) -> bool;

fn same_address(log: &Value, example: &Value) -> bool {
    log["address"] == example["address"]
}

fn same_first_topic(log: &Value, example: &Value) -> bool {
    // A position that asks for nothing still asks for a topic to be there.
    log["topics"].get(0).is_some()
        && example["topics"]
            .get(0)
            .is_none_or(|topic| log["topics"][0] == *topic)
}

fn hex(number: u64) -> Value {
    format!("{number:#x}").into()
}

#[test]
fn every_answer_is_the_models() {
    let tree = Tree::grow(11, STEPS);
    for seed in 1..=3 {
        actix::System::new().block_on(async {
            let mut walk = Walk::start(&tree, seed).await;
            for _ in 0..SEQUENCES {
                walk.sequence().await;
            }
            assert!(
                walk.compared > 10 * SEQUENCES,
                "only {} answers",
                walk.compared
            );
        });
    }
}
