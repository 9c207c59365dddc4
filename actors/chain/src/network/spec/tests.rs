#![expect(clippy::unwrap_used, reason = "tests")]

use alloy_evm::spec_by_timestamp_and_block_number;
use alloy_genesis::{CliqueConfig, ParliaConfig};
use revm::primitives::hardfork::SpecId;

use alloy_evm::eth::spec::EthExecutorSpec;

use super::*;
use crate::fixture;

#[test]
fn every_fork_of_execution_apis_begins_at_its_block() {
    let spec = ChainSpec::from_genesis(&fixture::genesis()).unwrap();
    let expected = [
        (1, SpecId::HOMESTEAD),
        (3, SpecId::TANGERINE),
        (6, SpecId::SPURIOUS_DRAGON),
        (9, SpecId::BYZANTIUM),
        // Constantinople is Petersburg with another SSTORE.
        (12, SpecId::PETERSBURG),
        (18, SpecId::ISTANBUL),
        (24, SpecId::BERLIN),
        (27, SpecId::LONDON),
        (36, SpecId::MERGE),
        (39, SpecId::SHANGHAI),
        (42, SpecId::CANCUN),
        (45, SpecId::PRAGUE),
        (48, SpecId::OSAKA),
    ];
    for number in 1..=54 {
        let timestamp = number * 10;
        let rules = spec.rules(number, timestamp, number >= 36);
        let (_, expected) = expected
            .iter()
            .rev()
            .find(|(from, _)| *from <= number)
            .unwrap();
        assert_eq!(
            spec_by_timestamp_and_block_number(&rules, timestamp, number),
            *expected,
            "block {number}"
        );
    }
    let blobs = |number: u64| {
        spec.rules(number, number * 10, true)
            .blob_params()
            .map(|params| {
                (
                    params.target_blob_count,
                    params.max_blob_count,
                    params.max_blobs_per_tx,
                    params.blob_base_cost,
                )
            })
    };
    let expected = [
        (41, None),
        (42, Some((3, 6, 6, 0))),
        (45, Some((6, 9, 9, 0))),
        (48, Some((6, 9, 6, 8_192))),
        (51, Some((10, 15, 6, 8_192))),
        (54, Some((14, 21, 6, 8_192))),
    ];
    for (number, expected) in expected {
        assert_eq!(blobs(number), expected, "block {number}");
    }
}

#[test]
fn the_terminal_total_difficulty_decides_the_merge() {
    let terminal = U256::from(100);
    let mut genesis = fixture::genesis();
    genesis.config.terminal_total_difficulty = Some(terminal);
    let spec = ChainSpec::from_genesis(&genesis).unwrap();
    let one = U256::ONE;
    for (difficulty, total, merged) in [
        (one, Some(terminal - one), false),
        (one, Some(terminal), true),
        (U256::ZERO, Some(terminal + one), true),
        (one, None, false),
        (U256::ZERO, None, true),
    ] {
        assert_eq!(
            spec.merged_after(difficulty, total),
            merged,
            "{difficulty} {total:?}"
        );
    }
    // Time-based forks wait for the merge.
    assert!(!spec.rules(48, 480, false).has(EthereumHardfork::Shanghai));
    assert_eq!(
        spec.rules(48, 480, false).fork_before_merge(),
        Some(EthereumHardfork::Shanghai)
    );
    assert_eq!(spec.rules(48, 480, true).fork_before_merge(), None);
}

#[test]
fn petersburg_comes_with_constantinople_if_it_is_not_named() {
    let mut genesis = fixture::genesis();
    genesis.config.petersburg_block = None;
    let spec = ChainSpec::from_genesis(&genesis).unwrap();
    assert!(spec.rules(12, 120, false).has(EthereumHardfork::Petersburg));
    assert!(!spec.rules(11, 110, false).has(EthereumHardfork::Petersburg));
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Genesis), expected: SpecError) {
    let mut genesis = fixture::genesis();
    change(&mut genesis);
    assert_eq!(
        ChainSpec::from_genesis(&genesis).map(|spec| spec.chain_id()),
        Err(expected)
    );
}

