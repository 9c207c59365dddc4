//! The rules of a chain, and the rules of one block of it.

use alloy_eips::{BlobScheduleBlobParams, eip7840::BlobParams};
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_genesis::{ChainConfig, Genesis};
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::{Address, U256};

/// The rules of a chain: forks, blob schedule, deposit contract, chain id.
///
/// Frontier to Osaka and BPO1 to BPO5 are followed, before the merge with ethash and after it with proof of stake. The
/// seal of a block before the merge is not checked; its difficulty is.
#[derive(Clone, Debug)]
pub struct ChainSpec {
    chain_id: u64,
    forks: Vec<(EthereumHardfork, ForkCondition)>,
    terminal_total_difficulty: Option<U256>,
    blob_schedule: BlobScheduleBlobParams,
    deposit_contract: Address,
    dao_fork_supported: bool,
}

/// Why a genesis cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The chain id is missing or zero, and transactions could not be told from those of other chains.
    #[error("genesis config has no chainId")]
    NoChainId,
    /// Another consensus engine than ethash and proof of stake.
    #[error("consensus engine {0} is not supported, only ethash and proof of stake are")]
    Engine(&'static str),
    /// A fork that this program does not know the rules of.
    #[error("fork {0} is scheduled and not supported")]
    Fork(EthereumHardfork),
    /// A fork is scheduled though one that comes before it is not, or comes later.
    #[error("fork {later} is scheduled before {earlier}, or without it")]
    Order {
        /// The fork that has to come first.
        earlier: EthereumHardfork,
        /// The fork that comes too early.
        later: EthereumHardfork,
    },
    /// eip155Block and eip158Block are one fork (Spurious Dragon).
    #[error("eip155Block {eip155:?} and eip158Block {eip158:?} differ")]
    SpuriousDragon {
        /// eip155Block.
        eip155: Option<u64>,
        /// eip158Block.
        eip158: Option<u64>,
    },
    /// Forks by time need the merge, and the merge needs a total difficulty.
    #[error("fork {0} is scheduled without terminalTotalDifficulty")]
    NoMerge(EthereumHardfork),
    /// A blob parameter fork without its parameters, or with parameters that make no schedule.
    #[error("blobSchedule has no usable entry for {0}")]
    BlobSchedule(EthereumHardfork),
    /// A value of the genesis block is out of its range.
    #[error("genesis {field} {value} is out of range")]
    OutOfRange {
        /// Its name in genesis.json.
        field: &'static str,
        /// Its value.
        value: u128,
    },
}

/// Blob gas price above which a genesis is refused: e^64 wei is more than exists.
const GENESIS_BLOB_PRICE_EXPONENT_MAX: u128 = 64;

