//! Simulations of the blocks of a dev chain, on states that are held as a whole and in part.

use std::{cell::RefCell, sync::Arc};

use alloy_consensus::Transaction as _;
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use alloy_primitives::{Address, B256, Bytes, U256, bytes, hex, keccak256};
use serde_json::Value;

use super::{plan::plan, *};
use crate::{
    block::{Block, RawBlock, Transaction},
    call::{
        AccountOverride, BlockOverrides, CallRequest, GasPrice, StateOverrides, StorageOverride,
        tests::{CONTRACT, chain, complete},
    },
    trie::{AccountInfo, AccountUpdate, NodeStore, State, StateUpdate},
};

const GAS: u64 = 50_000_000;

/// Runs a simulation on a state after a block.
fn run(
    chain: &ServedChain,
    block: &Block,
    state: &State,
    simulation: &Simulation,
) -> Result<Value, CallError> {
    let place = Place {
        block,
        state,
        ancestor: &|number| block.hash_of(number),
    };
    let (gas, cancel) = (GasMeter::default(), Cancellation::default());
    let json = simulation.run(chain, place, &gas, &cancel)?;
    let mut bytes = Vec::new();
    json.write(&mut bytes).unwrap();
    let blocks: Value = serde_json::from_slice(&bytes).unwrap();
    let used = |block: &Value| -> u64 {
        let text = block["gasUsed"].as_str().unwrap();
        u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
    };
    let used: u64 = blocks.as_array().unwrap().iter().map(used).sum();
    assert!(gas.used() > used, "{} of {used}", gas.used());
    Ok(blocks)
}

/// The block as a simulation would ask for it.
fn asked(raw: &RawBlock, block: &Block) -> BlockCalls {
    let header = &raw.header;
    let json: Value = serde_json::from_slice(&block.json().block(true)).unwrap();
    let senders = json["transactions"].as_array().unwrap();
    let senders = senders
        .iter()
        .map(|transaction| transaction["from"].as_str().unwrap().parse().unwrap());
    let transactions = raw.body.transactions.iter();
    BlockCalls {
        calls: transactions
            .zip(senders)
            .map(|(transaction, from)| call_of(transaction, from))
            .collect(),
        accounts: StateOverrides::new(),
        block: BlockOverrides {
            number: Some(header.number),
            timestamp: Some(header.timestamp),
            gas_limit: Some(header.gas_limit),
            beneficiary: Some(header.beneficiary),
            prev_randao: Some(header.mix_hash),
            ..BlockOverrides::default()
        },
        parent_beacon_block_root: header.parent_beacon_block_root,
        withdrawals: raw
            .body
            .withdrawals
            .clone()
            .unwrap_or_default()
            .into_inner(),
    }
}

fn call_of(transaction: &Transaction, from: Address) -> CallRequest {
    let most = transaction.max_fee_per_gas();
    CallRequest {
        from,
        to: transaction.to(),
        gas: Some(transaction.gas_limit()),
        price: match transaction.max_priority_fee_per_gas() {
            Some(tip) => GasPrice::Capped { most, tip },
            None => GasPrice::Fixed(most),
        },
        value: transaction.value(),
        input: transaction.input().clone(),
        nonce: Some(transaction.nonce()),
        access_list: transaction.access_list().cloned(),
        blob_hashes: transaction.blob_versioned_hashes().map(<[_]>::to_vec),
        max_fee_per_blob_gas: transaction.max_fee_per_blob_gas(),
        authorizations: transaction.authorization_list().map(<[_]>::to_vec),
    }
}

fn validating(blocks: Vec<BlockCalls>) -> Simulation {
    Simulation {
        blocks,
        validates: true,
        gas_max: u64::MAX,
        ..Simulation::default()
    }
}

