//! Real clients send transactions through nearhead to a geth.

use serde_json::json;

use super::SENDS;
use crate::{
    clients::{alloy_client, node_js, steps, wait_for_end, web3_py},
    harness::{KEY, Process, check, scratch},
    node::{follow_with, http},
    upstreams::{FIRST_KEY, Genesis, Geth, Wallet},
};

/// They take each nonce from the count that is pending: the second transaction is sent before the
/// first one is in a block. Gas and fees are as they estimate them.
#[test]
fn five_clients_send_two_transactions_in_a_row() {
    let folder = scratch("forwarding-clients");
    let mut genesis = Genesis::of_dev_mode(&folder);
    genesis.add_rich(Wallet::of(FIRST_KEY).address);
    let file = genesis.write(&folder);
    let geth = Geth::dev_at_genesis(&folder.join("geth"), &file, 2);
    // Its rules are known, so that gas is estimated.
    let rules = ["--genesis", file.to_str().unwrap()];
    let server = follow_with(&[http(geth.address)], &[&SENDS[..], &rules].concat());
    let clients = [
        node_js("ethers.mjs"),
        node_js("viem.mjs"),
        node_js("web3js.mjs"),
        web3_py(),
        alloy_client(),
    ];
    for (at, mut client) in clients.into_iter().enumerate() {
        let url = format!("http://{}/v3/{KEY}", server.address);
        client.args(["send", &url, &FIRST_KEY.to_string()]);
        let (name, text) = wait_for_end(Process::start(&mut client));
        let sent: Vec<_> = steps(&text).filter(|step| step["step"] == "sent").collect();
        let first = 2 * at;
        let expected = [first, first + 1]
            .map(|nonce| json!({"step": "sent", "nonce": format!("{nonce:#x}"), "status": "0x1"}));
        check(&name, &sent, &expected.to_vec());
    }
}
