use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::*;
use crate::network::Network;

impl RawChain {
    fn rules_to_follow(&self) -> HeaderRules {
        HeaderRules::on(self.spec.clone())
    }

    /// Changes one thing in the header of block `number`, whose hash is then its own. Only the
    /// rules refuse it, unless the change breaks the link to the parent.
    #[track_caller]
    fn check_refused(
        &self,
        name: &str,
        number: usize,
        change: impl FnOnce(&mut Header),
        expected: impl Into<HeaderRefusal>,
    ) {
        let (parent, good) = (self.parent(number), &self.blocks[number].header);
        let mut child = good.clone();
        change(&mut child);
        assert_ne!(child.hash_slow(), good.hash_slow(), "{name}");
        let hash = parent.hash_slow();
        let expected = expected.into();
        let is_link = matches!(
            expected,
            HeaderRefusal::Broken(VerifyError::ParentHash { .. } | VerifyError::Number { .. })
        );
        let refused = self.rules_to_follow().check_child(parent, hash, &child);
        assert_eq!(refused, Err(expected), "{name}");
        let off = HeaderRules::off().check_child(parent, hash, &child);
        assert_eq!(off.is_err(), is_link, "{name} without rules");
    }
}

#[test]
fn every_header_of_execution_apis_obeys_the_rules() {
    let chain = RawChain::new();
    let rules = chain.rules_to_follow();
    for number in 1..chain.blocks.len() {
        let (parent, child) = (chain.parent(number), &chain.blocks[number].header);
        let checked = rules.check_child(parent, parent.hash_slow(), child);
        assert_eq!(checked, Ok(()), "block {number}");
    }
}

#[test]
fn each_broken_rule_has_its_refusal() {
    let chain = RawChain::new();
    let parent = chain.parent(54);
    let good = &chain.blocks[54].header;
    let other = B256::repeat_byte(7);
    chain.check_refused(
        "parent hash",
        54,
        |header| header.parent_hash = other,
        VerifyError::ParentHash {
            expected: parent.hash_slow(),
            found: other,
        },
    );
    chain.check_refused(
        "number",
        54,
        |header| header.number = 55,
        VerifyError::Number {
            expected: 54,
            found: 55,
        },
    );
    for found in [parent.timestamp, parent.timestamp - 1] {
        chain.check_refused(
            "timestamp",
            54,
            |header| header.timestamp = found,
            VerifyError::Timestamp {
                parent: parent.timestamp,
                found,
            },
        );
    }
    chain.check_refused(
        "extra data",
        54,
        |header| header.extra_data = Bytes::from_static(&[0; 33]),
        VerifyError::ExtraData { max: 32, found: 33 },
    );
    let step = parent.gas_limit / 1_024 - 1;
    let (min, max) = (parent.gas_limit - step, parent.gas_limit + step);
    for found in [min - 1, max + 1] {
        chain.check_refused(
            "gas limit",
            54,
            |header| header.gas_limit = found,
            VerifyError::GasLimit { min, max, found },
        );
    }
    chain.check_refused(
        "gas used",
        54,
        |header| header.gas_used = header.gas_limit + 1,
        VerifyError::GasUsedAboveLimit {
            limit: good.gas_limit,
            found: good.gas_limit + 1,
        },
    );
    for (name, found) in [
        ("base fee of 1", Some(1)),
        ("no base fee", None),
        ("base fee", good.base_fee_per_gas.map(|fee| fee + 1)),
    ] {
        chain.check_refused(
            name,
            54,
            |header| header.base_fee_per_gas = found,
            VerifyError::BaseFee {
                expected: good.base_fee_per_gas,
                found,
            },
        );
    }
    for found in [None, good.excess_blob_gas.map(|gas| gas + 1)] {
        chain.check_refused(
            "excess blob gas",
            54,
            |header| header.excess_blob_gas = found,
            VerifyError::ExcessBlobGas {
                expected: good.excess_blob_gas,
                found,
            },
        );
    }
    // BPO2 allows 21 blobs.
    let (max, found) = (21 * 131_072, 22 * 131_072);
    chain.check_refused(
        "blob gas used",
        54,
        |header| header.blob_gas_used = Some(found),
        VerifyError::BlobGasAboveLimit { max, found },
    );
}

