//! Filters of keys: who may ask them, while what the keys may do changes.

use nearhead_tenants::{id::KeyId, record::KeySettings};
use serde_json::{Value, json};

use super::{administrator::Administrator, prepared_store::PreparedStore};
use crate::{
    harness::{
        Connection, Server, check, json as parse, nearhead, quantity, request, scratch, wait_until,
    },
    websocket::client::Client,
};

/// A contract without logs, and a token of the dev chain, which has some in most blocks.
const OTHER: &str = "0x00000000000000000000000000000000000000aa";
const TOKEN: &str = "0xde00000000000000000000000000000000000001";

struct Scene {
    server: Server,
    administrator: Administrator,
    id: KeyId,
}

impl Scene {
    /// A chain that grows, and the keys `key` and `other` of tenants of their own.
    fn start(folder: &str) -> Self {
        let mut store = PreparedStore::default();
        Administrator::prepare(&mut store);
        let id = store.key("key", KeySettings::default());
        store.key("other", KeySettings::default());
        let root = scratch(folder);
        store.write(&root);
        let fixed = "--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --block-time 100ms --data-dir";
        let arguments = fixed.split(' ').chain(root.to_str());
        let server = Server::of(&mut nearhead(arguments));
        let administrator = Administrator::of(&server);
        Self {
            server,
            administrator,
            id,
        }
    }

    fn connect(&self, key: &str) -> Connection {
        Connection::open(self.server.address, &format!("/v3/{key}"))
    }

    /// Narrows the key to these contracts, until that holds for its requests.
    fn narrow(&self, connection: &mut Connection, contracts: &Value) {
        let body = json!({"settings": {"allow": {"contracts": contracts}}});
        self.administrator
            .done("PATCH", &format!("/keys/{}", self.id), &body);
        let is_narrow = !contracts.as_array().unwrap().is_empty();
        let code = json!([TOKEN]);
        wait_until("the list is in force", || {
            call(connection, "eth_getCode", &code)["error"].is_object() == is_narrow
        });
    }
}

fn call(connection: &mut Connection, method: &str, params: &Value) -> Value {
    parse(&connection.post(request(1, method, params).to_string()).body)
}

/// Asks until a filter has found something.
fn wait_found(connection: &mut Connection, id: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    wait_until("changes", || {
        let changes = call(connection, "eth_getFilterChanges", &json!([id]));
        found.extend(changes["result"].as_array().unwrap().iter().cloned());
        !found.is_empty()
    });
    found
}

#[test]
fn a_filter_is_shared_by_the_connections_of_its_key_and_by_no_others() {
    let scene = Scene::start("filters-owner");
    let [mut owner, mut other] = ["key", "other"].map(|key| scene.connect(key));
    let mut session = Client::open(scene.server.address, "/ws/v3/key");
    let not_found = json!({"code": -32000, "message": "filter not found"});
    for (method, params) in [
        ("eth_newFilter", json!([{"address": TOKEN}])),
        ("eth_newBlockFilter", json!([])),
    ] {
        let id = session.call(method, &params)["result"].take();
        let found = wait_found(&mut owner, &id);
        check(
            "a change",
            &found[0].is_object(),
            &(method == "eth_newFilter"),
        );
        for ask in ["eth_getFilterChanges", "eth_getFilterLogs"] {
            let answer = call(&mut other, ask, &json!([id]));
            check(ask, &answer["error"], &not_found);
        }
        let answer = call(&mut other, "eth_uninstallFilter", &json!([id]));
        check("not removed by another", &answer["result"], &json!(false));
        // The request has no answer, but an effect.
        let removal = json!({"jsonrpc": "2.0", "method": "eth_uninstallFilter", "params": [id]});
        check(
            "no answer",
            &owner.post(removal.to_string()).body,
            &Vec::new(),
        );
        let answer = session.call("eth_getFilterChanges", &json!([id]));
        check("removed", &answer["error"], &not_found);
    }
    check("open", &scene.server.metric("nearhead_filters"), &0.0);
}

/// A key that is narrowed after it has made a filter may not ask it, and loses nothing.
#[test]
fn a_filter_is_checked_each_time_that_it_is_asked() {
    let scene = Scene::start("filters-narrowed");
    let mut http = scene.connect("key");
    let filters = [
        ("eth_newFilter", json!([{}]), false),
        ("eth_newFilter", json!([{"address": TOKEN}]), false),
        ("eth_newFilter", json!([{"address": [TOKEN, OTHER]}]), false),
        ("eth_newFilter", json!([{"address": OTHER}]), true),
        ("eth_newBlockFilter", json!([]), true),
    ];
    let ids = filters
        .each_ref()
        .map(|(method, params, _)| call(&mut http, method, params)["result"].take());
    let of_blocks = &ids[4];
    scene.narrow(&mut http, &json!([OTHER]));
    // It is asked about blocks whose logs it may not have yet.
    wait_found(&mut http, of_blocks);
    for ((method, params, is_allowed), id) in filters.iter().zip(&ids) {
        for ask in ["eth_getFilterChanges", "eth_getFilterLogs"] {
            let case = format!("{ask} of {method} {params}");
            let answer = call(&mut http, ask, &json!([id]));
            let message = &answer["error"]["message"];
            let not_listed = "the contract address is not on the allowlist of this project ID";
            check(&case, &(*message == *not_listed), &!is_allowed);
            let answers = json!([request(1, ask, &json!([id]))]).to_string();
            let in_batch = parse(&http.post(answers).body);
            check(&case, &in_batch[0]["error"]["message"], message);
        }
    }
    let head = call(&mut http, "eth_blockNumber", &json!([]))["result"].take();
    scene.narrow(&mut http, &json!([]));
    // The logs of the time in which it was not allowed.
    let found = wait_found(&mut http, &ids[1]);
    let first = quantity(&found[0]["blockNumber"]);
    assert!(first <= quantity(&head), "{first} {head}");
}

/// A key that lets nobody in any more loses its filters, those of others stay.
#[test]
fn a_revoked_key_loses_its_filters() {
    let scene = Scene::start("filters-revoked");
    let [mut owner, mut other] = ["key", "other"].map(|key| scene.connect(key));
    for connection in [&mut owner, &mut other] {
        call(connection, "eth_newBlockFilter", &json!([]));
    }
    check("open", &scene.server.metric("nearhead_filters"), &2.0);
    let path = format!("/keys/{}/revoke", scene.id);
    scene.administrator.done("POST", &path, &Value::Null);
    let forgotten = r#"nearhead_filters_forgotten_total{reason="key"}"#;
    wait_until("its filters are forgotten", || {
        scene.server.metric(forgotten) == 1.0
    });
    check("open", &scene.server.metric("nearhead_filters"), &1.0);
    let idle = r#"nearhead_filters_forgotten_total{reason="idle"}"#;
    check("idle", &scene.server.metric(idle), &0.0);
}
