#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, EMPTY_ROOT_HASH, Header, Signed, TxLegacy, proofs};
use alloy_eips::eip4895::Withdrawals;
use alloy_genesis::Genesis;
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{B64, B256, Bytes, Signature, U256, uint};

use super::*;
use crate::{
    block::{Kin, RawBlock, Transaction},
    execute::{ChainSpec, Rules},
    fixture,
};

/// The chain of execution-apis, as much of it as the checks look at.
struct Chain {
    spec: ChainSpec,
    blocks: Vec<RawBlock>,
}

impl Chain {
    fn new() -> Self {
        Self::with_rules(|_| ())
    }

    /// The same blocks under other rules.
    fn with_rules(change: impl FnOnce(&mut Genesis)) -> Self {
        let mut genesis = fixture::genesis();
        let header = fixture::genesis_header(&genesis);
        change(&mut genesis);
        let first = RawBlock {
            header,
            body: Default::default(),
        };
        let blocks = std::iter::once(first).chain(fixture::blocks()).collect();
        Self {
            spec: ChainSpec::from_genesis(&genesis).unwrap(),
            blocks,
        }
    }

    fn parent(&self, number: usize) -> &Header {
        &self.blocks[number - 1].header
    }

    fn rules(&self, number: usize, timestamp: u64) -> Rules<'_> {
        let total: U256 = self.blocks[..number]
            .iter()
            .map(|block| block.header.difficulty)
            .sum();
        let merged = self
            .spec
            .merged_after(self.parent(number).difficulty, Some(total));
        self.spec.rules(number as u64, timestamp, merged)
    }

    fn kin(&self, number: usize) -> Vec<Arc<Kin>> {
        let kin = |block: &RawBlock| Kin {
            hash: block.header.hash_slow(),
            header: block.header.clone(),
            ommers: block.body.ommers_hashes().collect(),
        };
        self.blocks[..number]
            .iter()
            .rev()
            .map(kin)
            .map(Arc::new)
            .collect()
    }

    /// Everything that is checked before execution, for a block in the place of block `number`.
    fn judge(&self, number: usize, block: &RawBlock) -> Result<(), VerifyError> {
        let rules = self.rules(number, block.header.timestamp);
        let parent = self.parent(number);
        check_header(&rules, parent, parent.hash_slow(), &block.header)?;
        check_body(&rules, block)?;
        check_ommers(&rules, &self.kin(number), &block.body.ommers)?;
        recover_senders(&rules, &block.body.transactions).map(drop)
    }

    /// Changes one thing about block `number`; `expected` is what the good and the changed block are judged to.
    #[track_caller]
    fn check(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&mut RawBlock),
        expected: impl FnOnce(&RawBlock, &RawBlock) -> VerifyError,
    ) {
        let good = &self.blocks[number];
        let mut changed = good.clone();
        change(&mut changed);
        let verdict = self.judge(number, &changed);
        assert_eq!(verdict, Err(expected(good, &changed)), "{name}");
    }

    /// As [`Self::check`] for the ommers of block `number`, with the header's hash of them put right.
    #[track_caller]
    fn check_ommers(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&mut Vec<Header>),
        expected: impl FnOnce(&[Header]) -> VerifyError,
    ) {
        let change = |block: &mut RawBlock| {
            change(&mut block.body.ommers);
            block.header.ommers_hash = block.body.calculate_ommers_root();
        };
        self.check(name, number, change, |_, changed| {
            expected(&changed.body.ommers)
        });
    }

    /// As [`Self::check`] for the first transaction of block `number`, with the transactions root put right.
    #[track_caller]
    fn check_transaction(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&TxLegacy, &Signature) -> (TxLegacy, Signature),
        expected: impl FnOnce(B256) -> VerifyError,
    ) {
        let change = |block: &mut RawBlock| {
            let first = &mut block.body.transactions[0];
            let signed = first.as_legacy().unwrap();
            let (transaction, signature) = change(signed.tx(), signed.signature());
            *first = Transaction::Legacy(Signed::new_unhashed(transaction, signature));
            block.header.transactions_root =
                proofs::calculate_transaction_root(&block.body.transactions);
        };
        self.check(name, number, change, |_, changed| {
            expected(*changed.body.transactions[0].hash())
        });
    }
}

