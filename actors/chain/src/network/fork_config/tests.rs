#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use alloy_evm::eth::spec::{EthExecutorSpec, EthSpec};
use serde_json::{Value, json};

use super::*;
use crate::network::Network;

const PRAGUE_OF_HOODI: u64 = 1_742_999_832;

fn genesis(network: Network) -> GenesisFacts {
    GenesisFacts {
        hash: network.genesis_hash(),
        timestamp: match network {
            Network::Mainnet => 0,
            Network::Sepolia => 1_633_267_481,
            Network::Hoodi => 1_742_212_800,
        },
    }
}

fn configs(spec: &ChainSpec, genesis: GenesisFacts, timestamp: u64) -> Option<Value> {
    let json = spec.fork_configs(genesis, timestamp)?;
    Some(serde_json::from_slice(&json.into_bytes()).unwrap())
}

/// The rules of Hoodi, as far as this fork.
fn hoodi(last: EthereumHardfork) -> ChainSpec {
    let mut spec = ChainSpec::of_network(Network::Hoodi);
    spec.forks.retain(|(fork, _)| *fork <= last);
    spec.blob_schedule.scheduled.clear();
    spec
}

/// The sample of a fork in EIP-7910.
fn sample(fork: EthereumHardfork) -> Value {
    let address = |last: u8| json!(Address::with_last_byte(last));
    let mut sample = json!({
        "activationTime": 0,
        "blobSchedule": {"baseFeeUpdateFraction": 3_338_477, "max": 6, "target": 3},
        "chainId": "0x88bb0",
        "forkId": "0xbef71d30",
        "precompiles": {
            "BLAKE2F": address(9),
            "BN254_ADD": address(6),
            "BN254_MUL": address(7),
            "BN254_PAIRING": address(8),
            "ECREC": address(1),
            "ID": address(4),
            "KZG_POINT_EVALUATION": address(10),
            "MODEXP": address(5),
            "RIPEMD160": address(3),
            "SHA256": address(2),
        },
        "systemContracts": {
            "BEACON_ROOTS_ADDRESS": "0x000f3df6d732807ef1319fb7b8bb8522d0beac02",
        },
    });
    if fork == EthereumHardfork::Cancun {
        return sample;
    }
    sample["activationTime"] = json!(PRAGUE_OF_HOODI);
    sample["blobSchedule"] = json!({"baseFeeUpdateFraction": 5_007_716, "max": 9, "target": 6});
    sample["forkId"] = json!("0x0929e24e");
    for (name, last) in [
        ("BLS12_G1ADD", 11),
        ("BLS12_G1MSM", 12),
        ("BLS12_G2ADD", 13),
        ("BLS12_G2MSM", 14),
        ("BLS12_PAIRING_CHECK", 15),
        ("BLS12_MAP_FP_TO_G1", 16),
        ("BLS12_MAP_FP2_TO_G2", 17),
    ] {
        sample["precompiles"][name] = address(last);
    }
    for (name, contract) in [
        (
            "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS",
            "0x0000bbddc7ce488642fb579f8b00f3a590007251",
        ),
        (
            "DEPOSIT_CONTRACT_ADDRESS",
            "0x00000000219ab540356cbb839cbe05303d7705fa",
        ),
        (
            "HISTORY_STORAGE_ADDRESS",
            "0x0000f90827f1c53a10cb7a02335b175320002935",
        ),
        (
            "WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS",
            "0x00000961ef480eb55e80d19ad83579a64c007002",
        ),
    ] {
        sample["systemContracts"][name] = json!(contract);
    }
    sample
}

#[test]
fn the_samples_of_the_eip_are_answered() {
    use EthereumHardfork::{Cancun, Prague};
    let (cancun, prague, none) = (sample(Cancun), sample(Prague), Value::Null);
    for (last, timestamp, [current, next, last_config]) in [
        (Prague, PRAGUE_OF_HOODI - 1, [&cancun, &prague, &prague]),
        (Prague, PRAGUE_OF_HOODI, [&prague, &none, &none]),
        (Cancun, PRAGUE_OF_HOODI, [&cancun, &none, &none]),
    ] {
        let found = configs(&hoodi(last), genesis(Network::Hoodi), timestamp);
        let expected = json!({"current": current, "next": next, "last": last_config});
        assert_eq!(found, Some(expected), "{last} {timestamp}");
    }
}