#[test]
fn the_seal_is_empty_after_the_merge_and_the_difficulty_follows_before_it() {
    let chain = RawChain::new();
    let zero = U256::ZERO;
    for number in [36, 37, 54] {
        if number > 36 {
            chain.check_refused(
                "difficulty after the merge",
                number,
                |header| header.difficulty = U256::ONE,
                VerifyError::Difficulty {
                    expected: zero,
                    found: U256::ONE,
                },
            );
        }
        let found = B64::with_last_byte(1);
        chain.check_refused(
            "nonce after the merge",
            number,
            |header| header.nonce = found,
            VerifyError::Nonce {
                expected: B64::ZERO,
                found,
            },
        );
        let found = B256::repeat_byte(7);
        chain.check_refused(
            "ommers after the merge",
            number,
            |header| header.ommers_hash = found,
            VerifyError::OmmersAfterMerge { found },
        );
    }
    let expected = chain.blocks[20].header.difficulty;
    let found = expected + U256::ONE;
    chain.check_refused(
        "difficulty before the merge",
        20,
        |header| header.difficulty = found,
        VerifyError::Difficulty { expected, found },
    );
    // A chain of today that claims to be before its merge.
    let mut before = RawChain::new();
    before.blocks[38].header.difficulty = U256::from(131_072);
    before.blocks[39].header.parent_hash = before.blocks[38].header.hash_slow();
    before.check_refused(
        "Shanghai before the merge",
        39,
        |header| header.difficulty = U256::from(131_072),
        VerifyError::ForkBeforeMerge {
            fork: EthereumHardfork::Shanghai,
        },
    );
    // The total difficulty of the genesis is its own.
    let merged =
        RawChain::with_rules(|genesis| genesis.config.terminal_total_difficulty = Some(zero));
    let genesis = merged.parent(1);
    let first = Header {
        nonce: B64::ZERO,
        ..merged.blocks[1].header.clone()
    };
    let rules = merged.rules_to_follow();
    let refused = rules.check_child(genesis, genesis.hash_slow(), &first);
    let expected = VerifyError::Difficulty {
        expected: zero,
        found: first.difficulty,
    };
    assert!(!first.difficulty.is_zero());
    assert_eq!(refused, Err(expected.into()));
}

#[test]
fn members_are_present_exactly_from_their_fork_on() {
    type Change = fn(&mut Header);
    let chain = RawChain::new();
    let table: [(&str, usize, Change, VerifyError); 10] = [
        (
            "base fee early",
            26,
            |header| header.base_fee_per_gas = Some(7),
            VerifyError::BaseFee {
                expected: None,
                found: Some(7),
            },
        ),
        (
            "withdrawals root absent",
            39,
            |header| header.withdrawals_root = None,
            VerifyError::WithdrawalsRootPresence {
                expected: true,
                found: false,
            },
        ),
        (
            "withdrawals root early",
            38,
            |header| header.withdrawals_root = Some(B256::ZERO),
            VerifyError::WithdrawalsRootPresence {
                expected: false,
                found: true,
            },
        ),
        (
            "blob gas used absent",
            42,
            |header| header.blob_gas_used = None,
            VerifyError::BlobGasUsedPresence {
                expected: true,
                found: false,
            },
        ),
        (
            "blob gas used early",
            41,
            |header| header.blob_gas_used = Some(0),
            VerifyError::BlobGasUsed {
                expected: None,
                found: Some(0),
            },
        ),
        (
            "excess blob gas early",
            41,
            |header| header.excess_blob_gas = Some(0),
            VerifyError::ExcessBlobGas {
                expected: None,
                found: Some(0),
            },
        ),
        (
            "beacon root absent",
            42,
            |header| header.parent_beacon_block_root = None,
            VerifyError::ParentBeaconBlockRoot {
                expected: true,
                found: false,
            },
        ),
        (
            "beacon root early",
            41,
            |header| header.parent_beacon_block_root = Some(B256::ZERO),
            VerifyError::ParentBeaconBlockRoot {
                expected: false,
                found: true,
            },
        ),
        (
            "requests hash absent",
            45,
            |header| header.requests_hash = None,
            VerifyError::RequestsHashPresence {
                expected: true,
                found: false,
            },
        ),
        (
            "requests hash early",
            44,
            |header| header.requests_hash = Some(B256::ZERO),
            VerifyError::RequestsHashPresence {
                expected: false,
                found: true,
            },
        ),
    ];
    for (name, number, change, expected) in table {
        chain.check_refused(name, number, change, expected);
    }
}

