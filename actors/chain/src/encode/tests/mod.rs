//! Compares every member of a block's JSON with values that are built from the alloy types, without
//! the writer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub(crate) mod arbitrary;
mod oracle;
#[cfg(feature = "all-tests")]
mod vectors;

use std::sync::Arc;

use alloy_consensus::SignableTransaction;
use alloy_primitives::{Address, Signature, U256, address, b256};
use alloy_trie::KECCAK_EMPTY;
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

use self::arbitrary::Sample;
use super::{BlockJson, EncodeOptions, ProofKey, receipt, value};
use crate::network::{Transaction, TxType, transaction};
use crate::{
    json::Json,
    trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate},
};

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(bytes));
    })
}

/// Checks every answer about the block: each slice alone, and as a part of the whole.
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
    let hashes_alone = transactions
        .iter()
        .map(|transaction| transaction["hash"].clone());
    expected["transactions"] = hashes_alone.collect();
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

/// The same block with legacy transactions as simulated blocks have them: nobody signed them.
fn unsigned(mut sample: Sample) -> Sample {
    for transaction in &mut sample.raw.body.transactions {
        if let Transaction::Legacy(signed) = transaction {
            let nothing = Signature::new(U256::ZERO, U256::ZERO, false);
            *transaction = signed.tx().clone().into_signed(nothing).into();
        }
    }
    sample
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_match_the_oracle(
        sample in arbitrary::block(),
        is_simulated: bool,
        omit_total_difficulty: bool,
    ) {
        let sample = if is_simulated { unsigned(sample) } else { sample };
        check(&sample, EncodeOptions { omit_total_difficulty });
    }
}

/// Without samples of a type, nothing that it writes or reads would be tested.
#[test]
fn every_type_has_samples() {
    let mut runner = TestRunner::deterministic();
    let mut sample = || arbitrary::transaction().new_tree(&mut runner).unwrap();
    let found: Vec<_> = (0..200).map(|_| sample().current().tx_type()).collect();
    for tx_type in TxType::ALL {
        assert!(found.contains(tx_type), "{tx_type:?} has no samples");
    }
}

/// The members that a fork adds are absent before it.
#[test]
fn forks_add_members_to_blocks() {
    let table: [(&str, &[&str]); 6] = [
        ("frontier", &[]),
        ("london", &["baseFeePerGas"]),
        ("shanghai", &["withdrawals", "withdrawalsRoot"]),
        (
            "cancun",
            &["blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot"],
        ),
        ("prague", &["requestsHash"]),
        ("amsterdam", &["blockAccessListHash", "slotNumber"]),
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

#[test]
fn total_difficulty_is_a_quantity_null_or_absent() {
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
        let expected = (!omit_total_difficulty).then_some(Value::Null);
        let uncle = parsed(&json.uncle(0).unwrap());
        assert_eq!(uncle.get("totalDifficulty"), expected.as_ref());
    }
}

fn bytes(json: Json) -> Vec<u8> {
    let (len, mut out) = (json.len(), Vec::new());
    json.write(&mut out).unwrap();
    assert_eq!(out.len(), len);
    out
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
        assert_eq!(parsed(&bytes(json)), expected);
    }
}

#[test]
fn long_code_is_made_as_it_is_taken() {
    for len in [0, 1, 31, 32, 33, 1_000, 24_576] {
        let code: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let built = bytes(value::data(&code));
        for most in [64, 65, 1_000, usize::MAX] {
            let mut json = value::shared_data(code.clone().into(), 0);
            if len > 0 {
                assert!(json.held() < 64, "{} bytes are held", json.held());
                let own = value::own_data(code.clone().into(), 0);
                assert!(own.held() >= len, "{} bytes of {len} are held", own.held());
            }
            let mut out = Vec::new();
            let Json::One(piece) = &mut json else {
                panic!("{json:?}")
            };
            while !piece.is_empty() {
                let part = piece.take(most).unwrap();
                assert!(part.len() <= most.max(64));
                out.extend_from_slice(&part);
                assert_eq!(out.len() + piece.len(), built.len());
            }
            assert_eq!(out, built, "{len} bytes of code, {most} at most");
        }
    }
}