#[test]
fn an_unsupported_genesis_is_refused() {
    use EthereumHardfork as Fork;
    check_refused(|genesis| genesis.config.chain_id = 0, SpecError::NoChainId);
    check_refused(
        |genesis| {
            genesis.config.clique = Some(CliqueConfig {
                period: None,
                epoch: None,
            })
        },
        SpecError::Engine("clique"),
    );
    check_refused(
        |genesis| {
            genesis.config.parlia = Some(ParliaConfig {
                period: None,
                epoch: None,
            })
        },
        SpecError::Engine("parlia"),
    );
    check_refused(
        |genesis| genesis.config.amsterdam_time = Some(u64::MAX),
        SpecError::Fork(Fork::Amsterdam),
    );
    check_refused(
        |genesis| genesis.config.bogota_time = Some(u64::MAX),
        SpecError::Fork(Fork::Bogota),
    );
    check_refused(
        |genesis| genesis.config.terminal_total_difficulty = None,
        SpecError::NoMerge(Fork::Shanghai),
    );
    check_refused(
        |genesis| genesis.config.eip155_block = Some(5),
        SpecError::SpuriousDragon {
            eip155: Some(5),
            eip158: Some(6),
        },
    );
    check_refused(
        |genesis| genesis.config.berlin_block = None,
        SpecError::Order {
            earlier: Fork::Berlin,
            later: Fork::London,
        },
    );
    check_refused(
        |genesis| genesis.config.cancun_time = Some(389),
        SpecError::Order {
            earlier: Fork::Shanghai,
            later: Fork::Cancun,
        },
    );
    check_refused(
        |genesis| genesis.config.bpo1_time = Some(479),
        SpecError::Order {
            earlier: Fork::Osaka,
            later: Fork::Bpo1,
        },
    );
    check_refused(
        |genesis| assert!(genesis.config.blob_schedule.remove("bpo2").is_some()),
        SpecError::BlobSchedule(Fork::Bpo2),
    );
    check_refused(
        |genesis| {
            genesis
                .config
                .blob_schedule
                .get_mut("prague")
                .unwrap()
                .update_fraction = 0
        },
        SpecError::BlobSchedule(Fork::Prague),
    );
    check_refused(
        |genesis| {
            genesis
                .config
                .blob_schedule
                .get_mut("cancun")
                .unwrap()
                .max_blob_count = 1 << 40
        },
        SpecError::BlobSchedule(Fork::Cancun),
    );
    check_refused(
        |genesis| {
            let bpo2 = genesis.config.blob_schedule.get_mut("bpo2").unwrap();
            bpo2.target_blob_count = bpo2.max_blob_count + 1;
        },
        SpecError::BlobSchedule(Fork::Bpo2),
    );
    check_refused(
        |genesis| genesis.number = Some(1),
        SpecError::OutOfRange {
            field: "number",
            value: 1,
        },
    );
    check_refused(
        |genesis| genesis.base_fee_per_gas = Some(u128::MAX),
        SpecError::OutOfRange {
            field: "baseFeePerGas",
            value: u128::MAX,
        },
    );
    const TOO_MUCH: u64 = (1 << 40) + 1;
    check_refused(
        |genesis| genesis.excess_blob_gas = Some(TOO_MUCH),
        SpecError::OutOfRange {
            field: "excessBlobGas",
            value: TOO_MUCH.into(),
        },
    );
    check_refused(
        |genesis| genesis.blob_gas_used = Some(TOO_MUCH),
        SpecError::OutOfRange {
            field: "blobGasUsed",
            value: TOO_MUCH.into(),
        },
    );
}

