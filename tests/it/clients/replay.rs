//! Replays the notifications of a client that follows the chain, and compares them with the chain
//! over plain JSON-RPC and HTTP.

use std::collections::HashMap;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{Observed, REORG_DEPTH, answers::compare, steps};
use crate::harness::{Connection, check, quantity};

/// Members of a block that a `newHeads` notification does not have.
const NOT_IN_NEW_HEADS: [&str; 5] = [
    "transactions",
    "uncles",
    "withdrawals",
    "size",
    "totalDifficulty",
];

/// A chain and a list of logs built from notifications alone: heads extend the chain or replace its
/// end, logs are added to and removed from the end of the list.
pub(super) struct Replay {
    http: Connection,
    /// Bytes of the client's output that have been replayed.
    read: usize,
    /// Blocks by hash with their logs, from HTTP.
    blocks: HashMap<String, (Value, Vec<Value>)>,
    /// The notified blocks, preceded by the ancestors that a reorg may revert to.
    chain: Vec<Value>,
    logs: Vec<Value>,
    connection: ConnectionEvents,
    /// How the client noticed that it lost the connection.
    lost: Option<String>,
    /// Whether the last step was the loss of the connection.
    is_lost: bool,
    observed: Observed,
}

/// The notifications of one connection, in order.
#[derive(Default)]
struct ConnectionEvents {
    heads: Vec<Value>,
    /// Numbers of heads, from ethers' own event.
    numbers: Vec<Value>,
    /// Logs that are not removals.
    logs: Vec<Value>,
    /// The same logs, from ethers' own event.
    added: Vec<Value>,
    removed: usize,
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not a string: {value}"))
}

impl Replay {
    pub(super) fn new(http: Connection) -> Self {
        Self {
            http,
            read: 0,
            blocks: HashMap::new(),
            chain: Vec::new(),
            logs: Vec::new(),
            connection: ConnectionEvents::default(),
            lost: None,
            is_lost: false,
            observed: Observed::default(),
        }
    }

    /// Applies the steps that are new in `output`.
    pub(super) fn read(&mut self, output: &str) {
        let new = &output[self.read..];
        self.read = output.len();
        for step in steps(new) {
            self.apply(&step);
        }
    }

    fn apply(&mut self, step: &Value) {
        let (name, value) = (text(&step["step"]), &step["value"]);
        // The next process may end before a client has resumed.
        if name != "lost" && std::mem::take(&mut self.is_lost) {
            self.end_connection();
            if name != "resumed" {
                // Without a resume, the client does not know what it missed: start over.
                self.chain.clear();
                self.logs.clear();
            }
        }
        match name {
            "client" | "end" => {}
            "head" => self.head(value),
            "number" => self.connection.numbers.push(value.clone()),
            "log" => self.log(value),
            "added" => self.connection.added.push(place(value)),
            "subscribed" => self.subscribed(text(&step["to"]), text(&step["by"])),
            "lost" => {
                let by = || text(&step["by"]).to_owned();
                self.lost.get_or_insert_with(by);
                self.is_lost = true;
            }
            "resumed" => self.resumed(step),
            "unsubscribed" => {
                let by = text(&step["by"]).to_owned();
                self.observed.rows.insert("unsubscribe", by);
            }
            _ => panic!("unknown step: {step}"),
        }
    }

    fn subscribed(&mut self, to: &str, by: &str) {
        let rows = ["heads", "numbers", "logs", "added logs"];
        let row = rows.into_iter().find(|row| *row == to).unwrap();
        let before = self.observed.rows.insert(row, by.to_owned());
        if let Some(before) = before {
            check("subscribed again", &before.as_str(), &by);
            let lost = self.lost.as_ref().unwrap();
            let again = format!("{lost}, subscribes again");
            self.observed.rows.insert("lost connection", again);
        }
    }

    /// Checks that the client resumes from its last head, and drops the logs that will be repeated:
    /// those above the block from which it resumes logs.
    fn resumed(&mut self, step: &Value) {
        let last = self.chain.last().unwrap();
        check("resumed from", &step["heads"], &last["hash"]);
        let height = quantity(&self.block(text(&step["logs"])).0["number"]);
        self.logs
            .retain(|log| quantity(&log["blockNumber"]) <= height);
        let lost = self.lost.as_ref().unwrap();
        let resumes = format!("{lost}, resumes by {} with since", text(&step["by"]));
        self.observed.rows.insert("lost connection", resumes);
    }

    /// A block and its logs, by hash.
    fn block(&mut self, hash: &str) -> (Value, Vec<Value>) {
        let http = &mut self.http;
        let known = self.blocks.entry(hash.to_owned()).or_insert_with(|| {
            let block = http.result("eth_getBlockByHash", &json!([hash, false]));
            let logs = http.result("eth_getLogs", &json!([{"blockHash": hash}]));
            (block, logs.as_array().unwrap().clone())
        });
        known.clone()
    }

    /// The parent of a block, and its logs.
    fn parent(&mut self, block: &Value) -> (Value, Vec<Value>) {
        self.block(text(&block["parentHash"]))
    }