#[test]
fn every_block_of_execution_apis_keeps_its_promises() {
    let chain = Chain::new();
    assert_eq!(chain.blocks.len(), 55);
    for number in 1..chain.blocks.len() {
        assert_eq!(
            chain.judge(number, &chain.blocks[number]),
            Ok(()),
            "block {number}"
        );
    }
}

#[test]
fn each_promise_about_the_parent_has_its_error() {
    let chain = Chain::new();
    let other = B256::repeat_byte(7);
    chain.check(
        "parent hash",
        40,
        |block| block.header.parent_hash = other,
        |good, _| VerifyError::ParentHash {
            expected: good.header.parent_hash,
            found: other,
        },
    );
    chain.check(
        "number",
        40,
        |block| block.header.number += 1,
        |_, _| VerifyError::Number {
            expected: 40,
            found: 41,
        },
    );
    chain.check(
        "timestamp",
        40,
        |block| block.header.timestamp = 390,
        |_, _| VerifyError::Timestamp {
            parent: 390,
            found: 390,
        },
    );
    chain.check(
        "extra data",
        40,
        |block| block.header.extra_data = Bytes::from_static(&[0; 33]),
        |_, _| VerifyError::ExtraData { max: 32, found: 33 },
    );
    // 200,000,000 / 1,024 = 195,312.
    let limits = |found| VerifyError::GasLimit {
        min: 199_804_689,
        max: 200_195_311,
        found,
    };
    for found in [200_195_312, 199_804_688] {
        chain.check(
            "gas limit",
            40,
            |block| block.header.gas_limit = found,
            |_, _| limits(found),
        );
    }
    chain.check(
        "gas limit at London",
        27,
        |block| block.header.gas_limit = 100_000_000,
        |_, _| limits(100_000_000),
    );
    chain.check(
        "gas used",
        40,
        |block| block.header.gas_used = 200_000_001,
        |_, _| VerifyError::GasUsedAboveLimit {
            limit: 200_000_000,
            found: 200_000_001,
        },
    );
    chain.check(
        "base fee",
        40,
        |block| block.header.base_fee_per_gas = Some(1),
        |good, _| VerifyError::BaseFee {
            expected: good.header.base_fee_per_gas,
            found: Some(1),
        },
    );
    chain.check(
        "base fee absent",
        27,
        |block| block.header.base_fee_per_gas = None,
        |_, _| VerifyError::BaseFee {
            expected: Some(1_000_000_000),
            found: None,
        },
    );
    chain.check(
        "base fee before London",
        26,
        |block| block.header.base_fee_per_gas = Some(7),
        |_, _| VerifyError::BaseFee {
            expected: None,
            found: Some(7),
        },
    );
}

