//! The networks whose rules are known without a genesis.

use std::fmt;

use alloy_consensus::constants::{HOODI_GENESIS_HASH, MAINNET_GENESIS_HASH, SEPOLIA_GENESIS_HASH};
use alloy_eips::{
    BlobScheduleBlobParams, eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS, eip7840::BlobParams,
};
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::{Address, B256, U256, address};

use super::ChainSpec;

/// A public network. Its chain id and genesis hash identify it, and fix its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Ethereum mainnet.
    Mainnet,
    /// The test network for applications.
    Sepolia,
    /// The test network for validators.
    Hoodi,
}

impl Network {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mainnet, Self::Sepolia, Self::Hoodi];

    /// Its name in options and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mainnet => "mainnet",
            Self::Sepolia => "sepolia",
            Self::Hoodi => "hoodi",
        }
    }

    /// The chain id (EIP-155).
    #[must_use]
    pub const fn chain_id(self) -> u64 {
        match self {
            Self::Mainnet => 1,
            Self::Sepolia => 11_155_111,
            Self::Hoodi => 560_048,
        }
    }

    /// The hash of block 0.
    #[must_use]
    pub const fn genesis_hash(self) -> B256 {
        match self {
            Self::Mainnet => MAINNET_GENESIS_HASH,
            Self::Sepolia => SEPOLIA_GENESIS_HASH,
            Self::Hoodi => HOODI_GENESIS_HASH,
        }
    }

    /// The contract that validators deposit at (EIP-6110).
    const fn deposit_contract(self) -> Address {
        match self {
            Self::Mainnet | Self::Hoodi => MAINNET_DEPOSIT_CONTRACT_ADDRESS,
            Self::Sepolia => address!("7f02C3E3c98b133055B8B348B2Ac625669Ed295D"),
        }
    }

    /// The network with this chain id and genesis hash. Neither alone is enough: anvil forks have
    /// the ids of networks, and Ethereum Classic has mainnet's genesis.
    #[must_use]
    pub fn of_chain(chain_id: u64, genesis: B256) -> Option<Self> {
        let is_it =
            |network: &Self| (network.chain_id(), network.genesis_hash()) == (chain_id, genesis);
        Self::ALL.into_iter().find(is_it)
    }

    /// All forks with a date, and the terminal total difficulty as the condition of Paris.
    fn forks(self) -> Vec<(EthereumHardfork, ForkCondition)> {
        match self {
            Self::Mainnet => EthereumHardfork::mainnet().into(),
            Self::Sepolia => EthereumHardfork::sepolia().into(),
            Self::Hoodi => EthereumHardfork::hoodi().into(),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ChainSpec {
    /// The rules of a network.
    #[must_use]
    pub fn of_network(network: Network) -> Self {
        let mut forks = network.forks();
        let at = |forks: &[(EthereumHardfork, ForkCondition)], fork| {
            let found = forks.iter().find(|(name, _)| *name == fork);
            found.map_or(ForkCondition::Never, |(_, at)| *at)
        };
        let scheduled = [
            (EthereumHardfork::Bpo1, BlobParams::bpo1()),
            (EthereumHardfork::Bpo2, BlobParams::bpo2()),
        ];
        let scheduled = scheduled.map(|(fork, params)| match at(&forks, fork) {
            ForkCondition::Timestamp(at) => Some((at, params)),
            _ => None,
        });
        let (terminal_total_difficulty, merge_netsplit) = match at(&forks, EthereumHardfork::Paris)
        {
            ForkCondition::TTD {
                total_difficulty,
                fork_block,
                ..
            } => (total_difficulty, fork_block),
            _ => (U256::ZERO, None),
        };
        // alloy names the DAO fork at block 0 for networks that never had it.
        let is_mainnet = network == Network::Mainnet;
        forks.retain(|(fork, _)| match fork {
            EthereumHardfork::Paris => false,
            EthereumHardfork::Dao => is_mainnet,
            _ => true,
        });
        Self {
            chain_id: network.chain_id(),
            forks,
            terminal_total_difficulty: Some(terminal_total_difficulty),
            merge_netsplit,
            blob_schedule: BlobScheduleBlobParams::mainnet()
                .with_scheduled(scheduled.into_iter().flatten()),
            deposit_contract: network.deposit_contract(),
            dao_fork_supported: is_mainnet,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use alloy_consensus::Header;

    use super::*;
    use crate::network::FeeRules;

    #[test]
    fn a_pair_of_chain_id_and_genesis_selects_its_network() {
        for network in Network::ALL {
            let (id, genesis) = (network.chain_id(), network.genesis_hash());
            assert_eq!(Network::of_chain(id, genesis), Some(network));
            assert_eq!(Network::of_chain(id + 1, genesis), None, "{network}");
            assert_eq!(Network::of_chain(id, B256::ZERO), None, "{network}");
            assert_eq!(ChainSpec::of_network(network).chain_id(), id);
        }
        let mixed = Network::of_chain(1, Network::Hoodi.genesis_hash());
        assert_eq!(mixed, None);
    }

    /// First timestamps of Shanghai, Cancun, Prague, Osaka, BPO1, BPO2 and Amsterdam, from the
    /// networks' announcements.
    #[test]
    fn forks_begin_when_the_networks_activated_them() {
        use EthereumHardfork as Fork;
        const NEVER: u64 = u64::MAX;
        let forks = [
            Fork::Shanghai,
            Fork::Cancun,
            Fork::Prague,
            Fork::Osaka,
            Fork::Bpo1,
            Fork::Bpo2,
            Fork::Amsterdam,
        ];
        for (network, times) in [
            (
                Network::Mainnet,
                [
                    1_681_338_455,
                    1_710_338_135,
                    1_746_612_311,
                    1_764_798_551,
                    1_765_290_071,
                    1_767_747_671,
                    NEVER,
                ],
            ),
            (
                Network::Sepolia,
                [
                    1_677_557_088,
                    1_706_655_072,
                    1_741_159_776,
                    1_760_427_360,
                    1_761_017_184,
                    1_761_607_008,
                    1_791_294_816,
                ],
            ),
            (
                Network::Hoodi,
                [
                    0,
                    0,
                    1_742_999_832,
                    1_761_677_592,
                    1_762_365_720,
                    1_762_955_544,
                    NEVER,
                ],
            ),
        ] {
            let spec = ChainSpec::of_network(network);
            for (fork, time) in forks.into_iter().zip(times) {
                let has = |timestamp| spec.rules(20_000_000, timestamp, true).has(fork);
                let is_dated = time != NEVER;
                assert_eq!(spec.is_dated(fork), is_dated, "{network} {fork}");
                assert_eq!(has(time), is_dated, "{network} {fork}");
                assert!(time == 0 || !has(time - 1), "{network} {fork}");
            }
            assert!(!spec.is_dated(Fork::Paris), "the merge has no date");
        }
    }

    #[test]
    fn only_mainnet_had_the_dao_fork_and_blocks_before_the_merge_under_old_rules() {
        use EthereumHardfork as Fork;
        for (network, number, has_london, is_dao_fork) in [
            (Network::Mainnet, 1_920_000, false, true),
            (Network::Mainnet, 12_964_999, false, false),
            (Network::Mainnet, 12_965_000, true, false),
            (Network::Sepolia, 0, true, false),
            (Network::Hoodi, 0, true, false),
        ] {
            let spec = ChainSpec::of_network(network);
            let rules = spec.rules(number, 0, false);
            assert_eq!(rules.has(Fork::London), has_london, "{network} {number}");
            let mark = rules.dao_fork_extra_data();
            assert_eq!(mark.is_some(), is_dao_fork, "{network} {number}");
        }
        let terminal = |network, total: u128| {
            ChainSpec::of_network(network).merged_after(U256::from(1), Some(U256::from(total)))
        };
        assert!(terminal(Network::Mainnet, 58_750_000_000_000_000_000_000));
        assert!(!terminal(Network::Mainnet, 58_749_999_999_999_999_999_999));
        assert!(terminal(Network::Sepolia, 17_000_000_000_000_000));
        assert!(!terminal(Network::Sepolia, 16_999_999_999_999_999));
        assert!(terminal(Network::Hoodi, 0));
    }

    /// [`FeeRules`] has its own schedule, which followed blocks are compared with.
    #[test]
    fn blob_parameters_are_those_of_the_price() {
        for network in Network::ALL {
            let spec = ChainSpec::of_network(network);
            let [by_network, by_id] = [
                FeeRules::of_genesis(spec.clone()),
                FeeRules::of_chain(network.chain_id()),
            ];
            let params = [
                BlobParams::cancun(),
                BlobParams::prague(),
                BlobParams::prague(),
                BlobParams::bpo1(),
                BlobParams::bpo2(),
            ];
            let forks = [
                EthereumHardfork::Cancun,
                EthereumHardfork::Prague,
                EthereumHardfork::Osaka,
                EthereumHardfork::Bpo1,
                EthereumHardfork::Bpo2,
            ];
            for (fork, params) in forks.into_iter().zip(params) {
                let ForkCondition::Timestamp(timestamp) = spec.fork(fork) else {
                    panic!("{network} {fork} has no time");
                };
                let header = Header {
                    number: 20_000_000,
                    timestamp,
                    excess_blob_gas: Some(100_000_000),
                    requests_hash: (fork != EthereumHardfork::Cancun).then_some(B256::ZERO),
                    ..Header::default()
                };
                let expected = header.blob_fee(params);
                assert_eq!(
                    by_network.fees(&header).blob_gas_price,
                    expected,
                    "{network} {fork}"
                );
                assert_eq!(
                    by_id.fees(&header).blob_gas_price,
                    expected,
                    "{network} {fork}"
                );
            }
        }
    }
}
