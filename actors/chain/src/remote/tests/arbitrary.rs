//! Random JSON and random changes of honest answers: nothing panics, nothing false is served.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{RequestedBlock, StatedBlock, verify_code, verify_proof},
    DEV, EXECUTION_APIS, ExecutedChain, Statement, covered,
    liar::at,
    parsed, served,
};
use crate::trie::{NodeStore, State};

/// A random JSON value.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(|number| json!(format!("{number:#x}"))),
        "0x[0-9a-f]{0,70}".prop_map(Value::from),
        "\\PC{0,10}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        let name = prop::sample::select(vec![
            "hash",
            "number",
            "transactions",
            "uncles",
            "withdrawals",
            "type",
            "logs",
            "topics",
            "address",
            "accountProof",
            "storageProof",
            "proof",
            "status",
            "v",
            "accessList",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6).prop_map(|members| {
                let members = members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value));
                Value::Object(members.collect())
            }),
        ]
    })
}

fn chains() -> [&'static ExecutedChain; 2] {
    [&EXECUTION_APIS, &DEV]
}

/// The index of a chain in [`chains`], and of one of its blocks.
fn any_block() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        (0..55_usize).prop_map(|block| (0, block)),
        (0..11_usize).prop_map(|block| (1, block)),
    ]
}

/// A random path into a value.
fn any_path(value: &Value, indices: &[prop::sample::Index]) -> Vec<super::liar::PathStep> {
    use super::liar::PathStep;
    let mut path = Vec::new();
    let mut value = value;
    for index in indices {
        let step = match value {
            Value::Object(members) if !members.is_empty() => {
                let (name, below) = members.iter().nth(index.index(members.len())).unwrap();
                value = below;
                PathStep::Member(name.clone())
            }
            Value::Array(items) if !items.is_empty() => {
                let item = index.index(items.len());
                value = &items[item];
                PathStep::Item(item)
            }
            _ => break,
        };
        path.push(step);
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_answers_never_panic(block in value(), receipts in value(), ommer in value()) {
        let [block, receipts, ommer] = [block, receipts, ommer].map(|value| value.to_string());
        let statement = Statement {
            block: block.clone().into(),
            receipts: receipts.into(),
            ommers: vec![ommer.into()],
        };
        prop_assert!(statement.verify(&DEV.verifier, RequestedBlock::Number(1)).is_err());
        let block = block.as_bytes();
        prop_assert!(StatedBlock::read(block).is_err());
        let state = State::empty(&NodeStore::new());
        prop_assert!(verify_proof(block, &state, &Default::default(), &[]).is_err());
        prop_assert!(verify_code(block, Default::default()).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(StatedBlock::read(&bytes).is_err());
        prop_assert!(verify_code(&bytes, Default::default()).is_err());
    }

    /// Random values anywhere in honest answers: the true block is served, or none.
    #[test]
    fn random_changes_serve_nothing_false(
        (chain, block) in any_block(),
        changes in prop::collection::vec(
            (any::<bool>(), any::<[prop::sample::Index; 5]>(), 1..6_usize, value()),
            1..4,
        ),
    ) {
        let chain = chains()[chain];
        let block = &chain.blocks[block];
        let mut altered = Statement::of(block);
        for (of_receipts, indices, depth, change) in changes {
            let answer = if of_receipts { &mut altered.receipts } else { &mut altered.block };
            let mut value = parsed(answer);
            let path = any_path(&value, &indices[..depth.min(5)]);
            if path.last() == Some(&super::liar::PathStep::Member("totalDifficulty".to_owned())) {
                continue;
            }
            *at(&mut value, &path) = change;
            *answer = value.to_string().into();
        }
        if let Ok(verified) = altered.verify(&chain.verifier, RequestedBlock::Hash(block.hash)) {
            prop_assert!(served(&verified.block) == served(block));
        }
    }

    /// One flipped bit anywhere in an honest answer.
    #[test]
    fn a_flipped_bit_serves_nothing_false(
        (chain, block) in any_block(),
        of_receipts: bool,
        position: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let chain = chains()[chain];
        let block = &chain.blocks[block];
        let mut altered = Statement::of(block);
        let answer = if of_receipts { &mut altered.receipts } else { &mut altered.block };
        let position = position.index(answer.len());
        answer[position] ^= 1 << bit;
        if let Ok(verified) = altered.verify(&chain.verifier, RequestedBlock::Hash(block.hash)) {
            prop_assert!(covered(&verified.block) == covered(block));
        }
    }
}
