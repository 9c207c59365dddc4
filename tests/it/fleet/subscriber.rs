//! A client with subscriptions, which resumes them at another process.

use alloy_primitives::B256;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, KEY, Server, check, quantity},
    websocket::client::Client,
};

/// What a client of `newHeads` and `logs` was notified of.
pub(super) struct Subscriber {
    session: Client,
    ids: [Value; 2],
    heads: Vec<(u64, B256)>,
    logs: Vec<Value>,
}

impl Subscriber {
    /// Subscribes to what follows the head, which is this one.
    pub(super) fn open(server: &Server, head: (u64, B256)) -> Self {
        let (session, ids) = subscribe(server, None);
        Self {
            session,
            ids,
            heads: vec![head],
            logs: Vec::new(),
        }
    }

    /// Goes on at another process, after the block that it was notified of last.
    pub(super) fn resume(&mut self, server: &Server) {
        let (_, hash) = self.heads[self.heads.len() - 1];
        (self.session, self.ids) = subscribe(server, Some(hash));
    }

    /// Reads until it was notified of this head and of all logs up to it.
    pub(super) fn read_to(&mut self, head: (u64, B256), node: &mut Connection) {
        let wanted = logs(node, self.heads[0].0 + 1, head.0).len();
        while self.heads.last() != Some(&head) || self.logs.len() < wanted {
            let mut notification = self.session.notification();
            let result = notification["result"].take();
            match self
                .ids
                .iter()
                .position(|id| *id == notification["subscription"])
            {
                Some(0) => {
                    let hash = result["hash"].as_str().unwrap().parse().unwrap();
                    self.heads.push((quantity(&result["number"]), hash));
                }
                Some(_) => self.logs.push(result),
                None => panic!("of no subscription: {notification}"),
            }
        }
    }

    /// Checks that it was notified of each block and log after its first head once, in their order.
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
        let places = |logs: &[Value]| -> Vec<_> {
            let place = |log: &Value| {
                assert_eq!(log["removed"], json!(false), "{log}");
                ["blockHash", "logIndex", "address", "topics", "data"].map(|name| log[name].clone())
            };
            logs.iter().map(place).collect()
        };
        check("logs", &places(&self.logs), &places(&expected));
    }
}

fn subscribe(server: &Server, since: Option<B256>) -> (Client, [Value; 2]) {
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    let since = since.map(|hash| json!({"since": hash}));
    let of_heads: Vec<_> = [json!("newHeads")]
        .into_iter()
        .chain(since.clone())
        .collect();
    let of_logs: Vec<_> = [json!("logs"), json!({})]
        .into_iter()
        .chain(since)
        .collect();
    let ids = [of_heads, of_logs].map(|params| {
        let mut answer = session.call("eth_subscribe", &json!(params));
        assert!(answer["result"].is_string(), "{answer}");
        answer["result"].take()
    });
    (session, ids)
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
