//! Headers whose hash is right and whose members are refused.

use alloy_primitives::Bytes;
use serde_json::{Value, json};

use super::{
    super::{RequestedBlock, StatedBlock},
    DEV, EXECUTION_APIS, Statement, parsed,
};

/// The members that forks added, in their order in RLP.
const ADDED: [&str; 8] = [
    "baseFeePerGas",
    "withdrawalsRoot",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
    "blockAccessListHash",
    "slotNumber",
];

/// The block with the values of its added members under other names, in the same order, so that the
/// header has the same RLP wherever the kinds of the values agree. Bit `n` of `names` says whether
/// member `n` is among the new names.
fn renamed(truth: &Value, names: u32) -> Option<Value> {
    let mut altered = truth.clone();
    let members = altered.as_object_mut()?;
    let values: Vec<_> = ADDED
        .iter()
        .filter_map(|name| members.remove(*name))
        .collect();
    let is_named = |bit: usize| (names >> bit) & 1 == 1;
    let named = (0..).zip(ADDED).filter(|(bit, _)| is_named(*bit));
    let named: Vec<_> = named.map(|(_, name)| name).collect();
    if named.len() != values.len() {
        return None;
    }
    if !named.contains(&"withdrawalsRoot") {
        members.remove("withdrawals");
    }
    members.extend(named.into_iter().map(str::to_owned).zip(values));
    (altered != *truth).then_some(altered)
}

#[test]
fn no_member_is_stated_under_the_name_of_another() {
    let mut same_hash = 0;
    for chain in [&EXECUTION_APIS, &DEV] {
        for block in &chain.blocks {
            let truth = Statement::of(block);
            let stated = parsed(&truth.block);
            for names in 0..1_u32 << ADDED.len() {
                let Some(altered) = renamed(&stated, names) else {
                    continue;
                };
                let altered = Statement {
                    block: altered.to_string().into(),
                    ..truth.clone()
                };
                let fault = altered.verify(&chain.verifier, RequestedBlock::Hash(block.hash));
                let fault = fault.unwrap_err();
                assert!(StatedBlock::read(&altered.block).is_err(), "{fault}");
                same_hash += usize::from(fault.reason() == "missing_member");
            }
        }
    }
    assert!(same_hash > 100, "{same_hash}");
}

/// A block of a chain that allows long extra data, with its true hash.
fn with_extra_data(length: usize) -> Statement {
    let block = &DEV.blocks[3];
    let mut header = block.header.clone();
    header.extra_data = Bytes::from(vec![0xee; length]);
    let mut statement = Statement::of(block);
    let mut stated = parsed(&statement.block);
    stated["extraData"] = json!(header.extra_data.to_string());
    stated["hash"] = json!(header.hash_slow().to_string());
    statement.block = stated.to_string().into();
    statement
}

#[test]
fn extra_data_has_at_most_16_kib() {
    for (length, reason) in [
        (0, None),
        (32, None),
        // The validators of an epoch of BSC.
        (1_528, None),
        (16 << 10, None),
        ((16 << 10) + 1, Some("malformed_member")),
        (8 << 20, Some("malformed_member")),
    ] {
        let read = StatedBlock::read(&with_extra_data(length).block);
        assert_eq!(read.err().map(|fault| fault.reason()), reason, "{length}");
    }
    let fault = StatedBlock::read(&with_extra_data(1 << 20).block).unwrap_err();
    let message = "block: extraData is not data of at most 16 KiB";
    assert_eq!(fault.to_string(), message);
}
