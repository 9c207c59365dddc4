//! Comparison of our answers with the upstream's.

use std::{collections::BTreeSet, net::SocketAddr, ops::RangeInclusive};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::{
    harness::{BATCH_CALLS_MAX, Connection, Pair, Server, check},
    proofs,
};

/// A connection to nearhead, one to an upstream, and the differences between their answers.
pub(crate) struct Comparison {
    pair: Pair,
    /// Calls to send in the next batch.
    queued: Vec<QueuedCall>,
    differences: Differences,
    compared: usize,
}

struct QueuedCall {
    method: String,
    params: Value,
    answer: Answer,
}

/// What is checked of an answer.
#[derive(Clone, Copy)]
enum Answer {
    /// It has the same members as the upstream's; they are of an object of this kind.
    Object(&'static str),
    /// It is the same proof as the upstream's, and verifies against this state root.
    Proof(B256),
}

/// A block with more JSON than this is compared call by call: a batch about it would exceed the
/// limit of a batch's reply.
const BATCH_BLOCK_BYTES_MAX: usize = 4_000_000;

/// Members that only one side has, such as `receipt.blobGasPrice`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Differences {
    ours: BTreeSet<String>,
    theirs: BTreeSet<String>,
    /// Whether the sizes of blocks differ.
    size: bool,
}

/// The differences that a comparison must find, and no others.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedDifferences<'a> {
    pub(crate) ours: &'a [&'a str],
    pub(crate) theirs: &'a [&'a str],
    /// Whether the upstream states a wrong block size.
    pub(crate) size: bool,
}

/// geth has every member but the total difficulty, which it dropped with the merge.
pub(crate) const GETH: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &["block.totalDifficulty"],
    theirs: &[],
    size: false,
};

/// anvil adds the block's time and the price of blobs to every receipt; its block size is one byte
/// short: that of the empty list of withdrawals.
pub(crate) const ANVIL: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &[],
    theirs: &["receipt.blobGasPrice", "receipt.blockTimestamp"],
    size: true,
};

/// anvil's blocks without transactions, and so without receipts.
pub(crate) const ANVIL_EMPTY: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &[],
    theirs: &[],
    size: true,
};

/// An ommer's total difficulty is null.
pub(crate) const GETH_OMMERS: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &["block.totalDifficulty", "ommer.totalDifficulty"],
    theirs: &[],
    size: false,
};

impl Comparison {
    pub(crate) fn between(server: &Server, upstream: SocketAddr) -> Self {
        Self {
            pair: Pair {
                ours: server.connect(),
                theirs: Connection::open(upstream, "/"),
            },
            queued: Vec::new(),
            differences: Differences::default(),
            compared: 0,
        }
    }

    /// Compares everything about these blocks.
    pub(crate) fn blocks(&mut self, numbers: RangeInclusive<u64>) {
        let range =
            json!([{"fromBlock": quantity(*numbers.start()), "toBlock": quantity(*numbers.end())}]);
        numbers.for_each(|number| _ = self.block(number));
        self.compare("log", "eth_getLogs", range);
    }

    /// Compares a block, its receipts and transactions by every method that finds them; returns the
    /// block.
    pub(crate) fn block(&mut self, number: u64) -> Value {
        let number = quantity(number);
        let block = self.compare("block", "eth_getBlockByNumber", json!([number, true]));
        let hash = &block["hash"];
        self.compare("block", "eth_getBlockByNumber", json!([number, false]));
        for full in [true, false] {
            self.compare("block", "eth_getBlockByHash", json!([hash, full]));
        }
        self.compare("log", "eth_getLogs", json!([{"blockHash": hash}]));
        let receipts = self.compare("receipt", "eth_getBlockReceipts", json!([number]));
        self.compare("receipt", "eth_getBlockReceipts", json!([hash]));
        let bytes = block.to_string().len() + receipts.to_string().len();
        let calls_max = match bytes > BATCH_BLOCK_BYTES_MAX {
            true => 1,
            false => BATCH_CALLS_MAX,
        };
        for (id, suffix) in [(&number, "Number"), (hash, "Hash")] {
            for method in ["eth_getBlockTransactionCountBy", "eth_getUncleCountBy"] {
                let method = match method {
                    "eth_getUncleCountBy" => format!("{method}Block{suffix}"),
                    _ => format!("{method}{suffix}"),
                };
                self.queue("count", &method, json!([id]));
            }
            // One index past the end: null.
            for index in 0..=items(&block, "uncles").len() as u64 {
                let method = format!("eth_getUncleByBlock{suffix}AndIndex");
                self.queue("ommer", &method, json!([id, quantity(index)]));
            }
            for index in 0..=items(&block, "transactions").len() as u64 {
                let method = format!("eth_getTransactionByBlock{suffix}AndIndex");
                self.queue("transaction", &method, json!([id, quantity(index)]));
            }
        }
        for transaction in items(&block, "transactions") {
            let hash = json!([transaction["hash"]]);
            self.queue("transaction", "eth_getTransactionByHash", hash.clone());
            self.queue("receipt", "eth_getTransactionReceipt", hash);
        }
        self.flush_by(calls_max);
        block
    }

    /// Queues a proof, which is compared with the upstream's and verified against the state root.
    pub(crate) fn queue_proof(&mut self, params: Value, state_root: B256) {
        self.queued.push(QueuedCall {
            method: "eth_getProof".to_owned(),
            params,
            answer: Answer::Proof(state_root),
        });
    }