/// Asserts that a simulated block has done what the real one has; its transactions are not signed.
fn check_block(simulated: &Value, block: &Block) {
    let real: Value = serde_json::from_slice(&block.json().block(false)).unwrap();
    for member in [
        "number",
        "timestamp",
        "baseFeePerGas",
        "excessBlobGas",
        "gasUsed",
        "blobGasUsed",
        "logsBloom",
        "requestsHash",
        "withdrawalsRoot",
        "stateRoot",
    ] {
        let number = block.number();
        assert_eq!(
            simulated[member], real[member],
            "{member} of block {number}"
        );
    }
}

#[test]
fn a_block_simulated_from_its_transactions_does_what_it_did() {
    let (chain, pairs) = chain(12);
    let blocks: Vec<&Arc<Block>> = pairs[1..].iter().map(|(parent, _)| parent).collect();
    let mut all = Vec::new();
    for ((parent, raw), block) in pairs.iter().zip(&blocks) {
        let simulation = validating(vec![asked(raw, block)]);
        let state = parent.state.as_ref().unwrap();
        let simulated = run(&chain, parent, state, &simulation).unwrap();
        check_block(&simulated[0], block);
        assert!(!simulation.blocks[0].calls.is_empty());
        all.extend(simulation.blocks);
    }
    // All of them at once, each on the one before. Their hashes differ, and so do states that have
    // the hashes of parents (EIP-2935): such roots are compared with geth's.
    let (parent, _) = &pairs[0];
    let state = parent.state.as_ref().unwrap();
    let mut simulated = run(&chain, parent, state, &validating(all)).unwrap();
    for (simulated, block) in simulated.as_array_mut().unwrap().iter_mut().zip(blocks) {
        assert_ne!(simulated["stateRoot"], B256::ZERO.to_string());
        simulated["stateRoot"] = block.header.state_root.to_string().into();
        check_block(simulated, block);
    }
}

/// On a state that is held in part, a root is the true one or zero.
#[test]
fn what_is_missing_is_noted_and_then_found() {
    let (chain, pairs) = chain(12);
    let (mut known, mut unknown) = (0, 0);
    for (index, (parent, raw)) in pairs.iter().enumerate().take(pairs.len() - 1) {
        let block = &pairs[index + 1].0;
        let whole = parent.state.as_ref().unwrap();
        let part = State::hold(&NodeStore::new(), whole.root());
        let simulation = validating(vec![asked(raw, block)]);
        let mut rounds = 0;
        let mut simulated = loop {
            match run(&chain, parent, &part, &simulation) {
                Err(CallError::Missing(missing)) => complete(&part, whole, &missing),
                simulated => break simulated.unwrap(),
            }
            rounds += 1;
            assert!(rounds <= 16, "block {}", block.number());
        };
        let root = &mut simulated[0]["stateRoot"];
        if *root == B256::ZERO.to_string() {
            *root = block.header.state_root.to_string().into();
            unknown += 1;
        } else {
            known += 1;
        }
        check_block(&simulated[0], block);
    }
    println!("{known} roots are known, {unknown} are not");
    assert!(known > 0);
}

/// A slot is deleted, and the one beside it, which nothing reads, is not held.
#[test]
fn a_root_that_does_not_follow_is_zero_from_then_on() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let code = bytes!("5f60015500");
    let contract = AccountUpdate {
        info: Some(AccountInfo {
            nonce: 1,
            balance: U256::ZERO,
            code_hash: keccak256(&code),
        }),
        storage_wiped: false,
        storage: vec![(U256::from(1), U256::MAX), (U256::from(2), U256::MAX)],
    };
    let update = StateUpdate {
        accounts: [(CONTRACT, contract)].into_iter().collect(),
        code: [(keccak256(&code), code)].into_iter().collect(),
    };
    let nothing = State::empty(&NodeStore::new());
    let whole = nothing.commit(nothing.update(&update).unwrap());
    let part = State::hold(&NodeStore::new(), whole.root());
    let mut simulation = coded(Bytes::new(), 1);
    simulation.blocks[0].accounts.clear();
    simulation.blocks.push(BlockCalls::default());
    let expected = run(&chain, block, &whole, &simulation).unwrap();
    let found = loop {
        match run(&chain, block, &part, &simulation) {
            Err(CallError::Missing(missing)) => complete(&part, &whole, &missing),
            found => break found.unwrap(),
        }
    };
    for number in 0..2 {
        let zero = B256::ZERO.to_string();
        assert_eq!(found[number]["stateRoot"], zero);
        assert_ne!(expected[number]["stateRoot"], zero);
        for member in ["gasUsed", "receiptsRoot", "transactionsRoot"] {
            assert_eq!(found[number][member], expected[number][member], "{member}");
        }
    }
    assert_eq!(found[0]["calls"], expected[0]["calls"]);
}

