//! Methods that are passed through, and keys that may not call them.

use alloy_primitives::address;
use nearhead_tenants::{allowlists::Allowlists, record::KeySettings};
use serde_json::{Value, json};

use super::{SEND, anvil, call, forwarded, is_marked, transfer};
use crate::{
    harness::{Connection, KEY, Server, check, json as parse, nearhead, request, scratch},
    node::{counted, follow_with, http, ws},
    tenants::prepared_store::PreparedStore,
    upstreams::proxy::{Change, Fault, Lie, Proxy, Refusal},
    websocket::client::Client,
};

#[test]
fn other_methods_are_passed_through_and_marked() {
    let (anvil, _) = anvil();
    let methods = "txpool_status,eth_coinbase,web3_sha3";
    for url in [http, ws] {
        let server = follow_with(&[url(anvil.address)], &["--forward", methods]);
        let (mut ours, mut theirs) = (server.connect(), anvil.connect());
        for (method, params) in [
            ("txpool_status", json!([])),
            ("web3_sha3", json!(["0x00"])),
            ("eth_coinbase", json!([])),
            // Errors are the node's.
            ("web3_sha3", json!(["zz"])),
            ("web3_sha3", json!([])),
        ] {
            let (status, mut found, is_marked) = call(&mut ours, method, &params);
            let mut expected = theirs.call(method, &params);
            // anvil's words depend on the order of a request's members.
            for answer in [&mut found, &mut expected] {
                if let Some(error) = answer.get_mut("error") {
                    assert!(error["message"].is_string(), "{error}");
                    *error = error["code"].take();
                }
            }
            check(
                method,
                &(status, &found, is_marked),
                &(200, &expected, true),
            );
        }
        // Parameters that are absent are an empty array.
        let bare =
            ours.post(json!({"jsonrpc": "2.0", "id": 1, "method": "txpool_status"}).to_string());
        assert!(is_marked(&bare) && parse(&bare.body)["result"].is_object());
        for (method, code) in [
            ("txpool_content", -32_601),
            ("TXPOOL_STATUS", -32_601),
            (SEND, -32_601),
        ] {
            let (_, answer, is_marked) = call(&mut ours, method, &json!([]));
            check(
                method,
                &(&answer["error"]["code"], is_marked),
                &(&json!(code), false),
            );
        }
        let (_, answer, _) = call(&mut ours, "txpool_status", &json!({"a": 1}));
        check(
            "an object",
            &answer["error"]["message"],
            &json!("non-array args"),
        );
        let units = ours.post(request(1, "txpool_status", &json!([])).to_string());
        check("units", &units.header("x-nearhead-units"), &Some("10"));

        let batch = [("eth_chainId", 1), ("txpool_status", 2)];
        let batch: Vec<Value> = batch
            .map(|(method, id)| request(id, method, &json!([])))
            .into();
        let response = ours.post(json!(batch).to_string());
        check("batch", &is_marked(&response), &true);
        let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
        let answer = session.call("txpool_status", &json!([]));
        check(
            "session",
            &answer["result"],
            &theirs.result("txpool_status", &json!([])),
        );

        check(
            "counted",
            &forwarded(&server, "txpool_status", "answered"),
            &5,
        );
        check("refused", &forwarded(&server, "web3_sha3", "refused"), &2);
        let requests = "nearhead_requests_total{method=\"txpool_status\",outcome=\"ok\"} ";
        check("requests", &counted(&server, requests), &5);
    }
}

