//! The OpenRPC document: how it is served, its examples, the meta-schema, and execution-apis.
//!
//! `execution_apis.json` has the methods of execution-apis (commit 033ca6e, CC0) that are ours too:
//! their parameters and results, and the schemas that these name. `UPDATE_DOCS=1` makes it from the
//! document that execution-apis assembles, which is in none of its commits, so that it cannot be a
//! vector of `tests/setup`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    bad_input, conformance,
    harness::{
        Connection, KEY, Process, SESSION_METHODS, Server, check, installed, json as parse, scratch,
    },
    websocket::client::Client,
};

/// Results larger than this are not validated: one receipt of the chain has 21 MB.
const RESULT_BYTES_MAX: usize = 1 << 20;

/// The methods that name a filter.
const FILTER_READERS: [&str; 3] = [
    "eth_getFilterChanges",
    "eth_getFilterLogs",
    "eth_uninstallFilter",
];

/// The names of parameters, and whether they are required.
type Names = &'static [(&'static str, bool)];

/// Parameters of execution-apis that are not as ours: the method, ours, and why.
const DIFFERENCES: &[(&str, Names, &str)] = &[
    (
        "eth_call",
        &[
            ("Transaction", true),
            ("Block", false),
            ("State overrides", false),
            ("Block overrides", false),
        ],
        "geth has overrides, and clients use them",
    ),
    (
        "eth_createAccessList",
        &[
            ("Transaction", true),
            ("Block", false),
            ("State overrides", false),
        ],
        "geth has overrides, and clients use them",
    ),
    (
        "eth_estimateGas",
        &[
            ("Transaction", true),
            ("Block", false),
            ("State overrides", false),
            ("Block overrides", false),
        ],
        "geth has overrides, and clients use them",
    ),
    (
        "eth_getBlockTransactionCountByHash",
        &[("Block hash", true)],
        "without a block there is nothing to count; geth requires it too",
    ),
    (
        "eth_getBlockTransactionCountByNumber",
        &[("Block", true)],
        "without a block there is nothing to count; geth requires it too",
    ),
];

fn document() -> Value {
    parse(&nearhead::rpc::document(&Default::default()))
}

/// A request without a body, and its response.
fn ask(connection: &mut Connection, verb: &str, headers: &str) -> crate::harness::Response {
    let request = format!("{verb} /openrpc.json HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    connection.send(request.as_bytes());
    connection.receive()
}

#[test]
fn the_document_is_served_by_a_path_and_by_a_method() {
    let server = Server::start(&["--block-time", "0s"]);
    let mut connection = server.connect();
    let response = ask(&mut connection, "GET", "");
    check("status", &response.status, &200);
    check("document", &parse(&response.body), &document());
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "max-age=300"),
        ("access-control-allow-origin", "*"),
    ] {
        check(name, &response.header(name), &Some(value));
    }
    let result = connection.result("rpc.discover", &json!([]));
    check("rpc.discover", &result, &document());

    let compressed = ask(&mut connection, "GET", "accept-encoding: gzip\r\n");
    let encoding = compressed.header("content-encoding");
    check("compressed", &encoding, &Some("gzip"));
    assert!(compressed.body.len() < response.body.len() / 4);
    check("OPTIONS", &ask(&mut connection, "OPTIONS", "").status, &204);
    check("DELETE", &ask(&mut connection, "DELETE", "").status, &405);

    // The connection ends after this, because a client cannot know that no body follows.
    let head = "HEAD /openrpc.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.send(head.as_bytes());
    let text = connection.rest();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let length = format!("content-length: {}\r\n", response.body.len());
    assert!(
        text.contains(&length) && text.ends_with("\r\n\r\n"),
        "{text}"
    );
}