#[test]
fn each_promise_about_the_seal_has_its_error() {
    let chain = Chain::new();
    chain.check(
        "difficulty",
        20,
        |block| block.header.difficulty += U256::ONE,
        |good, changed| VerifyError::Difficulty {
            expected: good.header.difficulty,
            found: changed.header.difficulty,
        },
    );
    chain.check(
        "zero difficulty before the merge",
        35,
        |block| block.header.difficulty = U256::ZERO,
        |good, _| VerifyError::Difficulty {
            expected: good.header.difficulty,
            found: U256::ZERO,
        },
    );
    chain.check(
        "difficulty after the merge",
        36,
        |block| block.header.difficulty = U256::ONE,
        |_, _| VerifyError::Difficulty {
            expected: U256::ZERO,
            found: U256::ONE,
        },
    );
    let nonce = B64::with_last_byte(1);
    chain.check(
        "nonce after the merge",
        36,
        |block| block.header.nonce = nonce,
        |_, _| VerifyError::Nonce {
            expected: B64::ZERO,
            found: nonce,
        },
    );
    let late =
        Chain::with_rules(|genesis| genesis.config.terminal_total_difficulty = Some(U256::MAX));
    late.check(
        "Shanghai before the merge",
        39,
        |_| (),
        |_, _| VerifyError::ForkBeforeMerge {
            fork: EthereumHardfork::Shanghai,
        },
    );
    let mark = Bytes::from_static(b"dao-hard-fork");
    let dao = |supported| {
        Chain::with_rules(move |genesis| {
            genesis.config.dao_fork_block = Some(2);
            genesis.config.dao_fork_support = supported;
        })
    };
    for number in [2, 11] {
        dao(true).check(
            "mark missing",
            number,
            |_| (),
            |good, _| VerifyError::DaoForkMissing {
                expected: mark.clone(),
                found: good.header.extra_data.clone(),
            },
        );
        dao(false).check(
            "mark refused",
            number,
            |block| block.header.extra_data = mark.clone(),
            |_, _| VerifyError::DaoForkMark {
                found: mark.clone(),
            },
        );
    }
    assert_eq!(
        dao(true).judge(12, &dao(true).blocks[12]),
        Ok(()),
        "the eleventh block carries no mark"
    );
}

#[test]
fn fields_are_there_from_their_fork_on_and_not_before() {
    let chain = Chain::new();
    let zero = Some(B256::ZERO);
    chain.check(
        "withdrawals root absent",
        39,
        |block| block.header.withdrawals_root = None,
        |good, _| VerifyError::WithdrawalsRoot {
            expected: good.header.withdrawals_root,
            found: None,
        },
    );
    chain.check(
        "withdrawals root early",
        38,
        |block| block.header.withdrawals_root = zero,
        |_, _| VerifyError::WithdrawalsRoot {
            expected: None,
            found: zero,
        },
    );
    chain.check(
        "withdrawals absent",
        39,
        |block| block.body.withdrawals = None,
        |_, _| VerifyError::Withdrawals {
            expected: true,
            found: false,
        },
    );
    chain.check(
        "withdrawals early",
        38,
        |block| block.body.withdrawals = Some(Withdrawals::default()),
        |_, _| VerifyError::Withdrawals {
            expected: false,
            found: true,
        },
    );
    chain.check(
        "blob gas used absent",
        42,
        |block| block.header.blob_gas_used = None,
        |_, _| VerifyError::BlobGasUsed {
            expected: Some(131_072),
            found: None,
        },
    );
    chain.check(
        "blob gas used early",
        41,
        |block| block.header.blob_gas_used = Some(0),
        |_, _| VerifyError::BlobGasUsed {
            expected: None,
            found: Some(0),
        },
    );
    chain.check(
        "excess blob gas absent",
        42,
        |block| block.header.excess_blob_gas = None,
        |_, _| VerifyError::ExcessBlobGas {
            expected: Some(0),
            found: None,
        },
    );
    chain.check(
        "excess blob gas early",
        41,
        |block| block.header.excess_blob_gas = Some(0),
        |_, _| VerifyError::ExcessBlobGas {
            expected: None,
            found: Some(0),
        },
    );
    chain.check(
        "beacon root absent",
        42,
        |block| block.header.parent_beacon_block_root = None,
        |_, _| VerifyError::ParentBeaconBlockRoot {
            expected: true,
            found: false,
        },
    );
    chain.check(
        "beacon root early",
        41,
        |block| block.header.parent_beacon_block_root = zero,
        |_, _| VerifyError::ParentBeaconBlockRoot {
            expected: false,
            found: true,
        },
    );
    chain.check(
        "requests hash absent",
        45,
        |block| block.header.requests_hash = None,
        |_, _| VerifyError::RequestsHashPresence {
            expected: true,
            found: false,
        },
    );
    chain.check(
        "requests hash early",
        44,
        |block| block.header.requests_hash = zero,
        |_, _| VerifyError::RequestsHashPresence {
            expected: false,
            found: true,
        },
    );
    chain.check(
        "block access list hash",
        54,
        |block| block.header.block_access_list_hash = zero,
        |_, _| VerifyError::UnknownField {
            field: "block access list hash",
        },
    );
    chain.check(
        "slot number",
        54,
        |block| block.header.slot_number = Some(1),
        |_, _| VerifyError::UnknownField {
            field: "slot number",
        },
    );
}

