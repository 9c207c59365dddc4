//! Admission and batches: permits, quotas, method sets, disconnects, one snapshot a batch.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread::{self, Scope},
};

use nearhead::limits::BATCH_REPLY_BYTES_MAX;
use serde_json::{Value, json};

use crate::{
    harness::{Connection, Server, check, count_down, json as parse, wait_until},
    proofs,
};

/// Options of a dev chain that makes no blocks.
const STILL: [&str; 2] = ["--block-time", "0s"];

/// A call with id 1 as JSON text.
fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

/// The most expensive proof that is allowed: 1,024 slots of the dev chain's token, some non-zero.
fn large_proof() -> Value {
    let keys: Vec<String> = (0..1024).map(|key| format!("{key:#x}")).collect();
    json!(["0xde00000000000000000000000000000000000001", keys, "latest"])
}

/// The most expensive log query that is allowed: 5,000 topics, which no log has.
fn large_filter() -> Value {
    let topics: Vec<String> = (1..=5_000).map(|topic| format!("{topic:#066x}")).collect();
    json!([{"fromBlock": "earliest", "topics": [topics]}])
}

/// Calls that take long have threads of their own.
#[test]
fn a_short_call_waits_for_no_long_one() {
    let options = ["--pool-threads", "1", "--call-timeout", "60s"];
    let gas = ["--call-gas-max", "1000000000"];
    let server = Server::start(&[&STILL[..], &options, &gas].concat());
    let contract = "0x00000000000000000000000000000000000c0de5";
    // Returns 42.
    let code = count_down(30_000_000, "602a5f5260205ff3");
    let long = json!([{"to": contract}, "latest", {contract: {"code": code}}]);
    let long = request("eth_call", &long);
    let short = request("eth_call", &json!([{"to": contract}]));
    let taken = || server.metric(r#"nearhead_queue_taken_total{class="long_calls"}"#);
    let mut ours = server.connect();
    // Repeated in case the machine stands still for as long as the long one takes.
    wait_until("a short call is answered while a long one runs", || {
        let (before, is_over) = (taken(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let answer = parse(&server.connect().post(&long).body);
                is_over.store(true, Ordering::SeqCst);
                check(
                    "the long one",
                    &answer["result"],
                    &json!(format!("{:#066x}", 42)),
                );
            });
            wait_until("it is known to take long", || taken() > before);
            let answer = parse(&ours.post(&short).body);
            check("the short one", &answer["result"], &json!("0x"));
            !is_over.load(Ordering::SeqCst)
        })
    });
}

/// Clients of an overload: the proofs that they ask for at once are twice as much work as may wait,
/// as it is estimated. Their bodies are small, so that all are read before the threads of a fast
/// machine show that they need less.
const OVERLOAD_CLIENTS: usize = 400;

/// Clients request more at once than one pool thread can compute while they wait: some are refused,
/// and can retry on the same connection.
#[test]
fn overload_is_refused_and_the_connection_stays_open() {
    let server = Server::start(&[&STILL[..], &["--workers", "2", "--pool-threads", "1"]].concat());
    let query = request("eth_getProof", &large_proof());
    let mut clients: Vec<Connection> = (0..OVERLOAD_CLIENTS).map(|_| server.connect()).collect();
    let (mut answered, mut refused) = (0, 0);
    // Repeated in case the pool keeps up with all, because the workers read slowly.
    wait_until("a request is refused", || {
        for client in &mut clients {
            let request = client.request(&["content-type: application/json"], query.as_bytes());
            client.send(&request);
        }
        for client in &mut clients {
            let response = client.receive();
            if response.status == 200 {
                answered += 1;
                continue;
            }
            refused += 1;
            check("refused", &response.status, &503);
            let seconds = response.header("retry-after").map(str::parse::<u64>);
            // The queue holds work for a second, on a machine that is busy with other tests too.
            let Some(Ok(seconds @ 1..=60)) = seconds else {
                panic!("retry-after: {response:?}")
            };
            let error = &parse(&response.body)["error"];
            let expected = json!({"code": -32002, "message": "resource unavailable", "data": {"backoff_seconds": seconds}});
            check("error", error, &expected);
        }
        refused > 0
    });
    assert!(answered >= 4, "{answered} were answered, {refused} refused");
    let waiting = || server.metric("nearhead_queue_items{class=\"heavy\"}");
    wait_until("the queue is empty", || waiting() == 0.0);
    let measured = "nearhead_permits_in_use{kind=\"measured\"}";
    wait_until("all permits are returned", || {
        server.metric(measured) == 0.0
    });
    for client in clients.iter_mut().take(16) {
        check("admitted again", &client.post(&query).status, &200);
    }
}