/// The ids of Shanghai, Cancun, Prague, Osaka, BPO1 and BPO2, from geth's tests
/// (core/forkid/forkid_test.go).
#[test]
fn fork_ids_are_those_of_the_networks() {
    use EthereumHardfork as Fork;
    let forks = [
        Fork::Shanghai,
        Fork::Cancun,
        Fork::Prague,
        Fork::Osaka,
        Fork::Bpo1,
        Fork::Bpo2,
    ];
    for (network, ids) in [
        (
            Network::Mainnet,
            [
                "0xdce96c2d",
                "0x9f3d2254",
                "0xc376cf8b",
                "0x5167e2a6",
                "0xcba2a1c0",
                "0x07c9462e",
            ],
        ),
        (
            Network::Sepolia,
            [
                "0xf7f9bc08",
                "0x88cf81d9",
                "0xed88b5fd",
                "0xe2ae4999",
                "0x56078a1e",
                "0x268956b6",
            ],
        ),
        (
            Network::Hoodi,
            [
                "0xbef71d30",
                "0xbef71d30",
                "0x0929e24e",
                "0xe7e0e7ff",
                "0x3893353e",
                "0x23aa1351",
            ],
        ),
    ] {
        let spec = ChainSpec::of_network(network);
        for (fork, id) in forks.into_iter().zip(ids) {
            let ForkCondition::Timestamp(at) = spec.fork(fork) else {
                panic!("{network} {fork} has no time");
            };
            let head = at.max(genesis(network).timestamp);
            let found = configs(&spec, genesis(network), head).unwrap();
            assert_eq!(found["current"]["forkId"], id, "{network} {fork}");
            let since = if at > genesis(network).timestamp {
                at
            } else {
                0
            };
            assert_eq!(found["current"]["activationTime"], since);
        }
    }
}

#[test]
fn networks_have_their_deposit_contracts() {
    for (network, theirs) in [
        (Network::Mainnet, EthSpec::mainnet()),
        (Network::Sepolia, EthSpec::sepolia()),
        // Hoodi's is mainnet's.
        (Network::Hoodi, EthSpec::mainnet()),
    ] {
        let ours = ChainSpec::of_network(network);
        let ours = ours.rules_since(0).deposit_contract_address();
        assert_eq!(ours, theirs.deposit_contract_address(), "{network}");
    }
}

/// Each case: the times of Shanghai, Cancun, Prague, Osaka and BPO1 to BPO5, if there are any, a
/// head, and the times of the current, the next and the last fork.
#[test]
fn forks_are_found_by_their_times() {
    const NONE: Option<u64> = None;
    let all = |times: [u64; 9]| times.map(Some);
    let some = |times: &[u64]| {
        let mut all = [NONE; 9];
        times
            .iter()
            .enumerate()
            .for_each(|(index, at)| all[index] = Some(*at));
        all
    };
    let each = all([10, 20, 30, 40, 50, 60, 70, 80, 90]);
    let mut gap = some(&[10, 20, 30, 40]);
    (gap[5], gap[7]) = (Some(60), Some(80));
    for (times, head, expected) in [
        (some(&[]), 7, [NONE; 3]),
        (each, 9, [NONE, Some(10), Some(90)]),
        (each, 10, [Some(10), Some(20), Some(90)]),
        (each, 79, [Some(70), Some(80), Some(90)]),
        (each, 80, [Some(80), Some(90), Some(90)]),
        (each, 90, [Some(90), NONE, NONE]),
        (each, u64::MAX, [Some(90), NONE, NONE]),
        // A fork that is not scheduled is passed over; geth names none after it.
        (gap, 40, [Some(40), Some(60), Some(80)]),
        (gap, 60, [Some(60), Some(80), Some(80)]),
        // Forks that begin together are one.
        (some(&[10, 20, 20, 20]), 20, [Some(20), NONE, NONE]),
        (some(&[10, 20, 20, 20]), 10, [Some(10), Some(20), Some(20)]),
    ] {
        let mut spec = ChainSpec::of_network(Network::Mainnet);
        spec.forks
            .retain(|(fork, _)| *fork <= EthereumHardfork::Paris);
        let times = FORKS.into_iter().zip(times);
        spec.forks
            .extend(times.filter_map(|(fork, at)| Some((fork, ForkCondition::Timestamp(at?)))));
        let found = configs(&spec, genesis(Network::Mainnet), head).unwrap();
        let found = ["current", "next", "last"].map(|name| found[name]["activationTime"].as_u64());
        assert_eq!(found, expected, "{head}");
    }
}

/// Sepolia's head before Amsterdam and in it.
#[test]
fn amsterdam_has_no_configuration() {
    let spec = ChainSpec::of_network(Network::Sepolia);
    let amsterdam = 1_791_294_816;
    let before = configs(&spec, genesis(Network::Sepolia), amsterdam - 1).unwrap();
    assert_eq!(before["current"]["forkId"], "0x268956b6");
    assert_eq!([&before["next"], &before["last"]], [&Value::Null; 2]);
    assert_eq!(configs(&spec, genesis(Network::Sepolia), amsterdam), None);
}
