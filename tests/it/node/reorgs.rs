//! Reorgs of any depth on a real upstream, and the notifications of them.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    follow, hash, http,
    same::{ANVIL, ANVIL_EMPTY, Same},
    wait_head, ws,
};
use crate::{
    harness::{KEY, Server, check, wait_until},
    peers::{Anvil, anvil_with_traffic, quantity},
    websocket::client::Client,
};

/// The chain and its logs as notifications describe them.
struct Told {
    session: Client,
    ids: [String; 3],
    /// Blocks by `newHeads`, the oldest first.
    heads: Vec<Value>,
    /// By block and place; taken off when they are removed.
    logs: BTreeMap<(String, u64), Value>,
    /// Blocks that the last reorg has reverted and applied.
    reorg: Option<(usize, usize)>,
}

impl Told {
    /// Subscribes to everything from the window's oldest block on.
    fn open(server: &Server) -> Self {
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        let oldest = session.call("eth_getBlockByNumber", &json!(["earliest", false]));
        let oldest = oldest["result"].clone();
        let since = json!({"since": oldest["hash"]});
        let ids = [
            json!(["newHeads", null, since]),
            json!(["logs", {}, since]),
            json!(["reorgs"]),
        ]
        .map(|params| {
            let answer = session.call("eth_subscribe", &params);
            let id = answer["result"].as_str();
            id.unwrap_or_else(|| panic!("{params}: {answer}"))
                .to_owned()
        });
        Self {
            session,
            ids,
            heads: vec![oldest],
            logs: BTreeMap::new(),
            reorg: None,
        }
    }

    /// Takes what comes until this block is the head, and there are so many logs in the window
    /// above its oldest block, which a subscription begins after.
    fn read_to(&mut self, (number, head): (u64, B256), logs: usize) {
        self.read_from(number.saturating_sub(126), head, logs);
    }

    /// The same, and logs are those of the block `oldest` and after it.
    fn read_from(&mut self, oldest: u64, head: B256, logs: usize) {
        let is_there = |this: &Self| {
            let last = this.heads.last().is_some_and(|last| hash(last) == head);
            let held = this.logs.values();
            let held = held.filter(|log| quantity(&log["blockNumber"]) >= oldest);
            last && held.count() == logs
        };
        while !is_there(self) {
            self.read();
        }
    }

    fn read(&mut self) {
        let told = self.session.notification();
        let result = told["result"].clone();
        let id = told["subscription"].as_str().unwrap();
        let [heads, logs, _] = &self.ids;
        if id == heads {
            while let Some(last) = self.heads.last()
                && last["hash"] != result["parentHash"]
            {
                assert!(
                    quantity(&last["number"]) >= quantity(&result["number"]),
                    "a gap between {last} and {result}"
                );
                self.heads.pop();
            }
            assert!(!self.heads.is_empty(), "{result} follows nothing");
            self.heads.push(result);
        } else if id == logs {
            let key = (
                result["blockHash"].to_string(),
                quantity(&result["logIndex"]),
            );
            let before = match result["removed"] == true {
                true => self.logs.remove(&key).map(|_| Value::Null),
                false => self.logs.insert(key, result.clone()),
            };
            check(
                "told before",
                &before.is_some(),
                &(result["removed"] == true),
            );
        } else {
            let count = |name: &str| result[name].as_array().unwrap().len();
            self.reorg = Some((count("reverted"), count("applied")));
        }
    }

    /// Whether the chain and the logs that were told of are those that the node has, from the block
    /// `oldest` on.
    fn check(&self, anvil: &Anvil, oldest: u64) {
        let mut node = anvil.connect();
        let number = |block: &&Value| quantity(&block["number"]) >= oldest;
        for block in self.heads.iter().filter(number) {
            let params = json!([block["number"], false]);
            let theirs = node.result("eth_getBlockByNumber", &params);
            check(&params.to_string(), &block["hash"], &theirs["hash"]);
        }
        let range = json!([{"fromBlock": format!("{oldest:#x}"), "toBlock": "latest"}]);
        let theirs = node.result("eth_getLogs", &range);
        let id = |log: &Value| (log["blockHash"].to_string(), quantity(&log["logIndex"]));
        let theirs: Vec<_> = theirs.as_array().unwrap().iter().map(id).collect();
        let mut ours: Vec<&Value> = self.logs.values().collect();
        ours.retain(|log| quantity(&log["blockNumber"]) >= oldest);
        ours.sort_by_key(|log| (quantity(&log["blockNumber"]), quantity(&log["logIndex"])));
        let ours: Vec<_> = ours.into_iter().map(id).collect();
        check("logs", &ours, &theirs);
    }
}

