//! The window is filled from an upstream and its head followed: every answer equals the upstream's.

use std::collections::BTreeSet;

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    WINDOW, arguments, chain_of_execution_apis, check_pruned,
    comparison::{ANVIL, ANVIL_EMPTY, Comparison, GETH, GETH_OMMERS},
    counted, driven_geth,
    driven_geth::DrivenGeth,
    follow, follow_while_filling, follow_with, head, http, refuted, wait_head, ws,
};
use crate::{
    harness::{KEY, Process, Server, check, scratch, serving, usual_niceness_and, wait_until},
    upstreams::{
        Anvil, Branches, Geth, anvil_with_traffic,
        proxy::{Change, Fault, Lie, Proxy},
        quantity,
    },
    websocket::client::Client,
};

/// Asserts what `/ready` reports about filling the window.
#[track_caller]
fn check_ready(server: &Server, status: u16, blocks: u64) {
    let ready = server.get_admin("/ready");
    let body: Value = serde_json::from_str(ready.text()).unwrap();
    check(ready.text(), &ready.status, &status);
    check("blocks", &body["blocks"], &json!(blocks));
    check("of", &body["blocks_wanted"], &json!(WINDOW));
    let missing = match status {
        200 => json!([]),
        _ => json!(["the window is not filled yet"]),
    };
    check("missing", &body["missing"], &missing);
}

#[test]
fn an_anvil_is_followed_over_http_and_websocket() {
    let mut anvil = anvil_with_traffic("node-anvil", 13, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    for (server, step) in servers.iter().zip([1, 8]) {
        wait_head(server, anvil.head());
        let mut comparison = Comparison::between(server, anvil.address);
        comparison.chain();
        let window = (141 - WINDOW..=140).step_by(step);
        window.for_each(|number| _ = comparison.block(number));
        comparison.finish(ANVIL);
        check_pruned(server, 140 - WINDOW);
    }

    // One block at a time, several at once, and more than a window.
    for blocks in [1, 1, 1, 30, 300] {
        anvil.mine(blocks);
        let (number, hash) = anvil.head();
        for server in &servers {
            wait_head(server, (number, hash));
            wait_until("ready", || server.get_admin("/ready").status == 200);
            let mut comparison = Comparison::between(server, anvil.address);
            comparison.chain();
            comparison.blocks(number - 5..=number);
            comparison.block(number + 1 - WINDOW);
            // The oldest block has transactions as long as it is one of the first 140.
            comparison.finish(if number - WINDOW < 140 {
                ANVIL
            } else {
                ANVIL_EMPTY
            });
            check_pruned(server, number - WINDOW);
        }
    }
}

/// With fewer than 128 blocks, the window is the whole chain.
#[test]
fn a_short_chain_grows_beyond_the_window() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    let server = follow(&[http(anvil.address)]);
    wait_head(&server, anvil.head());
    for blocks in [1, 2, 100, 24, 1, 20] {
        anvil.mine(blocks);
        let (number, hash) = anvil.head();
        wait_head(&server, (number, hash));
        let oldest = number.saturating_sub(WINDOW - 1);
        let mut comparison = Comparison::between(&server, anvil.address);
        comparison.blocks(oldest..=number);
        comparison.finish(ANVIL_EMPTY);
        let earliest = json!(["earliest", false]);
        let earliest = server.connect().result("eth_getBlockByNumber", &earliest);
        check("earliest", &quantity(&earliest["number"]), &oldest);
    }
}

/// geth's dev mode makes a block a second, and takes transactions.
#[test]
fn a_geth_in_dev_mode_is_followed() {
    let geth = Geth::dev(&scratch("node-geth-dev"), 1);
    let mut upstream = geth.connect();
    let account = upstream.result("eth_accounts", &json!([]))[0].clone();
    let servers = [http(geth.address), ws(geth.address)].map(|url| follow(&[url]));
    let sent = json!([{"from": account, "to": account, "value": "0x1"}]);
    let hash = upstream.result("eth_sendTransaction", &sent);
    for server in &servers {
        let mut ours = server.connect();
        let mut receipt = Value::Null;
        wait_until("the transaction", || {
            let answer = ours.call("eth_getTransactionReceipt", &json!([hash]));
            receipt = answer["result"].clone();
            receipt.is_object()
        });
        let number = quantity(&receipt["blockNumber"]);
        wait_until("blocks after it", || head(&mut ours).0 > number + 2);
        let mut comparison = Comparison::between(server, geth.address);
        comparison.blocks(0..=head(&mut ours).0);
        comparison.finish(GETH);
    }
}