impl ChainSpec {
    /// Reads the rules from a genesis.
    ///
    /// # Errors
    /// A [`SpecError`] where the chain has rules that this program does not have.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, SpecError> {
        let config = &genesis.config;
        refuse_unsupported(config)?;
        let forks = forks(config);
        check_order(&forks)?;
        let spec = Self {
            chain_id: config.chain_id,
            forks,
            terminal_total_difficulty: config.terminal_total_difficulty,
            blob_schedule: config.blob_schedule_blob_params(),
            // As geth: without an address no log is a deposit (the crate that reads them would take mainnet's).
            deposit_contract: config.deposit_contract_address.unwrap_or_default(),
            dao_fork_supported: config.dao_fork_support,
        };
        spec.check_blob_schedule(config)?;
        spec.check_genesis_header(genesis)?;
        Ok(spec)
    }

    /// The chain id.
    #[must_use]
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The rules of the block with this number and timestamp.
    ///
    /// `merged` says whether its parent's total difficulty has reached the terminal one ([`Self::merged_after`]).
    #[must_use]
    pub const fn rules(&self, number: u64, timestamp: u64, merged: bool) -> Rules<'_> {
        Rules {
            spec: self,
            number,
            timestamp,
            merged,
        }
    }

    /// The rules of the genesis block's header: its forks by time need no total difficulty, as in geth.
    #[must_use]
    pub const fn genesis_rules(&self, timestamp: u64) -> Rules<'_> {
        self.rules(0, timestamp, true)
    }

    /// Whether a child of a block with this difficulty and total difficulty is made by proof of stake.
    ///
    /// Where nobody knows the total difficulty the chain is followed from a block above the merge.
    #[must_use]
    pub fn merged_after(&self, difficulty: U256, total_difficulty: Option<U256>) -> bool {
        match (self.terminal_total_difficulty, total_difficulty) {
            (Some(terminal), Some(total)) => total >= terminal,
            (Some(_), None) => difficulty.is_zero(),
            (None, _) => false,
        }
    }

    fn fork(&self, fork: EthereumHardfork) -> ForkCondition {
        self.forks
            .iter()
            .find(|(name, _)| *name == fork)
            .map_or(ForkCondition::Never, |(_, at)| *at)
    }

    fn check_blob_schedule(&self, config: &ChainConfig) -> Result<(), SpecError> {
        for (fork, name) in [
            (EthereumHardfork::Bpo1, "bpo1"),
            (EthereumHardfork::Bpo2, "bpo2"),
            (EthereumHardfork::Bpo3, "bpo3"),
            (EthereumHardfork::Bpo4, "bpo4"),
            (EthereumHardfork::Bpo5, "bpo5"),
        ] {
            if self.fork(fork) != ForkCondition::Never && !config.blob_schedule.contains_key(name) {
                return Err(SpecError::BlobSchedule(fork));
            }
        }
        let schedule = &self.blob_schedule;
        let fixed = [
            (EthereumHardfork::Cancun, &schedule.cancun),
            (EthereumHardfork::Prague, &schedule.prague),
            (EthereumHardfork::Osaka, &schedule.osaka),
        ];
        let scheduled = schedule
            .scheduled
            .iter()
            .map(|(_, params)| (EthereumHardfork::Bpo1, params));
        for (fork, params) in fixed.into_iter().chain(scheduled) {
            // Blob counts far above any network's would overflow gas arithmetic.
            let plausible = params.max_blob_count <= u64::from(u16::MAX)
                && params.target_blob_count <= params.max_blob_count;
            if !plausible || params.max_blob_count == 0 || params.update_fraction == 0 {
                return Err(SpecError::BlobSchedule(fork));
            }
        }
        Ok(())
    }

    fn check_genesis_header(&self, genesis: &Genesis) -> Result<(), SpecError> {
        if let Some(fee) = genesis.base_fee_per_gas
            && fee > u128::from(u64::MAX / 2)
        {
            return Err(SpecError::OutOfRange {
                field: "baseFeePerGas",
                value: fee,
            });
        }
        if let Some(number) = genesis.number
            && number != 0
        {
            return Err(SpecError::OutOfRange {
                field: "number",
                value: number.into(),
            });
        }
        let fraction = self
            .genesis_rules(genesis.timestamp)
            .blob_params()
            .map_or(1, |params| params.update_fraction);
        for (field, gas) in [
            ("excessBlobGas", genesis.excess_blob_gas),
            ("blobGasUsed", genesis.blob_gas_used),
        ] {
            let gas = u128::from(gas.unwrap_or_default());
            if gas / fraction > GENESIS_BLOB_PRICE_EXPONENT_MAX {
                return Err(SpecError::OutOfRange { field, value: gas });
            }
        }
        Ok(())
    }
}

/// The rules of one block: what is active at its number and timestamp, before or after the merge.
///
/// The merge is a fact of the parent's total difficulty and of no number, so revm is told through this value.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    spec: &'a ChainSpec,
    number: u64,
    timestamp: u64,
    merged: bool,
}

