use alloy_eips::eip1559::BaseFeeParams;

use super::*;

#[test]
fn each_contradiction_of_the_parent_has_its_error() {
    let chain = RawChain::new();
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
    let with_parent_limit = |limit| {
        let mut chain = RawChain::new();
        chain.blocks[39].header.gas_limit = limit;
        chain
    };
    const GAS_LIMIT_MAX: u64 = i64::MAX as u64;
    for (parent, found, min, max) in [
        (5_001, 4_999, 5_000, 5_004),
        (
            GAS_LIMIT_MAX,
            GAS_LIMIT_MAX + 1,
            GAS_LIMIT_MAX - GAS_LIMIT_MAX / 1_024 + 1,
            GAS_LIMIT_MAX,
        ),
    ] {
        let chain = with_parent_limit(parent);
        chain.check(
            "gas limit of any block",
            40,
            |block| {
                block.header.parent_hash = chain.blocks[39].header.hash_slow();
                block.header.gas_limit = found;
            },
            |_, _| VerifyError::GasLimit { min, max, found },
        );
    }
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
fn each_wrong_field_of_the_seal_has_its_error() {
    let chain = RawChain::new();
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
        RawChain::with_rules(|genesis| genesis.config.terminal_total_difficulty = Some(U256::MAX));
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
        RawChain::with_rules(move |genesis| {
            genesis.config.dao_fork_block = Some(2);
            genesis.config.dao_fork_support = supported;
        })
    };
    for number in [2, 11] {
        dao(true).check(
            "mark of the DAO fork missing",
            number,
            |_| (),
            |good, _| VerifyError::DaoForkMissing {
                expected: mark.clone(),
                found: good.header.extra_data.clone(),
            },
        );
        dao(false).check(
            "mark of the DAO fork refused",
            number,
            |block| block.header.extra_data = mark.clone(),
            |_, _| VerifyError::DaoForkMark {
                found: mark.clone(),
            },
        );
    }
    let mut eleventh = chain.blocks[12].clone();
    // Its ommer is one of the first ten blocks and lacks their mark.
    eleventh.body.ommers.clear();
    eleventh.header.ommers_hash = EMPTY_OMMER_ROOT_HASH;
    assert_eq!(
        dao(true).verify(12, &eleventh),
        Ok(()),
        "the eleventh block carries no mark"
    );
}

#[test]
fn fields_are_present_from_their_fork_on_and_not_before() {
    let chain = RawChain::new();
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
        "block access list hash early",
        54,
        |block| block.header.block_access_list_hash = zero,
        |_, _| VerifyError::BlockAccessListHash {
            expected: false,
            found: true,
        },
    );
    chain.check(
        "slot number early",
        54,
        |block| block.header.slot_number = Some(1),
        |_, _| VerifyError::SlotNumber {
            expected: false,
            found: true,
        },
    );
}

/// An upstream's first block has a parent that nothing was checked against.
#[test]
fn an_unproven_parent_may_state_any_number() {
    let chain = RawChain::new();
    let newest = chain.blocks.len() - 1;
    let good = &chain.blocks[newest];
    let rules = chain.rules(newest, good.header.timestamp);
    let numbers = [0, 1, 2, 3, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    for fee in numbers {
        for (used, limit) in numbers
            .iter()
            .flat_map(|used| numbers.map(|limit| (*used, limit)))
        {
            let parent = Header {
                gas_used: used,
                gas_limit: limit,
                base_fee_per_gas: Some(fee),
                excess_blob_gas: Some(limit),
                blob_gas_used: Some(used),
                ..chain.parent(newest).clone()
            };
            // What it finds does not matter: no such parent is ever proven.
            let _ = check_header(&rules, &parent, good.header.parent_hash, &good.header);
            let next = (base_fee(&rules, &parent), excess_blob_gas(&rules, &parent));
            if used <= limit && limit < 1 << 33 && fee < 1 << 33 {
                let params = rules.blob_params().unwrap();
                let blobs = used <= params.max_blob_gas_per_block();
                let expected = parent.next_block_base_fee(BaseFeeParams::ethereum());
                assert_eq!(next.0, expected);
                let expected = parent.next_block_excess_blob_gas(params);
                assert!(!blobs || next.1 == expected, "{next:?} {expected:?}");
            }
        }
    }
}
