//! Every proof, verified against the header's stateRoot by a path that shares nothing with the one
//! that made it: alloy_trie's verifier.

use std::fs;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount, proof::verify_proof};
use serde_json::{Value, json};

use crate::harness::{self, Server, check, vectors};

/// Verifies the answer to an eth_getProof of `params`: the account's proof against `state_root`,
/// each slot's against the account's storage root, values and absences alike. Who and what is
/// proven stands in the request: an answer about something else is none. The number of slots that
/// hold something.
#[track_caller]
pub(crate) fn verify(params: &Value, answer: &Value, state_root: B256) -> usize {
    let address: Address = params[0].as_str().unwrap().parse().unwrap();
    let keys = params[1].as_array().unwrap();
    check("address", &answer["address"], &json!(address));
    let account = TrieAccount {
        nonce: quantity(answer, "nonce").to(),
        balance: quantity(answer, "balance"),
        storage_root: text(answer, "storageHash").parse().unwrap(),
        code_hash: text(answer, "codeHash").parse().unwrap(),
    };
    let absent = TrieAccount {
        nonce: 0,
        balance: U256::ZERO,
        storage_root: EMPTY_ROOT_HASH,
        code_hash: KECCAK256_EMPTY,
    };
    let path = Nibbles::unpack(keccak256(address));
    let nodes = nodes(answer, "accountProof");
    let expected = (account != absent).then(|| alloy_rlp::encode(account));
    // An account that exists and is empty (before EIP-158) is proven as present, one that is absent
    // as excluded.
    verify_proof(state_root, path, expected, &nodes)
        .or_else(|error| match account == absent {
            true => verify_proof(state_root, path, Some(alloy_rlp::encode(account)), &nodes),
            false => Err(error),
        })
        .unwrap_or_else(|error| panic!("account {address} under {state_root}: {error}"));

    let entries = answer["storageProof"].as_array();
    let entries = entries.expect("storageProof is an array");
    check("an entry for each key", &entries.len(), &keys.len());
    for (entry, key) in entries.iter().zip(keys) {
        let key = slot(key.as_str().unwrap());
        check("key", &slot(text(entry, "key")), &key);
        let value = quantity(entry, "value");
        let nodes = self::nodes(entry, "proof");
        if account.storage_root == EMPTY_ROOT_HASH {
            assert!(
                nodes.is_empty() && value.is_zero(),
                "the storage of {address} is empty: {entry}"
            );
            continue;
        }
        let expected = (!value.is_zero()).then(|| alloy_rlp::encode(value));
        verify_proof(
            account.storage_root,
            Nibbles::unpack(keccak256(key)),
            expected,
            &nodes,
        )
        .unwrap_or_else(|error| {
            panic!(
                "slot {key} of {address} under {}: {error}",
                account.storage_root
            )
        });
    }
    let values = entries.iter().map(|entry| quantity(entry, "value"));
    values.filter(|value| !value.is_zero()).count()
}

/// The slot that a storage key names: 32 bytes or a QUANTITY.
fn slot(key: &str) -> B256 {
    B256::from(U256::from_str_radix(key.strip_prefix("0x").unwrap(), 16).unwrap())
}

/// The state root of a block as eth_getBlockByNumber gives it.
#[track_caller]
pub(crate) fn state_root(block: &Value) -> B256 {
    text(block, "stateRoot").parse().unwrap()
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} is a string: {object}"))
}

fn quantity(object: &Value, member: &str) -> U256 {
    U256::from_str_radix(text(object, member).strip_prefix("0x").unwrap(), 16).unwrap()
}

fn nodes(object: &Value, member: &str) -> Vec<Bytes> {
    let nodes = object[member]
        .as_array()
        .unwrap_or_else(|| panic!("{member} is an array: {object}"));
    nodes
        .iter()
        .map(|node| node.as_str().unwrap().parse().unwrap())
        .collect()
}

/// All accounts of the genesis and somebody who is not there, at every height of the execution-apis
/// chain.
#[test]
fn every_height_is_proven() {
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
    // Slots of the genesis are never cleared here, and contracts write others on the way.
    assert!(
        present > 55 * in_genesis,
        "only {present} slots hold something"
    );
}

/// The largest proof that is allowed: 1,024 slots of a contract, most of them not there.
#[test]
fn many_slots_are_proven() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let keys: Vec<String> = (0..1024).map(|slot| format!("{slot:#x}")).collect();
    let params = json!(["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df", keys]);
    let proof = connection.result("eth_getProof", &params);
    let present = verify(&params, &proof, state_root(&block));
    assert!((1..1024).contains(&present), "{present} of 1,024");
}

/// The verifier refuses what is not so: a proof is worth something only because of this.
#[test]
fn a_changed_answer_is_not_proven() {
    let server = Server::execution_apis(&[]);
    let mut connection = server.connect();
    let block = connection.result("eth_getBlockByNumber", &json!(["latest", false]));
    let state_root = state_root(&block);
    let params = json!(["0x7dcd17433742f4c0ca53122ab541d0ba67fc27df", ["0x0"]]);
    let proof = connection.result("eth_getProof", &params);
    verify(&params, &proof, state_root);
    // Sound proofs of what was not asked.
    let nobody = json!(["0x00000000000000000000000000000000000000ff", ["0x0"]]);
    let nobody = connection.result("eth_getProof", &nobody);
    let other_slot = connection.result("eth_getProof", &json!([params[0], ["0x1"]]));
    for (name, answer) in [("another account", nobody), ("another slot", other_slot)] {
        let verified = std::panic::catch_unwind(|| verify(&params, &answer, state_root));
        assert!(verified.is_err(), "{name}: verified all the same");
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
        assert!(verified.is_err(), "{name}: verified all the same");
    }
}
