//! The rules of a chain.

use alloy_eips::{
    BlobScheduleBlobParams,
    eip7594::MAX_BLOBS_PER_TX_FUSAKA,
    eip7840::{BLOB_BASE_COST, BlobParams},
};
use alloy_genesis::{ChainConfig, Genesis};
use alloy_hardforks::{EthereumHardfork, ForkCondition};
use alloy_primitives::{Address, U256};

/// The rules of a chain: forks, blob schedule, deposit contract, chain id.
///
/// Frontier to Osaka and BPO1 to BPO5 are supported, with ethash before the merge and proof of
/// stake after it; Amsterdam only for following ([`Self::to_follow`]). The seal of a block before
/// the merge is not checked; its difficulty is.
#[derive(Clone, Debug)]
pub struct ChainSpec {
    pub(super) chain_id: u64,
    pub(super) forks: Vec<(EthereumHardfork, ForkCondition)>,
    pub(super) terminal_total_difficulty: Option<U256>,
    /// The block at which clients that do not know of the merge are separated, in fork ids alone.
    pub(super) merge_netsplit: Option<u64>,
    pub(super) blob_schedule: BlobScheduleBlobParams,
    pub(super) deposit_contract: Address,
    pub(super) dao_fork_supported: bool,
}

/// Why a genesis is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The chain id is missing or zero, so transactions of other chains could not be recognized.
    #[error("genesis config has no chainId")]
    NoChainId,
    /// A consensus engine other than ethash and proof of stake.
    #[error("consensus engine {0} is not supported, only ethash and proof of stake are")]
    Engine(&'static str),
    /// A fork whose rules are not supported.
    #[error("fork {0} is scheduled and not supported")]
    Fork(EthereumHardfork),
    /// A fork is scheduled although an earlier one is missing, or comes later.
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
    /// Time-based forks need the merge, and the merge needs a terminal total difficulty.
    #[error("fork {0} is scheduled without terminalTotalDifficulty")]
    NoMerge(EthereumHardfork),
    /// A fork has no blob parameters, or unusable ones.
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

/// Maximum number of blobs that a schedule may allow in a block; far above any network's.
const BLOBS_MAX: u64 = u16::MAX as u64;
/// Maximum of a genesis's excess blob gas, and of its blob gas used; far above any network's. What
/// follows from them is computed in 64 bits: at this bound, neither their sum nor the product of
/// blob gas used and [`BLOBS_MAX`] can overflow (EIP-7918).
const GENESIS_BLOB_GAS_MAX: u64 = 1 << 40;
/// Amsterdam's entry in the blobSchedule of a genesis.
const AMSTERDAM_BLOBS: &str = "amsterdam";
/// Highest base fee in a genesis, in wei; it must have room to rise.
const GENESIS_BASE_FEE_MAX: u128 = u64::MAX as u128 / 2;

impl ChainSpec {
    /// Reads the rules from a genesis, for executing the chain's blocks.
    ///
    /// # Errors
    /// A [`SpecError`] if the chain's rules are not supported.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, SpecError> {
        if genesis.config.amsterdam_time.is_some() {
            return Err(SpecError::Fork(EthereumHardfork::Amsterdam));
        }
        Self::to_follow(genesis)
    }

    /// Reads the rules from a genesis, for following the chain: its headers are checked and nothing
    /// is executed, so that Amsterdam may be scheduled.
    ///
    /// # Errors
    /// A [`SpecError`] if the rules of the chain's headers are not known.
    pub fn to_follow(genesis: &Genesis) -> Result<Self, SpecError> {
        let config = &genesis.config;
        refuse_unsupported(config)?;
        let forks = forks(config);
        check_order(&forks)?;
        let spec = Self {
            chain_id: config.chain_id,
            forks,
            terminal_total_difficulty: config.terminal_total_difficulty,
            merge_netsplit: config.merge_netsplit_block,
            blob_schedule: blob_schedule(config),
            // As in geth, no log is a deposit without an address; alloy-evm's default is mainnet's
            // address.
            deposit_contract: config.deposit_contract_address.unwrap_or_default(),
            dao_fork_supported: config.dao_fork_support,
        };
        spec.check_blob_schedule(config)?;
        check_genesis_header(genesis)?;
        Ok(spec)
    }

    /// The chain id.
    #[must_use]
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Whether a child of a block with this difficulty and total difficulty is under proof of
    /// stake.
    ///
    /// If the total difficulty is unknown, a difficulty of zero shows that the merge is past.
    #[must_use]
    pub(crate) fn merged_after(&self, difficulty: U256, total_difficulty: Option<U256>) -> bool {
        match (self.terminal_total_difficulty, total_difficulty) {
            (Some(terminal), Some(total)) => total >= terminal,
            (Some(_), None) => difficulty.is_zero(),
            (None, _) => false,
        }
    }

    /// Whether it is known when `fork` becomes active.
    #[must_use]
    pub(crate) fn is_dated(&self, fork: EthereumHardfork) -> bool {
        self.fork(fork) != ForkCondition::Never
    }

    /// When `fork` becomes active.
    pub(super) fn fork(&self, fork: EthereumHardfork) -> ForkCondition {
        self.forks
            .iter()
            .find(|(name, _)| *name == fork)
            .map_or(ForkCondition::Never, |(_, at)| *at)
    }

    fn check_blob_schedule(&self, config: &ChainConfig) -> Result<(), SpecError> {
        let schedule = &self.blob_schedule;
        check_blobs(EthereumHardfork::Cancun, &schedule.cancun)?;
        check_blobs(EthereumHardfork::Prague, &schedule.prague)?;
        check_blobs(EthereumHardfork::Osaka, &schedule.osaka)?;
        for (fork, name) in [
            (EthereumHardfork::Bpo1, "bpo1"),
            (EthereumHardfork::Bpo2, "bpo2"),
            (EthereumHardfork::Bpo3, "bpo3"),
            (EthereumHardfork::Bpo4, "bpo4"),
            (EthereumHardfork::Bpo5, "bpo5"),
        ] {
            if self.fork(fork) != ForkCondition::Never {
                let params = config.blob_schedule.get(name);
                check_blobs(fork, params.ok_or(SpecError::BlobSchedule(fork))?)?;
            }
        }
        let amsterdam = config.blob_schedule.get(AMSTERDAM_BLOBS);
        amsterdam.map_or(Ok(()), |params| {
            check_blobs(EthereumHardfork::Amsterdam, params)
        })
    }
}

