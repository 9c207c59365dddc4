//! Proofs over the execution-apis chain.

use std::fs;

use serde_json::{Value, json};

use super::{state_root, verify};
use crate::harness::{self, Server, vectors};

/// All accounts of the genesis and two absent ones, at every block of the execution-apis chain.
#[test]
fn every_account_is_proven_at_every_block() {
    let genesis = harness::json(&fs::read(vectors().join("genesis.json")).unwrap());
    let mut accounts: Vec<(String, Vec<String>)> = genesis["alloc"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(address, account)| {
            let slots = account["storage"].as_object();
            let slots = slots.into_iter().flat_map(|slots| slots.keys().cloned());
            (format!("0x{address}"), slots.collect())
        })
        .collect();
    accounts.extend([
        ("0x00000000000000000000000000000000000000ff".into(), vec![]),
        (format!("0x{}", "f".repeat(40)), vec![]),
    ]);
    let in_genesis: usize = accounts.iter().map(|(_, slots)| slots.len()).sum();
    assert!(in_genesis > 0, "the genesis has no storage");
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let mut present = 0;
    for number in 0..=54 {
        let height = format!("{number:#x}");
        let block = connection.result("eth_getBlockByNumber", &json!([height, false]));
        let state_root = state_root(&block);
        for (address, slots) in &accounts {
            let mut keys = slots.clone();
            keys.extend(["0x0", "0x1", "0xffff"].map(String::from));
            let params = json!([address, keys, height]);
            present += verify(
                &params,
                &connection.result("eth_getProof", &params),
                state_root,
            );
        }
    }
    // The genesis' slots are never cleared on this chain, and contracts write others.
    assert!(
        present > 55 * in_genesis,
        "only {present} slots are not zero"
    );
}

/// The largest allowed proof: 1,024 slots of a contract, most of them empty.
#[test]
fn the_largest_allowed_proof_verifies() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let keys: Vec<String> = (0..1024).map(|slot| format!("{slot:#x}")).collect();
    let params = json!(["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df", keys]);
    let proof = connection.result("eth_getProof", &params);
    let present = verify(&params, &proof, state_root(&block));
    assert!((1..1024).contains(&present), "{present} of 1,024");
}

/// The verifier refuses false answers: without this test the others would show nothing.
#[test]
fn a_changed_answer_does_not_verify() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let state_root = state_root(&block);
    let params = json!(["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df", ["0x0"]]);
    let proof = connection.result("eth_getProof", &params);
    verify(&params, &proof, state_root);
    // Valid proofs of something else.
    let other_account = json!(["0x00000000000000000000000000000000000000ff", ["0x0"]]);
    let other_account = connection.result("eth_getProof", &other_account);
    let other_slot = connection.result("eth_getProof", &json!([params[0], ["0x1"]]));
    for (name, answer) in [
        ("another account", other_account),
        ("another slot", other_slot),
    ] {
        let verified = std::panic::catch_unwind(|| verify(&params, &answer, state_root));
        assert!(verified.is_err(), "{name}: verified");
    }
    type Change = fn(&mut Value);
    let changed: [(&str, Change); 5] = [
        ("balance", |proof| proof["balance"] = json!("0x1")),
        ("nonce", |proof| proof["nonce"] = json!("0x7")),
        ("value", |proof| {
            proof["storageProof"][0]["value"] = json!("0x39")
        }),
        ("an entry is left out", |proof| {
            _ = proof["storageProof"].as_array_mut().unwrap().pop()
        }),
        ("a node is left out", |proof| {
            _ = proof["accountProof"].as_array_mut().unwrap().pop()
        }),
    ];
    for (name, change) in changed {
        let mut proof = proof.clone();
        change(&mut proof);
        let verified = std::panic::catch_unwind(|| verify(&params, &proof, state_root));
        assert!(verified.is_err(), "{name}: verified");
    }
}