/// What follows from the parent, for a block one slot after it.
fn child_of(spec: &ChainSpec, parent: &Header) -> Header {
    let (number, timestamp) = (parent.number + 1, parent.timestamp + 12);
    let rules = spec.rules(number, timestamp, true);
    let since = |fork| rules.has(fork).then_some(B256::ZERO);
    Header {
        parent_hash: parent.hash_slow(),
        number,
        timestamp,
        gas_limit: parent.gas_limit,
        base_fee_per_gas: base_fee(&rules, parent),
        withdrawals_root: since(EthereumHardfork::Shanghai),
        blob_gas_used: since(EthereumHardfork::Cancun).map(|_| 0),
        excess_blob_gas: excess_blob_gas(&rules, parent),
        parent_beacon_block_root: since(EthereumHardfork::Cancun),
        requests_hash: since(EthereumHardfork::Prague),
        block_access_list_hash: since(EthereumHardfork::Amsterdam),
        slot_number: since(EthereumHardfork::Amsterdam).map(|_| parent.number),
        ..Header::default()
    }
}

/// A header of a network, 24 seconds before this time.
fn header_before(spec: &ChainSpec, timestamp: u64) -> Header {
    let parent = Header {
        number: 25_000_000,
        timestamp: timestamp - 36,
        gas_limit: 60_000_000,
        base_fee_per_gas: Some(1_000_000_000),
        ..Header::default()
    };
    child_of(spec, &parent)
}

/// Sepolia is the network whose Amsterdam has a date.
#[test]
fn a_chain_crosses_from_osaka_to_amsterdam() {
    const AMSTERDAM: u64 = 1_791_294_816;
    let spec = ChainSpec::of_network(Network::Sepolia);
    let rules = HeaderRules::on(spec.clone());
    let mut parent = header_before(&spec, AMSTERDAM);
    for number in 0..4 {
        let child = child_of(&spec, &parent);
        let is_amsterdam = child.timestamp >= AMSTERDAM;
        assert_eq!(is_amsterdam, number > 0);
        assert_eq!(child.slot_number.is_some(), is_amsterdam);
        let check = |child: &Header| rules.check_child(&parent, parent.hash_slow(), child);
        assert_eq!(check(&child), Ok(()));
        let mut members = [(false, false), (false, true), (true, false), (true, true)].to_vec();
        members.retain(|members| *members != (is_amsterdam, is_amsterdam));
        for (has_list, has_slot) in members {
            let wrong = Header {
                block_access_list_hash: has_list.then_some(B256::ZERO),
                slot_number: has_slot.then_some(7),
                ..child.clone()
            };
            let refused = check(&wrong);
            assert!(
                matches!(refused, Err(HeaderRefusal::Broken(_))),
                "{has_list} {has_slot}: {refused:?}"
            );
        }
        parent = child;
    }
}

/// A build that does not know the date of a fork is to blame, not the nodes. They are not excused
/// for anything else.
#[test]
fn a_block_of_a_fork_without_a_date_is_nobodys_fault() {
    const AFTER_BPO2: u64 = 1_900_000_000;
    for network in [Network::Mainnet, Network::Hoodi] {
        let spec = ChainSpec::of_network(network);
        let parent = header_before(&spec, AFTER_BPO2);
        let rules = HeaderRules::on(spec.clone());
        let good = child_of(&spec, &parent);
        let check = |change: &dyn Fn(&mut Header)| {
            let mut child = good.clone();
            change(&mut child);
            rules.check_child(&parent, parent.hash_slow(), &child)
        };
        let set_members = |header: &mut Header| {
            header.block_access_list_hash = Some(B256::ZERO);
            header.slot_number = Some(1);
        };
        assert_eq!(check(&|_| ()), Ok(()), "{network}");
        let number = good.number;
        let unknown = Err(HeaderRefusal::UnknownFork { number });
        assert_eq!(check(&set_members), unknown, "{network}");
        // The fork may change other rules too.
        let other_rules = check(&|header| {
            set_members(header);
            header.excess_blob_gas = Some(7);
        });
        assert_eq!(other_rules, unknown, "{network}");
        for broken in [
            check(&|header| header.slot_number = Some(1)),
            check(&|header| header.block_access_list_hash = Some(B256::ZERO)),
            check(&|header| {
                set_members(header);
                header.timestamp = parent.timestamp;
            }),
            check(&|header| {
                set_members(header);
                header.parent_hash = B256::ZERO;
            }),
        ] {
            assert!(
                matches!(broken, Err(HeaderRefusal::Broken(_))),
                "{broken:?}"
            );
        }
        // No fork before Osaka has a successor with these members.
        let early = Header {
            timestamp: 1_746_700_000,
            ..header_before(&spec, AFTER_BPO2)
        };
        let mut child = child_of(&spec, &early);
        set_members(&mut child);
        let refused = rules.check_child(&early, early.hash_slow(), &child);
        assert!(
            matches!(refused, Err(HeaderRefusal::Broken(_))),
            "{refused:?}"
        );
    }
}