/// Clients of a flood.
const FLOODING: usize = 64;

/// Requests of another key meanwhile.
const OWN: usize = 200;

/// A call that uses all gas that it may: 50 million.
fn longest_call() -> Value {
    let contract = "0x00000000000000000000000000000000000c0de6";
    // JUMPDEST PUSH0 JUMP, without end.
    json!([{"to": contract, "gas": "0x2faf080"}, "latest", {contract: {"code": "0x5b5f56"}}])
}

/// One key floods with the most expensive requests, with no quota configured: the other key's
/// requests are answered, those that need the pool too, and wait for few of the flood.
#[test]
fn a_flooding_neighbour_costs_another_key_no_answers() {
    let options = ["--workers", "2", "--pool-threads", "1"];
    let keys = ["--api-key", "flood=flood-key"];
    let server = Server::giving_memory_back(&[&STILL[..], &options, &keys].concat());
    let floods = [
        (request("eth_getProof", &large_proof()), "heavy"),
        (request("eth_getLogs", &large_filter()), "heavy"),
        (request("eth_call", &longest_call()), "long_calls"),
    ];
    let mut requests = OWN;
    server.check_memory_is_back(|| {
        for (flood, class) in &floods {
            check_flood(&server, flood, class, requests);
        }
        requests = OWN / 10;
    });
}

/// One key floods with this request, of this class of the pool's queue, while another one makes so
/// many. Nothing is in that queue afterwards.
fn check_flood(server: &Server, flood: &str, class: &str, requests: usize) {
    let proofs = request("eth_getProof", &large_proof());
    let keys: Vec<String> = (0..64).map(|key| format!("{key:#x}")).collect();
    let account = "0xde00000000000000000000000000000000000001";
    let logs = json!([{"fromBlock": "earliest", "address": account}]);
    let own = [
        request("eth_chainId", &json!([])),
        request("eth_getLogs", &logs),
        request("eth_getProof", &json!([account, keys, "latest"])),
        proofs.clone(),
    ];
    let waiting = format!("nearhead_queue_items{{class=\"{class}\"}}");
    let open = r#"nearhead_connections{key="accepted",listener="public"}"#;
    let is_over = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    let count = |status: u16| {
        answered.fetch_add((status == 200).into(), Ordering::Relaxed);
    };
    let mut client = server.connect();
    // A connection without a request has a short time, and the flood may take longer to begin.
    check("before the flood", &client.post(&own[0]).status, &200);
    thread::scope(|scope| {
        let _ending = begin_flood(scope, server, (FLOODING, flood), &is_over, count);
        // Where its requests wait depends on the machine: for the pool, or to be parsed.
        wait_until("the flood is there", || {
            server.metric(open) > FLOODING as f64 && answered.load(Ordering::Relaxed) > 0
        });
        let (mut refused, mut in_turn) = (0, 0);
        for request in own.iter().cycle().take(requests) {
            let before = answered.load(Ordering::Relaxed);
            let response = client.post(request);
            refused += usize::from(response.status != 200);
            if *request == proofs {
                in_turn += answered.load(Ordering::Relaxed) - before;
            }
        }
        let before = answered.load(Ordering::Relaxed);
        wait_until("the flood goes on", || {
            answered.load(Ordering::Relaxed) > before
        });
        assert!(refused <= requests.div_ceil(100), "{refused} of {requests}");
        // An own proof of this size waits for one of the flood that runs, and one whose turn it is.
        // In the order of arrival, it would wait for one of almost every client.
        let bound = FLOODING / 2 * (requests / own.len());
        assert!(in_turn <= bound, "{in_turn} were answered meanwhile");
    });
    drop(client);
    wait_until("the flood is gone", || {
        server.metric(&waiting) == 0.0 && server.metric(open) == 0.0
    });
}

