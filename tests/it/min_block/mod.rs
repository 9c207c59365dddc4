//! Clients that say which block they have seen: `X-Nearhead-Block`, `X-Nearhead-Min-Block` and
//! `minBlock`.

#[cfg(feature = "all-tests")]
pub(crate) mod examples;
mod places;
pub(crate) mod round_robin;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    harness::{self, Connection, KEY, Response, Server, check, quantity, request},
    websocket::client::Client,
};

/// Longer than any test takes: what waits so long fails the test.
const LONG_WAIT: [&str; 2] = ["--min-block-wait", "10s"];

/// Half of it: what is refused at once is refused before.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Posts a body that names this block in the header.
#[track_caller]
fn post(connection: &mut Connection, min_block: &str, body: &Value) -> Response {
    connection.begin_post_after(min_block, body.to_string().as_bytes());
    connection.receive()
}

fn number_request() -> Value {
    request(1, "eth_blockNumber", &json!([]))
}

/// A request that names this block in its envelope.
fn with_member(min_block: &Value) -> Value {
    let mut request = number_request();
    request["minBlock"] = min_block.clone();
    request
}

/// The block that an answer says it was made from, and its number.
#[track_caller]
fn seen(response: &Response) -> (u64, String) {
    let block = response.header("x-nearhead-block").unwrap();
    let (number, hash) = block.split_once(", ").unwrap();
    assert_eq!(hash.len(), 66, "{block}");
    (number.parse().unwrap(), block.to_owned())
}

fn open_session(server: &Server, key: &str) -> Client {
    Client::open(server.address, &format!("/ws/v3/{key}"))
}

/// The error of a request that wants a block that is not reached.
fn not_reached(head: &Value, wanted: &Value) -> Value {
    json!({
        "code": -32002,
        "message": "resource unavailable, the min block is not reached yet",
        "data": {"head": {"number": head["number"], "hash": head["hash"]}, "wanted": wanted},
    })
}

#[track_caller]
fn check_refused(case: &str, response: &Response, error: &Value) {
    let answer = harness::json(&response.body);
    check(case, &response.status, &503);
    check(case, &response.header("retry-after"), &Some("1"));
    check(case, &answer["error"], error);
    let head = quantity(&error["data"]["head"]["number"]);
    check(case, &seen(response).0, &head);
}

/// Whatever becomes of a request, once its key is accepted.
#[test]
fn every_answer_names_the_head() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let (_, named) = seen(&connection.post(number_request().to_string()));
    let whole = json!([{"fromBlock": "earliest", "toBlock": "latest"}]);
    let notification = json!({"jsonrpc": "2.0", "method": "eth_blockNumber"});
    let answers = [
        ("result", number_request().to_string()),
        ("streamed", request(1, "eth_getLogs", &whole).to_string()),
        (
            "no such method",
            request(1, "eth_none", &json!([])).to_string(),
        ),
        ("params", request(1, "eth_getProof", &json!([])).to_string()),
        ("batch", json!([number_request(), 1]).to_string()),
        ("empty batch", "[]".to_owned()),
        (
            "batch of too many",
            json!(vec![number_request(); 2_000]).to_string(),
        ),
        ("notification", notification.to_string()),
        ("no JSON", "{".to_owned()),
        ("min block", with_member(&json!("?")).to_string()),
    ];
    for (case, body) in answers {
        let response = connection.post(body);
        check(case, &response.status, &200);
        check(case, &seen(&response).1, &named);
    }
    let text = format!(
        "POST /v3/{KEY} HTTP/1.1\r\nhost: nearhead\r\ncontent-type: text/plain\r\n\
         content-length: 2\r\n\r\n{{}}"
    );
    connection.send(text.as_bytes());
    let refused = connection.receive();
    check("content type", &refused.status, &415);
    check("content type", &seen(&refused).1, &named);
    let refused = connection.post(" ".repeat((5 << 20) + 1));
    check("too large", &refused.status, &413);
    check("too large", &seen(&refused).1, &named);
    let server = Server::start(&["--block-time", "0s", "--rate-limit", "1"]);
    let mut connection = server.connect();
    let response = loop {
        let response = connection.post(number_request().to_string());
        if response.status != 200 {
            break response;
        }
    };
    check("quota", &response.status, &429);
    check("quota", &seen(&response).1, &named);
}