#[test]
fn each_promise_about_the_body_has_its_error() {
    let chain = Chain::new();
    let transactions_root = |good: &RawBlock, changed: &RawBlock| VerifyError::TransactionsRoot {
        expected: proofs::calculate_transaction_root(&changed.body.transactions),
        found: good.header.transactions_root,
    };
    chain.check(
        "a transaction less",
        40,
        |block| drop(block.body.transactions.pop()),
        transactions_root,
    );
    chain.check(
        "transactions swapped",
        40,
        |block| block.body.transactions.swap(0, 1),
        transactions_root,
    );
    chain.check(
        "all transactions gone",
        40,
        |block| block.body.transactions.clear(),
        |good, _| VerifyError::TransactionsRoot {
            expected: EMPTY_ROOT_HASH,
            found: good.header.transactions_root,
        },
    );
    chain.check(
        "an ommer less",
        25,
        |block| block.body.ommers.clear(),
        |good, _| VerifyError::OmmersHash {
            expected: EMPTY_OMMER_ROOT_HASH,
            found: good.header.ommers_hash,
        },
    );
    let amount = |block: &mut RawBlock| {
        let list = block.body.withdrawals.as_mut().unwrap();
        list.0[0].amount += 1;
    };
    chain.check("a withdrawal's amount", 40, amount, |good, changed| {
        VerifyError::WithdrawalsRoot {
            expected: changed.body.calculate_withdrawals_root(),
            found: good.header.withdrawals_root,
        }
    });
    chain.check(
        "blob gas used",
        43,
        |block| block.header.blob_gas_used = Some(0),
        |_, _| VerifyError::BlobGasUsed {
            expected: Some(131_072),
            found: Some(0),
        },
    );
    // Blobs a block may have: 6 from Cancun, 9 from Prague and Osaka, 15 from BPO1, 21 from BPO2.
    for (number, max) in [(42, 6), (44, 6), (45, 9), (48, 9), (51, 15), (54, 21)] {
        let (max, found) = (max * 131_072, (max + 1) * 131_072);
        chain.check(
            "blob gas limit",
            number,
            |block| block.header.blob_gas_used = Some(found),
            |_, _| VerifyError::BlobGasAboveLimit { max, found },
        );
    }
    chain.check(
        "excess blob gas",
        43,
        |block| block.header.excess_blob_gas = Some(1),
        |_, _| VerifyError::ExcessBlobGas {
            expected: Some(0),
            found: Some(1),
        },
    );
    let mut large = chain.blocks[48].clone();
    let padding = TxLegacy {
        input: Bytes::from(vec![0; 8 << 20]),
        ..TxLegacy::default()
    };
    let padding = Signed::new_unhashed(padding, Signature::test_signature());
    large.body.transactions.push(Transaction::Legacy(padding));
    let length = alloy_rlp::encode(&large).len();
    let too_large = VerifyError::BlockSize {
        max: 8 << 20,
        found: length,
    };
    assert_eq!(chain.judge(48, &large), Err(too_large), "from Osaka on");
    large.header = chain.blocks[47].header.clone();
    assert!(
        matches!(
            chain.judge(47, &large),
            Err(VerifyError::TransactionsRoot { .. })
        ),
        "not before"
    );
}