/// So many clients of the flooding key make this request, again and again, until what is returned
/// is dropped. `ended` gets the status of each answer.
fn begin_flood<'scope>(
    scope: &'scope Scope<'scope, '_>,
    server: &'scope Server,
    (clients, request): (usize, &'scope str),
    is_over: &'scope AtomicBool,
    ended: impl Fn(u16) + Copy + Send + 'scope,
) -> Ending<'scope> {
    for _ in 0..clients {
        scope.spawn(move || {
            // A busy machine has no time for all of them at once.
            let mut client = Connection::open_when_answered(server.address, "/v3/flood-key");
            while !is_over.load(Ordering::Relaxed) {
                ended(client.post(request).status);
            }
        });
    }
    Ending(is_over)
}

/// Ends a flood when it is dropped, also in a test that fails: its scope waits for all threads.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Clients that send large bodies, all of which fit into the bytes that one tenant may have.
const LARGE_CLIENTS: usize = 128;

/// Cheap requests meanwhile, one after the other, and how often.
const CHEAP: usize = 100;
const ROUNDS: usize = 4;

/// One key floods with large bodies: another key's cheap requests, on the same worker, wait for few
/// of them to be parsed.
#[test]
fn cheap_requests_do_not_wait_for_large_bodies() {
    let options = ["--workers", "1", "--api-key", "flood=flood-key"];
    let server = Server::start(&[&STILL[..], &options].concat());
    let flood = request("eth_getLogs", &large_filter());
    let cheap = request("eth_chainId", &json!([]));
    let waiting = || server.metric("nearhead_queue_items{class=\"bodies\"}");
    let parsed = || server.metric("nearhead_queue_taken_total{class=\"bodies\"}");
    let is_over = AtomicBool::new(false);
    let mut client = server.connect();
    thread::scope(|scope| {
        let check_status = |status| assert!(matches!(status, 200 | 503), "{status}");
        let _ending = begin_flood(
            scope,
            &server,
            (LARGE_CLIENTS, &flood),
            &is_over,
            check_status,
        );
        wait_until("the flood is there", || waiting() >= 16.0);
        // The clients of the flood take the cores of this test too, so the best of some rounds
        // counts.
        let rounds = (0..ROUNDS).map(|_| {
            let before = parsed();
            for _ in 0..CHEAP {
                check("cheap", &client.post(&cheap).status, &200);
            }
            parsed() - before
        });
        let fewest = rounds.fold(f64::INFINITY, f64::min);
        let is_flooded = waiting() >= 1.0;
        assert!(is_flooded, "the flood has gone on");
        // Where a worker parses the bodies itself, each request waits for one at least.
        let bound = CHEAP as f64 / 2.0;
        assert!(fewest <= bound, "{fewest} were parsed meanwhile");
    });
}

/// A batch holds permits only for the item in progress, so it may need more in total than exist.
#[test]
fn a_batch_may_need_more_permits_in_total_than_exist() {
    let server = Server::start(&STILL);
    let mut connection = server.connect();
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let proof = request("eth_getProof", &large_proof());
    let answers = parse(
        &connection
            .post(format!("[{}]", [proof.as_str(); 6].join(",")))
            .body,
    );
    check("proofs", &answers.as_array().map(Vec::len), &Some(6));
    for answer in answers.as_array().unwrap() {
        let (params, root) = (large_proof(), proofs::state_root(&block));
        let present = proofs::verify(&params, &answer["result"], root);
        assert!(present > 0, "all slots are zero");
    }
    let query = request("eth_getLogs", &large_filter());
    let answers = parse(
        &connection
            .post(format!("[{}]", [query.as_str(); 6].join(",")))
            .body,
    );
    for answer in answers.as_array().unwrap() {
        check("large filter", &answer["result"], &json!([]));
    }
}