/// Logs of the node's newest blocks, as many as a window has above its oldest one.
fn logs_of_window(anvil: &Anvil, head: u64) -> usize {
    logs_from(anvil, head.saturating_sub(126))
}

/// Logs that the node has from this block on.
fn logs_from(anvil: &Anvil, oldest: u64) -> usize {
    let logs = json!([{"fromBlock": format!("{oldest:#x}"), "toBlock": "latest"}]);
    let logs = anvil.connect().result("eth_getLogs", &logs);
    logs.as_array().unwrap().len()
}

/// A session with each of these, that have this head.
fn sessions_at(servers: &[Server; 2], head: (u64, B256)) -> [Told; 2] {
    servers.each_ref().map(|server| {
        wait_head(server, head);
        Told::open(server)
    })
}

fn wait_heads(servers: &[Server], wanted: (u64, B256)) {
    servers.iter().for_each(|server| wait_head(server, wanted));
}

/// The next block is served, and the sessions were told of it. A node that was silent for a moment,
/// because the machine had other things to do, was left and is followed anew: before it has gone
/// on, a head of it that is not higher is lag and no reorg.
fn go_on(anvil: &mut Anvil, servers: &[Server], sessions: &mut [Told]) {
    anvil.mine(1);
    let (number, head) = anvil.head();
    wait_heads(servers, (number, head));
    let logs = logs_of_window(anvil, number);
    for told in sessions {
        told.read_to((number, head), logs);
    }
}

