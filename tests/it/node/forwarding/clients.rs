//! Real clients send transactions through nearhead to an anvil.

use std::process::Command;

use serde_json::Value;

use super::SENDS;
use crate::{
    harness::{KEY, Process, check, installed, json as parse},
    node::{follow_with, http},
    upstreams::{Anvil, FIRST_KEY},
};

/// They take each nonce from the count that is pending: the second transaction is sent before the
/// first one is in a block.
#[test]
fn ethers_and_viem_send_two_transactions_in_a_row() {
    let anvil = Anvil::start(&["--block-time", "2", "--chain-id", "77"]);
    let server = follow_with(&[http(anvil.address)], &SENDS);
    installed("tests/clients/node_modules/.installed");
    let mut command = Command::new("node");
    command
        .arg(installed("tests/clients/send.mjs"))
        .arg(format!("http://{}/v3/{KEY}", server.address))
        .arg(FIRST_KEY.to_string());
    let (status, output) = Process::start(&mut command).wait();
    assert!(status.success(), "{output}");
    let line = output.lines().last().unwrap_or_default();
    let sent = parse(line.as_bytes());
    let all = ["ethers", "viem"].map(|client| sent[client].as_array().unwrap().clone());
    for (nonce, one) in all.concat().iter().enumerate() {
        let found = (&one["nonce"], &one["status"]);
        check(line, &found, &(&Value::from(nonce), &Value::from(1)));
    }
}
