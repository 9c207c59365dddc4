//! Every fault has its effect and no other.

use std::{
    io::{ErrorKind, Read},
    time::Instant,
};

use super::*;
use crate::{
    harness::{Connection, PATIENCE, check, wait_until},
    upstreams::{Anvil, quantity},
    websocket::client::Client,
};

/// An anvil with this many blocks.
fn upstream(blocks: u64) -> Anvil {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(blocks);
    anvil
}

fn connect(proxy: &Proxy) -> Connection {
    Connection::open(proxy.address, "/")
}

fn head(connection: &mut Connection) -> u64 {
    quantity(&connection.result("eth_blockNumber", &json!([])))
}

/// Asks for the head, and returns the raw bytes of the answer.
fn raw_answer(connection: &mut Connection) -> Result<String, ErrorKind> {
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#;
    let request = connection.request(&["content-type: application/json"], call);
    connection.send(&request);
    let mut text = String::new();
    let read = connection.stream().read_to_string(&mut text);
    read.map(|_| text).map_err(|error| error.kind())
}

fn lie(path: &str, change: Change) -> Fault {
    Fault::Lie(Lie::about(
        &["eth_getBlockByNumber", "eth_subscription"],
        path,
        change,
    ))
}

#[test]
fn everything_is_passed_on_and_counted() {
    let anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    let (mut direct, mut through) = (anvil.connect(), connect(&proxy));
    for params in [json!(["latest", true]), json!(["0x9", true])] {
        let call = |connection: &mut Connection| connection.call("eth_getBlockByNumber", &params);
        check("block", &call(&mut through), &call(&mut direct));
    }
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []},
        {"jsonrpc": "2.0", "id": 2, "method": "eth_blockNumber", "params": []},
    ]);
    let post = |connection: &mut Connection| connection.post(batch.to_string()).body;
    check("batch", &post(&mut through), &post(&mut direct));
    let mut session = Client::open(proxy.address, "/");
    let number = session.call("eth_blockNumber", &json!([]));
    check("session", &number["result"], &json!("0x3"));
    for (method, calls) in [
        ("eth_getBlockByNumber", 2),
        ("eth_chainId", 1),
        ("eth_blockNumber", 2),
        ("eth_getProof", 0),
    ] {
        check(method, &proxy.calls(method), &calls);
    }
    check("faults", &proxy.applied(), &0);
}

