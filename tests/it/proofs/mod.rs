//! Verifies proofs against the header's stateRoot with alloy_trie, which shares no code with the
//! prover.

#[cfg(feature = "all-tests")]
mod execution_apis;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};

use alloy_trie::{EMPTY_ROOT_HASH, Nibbles, TrieAccount, proof::verify_proof};

use serde_json::{Value, json};

use crate::harness::check;

/// Gives a proof of geth's the hashes that an absent account has. geth states zero for them,
/// against which no proof verifies.
#[cfg(feature = "all-tests")]
pub(crate) fn name_hashes_of_nothing(proof: &mut Value) {
    if proof["codeHash"] == json!(B256::ZERO) {
        proof["codeHash"] = json!(KECCAK256_EMPTY);
        proof["storageHash"] = json!(EMPTY_ROOT_HASH);
    }
}

/// Verifies the answer to an eth_getProof of `params`: the account's proof against `state_root`,
/// and each slot's against the account's storage root, for values and absences alike. Address and
/// keys come from the request, so that a proof of another account or slot fails. Returns the number
/// of slots that are not zero.
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
    // An existing empty account (before EIP-158) has a proof of presence, an absent one an
    // exclusion proof.
    verify_proof(state_root, path, expected, &nodes)
        .or_else(|error| match account == absent {
            true => verify_proof(state_root, path, Some(alloy_rlp::encode(account)), &nodes),
            false => Err(error),
        })
        .unwrap_or_else(|error| panic!("account {address} under {state_root}: {error}"));

    let entries = answer["storageProof"].as_array();
    let entries = entries.expect("storageProof should be an array");
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

/// The slot of a storage key: 32 bytes or a QUANTITY.
fn slot(key: &str) -> B256 {
    B256::from(U256::from_str_radix(key.strip_prefix("0x").unwrap(), 16).unwrap())
}

/// The state root in an answer to eth_getBlockByNumber.
#[track_caller]
pub(crate) fn state_root(block: &Value) -> B256 {
    text(block, "stateRoot").parse().unwrap()
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} is not a string: {object}"))
}

fn quantity(object: &Value, member: &str) -> U256 {
    U256::from_str_radix(text(object, member).strip_prefix("0x").unwrap(), 16).unwrap()
}

fn nodes(object: &Value, member: &str) -> Vec<Bytes> {
    let nodes = object[member]
        .as_array()
        .unwrap_or_else(|| panic!("{member} is not an array: {object}"));
    nodes
        .iter()
        .map(|node| node.as_str().unwrap().parse().unwrap())
        .collect()
}
