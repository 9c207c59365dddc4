#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::LazyLock;

use alloy_consensus::{Signed, TxLegacy, proofs, transaction::Recovered};
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Bloom, Signature, keccak256};

use super::*;
use crate::{
    block::Transaction,
    execute::{BlockTemplate, build_block, execute},
    fixture,
};

/// The chain of execution-apis, imported.
struct ImportedChain {
    importer: Importer,
    raw: Vec<RawBlock>,
    held: Vec<Arc<Block>>,
}

static CHAIN: LazyLock<ImportedChain> = LazyLock::new(|| {
    let genesis = fixture::genesis();
    let importer = Importer::new(&genesis, EncodeOptions::default()).unwrap();
    let mut held = vec![importer.genesis(&genesis.alloc).unwrap()];
    let mut raw = vec![RawBlock {
        header: held[0].header.clone(),
        body: BlockBody::default(),
    }];
    for block in fixture::blocks() {
        held.push(
            importer
                .import(block.clone(), held.last().unwrap())
                .unwrap(),
        );
        raw.push(block);
    }
    ImportedChain {
        importer,
        raw,
        held,
    }
});

/// Changes one thing in block `number` and imports it. The error names the changed block;
/// `expected` makes its kind from the good and the changed block.
#[track_caller]
fn check<E: Into<ImportErrorKind>>(
    name: &str,
    number: usize,
    change: impl FnOnce(&mut RawBlock),
    expected: impl FnOnce(&RawBlock, &RawBlock) -> E,
) {
    let mut changed = CHAIN.raw[number].clone();
    change(&mut changed);
    let expected: ImportErrorKind = expected(&CHAIN.raw[number], &changed).into();
    let error = CHAIN
        .importer
        .import(changed.clone(), &CHAIN.held[number - 1])
        .unwrap_err();
    assert_eq!(
        format!("{:?}", error.kind),
        format!("{expected:?}"),
        "{name}"
    );
    assert_eq!(
        (error.number, error.hash),
        (changed.header.number, changed.header.hash_slow()),
        "{name}"
    );
}

/// Changes the body of block `number` and recomputes its roots in the header, so that the block is
/// executed.
#[track_caller]
fn check_executed<E: Into<ImportErrorKind>>(
    name: &str,
    number: usize,
    change: impl FnOnce(&mut RawBlock),
    expected: impl FnOnce(&RawBlock, &RawBlock) -> E,
) {
    let relinked = |block: &mut RawBlock| {
        change(block);
        block.header.transactions_root =
            proofs::calculate_transaction_root(&block.body.transactions);
        block.header.withdrawals_root = block.body.calculate_withdrawals_root();
    };
    check(name, number, relinked, expected);
}

#[test]
fn the_chain_of_execution_apis_is_imported_whole() {
    assert_eq!(CHAIN.held.len(), 55);
    assert_eq!(CHAIN.held[54].hash, fixture::HEAD);
    for (number, block) in CHAIN.held.iter().enumerate() {
        assert_eq!(block.number(), number as u64);
        assert_eq!(
            block.state.as_ref().unwrap().root(),
            block.header.state_root
        );
        let ancestors: Vec<_> = CHAIN.held[..number]
            .iter()
            .rev()
            .map(|block| block.hash)
            .collect();
        assert_eq!(*block.ancestors, *ancestors);
        let total: U256 = CHAIN.held[..=number]
            .iter()
            .map(|block| block.header.difficulty)
            .sum();
        assert_eq!(block.total_difficulty, Some(total));
        let ommer_ancestors = if number < 35 {
            (number + 1).min(OMMER_ANCESTORS_MAX)
        } else {
            0
        };
        assert_eq!(
            block.ommer_ancestors.len(),
            ommer_ancestors,
            "block {number}"
        );
        assert!(
            block
                .ommer_ancestors
                .first()
                .is_none_or(|own| own.hash == block.hash)
        );
    }
}

/// The outcome of a changed block, from the executor alone.
fn outcome(number: usize, block: &RawBlock) -> Executed {
    let parent = &CHAIN.held[number - 1];
    let rules = CHAIN.importer.rules_after(parent, &block.header);
    let senders = verify::recover_senders(&rules, &block.body.transactions).unwrap();
    execute(CHAIN.importer.spec(), parent, block, &senders).unwrap()
}