/// A chain that stays as it is: what is reached, what is late, and what cannot be read.
#[test]
fn a_block_is_reached_late_or_unreadable() {
    let server = Server::start(&["--block-time", "0s", "--min-block-wait", "100ms"]);
    let mut connection = server.connect();
    let block = |connection: &mut Connection, at: &str| {
        connection.result("eth_getBlockByNumber", &json!([at, false]))
    };
    let head = block(&mut connection, "latest");
    let (head_number, head_hash) = (quantity(&head["number"]), head["hash"].as_str().unwrap());
    let oldest = block(&mut connection, "0x0");
    let named = format!("{head_number}, {head_hash}");
    let unknown = format!("0x{}", "ab".repeat(32));
    let next = head_number + 1;
    for min_block in [
        "0",
        &head_number.to_string(),
        &format!("{head_number:#x}"),
        head_hash,
        &named,
        oldest["hash"].as_str().unwrap(),
        // It was replaced before this process saw it.
        &format!("{}, {unknown}", head_number - 1),
    ] {
        let response = post(&mut connection, min_block, &number_request());
        check(min_block, &response.status, &200);
        check(min_block, &seen(&response).1, &named);
        let member = with_member(&json!(min_block));
        let response = connection.post(member.to_string());
        check(min_block, &response.status, &200);
        check(min_block, &seen(&response).1, &named);
    }
    let hex = format!("{next:#x}");
    for (min_block, wanted) in [
        (next.to_string(), json!({"number": hex})),
        (unknown.clone(), json!({"hash": unknown})),
        (
            format!("{next}, {unknown}"),
            json!({"number": hex, "hash": unknown}),
        ),
        // A sibling of the head.
        (
            format!("{head_number}, {unknown}"),
            json!({"number": head["number"], "hash": unknown}),
        ),
    ] {
        let error = not_reached(&head, &wanted);
        let response = post(&mut connection, &min_block, &number_request());
        check_refused(&min_block, &response, &error);
        check(&min_block, &harness::json(&response.body)["id"], &json!(1));
        let response = connection.post(with_member(&json!(min_block)).to_string());
        check_refused(&min_block, &response, &error);
        let mut session = open_session(&server, KEY);
        session.text(&with_member(&json!(min_block)).to_string());
        check(&min_block, &session.answer()["error"], &error);
    }
    // Of a batch, and of the header beside it, the strictest block decides.
    let items = [json!(head_number), json!(next), json!(1)].map(|min| with_member(&min));
    let error = not_reached(&head, &json!({"number": hex}));
    let response = connection.post(json!(items).to_string());
    check_refused("batch", &response, &error);
    let response = post(&mut connection, &next.to_string(), &json!([items[0]]));
    check_refused("header of a batch", &response, &error);
    let late = server.metric(r#"nearhead_min_block_waits_total{outcome="late"}"#);
    check("late", &late, &14.0);

    let invalid = json!({
        "code": -32600,
        "message": "invalid min block, want a block's number, its hash, or both with a comma \
                    between them",
    });
    for min_block in ["latest", "", "-1", "1, 2"] {
        let response = post(&mut connection, min_block, &number_request());
        let answer = harness::json(&response.body);
        check(min_block, &response.status, &200);
        check(min_block, &answer["error"], &invalid);
        check(min_block, &answer["id"], &json!(1));
    }
    // Only the item is refused.
    let items = [with_member(&json!("latest")), with_member(&json!(1))];
    let response = connection.post(json!(items).to_string());
    let answers = harness::json(&response.body);
    check("item", &answers[0]["error"], &invalid);
    check("other item", &answers[1]["result"], &head["number"]);
    // A batch of notifications has no body, and says from which head it was made.
    let response = connection.post(r#"{"jsonrpc":"2.0","method":"eth_blockNumber"}"#);
    check("body", &response.body.len(), &0);
    check("header", &seen(&response).1, &named);
    // A script of a web page may send the one header and read the other.
    let origin = [
        "origin: https://a.example",
        "content-type: application/json",
    ];
    let request = connection.request(&origin, number_request().to_string().as_bytes());
    connection.send(&request);
    let response = connection.receive();
    let exposed = response.header("access-control-expose-headers").unwrap();
    let is_exposed = exposed.split(", ").any(|name| name == "x-nearhead-block");
    assert!(is_exposed, "{exposed}");
    connection.send(
        format!("OPTIONS /v3/{KEY} HTTP/1.1\r\nhost: localhost\r\n{}\r\naccess-control-request-headers: x-nearhead-min-block\r\n\r\n", origin[0])
            .as_bytes(),
    );
    let response = connection.receive();
    let allowed = response.header("access-control-allow-headers").unwrap();
    assert!(allowed.split(", ").any(|name| name == "*"), "{allowed}");
}

/// A chain that grows: who waits is answered when the block comes, and each answer names the head
/// that it was made from.
#[test]
fn a_request_waits_until_its_block_comes() {
    let server = Server::start(&[&["--block-time", "250ms"][..], &LONG_WAIT].concat());
    let mut connection = server.connect();
    let mut session = open_session(&server, KEY);
    // A second away, so that it is waited for on a busy machine too.
    let next =
        |connection: &mut Connection| seen(&connection.post(number_request().to_string())).0 + 4;
    // In the header, over HTTP and with a body that is parsed on another thread.
    let mut large = number_request();
    large["padding"] = json!("x".repeat(20_000));
    for body in [number_request(), large] {
        let wanted = next(&mut connection);
        let response = post(&mut connection, &wanted.to_string(), &body);
        let (head, _) = seen(&response);
        let answer = harness::json(&response.body);
        assert!(head >= wanted, "{head} of {wanted}");
        check("answer", &quantity(&answer["result"]), &head);
    }
    // In the envelope: of a session, whose other messages are answered meanwhile; of a batch.
    let wanted = next(&mut connection);
    session.text(&with_member(&json!(wanted)).to_string());
    session.text(&request(2, "eth_chainId", &json!([])).to_string());
    check("the other message", &session.answer()["id"], &json!(2));
    let answer = session.answer();
    assert!(
        quantity(&answer["result"]) >= wanted,
        "{answer} of {wanted}"
    );
    let wanted = next(&mut connection);
    let items = [number_request(), with_member(&json!(wanted))];
    let response = connection.post(json!(items).to_string());
    let (head, named) = seen(&response);
    assert!(head >= wanted, "{head} of {wanted}");
    for answer in harness::json(&response.body).as_array().unwrap() {
        check("an item", &quantity(&answer["result"]), &head);
    }
    let reached = server.metric(r#"nearhead_min_block_waits_total{outcome="reached"}"#);
    check("reached", &reached, &4.0);
    let waited = server.metric("nearhead_min_block_wait_seconds_count");
    check("waits", &waited, &4.0);
    // More than a window above the head, nothing is waited for.
    let begun = Instant::now();
    let response = post(
        &mut connection,
        &(head + 500).to_string(),
        &number_request(),
    );
    check("far above", &response.status, &503);
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    // The head that is named is that of the answer, also while it changes.
    let body = json!([
        number_request(),
        request(2, "eth_getBlockByNumber", &json!(["latest", false])),
    ]);
    let mut heads = vec![named];
    while heads.len() < 4 {
        let response = connection.post(body.to_string());
        let (head, named) = seen(&response);
        let answers = harness::json(&response.body);
        let (number, block) = (quantity(&answers[0]["result"]), &answers[1]["result"]);
        check("number", &number, &head);
        let hash = block["hash"].as_str().unwrap();
        check("hash", &format!("{number}, {hash}"), &named);
        if heads.last() != Some(&named) {
            heads.push(named);
        }
    }
}

/// A client that has seen a block is served after the block was replaced, and nobody waits.
#[test]
fn a_block_that_was_replaced_counts_as_reached() {
    let chain = [
        "--block-time",
        "200ms",
        "--reorg-every",
        "4",
        "--reorg-depth",
        "2",
    ];
    let server = Server::start(&[&chain[..], &["--min-block-wait", "0"]].concat());
    let mut session = open_session(&server, KEY);
    session.call("eth_subscribe", &json!(["reorgs"]));
    let reorg = session.notification()["result"].take();
    let mut connection = server.connect();
    for replaced in reorg["reverted"].as_array().unwrap() {
        let hash = replaced["hash"].as_str().unwrap();
        let block = connection.result("eth_getBlockByHash", &json!([hash, false]));
        let at = quantity(&block["number"]);
        let canonical = json!([block["number"], false]);
        let canonical = connection.result("eth_getBlockByNumber", &canonical);
        assert_ne!(canonical["hash"], block["hash"], "it was replaced");
        for min_block in [hash.to_owned(), format!("{at}, {hash}")] {
            let response = post(&mut connection, &min_block, &number_request());
            check(&min_block, &response.status, &200);
        }
    }
    let next = (seen(&connection.post(number_request().to_string())).0 + 3).to_string();
    let response = post(&mut connection, &next, &number_request());
    check("refused at once", &response.status, &503);
}