    /// Queues a call to both, which [`Self::flush`] sends.
    pub(crate) fn queue(&mut self, kind: &'static str, method: &str, params: Value) {
        self.queued.push(QueuedCall {
            method: method.to_owned(),
            params,
            answer: Answer::Object(kind),
        });
    }

    /// Sends the queued calls in batches and compares the answers.
    pub(crate) fn flush(&mut self) {
        self.flush_by(BATCH_CALLS_MAX);
    }

    fn flush_by(&mut self, calls_max: usize) {
        for calls in std::mem::take(&mut self.queued).chunks(calls_max) {
            let requests = calls
                .iter()
                .map(|call| (call.method.as_str(), &call.params));
            let answers = self.pair.batch(requests);
            for (call, answers) in calls.iter().zip(&answers) {
                self.compare_answers(call, answers.each_ref());
            }
        }
    }

    fn compare_answers(&mut self, call: &QueuedCall, answers: [&Value; 2]) {
        let QueuedCall { method, params, .. } = call;
        let case = format!("{method} {params}");
        let [ours, theirs] = answers.map(|answer| result(&case, answer));
        match call.answer {
            Answer::Object(kind) => self.differences.compare(&case, kind, ours, theirs),
            Answer::Proof(state_root) => {
                proofs::verify(params, ours, state_root);
                let mut theirs = theirs.clone();
                proofs::name_hashes_of_nothing(&mut theirs);
                check(&case, ours, &theirs);
            }
        }
        self.compared += 1;
    }

    /// Sends the same call to both, and checks that both refuse it for the same reason. The text
    /// about an argument's form or number may differ.
    pub(crate) fn refusal(&mut self, method: &str, params: Value) {
        let answers = self.pair.call(method, &params);
        let [ours, theirs] = answers.map(|mut answer| {
            let error = answer["error"].take();
            let message = error["message"].as_str().unwrap_or_default();
            let reason = match message.split_once(": ") {
                Some((argument, _)) if argument.starts_with("invalid argument ") => argument,
                _ if message.starts_with("too many ") => "too many",
                _ => message,
            };
            (error["code"].as_i64(), reason.to_owned())
        });
        check(&format!("{method} {params}"), &ours, &theirs);
        assert!(theirs.0.is_some(), "{method} {params} is answered");
        self.compared += 1;
    }

    /// Compares the methods whose parameters name no block.
    pub(crate) fn chain(&mut self) {
        for method in [
            "eth_chainId",
            "net_version",
            "eth_blockNumber",
            "eth_syncing",
        ] {
            self.compare("chain", method, json!([]));
        }
        for full in [true, false] {
            self.compare("block", "eth_getBlockByNumber", json!(["latest", full]));
        }
    }

    /// Sends the same call to both and compares; returns the upstream's answer.
    pub(crate) fn compare(&mut self, kind: &'static str, method: &str, params: Value) -> Value {
        let answers = self.pair.call(method, &params);
        let call = QueuedCall {
            method: method.to_owned(),
            params,
            answer: Answer::Object(kind),
        };
        self.compare_answers(&call, answers.each_ref());
        let [_, mut theirs] = answers;
        theirs["result"].take()
    }

    /// Asserts that the differences are these and no others; returns the number of answers
    /// compared.
    #[track_caller]
    pub(crate) fn finish(self, expected: ExpectedDifferences<'_>) -> usize {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = Differences {
            ours: set(expected.ours),
            theirs: set(expected.theirs),
            size: expected.size,
        };
        check("calls that were not sent", &self.queued.len(), &0);
        check("members of one side", &self.differences, &expected);
        assert!(self.compared > 0, "nothing was compared");
        println!("{} answers are the same", self.compared);
        self.compared
    }
}

impl Differences {
    fn compare(&mut self, case: &str, kind: &str, ours: &Value, theirs: &Value) {
        match (ours, theirs) {
            (Value::Object(ours), Value::Object(theirs)) => {
                for (name, member) in ours {
                    match theirs.get(name) {
                        Some(other) if (kind, name.as_str()) == ("block", "size") => {
                            self.size |= member != other;
                        }
                        Some(other) => {
                            let case = format!("{case} {name}");
                            self.compare(&case, below(kind, name), member, other);
                        }
                        None => _ = self.ours.insert(format!("{kind}.{name}")),
                    }
                }
                let extra = theirs.keys().filter(|name| !ours.contains_key(*name));
                self.theirs
                    .extend(extra.map(|name| format!("{kind}.{name}")));
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                check(&format!("{case}: items"), &ours.len(), &theirs.len());
                for (ours, theirs) in ours.iter().zip(theirs) {
                    self.compare(case, kind, ours, theirs);
                }
            }
            _ => check(case, ours, theirs),
        }
    }
}

/// The kind of the objects in a member.
fn below<'a>(kind: &'a str, name: &str) -> &'a str {
    match name {
        "transactions" => "transaction",
        "withdrawals" => "withdrawal",
        "logs" => "log",
        _ => kind,
    }
}

fn result<'a>(case: &str, answer: &'a Value) -> &'a Value {
    let result = answer.get("result");
    result.unwrap_or_else(|| panic!("{case}: {answer}"))
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn quantity(number: u64) -> Value {
    format!("{number:#x}").into()
}