const ACCOUNT: Address = address!("00000000000000000000000000000000000000aa");

/// A state of two accounts, one of which has a slot.
fn state() -> Arc<State> {
    let empty = State::empty(&NodeStore::new());
    let account = |balance: u64, storage: Vec<(U256, U256)>| AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::from(balance),
            code_hash: KECCAK_EMPTY,
        }),
        storage_wiped: false,
        storage,
    };
    let mut update = StateUpdate::default();
    let slots = (0..40).map(|slot| (U256::from(slot), U256::from(0x38)));
    update
        .accounts
        .insert(ACCOUNT, account(0x100, slots.collect()));
    update
        .accounts
        .insert(Address::ZERO, account(1, Vec::new()));
    empty.commit(empty.update(&update).unwrap())
}

/// Compares the proof of `address`, built and lazy, with the state's.
fn check_proof(address: Address, keys: &[(ProofKey, &str)]) {
    let state = state();
    let slots: Vec<U256> = keys.iter().map(|(key, _)| key.slot()).collect();
    let proved = state.prove(&address, &slots).unwrap();
    let account = proved.account.unwrap_or_default();
    let storage: Vec<Value> = keys
        .iter()
        .zip(&proved.storage)
        .map(|((_, key), slot)| json!({"key": key, "value": format!("{:#x}", slot.value), "proof": slot.nodes}))
        .collect();
    let expected = json!({
        "address": address,
        "accountProof": proved.nodes,
        "balance": format!("{:#x}", account.balance),
        "codeHash": account.code_hash,
        "nonce": format!("{:#x}", account.nonce),
        "storageHash": account.storage_root,
        "storageProof": storage,
    });
    let keys: Vec<ProofKey> = keys.iter().map(|(key, _)| *key).collect();
    let prove = |built_max| super::proof(&state, address, keys.clone(), built_max).unwrap();
    let built = bytes(prove(usize::MAX));
    assert_eq!(parsed(&built), expected);
    let lazy = prove(built.len() - 1);
    assert!(
        lazy.held() < 400 + 64 * keys.len(),
        "{} bytes are held",
        lazy.held()
    );
    assert_eq!(bytes(lazy), built);
    assert_eq!(prove(built.len()).held(), built.len(), "it is built");
}

#[test]
fn proof_of_an_account_echoes_its_keys() {
    let zeros = "0".repeat(63);
    let (zero, one, many) = (
        format!("0x0{zeros}"),
        format!("0x{zeros}1"),
        format!("0x{}64", "0".repeat(62)),
    );
    check_proof(
        ACCOUNT,
        &[
            (ProofKey::Short(U256::ZERO), "0x0"),
            (ProofKey::Full(U256::ZERO), &zero),
            (ProofKey::Full(U256::from(1)), &one),
            (ProofKey::Short(U256::from(0x64)), "0x64"),
            (ProofKey::Full(U256::from(0x64)), &many),
        ],
    );
    let long = vec![(ProofKey::Short(U256::from(7)), "0x7"); 1_024];
    check_proof(ACCOUNT, &long);
}

#[test]
fn proof_of_an_absent_account_has_the_empty_hashes() {
    let absent = address!("00000000000000000000000000000000000000bb");
    check_proof(absent, &[(ProofKey::Short(U256::ZERO), "0x0")]);
    let json = bytes(super::proof(&state(), absent, Vec::new(), usize::MAX).unwrap());
    let json = parsed(&json);
    let expected = [
        ("balance", "0x0"),
        ("nonce", "0x0"),
        (
            "codeHash",
            "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        ),
        (
            "storageHash",
            "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
        ),
    ];
    for (member, value) in expected {
        assert_eq!(json[member], value);
    }
    assert_eq!(json["storageProof"], json!([]));
}