#[test]
fn the_core_set_has_no_rpc_discover_but_the_path() {
    let server = Server::start(&["--block-time", "0s", "--methods", "core"]);
    let mut connection = server.connect();
    check("GET", &ask(&mut connection, "GET", "").status, &200);
    let answer = connection.call("rpc.discover", &json!([]));
    check("rpc.discover", &answer["error"]["code"], &json!(-32601));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the tests, not an option of the service"
)]
fn updates() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// Each example is sent to the service over the chain of execution-apis. `UPDATE_DOCS=1` writes the
/// results instead.
#[test]
fn every_example_is_what_the_service_answers() {
    let file = installed("src/rpc/openrpc/examples.json");
    let mut examples = parse(&fs::read(&file).unwrap());
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    let mut subscription = Value::Null;
    let of_filter = examples.as_array().unwrap().iter();
    let mut of_filter = of_filter.filter(|example| example["method"] == "eth_newFilter");
    let of_filter = of_filter.next().unwrap()["params"].clone();
    let filter = connection.result("eth_newFilter", &of_filter);
    for example in examples.as_array_mut().unwrap() {
        let (method, params) = (example["method"].take(), example["params"].take());
        let name = method.as_str().unwrap();
        if SESSION_METHODS.contains(&name) {
            // An id is random: the form of the result is checked with the schemas.
            let real = match name {
                "eth_unsubscribe" => json!([subscription]),
                _ => params.clone(),
            };
            let answer = session.call(name, &real);
            if name == "eth_subscribe" {
                subscription = answer["result"].clone();
                assert!(subscription.is_string(), "{answer}");
            } else {
                check(name, &answer["result"], &example["result"]);
            }
            (example["method"], example["params"]) = (method, params);
            continue;
        }
        // An id is random: the filter of the example is asked about.
        let is_about_filter = FILTER_READERS.contains(&name);
        let real = match is_about_filter {
            true => &json!([filter]),
            false => &params,
        };
        let mut result = connection.result(name, real);
        if ["eth_newFilter", "eth_newBlockFilter"].contains(&name) {
            assert!(result.is_string(), "{name}: {result}");
            result = example["result"].clone();
        }
        if updates() {
            example["result"] = result;
        } else {
            let case = format!("{name} {params}: {}", example["name"]);
            check(&case, &example["result"], &result);
        }
        (example["method"], example["params"]) = (method, params);
    }
    if updates() {
        let lines: Vec<String> = examples
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        fs::write(&file, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    }
}

/// Calls for validation: each with whether it is accepted, and with its result.
fn calls(connection: &mut Connection) -> Vec<Value> {
    let mut calls: Vec<Value> = bad_input::parameter_calls()
        .into_iter()
        .map(|(request, accepted)| call(&request, accepted, &Value::Null))
        .collect();
    let mut requests = conformance::requests();
    for number in 0..=54 {
        let number = format!("{number:#x}");
        for (method, params) in [
            ("eth_getBlockByNumber", json!([number, true])),
            ("eth_getBlockByNumber", json!([number, false])),
            ("eth_getBlockReceipts", json!([number])),
            ("eth_getUncleByBlockNumberAndIndex", json!([number, "0x0"])),
            ("eth_getUncleCountByBlockNumber", json!([number])),
        ] {
            requests.push(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        }
    }
    for request in requests {
        let response = connection.post(request.to_string());
        let mut answer = parse(&response.body);
        if response.body.len() > RESULT_BYTES_MAX {
            answer = Value::Null;
        }
        // -32602 has reasons beyond schemas too; the rows of bad_input tell them apart.
        if answer["error"]["code"] != -32602 {
            calls.push(call(&request, true, &answer));
        }
    }
    // Without a session, valid parameters give another error. That a filter is not for heads, and
    // that options stand after a filter, is beyond schemas, which see one parameter each.
    let hash = format!("0x{}", "0".repeat(64));
    let filter = json!({"address": null, "topics": [hash, [hash, null]]});
    let logs = connection.result("eth_newFilter", &json!([{"fromBlock": "0x30"}]));
    let blocks = connection.result("eth_newBlockFilter", &json!([]));
    for (method, params) in [
        (
            "eth_newFilter",
            json!([{"blockHash": format!("0x{}", "0".repeat(64))}]),
        ),
        (
            "eth_newFilter",
            json!([{"fromBlock": "0x0", "toBlock": "0x100"}]),
        ),
        (
            "eth_newFilter",
            json!([{"fromBlock": "finalized", "toBlock": "latest"}]),
        ),
        ("eth_newBlockFilter", json!([])),
        ("eth_getFilterChanges", json!([logs])),
        ("eth_getFilterChanges", json!([blocks])),
        ("eth_getFilterLogs", json!([logs])),
        ("eth_getFilterLogs", json!([blocks])),
        ("eth_uninstallFilter", json!([logs])),
        ("eth_uninstallFilter", json!([logs])),
    ] {
        let answer = connection.call(method, &params);
        let request = json!({"method": method, "params": params});
        calls.push(call(&request, true, &answer));
    }
    for (method, params) in [
        ("eth_subscribe", json!(["newHeads"])),
        ("eth_subscribe", json!(["newHeads", {"since": hash}])),
        ("eth_subscribe", json!(["reorgs", null, {"since": null}])),
        ("eth_subscribe", json!(["logs", filter, {"since": hash}])),
        ("eth_subscribe", json!(["logs", null, {}])),
        ("eth_subscribe", json!(["newPendingTransactions"])),
        ("eth_subscribe", json!(["logs", {"topics": "0x"}])),
        ("eth_subscribe", json!(["logs", {}, {"until": hash}])),
        ("eth_subscribe", json!(["newHeads", null, null, null])),
        ("eth_subscribe", json!([])),
        ("eth_unsubscribe", json!(["0x0"])),
        ("eth_unsubscribe", json!([0])),
    ] {
        let answer = connection.call(method, &params);
        let request = json!({"method": method, "params": params});
        let accepted = answer["error"]["code"] == -32601;
        calls.push(call(&request, accepted, &answer));
    }
    calls
}

fn call(request: &Value, accepted: bool, answer: &Value) -> Value {
    let mut call = json!({
        "method": request["method"],
        "params": request["params"],
        "accepted": accepted,
    });
    if let Some(result) = answer.get("result") {
        call["result"] = result.clone();
    }
    if let Some(error) = answer.get("error") {
        call["code"] = error["code"].clone();
    }
    call
}

#[test]
fn the_document_matches_the_meta_schema_and_the_service_the_document() {
    installed("tests/clients/node_modules/.installed");
    let server = Server::execution_apis(&[]);
    let calls = calls(&mut server.connect());
    let accepted = calls.iter().filter(|call| call["accepted"] == true).count();
    assert!(accepted > 300 && calls.len() - accepted > 300, "{accepted}");
    let folder = scratch("openrpc");
    let files = ["document.json", "calls.json"].map(|name| folder.join(name));
    fs::write(&files[0], nearhead::rpc::document(&Default::default())).unwrap();
    fs::write(&files[1], json!(calls).to_string()).unwrap();
    let mut command = Command::new("node");
    command.arg(installed("tests/clients/openrpc.mjs"));
    let (status, text) = Process::start(command.args(&files)).wait();
    assert!(status.success(), "{status}\n{text}");
    check(
        "output",
        &text.trim(),
        &format!("calls: {}", calls.len()).as_str(),
    );
}

fn fixture() -> Value {
    parse(include_bytes!("execution_apis.json"))
}

/// Names of parameters, and whether they are required.
fn parameters(method: &Value) -> Vec<(String, bool)> {
    let parameters = method["params"].as_array().unwrap().iter();
    let parameters = parameters.map(|one| {
        let name = one["name"].as_str().unwrap().to_owned();
        (name, one["required"] == true)
    });
    parameters.collect()
}

#[test]
fn parameters_are_those_of_execution_apis() {
    let (document, fixture) = (document(), fixture());
    let mut compared = 0;
    let mut differences = BTreeMap::new();
    for method in document["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        let Some(theirs) = fixture["methods"].get(name) else {
            continue;
        };
        compared += 1;
        let ours = parameters(method);
        if ours != parameters(theirs) {
            differences.insert(name, ours);
        }
    }
    let listed = DIFFERENCES.iter().map(|(name, ours, _)| {
        let ours = ours
            .iter()
            .map(|(name, required)| ((*name).to_owned(), *required));
        (*name, ours.collect())
    });
    check("differences", &differences, &listed.collect());
    check("compared methods", &compared, &42);
}

/// Parameters and results have the schemas of execution-apis, but for the differences that the
/// script lists with their reasons.
#[test]
fn schemas_are_those_of_execution_apis() {
    installed("tests/clients/node_modules/.installed");
    let server = Server::execution_apis(&[]);
    let calls = calls(&mut server.connect());
    let folder = scratch("openrpc-execution-apis");
    let files = ["document.json", "theirs.json", "calls.json"].map(|name| folder.join(name));
    fs::write(&files[0], nearhead::rpc::document(&Default::default())).unwrap();
    fs::write(&files[1], fixture().to_string()).unwrap();
    fs::write(&files[2], json!(calls).to_string()).unwrap();
    let mut command = Command::new("node");
    command.arg(installed("tests/clients/execution_apis.mjs"));
    let (status, text) = Process::start(command.args(&files)).wait();
    assert!(status.success(), "{status}\n{text}");
    let expected = "methods: 42, values: many, results: many";
    check("output", &text.trim(), &expected);
}

/// The part of a document of execution-apis that is compared with ours.
fn compared_part(theirs: &Value) -> Value {
    let document = document();
    let ours = document["methods"].as_array().unwrap().iter();
    let ours: Vec<&Value> = ours.map(|method| &method["name"]).collect();
    let mut methods = serde_json::Map::new();
    for method in theirs["methods"].as_array().unwrap() {
        if ours.contains(&&method["name"]) {
            let name = method["name"].as_str().unwrap().to_owned();
            let part = json!({"params": method["params"], "result": method["result"]});
            methods.insert(name, part);
        }
    }
    let mut schemas = serde_json::Map::new();
    let mut text = json!(methods).to_string();
    while let Some(at) = text.find("#/components/schemas/") {
        text.drain(..at + "#/components/schemas/".len());
        let name = text.split('"').next().unwrap().to_owned();
        if !schemas.contains_key(&name) {
            let schema = &theirs["components"]["schemas"][&name];
            text.push_str(&schema.to_string());
            schemas.insert(name, schema.clone());
        }
    }
    json!({"methods": methods, "schemas": schemas})
}

/// The fixture is what the document of execution-apis says, where that is at hand.
#[test]
fn the_fixture_is_not_edited() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("../shared/execution-apis-more/openrpc.json");
    let Ok(text) = fs::read(file) else {
        return;
    };
    let part = compared_part(&parse(&text));
    if updates() {
        let text = format!("{part:#}\n");
        fs::write(root.join("tests/it/openrpc/execution_apis.json"), text).unwrap();
    } else {
        check("fixture", &fixture(), &part);
    }
}