#[test]
fn numbers_and_times_ascend() {
    let block = |number: Option<u64>, timestamp: Option<u64>| BlockCalls {
        block: BlockOverrides {
            number,
            timestamp,
            ..BlockOverrides::default()
        },
        ..BlockCalls::default()
    };
    let planned = |blocks: &[BlockCalls]| match plan(blocks, 10, 100) {
        Ok(planned) => Ok(planned
            .iter()
            .map(|block| (block.number, block.timestamp, block.asked.is_some()))
            .collect::<Vec<_>>()),
        Err(CallError::Simulation { kind, .. }) => Err(kind),
        Err(other) => panic!("{other}"),
    };
    let many = |calls| BlockCalls {
        calls: vec![CallRequest::default(); calls],
        ..BlockCalls::default()
    };
    for (blocks, expected) in [
        (vec![block(None, None)], Ok(vec![(11, 112, true)])),
        (
            vec![block(Some(13), None), block(None, Some(200))],
            Ok(vec![
                (11, 112, false),
                (12, 124, false),
                (13, 136, true),
                (14, 200, true),
            ]),
        ),
        (vec![], Err(SimulationErrorKind::InvalidParams)),
        (
            vec![block(Some(10), None)],
            Err(SimulationErrorKind::BlockNumber),
        ),
        (
            vec![block(Some(12), None), block(Some(12), None)],
            Err(SimulationErrorKind::BlockNumber),
        ),
        (
            vec![block(None, Some(100))],
            Err(SimulationErrorKind::BlockTime),
        ),
        (
            vec![block(Some(12), Some(112))],
            Err(SimulationErrorKind::BlockTime),
        ),
        (
            vec![block(Some(267), None)],
            Err(SimulationErrorKind::TooMuch),
        ),
        (
            vec![block(Some(u64::MAX), None)],
            Err(SimulationErrorKind::TooMuch),
        ),
        (vec![many(5_001)], Err(SimulationErrorKind::TooMuch)),
        (
            vec![many(5_000), many(5_000), many(1)],
            Err(SimulationErrorKind::TooMuch),
        ),
    ] {
        assert_eq!(planned(&blocks), expected, "{blocks:?}");
    }
    let full: Vec<_> = (0..256).map(|_| block(None, None)).collect();
    assert_eq!(planned(&full).map(|planned| planned.len()), Ok(256));
}

/// Calls of a contract with this code, in one block.
fn coded(code: Bytes, calls: usize) -> Simulation {
    let account = AccountOverride {
        code: Some(code),
        ..AccountOverride::default()
    };
    let call = CallRequest {
        to: Some(CONTRACT),
        gas: Some(150_000),
        ..CallRequest::default()
    };
    Simulation {
        blocks: vec![BlockCalls {
            calls: vec![call; calls],
            accounts: [(CONTRACT, account)].into(),
            block: BlockOverrides {
                gas_limit: Some(GAS),
                ..BlockOverrides::default()
            },
            ..BlockCalls::default()
        }],
        gas_max: GAS,
        ..Simulation::default()
    }
}