impl Rules<'_> {
    /// Whether `fork` is active in the block.
    #[must_use]
    pub fn has(&self, fork: EthereumHardfork) -> bool {
        self.ethereum_fork_activation(fork)
            .active_at_timestamp_or_number(self.timestamp, self.number)
    }

    /// Whether the block is made by proof of stake (EIP-3675).
    #[must_use]
    pub const fn merged(&self) -> bool {
        self.merged
    }

    /// The chain's rules.
    #[must_use]
    pub const fn spec(&self) -> &ChainSpec {
        self.spec
    }

    /// The fork by time whose hour has come before the merge; such a block cannot be.
    #[must_use]
    pub fn fork_before_merge(&self) -> Option<EthereumHardfork> {
        let at = self.spec.fork(EthereumHardfork::Shanghai);
        (!self.merged
            && self.has(EthereumHardfork::London)
            && at.active_at_timestamp(self.timestamp))
        .then_some(EthereumHardfork::Shanghai)
    }

    /// Blob target, limits and price curve (EIP-4844, 7691, 7892); `None` before Cancun.
    #[must_use]
    pub fn blob_params(&self) -> Option<BlobParams> {
        let schedule = &self.spec.blob_schedule;
        if !self.has(EthereumHardfork::Cancun) {
            return None;
        }
        if let Some(params) = schedule.active_scheduled_params_at_timestamp(self.timestamp) {
            return Some(*params);
        }
        Some(if self.has(EthereumHardfork::Osaka) {
            schedule.osaka
        } else if self.has(EthereumHardfork::Prague) {
            schedule.prague
        } else {
            schedule.cancun
        })
    }

    /// Whether the block is Constantinople's and not Petersburg's yet: SSTORE is metered by EIP-1283.
    #[must_use]
    pub fn meters_net_gas(&self) -> bool {
        let since = |fork| self.spec.fork(fork).active_at_block(self.number);
        since(EthereumHardfork::Constantinople) && !since(EthereumHardfork::Petersburg)
    }

    /// Whether the balances of the DAO move in the block (EIP-779).
    #[must_use]
    pub fn is_dao_fork(&self) -> bool {
        self.spec.dao_fork_supported
            && self
                .spec
                .fork(EthereumHardfork::Dao)
                .transitions_at_block(self.number)
    }

    /// Extra data that the block must (`Ok`) or must not (`Err`) have because of the DAO fork
    /// (EIP-779: the first ten blocks); `None` where the fork says nothing.
    #[must_use]
    pub fn dao_fork_extra_data(&self) -> Option<Result<&'static [u8], &'static [u8]>> {
        /// Blocks from the fork on that carry the mark.
        const DAO_FORK_BLOCKS: u64 = 10;
        const DAO_FORK_EXTRA_DATA: &[u8] = b"dao-hard-fork";
        let ForkCondition::Block(first) = self.spec.fork(EthereumHardfork::Dao) else {
            return None;
        };
        (self.number.checked_sub(first)? < DAO_FORK_BLOCKS).then_some(
            if self.spec.dao_fork_supported {
                Ok(DAO_FORK_EXTRA_DATA)
            } else {
                Err(DAO_FORK_EXTRA_DATA)
            },
        )
    }
}

impl EthereumHardforks for Rules<'_> {
    fn ethereum_fork_activation(&self, fork: EthereumHardfork) -> ForkCondition {
        match (fork, self.spec.fork(fork)) {
            (EthereumHardfork::Paris, _) => {
                if self.merged {
                    ForkCondition::ZERO_BLOCK
                } else {
                    ForkCondition::Never
                }
            }
            // Its state change is made here and not by the executor.
            (EthereumHardfork::Dao, _) => ForkCondition::Never,
            // revm has no Constantinople of its own; see `meters_net_gas`.
            (EthereumHardfork::Petersburg, _) => self.spec.fork(EthereumHardfork::Constantinople),
            // As geth: forks by time wait for the merge and for London.
            (_, at @ ForkCondition::Timestamp(_)) => {
                let london = self
                    .spec
                    .fork(EthereumHardfork::London)
                    .active_at_block(self.number);
                if self.merged && london {
                    at
                } else {
                    ForkCondition::Never
                }
            }
            (_, at) => at,
        }
    }
}

impl EthExecutorSpec for Rules<'_> {
    fn deposit_contract_address(&self) -> Option<Address> {
        Some(self.spec.deposit_contract)
    }
}

