//! A client with subscriptions, which resumes them at another process.

use std::{collections::HashSet, net::SocketAddr};

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, KEY, check, quantity},
    websocket::client::{Client, connect},
};

/// The code of an answer that a process does not hold the block from which to resume.
const NOT_HELD: i64 = 4444;

/// That of an answer that it has not come as far as the client.
const NOT_REACHED: i64 = -32002;

/// A client of `newHeads` and `logs`, which holds what it was notified of: blocks and logs that
/// were removed are taken off. It panics at a gap, and at what comes twice.
pub(super) struct Subscriber {
    session: Client,
    ids: [Value; 2],
    /// The blocks that it holds, each on the one before.
    heads: Vec<(u64, B256)>,
    logs: Vec<Value>,
    /// Every block that it was notified of.
    notified: HashSet<B256>,
    /// Blocks and logs that were taken off.
    pub(super) removed: [usize; 2],
}

/// The session has ended with this code; without one if it was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended(pub(super) Option<u16>);

impl Subscriber {
    /// Subscribes to what follows the head, which is this one.
    pub(super) fn open(address: SocketAddr, head: (u64, B256)) -> Self {
        let mut session = Client::open(address, &path());
        let ids = [json!(["newHeads"]), json!(["logs", {}])].map(|params| {
            let mut answer = session.call("eth_subscribe", &params);
            assert!(answer["result"].is_string(), "{answer}");
            answer["result"].take()
        });
        Self {
            session,
            ids,
            heads: vec![head],
            logs: Vec::new(),
            notified: HashSet::from([head.1]),
            removed: [0; 2],
        }
    }

    /// Goes on at another process, which has to be there.
    pub(super) fn resume(&mut self, address: SocketAddr, node: &mut Connection) {
        let resumed = self.try_resume(address, node);
        check("resumed", &resumed, &Some(true));
    }

    /// Goes on at another process after the last block that it holds, as docs/websocket.md has it:
    /// logs from the parent of the block of the last one. `None` if there is no session, or at a
    /// process that has not come as far, and `Some(false)` if that one has never seen the last
    /// block, which is dropped then.
    pub(super) fn try_resume(
        &mut self,
        address: SocketAddr,
        node: &mut Connection,
    ) -> Option<bool> {
        let mut session = Client::try_on(connect(address, None), &path())?;
        let (number, hash) = self.heads[self.heads.len() - 1];
        let mut logs_since = self.heads[0].1;
        if let Some(last) = self.logs.last() {
            let of_last = last["blockHash"].clone();
            let block = node.result("eth_getBlockByHash", &json!([of_last, false]));
            logs_since = block["parentHash"].as_str().unwrap().parse().unwrap();
            // They come again.
            self.logs.retain(|log| log["blockHash"] != of_last);
        }
        let subscriptions = [
            json!(["newHeads", {"since": hash}]),
            json!(["logs", {}, {"since": logs_since}]),
        ];
        let mut ids = [Value::Null, Value::Null];
        for (id, params) in ids.iter_mut().zip(subscriptions) {
            let request = json!({
                "jsonrpc": "2.0",
                "id": 1,
                "method": "eth_subscribe",
                "params": params,
                "minBlock": format!("{number}, {hash}"),
            });
            session.text(&request.to_string());
            let mut answer = session.try_answer()?;
            if answer["error"]["code"] == NOT_HELD && self.heads.len() > 1 {
                self.heads.pop();
                self.notified.remove(&hash);
                self.logs.retain(|log| log["blockHash"] != json!(hash));
                return Some(false);
            }
            if answer["error"]["code"] == NOT_REACHED {
                return None;
            }
            assert!(answer["result"].is_string(), "{params}: {answer}");
            *id = answer["result"].take();
        }
        (self.session, self.ids) = (session, ids);
        Some(true)
    }

    /// Takes the next notification.
    pub(super) fn take(&mut self) -> Result<(), Ended> {
        let mut notification = self.session.notification_or_end().map_err(Ended)?;
        let result = notification["result"].take();
        let subscription = &notification["subscription"];
        match self.ids.iter().position(|id| id == subscription) {
            Some(0) => self.take_head(&result),
            Some(_) => self.take_log(result),
            None => panic!("of no subscription: {notification}"),
        }
        Ok(())
    }

    fn take_head(&mut self, head: &Value) {
        let hash = |name: &str| head[name].as_str().unwrap().parse::<B256>().unwrap();
        let parent = hash("parentHash");
        while let Some((_, removed)) = self.heads.pop_if(|last| last.1 != parent) {
            // It may come again when its branch does.
            self.notified.remove(&removed);
            self.removed[0] += 1;
        }
        assert!(!self.heads.is_empty(), "a gap before {head}");
        assert!(self.notified.insert(hash("hash")), "twice: {head}");
        self.heads.push((quantity(&head["number"]), hash("hash")));
    }

    fn take_log(&mut self, mut log: Value) {
        if log["removed"] == true {
            log["removed"] = false.into();
            check("the last log is removed", &self.logs.pop(), &Some(log));
            self.removed[1] += 1;
        } else {
            self.logs.push(log);
        }
    }

    /// Whether it was notified of this head and of all logs up to it.
    pub(super) fn is_at(&self, head: (u64, B256), node: &mut Connection) -> bool {
        self.heads.last() == Some(&head)
            && self.logs.len() == logs(node, self.heads[0].0 + 1, head.0).len()
    }

    /// Reads until it was notified of this head and of all logs up to it.
    pub(super) fn read_to(&mut self, head: (u64, B256), node: &mut Connection) {
        while !self.is_at(head, node) {
            check("the session goes on", &self.take(), &Ok(()));
        }
    }

    /// Checks that it holds each block and log after its first head once, in their order.
    pub(super) fn check(&self, node: &mut Connection) {
        let [first, .., last] = self.heads[..] else {
            panic!("no head came: {:?}", self.heads);
        };
        for (at, number) in (first.0..=last.0).enumerate() {
            let block = node.result("eth_getBlockByNumber", &json!([hex(number), false]));
            let hash: B256 = block["hash"].as_str().unwrap().parse().unwrap();
            check("head", &self.heads.get(at), &Some(&(number, hash)));
        }
        check("heads", &(self.heads.len() as u64), &(last.0 - first.0 + 1));
        let expected = logs(node, first.0 + 1, last.0);
        assert!(!expected.is_empty(), "there are no logs");
        check("logs", &places(&self.logs), &places(&expected));
    }
}

fn path() -> String {
    format!("/ws/v3/{KEY}")
}

fn places(logs: &[Value]) -> Vec<[Value; 6]> {
    let members = [
        "blockHash",
        "logIndex",
        "address",
        "topics",
        "data",
        "removed",
    ];
    let place = |log: &Value| members.map(|name| log[name].clone());
    logs.iter().map(place).collect()
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

/// The logs of these blocks, as a node has them.
fn logs(node: &mut Connection, from: u64, to: u64) -> Vec<Value> {
    let filter = json!([{"fromBlock": hex(from), "toBlock": hex(to)}]);
    let logs = node.result("eth_getLogs", &filter);
    logs.as_array().unwrap().clone()
}