#[test]
fn each_promise_about_ommers_has_its_error() {
    let chain = Chain::new();
    let good = chain.blocks[25].body.ommers[0].clone();
    let header = |number: usize| chain.blocks[number].header.clone();
    let twice = good.clone();
    chain.check_ommers(
        "the same twice",
        25,
        |ommers| ommers.push(twice),
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    let old = chain.blocks[22].body.ommers[0].clone();
    chain.check_ommers(
        "one of an ancestor's",
        25,
        |ommers| ommers[0] = old,
        |ommers| VerifyError::OmmerIncluded {
            hash: ommers[0].hash_slow(),
        },
    );
    chain.check_ommers(
        "three",
        25,
        |ommers| ommers.resize(3, good.clone()),
        |_| VerifyError::OmmerCount { max: 2, found: 3 },
    );
    chain.check_ommers(
        "one after the merge",
        36,
        |ommers| ommers.push(good.clone()),
        |_| VerifyError::OmmerCount { max: 0, found: 1 },
    );
    for number in [24, 19] {
        chain.check_ommers(
            "an ancestor",
            25,
            |ommers| ommers[0] = header(number),
            |ommers| VerifyError::OmmerIsAncestor {
                hash: ommers[0].hash_slow(),
            },
        );
    }
    for number in [17, 25] {
        // Block 17's parent is the eighth generation below block 25; block 25's parent is its own.
        let stranger = Header {
            beneficiary: [9; 20].into(),
            ..header(number)
        };
        chain.check_ommers(
            "no kin",
            25,
            |ommers| ommers[0] = stranger,
            |ommers| VerifyError::OmmerParent {
                hash: ommers[0].hash_slow(),
                parent: ommers[0].parent_hash,
            },
        );
    }
    let sibling = Header {
        beneficiary: [9; 20].into(),
        ..header(19)
    };
    let mut with_sibling = chain.blocks[25].clone();
    with_sibling.body.ommers[0] = sibling;
    with_sibling.header.ommers_hash = with_sibling.body.calculate_ommers_root();
    assert_eq!(
        chain.judge(25, &with_sibling),
        Ok(()),
        "the parent of block 19 is the seventh generation"
    );
    chain.check_ommers(
        "number",
        25,
        |ommers| ommers[0].number += 1,
        |ommers| VerifyError::OmmerHeader {
            hash: ommers[0].hash_slow(),
            why: Box::new(VerifyError::Number {
                expected: good.number,
                found: good.number + 1,
            }),
        },
    );
    chain.check_ommers(
        "difficulty",
        25,
        |ommers| ommers[0].difficulty += U256::ONE,
        |ommers| {
            let why = VerifyError::Difficulty {
                expected: good.difficulty,
                found: good.difficulty + U256::ONE,
            };
            VerifyError::OmmerHeader {
                hash: ommers[0].hash_slow(),
                why: Box::new(why),
            }
        },
    );
}

#[test]
fn each_promise_of_a_signature_has_its_error() {
    const ORDER: U256 =
        uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let chain = Chain::new();
    let mirrored = |signature: &Signature| {
        Signature::new(signature.r(), ORDER - signature.s(), !signature.v())
    };
    let index = 0;
    chain.check_transaction(
        "a high s",
        9,
        |tx, signature| (tx.clone(), mirrored(signature)),
        |hash| VerifyError::SignatureMalleable { index, hash },
    );
    chain.check_transaction(
        "r of zero",
        9,
        |tx, signature| {
            (
                tx.clone(),
                Signature::new(U256::ZERO, signature.s(), signature.v()),
            )
        },
        |hash| VerifyError::Signature { index, hash },
    );
    let expected = chain.spec.chain_id();
    chain.check_transaction(
        "another chain",
        9,
        |tx, signature| {
            (
                TxLegacy {
                    chain_id: Some(1),
                    ..tx.clone()
                },
                *signature,
            )
        },
        |hash| VerifyError::ChainId {
            index,
            hash,
            expected,
            found: 1,
        },
    );
    chain.check_transaction(
        "a chain id before EIP-155",
        5,
        |tx, signature| {
            (
                TxLegacy {
                    chain_id: Some(expected),
                    ..tx.clone()
                },
                *signature,
            )
        },
        |hash| VerifyError::ReplayProtection { index, hash },
    );
    // Before Homestead a high s was valid, and the same sender's.
    let frontier = Chain::with_rules(|genesis| {
        genesis.config.homestead_block = Some(2);
    });
    let signed = frontier.blocks[1].body.transactions[0].as_legacy().unwrap();
    let high = Transaction::Legacy(Signed::new_unhashed(
        signed.tx().clone(),
        mirrored(signed.signature()),
    ));
    let rules = frontier.rules(1, 10);
    let low = frontier.blocks[1].body.transactions[0].clone();
    assert_eq!(
        recover_senders(&rules, &[high]),
        recover_senders(&rules, &[low])
    );
}

/// The formulas as the EIPs write them, in signed arithmetic.
#[test]
fn difficulty_is_that_of_the_eips() {
    /// `None` where the bomb is beyond this arithmetic.
    fn expected(fork: &str, delay: i128, parent: &Header, timestamp: u64) -> Option<i128> {
        let difficulty: i128 = parent.difficulty.try_into().unwrap();
        let elapsed = i128::from(timestamp - parent.timestamp);
        let sigma = match fork {
            "frontier" => {
                if elapsed < 13 {
                    1
                } else {
                    -1
                }
            }
            "homestead" => (1 - elapsed / 10).max(-99),
            _ => ((if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH {
                1
            } else {
                2
            }) - elapsed / 9)
                .max(-99),
        };
        let number = i128::from(parent.number) + 1;
        let epsilon = (number - delay).max(0) / 100_000 - 2;
        let bomb = if epsilon < 0 {
            0
        } else {
            1_i128
                .checked_shl(epsilon.try_into().unwrap())
                .filter(|bomb| *bomb > 0)?
        };
        Some((difficulty + difficulty / 2048 * sigma).max(131_072) + bomb)
    }
    let forks = [
        ("frontier", 0),
        ("homestead", 0),
        ("byzantium", 3_000_000),
        ("constantinople", 5_000_000),
        ("muir", 9_000_000),
        ("london", 9_700_000),
        ("arrow", 10_700_000),
        ("gray", 11_400_000),
    ];
    for (last, (fork, delay)) in forks.iter().enumerate() {
        let from = |index: usize| (index <= last).then_some(0);
        let mut genesis = Genesis::default();
        genesis.config.chain_id = 1;
        genesis.config.homestead_block = from(1);
        for block in [
            &mut genesis.config.eip150_block,
            &mut genesis.config.byzantium_block,
        ] {
            *block = from(2);
        }
        genesis.config.eip155_block = from(2);
        genesis.config.eip158_block = from(2);
        genesis.config.constantinople_block = from(3);
        genesis.config.istanbul_block = from(4);
        genesis.config.muir_glacier_block = from(4);
        genesis.config.berlin_block = from(5);
        genesis.config.london_block = from(5);
        genesis.config.arrow_glacier_block = from(6);
        genesis.config.gray_glacier_block = from(7);
        let spec = ChainSpec::from_genesis(&genesis).unwrap();
        for number in [
            0, 1, 199_998, 199_999, 200_000, 3_199_999, 4_370_000, 7_280_000, 12_000_000,
            15_000_000, 17_000_000,
        ] {
            for elapsed in [1, 8, 9, 12, 13, 17, 18, 19, 20, 899, 900, 909, 5_000] {
                for difficulty in [131_072_u64, 140_000, 17_179_869_184, u64::MAX] {
                    for ommers_hash in [EMPTY_OMMER_ROOT_HASH, B256::ZERO] {
                        let difficulty = U256::from(difficulty);
                        let parent = Header {
                            number,
                            difficulty,
                            ommers_hash,
                            timestamp: 100,
                            ..Header::default()
                        };
                        let rules = spec.rules(number + 1, 100 + elapsed, false);
                        let found = super::difficulty(&rules, &parent, 100 + elapsed);
                        let Some(expected) = expected(fork, *delay, &parent, 100 + elapsed) else {
                            continue;
                        };
                        assert_eq!(
                            found,
                            U256::from(expected),
                            "{fork} after {number}, {elapsed} s, {difficulty}"
                        );
                    }
                }
            }
        }
    }
}