/// A session that only applies what it is told holds what is answered, whatever depth a reorg has.
#[test]
fn a_session_is_notified_of_reorgs_of_every_depth() {
    let mut anvil = anvil_with_traffic("node-reorgs", 29, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    anvil.mine(1);
    let mut sessions = sessions_at(&servers, anvil.head());
    for depth in [0, 1, 5, 60, 127] {
        if depth > 0 {
            go_on(&mut anvil, &servers, &mut sessions);
            anvil.reorg(depth);
        }
        let (number, head) = anvil.head();
        wait_heads(&servers, (number, head));
        let logs = logs_of_window(&anvil, number);
        for (server, told) in servers.iter().zip(&mut sessions) {
            told.read_to((number, head), logs);
            // A reorg of the whole window leaves one block that both have: the oldest.
            told.check(&anvil, number - 126);
            let mut same = Same::between(server, anvil.address);
            same.chain();
            same.blocks(number - 20..=number);
            // Deep reorgs leave no transactions in these.
            same.finish(if depth < 20 { ANVIL } else { ANVIL_EMPTY });
            while depth > 0 && told.reorg.is_none() {
                told.read();
            }
            let expected = (depth > 0).then_some((depth as usize, depth as usize));
            check("the reorg", &told.reorg.take(), &expected);
        }
    }
}

/// A rollback is told as a reorg that applies nothing, and the head that is left; what is made
/// after it, on another branch, follows.
#[test]
fn a_session_is_notified_of_a_rollback() {
    let mut anvil = anvil_with_traffic("node-rollback", 30, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    let mut sessions = sessions_at(&servers, anvil.head());
    for depth in [1, 3, 20] {
        go_on(&mut anvil, &servers, &mut sessions);
        let oldest = anvil.head().0 - 126;
        anvil.roll_back(depth);
        let (number, head) = anvil.head();
        wait_heads(&servers, (number, head));
        for told in &mut sessions {
            told.read_from(oldest, head, logs_from(&anvil, oldest));
            while told.reorg.is_none() {
                told.read();
            }
            check("the reorg", &told.reorg.take(), &Some((depth as usize, 0)));
            told.check(&anvil, oldest);
        }
        anvil.mine_others(depth + 2);
        let (number, head) = anvil.head();
        wait_heads(&servers, (number, head));
        for (server, told) in servers.iter().zip(&mut sessions) {
            told.read_to((number, head), logs_of_window(&anvil, number));
            told.check(&anvil, number - 126);
            check("no reorg", &told.reorg, &None);
            let mut same = Same::between(server, anvil.address);
            same.chain();
            same.blocks(number - 30..=number);
            same.finish(ANVIL);
        }
    }
}

/// A node that goes on at once from a block below its head was not rolled back: that is one reorg,
/// to a lower head.
#[test]
fn a_session_is_notified_of_a_lower_head() {
    let mut anvil = anvil_with_traffic("node-lower", 32, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    let mut sessions = sessions_at(&servers, anvil.head());
    go_on(&mut anvil, &servers, &mut sessions);
    let oldest = anvil.head().0 - 126;
    anvil.roll_back(20);
    anvil.mine_others(7);
    let (number, head) = anvil.head();
    wait_heads(&servers, (number, head));
    for told in &mut sessions {
        told.read_from(oldest, head, logs_from(&anvil, oldest));
        while told.reorg.is_none() {
            told.read();
        }
        // The first of the blocks may have been seen alone, or before them what they are made on.
        let (reverted, applied) = told.reorg.take().unwrap();
        check("reverted", &reverted, &20);
        assert!((0..=7).contains(&applied), "{applied}");
        told.check(&anvil, oldest);
    }
}

/// No block that is held is of the new chain: the window begins anew, and who is subscribed is told
/// that the way is lost.
#[test]
fn deeper_than_the_window() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(250);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    anvil.mine(1);
    let mut sessions = sessions_at(&servers, anvil.head());
    let replaced = anvil.head().1;
    let known = sessions[0].heads.last().unwrap()["hash"].clone();
    go_on(&mut anvil, &servers, &mut sessions);
    anvil.reorg(200);
    let (number, head) = anvil.head();
    wait_heads(&servers, (number, head));
    for (server, told) in servers.iter().zip(&mut sessions) {
        wait_until("ready", || server.get("/ready").status == 200);
        let mut same = Same::between(server, anvil.address);
        same.chain();
        same.blocks(number - 127..=number);
        same.finish(ANVIL_EMPTY);
        let params = json!([replaced, false]);
        let gone = server.connect().result("eth_getBlockByHash", &params);
        check("replaced", &gone, &Value::Null);
        let (code, reason) = told.session.close_code();
        check("the session", &code, &1013);
        assert!(!reason.is_empty(), "closed without a reason");
        // What it knew is no way back: it is told where to begin.
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        let oldest = json!([format!("{:#x}", number - 127), false]);
        let oldest = anvil.connect().result("eth_getBlockByNumber", &oldest);
        for subject in [json!(["newHeads"]), json!(["logs", {}]), json!(["reorgs"])] {
            let mut params = subject.clone();
            params.as_array_mut().unwrap().resize(2, Value::Null);
            params.as_array_mut().unwrap().push(json!({"since": known}));
            let answer = session.call("eth_subscribe", &params);
            let error = &answer["error"];
            let data = json!({"oldest": {"number": oldest["number"], "hash": oldest["hash"]}});
            check(&subject.to_string(), &error["code"], &json!(4444));
            check(&subject.to_string(), &error["data"], &data);
        }
    }
    // Whoever comes back is told of what follows.
    anvil.mine(1);
    let (number, head) = anvil.head();
    let mut sessions = sessions_at(&servers, (number, head));
    for told in &mut sessions {
        told.read_to((number, head), logs_of_window(&anvil, number));
    }
    anvil.mine(3);
    let (number, head) = anvil.head();
    for told in &mut sessions {
        told.read_to((number, head), logs_of_window(&anvil, number));
        told.check(&anvil, number - 120);
    }
}
