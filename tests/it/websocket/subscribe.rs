//! eth_subscribe and eth_unsubscribe: parameters, limits, and resuming.

use serde_json::{Value, json};

use super::{open, subscriptions::subscribe};
use crate::harness::{Server, check};

const HASH: &str = "0xabababababababababababababababababababababababababababababababab";

#[test]
fn a_subscription_that_cannot_be_resumed_gets_the_oldest_block() {
    let server = Server::execution_apis(&[]);
    let mut session = open(&server);
    let unknown = format!("0x{}", "ab".repeat(32));
    let answer = session.call("eth_subscribe", &json!(["newHeads", {"since": unknown}]));
    let genesis = session.call("eth_getBlockByNumber", &json!(["0x0", false]))["result"].clone();
    let oldest = json!({"number": "0x0", "hash": genesis["hash"]});
    check("code", &answer["error"]["code"], &json!(4444));
    check("oldest", &answer["error"]["data"]["oldest"], &oldest);
    // Resuming from the genesis replays the whole chain.
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
fn subscribe_and_unsubscribe_check_parameters_and_limits() {
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
    let mut other = open(&server);
    let answer = other.call("eth_unsubscribe", &json!([ids[0]]));
    check("of another session", &code(&answer), &json!(-32000));
    for id in &ids {
        let answer = session.call("eth_unsubscribe", &json!([id]));
        check("ended", &answer["result"], &json!(true));
    }
    check("counted", &server.metric("nearhead_subscriptions"), &0.0);
    let last = subscribe(&mut session, &json!(["reorgs"]));
    // A request without an id gets no answer, and still ends the subscription.
    session.text(
        &json!({"jsonrpc": "2.0", "method": "eth_unsubscribe", "params": [last]}).to_string(),
    );
    let answer = session.call("eth_unsubscribe", &json!([last]));
    check("ended already", &code(&answer), &json!(-32000));
    // At most 5,000 addresses and topics a session, over all subscriptions.
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
