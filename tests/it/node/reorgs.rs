//! Reorgs of any depth on a real upstream, and their notifications.

use std::collections::BTreeMap;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    comparison::{ANVIL, ANVIL_EMPTY, Comparison},
    follow, hash, head, http, wait_head, ws,
};
use crate::{
    harness::{KEY, Server, check, request, wait_until},
    upstreams::{Anvil, anvil_with_traffic, quantity},
    websocket::client::Client,
};

/// The chain and its logs as a session's notifications describe them.
struct NotifiedChain {
    session: Client,
    ids: [String; 3],
    /// Blocks of `newHeads`, oldest first.
    heads: Vec<Value>,
    /// Logs by block and log index; a `removed` notification removes its log.
    logs: BTreeMap<(String, u64), Value>,
    /// How many blocks the last reorg reverted and applied.
    reorg: Option<(usize, usize)>,
}

impl NotifiedChain {
    /// Subscribes to heads and logs since the window's oldest block, and to reorgs.
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

    /// Reads notifications until this block is the head and the window has this many logs above its
    /// oldest block. Subscriptions begin after that block.
    fn read_to(&mut self, (number, head): (u64, B256), logs: usize) {
        self.read_from(number.saturating_sub(126), head, logs);
    }

    /// The same as [`Self::read_to`], counting the logs from block `oldest` on.
    fn read_from(&mut self, oldest: u64, head: B256, logs: usize) {
        let is_complete = |this: &Self| {
            let last = this.heads.last().is_some_and(|last| hash(last) == head);
            let held = this.logs.values();
            let held = held.filter(|log| quantity(&log["blockNumber"]) >= oldest);
            last && held.count() == logs
        };
        while !is_complete(self) {
            self.read();
        }
    }

    fn read(&mut self) {
        let notification = self.session.notification();
        let result = notification["result"].clone();
        let id = notification["subscription"].as_str().unwrap();
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
                "an earlier notification of the log",
                &before.is_some(),
                &(result["removed"] == true),
            );
        } else {
            let count = |name: &str| result[name].as_array().unwrap().len();
            self.reorg = Some((count("reverted"), count("applied")));
        }
    }

    /// Asserts that the notified chain and logs equal the upstream's from block `oldest` on.
    fn check(&self, anvil: &Anvil, oldest: u64) {
        let mut upstream = anvil.connect();
        let number = |block: &&Value| quantity(&block["number"]) >= oldest;
        for block in self.heads.iter().filter(number) {
            let params = json!([block["number"], false]);
            let theirs = upstream.result("eth_getBlockByNumber", &params);
            check(&params.to_string(), &block["hash"], &theirs["hash"]);
        }
        let range = json!([{"fromBlock": format!("{oldest:#x}"), "toBlock": "latest"}]);
        let theirs = upstream.result("eth_getLogs", &range);
        let id = |log: &Value| (log["blockHash"].to_string(), quantity(&log["logIndex"]));
        let theirs: Vec<_> = theirs.as_array().unwrap().iter().map(id).collect();
        let mut ours: Vec<&Value> = self.logs.values().collect();
        ours.retain(|log| quantity(&log["blockNumber"]) >= oldest);
        ours.sort_by_key(|log| (quantity(&log["blockNumber"]), quantity(&log["logIndex"])));
        let ours: Vec<_> = ours.into_iter().map(id).collect();
        check("logs", &ours, &theirs);
    }
}

/// The number of the upstream's logs above the oldest block of a window with this head.
fn logs_of_window(anvil: &Anvil, head: u64) -> usize {
    logs_from(anvil, head.saturating_sub(126))
}

/// The number of the upstream's logs from this block on.
fn logs_from(anvil: &Anvil, oldest: u64) -> usize {
    let logs = json!([{"fromBlock": format!("{oldest:#x}"), "toBlock": "latest"}]);
    let logs = anvil.connect().result("eth_getLogs", &logs);
    logs.as_array().unwrap().len()
}

/// Opens a session with each server once it has this head.
fn sessions_at(servers: &[Server; 2], head: (u64, B256)) -> [NotifiedChain; 2] {
    servers.each_ref().map(|server| {
        wait_head(server, head);
        NotifiedChain::open(server)
    })
}

