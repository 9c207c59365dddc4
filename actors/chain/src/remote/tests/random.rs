//! Random blocks with valid signatures and roots: headers of every fork, every type of transaction,
//! failed creations, ommers.

use alloy_consensus::{SignableTransaction, Signed, TxLegacy, proofs};
use alloy_primitives::{Signature, U256};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{TestCaseResult, TestRunner},
};
use serde_json::Value;

use super::{
    super::{
        RequestedBlock,
        object_kind::{UNCOVERED, is_quantity},
    },
    Statement, parsed, served, verifier,
};
use crate::{
    block::{Block, Receipt, Transaction},
    encode::{
        BlockJson, EncodeOptions,
        tests::arbitrary::{self, Sample},
    },
    network::FeeRules,
    verify,
};

/// The id of a chain without built-in parameters.
const CHAIN_ID: u64 = 31_337;

/// The transaction with [`CHAIN_ID`], and with a signature from which a sender can be recovered.
fn signed(transaction: &Transaction) -> Transaction {
    fn sign<T: SignableTransaction<Signature>>(transaction: T) -> Transaction
    where
        Transaction: From<Signed<T>>,
    {
        transaction.into_signed(Signature::test_signature()).into()
    }
    match transaction.clone() {
        Transaction::Legacy(legacy) => {
            let mut legacy = legacy.strip_signature();
            legacy.chain_id = legacy.chain_id.map(|_| CHAIN_ID);
            sign(legacy)
        }
        Transaction::Eip2930(typed) => {
            let mut typed = typed.strip_signature();
            typed.chain_id = CHAIN_ID;
            sign(typed)
        }
        Transaction::Eip1559(typed) => {
            let mut typed = typed.strip_signature();
            typed.chain_id = CHAIN_ID;
            sign(typed)
        }
        Transaction::Eip4844(typed) => {
            let mut typed = typed.strip_signature();
            typed.chain_id = CHAIN_ID;
            sign(typed)
        }
        Transaction::Eip7702(typed) => {
            let mut typed = typed.strip_signature();
            typed.chain_id = CHAIN_ID;
            sign(typed)
        }
    }
}

/// A block whose header commits to its body and receipts.
fn consistent_block() -> impl Strategy<Value = Sample> {
    arbitrary::block().prop_map(|mut sample| {
        let Sample {
            raw,
            receipts,
            senders,
            fees,
            ..
        } = &mut sample;
        for transaction in &mut raw.body.transactions {
            *transaction = signed(transaction);
        }
        // A header has a withdrawals root from its fork on.
        let withdrawals = raw.body.withdrawals.take().unwrap_or_default();
        raw.body.withdrawals = raw.header.withdrawals_root.map(|_| withdrawals);
        let (header, body) = (&mut raw.header, &raw.body);
        header.transactions_root = proofs::calculate_transaction_root(&body.transactions);
        header.receipts_root = proofs::calculate_receipt_root(receipts);
        header.logs_bloom = verify::logs_bloom(receipts);
        header.ommers_hash = body.calculate_ommers_root();
        header.withdrawals_root = body.calculate_withdrawals_root();
        header.gas_used = match header.block_access_list_hash {
            None => receipts.last().map_or(0, Receipt::cumulative_gas_used),
            // Not what the receipts count.
            Some(_) => header.gas_used.min(header.gas_limit),
        };
        let blobs = body.transactions.iter();
        let blobs = blobs.filter_map(alloy_consensus::Transaction::blob_gas_used);
        header.blob_gas_used = header.blob_gas_used.map(|_| blobs.sum());
        *fees = FeeRules::of_chain(CHAIN_ID).fees(header);
        *senders = verify::recover_senders_of(CHAIN_ID, &raw.body.transactions).unwrap();
        sample
    })
}

/// The receipts of a client that states no contract address for a failed creation.
fn without_failed_creations(receipts: &[u8]) -> Vec<u8> {
    let mut receipts = parsed(receipts);
    for receipt in receipts.as_array_mut().unwrap() {
        if receipt["status"] == "0x0" {
            receipt["contractAddress"] = Value::Null;
        }
    }
    receipts.to_string().into()
}

/// Checks that what has an odd number of digits is known as a number: data has whole bytes.
fn check_quantities(name: &str, value: &Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                check_quantities(name, value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| check_quantities(name, item)),
        Value::String(text) => {
            assert!(
                text.len() % 2 == 0 || name == UNCOVERED || is_quantity(name),
                "{name} is not known as a number"
            );
        }
        _ => {}
    }
}

/// A restored block whose sender cannot be recovered has null JSON.
#[test]
fn a_restored_block_without_a_sender_is_null() {
    let mut runner = TestRunner::deterministic();
    let has_transactions = |sample: &Sample| !sample.raw.body.transactions.is_empty();
    let strategy = consistent_block().prop_filter("it has transactions", has_transactions);
    let mut sample = strategy.new_tree(&mut runner).unwrap().current();
    let verifier = verifier(CHAIN_ID, FeeRules::of_chain(CHAIN_ID));
    let unsigned = TxLegacy::default().into_signed(Signature::new(U256::ZERO, U256::ZERO, false));
    let (header, body) = (&mut sample.raw.header, &mut sample.raw.body);
    body.transactions[0] = unsigned.into();
    let blobs = body.transactions.iter();
    let blobs = blobs.filter_map(alloy_consensus::Transaction::blob_gas_used);
    header.blob_gas_used = header.blob_gas_used.map(|_| blobs.sum());
    header.transactions_root = proofs::calculate_transaction_root(&body.transactions);
    let Sample { raw, receipts, .. } = sample;
    let restored = verifier.verify_saved(raw.header.hash_slow(), raw, receipts, None);
    let restored = restored.unwrap();
    let error = restored.make_json().unwrap_err().to_string();
    assert!(error.contains("signature"), "{error}");
    let json = restored.json();
    let answers = [json.block(true), json.block(false), json.receipts()];
    assert_eq!(answers, ["null", "null", "null"]);
    let part = restored.json_without_senders();
    assert_ne!(part.block_with_hashes(), "null", "the hash covers it");
    let found = (
        json.transaction(0),
        json.receipt(0),
        json.log_range(0),
        json.uncle(0),
    );
    assert_eq!(found, (None, None, None, None));
    assert_eq!((json.log_count(), json.uncle_count()), (0, 0));
    assert!(restored.save().is_none());
}

