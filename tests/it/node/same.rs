//! Answers of ours beside the node's own.

use std::{collections::BTreeSet, net::SocketAddr, ops::RangeInclusive};

use alloy_primitives::{B256, KECCAK256_EMPTY};
use alloy_trie::EMPTY_ROOT_HASH;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Server, check},
    proofs,
};

/// Both, and what was compared.
pub(super) struct Same {
    ours: Connection,
    theirs: Connection,
    apart: Apart,
    compared: usize,
}

/// Members that only one of the two states, as `receipt.blobGasPrice`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Apart {
    ours: BTreeSet<String>,
    theirs: BTreeSet<String>,
    /// Whether sizes are not the same.
    size: bool,
}

/// Members that the one states and the other does not.
#[derive(Clone, Copy)]
pub(super) struct Only<'a> {
    pub(super) ours: &'a [&'a str],
    pub(super) theirs: &'a [&'a str],
    /// Whether the node's sizes are not those of the blocks.
    pub(super) size: bool,
}

/// geth states what we do, but for the total difficulty, which it dropped with the merge.
pub(super) const GETH: Only<'_> = Only {
    ours: &["block.totalDifficulty"],
    theirs: &[],
    size: false,
};

/// anvil's receipts tell the time, and the price of blobs whatever a transaction is; its sizes are
/// a byte short, that of no withdrawals.
pub(super) const ANVIL: Only<'_> = Only {
    ours: &[],
    theirs: &["receipt.blobGasPrice", "receipt.blockTimestamp"],
    size: true,
};

/// So it does for a block without transactions: there is nothing else to state.
pub(super) const ANVIL_EMPTY: Only<'_> = Only {
    ours: &[],
    theirs: &[],
    size: true,
};

/// An ommer's total difficulty is null.
pub(super) const GETH_OMMERS: Only<'_> = Only {
    ours: &["block.totalDifficulty", "ommer.totalDifficulty"],
    theirs: &[],
    size: false,
};

impl Same {
    pub(super) fn between(server: &Server, node: SocketAddr) -> Self {
        Self {
            ours: server.connect(),
            theirs: Connection::open(node, "/"),
            apart: Apart::default(),
            compared: 0,
        }
    }

    /// Everything that is to be asked of these blocks.
    pub(super) fn blocks(&mut self, numbers: RangeInclusive<u64>) {
        let range =
            json!([{"fromBlock": quantity(*numbers.start()), "toBlock": quantity(*numbers.end())}]);
        numbers.for_each(|number| _ = self.block(number));
        self.ask("log", "eth_getLogs", range);
    }

    /// Everything that is to be asked of a block by every method that finds it, its receipts and
    /// transactions; the block.
    pub(super) fn block(&mut self, number: u64) -> Value {
        let number = quantity(number);
        let block = self.ask("block", "eth_getBlockByNumber", json!([number, true]));
        let hash = &block["hash"];
        self.ask("block", "eth_getBlockByNumber", json!([number, false]));
        for full in [true, false] {
            self.ask("block", "eth_getBlockByHash", json!([hash, full]));
        }
        self.ask("log", "eth_getLogs", json!([{"blockHash": hash}]));
        for (id, suffix) in [(&number, "Number"), (hash, "Hash")] {
            self.ask("receipt", "eth_getBlockReceipts", json!([id]));
            for method in ["eth_getBlockTransactionCountBy", "eth_getUncleCountBy"] {
                let method = match method {
                    "eth_getUncleCountBy" => format!("{method}Block{suffix}"),
                    _ => format!("{method}{suffix}"),
                };
                self.ask("count", &method, json!([id]));
            }
            // One past the end besides: null.
            for index in 0..=items(&block, "uncles").len() as u64 {
                let method = format!("eth_getUncleByBlock{suffix}AndIndex");
                self.ask("ommer", &method, json!([id, quantity(index)]));
            }
            for index in 0..=items(&block, "transactions").len() as u64 {
                let method = format!("eth_getTransactionByBlock{suffix}AndIndex");
                self.ask("transaction", &method, json!([id, quantity(index)]));
            }
        }
        for transaction in items(&block, "transactions") {
            let hash = json!([transaction["hash"]]);
            self.ask("transaction", "eth_getTransactionByHash", hash.clone());
            self.ask("receipt", "eth_getTransactionReceipt", hash);
        }
        block
    }

    /// A proof: the node's own, and verified against the state root.
    pub(super) fn proof(&mut self, params: Value, state_root: B256) {
        let ours = self.ours.result("eth_getProof", &params);
        proofs::verify(&params, &ours, state_root);
        let mut theirs = self.theirs.result("eth_getProof", &params);
        // geth says zero of an absent account's hashes, against which no proof verifies.
        if theirs["codeHash"] == json!(B256::ZERO) {
            theirs["codeHash"] = json!(KECCAK256_EMPTY);
            theirs["storageHash"] = json!(EMPTY_ROOT_HASH);
        }
        check(&format!("eth_getProof {params}"), &ours, &theirs);
        self.compared += 1;
    }

    /// The same call to both, which both refuse for the same reason. What an argument or a number
    /// of them should be, each says in its own words.
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

    /// What is to be asked without naming a block.
    pub(super) fn chain(&mut self) {
        for method in [
            "eth_chainId",
            "net_version",
            "eth_blockNumber",
            "eth_syncing",
        ] {
            self.ask("chain", method, json!([]));
        }
        for full in [true, false] {
            self.ask("block", "eth_getBlockByNumber", json!(["latest", full]));
        }
    }

    /// The same call to both; the node's answer.
    pub(super) fn ask(&mut self, kind: &str, method: &str, params: Value) -> Value {
        let ours = self.ours.result(method, &params);
        let theirs = self.theirs.result(method, &params);
        self.apart
            .compare(&format!("{method} {params}"), kind, &ours, &theirs);
        self.compared += 1;
        theirs
    }

    /// The members that only one states are these and no others; how many answers were compared.
    #[track_caller]
    pub(super) fn finish(self, only: Only<'_>) -> usize {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let expected = Apart {
            ours: set(only.ours),
            theirs: set(only.theirs),
            size: only.size,
        };
        check("members of one side", &self.apart, &expected);
        assert!(self.compared > 0, "nothing was compared");
        println!("{} answers are the same", self.compared);
        self.compared
    }
}

impl Apart {
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
                let more = theirs.keys().filter(|name| !ours.contains_key(*name));
                self.theirs
                    .extend(more.map(|name| format!("{kind}.{name}")));
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

/// What the objects in a member are.
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