/// Waits until the servers have this head. Sessions answer pings meanwhile: one that does not is
/// closed.
fn wait_heads(servers: &[Server], sessions: &mut [NotifiedChain], wanted: (u64, B256)) {
    for server in servers {
        let mut connection = server.connect();
        wait_until(&format!("head {wanted:?}"), || {
            for notified in sessions.iter_mut() {
                notified.session.call("eth_chainId", &json!([]));
            }
            head(&mut connection) == wanted
        });
    }
}

/// Mines a block, and waits until it is served and the sessions are notified.
///
/// Called before each reorg: on a busy machine, the upstream may have been silent for a moment.
/// Until it advances, a lower served head counts as lag and not as a rollback.
fn mine_and_wait(anvil: &mut Anvil, servers: &[Server], sessions: &mut [NotifiedChain]) {
    anvil.mine(1);
    let (number, head) = anvil.head();
    wait_heads(servers, sessions, (number, head));
    let logs = logs_of_window(anvil, number);
    for notified in sessions {
        notified.read_to((number, head), logs);
    }
}

/// A session that applies nothing but its notifications has the served chain, after reorgs of any
/// depth.
#[test]
fn a_session_is_notified_of_reorgs_of_every_depth() {
    let mut anvil = anvil_with_traffic("node-reorgs", 29, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    anvil.mine(1);
    let mut sessions = Vec::from(sessions_at(&servers, anvil.head()));
    for depth in [0, 1, 5, 60, 127] {
        if depth > 0 {
            mine_and_wait(&mut anvil, &servers, &mut sessions);
            anvil.reorg(depth);
        }
        let (number, head) = anvil.head();
        wait_heads(&servers, &mut sessions, (number, head));
        let logs = logs_of_window(&anvil, number);
        for notified in &mut sessions {
            notified.read_to((number, head), logs);
            // A reorg of the whole window leaves one block common to both chains: the oldest.
            notified.check(&anvil, number - 126);
            while depth > 0 && notified.reorg.is_none() {
                notified.read();
            }
            let reorg = notified.reorg.take();
            check(
                "reverted",
                &reorg.map_or(0, |reorg| reorg.0),
                &(depth as usize),
            );
            // anvil makes the new blocks one by one, and nearhead may see the first of them.
            let applied = reorg.map_or(0, |reorg| reorg.1);
            assert!(applied <= depth as usize, "{applied} of {depth}");
        }
        // A session that is not read for long answers no ping, and is closed.
        drop(std::mem::take(&mut sessions));
        for server in &servers {
            let mut comparison = Comparison::between(server, anvil.address);
            comparison.chain();
            comparison.blocks(number - 20..=number);
            // After a deep reorg these blocks have no transactions.
            comparison.finish(if depth < 20 { ANVIL } else { ANVIL_EMPTY });
        }
        sessions = sessions_at(&servers, (number, head)).into();
    }
}

/// A rollback is notified as a reorg that applies nothing and as the head that remains; blocks on
/// another branch follow.
#[test]
fn a_session_is_notified_of_a_rollback() {
    let mut anvil = anvil_with_traffic("node-rollback", 30, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    let mut sessions = sessions_at(&servers, anvil.head());
    for depth in [1, 3, 20] {
        mine_and_wait(&mut anvil, &servers, &mut sessions);
        let oldest = anvil.head().0 - 126;
        anvil.roll_back(depth);
        let (number, head) = anvil.head();
        wait_heads(&servers, &mut sessions, (number, head));
        for notified in &mut sessions {
            notified.read_from(oldest, head, logs_from(&anvil, oldest));
            while notified.reorg.is_none() {
                notified.read();
            }
            check(
                "the reorg",
                &notified.reorg.take(),
                &Some((depth as usize, 0)),
            );
            notified.check(&anvil, oldest);
        }
        anvil.mine_others(depth + 2);
        let (number, head) = anvil.head();
        wait_heads(&servers, &mut sessions, (number, head));
        for notified in &mut sessions {
            notified.read_to((number, head), logs_of_window(&anvil, number));
            notified.check(&anvil, number - 126);
            check("no reorg", &notified.reorg, &None);
        }
    }
    // Only now: a session that is not read for long answers no ping, and is closed.
    let number = anvil.head().0;
    for server in &servers {
        let mut comparison = Comparison::between(server, anvil.address);
        comparison.chain();
        comparison.blocks(number - 60..=number);
        comparison.finish(ANVIL);
    }
}

/// A rollback followed at once by another branch is one reorg, to a lower head.
#[test]
fn a_session_is_notified_of_a_lower_head() {
    let mut anvil = anvil_with_traffic("node-lower", 32, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    let mut sessions = sessions_at(&servers, anvil.head());
    mine_and_wait(&mut anvil, &servers, &mut sessions);
    let oldest = anvil.head().0 - 126;
    let seen = anvil.head();
    anvil.roll_back(20);
    anvil.mine_others(7);
    let (number, head) = anvil.head();
    wait_heads(&servers, &mut sessions, (number, head));
    // Who has seen the higher head does not go back. A hash alone says that it was replaced.
    for server in &servers {
        for (min_block, status) in [
            (format!("{}, {}", seen.0, seen.1), 503),
            (seen.1.to_string(), 200),
            (format!("{number}, {head}"), 200),
        ] {
            let mut client = server.connect();
            let body = request(1, "eth_blockNumber", &json!([])).to_string();
            client.begin_post_after(&min_block, body.as_bytes());
            check(&min_block, &client.receive().status, &status);
        }
    }
    for notified in &mut sessions {
        notified.read_from(oldest, head, logs_from(&anvil, oldest));
        while notified.reorg.is_none() {
            notified.read();
        }
        // nearhead may have seen the first new blocks by themselves, or the rollback before them.
        let (reverted, applied) = notified.reorg.take().unwrap();
        check("reverted", &reverted, &20);
        assert!((0..=7).contains(&applied), "{applied}");
        notified.check(&anvil, oldest);
    }
}

/// The new chain shares no block with the window: the window is reset, and sessions are closed
/// because no path leads from their blocks to the new head.
#[test]
fn a_reorg_deeper_than_the_window_closes_sessions() {
    // Nothing is finalized: what is cannot be reverted.
    let mut anvil = Anvil::start(&["--no-mining", "--slots-in-an-epoch", "1000"]);
    anvil.mine(250);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    anvil.mine(1);
    let mut sessions = sessions_at(&servers, anvil.head());
    let replaced = anvil.head().1;
    let known = sessions[0].heads.last().unwrap()["hash"].clone();
    mine_and_wait(&mut anvil, &servers, &mut sessions);
    anvil.reorg(200);
    let (number, head) = anvil.head();
    // The sessions are closed.
    wait_heads(&servers, &mut [], (number, head));
    for (server, notified) in servers.iter().zip(&mut sessions) {
        wait_until("ready", || server.get_admin("/ready").status == 200);
        let mut comparison = Comparison::between(server, anvil.address);
        comparison.chain();
        comparison.blocks(number - 127..=number);
        comparison.finish(ANVIL_EMPTY);
        let params = json!([replaced, false]);
        let replaced_block = server.connect().result("eth_getBlockByHash", &params);
        check("the replaced block", &replaced_block, &Value::Null);
        let (code, reason) = notified.session.close_code();
        check("the close code", &code, &1013);
        assert!(!reason.is_empty(), "closed without a reason");
        // A subscription since a block of the old chain is refused; the error names the oldest
        // block that it may begin after.
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        let oldest = json!([format!("{:#x}", number - 127), false]);
        let oldest = anvil.connect().result("eth_getBlockByNumber", &oldest);
        for kind in [json!(["newHeads"]), json!(["logs", {}]), json!(["reorgs"])] {
            let mut params = kind.clone();
            params.as_array_mut().unwrap().resize(2, Value::Null);
            params.as_array_mut().unwrap().push(json!({"since": known}));
            let answer = session.call("eth_subscribe", &params);
            let error = &answer["error"];
            let data = json!({"oldest": {"number": oldest["number"], "hash": oldest["hash"]}});
            check(&kind.to_string(), &error["code"], &json!(4444));
            check(&kind.to_string(), &error["data"], &data);
        }
    }
    // A new session is notified of the blocks that follow.
    anvil.mine(1);
    let (number, head) = anvil.head();
    let mut sessions = sessions_at(&servers, (number, head));
    for notified in &mut sessions {
        notified.read_to((number, head), logs_of_window(&anvil, number));
    }
    anvil.mine(3);
    let (number, head) = anvil.head();
    for notified in &mut sessions {
        notified.read_to((number, head), logs_of_window(&anvil, number));
        notified.check(&anvil, number - 120);
    }
}