/// Its headers can be checked, and its blocks cannot be executed.
#[test]
fn a_chain_with_amsterdam_can_only_be_followed() {
    use EthereumHardfork as Fork;
    let mut genesis = fixture::genesis();
    let last_time = genesis.config.bpo2_time.unwrap();
    genesis.config.amsterdam_time = Some(last_time + 100);
    let has_amsterdam = |spec: &ChainSpec, timestamp| {
        let rules = spec.rules(60, timestamp, true);
        (rules.has(Fork::Amsterdam), rules.blob_params())
    };
    let spec = ChainSpec::to_follow(&genesis).unwrap();
    let (is_active, before) = has_amsterdam(&spec, last_time + 99);
    assert!(!is_active && spec.is_dated(Fork::Amsterdam));
    // Blob parameters stay if the fork names none.
    assert_eq!(has_amsterdam(&spec, last_time + 100), (true, before));
    let mut params = genesis.config.blob_schedule["bpo2"];
    params.max_blob_count += 1;
    let mut schedule = |params| {
        let schedule = &mut genesis.config.blob_schedule;
        schedule.insert("amsterdam".to_owned(), params);
        ChainSpec::to_follow(&genesis)
    };
    let spec = schedule(params).unwrap();
    let (_, found) = has_amsterdam(&spec, last_time + 100);
    let found = found.unwrap();
    assert_eq!(found.max_blob_count, params.max_blob_count);
    assert_eq!((found.blob_base_cost, found.max_blobs_per_tx), (8_192, 6));
    assert_eq!(has_amsterdam(&spec, last_time + 99), (false, before));
    params.update_fraction = 0;
    let refused = schedule(params).map(|spec| spec.chain_id());
    assert_eq!(refused, Err(SpecError::BlobSchedule(Fork::Amsterdam)));
    genesis.config.blob_schedule.remove("amsterdam");
    genesis.config.amsterdam_time = Some(last_time - 1);
    let refused = ChainSpec::to_follow(&genesis).map(|spec| spec.chain_id());
    let order = SpecError::Order {
        earlier: Fork::Bpo2,
        later: Fork::Amsterdam,
    };
    assert_eq!(refused, Err(order));
    let refused = ChainSpec::from_genesis(&genesis).map(|spec| spec.chain_id());
    assert_eq!(refused, Err(SpecError::Fork(Fork::Amsterdam)));
}

/// The largest values that a genesis may name overflow nothing in the block after it.
#[test]
fn the_blob_gas_after_any_genesis_can_be_computed() {
    let mut genesis = fixture::genesis();
    let cancun = genesis.config.blob_schedule.get_mut("cancun").unwrap();
    (cancun.max_blob_count, cancun.target_blob_count) = (BLOBS_MAX, 0);
    (cancun.update_fraction, cancun.blob_base_cost) = (1, 8_192);
    genesis.excess_blob_gas = Some(GENESIS_BLOB_GAS_MAX);
    genesis.blob_gas_used = Some(GENESIS_BLOB_GAS_MAX);
    genesis.base_fee_per_gas = Some(GENESIS_BASE_FEE_MAX);
    let spec = ChainSpec::from_genesis(&genesis).unwrap();
    let parent = alloy_consensus::Header {
        excess_blob_gas: genesis.excess_blob_gas,
        blob_gas_used: genesis.blob_gas_used,
        base_fee_per_gas: Some(u64::MAX / 2),
        ..Default::default()
    };
    let rules = spec.rules(42, 420, true);
    assert_eq!(
        crate::verify::excess_blob_gas(&rules, &parent),
        Some(2 * GENESIS_BLOB_GAS_MAX)
    );
}

#[test]
fn without_an_address_no_log_is_a_deposit() {
    let mut genesis = fixture::genesis();
    genesis.config.deposit_contract_address = None;
    let spec = ChainSpec::from_genesis(&genesis).unwrap();
    assert_eq!(
        spec.rules(48, 480, true).deposit_contract_address(),
        Some(Address::ZERO)
    );
}
