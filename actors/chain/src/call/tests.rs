//! Calls on a dev chain, and on states that are held in part.

use std::{collections::BTreeMap, sync::Arc};

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, Bytes, U256, address, bytes, keccak256};

use super::*;
use crate::{
    block::{Block, RawBlock},
    dev::{DevConfig, Producer, Profile},
    encode::EncodeOptions,
    log_search::Cancellation,
    network::ServedChain,
    trie::{NodeStore, State},
};

pub(super) const CONTRACT: Address = address!("00000000000000000000000000000000000c0de5");

/// Blocks of a dev chain, each with the block before it.
pub(super) fn chain(blocks: usize) -> (ServedChain, Vec<(Arc<Block>, RawBlock)>) {
    let config = DevConfig {
        seed: 3,
        profile: Profile::Small,
        block_time_seconds: 1,
        reorg_every: None,
        reorg_depth: 1,
    };
    let mut producer = Producer::new(config, EncodeOptions::default(), &mut |_, _| {}).unwrap();
    let mut pairs = Vec::new();
    for _ in 0..blocks {
        let parent = Arc::clone(producer.head());
        let step = producer.step().unwrap();
        let (raw, _) = step.applied.into_iter().next().unwrap();
        pairs.push((parent, raw));
    }
    (producer.spec().clone().into(), pairs)
}

/// Runs a call on a state.
fn run(
    chain: &ServedChain,
    block: &Block,
    state: &State,
    call: &Call,
) -> Result<(Bytes, u64), CallError> {
    let cancel = Cancellation::default();
    let place = Place {
        block,
        state,
        ancestor: &|number| block.hash_of(number),
    };
    let gas = GasMeter::default();
    let output = CallRunner::new(chain, place, call, &gas, &cancel)?.call()?;
    Ok((output, gas.used()))
}

/// A call of a contract with this code.
fn coded(code: Bytes, input: Bytes) -> Call {
    let account = AccountOverride {
        code: Some(code),
        ..AccountOverride::default()
    };
    Call {
        request: CallRequest {
            to: Some(CONTRACT),
            input,
            ..CallRequest::default()
        },
        accounts: BTreeMap::from([(CONTRACT, account)]),
        gas_max: 50_000_000,
        ..Call::default()
    }
}

/// A state that is held in part is completed from another one by what calls note: each ends as on
/// the whole state, after few rounds.
#[test]
fn what_is_missing_is_noted_and_then_found() {
    let (chain, pairs) = chain(12);
    let (mut calls, mut rounds, mut most) = (0, 0, 0);
    for (block, raw) in &pairs {
        let whole = block.state.as_ref().unwrap();
        let part = State::hold(&NodeStore::new(), whole.root());
        for transaction in &raw.body.transactions {
            let call = Call {
                request: CallRequest {
                    to: transaction.to(),
                    input: transaction.input().clone(),
                    ..CallRequest::default()
                },
                gas_max: 1_000_000,
                ..Call::default()
            };
            let expected = run(&chain, block, whole, &call);
            let mut own = 0;
            let found = loop {
                match run(&chain, block, &part, &call) {
                    Err(CallError::Missing(missing)) => complete(&part, whole, &missing),
                    found => break found,
                }
                own += 1;
                assert!(own <= 16, "{call:?}");
            };
            assert_eq!(found, expected, "{call:?}");
            calls += 1;
            rounds += own;
            most = most.max(own);
        }
    }
    println!("{calls} calls, {rounds} rounds, at most {most} for one");
    assert!(
        calls > 100 && rounds > calls / 4,
        "{calls} calls, {rounds} rounds"
    );
    assert!(most <= 6, "{most} rounds for one call");
}

/// Copies accounts, slots and codes.
pub(super) fn complete(part: &State, whole: &State, missing: &MissingState) {
    assert!(!missing.is_empty());
    for (address, slots) in missing {
        let proof = whole.prove(address, slots).unwrap();
        part.store().insert_proof(&proof);
        if let Some(account) = proof.account {
            part.store()
                .insert_code(whole.code(&account.code_hash).unwrap());
        }
    }
}