    /// Applies a head, which extends the chain or replaces notified blocks, without a gap or a
    /// repetition.
    fn head(&mut self, head: &Value) {
        let (mut block, _) = self.block(text(&head["hash"]));
        for member in NOT_IN_NEW_HEADS {
            block.as_object_mut().unwrap().remove(member);
        }
        let omitted = self.observed.omitted.entry("newHeads").or_default();
        compare("a head", head, &block, "", omitted);
        if self.chain.is_empty() {
            let mut ancestors = vec![self.parent(&block).0];
            for _ in 0..2 * REORG_DEPTH {
                let (parent, _) = self.parent(&ancestors.last().unwrap().clone());
                ancestors.push(parent);
            }
            self.chain = ancestors.into_iter().rev().collect();
        }
        while self.chain.last().unwrap()["hash"] != block["parentHash"] {
            let replaced = self.chain.pop().unwrap();
            assert!(!self.chain.is_empty(), "a gap before {block}");
            assert_ne!(replaced["hash"], block["hash"], "a repeated head");
        }
        self.connection.heads.push(block.clone());
        self.chain.push(block);
    }

    /// Applies a log, which must be one of its block's; a removal must remove the last log held.
    fn log(&mut self, log: &Value) {
        let (_, logs) = self.block(text(&log["blockHash"]));
        let same = |plain: &Value| plain["logIndex"] == log["logIndex"];
        let plain = logs.into_iter().find(same);
        let mut plain = plain.unwrap_or_else(|| panic!("not a log of its block: {log}"));
        let is_removed = log["removed"] == true;
        if is_removed {
            self.connection.removed += 1;
            // A reorg also reverts blocks from before the subscription, whose logs were never sent.
            if let Some(last) = self.logs.pop() {
                check("the removed log", &plain, &last);
            }
        } else {
            self.connection.logs.push(place(&plain));
            self.logs.push(plain.clone());
        }
        plain["removed"] = is_removed.into();
        let omitted = self.observed.omitted.entry("logs").or_default();
        compare("a log", log, &plain, "", omitted);
    }

    /// Asserts that no log is missing between the first and the last that the client holds. Returns
    /// whether the connection had a reorg: it may have been lost before one.
    fn end_connection(&mut self) -> bool {
        let connection = std::mem::take(&mut self.connection);
        let numbers: Vec<Value> = connection
            .heads
            .iter()
            .map(|head| head["number"].clone())
            .collect();
        let [first, .., last] = &self.logs[..] else {
            return false;
        };
        let (first, last) = (first.clone(), last.clone());
        let (mut block, mut expected) = self.block(text(&last["blockHash"]));
        while block["hash"] != first["blockHash"] {
            assert!(
                quantity(&block["number"]) > quantity(&first["blockNumber"]),
                "not on one chain: {first} and {last}"
            );
            let (parent, mut logs) = self.parent(&block);
            logs.append(&mut expected);
            (block, expected) = (parent, logs);
        }
        let start = expected.iter().position(|log| *log == first).unwrap();
        let held = expected.get(start..start + self.logs.len());
        assert!(
            held == Some(&self.logs[..]),
            "logs are missing between {first} and {last}"
        );
        let is_reorg = |pair: &[Value]| quantity(&pair[1]) <= quantity(&pair[0]);
        let had_reorg = numbers.windows(2).any(is_reorg) && connection.removed > 0;
        // Much of a short connection may be missing at its end.
        if had_reorg {
            check_same_events("numbers of heads", &connection.numbers, &numbers);
            check_same_events("added logs", &connection.added, &connection.logs);
            // It may have been cut between the heads of another reorg and their logs.
            let behind = quantity(&numbers[numbers.len() - 1]) - REORG_DEPTH - 1;
            assert!(
                quantity(&last["blockNumber"]) >= behind,
                "logs ended with {last}, heads with {numbers:?}"
            );
        }
        had_reorg
    }

    /// How many logs a block has.
    pub(super) fn logs_of(&mut self, hash: B256) -> usize {
        self.block(&hash.to_string()).1.len()
    }

    /// Ends the replay, at this block and its logs.
    pub(super) fn end_at(mut self, hash: B256) {
        let hash = hash.to_string();
        let last = self.chain.last().unwrap()["hash"].clone();
        check("the last head", &last, &json!(hash));
        let (_, logs) = self.block(&hash);
        let held = self.logs.iter().filter(|log| log["blockHash"] == hash);
        check("its logs", &held.cloned().collect(), &logs);
        self.end();
    }

    /// Ends the replay; returns what the client did.
    pub(super) fn end(mut self) -> Observed {
        assert!(self.end_connection(), "no reorg on the last connection");
        let lost = self.lost.expect("the connection was lost");
        let rows = &mut self.observed.rows;
        rows.entry("lost connection")
            .or_insert_with(|| format!("{lost}, subscribes again by itself"));
        self.observed
    }
}

/// Block hash and index of a log.
fn place(log: &Value) -> Value {
    json!([log["blockHash"], log["logIndex"]])
}

/// Asserts that a client's own events, if it has any, equal the notifications in order. Either may
/// begin earlier than the other, and the connection may have been cut between the two.
fn check_same_events(what: &str, own: &[Value], notified: &[Value]) {
    let agree = |one: &[Value], other: &[Value]| one.iter().zip(other).all(|(a, b)| a == b);
    let is_same = (0..notified.len() / 2).any(|skipped| {
        let late = own.get(skipped..).unwrap_or_default();
        agree(late, notified) || agree(own, &notified[skipped..])
    });
    assert!(
        own.is_empty() || is_same && own.len() > notified.len() / 2,
        "{what}: own events {own:?}, notified {notified:?}"
    );
}