/// The blob parameters of every fork. Where Amsterdam has none, those before it stay.
fn blob_schedule(config: &ChainConfig) -> BlobScheduleBlobParams {
    let mut schedule = config.blob_schedule_blob_params();
    // alloy (2.5) looks for "Amsterdam", which geth does not write.
    let amsterdam = config.blob_schedule.get(AMSTERDAM_BLOBS);
    if let Some((at, params)) = config.amsterdam_time.zip(amsterdam) {
        let params = params
            .with_blob_base_cost(BLOB_BASE_COST)
            .with_max_blobs_per_tx(MAX_BLOBS_PER_TX_FUSAKA);
        schedule.scheduled.push((at, params));
        schedule.scheduled.sort_by_key(|(at, _)| *at);
    }
    schedule
}

/// Checks that these parameters are usable.
fn check_blobs(fork: EthereumHardfork, params: &BlobParams) -> Result<(), SpecError> {
    let usable = (1..=BLOBS_MAX).contains(&params.max_blob_count)
        && params.target_blob_count <= params.max_blob_count
        && params.update_fraction > 0;
    usable.then_some(()).ok_or(SpecError::BlobSchedule(fork))
}

/// Checks that the values of the genesis block are within their bounds.
fn check_genesis_header(genesis: &Genesis) -> Result<(), SpecError> {
    let blob_gas = |gas: Option<u64>| gas.unwrap_or_default().into();
    for (field, value, max) in [
        ("number", genesis.number.unwrap_or_default().into(), 0),
        (
            "baseFeePerGas",
            genesis.base_fee_per_gas.unwrap_or_default(),
            GENESIS_BASE_FEE_MAX,
        ),
        (
            "excessBlobGas",
            blob_gas(genesis.excess_blob_gas),
            GENESIS_BLOB_GAS_MAX.into(),
        ),
        (
            "blobGasUsed",
            blob_gas(genesis.blob_gas_used),
            GENESIS_BLOB_GAS_MAX.into(),
        ),
    ] {
        if value > max {
            return Err(SpecError::OutOfRange { field, value });
        }
    }
    Ok(())
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
        (EthereumHardfork::Amsterdam, config.amsterdam_time),
    ];
    if config.terminal_total_difficulty.is_none()
        && let Some((fork, _)) = timed.iter().find(|(_, at)| at.is_some())
    {
        return Err(SpecError::NoMerge(*fork));
    }
    Ok(())
}

/// All forks in their required order.
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
        // As in geth, it comes with Constantinople if it is not named.
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
        (Fork::Amsterdam, time(config.amsterdam_time)),
    ]
}

/// Checks that each fork comes with all earlier ones, none of them later than itself. Forks that no
/// other fork builds on are optional.
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

#[cfg(all(test, feature = "all-tests"))]
mod tests;