/// A node's answers are parsed, bounded and passed on; nothing of a failure is.
#[test]
fn answers_that_are_no_use_are_not_passed_on() {
    let (anvil, _) = anvil();
    let proxy = Proxy::to(&[anvil.address]);
    let arguments = [
        "--forward",
        "txpool_status,web3_sha3",
        "--node-timeout",
        "1s",
    ];
    for url in [http, ws] {
        let server = follow_with(&[url(proxy.address)], &arguments);
        let mut ours = server.connect();
        // The node's status has no such thing, so this is what the lie says.
        let (_, answer, _) = call(&mut ours, "txpool_status", &json!([]));
        assert!(answer["result"].is_object(), "{answer}");
        let becomes = |text: &'static str| {
            Fault::Lie(Lie::about(&["txpool_status"], "", Change::Becomes(text)))
        };
        let large: &'static str = format!("\"{}\"", "x".repeat(5 << 20)).leak();
        let fits: &'static str = format!("\"{}\"", "x".repeat(3 << 20)).leak();
        let refuse = |refusal| Fault::Refuse(Some("txpool_status"), refusal);
        // What a node says is marked, whether it is a result or not.
        for (fault, expected, code) in [
            (becomes(fits), Some(fits.len()), None),
            (becomes(large), None, Some((-32_000, false))),
            (Fault::Stall("txpool_status"), None, Some((-32_000, false))),
            (becomes("null"), Some(4), None),
            (refuse(Refusal::LimitExceeded), None, Some((-32_005, true))),
            (refuse(Refusal::NoMethod), None, Some((-32_601, true))),
        ] {
            proxy.fail(vec![fault.clone()]);
            let (status, answer, marked) = call(&mut ours, "txpool_status", &json!([]));
            let case = format!("{fault:?}").chars().take(80).collect::<String>();
            check(&case, &status, &200);
            let found = answer.get("result").map(|result| result.to_string().len());
            let is_marked = code.is_none_or(|(_, is_marked)| is_marked);
            check(&case, &(found, marked), &(expected, is_marked));
            let code = code.map(|(code, _)| json!(code));
            let found = answer.get("error").map(|error| error["code"].clone());
            check(&case, &found, &code);
            proxy.heal();
        }
    }
}

/// A key with a list of methods has to name what is forwarded, and one that is narrowed to
/// contracts gets none of it.
#[test]
fn narrowed_keys_call_nothing_that_is_not_listed() {
    let (mut anvil, wallet) = anvil();
    let mut theirs = anvil.connect();
    let genesis = theirs.result("eth_getBlockByNumber", &json!(["0x0", false]));
    let genesis = genesis["hash"].as_str().unwrap().parse().unwrap();
    let mut store = PreparedStore::default();
    let listing = |methods: &[&str]| KeySettings {
        allow: Allowlists {
            methods: methods
                .iter()
                .map(|name| name.parse().unwrap())
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
            ..Allowlists::default()
        },
        ..KeySettings::default()
    };
    store.key("free", KeySettings::default());
    store.key("sender", listing(&[SEND]));
    store.key("reader", listing(&["eth_chainId"]));
    store.key("watcher", listing(&["txpool_status"]));
    let contracts = vec![address!("de00000000000000000000000000000000000001")];
    let narrow = KeySettings {
        allow: Allowlists {
            contracts: contracts.try_into().unwrap(),
            ..Allowlists::default()
        },
        ..KeySettings::default()
    };
    store.key("narrow", narrow);
    let root = scratch("node-forwarding-keys");
    store.write_for(&root, (77, genesis));
    let url = http(anvil.address);
    let forward = format!("{SEND},txpool_status");
    let server = Server::of(&mut nearhead([
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--data-dir",
        root.to_str().unwrap(),
        "--source",
        "node",
        "--head-age-max",
        "off",
        "--node",
        &url,
        "--forward",
        &forward,
    ]));
    let raw = transfer(&wallet, 77, 0);
    for (key, sends, watches) in [
        ("narrow", false, false),
        ("reader", false, false),
        ("watcher", false, true),
        ("free", true, true),
        ("sender", true, false),
    ] {
        let mut ours = Connection::open(server.address, &format!("/v3/{key}"));
        for (method, params, is_allowed) in [
            (SEND, json!([raw]), sends),
            ("txpool_status", json!([]), watches),
        ] {
            let (status, answer, _) = call(&mut ours, method, &params);
            let case = format!("{key} {method}: {answer}");
            check(&case, &status, &if is_allowed { 200 } else { 403 });
            check(&case, &answer.get("result").is_some(), &is_allowed);
        }
        let answer = ours.post(request(1, "eth_chainId", &json!([])).to_string());
        let is_listed = !matches!(key, "sender" | "watcher");
        check(key, &(answer.status == 200), &is_listed);
    }
    anvil.mine(1);
}
