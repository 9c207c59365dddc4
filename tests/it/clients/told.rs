//! Compares the notifications of a client that follows the chain with the chain that plain
//! JSON-RPC over HTTP shows.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Did, REORG_DEPTH, answers::compare, steps};
use crate::harness::{Connection, check};

/// Members of a block that a head has not.
const BLOCK_ALONE: [&str; 5] = [
    "transactions",
    "uncles",
    "withdrawals",
    "size",
    "totalDifficulty",
];

/// A client that only applies what it is told: heads extend its chain or replace the end of it,
/// logs come and go at the end of its list.
pub(super) struct Told {
    http: Connection,
    /// Bytes of the client's output that were looked at.
    read: usize,
    /// Blocks by hash and their logs, as HTTP answers them.
    blocks: HashMap<String, (Value, Vec<Value>)>,
    /// The blocks that it was told of, after those that a reorg may go back to.
    chain: Vec<Value>,
    logs: Vec<Value>,
    line: Line,
    /// What it did when the line was lost.
    lost: Option<String>,
    /// The line was lost, and nothing has come since.
    is_lost: bool,
    did: Did,
}

/// What was told on one line, as it came.
#[derive(Default)]
struct Line {
    heads: Vec<Value>,
    /// Numbers of heads, told beside them.
    numbers: Vec<Value>,
    /// Logs but those that were removed.
    logs: Vec<Value>,
    /// The same, told beside them.
    added: Vec<Value>,
    removed: usize,
}

/// A quantity of at most 64 bits.
#[track_caller]
pub(super) fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let digits = digits.unwrap_or_else(|| panic!("not a quantity: {value}"));
    u64::from_str_radix(digits, 16).unwrap()
}

fn text(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("not a text: {value}"))
}

impl Told {
    pub(super) fn new(http: Connection) -> Self {
        Self {
            http,
            read: 0,
            blocks: HashMap::new(),
            chain: Vec::new(),
            logs: Vec::new(),
            line: Line::default(),
            lost: None,
            is_lost: false,
            did: Did::default(),
        }
    }

    /// Applies what came since the last time.
    pub(super) fn read(&mut self, output: &str) {
        let new = &output[self.read..];
        self.read = output.len();
        for step in steps(new) {
            self.apply(&step);
        }
    }

    fn apply(&mut self, step: &Value) {
        let (what, value) = (text(&step["step"]), &step["value"]);
        if std::mem::take(&mut self.is_lost) {
            self.end_line();
            if what != "resumed" {
                // What it missed it does not know: a new beginning.
                self.chain.clear();
                self.logs.clear();
            }
        }
        match what {
            "client" | "end" => {}
            "head" => self.head(value),
            "number" => self.line.numbers.push(value.clone()),
            "log" => self.log(value),
            "added" => self.line.added.push(place(value)),
            "subscribed" => self.subscribed(text(&step["to"]), text(&step["by"])),
            "lost" => {
                let before = self.lost.replace(text(&step["by"]).to_owned());
                check("one line was cut", &before, &None);
                self.is_lost = true;
            }
            "resumed" => self.resumed(step),
            "unsubscribed" => {
                let by = text(&step["by"]).to_owned();
                self.did.rows.insert("end", by);
            }
            _ => panic!("no step of a follower: {step}"),
        }
    }

    fn subscribed(&mut self, to: &str, by: &str) {
        let rows = ["heads", "numbers", "logs", "added logs"];
        let row = rows.into_iter().find(|row| *row == to).unwrap();
        let before = self.did.rows.insert(row, by.to_owned());
        if let Some(before) = before {
            check("subscribed again", &before.as_str(), &by);
            let lost = self.lost.as_ref().unwrap();
            let again = format!("{lost}, subscribes again");
            self.did.rows.insert("lost line", again);
        }
    }

