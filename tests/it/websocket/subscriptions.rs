//! Subscriptions over real sockets, on a chain that reorganizes itself.

use serde_json::{Value, json};

use super::{client::Client, open};
use crate::harness::{Server, check};

/// A block every 250 ms; every fourth step replaces three blocks.
fn reorganizing() -> Server {
    let chain = [
        "--block-time",
        "250ms",
        "--reorg-every",
        "4",
        "--reorg-depth",
        "3",
    ];
    Server::start(&chain)
}

fn number(head: &Value) -> u64 {
    let digits = head["number"].as_str().unwrap().strip_prefix("0x").unwrap();
    u64::from_str_radix(digits, 16).unwrap()
}

pub(super) fn subscribe(session: &mut Client, params: &Value) -> String {
    let answer = session.call("eth_subscribe", params);
    let id = answer["result"].as_str();
    let id = id
        .unwrap_or_else(|| panic!("{params}: {answer}"))
        .to_owned();
    assert!(id.len() == 34 && id.starts_with("0x"), "{id}");
    id
}

#[test]
fn a_notified_block_is_readable_everywhere() {
    let server = reorganizing();
    let (mut session, mut http, mut other) = (open(&server), server.connect(), open(&server));
    let heads = subscribe(&mut session, &json!(["newHeads"]));
    let logs = subscribe(&mut session, &json!(["logs", {}]));
    let reorgs = subscribe(&mut session, &json!(["reorgs"]));
    let mut last: Option<Value> = None;
    let (mut seen_reorgs, mut seen_removed, mut seen_logs) = (0, 0, 0);
    while seen_reorgs < 3 || seen_removed == 0 || seen_logs == 0 {
        let notification = session.notification();
        let result = &notification["result"];
        let id = notification["subscription"].as_str().unwrap();
        if id == heads {
            let hash = result["hash"].clone();
            let block = http.call("eth_getBlockByHash", &json!([hash, false]))["result"].clone();
            let members = result.as_object().unwrap();
            for (name, value) in members {
                check(name, &block[name], value);
            }
            let elsewhere = other.call("eth_getBlockByHash", &json!([hash, false]));
            check("on another session", &elsewhere["result"], &block);
            assert!(
                members.contains_key("withdrawalsRoot") && !members.contains_key("transactions")
            );
            if let Some(last) = &last {
                let follows = result["parentHash"] == last["hash"];
                let is_reorg = number(result) <= number(last);
                assert!(follows || is_reorg, "{result} after {last}");
            }
            last = Some(result.clone());
        } else if id == logs {
            seen_logs += 1;
            seen_removed += usize::from(result["removed"] == true);
            let filter = json!([{"blockHash": result["blockHash"]}]);
            let found = http.call("eth_getLogs", &filter)["result"].clone();
            let mut log = result.clone();
            log["removed"] = false.into();
            assert!(found.as_array().unwrap().contains(&log), "{log}");
        } else {
            check("the third subscription", &id, &reorgs.as_str());
            seen_reorgs += 1;
            let blocks = |name: &str| result[name].as_array().unwrap().len();
            check("reverted", &blocks("reverted"), &3);
            check("applied", &blocks("applied"), &4);
        }
    }
}

#[test]
fn a_subscription_resumes_from_the_clients_last_block() {
    let server = reorganizing();
    let mut chain: Vec<Value> = Vec::new();
    let mut since: Option<Value> = None;
    for _ in 0..6 {
        let mut session = open(&server);
        let params = match &since {
            None => json!(["newHeads"]),
            Some(hash) => json!(["newHeads", null, {"since": hash}]),
        };
        subscribe(&mut session, &params);
        for _ in 0..7 {
            let head = session.notification()["result"].clone();
            while let Some(last) = chain.last() {
                if last["hash"] == head["parentHash"] {
                    break;
                }
                assert!(
                    number(last) >= number(&head),
                    "a gap between {last} and {head}"
                );
                chain.pop();
            }
            since = Some(head["hash"].clone());
            chain.push(head);
        }
        // The connection drops without a close frame, and the chain moves on.
        drop(session);
        let mut waiting = open(&server);
        subscribe(&mut waiting, &json!(["newHeads"]));
        for _ in 0..4 {
            waiting.notification();
        }
    }
    assert!(chain.len() > 20, "{}", chain.len());
}