#[test]
fn the_output_of_all_calls_is_bounded() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    // 64 KiB are returned, or are what a call reverts with: 256 times is the most.
    for code in [bytes!("620100006000f3"), bytes!("620100006000fd")] {
        let simulated = run(&chain, block, state, &coded(code.clone(), 256)).unwrap();
        assert_eq!(simulated[0]["calls"].as_array().unwrap().len(), 256);
        check_too_much(run(&chain, block, state, &coded(code, 257)));
    }
    // 63 KiB are logged 8 times.
    let code = hex::decode("61fc006000a0".repeat(8)).unwrap();
    let mut logging = coded(code.into(), 33);
    logging.gas_max = u64::MAX;
    logging.blocks[0].block.gas_limit = Some(u64::MAX);
    for call in &mut logging.blocks[0].calls {
        call.gas = Some(10_000_000);
    }
    check_too_much(run(&chain, block, state, &logging));
    logging.blocks[0].calls.truncate(32);
    run(&chain, block, state, &logging).unwrap();
}

#[track_caller]
fn check_too_much(result: Result<Value, CallError>) {
    match result {
        Err(CallError::Simulation { kind, .. }) => {
            assert_eq!(kind, SimulationErrorKind::TooMuch);
        }
        other => panic!("{other:?}"),
    }
}

/// The data of a revert is in the answer as it is, and its reason once more.
#[test]
fn a_reason_counts_as_it_is_escaped() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let reason = [1_u8; 16 << 10];
    let head = hex!("08c379a0");
    let words = [U256::from(32), U256::from(reason.len())].map(|word| word.to_be_bytes::<32>());
    let data = [&head[..], &words.concat(), &reason].concat();
    // Its own code from the 12th byte on is what it reverts with.
    let size = u16::try_from(data.len()).unwrap().to_be_bytes();
    let code = [
        &[0x61, size[0], size[1]][..],
        &hex!("80600c6000396000fd"),
        &data,
    ]
    .concat();
    let with = |calls| run(&chain, block, state, &coded(code.clone().into(), calls));
    check_too_much(with(257));
    let length = with(250).unwrap().to_string().len();
    assert!(length < 8 * (16 << 20), "{length}");
}

/// What a block calls by itself is charged, and is bounded where a block overrides it.
#[test]
fn the_calls_of_a_block_itself_are_paid_for() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let place = Place {
        block,
        state: block.state.as_ref().unwrap(),
        ancestor: &|number| block.hash_of(number),
    };
    let cancel = Cancellation::default();
    let spent = |contract: Address, code: Bytes, blocks: usize| {
        let mut simulation = coded(code, 0);
        let accounts = &mut simulation.blocks[0].accounts;
        let account = accounts.remove(&CONTRACT).unwrap();
        accounts.insert(contract, account);
        simulation.blocks.resize_with(blocks, BlockCalls::default);
        let gas = GasMeter::default();
        let ended = simulation.run(&chain, place, &gas, &cancel);
        (ended.map(|_| ()), gas.used())
    };
    for contract in [
        BEACON_ROOTS_ADDRESS,
        HISTORY_STORAGE_ADDRESS,
        WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
        CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    ] {
        // The loop takes all of the 30 million gas that such a call has; the other one little.
        let (ended, used) = spent(contract, bytes!("5b600056"), 4);
        let error = ended.unwrap_err();
        match error {
            // The queues of requests have to answer.
            CallError::Invalid(_) => assert!(used > 30_000_000, "{contract}: {used}"),
            CallError::Simulation { kind, .. } => {
                assert_eq!(kind, SimulationErrorKind::TooMuch);
                assert!(used > GAS, "{contract}: {used}");
            }
            other => panic!("{contract}: {other}"),
        }
        let (ended, used) = spent(contract, bytes!("00"), 4);
        assert_eq!(
            (ended, used < 4_000_000),
            (Ok(()), true),
            "{contract}: {used}"
        );
    }
}

