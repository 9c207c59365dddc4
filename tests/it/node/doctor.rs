//! `nearhead doctor` with real nodes.

use super::http;
use crate::{
    harness::{Process, check, nearhead, scratch},
    upstreams::{Anvil, Geth},
};

fn examine(arguments: &[&str]) -> (Option<i32>, String) {
    let listen = ["doctor", "--listen", "127.0.0.1:0", "--source", "node"];
    let mut command = nearhead(listen.iter().chain(arguments).copied());
    let (status, text) = Process::start(&mut command).wait();
    (status.code(), text)
}

#[test]
fn real_nodes_have_what_is_needed() {
    let mut anvil = Anvil::start(&["--no-mining"]);
    anvil.mine(3);
    let url = http(anvil.address);
    let (code, text) = examine(&["--node", &url, "--head-age-max", "off"]);
    check(&text, &code, &Some(0));
    // On a busy machine, it may be slow.
    let finds = [": chain 31337, head 3", ": a cheap answer takes"];
    let is_found = finds
        .iter()
        .any(|found| text.contains(&format!("{url}{found}")));
    assert!(is_found, "{text}");
    assert!(text.contains("good  clock:"), "{text}");
    // A chain that it is not on.
    let (code, text) = examine(&["--node", &url, "--network", "mainnet"]);
    check(&text, &code, &Some(1));
    assert!(text.contains("it is on chain 31337, not on 1"), "{text}");
}

/// Nodes of two chains.
#[test]
fn nodes_of_two_chains_are_found() {
    let anvil = Anvil::start(&[]);
    let geth = Geth::dev(&scratch("doctor-geth"), 0);
    let urls = [anvil.address, geth.address].map(http);
    let (code, text) = examine(&["--node", &urls[0], "--node", &urls[1]]);
    check(&text, &code, &Some(1));
    let other = "it is on another chain than the first node: 1337";
    assert!(text.contains(other), "{text}");
}