#[test]
fn each_wrong_header_field_about_the_outcome_has_its_error() {
    let other = B256::repeat_byte(7);
    // A block before Byzantium, with state roots in its receipts; one with a status; one with every
    // field.
    for number in [2, 20, 45] {
        check(
            "gas used",
            number,
            |block| block.header.gas_used += 1,
            |good, changed| VerifyError::GasUsed {
                expected: good.header.gas_used,
                found: changed.header.gas_used,
            },
        );
        check(
            "receipts root",
            number,
            |block| block.header.receipts_root = other,
            |good, _| VerifyError::ReceiptsRoot {
                expected: good.header.receipts_root,
                found: other,
            },
        );
        check(
            "logs bloom",
            number,
            |block| block.header.logs_bloom = Bloom::repeat_byte(1),
            |good, _| VerifyError::LogsBloom {
                expected: keccak256(good.header.logs_bloom),
                found: keccak256(Bloom::repeat_byte(1)),
            },
        );
        check(
            "state root",
            number,
            |block| block.header.state_root = other,
            |good, _| VerifyError::StateRoot {
                expected: good.header.state_root,
                found: other,
            },
        );
        check_executed(
            "the last transaction missing",
            number,
            |block| drop(block.body.transactions.pop()),
            |good, changed| VerifyError::GasUsed {
                expected: outcome(number, changed).gas_used,
                found: good.header.gas_used,
            },
        );
    }
    check(
        "requests hash",
        45,
        |block| block.header.requests_hash = Some(other),
        |good, _| VerifyError::RequestsHash {
            expected: good.header.requests_hash,
            found: Some(other),
        },
    );
    let state_root = |number| {
        move |good: &RawBlock, changed: &RawBlock| VerifyError::StateRoot {
            expected: outcome(number, changed).state_root(),
            found: good.header.state_root,
        }
    };
    let beneficiary = |block: &mut RawBlock| block.header.beneficiary = [9; 20].into();
    check("beneficiary", 20, beneficiary, state_root(20));
    check(
        "beneficiary before Byzantium",
        2,
        beneficiary,
        |good, changed| VerifyError::ReceiptsRoot {
            expected: proofs::calculate_receipt_root(&outcome(2, changed).receipts),
            found: good.header.receipts_root,
        },
    );
    let ommer = |block: &mut RawBlock| {
        block.body.ommers[0].beneficiary = [9; 20].into();
        block.header.ommers_hash = block.body.calculate_ommers_root();
    };
    check("an ommer's beneficiary", 25, ommer, state_root(25));
    let withdrawal = |block: &mut RawBlock| {
        let list = block.body.withdrawals.as_mut().unwrap();
        list.0[0].amount += 1;
    };
    check_executed("a withdrawal's amount", 40, withdrawal, state_root(40));
    let more = |block: &mut RawBlock| {
        let list = block.body.withdrawals.as_mut().unwrap();
        list.0.push(Withdrawal {
            amount: 1,
            ..Withdrawal::default()
        });
    };
    check_executed("one more withdrawal", 40, more, state_root(40));
    check(
        "beacon root",
        45,
        |block| block.header.parent_beacon_block_root = Some(other),
        state_root(45),
    );
}

#[test]
fn the_error_names_a_transaction_that_cannot_be_included() {
    let again = |block: &mut RawBlock| {
        block
            .body
            .transactions
            .push(block.body.transactions[0].clone())
    };
    check_executed("the first transaction again", 40, again, |_, changed| {
        ExecuteError::Transaction {
            index: changed.body.transactions.len() - 1,
            hash: *changed.body.transactions[0].tx_hash(),
            message: "nonce 192 too low, expected 195".into(),
        }
    });
    let swapped = |block: &mut RawBlock| block.body.transactions.swap(0, 1);
    check_executed("transactions swapped", 46, swapped, |_, changed| {
        ExecuteError::Transaction {
            index: 0,
            hash: *changed.body.transactions[0].tx_hash(),
            message: "nonce 217 too high, expected 216".into(),
        }
    });
}