/// Whoever cancels does so while a call runs: in a loop, with more gas than any run could use.
#[test]
fn a_simulation_ends_when_it_is_cancelled() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let mut simulation = coded(bytes!("5b600056"), 1);
    simulation.gas_max = u64::MAX;
    simulation.blocks[0].block.gas_limit = Some(u64::MAX);
    simulation.blocks[0].calls[0].gas = Some(1 << 60);
    let place = Place {
        block,
        state: block.state.as_ref().unwrap(),
        ancestor: &|number| block.hash_of(number),
    };
    let (gas, cancel) = (GasMeter::default(), Cancellation::default());
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // A call that runs counts as all the gas that it may use.
            while gas.used() < 1 << 60 {
                std::thread::yield_now();
            }
            cancel.cancel();
        });
        simulation.run(&chain, place, &gas, &cancel)
    });
    assert_eq!(ended.err(), Some(CallError::Cancelled));
    assert!(gas.used() >= 1 << 60);
}

#[test]
fn an_account_that_an_override_empties_keeps_its_storage() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    let mut simulation = coded(Bytes::new(), 0);
    simulation.blocks[0].accounts = [(
        CONTRACT,
        AccountOverride {
            nonce: Some(0),
            balance: Some(U256::ZERO),
            code: Some(Bytes::new()),
            storage: StorageOverride::Slots([(U256::from(7), U256::from(8))].into()),
            ..AccountOverride::default()
        },
    )]
    .into();
    // Returns slot 7.
    simulation
        .blocks
        .extend(coded(bytes!("6007545f5260205ff3"), 1).blocks);
    let simulated = run(&chain, block, state, &simulation).unwrap();
    let output = &simulated[1]["calls"][0]["returnData"];
    assert_eq!(*output, B256::from(U256::from(8)).to_string());
}

/// Logs of calls that revert are not there, and count nevertheless; transfers are logs on request.
#[test]
fn logs_and_transfers_are_in_the_order_of_what_happened() {
    let (chain, pairs) = chain(1);
    let (block, _) = &pairs[0];
    let state = block.state.as_ref().unwrap();
    // Logs, sends 1 wei to an account without code, and calls itself; the inner call, which has
    // input, logs and reverts.
    let code = bytes!(
        "3660295760006000a06000600060006000600161ff0161fffff15060006000600160006000305af1005b60006000a060006000fd"
    );
    let transfers = RefCell::new(Vec::new());
    for traces_transfers in [false, true] {
        let mut simulation = coded(code.clone(), 2);
        simulation.traces_transfers = traces_transfers;
        let account = simulation.blocks[0].accounts.get_mut(&CONTRACT).unwrap();
        account.balance = Some(U256::from(10));
        let simulated = run(&chain, block, state, &simulation).unwrap();
        let logs = |call: usize| -> Vec<(String, String)> {
            let call = &simulated[0]["calls"][call];
            assert_eq!(call["status"], "0x1", "{call}");
            let logs = call["logs"].as_array().unwrap().iter();
            logs.map(|log| {
                let text = |member: &str| log[member].as_str().unwrap().to_owned();
                (text("address"), text("logIndex"))
            })
            .collect()
        };
        transfers.borrow_mut().push([logs(0), logs(1)]);
    }
    let own = CONTRACT.to_string().to_lowercase();
    let ether = "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee";
    let rows = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
        let rows = rows.iter();
        rows.map(|(address, index)| ((*address).to_owned(), (*index).to_owned()))
            .collect()
    };
    assert_eq!(
        transfers.into_inner(),
        [
            [rows(&[(&own, "0x0")]), rows(&[(&own, "0x2")])],
            [
                rows(&[(&own, "0x0"), (ether, "0x1")]),
                rows(&[(&own, "0x3"), (ether, "0x4")]),
            ],
        ]
    );
}
