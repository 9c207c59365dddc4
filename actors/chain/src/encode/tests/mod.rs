//! Every byte that a block serves, against values built from the alloy types without the writer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub(crate) mod arbitrary;
mod oracle;
mod vectors;

use alloy_primitives::{Address, B256, U256, address, b256};
use alloy_trie::TrieAccount;
use proptest::prelude::*;
use serde_json::{Value, json};

use self::arbitrary::Sample;
use super::{BlockJson, EncodeOptions, ProofKey, receipt, transaction, value};
use crate::{
    json::Json,
    trie::{AccountProof, StorageProof},
};

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|why| {
        panic!("{why}: {}", String::from_utf8_lossy(bytes));
    })
}

/// Everything that can be asked of the block, each slice on its own and as a part of the whole.
fn check(sample: &Sample, options: EncodeOptions) {
    let parts = sample.parts();
    let json = BlockJson::encode(&parts, options).unwrap();
    let transactions = check_block(sample, &json, options);
    assert_eq!(json.transaction_count(), transactions.len());
    for (index, (expected, transaction)) in transactions
        .iter()
        .zip(&parts.raw.body.transactions)
        .enumerate()
    {
        let bytes = json.transaction(index).unwrap();
        assert_eq!(parsed(&bytes), *expected);
        assert!(bytes.len() <= transaction::size_hint(transaction));
    }
    assert_eq!(json.transaction(transactions.len()), None);
    check_receipts(sample, &json);
    let uncles = oracle::uncles(&parts, options);
    assert_eq!(json.uncle_count(), uncles.len());
    for (index, expected) in uncles.iter().enumerate() {
        assert_eq!(parsed(&json.uncle(index).unwrap()), *expected);
    }
    assert_eq!(json.uncle(uncles.len()), None);
}

/// Checks both forms of the block and returns its transactions.
fn check_block(sample: &Sample, json: &BlockJson, options: EncodeOptions) -> Vec<Value> {
    let parts = sample.parts();
    let full = parsed(&json.block(true));
    let hashes = parsed(&json.block(false));
    let transactions = oracle::transactions(&parts);
    let mut expected = oracle::block(&parts, options);
    expected["transactions"] = json!(transactions);
    assert_eq!(full, expected);
    let of_each = transactions
        .iter()
        .map(|transaction| transaction["hash"].clone());
    expected["transactions"] = of_each.collect();
    assert_eq!(hashes, expected);
    assert!(json.bytes() >= json.block(true).len() + json.block(false).len());
    transactions
}