#[test]
fn answers_are_delayed_cut_and_withheld() {
    let mut anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    let latency = Duration::from_millis(150);
    proxy.fail(vec![Fault::Slow(latency)]);
    let asked = Instant::now();
    check("slow", &head(&mut connect(&proxy)), &3);
    assert!(asked.elapsed() >= latency, "{:?}", asked.elapsed());
    check("slow", &proxy.applied(), &1);

    proxy.fail(vec![Fault::Cut]);
    let text = raw_answer(&mut connect(&proxy)).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap();
    check("cut", &body, &r#"{"jsonrpc":"2.0","i"#);
    assert!(headers.contains("content-length: 39"), "{text}");
    let mut session = Client::open(proxy.address, "/");
    session.text(r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#);
    session.wait_end();
    check("cut", &proxy.applied(), &2);

    proxy.fail(vec![Fault::Freeze]);
    let mut frozen = connect(&proxy);
    let stream = frozen.stream();
    stream
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    check(
        "frozen",
        &raw_answer(&mut frozen),
        &Err(ErrorKind::WouldBlock),
    );
    frozen.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    wait_until("frozen", || proxy.applied() == 1);
    proxy.heal();
    frozen.wait_closed();
    let mut connection = connect(&proxy);
    check("healed", &head(&mut connection), &3);

    // Both of these connections, and none after the fault.
    proxy.fail(vec![Fault::BlackHole]);
    let mut swallowed = [connection, connect(&proxy)];
    for connection in &mut swallowed {
        let timeout = Some(Duration::from_millis(100));
        connection.stream().set_read_timeout(timeout).unwrap();
        let answer = raw_answer(connection);
        check("swallowed", &answer, &Err(ErrorKind::WouldBlock));
    }
    wait_until("swallowed", || proxy.applied() == 2);
    proxy.heal();
    for connection in &mut swallowed {
        let answer = raw_answer(connection);
        check("for good", &answer, &Err(ErrorKind::WouldBlock));
    }
    let mut connection = connect(&proxy);
    check("healed", &head(&mut connection), &3);

    proxy.disconnect();
    connection.wait_closed();
    // Another upstream is at the same address now.
    anvil.mine(1);
    let other = upstream(9);
    proxy.forward_to(&[other.address]);
    check("another upstream", &head(&mut connect(&proxy)), &9);
}

#[test]
fn lost_packets_are_late() {
    let anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    let (mut connection, mut session) = (connect(&proxy), Client::open(proxy.address, "/"));
    proxy.fail(vec![Fault::Loss {
        percent: 30,
        seed: 3,
    }]);
    let began = Instant::now();
    for _ in 0..4 {
        check("head", &head(&mut connection), &3);
        let number = session.call("eth_blockNumber", &json!([]));
        check("in a session", &quantity(&number["result"]), &3);
    }
    // Each message is one packet, and waits for the one before it.
    let lost = u32::try_from(proxy.applied()).unwrap();
    assert!(lost > 0 && began.elapsed() >= lost * Duration::from_millis(200));
    proxy.heal();
    check("healed", &head(&mut connection), &3);
}

#[test]
fn a_stalled_method_is_not_answered_and_others_are() {
    let anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    proxy.fail(vec![Fault::Stall("eth_chainId")]);
    let mut stalled = connect(&proxy);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
    let request = stalled.request(&["content-type: application/json"], call);
    stalled.send(&request);
    wait_until("stalled", || proxy.applied() == 1);
    check("another method", &head(&mut connect(&proxy)), &3);
    let mut session = Client::open(proxy.address, "/");
    session.text(r#"{"jsonrpc":"2.0","id":2,"method":"eth_chainId"}"#);
    let number = session.call("eth_blockNumber", &json!([]));
    check("in a session", &quantity(&number["result"]), &3);
    wait_until("stalled in a session", || proxy.applied() == 2);
    proxy.heal();
    stalled.wait_closed();
    check("healed", &head(&mut connect(&proxy)), &3);
}

#[test]
fn backends_answer_in_turn() {
    let (fresh, stale) = (upstream(5), upstream(2));
    let proxy = Proxy::to(&[fresh.address, stale.address]);
    let mut connection = connect(&proxy);
    let mut heads: Vec<u64> = (0..4).map(|_| head(&mut connection)).collect();
    check("in turn", &(heads[0], heads[1]), &(heads[2], heads[3]));
    heads.sort_unstable();
    check("both", &heads, &vec![2, 2, 5, 5]);
}

#[test]
fn lies_are_applied_and_counted() {
    let mut anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    let (mut direct, mut through) = (anvil.connect(), connect(&proxy));
    let params = json!(["latest", false]);
    let truth = direct.call("eth_getBlockByNumber", &params);
    proxy.fail(vec![lie("/stateRoot", Change::Removed)]);
    let mut changed = through.call("eth_getBlockByNumber", &params);
    check("removed", &changed["result"].get("stateRoot"), &None);
    changed["result"]["stateRoot"] = truth["result"]["stateRoot"].clone();
    check("nothing else", &changed, &truth);
    check("applied", &proxy.applied(), &1);

    // If there is nothing to change, nothing is counted.
    proxy.fail(vec![lie("/noSuchMember", Change::OtherValue)]);
    check(
        "not applied",
        &through.call("eth_getBlockByNumber", &params),
        &truth,
    );
    check("not applied", &proxy.applied(), &0);

    // In a notification.
    let mut session = Client::open(proxy.address, "/");
    session.call("eth_subscribe", &json!(["newHeads"]));
    proxy.fail(vec![lie("/number", Change::WrongType)]);
    anvil.mine(1);
    check(
        "session",
        &session.notification()["result"]["number"],
        &json!({"0x1": []}),
    );
    check("session", &proxy.applied(), &1);
    proxy.heal();
    anvil.mine(1);
    check(
        "healed",
        &session.notification()["result"]["number"],
        &json!("0x5"),
    );
}

#[test]
fn methods_are_refused() {
    let anvil = upstream(3);
    let proxy = Proxy::to(&[anvil.address]);
    let mut connection = connect(&proxy);
    let mut code = |refusal| {
        proxy.fail(vec![Fault::Refuse(Some("eth_getBlockReceipts"), refusal)]);
        check("another method", &head(&mut connection), &3);
        let code =
            connection.call("eth_getBlockReceipts", &json!(["latest"]))["error"]["code"].take();
        check("applied", &proxy.applied(), &1);
        code
    };
    check("no method", &code(Refusal::NoMethod), &json!(-32601));
    check("limit", &code(Refusal::LimitExceeded), &json!(-32005));

    let refusal = Refusal::TooManyRequests {
        retry_after_seconds: 7,
    };
    proxy.fail(vec![Fault::Refuse(None, refusal)]);
    let answer = connection.post(r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#);
    check("status", &answer.status, &429);
    check("header", &answer.header("retry-after"), &Some("7"));
    proxy.heal();
    wait_until("healed", || head(&mut connection) == 3);
}