#[test]
fn a_run_ends_when_it_is_cancelled() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let cancel = Cancellation::default();
    cancel.cancel();
    // A loop, and code that calls itself twice: with more gas than any run could use.
    let calls = bytes!("60006000600060006000305af160006000600060006000305af100");
    for code in [bytes!("5b600056"), calls] {
        let mut call = coded(code, Bytes::new());
        call.gas_max = u64::MAX >> 1;
        check_cancelled(&chain, block, &call, &cancel);
        let late = Cancellation::default().child_until(|| true);
        check_cancelled(&chain, block, &call, &late);
    }
}

fn check_cancelled(chain: &ServedChain, block: &Block, call: &Call, cancel: &Cancellation) {
    let place = Place {
        block,
        state: block.state.as_ref().unwrap(),
        ancestor: &|_| None,
    };
    let gas = GasMeter::default();
    let runner = CallRunner::new(chain, place, call, &gas, cancel).unwrap();
    assert_eq!(runner.call(), Err(CallError::Cancelled));
    assert_eq!(runner.estimate(), Err(CallError::Cancelled));
    assert_eq!(runner.access_list().unwrap_err(), CallError::Cancelled);
}

#[test]
fn memory_is_bounded_whatever_the_gas() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    for (bytes, expected) in [
        (8 << 20, Ok(())),
        (256 << 20, Err(CallError::Halted("out of gas".into()))),
    ] {
        // MSTORE at the number of the input.
        let input = U256::from(bytes).to_be_bytes::<32>();
        let mut call = coded(bytes!("60016000355200"), input.into());
        call.gas_max = u64::MAX >> 1;
        let found = run(&chain, block, state, &call).map(|_| ());
        assert_eq!(found, expected, "{bytes}");
    }
}

#[test]
fn overrides_hold_for_the_call() {
    let (chain, pairs) = chain(3);
    let (block, _) = pairs.last().unwrap();
    let state = block.state.as_ref().unwrap();
    let word = |value: u64| Bytes::from(U256::from(value).to_be_bytes::<32>());
    let block_call = |opcode: u8, block: BlockOverrides| {
        let code = [&[opcode], &bytes!("60005260206000f3")[..]].concat();
        Call {
            block,
            ..coded(code.into(), Bytes::new())
        }
    };
    let overrides = BlockOverrides {
        number: Some(1_000),
        timestamp: Some(block.header.timestamp + 7),
        gas_limit: Some(123_456_789),
        beneficiary: Some(Address::with_last_byte(9)),
        base_fee: Some(17),
        ..BlockOverrides::default()
    };
    for (opcode, value) in [
        (0x43, 1_000),
        (0x42, block.header.timestamp + 7),
        (0x45, 123_456_789),
        (0x41, 9),
        // Nothing is paid for gas.
        (0x48, 0),
        (0x3a, 0),
    ] {
        let call = block_call(opcode, overrides.clone());
        let (output, _) = run(&chain, block, state, &call).unwrap();
        assert_eq!(output, word(value), "{opcode:#x}");
    }
    // SLOAD of 5, where storage is overridden as a whole, in part, or not.
    for (storage, expected) in [
        (
            StorageOverride::Whole(BTreeMap::from([(U256::from(5), U256::from(8))])),
            8,
        ),
        (StorageOverride::Whole(BTreeMap::new()), 0),
        (
            StorageOverride::Slots(BTreeMap::from([(U256::from(5), U256::from(9))])),
            9,
        ),
        (StorageOverride::Nothing, 0),
    ] {
        let mut call = coded(bytes!("60055460005260206000f3"), Bytes::new());
        call.accounts.get_mut(&CONTRACT).unwrap().storage = storage;
        let (output, _) = run(&chain, block, state, &call).unwrap();
        assert_eq!(output, word(expected));
    }
}