/// After a disconnect, the batch's remaining queries do not run.
#[test]
fn a_disconnect_cancels_the_remaining_queries() {
    let server = Server::start(&[&STILL[..], &["--workers", "2"]].concat());
    let answered =
        || server.metric(r#"nearhead_requests_total{method="eth_getLogs",outcome="ok"}"#);
    // A worker looks up 15 topics in 128 blocks without a permit, so permits do not limit how many
    // of these queries run.
    let topics: Vec<String> = (1..=15).map(|topic| format!("{topic:#066x}")).collect();
    let query = request(
        "eth_getLogs",
        &json!([{"fromBlock": "earliest", "topics": [topics]}]),
    );
    let queries = 1000;
    let batch = format!("[{}]", vec![query; queries].join(","));
    let mut patient = server.connect();
    let answers = parse(&patient.post(&batch).body);
    check("answers", &answers.as_array().map(Vec::len), &Some(queries));
    check("all queries ran", &answered(), &(queries as f64));

    // Several clients, so that their queries take far longer than noticing a disconnect.
    let mut leaving: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
    let in_flight = || server.metric("nearhead_http_requests_in_flight");
    let alone = in_flight();
    for client in &mut leaving {
        let batch = client.request(&["content-type: application/json"], batch.as_bytes());
        client.send(&batch);
    }
    wait_until("the first query is answered", || {
        answered() > queries as f64
    });
    let requested = queries * leaving.len();
    drop(leaving);
    wait_until("the requests are gone", || in_flight() <= alone);
    let run = answered() - queries as f64;
    assert!(
        run < requested as f64,
        "all {requested} ran for disconnected clients"
    );
}

#[test]
fn a_batch_reads_one_snapshot() {
    let server = Server::start(&["--block-time", "10ms"]);
    let mut connection = server.connect();
    let item = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let pair = [
        item("eth_blockNumber", json!([])),
        item("eth_getBlockByNumber", json!(["latest", false])),
    ];
    let batch: Value = pair.iter().cycle().take(200).cloned().collect();
    let batch = batch.to_string();
    let mut heads = std::collections::BTreeSet::new();
    wait_until("the head moved 20 times", || {
        let answers = parse(&connection.post(&batch).body);
        let first = answers[0]["result"].as_str().unwrap().to_owned();
        for answer in answers.as_array().unwrap() {
            let number = answer["result"]
                .as_str()
                .or_else(|| answer["result"]["number"].as_str());
            check("one snapshot", &number, &Some(first.as_str()));
        }
        heads.insert(first);
        heads.len() > 20
    });
}

#[test]
fn each_tenant_has_its_own_quota() {
    let server = Server::start(
        &[
            &STILL[..],
            &["--api-key", "other=other-key", "--rate-limit", "5"],
        ]
        .concat(),
    );
    let request = request("eth_chainId", &json!([]));
    let mut connection = server.connect();
    let mut refused = None;
    for _ in 0..100 {
        let response = connection.post(&request);
        if response.status != 200 {
            refused = Some(response);
            break;
        }
    }
    let response = refused.expect("a request beyond the burst is refused");
    check("status", &response.status, &429);
    let answer = parse(&response.body);
    check("code", &answer["error"]["code"], &json!(-32005));
    check(
        "message",
        &answer["error"]["message"],
        &json!("project ID request rate exceeded"),
    );
    check("id", &answer["id"], &json!(1));
    let data = &answer["error"]["data"];
    check("allowed", &data["allowed_rps"], &json!(5));
    assert!(
        data["current_rps"].is_number() && data["backoff_seconds"].as_u64().is_some(),
        "{data}"
    );
    let after = response
        .header("retry-after")
        .map(|seconds| seconds.parse::<u64>().unwrap());
    check("retry-after", &after, &data["backoff_seconds"].as_u64());
    let mut other = Connection::open(server.address, "/v3/other-key");
    check("another tenant", &other.post(&request).status, &200);
    wait_until("the bucket refills", || {
        connection.post(&request).status == 200
    });
}

/// A request that does not parse costs as much as one that does, and an oversized batch as much as
/// the largest allowed one.
#[test]
fn invalid_requests_are_charged() {
    let server = Server::start(&[&STILL[..], &["--rate-limit", "5"]].concat());
    let mut connection = server.connect();
    wait_until("garbage is refused", || connection.post("{").status == 429);
    let batch = format!("[{}]", vec!["1"; 1_001].join(","));
    wait_until("an oversized batch is admitted", || {
        connection.post(&batch).status == 200
    });
    check(
        "the tenant is in debt afterwards",
        &connection.post("{}").status,
        &429,
    );
}

#[test]
fn the_core_set_has_only_the_seven_methods() {
    let server = Server::start(&[&STILL[..], &["--methods", "core"]].concat());
    let mut connection = server.connect();
    for method in &nearhead::rpc::METHODS {
        let answer = connection.call(method.name, &json!([]));
        let is_core = method.set == nearhead::access::MethodSet::Core;
        let expected = if is_core { -32602 } else { -32601 };
        check(method.name, &answer["error"]["code"], &json!(expected));
    }
    check(
        "core methods",
        &nearhead::rpc::METHODS
            .iter()
            .filter(|m| m.set == nearhead::access::MethodSet::Core)
            .count(),
        &7,
    );
}

#[test]
fn metrics_count_requests() {
    let server = Server::start(&STILL);
    let mut connection = server.connect();
    for _ in 0..3 {
        connection.call("eth_chainId", &json!([]));
        connection.call("eth_chainId", &json!([1]));
    }
    connection.call("no_such_method", &json!([]));
    let count = |method: &str, outcome: &str| {
        server.metric(&format!(
            r#"nearhead_requests_total{{method="{method}",outcome="{outcome}"}}"#
        ))
    };
    check("ok", &count("eth_chainId", "ok"), &3.0);
    check("invalid", &count("eth_chainId", "invalid"), &3.0);
    check("unknown", &count("other", "invalid"), &1.0);
    check(
        "latency",
        &server.metric(r#"nearhead_request_seconds_count{method="eth_chainId"}"#),
        &6.0,
    );
    assert!(server.metric("nearhead_head_number") >= 127.0);
    let text = server.get_admin("/metrics");
    check(
        "type",
        &text
            .header("content-type")
            .map(|kind| kind.starts_with("text/plain")),
        &Some(true),
    );
    assert!(
        !text.text().contains("no_such_method"),
        "a client's text must not become a label"
    );
}

/// The items of a batch are answered as long as they fit; each further one gets an error.
#[test]
fn a_batch_reply_is_bounded() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let item = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "eth_getLogs", "params": [{"fromBlock": "earliest"}]});
    let one = connection.post(item(10).to_string()).body;
    // The reply to a batch is "[", the items with a comma between them, and "]".
    let fit = BATCH_REPLY_BYTES_MAX / (one.len() + 1);
    assert!(
        (2..900).contains(&fit),
        "one answer has {} bytes",
        one.len()
    );
    let large = fit + 3;
    // All ids have two digits, so that all answers have the same length.
    let mut batch: Vec<Value> = (10..10 + large).map(item).collect();
    batch.push(json!({"jsonrpc": "2.0", "id": "small", "method": "eth_chainId"}));
    let response = connection.post(Value::from(batch).to_string());
    check("status", &response.status, &200);
    assert!(response.body.len() > BATCH_REPLY_BYTES_MAX - one.len());
    let answers = parse(&response.body);
    let answers = answers.as_array().unwrap();
    check("answers", &answers.len(), &(large + 1));
    let result = &parse(&one)["result"];
    for (index, answer) in answers.iter().enumerate() {
        let id = if index < large {
            json!(10 + index)
        } else {
            json!("small")
        };
        let expected = if index < fit {
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        } else {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32003, "message": "response too large"}})
        };
        assert!(*answer == expected, "item {index}, {fit} fit");
    }
}
