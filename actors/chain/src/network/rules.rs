//! The rules of one block.

use alloy_eips::eip7840::BlobParams;
use alloy_evm::eth::spec::EthExecutorSpec;
use alloy_hardforks::{EthereumHardfork, EthereumHardforks, ForkCondition};
use alloy_primitives::Address;

use super::ChainSpec;

/// The rules of one block: what is active at its number and timestamp, before or after the merge.
///
/// The merge depends on the parent's total difficulty and not on a number, so it is part of this
/// value, from which revm reads its forks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    spec: &'a ChainSpec,
    number: u64,
    timestamp: u64,
    merged: bool,
}

impl ChainSpec {
    /// The rules of the block with this number and timestamp.
    ///
    /// `merged` says whether its parent's total difficulty has reached the terminal one
    /// ([`Self::merged_after`]).
    #[must_use]
    pub(crate) const fn rules(&self, number: u64, timestamp: u64, merged: bool) -> Rules<'_> {
        Rules::new(self, number, timestamp, merged)
    }

    /// The rules of the genesis block's header: its time-based forks need no total difficulty, as
    /// in geth.
    #[must_use]
    pub(crate) const fn genesis_rules(&self, timestamp: u64) -> Rules<'_> {
        self.rules(0, timestamp, true)
    }
}

impl<'a> Rules<'a> {
    const fn new(spec: &'a ChainSpec, number: u64, timestamp: u64, merged: bool) -> Self {
        Self {
            spec,
            number,
            timestamp,
            merged,
        }
    }

    /// Whether `fork` is active in the block.
    #[must_use]
    pub(crate) fn has(&self, fork: EthereumHardfork) -> bool {
        self.ethereum_fork_activation(fork)
            .active_at_timestamp_or_number(self.timestamp, self.number)
    }

    /// Whether the block is under proof of stake (EIP-3675).
    #[must_use]
    pub(crate) const fn merged(&self) -> bool {
        self.merged
    }

    /// The chain's rules.
    #[must_use]
    pub(crate) const fn spec(&self) -> &'a ChainSpec {
        self.spec
    }

    /// The time-based fork that is active before the merge, if any; such a block is invalid.
    #[must_use]
    pub(crate) fn fork_before_merge(&self) -> Option<EthereumHardfork> {
        let at = self.spec.fork(EthereumHardfork::Shanghai);
        (!self.merged
            && self.has(EthereumHardfork::London)
            && at.active_at_timestamp(self.timestamp))
        .then_some(EthereumHardfork::Shanghai)
    }

    /// Blob target, limits and price curve (EIP-4844, 7691, 7892); `None` before Cancun.
    #[must_use]
    pub(crate) fn blob_params(&self) -> Option<BlobParams> {
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

    /// Whether the block is between Constantinople and Petersburg, which meters SSTORE by EIP-1283.
    #[must_use]
    pub(crate) fn meters_net_gas(&self) -> bool {
        let since = |fork| self.spec.fork(fork).active_at_block(self.number);
        since(EthereumHardfork::Constantinople) && !since(EthereumHardfork::Petersburg)
    }

    /// Whether the balances of the DAO move in the block (EIP-779).
    #[must_use]
    pub(crate) fn is_dao_fork(&self) -> bool {
        self.spec.dao_fork_supported
            && self
                .spec
                .fork(EthereumHardfork::Dao)
                .transitions_at_block(self.number)
    }

    /// Extra data that the block must (`Ok`) or must not (`Err`) have because of the DAO fork
    /// (EIP-779: the first ten blocks); `None` if the fork demands nothing.
    #[must_use]
    pub(crate) fn dao_fork_extra_data(&self) -> Option<Result<&'static [u8], &'static [u8]>> {
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
            // `execute` makes its state change, not alloy-evm's executor.
            (EthereumHardfork::Dao, _) => ForkCondition::Never,
            // revm has no Constantinople of its own; see `meters_net_gas`.
            (EthereumHardfork::Petersburg, _) => self.spec.fork(EthereumHardfork::Constantinople),
            // As in geth, time-based forks wait for the merge and for London.
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
