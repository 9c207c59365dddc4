//! Traces of requests, as a collector gets them.

mod collector;

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::collector::{Collector, Mode, Span, path};
use crate::{
    harness::{Connection, KEY, Server, check, quantity, request, wait_until},
    websocket::client::Client,
};

/// The span of the tests' client.
const CALLER: &str = "00f067aa0ba902b7";

const EXPORTED: &str = r#"nearhead_trace_spans_total{outcome="exported"}"#;
const FAILED: &str = r#"nearhead_trace_spans_total{outcome="failed"}"#;
const DROPPED: &str = r#"nearhead_trace_spans_total{outcome="dropped"}"#;

/// The id of a trace.
fn id(number: u8) -> String {
    format!("4bf92f3577b34da6a3ce929d0e0e47{number:02x}")
}

fn traceparent(trace: &str, flags: &str) -> String {
    format!("traceparent: 00-{trace}-{CALLER}-{flags}")
}

/// Posts a body in a trace that its client records, or does not.
fn post(connection: &mut Connection, trace: &str, flags: &str, body: &Value) -> Value {
    let traceparent = traceparent(trace, flags);
    let headers = ["content-type: application/json", &traceparent];
    let request = connection.request(&headers, body.to_string().as_bytes());
    connection.send(&request);
    let response = connection.receive();
    check(response.text(), &response.status, &200);
    serde_json::from_str(response.text()).unwrap()
}

/// The one span with this path.
#[track_caller]
fn one<'a>(spans: &'a [Span], wanted: &str) -> &'a Span {
    let found: Vec<_> = spans
        .iter()
        .filter(|span| path(spans, span) == wanted)
        .collect();
    match found[..] {
        [span] => span,
        _ => panic!("{} of {wanted} in {spans:#?}", found.len()),
    }
}

/// Whether a thread exports traces.
fn has_thread(server: &Server) -> bool {
    let threads = format!("/proc/{}/task", server.process.id());
    fs::read_dir(threads).unwrap().any(|thread| {
        let name = fs::read_to_string(thread.unwrap().path().join("comm"));
        name.is_ok_and(|name| name.trim() == "traces")
    })
}

#[track_caller]
fn check_attributes(span: &Span, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        let seen = span.attributes.get(*name).map(String::as_str);
        check(&format!("{name} of {span:?}"), &seen, &Some(*value));
    }
}