/// All types of transactions, in a window that starts above the genesis.
#[test]
fn a_driven_geth_is_followed() {
    let (genesis, payloads) = driven_geth::chain("node-driven", 17, 150);
    let mut geth = DrivenGeth::at("node-driven", &genesis, &payloads);
    geth.go_to(&payloads[139]);
    let server = follow(&[http(geth.address())]);
    wait_head(&server, (140, payloads[139].hash));
    for payload in &payloads[140..] {
        let head = geth.go_to(payload);
        wait_head(&server, head);
    }
    // The delay of every new head is measured; the first head was no change.
    wait_until("delays of heads", || {
        counted(&server, "nearhead_head_delay_seconds_count ") == 10
    });
    let mut comparison = Comparison::between(&server, geth.address());
    comparison.chain();
    comparison.blocks(151 - WINDOW..=150);
    comparison.finish(GETH);
    check_pruned(&server, 150 - WINDOW);
}

/// A block of 155,000 logs, about 60 MB of JSON, over HTTP and over WebSocket.
#[test]
fn the_largest_block_is_followed() {
    let (genesis, payloads) = driven_geth::chain_like("node-largest", 20, 65, "adversarial");
    let mut geth = DrivenGeth::at("node-largest-geth", &genesis, &payloads);
    geth.go_to(&payloads[62]);
    // A slow machine may need more than the default for it.
    let servers = [http(geth.address()), ws(geth.address())]
        .map(|url| follow_with(&[url], &["--node-timeout", "1m"]));
    let largest = geth.go_to(&payloads[63]);
    for server in &servers {
        wait_head(server, largest);
        let params = json!(["latest", false]);
        let [ours, theirs] = [server.connect(), geth.connect()]
            .map(|mut upstream| upstream.result("eth_getBlockByNumber", &params));
        check("the bloom", &ours["logsBloom"], &theirs["logsBloom"]);
    }
    let next = geth.go_to(&payloads[64]);
    for server in &servers {
        wait_head(server, next);
        // An upstream that writes this much may answer other calls late.
        check("refuted", &refuted(server, 0).len(), &0);
    }
}

/// The genesis block is readable although it is not in the window.
#[test]
fn the_genesis_stays_readable() {
    let (genesis, payloads) = driven_geth::chain("node-genesis", 18, 135);
    let mut geth = DrivenGeth::at("node-genesis-geth", &genesis, &payloads);
    geth.go_to(&payloads[134]);
    let server = follow(&[http(geth.address())]);
    let mut ours = server.connect();
    let first = json!(["0x0", false]);
    wait_until("the genesis", || {
        ours.call("eth_getBlockByNumber", &first)["result"].is_object()
    });
    let mut comparison = Comparison::between(&server, geth.address());
    for full in [true, false] {
        let genesis = comparison.compare("block", "eth_getBlockByNumber", json!(["0x0", full]));
        comparison.compare(
            "block",
            "eth_getBlockByHash",
            json!([genesis["hash"], full]),
        );
    }
    comparison.finish(GETH);
    // Its state is not readable.
    let absent = format!("0x{}", "00".repeat(20));
    let answer = ours.call("eth_getBalance", &json!([absent, "0x0"]));
    let error =
        json!({"code": -32000, "message": "historical state not available: block 0, oldest 8"});
    check("its state", &answer["error"], &error);
}

/// A subscription can continue from a backfilled block, even before the head has changed.
#[test]
fn a_subscription_continues_from_any_block_of_the_window() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(150);
    let server = follow(&[http(anvil.address)]);
    wait_head(&server, anvil.head());
    let oldest = json!([format!("{:#x}", 151 - WINDOW), false]);
    let oldest = server.connect().result("eth_getBlockByNumber", &oldest);
    let mut session = Client::open(server.address, &format!("/ws/v3/{KEY}"));
    let since = json!(["newHeads", {"since": oldest["hash"]}]);
    session.call("eth_subscribe", &since);
    for number in 152 - WINDOW..=150 {
        let head = session.notification()["result"].clone();
        check("notified", &quantity(&head["number"]), &number);
    }
}

/// The head moves to a branch with a lower number; blocks that had left the window are needed
/// again.
#[test]
fn a_window_whose_head_goes_back_is_filled_again() {
    let chain = Branches::make("node-goes-back", 19, 200, 60);
    let mut geth = DrivenGeth::of("node-goes-back-geth", &chain);
    geth.go_to(&chain.trunk[199]);
    geth.send_blocks(&chain.branch);
    let server = follow(&[http(geth.address())]);
    let head = geth.go_to(&chain.branch[19]);
    check("number of the head", &head.0, &160);
    wait_head(&server, head);
    wait_until("ready", || server.get_admin("/ready").status == 200);
    check_ready(&server, 200, WINDOW);
    let mut comparison = Comparison::between(&server, geth.address());
    comparison.blocks(161 - WINDOW..=160);
    comparison.finish(GETH);
}

/// All forks, and ommers.
#[test]
fn the_execution_apis_chain_is_followed() {
    let geth = chain_of_execution_apis("node-execution-apis", 54);
    let server = follow(&[http(geth.address)]);
    let mut comparison = Comparison::between(&server, geth.address);
    comparison.chain();
    comparison.blocks(0..=54);
    for full in [true, false] {
        comparison.compare("block", "eth_getBlockByNumber", json!(["0x37", full]));
        comparison.compare(
            "block",
            "eth_getBlockByHash",
            json!([B256::repeat_byte(7), full]),
        );
    }
    comparison.finish(GETH_OMMERS);
}

