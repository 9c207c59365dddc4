//! Nodes that hang, cut, refuse and lie about transactions, and how many calls are in progress.

use alloy_primitives::keccak256;
use serde_json::json;

use super::{SEND, SENDS, anvil, call, forwarded, pending, transfer};
use crate::{
    harness::{Connection, KEY, check, request, wait_until},
    node::{counted, faults, follow_with, http, ws},
    upstreams::proxy::{Change, Fault, Lie, Proxy, Refusal},
};

fn lie(methods: &'static [&'static str], change: Change) -> Fault {
    Fault::Lie(Lie::about(methods, "", change))
}

const COUNT: &[&str] = &["eth_getTransactionCount"];

const NO_ANSWER: &str = "no node answered, although the call may have reached one";

#[test]
fn a_node_that_fails_is_answered_for() {
    let (anvil, wallet) = anvil();
    let proxy = Proxy::to(&[anvil.address]);
    let secret = "key-0123456789abcdef";
    let url = format!("{}#X-Api-Key={secret}", http(proxy.address));
    let server = follow_with(&[url], &[&SENDS[..], &["--node-timeout", "2s"]].concat());
    let mut ours = server.connect();
    let raw = transfer(&wallet, 77, 0);
    let hash = json!(keccak256(&raw));
    let limited = Refusal::TooManyRequests {
        retry_after_seconds: 1,
    };
    let no_answer = json!({"code": -32_000, "message": NO_ANSWER});
    let lacked = "the method eth_sendRawTransaction does not exist/is not available";
    for (fault, expected, is_expected_marked) in [
        (Fault::Stall(SEND), Err(no_answer), false),
        (
            Fault::Refuse(Some(SEND), Refusal::NoMethod),
            Err(json!({"code": -32_601, "message": lacked})),
            true,
        ),
        // It keeps nobody from the node: the next ones are sent.
        (
            Fault::Refuse(Some(SEND), Refusal::LimitExceeded),
            Err(json!({"code": -32_005, "message": "limit exceeded"})),
            true,
        ),
        // The first answer that is not stopped reaches the pool; the hash is computed here.
        (lie(&[SEND], Change::OtherValue), Ok(hash.clone()), true),
        (lie(&[SEND], Change::Null), Ok(hash), true),
    ] {
        let case = format!("{fault:?}");
        proxy.fail(vec![fault]);
        let (status, answer, is_marked) = call(&mut ours, SEND, &json!([raw]));
        let text = answer.to_string();
        assert!(
            !text.contains(secret) && !text.contains("127.0.0.1"),
            "{text}"
        );
        check(&case, &(status, is_marked), &(200, is_expected_marked));
        let (member, expected) = match &expected {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        check(&case, &&answer[member], &expected);
        proxy.heal();
    }
    proxy.fail(vec![Fault::Refuse(Some(SEND), limited)]);
    let (status, ..) = call(&mut ours, SEND, &json!([raw]));
    check("limited", &status, &503);
    // What clients ask for is no fault of the node.
    check("faults", &faults(&server, 0).len(), &0);
    assert!(forwarded(&server, SEND, "unanswered") >= 1);
    assert!(forwarded(&server, SEND, "not_admitted") >= 1);
}

/// A count of a node that lies, fails or is away is never below ours.
#[test]
fn a_pending_count_is_at_least_ours() {
    let (mut anvil, wallet) = anvil();
    anvil.send(&transfer(&wallet, 77, 0));
    anvil.mine(1);
    let proxy = Proxy::to(&[anvil.address]);
    let arguments = [&SENDS[..], &["--node-timeout", "1s"]].concat();
    let server = follow_with(&[http(proxy.address)], &arguments);
    let mut ours = server.connect();
    ours.result(COUNT[0], &json!([wallet.address, "latest"]));
    for (fault, expected, is_marked) in [
        (None, "0x1", true),
        (Some(lie(COUNT, Change::Becomes("\"0x0\""))), "0x1", true),
        (Some(lie(COUNT, Change::Becomes("\"0x9\""))), "0x9", true),
        (Some(lie(COUNT, Change::Becomes("\"nine\""))), "0x1", false),
        (Some(lie(COUNT, Change::Null)), "0x1", false),
        (Some(Fault::Stall(COUNT[0])), "0x1", false),
        (
            Some(Fault::Refuse(Some(COUNT[0]), Refusal::NoMethod)),
            "0x1",
            false,
        ),
        (
            Some(Fault::Refuse(Some(COUNT[0]), Refusal::LimitExceeded)),
            "0x1",
            false,
        ),
    ] {
        let case = format!("{fault:?}");
        proxy.fail(fault.into_iter().collect());
        let (status, answer, marked) = call(&mut ours, COUNT[0], &pending(wallet.address));
        check(
            &case,
            &(status, &answer["result"], marked),
            &(200, &json!(expected), is_marked),
        );
    }
}

/// Of two nodes, one suffices: one that is away, hangs or refuses keeps no transaction back.
#[test]
fn one_node_of_two_suffices() {
    let (anvil, wallet) = anvil();
    for url in [http, ws] {
        let proxies = [(); 2].map(|()| Proxy::to(&[anvil.address]));
        let urls = proxies.each_ref().map(|proxy| url(proxy.address));
        let arguments = [&SENDS[..], &["--quorum", "1", "--node-timeout", "20s"]].concat();
        let server = follow_with(&urls, &arguments);
        let mut ours = server.connect();
        let raw = transfer(&wallet, 77, 0);
        for (at, fault) in [
            (0, Fault::Stall(SEND)),
            (1, Fault::Stall(SEND)),
            (0, Fault::Refuse(Some(SEND), Refusal::NoMethod)),
            (1, Fault::Refuse(Some(SEND), Refusal::LimitExceeded)),
        ] {
            proxies[at].fail(vec![fault]);
            let answer = ours.result(SEND, &json!([raw]));
            check("sent", &answer, &json!(keccak256(&raw)));
            proxies[at].heal();
            proxies[at].disconnect();
        }
        assert!(proxies.iter().all(|proxy| proxy.calls(SEND) >= 2));
    }
}

/// A refusal counts once no other node can have taken the transaction.
#[test]
fn a_refusal_is_final_only_if_no_node_may_have_taken_it() {
    let (anvil, wallet) = anvil();
    let proxies = [(); 2].map(|()| Proxy::to(&[anvil.address]));
    let urls = proxies.each_ref().map(|proxy| http(proxy.address));
    let arguments = [&SENDS[..], &["--quorum", "1", "--node-timeout", "1s"]].concat();
    let server = follow_with(&urls, &arguments);
    let mut ours = server.connect();
    let raw = transfer(&wallet, 77, 0);
    let refused = || Fault::Refuse(Some(SEND), Refusal::LimitExceeded);
    let lacked = || Fault::Refuse(Some(SEND), Refusal::NoMethod);
    let stalled = || Fault::Stall(SEND);
    for (faults, code, is_marked) in [
        ([refused(), refused()], -32_005, true),
        ([refused(), lacked()], -32_005, true),
        ([lacked(), lacked()], -32_601, true),
        ([stalled(), refused()], -32_000, false),
        ([refused(), stalled()], -32_000, false),
        ([lacked(), stalled()], -32_000, false),
    ] {
        let case = format!("{faults:?}");
        for (proxy, fault) in proxies.iter().zip(faults) {
            proxy.fail(vec![fault]);
        }
        let (status, answer, found) = call(&mut ours, SEND, &json!([raw]));
        check(
            &case,
            &(status, &answer["error"]["code"], found),
            &(200, &json!(code), is_marked),
        );
    }
}

/// When all permits of a tenant are taken, further calls are refused, and reads go on.
#[test]
fn calls_in_progress_are_bounded() {
    let (anvil, wallet) = anvil();
    let proxy = Proxy::to(&[anvil.address]);
    let arguments = [
        &SENDS[..],
        &["--node-timeout", "5m", "--node-concurrency", "64"],
    ]
    .concat();
    let server = follow_with(&[http(proxy.address)], &arguments);
    proxy.fail(vec![Fault::Stall(SEND)]);
    let raw = transfer(&wallet, 77, 0);
    let send = request(1, SEND, &json!([raw])).to_string();
    let in_use = "nearhead_permits_in_use{kind=\"forwarded_calls\"} ";
    let available = "nearhead_permits_available{kind=\"forwarded_calls\"} ";
    let all = counted(&server, available);
    let most = all - all / 4;
    let waiting: Vec<Connection> = (0..most)
        .map(|_| {
            let mut ours = server.connect();
            let request = ours.request(&["content-type: application/json"], send.as_bytes());
            ours.send(&request);
            ours
        })
        .collect();
    wait_until("all are in progress", || counted(&server, in_use) == most);
    let mut ours = server.connect();
    for method in [SEND, "eth_getTransactionCount"] {
        let params = match method {
            SEND => json!([raw]),
            _ => pending(wallet.address),
        };
        let (status, answer, is_marked) = call(&mut ours, method, &params);
        check(method, &(status, is_marked), &(503, false));
        check(method, &answer["error"]["code"], &json!(-32_002));
    }
    ours.result("eth_blockNumber", &json!([]));
    ours.result(
        "eth_getTransactionCount",
        &json!([wallet.address, "latest"]),
    );
    // The transactions go on to the node when their clients have left.
    drop(waiting);
    proxy.heal();
    wait_until("the calls end", || counted(&server, in_use) == 0);
    let mut again = Connection::open(server.address, &format!("/v3/{KEY}"));
    wait_until("a transaction is taken", || {
        let (_, answer, _) = call(&mut again, SEND, &json!([raw]));
        answer["result"] == json!(keccak256(&raw))
    });
}