/// A client's span is the parent of the request's, and all parts of the request are below that:
/// over HTTP and WebSocket, alone and in a batch, on the pool and at a node.
#[test]
fn a_request_is_traced_from_the_edge_to_the_node() {
    let node = Server::start(&["--block-time", "0s"]);
    let url = format!("http://{}/v3/{KEY}", node.address);
    let collector = Collector::start(Mode::Takes);
    let otlp = format!(
        "http://{}/base/#x-token=secret-of-the-collector",
        collector.address
    );
    let server = Server::start(&[
        "--source",
        "node",
        "--node",
        &url,
        "--head-age-max",
        "off",
        "--forward",
        "txpool_status",
        "--otlp-endpoint",
        &otlp,
        "--otlp-sample-ratio",
        "0",
        "--log-filter",
        "info,nearhead::access=debug",
    ]);
    assert!(has_thread(&server));
    let mut client = server.connect();
    let head = quantity(&client.result("eth_blockNumber", &json!([])));
    let (oldest, newest) = (format!("{:#x}", head - 127), format!("{head:#x}"));

    let addresses: Vec<_> = (0..64)
        .map(|number| format!("0xdeadbeef{number:032x}"))
        .collect();
    let filter = json!([{"fromBlock": oldest, "toBlock": newest, "address": addresses}]);
    post(
        &mut client,
        &id(1),
        "01",
        &request(1, "eth_getLogs", &filter),
    );
    let account = "0x00000000000000000000000000000000feedbeef";
    let proof = json!([account, [], newest]);
    let proven = post(
        &mut client,
        &id(2),
        "01",
        &request(1, "eth_getProof", &proof),
    );
    assert!(proven["result"]["accountProof"].is_array(), "{proven}");
    let block = json!([newest, false]);
    let batch = json!([
        request(1, "eth_getBlockByNumber", &block),
        request(2, "eth_mine", &json!([])),
    ]);
    post(&mut client, &id(3), "01", &batch);
    post(
        &mut client,
        &id(7),
        "01",
        &request(1, "txpool_status", &json!([])),
    );
    // A client that does not record its span has none here, and one without a trace is sampled.
    post(
        &mut client,
        &id(4),
        "00",
        &request(1, "eth_chainId", &json!([])),
    );
    client.result("eth_chainId", &json!([]));
    // Nor has one without a key.
    let mut stranger = Connection::open(server.address, "/v3/not-a-key");
    let wanted = traceparent(&id(5), "01");
    let refused = stranger.request(&["content-type: application/json", &wanted], b"{}");
    stranger.send(&refused);
    check("a stranger", &stranger.receive().status, &401);
    let path = format!("/ws/v3/{KEY}");
    let mut session = Client::open_with(server.address, &path, &[&traceparent(&id(6), "01")]);
    session.call("eth_getBlockByNumber", &block);

    let logs = collector.wait_for(
        &id(1),
        &[
            "eth_getLogs",
            "eth_getLogs > admission",
            "eth_getLogs > FindLogs > queue",
        ],
    );
    let root = one(&logs, "eth_getLogs");
    check("the parent", &root.parent.as_str(), &CALLER);
    let (from, to) = ((head - 127).to_string(), head.to_string());
    let expected = [
        ("rpc.method", "eth_getLogs"),
        ("rpc.system", "jsonrpc"),
        ("network.protocol.name", "http"),
        ("outcome", "ok"),
        ("http.response.status_code", "200"),
        ("from_block", &from),
        ("to_block", &to),
    ];
    check_attributes(root, &expected);
    assert!(root.attributes.contains_key("tenant"), "{root:?}");
    assert!(root.attributes["bytes_in"].parse::<u64>().unwrap() > 64 * 42);
    let run = one(&logs, "eth_getLogs > FindLogs > run");
    let queue = one(&logs, "eth_getLogs > FindLogs > queue");
    assert!(queue.times[1] <= run.times[0], "{queue:?} {run:?}");
    assert!(root.times[0] <= queue.times[0] && run.times[1] <= root.times[1]);
    check_attributes(run, &[("class", "light")]);
    let find = one(&logs, "eth_getLogs > FindLogs");
    check_attributes(find, &[("actor", "LogQueryActor")]);

    let call = "eth_getProof > ProveAccount > fetch > eth_getProof";
    let proof = collector.wait_for(&id(2), &[call, "eth_getProof"]);
    let asked = one(&proof, call);
    let node_name = format!("http://{}", node.address);
    check_attributes(asked, &[("node", &node_name), ("outcome", "ok")]);

    let batch = collector.wait_for(
        &id(3),
        &[
            "batch > eth_getBlockByNumber > FindBlock",
            "batch > unknown",
            "batch",
        ],
    );
    check_attributes(one(&batch, "batch"), &[("items", "2"), ("outcome", "ok")]);
    check_attributes(one(&batch, "batch > unknown"), &[("outcome", "invalid")]);

    let session = collector.wait_for(
        &id(6),
        &["eth_getBlockByNumber > FindBlock", "eth_getBlockByNumber"],
    );
    let root = one(&session, "eth_getBlockByNumber");
    check("the parent", &root.parent.as_str(), &CALLER);
    check_attributes(root, &[("network.protocol.name", "websocket")]);

    let call = "txpool_status > ForwardCall > txpool_status";
    let forwarded = collector.wait_for(&id(7), &[call, "txpool_status"]);
    check_attributes(
        one(&forwarded, call),
        &[("outcome", "rpc"), ("node", &node_name)],
    );

    let mut traces: Vec<_> = collector
        .spans()
        .into_iter()
        .map(|span| span.trace)
        .collect();
    traces.sort_unstable();
    traces.dedup();
    check("traces", &traces, &[1, 2, 3, 6, 7].map(id).to_vec());
    let all = format!("{:?}{:?}", collector.spans(), collector.resource());
    for secret in [
        KEY,
        "secret-of-the-collector",
        account,
        "deadbeef",
        "not-a-key",
    ] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    check(
        "service",
        &collector.resource()["service.name"].as_str(),
        &"nearhead",
    );
    let head = &collector.heads()[0];
    assert!(head.starts_with("post /base/v1/traces "), "{head}");
    assert!(head.contains("x-token: secret-of-the-collector"), "{head}");
    // A batch is counted once its answer has arrived.
    wait_until("all are counted", || {
        server.metric(EXPORTED) >= collector.spans().len() as f64
    });
    let line = format!("trace_id={}", id(1));
    server
        .process
        .output
        .wait_for("the trace in the log", |text| {
            let mut lines = text.lines();
            lines
                .find(|one| one.contains(&line) && one.contains("eth_getLogs"))
                .map(drop)
        });
    server.process.terminate();
    let output = server.process.check_end(0);
    assert!(!output.contains("secret-of-the-collector"), "{output}");
}

/// Requests go on while the collector refuses and hangs; what is lost is counted, and the log has
/// one line about it. The end of the process does not wait for the collector.
#[test]
fn a_collector_that_fails_costs_spans_and_no_request() {
    let collector = Collector::start(Mode::Refuses);
    let otlp = format!("http://{}", collector.address);
    let server = Server::start(&[
        "--block-time",
        "0s",
        "--otlp-endpoint",
        &otlp,
        "--otlp-sample-ratio",
        "1",
    ]);
    let mut client = server.connect();
    let mut failed = 0.0;
    // Two batches of spans, of which only the first is worth a line.
    for _ in 0..2 {
        client.result("eth_chainId", &json!([]));
        wait_until("a failed export", || server.metric(FAILED) > failed);
        failed = server.metric(FAILED);
    }
    collector.set(Mode::Hangs);
    let read = |number| request(number, "eth_getBlockByNumber", &json!(["latest", false]));
    let batch: Vec<_> = (0..64).map(read).collect();
    let batch = json!(batch).to_string();
    wait_until("a full queue", || {
        check("a batch", &client.post(&batch).status, &200);
        server.metric(DROPPED) > 0.0
    });
    let began = Instant::now();
    server.process.terminate();
    let output = server.process.check_end(0);
    // Two seconds, and what the rest of the end takes. The export itself would take five.
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    let lines = output.lines();
    let warnings = lines.filter(|line| line.contains("the collector does not take traces"));
    check(&output, &warnings.count(), &1);
    assert!(output.contains("status code: 503"), "{output}");
}

#[test]
fn nothing_is_traced_without_a_collector() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut client = server.connect();
    post(
        &mut client,
        &id(1),
        "01",
        &request(1, "eth_chainId", &json!([])),
    );
    assert!(!has_thread(&server));
    let metrics = server.get_admin("/metrics");
    assert!(!metrics.text().contains("nearhead_trace_spans_total"));
}