#[test]
fn the_gas_cap_of_a_transaction_holds_from_osaka_on() {
    let rich = CHAIN.raw[40].body.transactions[0].sender_source();
    let rich = rich.address().unwrap();
    let run = |number: usize, gas_limit: u64| {
        let parent = &CHAIN.held[number - 1];
        let nonce = parent
            .state
            .as_ref()
            .unwrap()
            .account(&rich)
            .unwrap()
            .unwrap()
            .nonce;
        let transaction = TxLegacy {
            nonce,
            gas_limit,
            gas_price: 1 << 40,
            to: rich.into(),
            ..TxLegacy::default()
        };
        let mut block = CHAIN.raw[number].clone();
        let signed = Signed::new_unhashed(transaction, Signature::test_signature());
        block.body.transactions = vec![Transaction::Legacy(signed)];
        execute(CHAIN.importer.spec(), parent, &block, &[rich]).map(|executed| executed.gas_used)
    };
    const CAP: u64 = 1 << 24;
    assert_eq!(run(47, CAP + 1).unwrap(), 21_000, "before Osaka");
    assert_eq!(run(48, CAP).unwrap(), 21_000, "at the cap (EIP-7825)");
    let error = run(48, CAP + 1).unwrap_err().to_string();
    assert!(
        error.contains("16777217") && error.contains("16777216"),
        "{error}"
    );
}

/// The template that leads to block `number`, from its header and body.
fn template(number: usize) -> BlockTemplate {
    let RawBlock { header, body } = CHAIN.raw[number].clone();
    let recover = |transaction: Transaction| {
        let sender = transaction.sender_source().address().unwrap();
        Recovered::new_unchecked(transaction, sender)
    };
    BlockTemplate {
        timestamp: header.timestamp,
        beneficiary: header.beneficiary,
        gas_limit: header.gas_limit,
        prev_randao: header.mix_hash,
        extra_data: header.extra_data,
        withdrawals: body
            .withdrawals
            .map(Withdrawals::into_inner)
            .unwrap_or_default(),
        parent_beacon_block_root: header.parent_beacon_block_root.unwrap_or_default(),
        transactions: body.transactions.into_iter().map(recover).collect(),
    }
}

#[test]
fn built_blocks_equal_those_of_execution_apis() {
    let ImportedChain {
        importer,
        raw,
        held,
    } = &*CHAIN;
    for number in 36..raw.len() {
        let template = template(number);
        let senders: Vec<_> = template
            .transactions
            .iter()
            .map(Recovered::signer)
            .collect();
        let (made, executed) = build_block(importer.spec(), &held[number - 1], template).unwrap();
        assert_eq!(made, raw[number], "block {number}");
        let imported = importer
            .import_executed(&made, &senders, executed, &held[number - 1])
            .unwrap();
        assert_eq!(imported.hash, held[number].hash);
        assert_eq!(
            imported.state.as_ref().unwrap().root(),
            made.header.state_root
        );
        assert_eq!(imported.json().block(true), held[number].json().block(true));
    }
    let early = build_block(importer.spec(), &held[34], template(35)).unwrap_err();
    assert!(
        matches!(early, ExecuteError::BeforeMerge { number: 35 }),
        "{early}"
    );
}

#[test]
fn a_block_that_fails_a_check_is_not_imported() {
    let ImportedChain { importer, held, .. } = &*CHAIN;
    let template = BlockTemplate {
        gas_limit: 1,
        ..template(50)
    };
    let without_transactions = BlockTemplate {
        transactions: Vec::new(),
        ..template
    };
    let (made, executed) = build_block(importer.spec(), &held[49], without_transactions).unwrap();
    let error = importer
        .import_executed(&made, &[], executed, &held[49])
        .unwrap_err();
    assert!(
        matches!(
            error.kind,
            ImportErrorKind::Verify(VerifyError::GasLimit { found: 1, .. })
        ),
        "{error}"
    );
    let fields = [
        format!("block 50 {}", made.header.hash_slow()),
        "gas limit: expected 199804689 to 200195311".into(),
    ];
    assert!(
        fields.iter().all(|field| error.to_string().contains(field)),
        "{error}"
    );
}