/// While the window is being filled, a missing block is an error and never null.
#[test]
fn missing_blocks_are_errors_while_the_window_is_filled() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(200);
    let proxy = Proxy::to(&[anvil.address]);
    // One block of the window cannot be fetched.
    let params = json!(["0x96", false]);
    let missing = anvil.connect().result("eth_getBlockByNumber", &params);
    proxy.fail(vec![Fault::Lie(Lie {
        methods: &["eth_getBlockByNumber", "eth_getBlockByHash"],
        only: Some(("/hash".into(), missing["hash"].clone())),
        path: String::new(),
        change: Change::Null,
    })]);
    let server = follow_while_filling(&[http(proxy.address)]);
    let mut ours = server.connect();
    wait_head(&server, anvil.head());
    let above = json!(["0x97", false]);
    wait_until("the block above", || {
        ours.call("eth_getBlockByNumber", &above)["result"].is_object()
    });
    // Blocks 151 to 200.
    check_ready(&server, 503, 50);
    let absent = format!("0x{}", "00".repeat(20));
    let hash = &missing["hash"];
    let place = json!([hash, "0x0"]);
    for (method, params, code) in [
        ("eth_getBlockByNumber", params, 4444),
        ("eth_getBlockReceipts", json!(["0x96"]), 4444),
        (
            "eth_getTransactionByBlockNumberAndIndex",
            json!(["0x96", "0x0"]),
            4444,
        ),
        (
            "eth_getLogs",
            json!([{"fromBlock": "0x96", "toBlock": "0xa0"}]),
            4444,
        ),
        ("eth_getStorageAt", json!([absent, "0x0", "0x96"]), -32000),
        // The hash may be that of a missing block.
        ("eth_getBlockByHash", json!([hash, false]), 4444),
        ("eth_getBlockReceipts", json!([hash]), 4444),
        ("eth_getBlockTransactionCountByHash", json!([hash]), 4444),
        ("eth_getUncleCountByBlockHash", json!([hash]), 4444),
        ("eth_getUncleByBlockHashAndIndex", place.clone(), 4444),
        ("eth_getTransactionByBlockHashAndIndex", place, 4444),
        ("eth_getTransactionByHash", json!([hash]), 4444),
        ("eth_getTransactionReceipt", json!([hash]), 4444),
        ("eth_getStorageAt", json!([absent, "0x0", hash]), -32000),
        ("eth_getLogs", json!([{"blockHash": hash}]), -32000),
    ] {
        let answer = ours.call(method, &params);
        let case = format!("{method} {params}: {answer}");
        check(&case, &answer["error"]["code"], &json!(code));
    }
    proxy.heal();
    wait_until("ready", || server.get_admin("/ready").status == 200);
    check_ready(&server, 200, WINDOW);
    // With a full window it is known that no transaction has this hash.
    for method in ["eth_getTransactionByHash", "eth_getTransactionReceipt"] {
        check(method, &ours.result(method, &json!([hash])), &Value::Null);
    }
    let mut comparison = Comparison::between(&server, anvil.address);
    comparison.blocks(201 - WINDOW..=200);
    comparison.finish(ANVIL_EMPTY);
}

/// Threads that answer cheap requests have priority over those for large queries, and over threads
/// that follow upstreams, but for those only once there is something to answer.
#[test]
fn following_runs_at_a_lower_priority_than_answering() {
    let anvil = Anvil::start(&["--no-mining"]);
    let proxy = Proxy::to(&[anvil.address]);
    proxy.fail(vec![Fault::Stall("eth_getBlockReceipts")]);
    let urls = [http(proxy.address)];
    let process = Process::start(&mut serving(&arguments(&urls)));
    // The receipts of the first block are asked for: nothing is readable yet.
    wait_until("a call is stalled", || proxy.applied() > 0);
    for (name, niceness) in process.threads() {
        check(&name, &niceness, &usual_niceness_and(0));
    }
    proxy.heal();
    let server = Server::greeting(process);
    // A thread has its name before it has its priority, and others end meanwhile.
    wait_until("all threads have their priority", || {
        let found = server.process.threads();
        let as_meant = found.iter().all(|(name, niceness)| {
            let lower = match name.as_str() {
                "source" | "verifier" => 10,
                "saved-window" | "saved-blocks" | "saved-items" | "restore" => 10,
                // Workers read requests before large queries are computed.
                "light" => 5,
                "heavy" | "long_calls" => 16,
                _ => 0,
            };
            *niceness == usual_niceness_and(lower)
        });
        let names: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let named = [
            "source",
            "verifier",
            "saved-window",
            "light",
            "heavy",
            "calls",
            "long_calls",
        ];
        as_meant && names.len() > named.len() && names.is_superset(&named.into())
    });
}
