//! Subscriptions over real sockets, on a chain that reorganizes itself.

use serde_json::{Value, json};

use super::{client::Client, open};
use crate::harness::{Server, check};

const HASH: &str = "0xabababababababababababababababababababababababababababababababab";

/// A block every 250 ms, and every fourth step replaces three.
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

fn subscribe(session: &mut Client, params: &Value) -> String {
    let answer = session.call("eth_subscribe", params);
    let id = answer["result"].as_str();
    let id = id
        .unwrap_or_else(|| panic!("{params}: {answer}"))
        .to_owned();
    assert!(id.len() == 34 && id.starts_with("0x"), "{id}");
    id
}

#[test]
fn whoever_is_told_of_a_block_can_read_it_everywhere() {
    let server = reorganizing();
    let (mut session, mut http, mut other) = (open(&server), server.connect(), open(&server));
    let heads = subscribe(&mut session, &json!(["newHeads"]));
    let logs = subscribe(&mut session, &json!(["logs", {}]));
    let reorgs = subscribe(&mut session, &json!(["reorgs"]));
    let mut last: Option<Value> = None;
    let (mut seen_reorgs, mut seen_removed, mut seen_logs) = (0, 0, 0);
    while seen_reorgs < 3 || seen_removed == 0 || seen_logs == 0 {
        let told = session.notification();
        let result = &told["result"];
        let id = told["subscription"].as_str().unwrap();
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
            check("the third", &id, &reorgs.as_str());
            seen_reorgs += 1;
            let blocks = |name: &str| result[name].as_array().unwrap().len();
            check("reverted", &blocks("reverted"), &3);
            check("applied", &blocks("applied"), &4);
        }
    }
}

#[test]
fn a_subscription_goes_on_from_the_block_that_a_client_holds() {
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
        // The session ends without a farewell, and blocks go on without it.
        drop(session);
        let mut waiting = open(&server);
        subscribe(&mut waiting, &json!(["newHeads"]));
        for _ in 0..4 {
            waiting.notification();
        }
    }
    assert!(chain.len() > 20, "{}", chain.len());
}

#[test]
fn what_cannot_be_resumed_is_said() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    let unknown = format!("0x{}", "ab".repeat(32));
    let answer = session.call("eth_subscribe", &json!(["newHeads", {"since": unknown}]));
    let genesis = session.call("eth_getBlockByNumber", &json!(["0x0", false]))["result"].clone();
    let oldest = json!({"number": "0x0", "hash": genesis["hash"]});
    check("code", &answer["error"]["code"], &json!(4444));
    check("oldest", &answer["error"]["data"]["oldest"], &oldest);
    // From the genesis on there is a whole chain to be told of.
    let params = json!(["newHeads", null, {"since": genesis["hash"]}]);
    subscribe(&mut session, &params);
    for number in 1..=0x36 {
        let head = session.notification()["result"]["number"].clone();
        check("number", &head, &json!(format!("{number:#x}")));
    }
    let filter = json!({"topics": []});
    subscribe(
        &mut session,
        &json!(["logs", filter, {"since": genesis["hash"]}]),
    );
    let all = session.call(
        "eth_getLogs",
        &json!([{"fromBlock": "0x0", "toBlock": "latest"}]),
    );
    for log in all["result"].as_array().unwrap() {
        check("log", &session.notification()["result"], log);
    }
}

#[test]
fn subscriptions_are_asked_for_and_ended() {
    let server = Server::execution_apis(&[]);
    let (mut session, mut http) = (open(&server), server.connect());
    let code = |answer: &Value| answer["error"]["code"].clone();
    for (method, params, expected) in [
        ("eth_subscribe", json!([]), -32602),
        ("eth_subscribe", json!(["newPendingTransactions"]), -32602),
        ("eth_subscribe", json!(["syncing"]), -32602),
        ("eth_subscribe", json!([1]), -32602),
        ("eth_subscribe", json!(["logs", {"address": "0x1"}]), -32602),
        (
            "eth_subscribe",
            json!(["logs", {"address": vec![format!("0x{}", "11".repeat(20)); 5_001]}]),
            -32602,
        ),
        (
            "eth_subscribe",
            json!(["newHeads", {"since": "0x1"}]),
            -32602,
        ),
        (
            "eth_subscribe",
            json!(["newHeads", {"Since": HASH}]),
            -32602,
        ),
        (
            "eth_subscribe",
            json!(["newHeads", {"since": HASH, "until": HASH}]),
            -32602,
        ),
        ("eth_subscribe", json!(["logs", {"since": HASH}]), -32602),
        ("eth_subscribe", json!(["newHeads", null, null, 1]), -32602),
        ("eth_unsubscribe", json!([]), -32602),
        ("eth_unsubscribe", json!(["0x1"]), -32000),
    ] {
        let answer = session.call(method, &params);
        check(&answer.to_string(), &code(&answer), &json!(expected));
    }
    for method in ["eth_subscribe", "eth_unsubscribe"] {
        let answer = http.call(method, &json!(["newHeads"]));
        check("over HTTP", &code(&answer), &json!(-32601));
        check(
            "over HTTP",
            &answer["error"]["message"],
            &json!("notifications not supported"),
        );
    }
    let ids: Vec<String> = (0..128)
        .map(|_| subscribe(&mut session, &json!(["newHeads"])))
        .collect();
    let answer = session.call("eth_subscribe", &json!(["newHeads"]));
    check("one too many", &code(&answer), &json!(-32000));
    check("counted", &server.metric("nearhead_subscriptions"), &128.0);
    let mut stranger = open(&server);
    let answer = stranger.call("eth_unsubscribe", &json!([ids[0]]));
    check("of another session", &code(&answer), &json!(-32000));
    for id in &ids {
        let answer = session.call("eth_unsubscribe", &json!([id]));
        check("ended", &answer["result"], &json!(true));
    }
    check("counted", &server.metric("nearhead_subscriptions"), &0.0);
    let last = subscribe(&mut session, &json!(["reorgs"]));
    // Nobody wants to know, and it is ended all the same.
    session.text(
        &json!({"jsonrpc": "2.0", "method": "eth_unsubscribe", "params": [last]}).to_string(),
    );
    let answer = session.call("eth_unsubscribe", &json!([last]));
    check("ended already", &code(&answer), &json!(-32000));
    // 5,000 addresses and topics in all, however they are spread.
    let filter = |values: usize| {
        let topics = vec![vec![HASH; values]];
        json!(["logs", {"topics": topics}])
    };
    let half = subscribe(&mut session, &filter(2_500));
    subscribe(&mut session, &filter(2_500));
    let answer = session.call("eth_subscribe", &filter(1));
    check("too many values", &code(&answer), &json!(-32000));
    session.call("eth_unsubscribe", &json!([half]));
    subscribe(&mut session, &filter(1));
}
