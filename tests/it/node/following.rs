//! The window is filled from a node and its head followed: what is answered is what the node answers.

use alloy_primitives::B256;
use serde_json::{Value, json};

use super::{
    WINDOW, chain_of_execution_apis, check_pruned, follow, head, http, led,
    led::Led,
    same::{ANVIL, ANVIL_EMPTY, GETH, GETH_OMMERS, Same},
    wait_head, ws,
};
use crate::{
    harness::{check, scratch, wait_until},
    peers::{Anvil, Geth, anvil_with_traffic, quantity},
};

#[test]
fn an_anvil_over_http_and_websocket() {
    let mut anvil = anvil_with_traffic("node-anvil", 13, 140);
    let servers = [http(anvil.address), ws(anvil.address)].map(|url| follow(&[url]));
    for (server, step) in servers.iter().zip([1, 8]) {
        wait_head(server, anvil.head());
        let mut same = Same::between(server, anvil.address);
        same.chain();
        let window = (141 - WINDOW..=140).step_by(step);
        window.for_each(|number| _ = same.block(number));
        same.finish(ANVIL);
        check_pruned(server, 140 - WINDOW);
    }

    // One by one, some at once, and more than a window has.
    for blocks in [1, 1, 1, 30, 300] {
        anvil.mine(blocks);
        let (number, hash) = anvil.head();
        for server in &servers {
            wait_head(server, (number, hash));
            wait_until("ready", || server.get("/ready").status == 200);
            let mut same = Same::between(server, anvil.address);
            same.chain();
            same.blocks(number - 5..=number);
            same.block(number + 1 - WINDOW);
            // The oldest block has transactions as long as it is one of the first 140.
            same.finish(if number - WINDOW < 140 {
                ANVIL
            } else {
                ANVIL_EMPTY
            });
            check_pruned(server, number - WINDOW);
        }
    }
}

/// Below 128 blocks the window is what there is, to the genesis.
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
        let mut same = Same::between(&server, anvil.address);
        same.blocks(oldest..=number);
        same.finish(ANVIL_EMPTY);
        let earliest = json!(["earliest", false]);
        let earliest = server.connect().result("eth_getBlockByNumber", &earliest);
        check("earliest", &quantity(&earliest["number"]), &oldest);
    }
}

/// A chain that makes a block a second, and takes transactions.
#[test]
fn a_geth_of_its_own() {
    let geth = Geth::dev(&scratch("node-geth-dev"), 1);
    let mut node = geth.connect();
    let account = node.result("eth_accounts", &json!([]))[0].clone();
    let servers = [http(geth.address), ws(geth.address)].map(|url| follow(&[url]));
    let sent = json!([{"from": account, "to": account, "value": "0x1"}]);
    let hash = node.result("eth_sendTransaction", &sent);
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
        let mut same = Same::between(server, geth.address);
        same.blocks(0..=head(&mut ours).0);
        same.finish(GETH);
    }
}

/// All types of transactions, in a window that does not begin with the chain.
#[test]
fn a_led_geth() {
    let (genesis, payloads) = led::chain("node-led", 17, 150);
    let mut geth = Led::at("node-led", &genesis, &payloads);
    geth.go_to(&payloads[139]);
    let server = follow(&[http(geth.address())]);
    wait_head(&server, (140, payloads[139].hash));
    for payload in &payloads[140..] {
        let head = geth.go_to(payload);
        wait_head(&server, head);
    }
    let mut same = Same::between(&server, geth.address());
    same.chain();
    same.blocks(151 - WINDOW..=150);
    same.finish(GETH);
    check_pruned(&server, 150 - WINDOW);
}

/// All forks, ommers among them.
#[test]
fn the_execution_apis_chain() {
    let geth = chain_of_execution_apis("node-execution-apis", 54);
    let server = follow(&[http(geth.address)]);
    let mut same = Same::between(&server, geth.address);
    same.chain();
    same.blocks(0..=54);
    for full in [true, false] {
        same.ask("block", "eth_getBlockByNumber", json!(["0x37", full]));
        same.ask(
            "block",
            "eth_getBlockByHash",
            json!([B256::repeat_byte(7), full]),
        );
    }
    same.finish(GETH_OMMERS);
}