/// As two blocks of which one repeats a transaction; its root is that of the list.
#[test]
fn a_saved_block_with_a_transaction_twice_is_refused() {
    let mut runner = TestRunner::deterministic();
    let one = |sample: &Sample| sample.raw.body.transactions.len() == 1;
    let strategy = consistent_block().prop_filter("it has one transaction", one);
    let Sample {
        mut raw,
        mut receipts,
        ..
    } = strategy.new_tree(&mut runner).unwrap().current();
    let verifier = verifier(CHAIN_ID, FeeRules::of_chain(CHAIN_ID));
    for is_twice in [false, true] {
        if is_twice {
            raw.body.transactions.push(raw.body.transactions[0].clone());
            receipts.push(receipts[0].clone());
            let (header, body) = (&mut raw.header, &raw.body);
            header.transactions_root = proofs::calculate_transaction_root(&body.transactions);
            header.receipts_root = proofs::calculate_receipt_root(&receipts);
            header.blob_gas_used = header.blob_gas_used.map(|used| 2 * used);
        }
        let hash = raw.header.hash_slow();
        let saved = verifier.verify_saved(hash, raw.clone(), receipts.clone(), None);
        let error = saved.err().map(|fault| fault.to_string());
        assert_eq!(error.is_some(), is_twice, "{error:?}");
        assert!(!is_twice || error.unwrap().contains("already"));
    }
}

/// What needs no sender is the same before the senders are recovered.
fn check_without_senders(restored: &Block, whole: &BlockJson) -> TestCaseResult {
    let json = restored.json_without_senders();
    prop_assert_eq!(json.block_with_hashes(), whole.block(false));
    let (logs, receipts) = (json.logs(), whole.receipts());
    for index in 0..=whole.log_count() {
        let range = json.log_range(index);
        prop_assert_eq!(&range, &whole.log_range(index));
        let Some(range) = range else { continue };
        prop_assert_eq!(&logs[range.clone()], &receipts[range]);
    }
    prop_assert_eq!(json.uncle_count(), whole.uncle_count());
    for index in 0..=whole.uncle_count() {
        prop_assert_eq!(json.uncle(index), whole.uncle(index));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_number_is_compared_as_one(sample in arbitrary::block()) {
        let json = BlockJson::encode(&sample.parts(), EncodeOptions::default()).unwrap();
        check_quantities("", &parsed(&json.block(true)));
        check_quantities("", &parsed(&json.receipts()));
    }

    #[test]
    fn random_honest_blocks_are_verified(sample in consistent_block()) {
        let parts = sample.parts();
        let json = BlockJson::encode(&parts, EncodeOptions::default()).unwrap();
        let uncles = (0..json.uncle_count()).map(|index| json.uncle(index).unwrap());
        let mut statement = Statement {
            block: json.block(true).to_vec(),
            receipts: json.receipts().to_vec(),
            ommers: uncles.map(|uncle| uncle.to_vec()).collect(),
        };
        let verifier = verifier(CHAIN_ID, FeeRules::of_chain(CHAIN_ID));
        for is_rewritten in [false, true] {
            if is_rewritten {
                statement.block = parsed(&statement.block).to_string().into();
                statement.receipts = without_failed_creations(&statement.receipts);
            }
            let verified = statement.verify(&verifier, RequestedBlock::Hash(parts.hash));
            let verified = verified.map_err(|fault| TestCaseError::fail(fault.to_string()))?;
            prop_assert_eq!(&verified.block.json().block(true), &json.block(true));
            prop_assert_eq!(&verified.block.json().block(false), &json.block(false));
            prop_assert_eq!(&verified.block.json().receipts(), &json.receipts());
            prop_assert!(verified.ignored.is_empty());
            let saved = verified.block.save().unwrap();
            let restored = verifier.restore(parts.hash, &saved).unwrap();
            let most = restored.bytes();
            prop_assert!(!restored.has_json_without_senders());
            check_without_senders(&restored, &json)?;
            prop_assert!(restored.has_json_without_senders());
            prop_assert!(!restored.has_json() && !restored.has_been_read());
            prop_assert_eq!(served(&restored), served(&verified.block));
            let made = restored.make_json().map(|_| ());
            prop_assert_eq!(made.map_err(ToString::to_string), Ok(()));
            check_without_senders(&restored, &json)?;
            prop_assert_eq!(&restored.header, &verified.block.header);
            prop_assert_eq!(&restored.fees, &verified.block.fees);
            prop_assert_eq!(restored.total_difficulty, verified.block.total_difficulty);
            prop_assert_eq!(restored.bytes(), most);
            prop_assert!(verified.block.bytes() <= most);
        }
    }
}