#[test]
fn a_block_is_early_if_it_is_far_ahead_of_the_clock() {
    let spec = ChainSpec::of_network(Network::Hoodi);
    for (ahead, is_early) in [
        (-100, false),
        (0, false),
        (15, false),
        (16, true),
        (900, true),
    ] {
        let now = 1_800_000_000_u64;
        let header = Header {
            timestamp: now.saturating_add_signed(ahead),
            ..Header::default()
        };
        let rules = HeaderRules::on(spec.clone());
        assert_eq!(rules.is_early(&header, now), is_early, "{ahead}");
        assert!(!HeaderRules::off().is_early(&header, now), "{ahead}");
    }
    let last = Header {
        timestamp: u64::MAX,
        ..Header::default()
    };
    assert!(!HeaderRules::on(spec).is_early(&last, u64::MAX));
}

#[test]
fn the_mode_and_what_is_known_decide_whether_rules_apply() {
    use HeaderRulesMode::{Auto, Off, On};
    let spec = || Some(ChainSpec::of_network(Network::Mainnet));
    for (mode, spec, is_on) in [
        (Auto, spec(), Ok(true)),
        (Auto, None, Ok(false)),
        (On, spec(), Ok(true)),
        (On, None, Err(RulesUnknown)),
        (Off, spec(), Ok(false)),
        (Off, None, Ok(false)),
    ] {
        let rules = HeaderRules::new(mode, spec);
        assert_eq!(rules.map(|rules| rules.is_on()), is_on, "{mode:?}");
    }
    assert_eq!(HeaderRulesMode::default(), Auto);
}

/// Neither header was checked before, so each may state any number.
#[test]
fn no_pair_of_headers_overflows() {
    const EXTREMES: [u64; 10] = [
        0,
        1,
        2,
        5_000,
        131_072,
        u64::MAX / 2,
        u64::MAX / 2 + 1,
        u64::MAX - 131_072,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(16);
    let mut any = || match rng.next_u32() % 3 {
        0 => rng.next_u64(),
        pick => EXTREMES[(rng.next_u32() as usize + pick as usize) % EXTREMES.len()],
    };
    let specs = Network::ALL.map(ChainSpec::of_network).into_iter();
    let specs: Vec<_> = specs.chain([RawChain::new().spec]).collect();
    for _ in 0..20_000 {
        let [parent, child] = [0, 1].map(|_| Header {
            number: any(),
            timestamp: any(),
            difficulty: [U256::ZERO, U256::MAX, U256::from(any())][any() as usize % 3],
            gas_limit: any(),
            gas_used: any(),
            base_fee_per_gas: Some(any()),
            excess_blob_gas: Some(any()),
            blob_gas_used: Some(any()),
            ..Header::default()
        });
        for spec in &specs {
            for merged in [false, true] {
                // Everything, whatever check would come first.
                let rules = spec.rules(child.number, child.timestamp, merged);
                let _ = base_fee(&rules, &parent);
                let _ = excess_blob_gas(&rules, &parent);
                let _ = super::super::difficulty(&rules, &parent, child.timestamp);
            }
            let linked = Header {
                parent_hash: parent.hash_slow(),
                number: parent.number.wrapping_add(1),
                timestamp: parent.timestamp.wrapping_add(1),
                gas_used: 0,
                ..child.clone()
            };
            let rules = HeaderRules::on(spec.clone());
            let _ = rules.check_child(&parent, linked.parent_hash, &linked);
            let _ = rules.is_early(&child, parent.timestamp);
        }
    }
}