fn refuse_unsupported(config: &ChainConfig) -> Result<(), SpecError> {
    if config.chain_id == 0 {
        return Err(SpecError::NoChainId);
    }
    if config.clique.is_some() {
        return Err(SpecError::Engine("clique"));
    }
    if config.parlia.is_some() {
        return Err(SpecError::Engine("parlia"));
    }
    if config.amsterdam_time.is_some() {
        return Err(SpecError::Fork(EthereumHardfork::Amsterdam));
    }
    if config.bogota_time.is_some() {
        return Err(SpecError::Fork(EthereumHardfork::Bogota));
    }
    if config.eip155_block != config.eip158_block {
        return Err(SpecError::SpuriousDragon {
            eip155: config.eip155_block,
            eip158: config.eip158_block,
        });
    }
    let timed = [
        (EthereumHardfork::Shanghai, config.shanghai_time),
        (EthereumHardfork::Cancun, config.cancun_time),
        (EthereumHardfork::Prague, config.prague_time),
        (EthereumHardfork::Osaka, config.osaka_time),
    ];
    if config.terminal_total_difficulty.is_none()
        && let Some((fork, _)) = timed.iter().find(|(_, at)| at.is_some())
    {
        return Err(SpecError::NoMerge(*fork));
    }
    Ok(())
}

/// Every fork in the order in which they have to come.
fn forks(config: &ChainConfig) -> Vec<(EthereumHardfork, ForkCondition)> {
    use EthereumHardfork as Fork;
    let block = |at: Option<u64>| at.map_or(ForkCondition::Never, ForkCondition::Block);
    let time = |at: Option<u64>| at.map_or(ForkCondition::Never, ForkCondition::Timestamp);
    vec![
        (Fork::Frontier, ForkCondition::ZERO_BLOCK),
        (Fork::Homestead, block(config.homestead_block)),
        (Fork::Dao, block(config.dao_fork_block)),
        (Fork::Tangerine, block(config.eip150_block)),
        (Fork::SpuriousDragon, block(config.eip158_block)),
        (Fork::Byzantium, block(config.byzantium_block)),
        (Fork::Constantinople, block(config.constantinople_block)),
        // As geth: where it is not named it came with Constantinople.
        (
            Fork::Petersburg,
            block(config.petersburg_block.or(config.constantinople_block)),
        ),
        (Fork::Istanbul, block(config.istanbul_block)),
        (Fork::MuirGlacier, block(config.muir_glacier_block)),
        (Fork::Berlin, block(config.berlin_block)),
        (Fork::London, block(config.london_block)),
        (Fork::ArrowGlacier, block(config.arrow_glacier_block)),
        (Fork::GrayGlacier, block(config.gray_glacier_block)),
        (Fork::Shanghai, time(config.shanghai_time)),
        (Fork::Cancun, time(config.cancun_time)),
        (Fork::Prague, time(config.prague_time)),
        (Fork::Osaka, time(config.osaka_time)),
        (Fork::Bpo1, time(config.bpo1_time)),
        (Fork::Bpo2, time(config.bpo2_time)),
        (Fork::Bpo3, time(config.bpo3_time)),
        (Fork::Bpo4, time(config.bpo4_time)),
        (Fork::Bpo5, time(config.bpo5_time)),
    ]
}