    /// It goes on from its last head. Of logs it forgets those above the last block that it holds
    /// entirely.
    fn resumed(&mut self, step: &Value) {
        let last = self.chain.last().unwrap();
        check("resumed from", &step["heads"], &last["hash"]);
        let height = quantity(&self.block(text(&step["logs"])).0["number"]);
        self.logs
            .retain(|log| quantity(&log["blockNumber"]) <= height);
        let lost = self.lost.as_ref().unwrap();
        let resumes = format!("{lost}, resumes by {} with since", text(&step["by"]));
        self.did.rows.insert("lost line", resumes);
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

    /// The block before another, and its logs.
    fn parent(&mut self, block: &Value) -> (Value, Vec<Value>) {
        self.block(text(&block["parentHash"]))
    }

    /// A head follows the one before it, or replaces some that were told before; none is left out,
    /// none comes twice.
    fn head(&mut self, head: &Value) {
        let (mut block, _) = self.block(text(&head["hash"]));
        for member in BLOCK_ALONE {
            block.as_object_mut().unwrap().remove(member);
        }
        let left_out = self.did.left_out.entry("newHeads").or_default();
        compare("a head", head, &block, "", left_out);
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
            assert_ne!(replaced["hash"], block["hash"], "a head that came twice");
        }
        self.line.heads.push(block.clone());
        self.chain.push(block);
    }

    /// A log is one of its block's; a removed one is the last that the client holds.
    fn log(&mut self, log: &Value) {
        let (_, logs) = self.block(text(&log["blockHash"]));
        let same = |plain: &Value| plain["logIndex"] == log["logIndex"];
        let plain = logs.into_iter().find(same);
        let mut plain = plain.unwrap_or_else(|| panic!("its block has no such log: {log}"));
        let is_removed = log["removed"] == true;
        if is_removed {
            self.line.removed += 1;
            // Blocks from before the subscription are replaced as well: their logs were never told.
            if let Some(last) = self.logs.pop() {
                check("the log that is removed", &plain, &last);
            }
        } else {
            self.line.logs.push(place(&plain));
            self.logs.push(plain.clone());
        }
        plain["removed"] = is_removed.into();
        let left_out = self.did.left_out.entry("logs").or_default();
        compare("a log", log, &plain, "", left_out);
    }

    /// When a line ends: a reorg was told on it, and of all logs between the first and the last
    /// that the client holds none is missing.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let numbers: Vec<Value> = line
            .heads
            .iter()
            .map(|head| head["number"].clone())
            .collect();
        let is_reorg = |pair: &[Value]| quantity(&pair[1]) <= quantity(&pair[0]);
        assert!(
            numbers.windows(2).any(is_reorg) && line.removed > 0,
            "no reorg: {numbers:?}, {} logs removed",
            line.removed
        );
        check_beside("numbers of heads", &line.numbers, &numbers);
        check_beside("added logs", &line.added, &line.logs);

        let (first, last) = (self.logs[0].clone(), self.logs.last().unwrap().clone());
        let (mut block, mut expected) = self.block(text(&last["blockHash"]));
        while block["hash"] != first["blockHash"] {
            assert!(
                quantity(&block["number"]) > quantity(&first["blockNumber"]),
                "not of one chain: {first} and {last}"
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
        // The line may have been cut between the heads of a reorg and their logs.
        let behind = quantity(numbers.last().unwrap()) - REORG_DEPTH - 1;
        assert!(
            quantity(&last["blockNumber"]) >= behind,
            "logs ended with {last}, heads with {numbers:?}"
        );
    }

    /// What the client did.
    pub(super) fn end(mut self) -> Did {
        self.end_line();
        let lost = self.lost.expect("the line was lost");
        let rows = &mut self.did.rows;
        rows.entry("lost line")
            .or_insert_with(|| format!("{lost}, subscribes again by itself"));
        self.did
    }
}

/// What names a log.
fn place(log: &Value) -> Value {
    json!([log["blockHash"], log["logIndex"]])
}

/// What was told beside, where a client has it, is the same in the same order; the one may have
/// begun earlier than the other, and the line may have been cut in between.
fn check_beside(what: &str, beside: &[Value], told: &[Value]) {
    let follows = |one: &[Value], other: &[Value]| one.iter().zip(other).all(|(a, b)| a == b);
    let is_same = (0..told.len() / 2).any(|begun| {
        let late = beside.get(begun..).unwrap_or_default();
        follows(late, told) || follows(beside, &told[begun..])
    });
    assert!(
        beside.is_empty() || is_same && beside.len() > told.len() / 2,
        "{what}: {beside:?} beside {told:?}"
    );
}