fn check_receipts(sample: &Sample, json: &BlockJson) {
    let parts = sample.parts();
    let expected = oracle::receipts(&parts);
    let all = json.receipts();
    assert_eq!(parsed(&all), json!(expected));
    let mut log_index = 0;
    for (index, (expected, receipt)) in expected.iter().zip(parts.receipts).enumerate() {
        let bytes = json.receipt(index).unwrap();
        assert_eq!(parsed(&bytes), *expected);
        assert!(bytes.len() <= receipt::size_hint(receipt));
        let logs = expected["logs"].as_array().unwrap();
        let ranges: Vec<_> = (log_index..log_index + logs.len())
            .map(|index| json.log_range(index).unwrap())
            .collect();
        for (range, log) in ranges.iter().zip(logs) {
            assert_eq!(parsed(&all[range.clone()]), *log);
        }
        for pair in ranges.windows(2) {
            assert_eq!(&all[pair[0].end..pair[1].start], b",");
        }
        log_index += logs.len();
    }
    assert_eq!(json.log_count(), log_index);
    assert_eq!(json.log_range(log_index), None);
    assert_eq!(json.receipt(expected.len()), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_are_written_as_the_oracle_says(
        sample in arbitrary::block(),
        omit_total_difficulty: bool,
    ) {
        check(&sample, EncodeOptions { omit_total_difficulty });
    }
}

/// The members that a fork adds are absent before it.
#[test]
fn forks_add_members_to_blocks() {
    let table: [(&str, &[&str]); 5] = [
        ("frontier", &[]),
        ("london", &["baseFeePerGas"]),
        ("shanghai", &["withdrawals", "withdrawalsRoot"]),
        (
            "cancun",
            &["blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot"],
        ),
        ("prague", &["requestsHash"]),
    ];
    let added: Vec<&str> = table.iter().flat_map(|row| row.1).copied().collect();
    let mut present = 0;
    for (fork, (name, members)) in table.into_iter().enumerate() {
        present += members.len();
        let sample = Sample::empty_block(fork);
        check(&sample, EncodeOptions::default());
        let json = BlockJson::encode(&sample.parts(), EncodeOptions::default()).unwrap();
        let block = parsed(&json.block(true));
        for (index, member) in added.iter().enumerate() {
            let found = block.get(member).is_some();
            assert_eq!(found, index < present, "{member} in a {name} block");
        }
        assert_eq!(&json.receipts()[..], b"[]");
    }
}

/// `totalDifficulty` is a quantity, null, or not there.
#[test]
fn total_difficulty_is_an_option() {
    let table = [
        (Some(U256::from(0x20000)), false, Some(json!("0x20000"))),
        (None, false, Some(Value::Null)),
        (Some(U256::from(0x20000)), true, None),
        (None, true, None),
    ];
    for (total_difficulty, omit_total_difficulty, expected) in table {
        let mut sample = Sample::empty_block(0);
        sample.total_difficulty = total_difficulty;
        sample.raw.body.ommers = vec![sample.raw.header.clone()];
        let options = EncodeOptions {
            omit_total_difficulty,
        };
        let json = BlockJson::encode(&sample.parts(), options).unwrap();
        for full in [true, false] {
            let block = parsed(&json.block(full));
            assert_eq!(block.get("totalDifficulty"), expected.as_ref());
        }
        let of_uncle = (!omit_total_difficulty).then_some(Value::Null);
        let uncle = parsed(&json.uncle(0).unwrap());
        assert_eq!(uncle.get("totalDifficulty"), of_uncle.as_ref());
    }
}

fn bytes(json: &Json) -> Vec<u8> {
    json.pieces().concat()
}

#[test]
fn values_are_hex_strings() {
    let hash = b256!("00000000000000000000000000000000000000000000000000000000000000ff");
    let table = [
        (value::quantity(U256::ZERO), json!("0x0")),
        (
            value::quantity(U256::MAX),
            json!(format!("0x{}", "f".repeat(64))),
        ),
        (value::number(u64::MAX), json!("0xffffffffffffffff")),
        (value::data(&[]), json!("0x")),
        (value::data(&[0, 1, 0xAB]), json!("0x0001ab")),
        (value::hash(&hash), json!(hash.to_string())),
    ];
    for (json, expected) in table {
        assert_eq!(parsed(&bytes(&json)), expected);
    }
}

const ACCOUNT: Address = address!("00000000000000000000000000000000000000aa");

fn check_proof(proof: &AccountProof, keys: &[ProofKey], expected: &Value) {
    let json = super::proof(&ACCOUNT, proof, keys);
    assert_eq!(parsed(&bytes(&json)), *expected);
}

#[test]
fn proof_of_an_account_echoes_its_keys() {
    let slot = |value: u64, nodes: &[&'static [u8]]| StorageProof {
        value: U256::from(value),
        nodes: nodes.iter().map(|node| (*node).into()).collect(),
    };
    let account = TrieAccount {
        nonce: 1,
        balance: U256::from(0x100),
        storage_root: B256::repeat_byte(2),
        code_hash: B256::repeat_byte(3),
    };
    let proof = AccountProof {
        account: Some(account),
        nodes: vec![[0xC0].into(), [0xC1, 0x80].into()],
        storage: vec![
            slot(0x38, &[b"\x01", b"\x02"]),
            slot(0x38, &[]),
            slot(0, &[]),
        ],
    };
    let keys = [
        ProofKey::Short(U256::ZERO),
        ProofKey::Full(U256::ZERO),
        ProofKey::Full(U256::from(1)),
    ];
    check_proof(
        &proof,
        &keys,
        &json!({
            "address": "0x00000000000000000000000000000000000000aa",
            "accountProof": ["0xc0", "0xc180"],
            "balance": "0x100",
            "codeHash": B256::repeat_byte(3).to_string(),
            "nonce": "0x1",
            "storageHash": B256::repeat_byte(2).to_string(),
            "storageProof": [
                {"key": "0x0", "value": "0x38", "proof": ["0x01", "0x02"]},
                {"key": format!("0x{}", "0".repeat(64)), "value": "0x38", "proof": []},
                {"key": format!("0x{}1", "0".repeat(63)), "value": "0x0", "proof": []},
            ],
        }),
    );
}

#[test]
fn proof_of_an_absent_account_has_the_empty_hashes() {
    let proof = AccountProof {
        account: None,
        nodes: vec![[0x80].into()],
        storage: Vec::new(),
    };
    check_proof(
        &proof,
        &[],
        &json!({
            "address": "0x00000000000000000000000000000000000000aa",
            "accountProof": ["0x80"],
            "balance": "0x0",
            "codeHash": "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
            "nonce": "0x0",
            "storageHash": "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
            "storageProof": [],
        }),
    );
}
