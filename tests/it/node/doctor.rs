//! `nearhead doctor` with real nodes.

use std::slice;

use super::http;
use crate::{
    harness::{
        Process, check,
        failing_disk::{self, DiskFault},
        nearhead, scratch, wait_until,
    },
    upstreams::{Anvil, Geth},
    window,
};

fn examine(arguments: &[&str]) -> (Option<i32>, String) {
    run_doctor(&[&["--source", "node"], arguments].concat())
}

fn run_doctor(arguments: &[&str]) -> (Option<i32>, String) {
    let listen = ["doctor", "--listen", "127.0.0.1:0"];
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

/// The chain of a genesis file, and what is passed on.
#[test]
fn the_genesis_file_says_which_chain_it_is() {
    let (genesis, chain) = window::export("doctor-genesis", &["--blocks", "2", "--seed", "5"]);
    let (genesis, chain) = (genesis.to_str().unwrap(), chain.to_str().unwrap());
    let geth = Geth::dev(&scratch("doctor-other-genesis"), 0);
    let url = http(geth.address);
    let forward = ["--forward", "eth_sendRawTransaction"];
    let node = ["--node", &url, "--genesis", genesis];
    let (code, text) = examine(&[&node[..], &forward].concat());
    check(&text, &code, &Some(1));
    assert!(
        text.contains("good  --genesis: the chain with chain id 1337 and genesis 0x"),
        "{text}"
    );
    assert!(
        text.contains(&format!("{url}: its genesis is not 0x")),
        "{text}"
    );
    assert!(
        text.contains("whether the nodes have them was not checked"),
        "{text}"
    );
    let (code, text) = examine(&["--node", &url, "--genesis", chain]);
    check(&text, &code, &Some(1));
    assert!(text.contains("BAD   --genesis:"), "{text}");
    let files = ["--source", "files", "--chain", chain, "--genesis"];
    let (_, text) = run_doctor(&[&files[..], &[genesis]].concat());
    assert!(
        text.contains("of the blocks, only the first was checked"),
        "{text}"
    );
    let (code, text) = run_doctor(&[&files[..], &[chain]].concat());
    check(&text, &code, &Some(1));
    assert!(text.contains("BAD   --genesis, --chain:"), "{text}");
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

/// A disk that does not answer is a finding, which is given without it.
#[test]
fn a_disk_that_hangs_is_found() {
    let data = scratch("doctor-hangs");
    let folder = data.to_str().unwrap();
    let command = nearhead(["doctor", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    let doctor = Process::start(&mut failing_disk::with_failing_disk(
        &command,
        slice::from_ref(&data),
        DiskFault::Hangs,
    ));
    wait_until("ended", || doctor.has_exited());
    failing_disk::mend(&doctor);
    let text = doctor.check_end(1);
    let expected = format!("the file system of {folder} does not answer");
    assert!(text.contains(&expected), "{text}");
}
