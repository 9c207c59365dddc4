//! Comparison of our answers with the upstream's.

use std::{collections::BTreeSet, net::SocketAddr, ops::RangeInclusive};

use alloy_primitives::{B256, KECCAK256_EMPTY};
use alloy_trie::EMPTY_ROOT_HASH;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Server, check},
    proofs,
};

/// A connection to nearhead, one to an upstream, and the differences between their answers.
pub(super) struct Comparison {
    ours: Connection,
    theirs: Connection,
    differences: Differences,
    compared: usize,
}

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
pub(super) struct ExpectedDifferences<'a> {
    pub(super) ours: &'a [&'a str],
    pub(super) theirs: &'a [&'a str],
    /// Whether the upstream states a wrong block size.
    pub(super) size: bool,
}

/// geth has every member but the total difficulty, which it dropped with the merge.
pub(super) const GETH: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &["block.totalDifficulty"],
    theirs: &[],
    size: false,
};

/// anvil adds the block's time and the price of blobs to every receipt; its block size is one byte
/// short: that of the empty list of withdrawals.
pub(super) const ANVIL: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &[],
    theirs: &["receipt.blobGasPrice", "receipt.blockTimestamp"],
    size: true,
};

/// anvil's blocks without transactions, and so without receipts.
pub(super) const ANVIL_EMPTY: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &[],
    theirs: &[],
    size: true,
};

/// An ommer's total difficulty is null.
pub(super) const GETH_OMMERS: ExpectedDifferences<'_> = ExpectedDifferences {
    ours: &["block.totalDifficulty", "ommer.totalDifficulty"],
    theirs: &[],
    size: false,
};

impl Comparison {
    pub(super) fn between(server: &Server, upstream: SocketAddr) -> Self {
        Self {
            ours: server.connect(),
            theirs: Connection::open(upstream, "/"),
            differences: Differences::default(),
            compared: 0,
        }
    }

    /// Compares everything about these blocks.
    pub(super) fn blocks(&mut self, numbers: RangeInclusive<u64>) {
        let range =
            json!([{"fromBlock": quantity(*numbers.start()), "toBlock": quantity(*numbers.end())}]);
        numbers.for_each(|number| _ = self.block(number));
        self.compare("log", "eth_getLogs", range);
    }

    /// Compares a block, its receipts and transactions by every method that finds them; returns the
    /// block.
    pub(super) fn block(&mut self, number: u64) -> Value {
        let number = quantity(number);
        let block = self.compare("block", "eth_getBlockByNumber", json!([number, true]));
        let hash = &block["hash"];
        self.compare("block", "eth_getBlockByNumber", json!([number, false]));
        for full in [true, false] {
            self.compare("block", "eth_getBlockByHash", json!([hash, full]));
        }
        self.compare("log", "eth_getLogs", json!([{"blockHash": hash}]));
        for (id, suffix) in [(&number, "Number"), (hash, "Hash")] {
            self.compare("receipt", "eth_getBlockReceipts", json!([id]));
            for method in ["eth_getBlockTransactionCountBy", "eth_getUncleCountBy"] {
                let method = match method {
                    "eth_getUncleCountBy" => format!("{method}Block{suffix}"),
                    _ => format!("{method}{suffix}"),
                };
                self.compare("count", &method, json!([id]));
            }
            // One index past the end: null.
            for index in 0..=items(&block, "uncles").len() as u64 {
                let method = format!("eth_getUncleByBlock{suffix}AndIndex");
                self.compare("ommer", &method, json!([id, quantity(index)]));
            }
            for index in 0..=items(&block, "transactions").len() as u64 {
                let method = format!("eth_getTransactionByBlock{suffix}AndIndex");
                self.compare("transaction", &method, json!([id, quantity(index)]));
            }
        }
        for transaction in items(&block, "transactions") {
            let hash = json!([transaction["hash"]]);
            self.compare("transaction", "eth_getTransactionByHash", hash.clone());
            self.compare("receipt", "eth_getTransactionReceipt", hash);
        }
        block
    }

    /// Compares a proof with the upstream's, and verifies it against the state root.
    pub(super) fn proof(&mut self, params: Value, state_root: B256) {
        let ours = self.ours.result("eth_getProof", &params);
        proofs::verify(&params, &ours, state_root);
        let mut theirs = self.theirs.result("eth_getProof", &params);
        // geth gives zero for the hashes of an absent account, against which no proof verifies.
        if theirs["codeHash"] == json!(B256::ZERO) {
            theirs["codeHash"] = json!(KECCAK256_EMPTY);
            theirs["storageHash"] = json!(EMPTY_ROOT_HASH);
        }
        check(&format!("eth_getProof {params}"), &ours, &theirs);
        self.compared += 1;
    }

    /// Sends the same call to both, and checks that both refuse it for the same reason. The text
    /// about an argument's form or number may differ.
    pub(super) fn refusal(&mut self, method: &str, params: Value) {
        let [ours, theirs] = [&mut self.ours, &mut self.theirs].map(|connection| {
            let error = connection.call(method, &params)["error"].take();
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
    pub(super) fn chain(&mut self) {
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
    pub(super) fn compare(&mut self, kind: &str, method: &str, params: Value) -> Value {
        let ours = self.ours.result(method, &params);
        let theirs = self.theirs.result(method, &params);
        self.differences
            .compare(&format!("{method} {params}"), kind, &ours, &theirs);
        self.compared += 1;
        theirs
    }

    /// Asserts that the differences are these and no others; returns the number of answers
    /// compared.
    #[track_caller]
    pub(super) fn finish(self, expected: ExpectedDifferences<'_>) -> usize {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = Differences {
            ours: set(expected.ours),
            theirs: set(expected.theirs),
            size: expected.size,
        };
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

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn quantity(number: u64) -> Value {
    format!("{number:#x}").into()
}