/// Each fork needs those before it, no later than itself; some change nothing that others build on and may be left out.
fn check_order(forks: &[(EthereumHardfork, ForkCondition)]) -> Result<(), SpecError> {
    use EthereumHardfork as Fork;
    let optional = |fork| {
        matches!(
            fork,
            Fork::Dao
                | Fork::MuirGlacier
                | Fork::ArrowGlacier
                | Fork::GrayGlacier
                | Fork::Bpo1
                | Fork::Bpo2
                | Fork::Bpo3
                | Fork::Bpo4
                | Fork::Bpo5
        )
    };
    let mut last: Option<(Fork, ForkCondition)> = None;
    let mut missing = None;
    for &(fork, at) in forks {
        if at == ForkCondition::Never {
            if !optional(fork) {
                missing = missing.or(Some(fork));
            }
            continue;
        }
        if let Some(earlier) = missing {
            return Err(SpecError::Order {
                earlier,
                later: fork,
            });
        }
        let late = |earlier: ForkCondition| match (earlier, at) {
            (ForkCondition::Block(a), ForkCondition::Block(b))
            | (ForkCondition::Timestamp(a), ForkCondition::Timestamp(b)) => a > b,
            _ => false,
        };
        if let Some((earlier, earlier_at)) = last
            && late(earlier_at)
        {
            return Err(SpecError::Order {
                earlier,
                later: fork,
            });
        }
        last = Some((fork, at));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use alloy_evm::spec_by_timestamp_and_block_number;
    use alloy_genesis::{CliqueConfig, ParliaConfig};
    use revm::primitives::hardfork::SpecId;

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
    fn the_merge_is_where_total_difficulty_says() {
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
        // Forks by time wait for it.
        assert!(!spec.rules(48, 480, false).has(EthereumHardfork::Shanghai));
        assert_eq!(
            spec.rules(48, 480, false).fork_before_merge(),
            Some(EthereumHardfork::Shanghai)
        );
        assert_eq!(spec.rules(48, 480, true).fork_before_merge(), None);
    }

    #[test]
    fn petersburg_comes_with_constantinople_where_it_is_not_named() {
        let mut genesis = fixture::genesis();
        genesis.config.petersburg_block = None;
        let spec = ChainSpec::from_genesis(&genesis).unwrap();
        assert!(spec.rules(12, 120, false).has(EthereumHardfork::Petersburg));
        assert!(!spec.rules(11, 110, false).has(EthereumHardfork::Petersburg));
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut Genesis), expected: SpecError) {
        let mut genesis = fixture::genesis();
        change(&mut genesis);
        assert_eq!(
            ChainSpec::from_genesis(&genesis).map(|spec| spec.chain_id()),
            Err(expected)
        );
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        use EthereumHardfork as Fork;
        refused(|genesis| genesis.config.chain_id = 0, SpecError::NoChainId);
        refused(
            |genesis| {
                genesis.config.clique = Some(CliqueConfig {
                    period: None,
                    epoch: None,
                })
            },
            SpecError::Engine("clique"),
        );
        refused(
            |genesis| {
                genesis.config.parlia = Some(ParliaConfig {
                    period: None,
                    epoch: None,
                })
            },
            SpecError::Engine("parlia"),
        );
        refused(
            |genesis| genesis.config.amsterdam_time = Some(u64::MAX),
            SpecError::Fork(Fork::Amsterdam),
        );
        refused(
            |genesis| genesis.config.bogota_time = Some(u64::MAX),
            SpecError::Fork(Fork::Bogota),
        );
        refused(
            |genesis| genesis.config.terminal_total_difficulty = None,
            SpecError::NoMerge(Fork::Shanghai),
        );
        refused(
            |genesis| genesis.config.eip155_block = Some(5),
            SpecError::SpuriousDragon {
                eip155: Some(5),
                eip158: Some(6),
            },
        );
        refused(
            |genesis| genesis.config.berlin_block = None,
            SpecError::Order {
                earlier: Fork::Berlin,
                later: Fork::London,
            },
        );
        refused(
            |genesis| genesis.config.cancun_time = Some(389),
            SpecError::Order {
                earlier: Fork::Shanghai,
                later: Fork::Cancun,
            },
        );
        refused(
            |genesis| genesis.config.bpo1_time = Some(479),
            SpecError::Order {
                earlier: Fork::Osaka,
                later: Fork::Bpo1,
            },
        );
        refused(
            |genesis| assert!(genesis.config.blob_schedule.remove("bpo2").is_some()),
            SpecError::BlobSchedule(Fork::Bpo2),
        );
        refused(
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
        refused(
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
        refused(
            |genesis| genesis.number = Some(1),
            SpecError::OutOfRange {
                field: "number",
                value: 1,
            },
        );
        refused(
            |genesis| genesis.base_fee_per_gas = Some(u128::MAX),
            SpecError::OutOfRange {
                field: "baseFeePerGas",
                value: u128::MAX,
            },
        );
        refused(
            |genesis| genesis.excess_blob_gas = Some(u64::MAX),
            SpecError::OutOfRange {
                field: "excessBlobGas",
                value: u64::MAX.into(),
            },
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
}
