//! What is made of a block's JSON, against what alloy encodes of the block itself.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use alloy_primitives::hex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    encode::{
        BlockJson, EncodeOptions,
        tests::arbitrary::{self, Sample},
    },
    import::block_from_parts,
};

fn held(sample: &Sample) -> Arc<Block> {
    let parts = sample.parts();
    let json = BlockJson::encode(&parts, EncodeOptions::default()).unwrap();
    Arc::new(block_from_parts(&parts, json.into(), [].into(), Vec::new()))
}

/// Takes a value in parts of at most so many bytes.
fn taken(json: Json, most: usize) -> Value {
    let mut out = Vec::new();
    let length = json.len();
    for mut piece in json.into_pieces() {
        while !piece.is_empty() {
            let part = piece.take(most).unwrap();
            assert!((1..=most).contains(&part.len()));
            out.extend_from_slice(&part);
            assert_eq!(out.len() + piece.len(), length);
        }
    }
    serde_json::from_slice(&out).unwrap()
}

fn data(bytes: &[u8]) -> Value {
    json!(hex::encode_prefixed(bytes))
}

/// Checks a value that is built whole, and one that is made as it is taken.
fn check(item: &RawItem, expected: &Value) -> Result<(), TestCaseError> {
    for built_max in [usize::MAX, 0] {
        for most in [64, 1_000, usize::MAX] {
            prop_assert_eq!(&taken(item.json(built_max).unwrap(), most), expected);
        }
    }
    Ok(())
}

fn check_all(sample: &Sample) -> Result<(), TestCaseError> {
    let held = held(sample);
    let rlp = alloy_rlp::encode(&sample.raw);
    let block = RawItem::Block(Arc::clone(&held));
    check(&block, &data(&rlp))?;
    let encoded = sample.receipts.iter().map(|one| data(&one.encoded_2718()));
    let encoded: Vec<Value> = encoded.collect();
    check(&RawItem::Receipts(Arc::clone(&held)), &json!(encoded))?;
    for (index, expected) in sample.raw.body.transactions.iter().enumerate() {
        let transaction = RawItem::Transaction(Arc::clone(&held), index);
        check(&transaction, &data(&expected.encoded_2718()))?;
    }
    let beyond = RawItem::Transaction(held, sample.senders.len());
    prop_assert!(beyond.json(0).is_err());
    Ok(())
}

/// The same block with all transactions and receipts so many times.
fn repeated(mut sample: Sample, times: usize) -> Sample {
    fn repeat<T: Clone>(items: &mut Vec<T>, times: usize) {
        let count = items.len() * times;
        *items = items.iter().cycle().take(count).cloned().collect();
    }
    repeat(&mut sample.raw.body.transactions, times);
    repeat(&mut sample.senders, times);
    repeat(&mut sample.receipts, times);
    sample
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rlp_is_that_of_the_block(sample in arbitrary::block(), times in 1_usize..4) {
        check_all(&repeated(sample, times))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn large_values_are_made_as_they_are_taken(sample in arbitrary::block()) {
        let large = held(&repeated(sample, 400));
        prop_assume!(large.json().transaction_count() > 0);
        for item in [RawItem::Block(Arc::clone(&large)), RawItem::Receipts(large)] {
            let json = item.json(64 << 10).unwrap();
            prop_assert!(json.len() > 64 << 10);
            let (all, largest) = item.read_bytes();
            // The numbers of later copies have more digits.
            prop_assert!(largest > 0 && largest <= all / 200);
            prop_assert!(json.held() < PART_BYTES + largest + 4_096, "{} bytes", json.held());
        }
    }
}

/// A value that is not as long as was counted is never closed.
#[test]
fn a_wrong_length_truncates_the_value() {
    let block = crate::test_block::TestBlock::default().genesis();
    for wrong in [1, usize::MAX] {
        let items = || {
            let mut items = LazyItems::new(&block, ItemKind::Receipt, &[], &[]);
            items.left = items.left.wrapping_add(wrong);
            items
        };
        assert!(items().json(usize::MAX).is_err());
        let mut json = Json::lazy(items());
        let Json::One(piece) = &mut json else {
            panic!("{json:?}")
        };
        let mut ended = Ok(Bytes::new());
        while ended.is_ok() && !piece.is_empty() {
            ended = piece.take(64);
        }
        assert_eq!(ended, Err(Truncated), "{wrong}");
    }
}