#[test]
fn precompiles_move() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let sha256 = Address::with_last_byte(2);
    let moved = AccountOverride {
        precompile_moved_to: Some(CONTRACT),
        ..AccountOverride::default()
    };
    let call = |to, from| Call {
        request: CallRequest {
            to: Some(to),
            ..CallRequest::default()
        },
        accounts: BTreeMap::from([(from, moved.clone())]),
        gas_max: 100_000,
        ..Call::default()
    };
    let (output, _) = run(&chain, block, state, &call(CONTRACT, sha256)).unwrap();
    let empty = bytes!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(output, empty);
    let (output, _) = run(&chain, block, state, &call(sha256, sha256)).unwrap();
    assert_eq!(output, Bytes::new());
    // An override of a precompiled contract replaces it.
    let mut replaced = call(sha256, CONTRACT);
    replaced.accounts = BTreeMap::from([(
        sha256,
        AccountOverride {
            code: Some(bytes!("60075f5260205ff3")),
            ..AccountOverride::default()
        },
    )]);
    let (output, _) = run(&chain, block, state, &replaced).unwrap();
    assert_eq!(output, Bytes::from(U256::from(7).to_be_bytes::<32>()));
    let no_precompile = Address::from_word(keccak256("none"));
    for from in [no_precompile, CONTRACT] {
        let refused = run(&chain, block, state, &call(CONTRACT, from));
        let reason = format!("account {from} is not a precompile");
        assert_eq!(refused, Err(CallError::invalid(reason)));
    }
    let mut overridden = call(CONTRACT, sha256);
    overridden
        .accounts
        .insert(CONTRACT, AccountOverride::default());
    let refused = run(&chain, block, state, &overridden);
    let reason = format!("account {CONTRACT} is already overridden");
    assert_eq!(refused, Err(CallError::invalid(reason)));
}

/// As in geth: who can pay for nothing is not told that the gas is too little.
#[test]
fn the_senders_funds_are_looked_for_before_the_gas() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let of = |gas, input: Vec<u8>| {
        let mut call = coded(Bytes::new(), input.into());
        call.request.price = GasPrice::Fixed(1_000_000_000_000);
        call.request.gas = Some(gas);
        call.request.to = None;
        call
    };
    // Too little to begin, to pay for so much data, and initcode that is too long.
    for call in [
        of(21_000, vec![]),
        of(100_000, vec![1; 10_000]),
        of(5_000_000, vec![0; 50_000]),
    ] {
        let refused = run(&chain, block, state, &call);
        let Err(CallError::Refused { reason, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.starts_with("insufficient funds"), "{reason}");
    }
}

#[test]
fn calls_of_unknown_rules_are_refused() {
    let (_, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let call = coded(Bytes::new(), Bytes::new());
    let refused = run(&ServedChain::from(1_337), block, state, &call);
    assert_eq!(refused, Err(CallError::OtherRules));
}

/// An address is warm if a precompiled contract would be there, and not if one was moved there.
#[test]
fn overrides_change_no_warm_addresses() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let sha256 = Address::with_last_byte(2);
    let gas_of_balance = |address: Address, overridden: AccountOverride| {
        let code = [&[0x73][..], address.as_slice(), &[0x31, 0x00]].concat();
        let mut call = coded(code.into(), Bytes::new());
        call.accounts.insert(sha256, overridden);
        run(&chain, block, state, &call).unwrap().1
    };
    let code = AccountOverride {
        code: Some(bytes!("00")),
        ..AccountOverride::default()
    };
    let elsewhere = Address::repeat_byte(0x77);
    let moved = AccountOverride {
        precompile_moved_to: Some(elsewhere),
        ..AccountOverride::default()
    };
    let replaced = gas_of_balance(sha256, code.clone());
    assert_eq!(gas_of_balance(elsewhere, moved) - replaced, 2_500);
    assert_eq!(gas_of_balance(Address::with_last_byte(1), code), replaced);
}
